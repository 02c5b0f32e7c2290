/* SPDX-License-Identifier: Apache-2.0 */
/* Scores of an external benchmark, beside a number of these models. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/context.h"
#include "base/error.h"
#include "results/builder.h"

/* A row of the results is a model, and has all columns. */
static qk_status set_scores(qk__builder *builder, const qk_columns *rows, qk_error *err)
{
    qk__results *results = builder->results;
    const char *const *model = qk_columns_texts(rows, "model"),
                      *const *family = qk_columns_texts(rows, "family"),
                      *const *score = qk_columns_texts(rows, "score");
    const double *value = qk_columns_reals(rows, "value");
    const size_t count = qk_columns_num_rows(rows);
    if (count == 0)
        return QK_OK;
    size_t models = 1;
    while (models < count && strcmp(score[models], score[0]) == 0)
        models++;
    results->num_scores = models;
    results->num_score_columns = count / models;
    results->scores = qk__arena_alloc(builder->arena, models, sizeof *results->scores);
    results->score_columns = qk__arena_alloc(builder->arena, results->num_score_columns,
                                             sizeof *results->score_columns);
    if (!results->scores || !results->score_columns)
        return qk__nomem(err);
    for (size_t c = 0; c < results->num_score_columns; c++)
        if (!(results->score_columns[c] = qk__arena_strdup(builder->arena, score[c * models])))
            return qk__nomem(err);
    for (size_t i = 0; i < models; i++) {
        qk__score *of = &results->scores[i];
        of->model = qk__arena_strdup(builder->arena, model[i]);
        of->family = qk__arena_strdup(builder->arena, family && family[i] ? family[i] : "");
        of->values =
            qk__arena_alloc(builder->arena, results->num_score_columns, sizeof *of->values);
        if (!of->model || !of->family || !of->values)
            return qk__nomem(err);
        for (size_t c = 0; c < results->num_score_columns; c++)
            of->values[c] = value[c * models + i];
    }
    return QK_OK;
}

qk_status qk__ask_scores(qk__builder *builder, qk__store *tables, qk_error *err)
{
    qk_columns *rows;
    QK_TRY(qk__store_ask(tables, &rows, err,
                         "SELECT model, family, score, value FROM scores ORDER BY rowid"));
    qk_status status = set_scores(builder, rows, err);
    qk_columns_free(&rows);
    return status;
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

static const qk__result_model *scored_model(const qk__results *results, const qk__score *score)
{
    for (size_t m = 0; m < results->num_models; m++)
        if (strcmp(results->models[m].name, score->model) == 0)
            return &results->models[m];
    for (size_t m = 0; m < results->num_models; m++)
        if (strcmp(results->models[m].label, score->model) == 0)
            return &results->models[m];
    return NULL;
}

static double mean_over_heads(const qk__result_model *model, const qk__field *field)
{
    qk__mean mean = {0};
    qk__each_head (model, head)
        qk__mean_add(&mean, qk__field_value(field, &head->v));
    return qk__mean_of(&mean);
}

double qk__scored_metric(const qk__score_pairing *pair, const qk__score *score)
{
    if (pair->from_scores)
        return score->values[pair->x_column];
    const qk__result_model *model = scored_model(pair->results, score);
    return model ? mean_over_heads(model, pair->field) : NAN;
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
        if (!scored_model(results, &results->scores[i]))
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
