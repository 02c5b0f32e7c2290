/* SPDX-License-Identifier: Apache-2.0 */
/* Root mean square norms, lane by lane. */
#include "prefill/norm.h"

#include <math.h>
#include <string.h>

#include "prefill/panel_kernel.h"
#include "prefill/rounding.h"

/* Squares are summed in stretches, so that the error grows with the root of their number. */
enum { STRETCH = 64 };

void qk__norm_fill(qk__norm *norm, const qk__tensor *tensor)
{
    const float *values = qk__tensor_rows(tensor, 0, 1, norm->weight);
    if (values != norm->weight)
        memcpy(norm->weight, values, norm->width * sizeof *values);
    if (norm->kind != QK_NORM_GEMMA_SUM)
        qk__round_values(norm->rounding, norm->weight, norm->width);
}

static void sum_of_squares(const float *x, size_t width, float total[QK_LANES])
{
    memset(total, 0, QK_LANES * sizeof *total);
    for (size_t start = 0; start < width; start += STRETCH) {
        size_t end = width - start < STRETCH ? width : start + STRETCH;
        float sum[QK_LANES] = {0};
        for (size_t i = start; i < end; i++)
            for (size_t lane = 0; lane < QK_LANES; lane++)
                sum[lane] += x[i * QK_LANES + lane] * x[i * QK_LANES + lane];
        for (size_t lane = 0; lane < QK_LANES; lane++)
            total[lane] += sum[lane];
    }
}

void qk__norm_apply(const qk__norm *norm, const float *x, float *y)
{
    float scale[QK_LANES];
    sum_of_squares(x, norm->width, scale);
    for (size_t lane = 0; lane < QK_LANES; lane++)
        scale[lane] = 1 / sqrtf(scale[lane] / (float)norm->width + norm->eps);
    bool llama = norm->kind == QK_NORM_LLAMA;
    for (size_t i = 0; i < norm->width; i++) {
        const float *in = x + i * QK_LANES;
        float *out = y + i * QK_LANES;
        float weight = norm->weight[i];
        if (norm->kind == QK_NORM_GEMMA)
            weight = 1 + weight;
        for (size_t lane = 0; lane < QK_LANES; lane++)
            out[lane] = in[lane] * scale[lane];
        if (llama)
            qk__round_values(norm->rounding, out, QK_LANES);
        for (size_t lane = 0; lane < QK_LANES; lane++)
            out[lane] *= weight;
        qk__round_values(norm->rounding, out, QK_LANES);
    }
}
