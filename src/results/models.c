/* SPDX-License-Identifier: Apache-2.0 */
/* models.csv, and what models are called: labels, families, phases, names for files. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/slug.h"
#include "results/builder.h"
#include "tables/text_lengths.h"

/* ---- models.csv ------------------------------------------------------------------------- */

typedef struct model_columns {
    size_t model, label, family, phase, source, layers;
    size_t lengths[QK__NUM_LENGTHS];
} model_columns;

static qk_status copy_text(qk__builder *builder, const char *text, const char **copy,
                           qk_error *err)
{
    *copy = qk__arena_strdup(builder->arena, text);
    return *copy ? QK_OK : qk__nomem(err);
}

qk_status qk__list_model(qk__builder *builder, const qk__listed_model *listed, bool *is_new,
                         qk_error *err)
{
    size_t model, before = builder->names.count;
    QK_TRY(qk__builder_add_model(builder, listed->name, &model, err));
    qk__built_model *built = &builder->models[model];
    *is_new = builder->names.count > before;
    built->layers = listed->layers;
    built->lengths = listed->lengths;
    QK_TRY(copy_text(builder, listed->label, &built->label, err));
    QK_TRY(copy_text(builder, listed->family, &built->family, err));
    QK_TRY(copy_text(builder, listed->phase, &built->phase, err));
    return copy_text(builder, listed->source, &built->source, err);
}

static qk_status read_model(qk__builder *builder, const qk__csv_reader *reader,
                            const model_columns *columns, qk_error *err)
{
    int64_t layers = 0;
    bool is_new;
    if (*qk__reader_text(reader, columns->layers)) /* a list made by hand may not have them */
        QK_TRY(qk__reader_integer(reader, columns->layers, 0, INT_MAX, &layers, err));
    qk_text_lengths lengths = qk__no_lengths;
    for (size_t i = 0; i < QK__NUM_LENGTHS; i++)
        if (columns->lengths[i] != QK__NO_COLUMN)
            QK_TRY(qk__reader_number(reader, columns->lengths[i], qk__length_of(&lengths, i),
                                     err));
    const qk__listed_model listed = {.name = qk__reader_text(reader, columns->model),
                                     .label = qk__reader_text(reader, columns->label),
                                     .family = qk__reader_text(reader, columns->family),
                                     .phase = qk__reader_text(reader, columns->phase),
                                     .source = qk__reader_text(reader, columns->source),
                                     .layers = (int)layers,
                                     .lengths = lengths};
    QK_TRY(qk__list_model(builder, &listed, &is_new, err));
    return is_new ? QK_OK
                  : qk__reader_fail(reader, columns->model, QK_ERR_INCONSISTENT,
                                    "is in an earlier row, too", err);
}

static qk_status read_list(qk__builder *builder, qk__csv_reader *reader, qk_error *err)
{
    model_columns columns;
    bool more;
    QK_TRY(qk__reader_find(reader, "model", true, &columns.model, err));
    QK_TRY(qk__reader_find(reader, "label", false, &columns.label, err));
    QK_TRY(qk__reader_find(reader, "family", false, &columns.family, err));
    QK_TRY(qk__reader_find(reader, "phase", false, &columns.phase, err));
    QK_TRY(qk__reader_find(reader, "source", false, &columns.source, err));
    QK_TRY(qk__reader_find(reader, "layers", false, &columns.layers, err));
    for (size_t i = 0; i < QK__NUM_LENGTHS; i++)
        QK_TRY(qk__reader_find(reader, qk__length_members[i].name, false, &columns.lengths[i],
                               err));
    for (;;) {
        QK_TRY(qk__reader_next(reader, &more, err));
        if (!more)
            break;
        QK_TRY(read_model(builder, reader, &columns, err));
    }
    builder->listed = true;
    return QK_OK;
}

qk_status qk__read_models(qk__builder *builder, qk_error *err)
{
    qk__csv_reader *csv;
    QK_TRY(qk__open_table(builder, "models.csv", &csv, err));
    qk_status status = csv ? read_list(builder, csv, err) : QK_OK;
    qk__reader_close(&csv);
    return status;
}

/* ---- the models ------------------------------------------------------------------------- */

/* The last part of the folder's real path: what a model without a name is called. */
static const char *folder_name(qk__builder *builder)
{
    char *path = realpath(builder->folder, NULL);
    const char *slash = path ? strrchr(path, '/') : NULL;
    const char *name =
        qk__arena_strdup(builder->arena, slash && slash[1] ? slash + 1 : "model");
    free(path);
    return name;
}

typedef struct groups {
    qk__text_set families, phases;
} groups;

static qk_status name_model(qk__builder *builder, size_t i, groups *g, qk_error *err)
{
    const qk__built_model *built = &builder->models[i];
    qk__result_model *model = &builder->results->models[i];
    size_t index;
    model->name = builder->names.items[i];
    model->label = built->label;
    model->family = *built->family ? built->family : model->label;
    model->phase = built->phase;
    model->source = built->source;
    model->lengths = builder->listed ? built->lengths
                                     : qk__manifest_lengths(&builder->manifest, model->name);
    QK_TRY(qk__text_set_add(&g->families, builder->arena, model->family, &index, err));
    model->family_index = (int)index;
    model->phase_index = -1;
    if (*model->phase) {
        QK_TRY(qk__text_set_add(&g->phases, builder->arena, model->phase, &index, err));
        model->phase_index = (int)index;
    }
    builder->results->checkpoints &= *model->phase != 0;
    return QK_OK;
}

static qk_status copy_set(qk__builder *builder, const qk__text_set *set, const char ***items,
                          size_t *count, qk_error *err)
{
    *items = qk__arena_alloc(builder->arena, set->count, sizeof **items);
    if (!*items)
        return qk__nomem(err);
    for (size_t i = 0; i < set->count; i++)
        (*items)[i] = set->items[i];
    *count = set->count;
    return QK_OK;
}

static qk_status set_slugs(qk__builder *builder, qk_error *err)
{
    size_t count = builder->names.count;
    if (count == 0)
        return QK_OK;
    char **slugs = qk__slugs(builder->names.items, count);
    if (!slugs)
        return qk__nomem(err);
    qk_status status = QK_OK;
    for (size_t i = 0; i < count && status == QK_OK; i++) {
        builder->results->models[i].slug = qk__arena_strdup(builder->arena, slugs[i]);
        if (!builder->results->models[i].slug)
            status = qk__nomem(err);
    }
    qk__strings_free(slugs, count);
    return status;
}

static qk_status name_models(qk__builder *builder, groups *g, qk_error *err)
{
    qk__results *results = builder->results;
    const char *unnamed = folder_name(builder);
    size_t count = builder->names.count;
    if (count > INT_MAX)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "more than %d models", INT_MAX);
    results->models = qk__arena_alloc(builder->arena, count, sizeof *results->models);
    if (!unnamed || !results->models)
        return qk__nomem(err);
    results->num_models = count;
    results->checkpoints = count > 0;
    for (size_t i = 0; i < count; i++)
        if (!*builder->models[i].label)
            builder->models[i].label =
                *builder->names.items[i] ? builder->names.items[i] : unnamed;
    for (size_t i = 0; i < count; i++)
        QK_TRY(name_model(builder, i, g, err));
    QK_TRY(set_slugs(builder, err));
    QK_TRY(copy_set(builder, &g->families, &results->families, &results->num_families, err));
    return copy_set(builder, &g->phases, &results->phases, &results->num_phases, err);
}

qk_status qk__finish_models(qk__builder *builder, qk_error *err)
{
    groups g = {0};
    qk_status status = name_models(builder, &g, err);
    qk__text_set_free(&g.families);
    qk__text_set_free(&g.phases);
    return status;
}
