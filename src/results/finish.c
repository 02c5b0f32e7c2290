/* SPDX-License-Identifier: Apache-2.0 */
/* Puts heads in order of model, layer and head, and the rows of their curves into arrays. */
#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "results/builder.h"

/* ---- heads ------------------------------------------------------------------------------ */

typedef struct head_place {
    size_t model;
    int layer, q_head;
    size_t built; /* index in builder->heads */
} head_place;

static int compare_places(const void *a, const void *b)
{
    const head_place *x = a, *y = b;
    if (x->model != y->model)
        return x->model < y->model ? -1 : 1;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    return (x->q_head > y->q_head) - (x->q_head < y->q_head);
}

/* A selection of layers does not change where in the model they are. */
static void set_depths(const qk__builder *builder, size_t m)
{
    qk__result_model *model = &builder->results->models[m];
    int layers = builder->models[m].layers;
    if (layers == 0)
        layers = qk__manifest_layers(&builder->manifest, model->name);
    int last = layers > 0 ? layers - 1 : 0;
    for (size_t i = 0; i < model->num_heads; i++)
        if (model->heads[i].layer > last)
            last = model->heads[i].layer;
    model->last_layer = last;
    for (size_t i = 0; i < model->num_heads; i++)
        model->heads[i].depth = last > 0 ? (double)model->heads[i].layer / last : 0;
}

/* heads[i] is where the head that was met as the i-th now is. */
static qk_status place_heads(qk__builder *builder, head_place *places, qk__result_head **heads,
                             qk_error *err)
{
    size_t count = builder->num_heads;
    qk__result_head *all = qk__arena_alloc(builder->arena, count, sizeof *all);
    if (!all)
        return qk__nomem(err);
    for (size_t i = 0; i < count; i++) {
        const qk__built_head *built = &builder->heads[i];
        places[i] = (head_place){built->model, built->head.layer, built->head.q_head, i};
    }
    qsort(places, count, sizeof *places, compare_places);
    for (size_t i = 0; i < count; i++) {
        all[i] = builder->heads[places[i].built].head;
        heads[places[i].built] = &all[i];
    }
    for (size_t m = 0, first = 0; m < builder->results->num_models; m++) {
        qk__result_model *model = &builder->results->models[m];
        size_t end = first;
        while (end < count && places[end].model == m)
            end++;
        model->num_heads = end - first;
        model->heads = all + first;
        set_depths(builder, m);
        first = end;
    }
    return QK_OK;
}

/* ---- curves ----------------------------------------------------------------------------- */

/* Twice the same index is an error; so is one that is left out, unless gaps are natural. */
static qk_status check_series(const qk__builder *builder, const qk__series *series, bool gaps,
                              qk_error *err)
{
    char text[QK__HEAD_TEXT_SIZE];
    int64_t expected = 0;
    for (size_t i = 0; i < series->count; i++) {
        const qk__series_row *row = &series->rows[i];
        bool same_head = i > 0 && row[-1].head == row->head;
        expected = same_head ? expected + 1 : 0;
        if (same_head && row[-1].index == row->index)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "%s: rows %zu and %zu are both of %s %lld: %s", series->path,
                            row[-1].row, row->row, series->index_name, (long long)row->index,
                            qk__head_text(builder, row->head, text));
        if (!gaps && row->index != expected)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "%s: row %zu is of %s %lld, but no row is of %lld: %s",
                            series->path, row->row, series->index_name, (long long)row->index,
                            (long long)expected, qk__head_text(builder, row->head, text));
    }
    return QK_OK;
}

/* Values of one kind of all rows, in their order. */
static double *column_of(qk__builder *builder, const qk__series *series, int which)
{
    double *values = qk__arena_alloc(builder->arena, series->count, sizeof *values);
    for (size_t i = 0; values && i < series->count; i++)
        values[i] = series->rows[i].values[which];
    return values;
}

/* Buckets of equal position stay in their order; those without one come last. */
static int compare_positions(const void *a, const void *b)
{
    const qk__series_row *x = a, *y = b;
    if (isnan(x->values[0]) || isnan(y->values[0])) {
        if (isnan(x->values[0]) != isnan(y->values[0]))
            return isnan(x->values[0]) ? 1 : -1;
    } else if (x->values[0] != y->values[0]) {
        return x->values[0] < y->values[0] ? -1 : 1;
    }
    return (x->index > y->index) - (x->index < y->index);
}

/* The numbers of all rows; those of a head are `count` from `first` on. */
typedef struct columns {
    const double *values[QK__SERIES_VALUES];
} columns;
typedef void set_rows(qk__result_head *head, const columns *all, size_t first, size_t count);

static void set_components(qk__result_head *head, const columns *all, size_t first,
                           size_t count)
{
    head->num_pcs = count;
    head->pc_ev = all->values[0] + first;
    head->pc_r_q = all->values[1] + first;
    head->pc_r_k = all->values[2] + first;
}

static void set_profile(qk__result_head *head, const columns *all, size_t first, size_t count)
{
    head->num_profile = count;
    head->profile_position = all->values[0] + first;
    head->profile_ap = all->values[1] + first;
}

static void set_scores(qk__result_head *head, const columns *all, size_t first, size_t count)
{
    const double *const *values = all->values;
    head->scores = (qk__head_curve){
        count, values[0] + first, values[1] + first, {values[2] + first}, values[3] + first};
}

/* Cells come by rows, then by distance: those of the latest rows are the last that rise. */
static void set_attention(qk__result_head *head, const columns *all, size_t first, size_t count)
{
    const double *const *values = all->values;
    size_t start = first + count - 1;
    while (start > first && values[0][start - 1] < values[0][start])
        start--;
    head->attention = (qk__head_curve){first + count - start,
                                       values[0] + start,
                                       values[1] + start,
                                       {values[2] + start, values[3] + start},
                                       NULL};
}

/* By position. */
static void order_profiles(qk__series *series)
{
    for (size_t first = 0, end; first < series->count; first = end) {
        end = qk__series_end(series, first);
        qsort(series->rows + first, end - first, sizeof *series->rows, compare_positions);
    }
}

static qk_status finish_series(qk__builder *builder, qk__series *series, bool gaps,
                               qk__result_head *const *heads, set_rows *set, qk_error *err)
{
    columns all;
    qk__series_sort(series);
    QK_TRY(check_series(builder, series, gaps, err));
    if (set == set_profile)
        order_profiles(series);
    for (int i = 0; i < QK__SERIES_VALUES; i++) {
        all.values[i] = column_of(builder, series, i);
        if (!all.values[i])
            return qk__nomem(err);
    }
    for (size_t first = 0, end; first < series->count; first = end) {
        end = qk__series_end(series, first);
        set(heads[series->rows[first].head], &all, first, end - first);
    }
    return QK_OK;
}

qk_status qk__finish_heads(qk__builder *builder, qk_error *err)
{
    head_place *places = qk__calloc(builder->num_heads + 1, sizeof *places);
    qk__result_head **heads = qk__calloc(builder->num_heads + 1, sizeof *heads);
    qk_status status =
        places && heads ? place_heads(builder, places, heads, err) : qk__nomem(err);
    if (status == QK_OK)
        status =
            finish_series(builder, &builder->components, false, heads, set_components, err);
    if (status == QK_OK)
        status = finish_series(builder, &builder->profile, true, heads, set_profile, err);
    if (status == QK_OK)
        status = finish_series(builder, &builder->score_curve, true, heads, set_scores, err);
    if (status == QK_OK)
        status = finish_series(builder, &builder->attention, true, heads, set_attention, err);
    free(places);
    free(heads);
    return status;
}
