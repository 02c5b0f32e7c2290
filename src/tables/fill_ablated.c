/* SPDX-License-Identifier: Apache-2.0 */
/* What the manifest of an ablation tells: the model of ablation.csv, and `ablated`: the model of an ablation, which ablation_groups.csv does not name, its query heads, and the lengths of
 * its texts, which may be other texts than those of the results. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json_build.h"
#include "tables/store.h"
#include "tables/text_lengths.h"

/* The manifest of an ablation in a folder of results, or of the folder itself; `own` is to be freed. */
static qk_status read_manifest(const qk__table_folder *source, qk__manifest *own,
                               const qk__manifest **of, qk_error *err)
{
    qk__path path;
    QK_TRY(qk__path_in(&path, source->folder, "ablation", err));
    QK_TRY(qk__manifest_read(own, path.text, err));
    *of = own->root ? own : &source->manifest;
    return QK_OK;
}

static qk_status check_model(qk__store_set *set, const qk__table_folder *source,
                             const char *table, const char *model, qk_error *err)
{
    double strange = 0;
    if (*model)
        QK_TRY(qk__sql_number(set->store, &strange, err,
                              "SELECT count(*) > 0 AND sum(model = %Q) = 0 FROM \"%w\".models",
                              model, set->name));
    if (strange > 0)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: %s is of the model '%.100s', which the other tables do not have: "
                        "give ablate --model-name, or another folder",
                        source->folder, table, model);
    return QK_OK;
}

qk_status qk__row_model_ablated(qk__row_model *model, qk__store_set *set,
                                const qk__table_folder *source, const char *table,
                                qk_error *err)
{
    qk__manifest own;
    const qk__manifest *of;
    bool there = true;
    QK_TRY(read_manifest(source, &own, &of, err));
    const char *name = qk__json_string(of->root, "model");
    qk_status status = check_model(set, source, table, name, err);
    if (status == QK_OK)
        status = qk__row_model_named(model, set, name, &there, err);
    qk__manifest_free(&own);
    return status;
}

static qk_status add_ablation(qk__store_set *set, const qk__table_folder *source,
                              const qk__manifest *of, qk_error *err)
{
    const char *model = qk__json_string(of->root, "model");
    const int heads = qk__manifest_query_heads(of);
    double most = 0;
    QK_TRY(check_model(set, source, "ablation_groups.csv", model, err));
    QK_TRY(qk__sql_number(set->store, &most, err,
                          "SELECT max(heads) FROM \"%w\".ablation_groups", set->name));
    if (heads > 0 && most > heads)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: ablation_groups.csv, column 'heads': %.0f, and the model has %d",
                        source->folder, most, heads);
    QK_TRY(qk__store_do(set->store, err,
                        "INSERT INTO \"%w\".ablated (model, query_heads) VALUES (%Q, "
                        "nullif(%d, 0))",
                        set->name, model, heads));
    qk_text_lengths lengths = qk__lengths_of_json(json_object_get(of->root, "lengths"));
    for (size_t i = 0; i < QK__NUM_LENGTHS; i++)
        if (isfinite(*qk__length_of(&lengths, i)))
            QK_TRY(qk__store_do(
                set->store, err, "UPDATE \"%w\".ablated SET %s = %!.17g WHERE model = %Q",
                set->name, qk__length_members[i].name, *qk__length_of(&lengths, i), model));
    return QK_OK;
}

static qk_status add_folder(qk__store_set *set, const qk__table_folder *source, qk_error *err)
{
    qk__path path;
    bool there;
    qk__manifest own;
    const qk__manifest *of;
    QK_TRY(
        qk__find_table_file(source, qk__find_table("ablation_groups.csv"), &path, &there, err));
    if (!there)
        return QK_OK;
    QK_TRY(read_manifest(source, &own, &of, err));
    qk_status status = add_ablation(set, source, of, err);
    qk__manifest_free(&own);
    return status;
}

qk_status qk__fill_ablated(qk__store_table *table, qk_error *err)
{
    for (size_t i = 0; i < table->num_columns; i++)
        table->columns[i].wanted = true;
    for (size_t i = 0; i < table->set->num_sources; i++)
        QK_TRY(add_folder(table->set, &table->set->sources[i], err));
    return QK_OK;
}
