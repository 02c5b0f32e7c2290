/* SPDX-License-Identifier: Apache-2.0 */
/* ExpectedAttentionStats of kvpress: mean and covariance of queries before RoPE. */
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json_build.h"
#include "export/export.h"

/* kvpress leaves so many out of each text, whose vectors are unlike all others. */
enum { SINK = 4 };

typedef struct stats {
    float *mean, *cov; /* [heads][d], [heads][d][d] */
} stats;

static qk_status take_head(void *user, size_t place, const qk_moments *m, qk_error *err)
{
    const stats *s = user;
    const size_t d = m->dim;
    if (m->count < 2)
        return qk__fail(err, QK_ERR_DEGENERATE, "a covariance needs 2 rows, and there is %lld",
                        (long long)m->count);
    for (size_t i = 0; i < d; i++)
        QK_TRY(qk__export_float(m->mean[i], &s->mean[place * d + i], err));
    for (size_t i = 0; i < d * d; i++)
        QK_TRY(qk__export_float(m->sum_xx[i] / (double)(m->count - 1),
                                &s->cov[place * d * d + i], err));
    return QK_OK;
}

static qk_status make(qk__export *x, qk__grid *grid, stats *s, qk_error *err)
{
    const size_t heads = grid->layers * grid->heads[QK_QUERY];
    const json_int_t l = (json_int_t)grid->layers, h = (json_int_t)grid->heads[QK_QUERY],
                     d = (json_int_t)grid->dim;
    QK_TRY(QK__CREATE_ARRAYS(err, {&s->mean, heads * grid->dim, sizeof *s->mean},
                             {&s->cov, heads * grid->dim, grid->dim * sizeof *s->cov}));
    QK_TRY(qk__grid_each(grid, QK_QUERY, take_head, s, err));
    const qk__tensor_out tensors[] = {
        {.name = "query_mean", .dtype = "F32", .rank = 3, .shape = {l, h, d}, .data = s->mean},
        {.name = "query_cov", .dtype = "F32", .rank = 4, .shape = {l, h, d, d}, .data = s->cov},
    };
    QK_TRY(qk__export_tensors(x, tensors, 2, err));
    x->outcome->heads = heads;
    const char *dataset = x->settings->dataset ? x->settings->dataset : "";
    return qk__export_json(
        x, QK__EXPORT_CONFIG,
        json_pack("{s:I, s:I, s:I, s:o, s:o, s:I, s:I, s:I}", "num_layers", l, "num_heads", h,
                  "head_dim", d, "dataset_name", qk__json_text(dataset), "model_name",
                  qk__json_text(grid->run.results->model), "num_samples",
                  (json_int_t)grid->texts, "sample_seq_len", (json_int_t)grid->length, "n_sink",
                  (json_int_t)grid->settings.from_position),
        err);
}

qk_status qk__export_kvpress_stats(qk__export *x, qk_error *err)
{
    const int64_t from = x->settings->from_position;
    qk__grid grid;
    stats s = {0};
    if (from >= 0 && from < SINK)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "from-position: kvpress leaves out the first %d positions of a text: "
                        "give %d or more",
                        SINK, SINK);
    qk_status status = qk__export_open(&grid, x->settings, QK_STAGE_PRE_ROPE, false, SINK, err);
    if (status == QK_OK)
        status = make(x, &grid, &s, err);
    qk__grid_close(&grid);
    free(s.mean);
    free(s.cov);
    return status;
}
