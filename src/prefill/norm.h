/* SPDX-License-Identifier: Apache-2.0 */
/* Root mean square norms of panels of tokens: what they are; kernels (panel_kernel.h) apply them. */
#ifndef QK_PREFILL_NORM_H
#define QK_PREFILL_NORM_H

#include <stddef.h>

#include "model/model.h"
#include "prefill/rounding.h"

typedef struct qk__norm {
    qk__norm_kind kind;
    float eps;
    qk__rounding rounding;
    size_t width;
    float *weight; /* [width] */
} qk__norm;

/* Reads the weight of a norm from its tensor into norm->weight, of norm->width values. */
void qk__norm_fill(qk__norm *norm, const qk__tensor *tensor);

#endif
