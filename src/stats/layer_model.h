/* SPDX-License-Identifier: Apache-2.0 */
/* What the layers of a model say of a mean or a trend where heads of a layer, and neighbouring layers, resemble
 * each other.
 *
 * A group of heads has its layer's effect and one of its own; layer effects are an autoregression over
 * depth. How large they are and how much a layer keeps of the one before is not known, and a dozen layers do
 * not tell it: so no single answer is used, but all of them, each with the weight that the data give it. */
#ifndef QK_STATS_LAYER_MODEL_H
#define QK_STATS_LAYER_MODEL_H

#include <stdbool.h>
#include <stddef.h>

/* A layer: the mean of its groups of heads that share keys. */
typedef struct qk__layer_mean {
    size_t series; /* layers of different models are independent */
    int index;
    double mean,
        noise; /* noise: variance of the mean, in units of that of a group: 1 / groups */
    double x;  /* for a trend: where the layer is */
} qk__layer_mean;

typedef struct qk__layers {
    size_t count;
    /* by series and index; room for as many as there may be is the caller's */
    qk__layer_mean *items;
    double within,
        degrees; /* sum of squares of groups about their layers, and its degrees of freedom */
} qk__layers;

/* The next group, by series and layer. */
void qk__layers_add(qk__layers *layers, size_t series, int index, double value);
/* Subtracts b's layers from a's, where both have one; the result is in a. */
void qk__layers_subtract(qk__layers *a, const qk__layers *b);
/* Over groups, each with equal weight. */
double qk__layers_mean(const qk__layers *layers);

enum { QK__LAYER_FITS = 57 };

/* The mean, or the slope over x, by each answer. */
typedef struct qk__layer_fit {
    size_t count;   /* 0: fewer than three layers, or nothing varies */
    double degrees; /* of Student's t */
    double value[QK__LAYER_FITS], error[QK__LAYER_FITS], weight[QK__LAYER_FITS];
} qk__layer_fit;

/* For one or two series, whose mean is that over all groups; a slope is of one series. */
qk__layer_fit qk__fit_layers(const qk__layers *layers, bool slope);
/* The probability that it is on that side (1: above, -1: below) of a number: a one-sided p-value for the other side.
 * NaN without a fit. */
double qk__layer_tail(const qk__layer_fit *fit, double number, int side);
/* The number below which it is with this probability, 0 < probability < 1; NaN without a fit. */
double qk__layer_quantile(const qk__layer_fit *fit, double probability);

#endif
