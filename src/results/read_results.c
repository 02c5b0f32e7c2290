/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the tables which models there are, and numbers their families and phases. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/slug.h"
#include "results/results.h"
#include "tables/manifest.h"
#include "tables/text_lengths.h"

/* Heads are those that a table with a row a head has. */
static const char MODELS[] =
    "SELECT m.*, coalesce(model, '') AS name, coalesce(phase, '') || '' AS of_phase,"
    " coalesce(here, 0) AS num_heads, max(coalesce(last, 0), coalesce(layers, 0) - 1) AS last_layer"
    " FROM models m LEFT JOIN"
    " (SELECT head_id >> 42 AS id, count(*) AS here, max(layer) AS last FROM head_ids GROUP BY 1)"
    " ON id = m.model_id ORDER BY m.model_id";

/* The title of a study. A title is an ornament: without a manifest, or with a broken one, there
 * is none. */
static qk_status read_title(qk__results *results, const char *folder, qk_error *err)
{
    qk__manifest manifest;
    QK_TRY(qk__manifest_read(&manifest, folder, err));
    const char *title = json_string_value(json_object_get(manifest.root, "title"));
    results->title = title ? qk__arena_strdup(&results->memory, title) : "";
    qk_status status = results->title ? QK_OK : qk__nomem(err);
    if (manifest.is_comparison)
        status = qk__fail(err, QK_ERR_NOT_FOUND,
                          "%s: no tables of results here: it is a comparison of two", folder);
    qk__manifest_free(&manifest);
    return status;
}

/* The place of a text among those met so far; behind them where it is new. */
static int number_of(const char **texts, size_t *count, const char *text)
{
    size_t i = 0;
    while (i < *count && strcmp(texts[i], text) != 0)
        i++;
    texts[i] = text;
    *count += i == *count;
    return (int)i;
}

static qk_text_lengths lengths_of(const qk_columns *rows, size_t row)
{
    qk_text_lengths lengths = qk__no_lengths;
    for (size_t i = 0; i < QK__NUM_LENGTHS; i++) {
        const char *name = qk__length_members[i].name;
        const double *reals = qk_columns_reals(rows, name);
        const int64_t *integers = qk_columns_integers(rows, name);
        if (reals || integers)
            *qk__length_of(&lengths, i) = reals ? reals[row] : (double)integers[row];
    }
    return lengths;
}

static qk_status take_model(qk__results *results, const qk_columns *rows, size_t i,
                            qk_error *err)
{
    qk__result_model *model = &results->models[i];
    static const char *const NAMES[] = {"name", "label", "family", "of_phase"};
    const char **const texts[] = {&model->name, &model->label, &model->family, &model->phase};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
        *texts[t] = qk__arena_strdup(&results->memory, qk_columns_texts(rows, NAMES[t])[i]);
        if (!*texts[t])
            return qk__nomem(err);
    }
    model->id = qk_columns_integers(rows, "model_id")[i];
    model->last_layer = (int)qk_columns_integers(rows, "last_layer")[i];
    model->num_heads = (size_t)qk_columns_integers(rows, "num_heads")[i];
    model->family_index = number_of(results->families, &results->num_families, model->family);
    model->phase_index = -1;
    if (*model->phase)
        model->phase_index = number_of(results->phases, &results->num_phases, model->phase);
    results->lengths[i] = lengths_of(rows, i);
    results->checkpoints &= *model->phase != 0;
    results->num_heads += model->num_heads;
    return QK_OK;
}

static qk_status set_slugs(qk__results *results, const qk_columns *rows, qk_error *err)
{
    const size_t count = results->num_models;
    char **slugs = count > 0 ? qk__slugs(qk_columns_texts(rows, "name"), count) : NULL;
    bool complete = slugs || count == 0;
    for (size_t i = 0; i < count && complete; i++) {
        results->models[i].slug = qk__arena_strdup(&results->memory, slugs[i]);
        complete = results->models[i].slug;
    }
    qk__strings_free(slugs, slugs ? count : 0);
    return complete ? QK_OK : qk__nomem(err);
}

static qk_status take_models(qk__results *results, const qk_columns *rows, qk_error *err)
{
    qk__arena *memory = &results->memory;
    const size_t count = qk_columns_num_rows(rows);
    if (count > INT_MAX)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "more than %d models", INT_MAX);
    results->num_models = count;
    results->models = qk__arena_alloc(memory, count, sizeof *results->models);
    results->lengths = qk__arena_alloc(memory, count, sizeof *results->lengths);
    results->families = qk__arena_alloc(memory, count, sizeof *results->families);
    results->phases = qk__arena_alloc(memory, count, sizeof *results->phases);
    if (!results->models || !results->lengths || !results->families || !results->phases)
        return qk__nomem(err);
    results->checkpoints = count > 0;
    for (size_t i = 0; i < count; i++)
        QK_TRY(take_model(results, rows, i, err));
    return set_slugs(results, rows, err);
}

qk_status qk__results_read(qk__results **results, qk__store *tables, const char *folder,
                           qk_error *err)
{
    qk_columns *rows = NULL;
    qk__results *made = *results = qk__calloc(1, sizeof *made);
    if (!made)
        return qk__nomem(err);
    qk_status status = read_title(made, folder, err);
    if (status == QK_OK)
        status = qk__store_ask(tables, &rows, err, "%s", MODELS);
    if (status == QK_OK)
        status = take_models(made, rows, err);
    qk_columns_free(&rows);
    if (status != QK_OK)
        qk__results_free(results);
    return status;
}

void qk__results_free(qk__results **results)
{
    if (*results)
        qk__arena_free(&(*results)->memory);
    free(*results);
    *results = NULL;
}
