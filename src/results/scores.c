/* SPDX-License-Identifier: Apache-2.0 */
/* The table of an external benchmark: a row a model, whatever its numeric columns are. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "results/builder.h"
#include "results/frame.h"

typedef struct score_table {
    const qk__frame *frame;
    const char *path;
    size_t model, family;
    size_t *columns; /* [num_score_columns] in the frame */
} score_table;

/* Columns that are not text. Two of the same name would be told apart by nothing. */
static qk_status choose_columns(qk__builder *builder, score_table *t, qk_error *err)
{
    qk__results *results = builder->results;
    size_t count = qk__frame_num_columns(t->frame), unused;
    QK_TRY(qk__frame_find(t->frame, "model", true, &t->model, err));
    QK_TRY(qk__frame_find(t->frame, "family", false, &t->family, err));
    results->score_columns =
        qk__arena_alloc(builder->arena, count, sizeof *results->score_columns);
    t->columns = qk__calloc(count, sizeof *t->columns);
    if (!results->score_columns || !t->columns)
        return qk__nomem(err);
    for (size_t i = 0; i < count; i++) {
        const char *name = qk__frame_column_name(t->frame, i);
        if (i == t->model || i == t->family || *name == 0 || !qk__frame_is_numeric(t->frame, i))
            continue;
        QK_TRY(qk__frame_find(t->frame, name, true, &unused, err));
        const char *copy = qk__arena_strdup(builder->arena, name);
        if (!copy)
            return qk__nomem(err);
        t->columns[results->num_score_columns] = i;
        results->score_columns[results->num_score_columns++] = copy;
    }
    return QK_OK;
}

static qk_status take_row(qk__builder *builder, const score_table *t, size_t row,
                          qk__text_set *models, qk_error *err)
{
    const qk__results *results = builder->results;
    qk__score *score = &results->scores[row];
    const char *model = qk__frame_text(t->frame, row, t->model);
    size_t index;
    QK_TRY(qk__text_set_add(models, builder->arena, model, &index, err));
    if (index < row)
        return qk__fail(err, QK_ERR_INCONSISTENT, "%s: rows %zu and %zu are both of model '%s'",
                        t->path, qk__frame_row_number(t->frame, index),
                        qk__frame_row_number(t->frame, row), model);
    score->model = models->items[index];
    score->family = qk__arena_strdup(builder->arena, qk__frame_text(t->frame, row, t->family));
    score->values =
        qk__arena_alloc(builder->arena, results->num_score_columns, sizeof *score->values);
    if (!score->family || !score->values)
        return qk__nomem(err);
    for (size_t i = 0; i < results->num_score_columns; i++)
        score->values[i] = qk__frame_number(t->frame, row, t->columns[i]);
    return QK_OK;
}

static qk_status take_table(qk__builder *builder, score_table *t, qk_error *err)
{
    qk__results *results = builder->results;
    qk__text_set models = {0};
    size_t count = qk__frame_num_rows(t->frame);
    QK_TRY(choose_columns(builder, t, err));
    results->scores = qk__arena_alloc(builder->arena, count, sizeof *results->scores);
    qk_status status = results->scores ? QK_OK : qk__nomem(err);
    for (size_t i = 0; i < count && status == QK_OK; i++)
        status = take_row(builder, t, i, &models, err);
    if (status == QK_OK)
        results->num_scores = count;
    qk__text_set_free(&models);
    return status;
}

static qk_status read_file(qk__builder *builder, const char *path, qk_error *err)
{
    qk__frame *frame;
    QK_TRY(qk__frame_read(&frame, path, err));
    score_table t = {.frame = frame, .path = path};
    qk_status status = take_table(builder, &t, err);
    free(t.columns);
    qk__frame_free(&frame);
    builder->any_table |= status == QK_OK;
    return status;
}

qk_status qk__read_scores(qk__builder *builder, const char *path, qk_error *err)
{
    if (path)
        return read_file(builder, path, err);
    char *own = qk__path_join(builder->folder, "scores.csv");
    if (!own)
        return qk__nomem(err);
    qk_status status = qk__is_there(own) ? read_file(builder, own, err) : QK_OK;
    free(own);
    return status;
}

/* ---- finding ---------------------------------------------------------------------------- */

const qk__result_model *qk__find_model(const qk__results *results, const char *name)
{
    for (size_t m = 0; m < results->num_models; m++)
        if (strcmp(results->models[m].name, name) == 0)
            return &results->models[m];
    for (size_t m = 0; m < results->num_models; m++)
        if (strcmp(results->models[m].label, name) == 0)
            return &results->models[m];
    return NULL;
}

size_t qk__score_column(const qk__results *results, const char *name)
{
    size_t i = 0;
    while (i < results->num_score_columns && strcmp(results->score_columns[i], name) != 0)
        i++;
    return i;
}
