/* SPDX-License-Identifier: Apache-2.0 */
/* Where in a folder a table's file is, whether it is as its run wrote it, and what manifests say of models. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "tables/store.h"
#include "tables/text_lengths.h"

/* ---- where a file is -------------------------------------------------------------------- */

/* An ablation has its own folder, which may lie in the folder of results. */
qk_status qk__find_table_file(const qk__table_folder *source, const qk__table *file,
                              qk__path *path, bool *there, qk_error *err)
{
    QK_TRY(qk__path_in(path, source->folder, file->info.name, err));
    *there = qk__is_there(path->text);
    if (*there || !(file->needs & QK__ABLATION))
        return QK_OK;
    qk__path folder;
    QK_TRY(qk__path_in(&folder, source->folder, "ablation", err));
    QK_TRY(qk__path_in(path, folder.text, file->info.name, err));
    *there = qk__is_there(path->text);
    return QK_OK;
}

/* Checks that a file is as its run wrote it; of an ablation, all files. */
static qk_status check_file(qk__table_folder *source, const qk__table *file, const char *path,
                            bool there, qk_error *err)
{
    qk__path own, folder;
    QK_TRY(qk__path_in(&own, source->folder, file->info.name, err));
    QK_TRY(qk__manifest_verify_table(&source->manifest, source->folder, file->info.name, err));
    if (strcmp(own.text, path) == 0)
        return there ? qk__manifest_check_owner(&source->manifest, source->folder,
                                                file->info.name, err)
                     : QK_OK;
    QK_TRY(qk__path_in(&folder, source->folder, "ablation", err));
    qk__manifest_free(&source->ablation);
    QK_TRY(qk__manifest_read(&source->ablation, folder.text, err));
    return qk__manifest_verify(&source->ablation, folder.text, err);
}

qk_status qk__open_table_file(qk__table_folder *source, const qk__table *file,
                              qk__csv_reader **csv, qk_error *err)
{
    qk__path path;
    bool there;
    *csv = NULL;
    QK_TRY(qk__find_table_file(source, file, &path, &there, err));
    if (!source->force)
        QK_TRY(check_file(source, file, path.text, there, err));
    return there ? qk__reader_open(csv, path.text, err) : QK_OK;
}

/* ---- models ----------------------------------------------------------------------------- */

/* The last part of the folder's real path names a model without a name. */
char *qk__unnamed_model(const qk__store_set *set)
{
    char *path = set->num_sources > 0 ? realpath(set->sources[0].folder, NULL) : NULL;
    const char *slash = path ? strrchr(path, '/') : NULL;
    char *name = qk__strdup(slash && slash[1] ? slash + 1 : "model");
    free(path);
    return name;
}

/* Adds layers and lengths of texts from a manifest; models.csv has priority. */
qk_status qk__tell_of_model(qk__store_set *set, const char *name, qk_error *err)
{
    int layers = 0;
    qk_text_lengths lengths = qk__no_lengths;
    for (size_t i = 0; i < set->num_sources; i++) {
        const qk__manifest *manifest = &set->sources[i].manifest;
        int own = qk__manifest_layers(manifest, name);
        layers = own > layers ? own : layers;
        qk_text_lengths of = qk__manifest_lengths(manifest, name);
        lengths = isfinite(of.most) ? of : lengths;
    }
    if (layers > 0)
        QK_TRY(qk__store_do(
            set->store, err,
            "UPDATE \"%w\".models SET layers = %d WHERE model = %Q AND coalesce(layers, 0) = 0",
            set->name, layers, name));
    for (size_t i = 0; i < QK__NUM_LENGTHS && !set->listed; i++) {
        double length = *qk__length_of(&lengths, i);
        if (isfinite(length))
            QK_TRY(qk__store_do(set->store, err,
                                "UPDATE \"%w\".models SET %s = %!.17g WHERE model = %Q",
                                set->name, qk__length_members[i].name, length, name));
    }
    return QK_OK;
}

qk_status qk__store_add_model(qk__store_set *set, const char *name, qk_error *err)
{
    char *unnamed = qk__unnamed_model(set);
    if (!unnamed)
        return qk__nomem(err);
    const char *label = *name ? name : unnamed;
    qk_status status = qk__store_do(
        set->store, err,
        "INSERT OR IGNORE INTO \"%w\".models (model, label, family) VALUES (%Q, %Q, %Q)",
        set->name, name, label, label);
    free(unnamed);
    return status == QK_OK && sqlite3_changes(set->store->db) > 0
               ? qk__tell_of_model(set, name, err)
               : status;
}

/* ---- of a row --------------------------------------------------------------------------- */

qk_status qk__row_model_begin(qk__row_model *model, const qk__store_set *set, qk_error *err)
{
    *model = (qk__row_model){.id = 0};
    return qk__sql_make(set->store, &model->find, err,
                        "SELECT model_id FROM \"%w\".models WHERE model = ?1", set->name);
}

void qk__row_model_free(qk__row_model *model)
{
    sqlite3_finalize(model->find);
    free(model->name);
}

qk_status qk__row_model_named(qk__row_model *model, qk__store_set *set, const char *name,
                              bool *there, qk_error *err)
{
    *there = true;
    if (model->name && strcmp(model->name, name) == 0)
        return QK_OK;
    free(model->name);
    model->name = qk__strdup(name);
    if (!model->name)
        return qk__nomem(err);
    sqlite3_bind_text(model->find, 1, model->name, -1, SQLITE_STATIC);
    int code = sqlite3_step(model->find);
    if (code == SQLITE_ROW)
        model->id = sqlite3_column_int64(model->find, 0);
    sqlite3_reset(model->find);
    if (code != SQLITE_DONE)
        return code == SQLITE_ROW ? QK_OK : qk__sql_fail(set->store, code, err);
    *there = !set->listed;
    if (set->listed)
        return QK_OK;
    QK_TRY(qk__store_add_model(set, model->name, err));
    model->id = sqlite3_last_insert_rowid(set->store->db);
    return model->id <= QK__MAX_ID ? QK_OK
                                   : qk__fail(err, QK_ERR_UNSUPPORTED, "too many models");
}

qk_status qk__row_model_find(qk__row_model *model, qk__store_set *set,
                             const qk__csv_reader *csv, size_t column, qk_error *err)
{
    bool there;
    QK_TRY(qk__row_model_named(model, set, qk__reader_text(csv, column), &there, err));
    return there
               ? QK_OK
               : qk__reader_fail(csv, column, QK_ERR_INCONSISTENT, "is not in models.csv", err);
}
