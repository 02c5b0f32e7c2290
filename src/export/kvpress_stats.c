/* SPDX-License-Identifier: Apache-2.0 */
/* ExpectedAttentionStats of kvpress: mean and covariance of queries before RoPE. */
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json_build.h"
#include "export/export.h"
#include "export/head_grid.h"

/* kvpress leaves so many out of each text, whose vectors are unlike all others. */
enum { SINK = 4 };

typedef struct stats {
    float *mean, *cov; /* [heads][d], [heads][d][d] */
} stats;

static qk_status take_head(void *user, size_t place, const qk_moments *m, qk_error *err)
{
    const stats *s = user;
    const size_t d = m->dim;
    float *cov = s->cov + place * d * d;
    if (m->count < 2)
        return qk__fail(err, QK_ERR_DEGENERATE, "a covariance needs 2 rows, and there is %lld",
                        (long long)m->count);
    QK_TRY(qk__export_floats(m->mean, d, s->mean + place * d, err));
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++) {
            const double value = m->sum_xx[i * d + j] / (double)(m->count - 1);
            QK_TRY(qk__export_floats(&value, 1, &cov[i * d + j], err));
        }
    return QK_OK;
}

static qk_status write_stats(qk__export *x, const qk__grid *grid, const stats *s, qk_error *err)
{
    const int64_t l = (int64_t)grid->layers, h = (int64_t)grid->q_heads, d = (int64_t)grid->dim;
    const qk__tensor_out tensors[] = {
        {.name = "query_mean", .dtype = "F32", .rank = 3, .shape = {l, h, d}, .data = s->mean},
        {.name = "query_cov", .dtype = "F32", .rank = 4, .shape = {l, h, d, d}, .data = s->cov},
    };
    QK_TRY(qk__export_tensors(x, tensors, 2, err));
    return qk__export_json(
        x, QK__EXPORT_CONFIG,
        json_pack("{s:I, s:I, s:I, s:o, s:o, s:I, s:I, s:I}", "num_layers", (json_int_t)l,
                  "num_heads", (json_int_t)h, "head_dim", (json_int_t)d, "dataset_name",
                  qk__json_text(x->settings->dataset ? x->settings->dataset : ""), "model_name",
                  qk__json_text(grid->run.results->model), "num_samples",
                  (json_int_t)grid->texts, "sample_seq_len", (json_int_t)grid->length, "n_sink",
                  (json_int_t)grid->settings.from_position),
        err);
}

static qk_status make(qk__export *x, qk__grid *grid, stats *s, qk_error *err)
{
    const size_t heads = grid->layers * grid->q_heads, d = grid->dim;
    QK_TRY(QK__CREATE_ARRAYS(err, {&s->mean, heads * d, sizeof *s->mean},
                             {&s->cov, heads * d, d * sizeof *s->cov}));
    QK_TRY(qk__grid_each(grid, QK_QUERY, take_head, s, err));
    QK_TRY(write_stats(x, grid, s, err));
    x->outcome->layers = grid->layers;
    x->outcome->q_heads = grid->q_heads;
    x->outcome->dim = d;
    x->outcome->heads = heads;
    return QK_OK;
}

qk_status qk__export_kvpress_stats(qk__export *x, qk_error *err)
{
    const int64_t from = x->settings->from_position;
    const qk__grid_wish wish = {.stage = QK_STAGE_PRE_ROPE, .from = from < 0 ? SINK : from};
    qk__grid grid;
    stats s = {0};
    if (wish.from < SINK)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "from-position: kvpress leaves out the first %d positions of a text: "
                        "give %d or more",
                        SINK, SINK);
    qk_status status = qk__grid_open(&grid, x->settings, &wish, err);
    if (status == QK_OK)
        status = make(x, &grid, &s, err);
    qk__grid_close(&grid);
    free(s.mean);
    free(s.cov);
    return status;
}
