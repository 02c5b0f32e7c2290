/* SPDX-License-Identifier: Apache-2.0 */
/* Root mean square norms of panels of tokens. */
#ifndef QK_PREFILL_NORM_H
#define QK_PREFILL_NORM_H

#include <stdbool.h>
#include <stddef.h>

#include "prefill/rounding.h"
#include "model/model.h"

typedef struct qk_norm {
    qk_norm_kind kind;
    float eps;
    qk_rounding rounding;
    size_t width;
    float *weight; /* [width] */
} qk_norm;

/* Reads the weight of a norm from its tensor into norm->weight, of norm->width values. */
void qk__norm_fill(qk_norm *norm, const qk_tensor *tensor);

/* y = norm(x) for one panel of `width` features, which may be the same. */
void qk__norm_apply(const qk_norm *norm, const float *x, float *y);

#endif
