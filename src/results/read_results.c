/* SPDX-License-Identifier: Apache-2.0 */
/* Results from the tables of a folder, or of the models of a study one after the other: first
 * all tables, then everything in its place. */
#include "results/read_results.h"

#include <stdlib.h>

#include "base/error.h"
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

static qk_status ask_tables(qk__builder *builder, const char *scores, qk_error *err)
{
    static const qk_context NOBODY = {0};
    qk__store *tables;
    QK_TRY(qk__store_open(&tables, &NOBODY, err));
    qk_status status = qk__store_add(tables, "main", builder->folder, true, err);
    if (status == QK_OK && scores)
        status = qk__store_scores(tables, "main", scores, err);
    if (status == QK_OK)
        status = qk__ask_scores(builder, tables, err);
    qk__store_close(&tables);
    return status;
}

static qk_status read_all(qk__builder *builder, const char *scores, qk_error *err)
{
    QK_TRY(qk__manifest_read(&builder->manifest, builder->folder, err));
    if (builder->manifest.is_comparison)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s: no tables of results here: it is a comparison of two",
                        builder->folder);
    QK_TRY(qk__read_models(builder, err));
    QK_TRY(qk__read_head_tables(builder, err));
    QK_TRY(qk__read_series_tables(builder, err));
    QK_TRY(read_title(builder, err));
    QK_TRY(qk__finish_models(builder, err));
    QK_TRY(qk__finish_heads(builder, err));
    return ask_tables(builder, scores, err);
}

qk_status qk__results_read(qk__results **results, const char *folder, const char *scores,
                           qk_error *err)
{
    owned_results *owned = qk__calloc(1, sizeof *owned);
    *results = owned ? &owned->results : NULL;
    if (!owned)
        return qk__nomem(err);
    qk__builder builder = {
        .results = &owned->results, .arena = &owned->arena, .folder = folder};
    qk_status status = read_all(&builder, scores, err);
    qk__builder_free(&builder);
    if (status != QK_OK)
        qk__results_free(results);
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
