/* SPDX-License-Identifier: Apache-2.0 */
/* The colour of a value, and its number on an axis. Both follow from its column (tables.def), so a quantity has one
 * scale in all figures of a study, their bars and the page. */
#ifndef QK_FIGURE_SCALE_H
#define QK_FIGURE_SCALE_H

#include "draw/theme.h"
#include "schema/schema.h"

/* Numbers up to that magnitude are shown times 10 to exponent (a multiple of 3), as 0.2 to 200. */
typedef struct qk__power {
    int exponent;
    double factor;
    char text[40]; /* markup: " × 10<sup>3</sup>", or "" */
} qk__power;
/* Shares, correlations and the like are shown as they are. field NULL: a share. */
qk__power qk__power_for(const qk__field *field, double largest);

/* Above 0 the colours of one ramp, below 0 those of another, as deep for a value as for its opposite. Both begin with
 * the same pale colour, so nothing jumps at 0. */
typedef struct qk__scale {
    const qk__colormap *above, *below; /* below NULL: there are no negative values */
    double low, high;                  /* of the bar */
    double first;                      /* the value of the first colour: 0, or low */
    bool logarithmic;                  /* colours and bar; low is above 0, and first */
    bool cut;                          /* values beyond have the colours of the ends */
    const qk__theme *categories;       /* for values that are categories; else NULL */
    qk__power power;
} qk__scale;

/* The scale of the heads of all models, whose values are sorted. Correlations reach to 1; other numbers leave out the
 * outermost hundredth at each end, so that one head does not take all colours. */
qk__scale qk__scale_of_values(const qk__field *field, const double *sorted, size_t count);
/* Other numbers in the colours of a column: from low to high with 0, but plasticity from low on. An empty range is
 * widened. */
qk__scale qk__scale_between(qk__hue hue, double low, double high);
/* Differences, as far down as up: red grew, blue fell. */
qk__scale qk__scale_of_change(double most);
/* Weights that fall over powers of ten: from least to 1; smaller ones look like least. */
qk__scale qk__scale_of_weights(double least);
/* Counts and shares of what has no colours of its own. */
qk__scale qk__scale_of_amount(double most);

/* 0xrrggbb; *dark: a text on it is light. */
unsigned qk__scale_color(const qk__scale *scale, double value, bool *dark);
/* "#rrggbb"; returns out. */
const char *qk__hex(unsigned color, char out[8]);
/* The value at a share of the bar, and the share for a value: 0 to 1. */
double qk__bar_value(const qk__scale *scale, double share);
double qk__bar_share(const qk__scale *scale, double value);

#endif
