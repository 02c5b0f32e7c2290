/* SPDX-License-Identifier: Apache-2.0 */
/* Results from the tables of a folder, or of the models of a study one after the other: first
 * all tables, then everything in its place. */
#include "results/read_results.h"

#include <stdlib.h>

#include "base/error.h"
#include "paths/path_kind.h"
#include "results/builder.h"

/* The results and the memory of all they point to. */
typedef struct owned_results {
    qk__results results;
    qk__arena arena;
} owned_results;

/* The title of a study. A title is an ornament: without a manifest, or with a broken one, there
 * is none. */
static qk_status read_title(qk__builder *builder, qk_error *err)
{
    const char *title = json_string_value(json_object_get(builder->manifest.root, "title"));
    builder->results->title = title ? qk__arena_strdup(builder->arena, title) : "";
    return builder->results->title ? QK_OK : qk__nomem(err);
}

static qk_status read_tables(qk__builder *builder, qk_error *err)
{
    QK_TRY(qk__read_head_tables(builder, err));
    QK_TRY(qk__read_series_tables(builder, err));
    QK_TRY(qk__read_group_curves(builder, err));
    return qk__read_distances(builder, err);
}

static qk_status finish_builder(qk__builder *builder, const char *scores, qk_error *err)
{
    QK_TRY(qk__read_scores(builder, scores, err));
    if (!builder->any_table) {
        qk__set_error(err, QK_ERR_NOT_FOUND,
                      "%s: no tables of results here (qk.csv, heads.csv, rotated.csv, "
                      "head_*.csv, stages.csv, scores.csv)",
                      builder->folder);
        return qk__path_tell(builder->folder, QK__PATH_RESULTS, QK_ERR_NOT_FOUND, err);
    }

    QK_TRY(read_title(builder, err));
    QK_TRY(qk__finish_models(builder, err));
    return qk__finish_heads(builder, err);
}

qk_status qk__results_begin(qk__builder **builder, const char *folder, qk_error *err)
{
    owned_results *owned = calloc(1, sizeof *owned);
    qk__builder *b = *builder = calloc(1, sizeof *b);
    if (!owned || !b) {
        free(owned);
        free(b);
        *builder = NULL;
        return qk__nomem(err);
    }
    *b = (qk__builder){
        .results = &owned->results, .arena = &owned->arena, .folder = folder, .tables = folder};
    qk_status status = qk__manifest_read(&b->manifest, folder, err);
    if (status != QK_OK)
        qk__results_discard(builder);
    return status;
}

qk_status qk__results_add(qk__builder *builder, const qk__listed_model *model,
                          const qk_analysis_results *run, const char *tables, unsigned contents,
                          qk_error *err)
{
    bool is_new;
    builder->run = run;
    builder->tables = tables;
    builder->contents = contents;
    builder->listed = builder->any_table = true;
    QK_TRY(qk__list_model(builder, model, &is_new, err));
    return run || tables ? read_tables(builder, err) : QK_OK;
}

static qk_status end_builder(qk__builder **builder, const char *scores, qk__results **results,
                             qk_error *err)
{
    qk_status status = finish_builder(*builder, scores, err);
    *results = (*builder)->results;
    (*builder)->results = NULL;
    qk__results_discard(builder);
    if (status != QK_OK)
        qk__results_free(results);
    return status;
}

qk_status qk__results_finish(qk__builder **builder, qk__results **results, qk_error *err)
{
    return end_builder(builder, NULL, results, err);
}

void qk__results_discard(qk__builder **builder)
{
    if (!*builder)
        return;
    qk__results *results = (*builder)->results;
    qk__builder_free(*builder);
    qk__results_free(&results);
    free(*builder);
    *builder = NULL;
}

qk_status qk__results_read(qk__results **results, const char *folder, const char *scores,
                           qk_error *err)
{
    qk__builder *builder;
    *results = NULL;
    QK_TRY(qk__results_begin(&builder, folder, err));
    qk_status status = qk__read_models(builder, err);
    if (status == QK_OK)
        status = read_tables(builder, err);
    if (status == QK_OK)
        return end_builder(&builder, scores, results, err);
    qk__results_discard(&builder);
    return status;
}

void qk__results_free(qk__results **results)
{
    if (!*results)
        return;
    owned_results *owned = (owned_results *)*results; /* its first member */
    qk__arena_free(&owned->arena);
    free(owned);
    *results = NULL;
}
