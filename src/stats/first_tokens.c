/* SPDX-License-Identifier: Apache-2.0 */
/* How much the first component is the direction of the first tokens of texts: what it is without them. From moments
 * only, since moments of some rows can be taken out of those of all. */
#include "stats/first_tokens.h"

#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/moments.h"
#include "stats/project.h"

qk_status qk__add_positions(qk_accumulator **of, int64_t from, int64_t to,
                            const qk_block *block, qk_error *err)
{
    qk_status status = QK_OK;
    for (size_t r = 0; *of && r < block->rows; r++) {
        const size_t start = r;
        while (r < block->rows && block->position[r] >= from && block->position[r] < to)
            r++;
        if (r == start)
            continue;
        qk_block part = {
            .rows = r - start, .dim = block->dim, .position = block->position + start};
        if (block->f32)
            part.f32 = block->f32 + start * block->dim;
        else
            part.f64 = block->f64 + start * block->dim;
        status = qk__accumulator_add_block(*of, &part, false, err);
        if (status != QK_OK)
            qk_accumulator_free(of);
    }
    return status == QK_ERR_NOMEM ? status : QK_OK;
}

/* Sum over rows of their squared distances from the pooled mean along PC0; scratch has d values. */
static double spread_along(const qk_pca *pca, const qk_moments *m, double *scratch)
{
    if (m->count == 0)
        return 0;
    for (size_t i = 0; i < pca->dim; i++)
        scratch[i] = m->mean[i] - pca->mean[i];
    double step = qk__dot(pca->axes, scratch, pca->dim);
    double own = qk__quadratic_form(pca->axes, m->sum_xx, pca->dim, scratch);
    return (own > 0 ? own : 0) + (double)m->count * step * step;
}

/* Compares PC0 of the remaining rows with PC0 of all; there is none where these have no PCA. */
static qk_status compare_rest(const qk_pca *pca, const qk_pca_settings *settings,
                              const qk_moments *q, const qk_moments *k, qk_first_tokens *first,
                              qk_error *err)
{
    qk_pca *rest;
    qk_pca_settings one = *settings;
    one.components = 1;
    qk_status status = qk_pca_combined(q, k, &one, &rest, err);
    if (status == QK_ERR_DEGENERATE)
        return QK_OK;
    QK_TRY(status);
    first->cosine = fmin(fabs(qk__dot(pca->axes, rest->axes, pca->dim)), 1);
    first->category = (int)rest->category;
    qk_pca_free(&rest);
    return QK_OK;
}

static qk_status take_out(const qk_pca *pca, const qk_pca_settings *settings,
                          const qk_moments *q, const qk_moments *k, const qk_moments *q_first,
                          const qk_moments *k_first, qk_first_tokens *first, qk_error *err)
{
    qk_moments *q_rest, *k_rest = NULL;
    QK_TRY(qk__moments_without(q, q_first, &q_rest, err));
    qk_status status = qk__moments_without(k, k_first, &k_rest, err);
    if (status == QK_OK)
        status = compare_rest(pca, settings, q_rest, k_rest, first, err);
    qk_moments_free(&q_rest);
    qk_moments_free(&k_rest);
    return status;
}

qk_status qk__pca_first_tokens(const qk_pca *pca, const qk_pca_settings *settings,
                               const qk_moments *q, const qk_moments *k,
                               const qk_moments *q_first, const qk_moments *k_first,
                               qk_first_tokens *first, qk_error *err)
{
    *first = (qk_first_tokens){NAN, NAN, -1};
    if (!q_first || !k_first)
        return QK_OK;
    if (q_first->count == 0 && k_first->count == 0) {
        *first = (qk_first_tokens){0, 1, (int)pca->category};
        return QK_OK;
    }
    if (q->dim != pca->dim || k->dim != pca->dim || q_first->dim != pca->dim ||
        k_first->dim != pca->dim)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "dimensions differ: %zu of the axes, %zu, %zu, %zu and %zu of the rows",
                        pca->dim, q->dim, k->dim, q_first->dim, k_first->dim);
    double *scratch = qk__calloc(pca->dim, sizeof *scratch);
    if (!scratch)
        return qk__nomem(err);
    double all = spread_along(pca, q, scratch) + spread_along(pca, k, scratch);
    double of_first = spread_along(pca, q_first, scratch) + spread_along(pca, k_first, scratch);
    free(scratch);
    if (all > 0)
        first->share = fmin(of_first / all, 1);
    return take_out(pca, settings, q, k, q_first, k_first, first, err);
}
