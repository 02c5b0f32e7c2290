/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of one synthetic head, its rows, and its entry in truth.json. synth.c calls
 * all three.
 *
 *     parameters.c   draws the parameters
 *     draw_rows.c    draws the rows
 *     truth.c        writes down the parameters and what follows from them */
#ifndef QK_SYNTH_PARAMETERS_H
#define QK_SYNTH_PARAMETERS_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <qkscope/capture.h>

#include "base/rng.h"

/* One pair of coordinates that turns with position. */
typedef struct qk__synth_plane {
    size_t x, y;
    double omega;
    double amplitude;
    double phase;
} qk__synth_plane;

typedef struct qk__synth_head {
    qk_head_id id;
    qk_head_id key; /* the key head attended to; id itself for a key head */
    size_t dim;
    double scale, exponent;
    double r;                /* correlation of a.x with t, without the planes */
    double alpha;            /* slope along a, per token */
    double *mean, *key_mean; /* [dim]; key_mean of the key head */
    double key_alpha;        /* slope of the key head */
    double *a;               /* [dim] unit vector of the drift */
    double *lambda;          /* [dim] eigenvalues, descending */
    double *basis;           /* [dim][dim] row j is b_j */
    size_t num_planes;
    qk__synth_plane *planes;
} qk__synth_head;

/* What a random stream is for: each head has one for each. */
enum { SYNTH_PARAMETERS, SYNTH_BASIS, SYNTH_POSITIONS, SYNTH_CONTENT };
void qk__synth_stream(qk__rng *rng, const qk_synth_settings *settings, qk_head_id id,
                      uint64_t purpose);

/* Middle and variance of the positions, which are uniform over the buckets. */
double qk__synth_center(const qk_synth_settings *settings);
double qk__synth_position_variance(const qk_synth_settings *settings);

double qk__synth_dot(const double *x, const double *y, size_t n);

/* Draws the parameters of a head; *head needs qk__synth_head_free. */
QK_MUST_CHECK qk_status qk__synth_head_draw(const qk_synth_settings *settings, qk_head_id id,
                                            qk__synth_head **head, qk_error *err);
void qk__synth_head_free(qk__synth_head **head);

/* Streams the rows of a head in order of example and position. */
typedef struct qk__synth_rows qk__synth_rows;
QK_MUST_CHECK qk_status qk__synth_rows_open(qk__synth_rows **rows,
                                            const qk_synth_settings *settings,
                                            const qk__synth_head *head, qk_error *err);
void qk__synth_rows_close(qk__synth_rows **rows);

/* Radians per token of the plane p of every head. */
double qk__synth_frequency(const qk_synth_settings *settings, size_t p);

/* Next rows, at most max_rows and at most a fixed number; block->rows == 0 at the end.
 * *strings (NULL without settings->strings) and the block live until the next call. */
void qk__synth_rows_next(qk__synth_rows *rows, size_t max_rows, qk_block *block,
                         const char *const **strings);

/* The head's object, NULL when out of memory; and the settings' object. */
json_t *qk__synth_truth_head(const qk_synth_settings *settings, const qk__synth_head *head);
json_t *qk__synth_truth_settings(const qk_synth_settings *settings);

#endif
