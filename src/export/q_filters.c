/* SPDX-License-Identifier: Apache-2.0 */
/* Q-Filters: for each key head, where its query heads point after RoPE. */
#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json_build.h"
#include "export/export.h"
#include "export/head_grid.h"
#include "stats/eigen.h"

/* The axis of a query head, with the sign of the mean; and the mean along it over the standard deviation. */
typedef struct filters {
    double *axes;     /* [heads][d] */
    double *sureness; /* [heads] */
    double *key_axes; /* [key heads][d] */
    float *q_filters; /* likewise, as written */
} filters;

/* The signs of normally distributed rows agree with that of the mean in 69 % of them there. */
static const double SURE = 0.5;

/* sum x x^T, not about the mean. */
static qk_status take_axis(const qk_moments *m, double *matrix, double *axis, double *sureness,
                           qk_error *err)
{
    const size_t d = m->dim;
    const double n = (double)m->count;
    double value, mean = 0;
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++)
            matrix[i * d + j] = m->sum_xx[i * d + j] + n * m->mean[i] * m->mean[j];
    QK_TRY(qk__eigen_largest(matrix, d, 1, &value, axis, err));
    if (!(value > 0))
        return qk__fail(err, QK_ERR_DEGENERATE, "all queries are 0");
    for (size_t i = 0; i < d; i++)
        mean += axis[i] * m->mean[i];
    for (size_t i = 0; i < d && mean < 0; i++)
        axis[i] = -axis[i];
    *sureness = fabs(mean) / sqrt(fmax(value / n - mean * mean, 0));
    return QK_OK;
}

static qk_status take_head(void *user, size_t place, const qk_moments *m, qk_error *err)
{
    const filters *f = user;
    double *matrix = qk__calloc(m->dim, m->dim * sizeof *matrix);
    if (!matrix)
        return qk__nomem(err);
    qk_status status = take_axis(m, matrix, f->axes + place * m->dim, &f->sureness[place], err);
    free(matrix);
    return status;
}

static qk_status warn_unsure(qk__export *x, qk__grid *grid, const filters *f, qk_error *err)
{
    enum { TOLD = 12 };
    qk__buffer names = {0};
    qk_status status = QK_OK;
    for (size_t i = 0; i < grid->layers * grid->q_heads && status == QK_OK; i++) {
        char name[QK_HEAD_NAME_SIZE];
        if (!(f->sureness[i] <
              SURE)) /* without any variance it is infinite, or NaN of a mean of 0 */
            continue;
        qk_head_name((qk_head_id){(int)(i / grid->q_heads), (int)(i % grid->q_heads), QK_QUERY},
                     name);
        if (x->outcome->unsure++ < TOLD)
            status = qk__buffer_printf(&names, err, "%s%s", names.size > 0 ? ", " : "", name);
    }
    if (status == QK_OK && x->outcome->unsure > 0)
        qk__run_warn(&grid->run,
                     "%zu of %zu query heads point one way about as often as the other (the "
                     "mean along their axis is below %g standard deviations), so the sign of "
                     "their filter is not sure: %s%s",
                     x->outcome->unsure, grid->layers * grid->q_heads, SURE,
                     (const char *)names.data, x->outcome->unsure > TOLD ? ", ..." : "");
    qk__buffer_free(&names);
    return status;
}

/* kvpress keeps keys of which -filter.key is large. */
static qk_status write_filters(qk__export *x, const qk__grid *grid, filters *f, qk_error *err)
{
    const size_t d = grid->dim, keys = grid->layers * grid->k_heads;
    for (size_t k = 0; k < keys; k++)
        for (size_t i = 0; i < grid->group * d; i++)
            f->key_axes[k * d + i % d] -=
                f->axes[k * grid->group * d + i] / (double)grid->group;
    QK_TRY(qk__export_floats(f->key_axes, keys * d, f->q_filters, err));
    const int64_t l = (int64_t)grid->layers, h = (int64_t)grid->k_heads;
    const qk__tensor_out tensor = {.name = "q_filters",
                                   .dtype = "F32",
                                   .rank = 3,
                                   .shape = {l, h, (int64_t)d},
                                   .data = f->q_filters};
    QK_TRY(qk__export_tensors(x, &tensor, 1, err));
    return qk__export_json(x, QK__EXPORT_CONFIG,
                           json_pack("{s:I, s:I, s:I}", "num_layers", (json_int_t)l,
                                     "num_kv_heads", (json_int_t)h, "kv_head_dim",
                                     (json_int_t)d),
                           err);
}

static qk_status make(qk__export *x, qk__grid *grid, filters *f, qk_error *err)
{
    const size_t heads = grid->layers * grid->q_heads, keys = grid->layers * grid->k_heads;
    const size_t d = grid->dim;
    QK_TRY(QK__CREATE_ARRAYS(err, {&f->axes, heads * d, sizeof *f->axes},
                             {&f->sureness, heads, sizeof *f->sureness},
                             {&f->key_axes, keys * d, sizeof *f->key_axes},
                             {&f->q_filters, keys * d, sizeof *f->q_filters}));
    QK_TRY(qk__grid_each(grid, QK_QUERY, take_head, f, err));
    QK_TRY(warn_unsure(x, grid, f, err));
    x->outcome->layers = grid->layers;
    x->outcome->q_heads = grid->q_heads;
    x->outcome->k_heads = grid->k_heads;
    x->outcome->dim = d;
    x->outcome->heads = keys;
    return write_filters(x, grid, f, err);
}

qk_status qk__export_q_filters(qk__export *x, qk_error *err)
{
    const int64_t from = x->settings->from_position;
    const qk__grid_wish wish = {
        .stage = QK_STAGE_POST_ROPE, .groups = true, .from = from < 0 ? 0 : from};
    qk__grid grid;
    filters f = {0};
    qk_status status = qk__grid_open(&grid, x->settings, &wish, err);
    if (status == QK_OK)
        status = make(x, &grid, &f, err);
    qk__grid_close(&grid);
    free(f.axes);
    free(f.sureness);
    free(f.key_axes);
    free(f.q_filters);
    return status;
}
