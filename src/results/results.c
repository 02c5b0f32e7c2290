/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a results folder: its tables in turn, then everything in its place. */
#include "results/results.h"

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

static qk_status read_tables(qk__builder *builder, const char *scores, qk_error *err)
{
    QK_TRY(qk__read_models(builder, err));
    QK_TRY(qk__read_head_tables(builder, err));
    QK_TRY(qk__read_series_tables(builder, err));
    QK_TRY(qk__read_distances(builder, err));
    QK_TRY(qk__read_scores(builder, scores, err));
    if (!builder->any_table)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s: no tables of results here (qk.csv, heads.csv, rotated.csv, "
                        "head_*.csv, stages.csv, scores.csv)",
                        builder->folder);
    return QK_OK;
}

qk_status qk__results_read(qk__results **results, const char *folder, const char *scores,
                           qk_error *err)
{
    *results = NULL;
    owned_results *owned = calloc(1, sizeof *owned);
    if (!owned)
        return qk__nomem(err);
    qk__builder builder = {
        .results = &owned->results, .arena = &owned->arena, .folder = folder};
    qk_status status = qk__manifest_read(&builder.manifest, folder, err);
    if (status == QK_OK)
        status = read_tables(&builder, scores, err);
    if (status == QK_OK)
        status = read_title(&builder, err);
    if (status == QK_OK)
        status = qk__finish_models(&builder, err);
    if (status == QK_OK)
        status = qk__finish_heads(&builder, err);
    qk__builder_free(&builder);
    *results = &owned->results;
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
