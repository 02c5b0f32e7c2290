/* SPDX-License-Identifier: Apache-2.0 */
/* The table of an external benchmark: a row a model, whatever its numeric columns are; and its
 * scores beside a number of these models. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/context.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parse_number.h"
#include "results/builder.h"

typedef struct score_table {
    qk__builder *builder;
    qk__csv_reader *reader;
    size_t model, family, num_rows;
    size_t *columns; /* [num_score_columns] of the file */
} score_table;

/* Whether a field begins as a number does. Then one that is none, and not empty, must not make the next column the
 * score. */
static qk_status find_numbers(const score_table *t, size_t column, bool *any, qk_error *err)
{
    double value;
    qk_error why;
    *any = false;
    for (int pass = 0; pass < (*any ? 2 : 1); pass++)
        for (size_t i = 0; i < t->num_rows; i++) {
            qk__reader_go(t->reader, i);
            const char *text = qk__reader_text(t->reader, column);
            *any = *any || isdigit((unsigned char)text[strspn(text, " +-.")]);
            if (pass == 1 && qk__reader_number(t->reader, column, &value, &why) != QK_OK)
                return qk__fail(err, QK_ERR_MALFORMED,
                                "%s: leave the field empty where there is no score, or leave "
                                "out the column",
                                why.message);
        }
    return QK_OK;
}

/* Columns that are not text. Two of the same name would be told apart by nothing. */
static qk_status choose_columns(score_table *t, qk_error *err)
{
    qk__results *results = t->builder->results;
    size_t count = qk__reader_num_columns(t->reader), unused;
    QK_TRY(qk__reader_find(t->reader, "model", true, &t->model, err));
    QK_TRY(qk__reader_find(t->reader, "family", false, &t->family, err));
    results->score_columns =
        qk__arena_alloc(t->builder->arena, count, sizeof *results->score_columns);
    t->columns = qk__calloc(count, sizeof *t->columns);
    if (!results->score_columns || !t->columns)
        return qk__nomem(err);
    for (size_t i = 0; i < count; i++) {
        const char *name = qk__reader_column_name(t->reader, i);
        bool any;
        if (i == t->model || i == t->family || *name == 0)
            continue;
        QK_TRY(find_numbers(t, i, &any, err));
        if (!any)
            continue;
        QK_TRY(qk__reader_find(t->reader, name, true, &unused, err));
        const char *copy = qk__arena_strdup(t->builder->arena, name);
        if (!copy)
            return qk__nomem(err);
        t->columns[results->num_score_columns] = i;
        results->score_columns[results->num_score_columns++] = copy;
    }
    return QK_OK;
}

static qk_status take_row(const score_table *t, size_t row, qk__text_set *models, qk_error *err)
{
    const qk__results *results = t->builder->results;
    qk__arena *arena = t->builder->arena;
    qk__score *score = &results->scores[row];
    size_t index;
    qk__reader_go(t->reader, row);
    const char *model = qk__reader_text(t->reader, t->model);
    QK_TRY(qk__text_set_add(models, arena, model, &index, err));
    if (index < row) {
        size_t second = qk__reader_row(t->reader);
        qk__reader_go(t->reader, index);
        return qk__fail(err, QK_ERR_INCONSISTENT, "%s: rows %zu and %zu are both of model '%s'",
                        qk__reader_path(t->reader), qk__reader_row(t->reader), second, model);
    }
    score->model = models->items[index];
    score->family = qk__arena_strdup(arena, qk__reader_text(t->reader, t->family));
    score->values = qk__arena_alloc(arena, results->num_score_columns, sizeof *score->values);
    if (!score->family || !score->values)
        return qk__nomem(err);
    for (size_t i = 0; i < results->num_score_columns; i++)
        QK_TRY(qk__reader_number(t->reader, t->columns[i], &score->values[i], err));
    return QK_OK;
}

static qk_status take_table(score_table *t, qk_error *err)
{
    qk__results *results = t->builder->results;
    qk__text_set models = {0};
    QK_TRY(qk__reader_load(t->reader, &t->num_rows, err));
    QK_TRY(choose_columns(t, err));
    results->scores = qk__arena_alloc(t->builder->arena, t->num_rows, sizeof *results->scores);
    qk_status status = results->scores ? QK_OK : qk__nomem(err);
    for (size_t i = 0; i < t->num_rows && status == QK_OK; i++)
        status = take_row(t, i, &models, err);
    if (status == QK_OK)
        results->num_scores = t->num_rows;
    qk__text_set_free(&models);
    return status;
}

static qk_status read_file(qk__builder *builder, const char *path, qk_error *err)
{
    score_table t = {.builder = builder};
    QK_TRY(qk__reader_open(&t.reader, path, err));
    qk_status status = take_table(&t, err);
    free(t.columns);
    qk__reader_close(&t.reader);
    builder->any_table |= status == QK_OK;
    return status;
}

qk_status qk__read_scores(qk__builder *builder, const char *path, qk_error *err)
{
    if (path)
        return read_file(builder, path, err);
    qk__path own;
    QK_TRY(qk__path_in(&own, builder->folder, "scores.csv", err));
    return qk__is_there(own.text) ? read_file(builder, own.text, err) : QK_OK;
}

/* ---- beside a number of the models ------------------------------------------------------ */

static size_t find_column(const qk__results *results, const char *name)
{
    for (size_t i = 0; i < results->num_score_columns; i++)
        if (strcmp(results->score_columns[i], name) == 0)
            return i;
    return QK__NOT_THERE;
}

bool qk__pair_scores(const qk__results *results, const char *metric, const char *column,
                     qk__score_pairing *pair)
{
    *pair = (qk__score_pairing){
        .results = results, .metric = metric ? metric : "ap_drop", .y_column = QK__NOT_THERE};
    size_t x = find_column(results, pair->metric);
    pair->from_scores = x != QK__NOT_THERE;
    pair->x_column = x;
    const qk__field *field = qk__find_field(pair->metric);
    pair->field = field && field->use != QK__LISTED ? field : NULL;
    if (column)
        pair->y_column = find_column(results, column);
    for (size_t i = 0; !column && i < results->num_score_columns; i++)
        if (i != x && pair->y_column == QK__NOT_THERE)
            pair->y_column = i;
    return pair->y_column != QK__NOT_THERE && (pair->from_scores || pair->field);
}

const qk__result_model *qk__scored_model(const qk__results *results, const qk__score *score)
{
    for (size_t m = 0; m < results->num_models; m++)
        if (strcmp(results->models[m].name, score->model) == 0)
            return &results->models[m];
    for (size_t m = 0; m < results->num_models; m++)
        if (strcmp(results->models[m].label, score->model) == 0)
            return &results->models[m];
    return NULL;
}

double qk__scored_metric(const qk__score_pairing *pair, const qk__score *score)
{
    if (pair->from_scores)
        return score->values[pair->x_column];
    const qk__result_model *model = qk__scored_model(pair->results, score);
    return model ? qk__mean_over_heads(model, pair->field) : NAN;
}

/* ---- what is asked of them -------------------------------------------------------------- */

enum { LIST = 800 };

static void list_name(char list[LIST], const char *name)
{
    size_t length = strlen(list);
    snprintf(list + length, LIST - length, "%s%s", length > 0 ? ", " : "", name);
}

static bool has_score(const qk__score_pairing *pair, const qk__result_model *model)
{
    const qk__results *results = pair->results;
    for (size_t i = 0; i < results->num_scores; i++) {
        const qk__score *score = &results->scores[i];
        if (isfinite(score->values[pair->y_column]) &&
            (strcmp(score->model, model->name) == 0 || strcmp(score->model, model->label) == 0))
            return true;
    }
    return false;
}

qk_status qk__check_scores(const qk__results *results, const char *metric, const char *column,
                           const qk_context *context, qk_error *err)
{
    qk__score_pairing pair;
    char there[LIST] = "", strange[LIST] = "", without[LIST] = "";
    if (results->num_scores == 0 && !column)
        return QK_OK;
    for (size_t i = 0; i < results->num_score_columns; i++)
        list_name(there, results->score_columns[i]);
    const bool paired = qk__pair_scores(results, metric, column, &pair),
               known = pair.from_scores || pair.field;
    if (!paired)
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: there is no %s '%s'; there are: %s",
                        known ? "score-column" : "score-metric",
                        known ? "column of scores" : "column of scores, nor number of a head,",
                        !known   ? pair.metric
                        : column ? column
                                 : "",
                        there);
    for (size_t i = 0; i < results->num_scores; i++)
        if (!qk__scored_model(results, &results->scores[i]))
            list_name(strange, results->scores[i].model);
    for (size_t m = 0; m < results->num_models; m++)
        if (!has_score(&pair, &results->models[m]))
            list_name(without, results->models[m].name);
    if (*without && !pair.from_scores)
        qk__tell_notice(context, QK_NOTICE_WARNING, "models without a score in column %s: %s",
                        results->score_columns[pair.y_column], without);
    if (*strange && !pair.from_scores)
        qk__tell_notice(context, QK_NOTICE_WARNING, "scores of models that are not here: %s",
                        strange);
    return QK_OK;
}
