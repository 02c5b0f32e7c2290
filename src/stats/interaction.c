/* SPDX-License-Identifier: Apache-2.0 */
#include "stats/interaction.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/eigen.h"
#include "stats/project.h"

double qk__key_share(const qk_moments *q, const qk_moments *k)
{
    const size_t d = q->dim;
    const double trace = qk__trace(q), of_q = trace > 0 ? 1 / trace : 1,
                 of_k = 1 / qk__trace(k);
    double alone = 0, with = 0; /* over both traces, so that nothing overflows */
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++) {
            const double key = k->sum_xx[i * d + j] * of_k;
            alone += q->mean[i] * sqrt(of_q) * key * (q->mean[j] * sqrt(of_q));
            with += q->sum_xx[i * d + j] * of_q * key;
        }
    alone = fmax(alone, 0) * (double)q->count;
    const double all = alone + fmax(with, 0);
    return all > 0 ? alone / all : NAN;
}

/* L^T Cov(q) L of Cov(k) = L L^T, which has the eigenvalues of the product; each covariance over its trace.
 * root, half: [d][d] of scratch. */
static void join(const qk_moments *q, const qk_moments *k, double *root, double *half,
                 double *joint)
{
    const size_t d = q->dim;
    const double trace_q = qk__trace(q), trace_k = qk__trace(k);
    for (size_t i = 0; i < d * d; i++)
        half[i] = k->sum_xx[i] / trace_k;
    qk__cholesky(half, d, d, 64 * (double)d * DBL_EPSILON);
    for (size_t i = 0; i < d * d; i++)
        root[i] = half[i % d * d + i / d];
    for (size_t a = 0; a < d; a++)
        for (size_t i = 0; i < d; i++)
            half[a * d + i] = qk__dot(q->sum_xx + i * d + a, root + a * d + a, d - a) / trace_q;
    for (size_t a = 0; a < d; a++)
        for (size_t b = 0; b <= a; b++)
            joint[a * d + b] = joint[b * d + a] =
                qk__dot(root + a * d + a, half + b * d + a, d - a);
}

qk_status qk__score_rank(const qk_moments *q, const qk_moments *k, double *rank, qk_error *err)
{
    const size_t d = q->dim;
    const int64_t least = 2 * (int64_t)d;
    *rank = NAN;
    if (q->count < least || k->count < least || !(qk__trace(q) > 0) || !(qk__trace(k) > 0))
        return QK_OK;
    double *root = qk__calloc(3 * d * d + d, sizeof *root);
    if (!root)
        return qk__nomem(err);
    double *values = root + 3 * d * d, total = 0, sum = 0;
    join(q, k, root, root + d * d, root + 2 * d * d);
    qk_status status = qk__eigen_largest(root + 2 * d * d, d, d, values, NULL, err);
    for (size_t i = 0; i < d && status == QK_OK; i++)
        total += fmax(values[i], 0);
    if (status == QK_OK && total > 0)
        for (*rank = 0; sum < 0.9 * total; ++*rank)
            sum += fmax(values[(size_t)*rank], 0);
    free(root);
    return status;
}
