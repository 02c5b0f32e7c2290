/* SPDX-License-Identifier: Apache-2.0 */
/* Models and heads in order of appearance. */
#include "results/builder.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "tables/text_lengths.h"

void qk__builder_free(qk__builder *builder)
{
    qk__text_set_free(&builder->names);
    free(builder->models);
    free(builder->heads);
    qk__lookup_free(&builder->head_lookup);
    qk__series_free(&builder->components);
    qk__series_free(&builder->profile);
    qk__series_free(&builder->score_curve);
    qk__series_free(&builder->attention);
    qk__manifest_free(&builder->manifest);
    qk__manifest_free(&builder->ablation);
    *builder = (qk__builder){0};
}

/* A table that came from elsewhere must not be taken for one of the runs. */
static qk_status check_owner(const qk__builder *builder, const char *name, qk_error *err)
{
    const qk__manifest *manifest = &builder->manifest;
    if (!manifest->runs || !manifest->complete || strcmp(name, "models.csv") == 0 ||
        qk__manifest_owner(manifest, name))
        return QK_OK;
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "%s/%s: no run in manifest.json wrote this table; move it to a folder of "
                    "its own",
                    builder->folder, name);
}

/* An ablation has a folder of its own, which may lie in that of the results. */
static qk_status find_ablation(qk__builder *builder, const qk__table *table, qk__path *path,
                               qk_error *err)
{
    qk__path folder;
    QK_TRY(qk__path_in(&folder, builder->folder, "ablation", err));
    QK_TRY(qk__path_in(path, folder.text, table->info.name, err));
    qk__manifest_free(&builder->ablation);
    QK_TRY(qk__manifest_read(&builder->ablation, folder.text, err));
    return qk__manifest_verify(&builder->ablation, folder.text, err);
}

qk_status qk__refuse_ablation(const qk__builder *builder, const char *path, const char *model,
                              qk_error *err)
{
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "%s: is of the model '%.100s', and the results are of '%.100s': give "
                    "ablate --model-name, or another folder",
                    path, model, builder->names.items[0]);
}

qk_status qk__open_table(qk__builder *builder, const char *name, qk__csv_reader **csv,
                         qk_error *err)
{
    const qk__table *table = qk__find_table(name);
    qk__path path;
    *csv = NULL;
    QK_TRY(qk__path_in(&path, builder->folder, table->info.name, err));
    const bool elsewhere = (table->needs & QK__ABLATION) && !qk__is_file(path.text);
    if (elsewhere)
        QK_TRY(find_ablation(builder, table, &path, err));
    qk_error why;
    qk_status status = qk__reader_open(csv, path.text, &why);
    if (status == QK_ERR_NOT_FOUND)
        return QK_OK;
    if (status != QK_OK && err)
        *err = why;
    if (status == QK_OK && !elsewhere)
        status = check_owner(builder, table->info.name, err);
    if (status != QK_OK)
        qk__reader_close(csv);
    return status;
}

qk_status qk__builder_add_model(qk__builder *builder, const char *name, size_t *model,
                                qk_error *err)
{
    size_t before = builder->names.count;
    if (before == builder->model_capacity) {
        qk__built_model *models =
            qk__grow(builder->models, &builder->model_capacity, sizeof *models);
        if (!models)
            return qk__nomem(err);
        builder->models = models;
    }
    QK_TRY(qk__text_set_add(&builder->names, builder->arena, name, model, err));
    if (builder->names.count > before)
        builder->models[before] = (qk__built_model){"", "", "", "", 0, qk__no_lengths};
    return QK_OK;
}

/* ---- heads ------------------------------------------------------------------------------ */

qk_status qk__find_ids(const qk__csv_reader *csv, qk__id_columns *ids, qk_error *err)
{
    QK_TRY(qk__reader_find(csv, "model", true, &ids->model, err));
    QK_TRY(qk__reader_find(csv, "layer", true, &ids->layer, err));
    QK_TRY(qk__reader_find(csv, "q_head", true, &ids->q_head, err));
    return qk__reader_find(csv, "k_head", true, &ids->k_head, err);
}

/* What names a head; no padding, since its bytes are hashed. */
typedef struct head_key {
    uint64_t model;
    uint32_t layer, q_head;
} head_key;

static bool is_head(const void *items, size_t index, const void *key)
{
    const qk__built_head *head = (const qk__built_head *)items + index;
    const head_key *k = key;
    return head->model == k->model && (uint32_t)head->head.layer == k->layer &&
           (uint32_t)head->head.q_head == k->q_head;
}

static void forget_numbers(qk__head_numbers *numbers)
{
    for (size_t i = 0; i < qk__num_fields; i++) {
        const double none = NAN;
        memcpy((char *)numbers + qk__fields[i].number, &none, sizeof none);
    }
}

static qk_status add_head(qk__builder *builder, const head_key *key, int k_head, qk_error *err)
{
    if (builder->num_heads == builder->head_capacity) {
        qk__built_head *heads =
            qk__grow(builder->heads, &builder->head_capacity, sizeof *heads);
        if (!heads)
            return qk__nomem(err);
        builder->heads = heads;
    }
    QK_TRY(qk__lookup_add(&builder->head_lookup, qk__hash(key, sizeof *key), builder->num_heads,
                          err));
    qk__built_head *head = &builder->heads[builder->num_heads++];
    *head = (qk__built_head){.model = (size_t)key->model};
    head->head.layer = (int)key->layer;
    head->head.q_head = (int)key->q_head;
    head->head.k_head = k_head;
    head->head.category = -1;
    head->head.n_q = head->head.n_k = NAN;
    forget_numbers(&head->head.v);
    head->head.lo = head->head.hi = head->head.cv = head->head.v;
    return QK_OK;
}

const char *qk__head_text(const qk__builder *builder, size_t head,
                          char text[QK__HEAD_TEXT_SIZE])
{
    const qk__built_head *h = &builder->heads[head];
    snprintf(text, QK__HEAD_TEXT_SIZE, "model '%.80s', layer %d, query head %d",
             builder->names.items[h->model], h->head.layer, h->head.q_head);
    return text;
}

/* The model of the row before is compared first: a lookup of each of a million rows would show. */
static qk_status find_model(qk__builder *builder, const qk__csv_reader *csv, size_t column,
                            size_t *model, qk_error *err)
{
    const char *name = qk__reader_text(csv, column);
    if (builder->last_head < builder->num_heads) {
        *model = builder->heads[builder->last_head].model;
        if (strcmp(builder->names.items[*model], name) == 0)
            return QK_OK;
    }
    if (!builder->listed)
        return qk__builder_add_model(builder, name, model, err);
    *model = qk__text_set_find(&builder->names, name);
    return *model != QK__NOT_THERE
               ? QK_OK
               : qk__reader_fail(csv, column, QK_ERR_INCONSISTENT, "is not in models.csv", err);
}

qk_status qk__builder_head(qk__builder *builder, const qk__csv_reader *csv,
                           const qk__id_columns *ids, size_t *head, qk_error *err)
{
    size_t model;
    int64_t layer, q_head, k_head;
    QK_TRY(find_model(builder, csv, ids->model, &model, err));
    QK_TRY(qk__reader_integer(csv, ids->layer, 0, INT_MAX, &layer, err));
    QK_TRY(qk__reader_integer(csv, ids->q_head, 0, INT_MAX, &q_head, err));
    QK_TRY(qk__reader_integer(csv, ids->k_head, 0, INT_MAX, &k_head, err));
    const head_key key = {model, (uint32_t)layer, (uint32_t)q_head};
    *head = builder->last_head;
    if (*head >= builder->num_heads || !is_head(builder->heads, *head, &key))
        *head = qk__lookup_find(&builder->head_lookup, qk__hash(&key, sizeof key), is_head,
                                builder->heads, &key);
    if (*head == QK__NOT_THERE) {
        *head = builder->num_heads;
        QK_TRY(add_head(builder, &key, (int)k_head, err));
    }
    builder->last_head = *head;
    if (builder->heads[*head].head.k_head != k_head)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: row %zu: key head %lld of layer %lld, query head %lld is %d in "
                        "another row or table",
                        qk__reader_path(csv), qk__reader_row(csv), (long long)k_head,
                        (long long)layer, (long long)q_head, builder->heads[*head].head.k_head);
    return QK_OK;
}
