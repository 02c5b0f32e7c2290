/* SPDX-License-Identifier: Apache-2.0 */
/* One number per unit of a claim: per model with three or more of them, else per group of query heads that share their
 * keys. */
#ifndef QK_REPORT_CLAIM_UNITS_H
#define QK_REPORT_CLAIM_UNITS_H

#include "report/sample.h"
#include "report/significance.h"
#include "report/work.h"
#include "stats/layer_model.h"

enum { QK__ENOUGH_MODELS = 3 /* for a claim about models */ };

/* What one answer is about: numbers of the heads of a sample, NaN where a head has none, or is not meant. */
typedef struct qk__asked {
    const qk__sample *of;
    const double *y, *x; /* x NULL: there is none */
    /* of the family or model that it is about, before its evidence; "" for none */
    const char *name;
} qk__asked;

typedef struct qk__units {
    size_t count;
    double *values;
    size_t num_groups;
    double *groups;             /* per group of heads that share keys, whatever the units are */
    qk__layers layers;          /* of these groups */
    size_t heads;               /* that have a number */
    size_t above;               /* of them, above the bound */
    size_t models, first_model; /* that have one */
    double mean;                /* over heads, as the tables of the page have it */
    double lean;    /* the share of heads above the bound, less the share of those below */
    bool of_models; /* a unit is a model, else a group */
} qk__units;

/* Of y beside a bound; count 0: nothing has the number, or memory ran out (then the work has failed). Models count as
 * those that have `base`. */
qk__units qk__units_of(qk__work *work, const qk__asked *asked, const double *base,
                       double bound);

/* Heads of a layer, and neighbouring layers, resemble each other: so of too few models the layers are looked at as
 * well, and with enough models the groups of heads, since a few models may agree by chance. The test is the less
 * certain one of the two, and so is the interval of groups and layers. counts: the numbers are shares of heads, or
 * other counts. */
qk__estimate qk__estimate_units(const qk__units *units, bool share);
qk__test qk__test_units(const qk__units *units, double against, bool counts);

#endif
