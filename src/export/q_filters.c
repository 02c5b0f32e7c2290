/* SPDX-License-Identifier: Apache-2.0 */
/* Q-Filters: for each key head, where its query heads point after RoPE. */
#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json_build.h"
#include "export/export.h"
#include "stats/eigen.h"

typedef struct filters {
    double *axes;     /* [heads][d] with the sign of the mean */
    double *sureness; /* [heads] mean along the axis, over the standard deviation */
    float *of_keys;   /* [key heads][d] */
} filters;

/* Of normally distributed rows 69 % then have the sign of their mean. */
static const double SURE = 0.5;

/* Of sum x x^T, not about the mean. matrix: [d][d] of scratch. */
static qk_status find_axis(const qk_moments *m, double *matrix, double *axis, double *sureness,
                           qk_error *err)
{
    const size_t d = m->dim;
    const double n = (double)m->count;
    double value, mean = 0;
    for (size_t i = 0; i < d * d; i++)
        matrix[i] = m->sum_xx[i] + n * m->mean[i / d] * m->mean[i % d];
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
    qk_status status = find_axis(m, matrix, f->axes + place * m->dim, &f->sureness[place], err);
    free(matrix);
    return status;
}

static qk_status warn_unsure(qk__export *x, qk__grid *grid, const filters *f, qk_error *err)
{
    enum { TOLD = 12 };
    const size_t width = grid->heads[QK_QUERY];
    size_t *unsure = &x->outcome->unsure;
    qk__buffer names = {0};
    qk_status status = QK_OK;
    for (size_t i = 0; i < grid->layers * width && status == QK_OK; i++) {
        char name[QK_HEAD_NAME_SIZE];
        qk_head_name((qk_head_id){(int)(i / width), (int)(i % width), QK_QUERY}, name);
        if (f->sureness[i] < SURE && (*unsure)++ < TOLD)
            status = qk__buffer_printf(&names, err, "%s%s", names.size > 0 ? ", " : "", name);
    }
    if (status == QK_OK && *unsure > 0)
        qk__run_warn(&grid->run,
                     "%zu of %zu query heads point one way about as often as the other (their "
                     "mean is below %g standard deviations), so the sign of their filter is "
                     "not sure: %s%s",
                     *unsure, grid->layers * width, SURE, (const char *)names.data,
                     *unsure > TOLD ? ", ..." : "");
    qk__buffer_free(&names);
    return status;
}

/* kvpress keeps keys of which -filter.key is large. */
static qk_status average(const qk__grid *grid, const filters *f, qk_error *err)
{
    const size_t d = grid->dim, group = grid->group;
    for (size_t i = 0; i < grid->layers * grid->heads[QK_KEY] * d; i++) {
        double sum = 0;
        for (size_t h = 0; h < group; h++)
            sum -= f->axes[(i / d * group + h) * d + i % d];
        QK_TRY(qk__export_float(sum / (double)group, &f->of_keys[i], err));
    }
    return QK_OK;
}

static qk_status make(qk__export *x, qk__grid *grid, filters *f, qk_error *err)
{
    const size_t heads = grid->layers * grid->heads[QK_QUERY], d = grid->dim;
    const json_int_t l = (json_int_t)grid->layers, h = (json_int_t)grid->heads[QK_KEY];
    QK_TRY(QK__CREATE_ARRAYS(err, {&f->axes, heads * d, sizeof *f->axes},
                             {&f->sureness, heads, sizeof *f->sureness},
                             {&f->of_keys, heads * d, sizeof *f->of_keys}));
    QK_TRY(qk__grid_each(grid, QK_QUERY, take_head, f, err));
    QK_TRY(average(grid, f, err));
    QK_TRY(warn_unsure(x, grid, f, err));
    x->outcome->heads = (size_t)(l * h);
    const qk__tensor_out tensor = {.name = "q_filters",
                                   .dtype = "F32",
                                   .rank = 3,
                                   .shape = {l, h, (int64_t)d},
                                   .data = f->of_keys};
    QK_TRY(qk__export_tensors(x, &tensor, 1, err));
    return qk__export_json(x, QK__EXPORT_CONFIG,
                           json_pack("{s:I, s:I, s:I}", "num_layers", l, "num_kv_heads", h,
                                     "kv_head_dim", (json_int_t)d),
                           err);
}

qk_status qk__export_q_filters(qk__export *x, qk_error *err)
{
    qk__grid grid;
    filters f = {0};
    qk_status status = qk__export_open(&grid, x->settings, QK_STAGE_POST_ROPE, true, 0, err);
    if (status == QK_OK)
        status = make(x, &grid, &f, err);
    qk__grid_close(&grid);
    free(f.axes);
    free(f.sureness);
    free(f.of_keys);
    return status;
}
