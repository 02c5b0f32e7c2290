/* SPDX-License-Identifier: Apache-2.0 */
/* One number per unit of a claim. A unit is a model where there are three or more models, else a group of query heads
 * that share their keys. */
#ifndef QK_REPORT_CLAIM_UNITS_H
#define QK_REPORT_CLAIM_UNITS_H

#include "report/sample.h"
#include "stats/significance.h"
#include "report/work.h"
#include "stats/layer_model.h"

enum { QK__ENOUGH_MODELS = 3 /* for a claim about models */ };

/* What one answer is about: numbers of the heads of a sample, NaN where a head has none or is left out. */
typedef struct qk__asked {
    const qk__sample *of;
    const double *y, *x; /* x NULL: there is none */
    /* the family or model that the answer is about, before its evidence; else "" */
    const char *name;
} qk__asked;

typedef struct qk__units {
    size_t count;
    double *values;
    size_t num_groups;
    double *groups;    /* means of groups of heads that share keys, whatever the units are */
    qk__layers layers; /* of these groups */
    size_t heads;      /* that have the number */
    size_t above;      /* heads above the bound */
    size_t models, first_model; /* models that have the number */
    double mean;                /* over heads, as in the tables of the page */
    double lean;    /* the share of heads above the bound, less the share of those below */
    bool of_models; /* a unit is a model, else a group */
} qk__units;

/* The units of y beside a bound. count 0: nothing has the number, or memory ran out (then the work has failed). Models
 * that have `base` count. */
qk__units qk__units_of(qk__work *work, const qk__asked *asked, const double *base,
                       double bound);

/* Heads of a layer, and neighbouring layers, resemble each other: so with too few models the layers are tested as
 * well. With enough models the groups of heads are tested as well, since a few models may agree by chance. The less
 * certain test counts, and so does the wider interval of groups and layers. counts: the numbers are shares of heads,
 * or other counts. */
qk__estimate qk__estimate_units(const qk__units *units, bool share);
qk__test qk__test_units(const qk__units *units, double against, bool counts);

#endif
