/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of norms. */
#include "prefill/norm.h"

#include <string.h>

#include "prefill/rounding.h"

void qk__norm_fill(qk__norm *norm, const qk__tensor *tensor)
{
    const float *values = qk__tensor_rows(tensor, 0, 1, norm->weight);
    if (values != norm->weight)
        memcpy(norm->weight, values, norm->width * sizeof *values);
    if (norm->kind != QK_NORM_GEMMA_SUM)
        qk__round_values(norm->rounding, norm->weight, norm->width);
}
