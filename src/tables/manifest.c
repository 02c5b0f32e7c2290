/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.json of a results folder: whether the folder is complete, and which run wrote which
 * table. */
#include "tables/manifest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/results.h>

#include "base/error.h"
#include "base/file.h"
#include "base/fingerprint.h"
#include "base/json_build.h"
#include "tables/text_lengths.h"

/* ---- reading ---------------------------------------------------------------------------- */

/* models.csv and scores.csv belong to no analysis. */
static bool is_table(const char *name)
{
    return strcmp(name, "summary.json") == 0 ||
           (qk__ends_with(name, ".csv") && strcmp(name, "models.csv") != 0 &&
            strcmp(name, "scores.csv") != 0);
}

static qk_status list_tables(const char *folder, json_t *tables, qk_error *err)
{
    qk__names names;
    QK_TRY(qk__list_dir(folder, &names, err));
    int failed = tables ? 0 : -1;
    for (size_t i = 0; i < names.count && failed == 0; i++)
        if (is_table(names.items[i]))
            failed = json_array_append_new(tables, json_string(names.items[i]));
    qk__names_free(&names);
    return failed == 0 ? QK_OK : qk__nomem(err);
}

/* The manifest of a version with one run becomes {"runs": [that run]}. */
static qk_status wrap(qk__manifest *manifest, const char *folder, qk_error *err)
{
    json_t *tables = json_array();
    qk_status status = list_tables(folder, tables, err);
    json_t *run = qk__json_copy(manifest->root);
    if (status == QK_OK && (!run || json_object_set(run, "tables", tables) != 0))
        status = qk__nomem(err);
    json_decref(tables);
    json_t *root = json_pack("{s:[o]}", "runs", run);
    json_decref(manifest->root);
    manifest->root = root;
    return status == QK_OK && !root ? qk__nomem(err) : status;
}

static qk_status understand(qk__manifest *manifest, const char *folder, qk_error *err)
{
    const json_t *root = manifest->root;
    manifest->is_study = strcmp(qk__json_string(root, "kind"), "study") == 0;
    manifest->is_comparison = strcmp(qk__json_string(root, "kind"), "comparison") == 0;
    manifest->complete = !json_is_false(json_object_get(root, "complete"));
    if (manifest->is_study || strcmp(qk__json_string(root, "kind"), "published") == 0)
        return QK_OK;
    if (!json_is_array(json_object_get(root, "runs")) &&
        json_is_array(json_object_get(root, "inputs")))
        QK_TRY(wrap(manifest, folder, err));
    json_t *runs = json_object_get(manifest->root, "runs");
    manifest->runs = json_is_array(runs) ? runs : NULL;
    return QK_OK;
}

qk_status qk__manifest_read(qk__manifest *manifest, const char *folder, qk_error *err)
{
    *manifest = (qk__manifest){.complete = true};
    qk__path path;
    QK_TRY(qk__path_in(&path, folder, QK__MANIFEST_NAME, err));
    qk_status status =
        qk__json_read_file(&manifest->root, path.text, QK__JSON_MANIFEST, &manifest->why);
    if (status == QK_ERR_NOMEM)
        return qk__nomem(err);
    if (status == QK_ERR_IO)
        return qk__fail(
            err, QK_ERR_IO,
            "%.800s; nothing else says which run made the tables: make it readable, "
            "or move it away to use the tables as they are",
            manifest->why.message);
    manifest->broken = status == QK_ERR_MALFORMED;
    status = json_is_object(manifest->root) ? understand(manifest, folder, err) : QK_OK;
    if (status != QK_OK)
        qk__manifest_free(manifest);
    return status;
}

void qk__manifest_free(qk__manifest *manifest)
{
    json_decref(manifest->root);
    *manifest = (qk__manifest){.complete = true};
}

/* ---- what it says ----------------------------------------------------------------------- */

const json_t *qk__manifest_owner(const qk__manifest *manifest, const char *table)
{
    size_t i, j;
    const json_t *run, *name;
    json_array_foreach(manifest->runs, i, run)
    {
        json_array_foreach(json_object_get(run, "tables"), j, name)
        {
            if (json_is_string(name) && strcmp(json_string_value(name), table) == 0)
                return run;
        }
    }
    return NULL;
}

bool qk__same_capture(const json_t *run, const json_t *other, const char **file)
{
    size_t i;
    const json_t *entry;
    json_t *files = json_object(); /* of the other run, by name */
    *file = NULL;
    json_array_foreach(json_object_get(other, "inputs"), i, entry)
    {
        const char *name = qk__json_string(entry, "file");
        if (json_object_set(files, name, json_object_get(entry, "xxh3_128")) != 0)
            *file = name; /* without memory it counts as different */
    }
    json_array_foreach(json_object_get(run, "inputs"), i, entry)
    {
        const char *name = qk__json_string(entry, "file");
        const char *was = json_string_value(json_object_get(files, name));
        const char *is = json_string_value(json_object_get(entry, "xxh3_128"));
        if (was && is && strcmp(was, is) != 0) {
            *file = name;
            break;
        }
    }
    json_decref(files);
    return !*file;
}

static qk_status check_captures(const qk__manifest *manifest, const char *folder, qk_error *err)
{
    const char *file;
    for (size_t i = 0; i < json_array_size(manifest->runs); i++)
        for (size_t j = 0; j < i; j++) {
            const json_t *a = json_array_get(manifest->runs, j);
            const json_t *b = json_array_get(manifest->runs, i);
            if (!qk__same_capture(a, b, &file))
                return qk__fail(err, QK_ERR_INCONSISTENT,
                                "%s: holds tables of two captures: %s differs between '%.200s' "
                                "and '%.200s'; analyse each into a folder of its own",
                                folder, file, qk__json_string(a, "command_line"),
                                qk__json_string(b, "command_line"));
        }
    return QK_OK;
}

/* ---- whether the tables are as they were written ---------------------------------------- */

/* Appends what has changed in a table. */
static qk_status compare_table(const char *folder, const char *name, const json_t *was,
                               json_t *changes, qk_error *err)
{
    int64_t bytes;
    char hash[QK__FINGERPRINT_SIZE];
    qk_error reason = {0};
    json_t *change = NULL;
    qk__path path;
    QK_TRY(qk__path_in(&path, folder, name, err));
    bool there = qk__is_there(path.text);
    qk_status status = qk__fingerprint_file(path.text, &bytes, hash, &reason);
    if (status == QK_ERR_NOMEM)
        return qk__nomem(err);
    bool changed = true;
    if (status != QK_OK && there)
        change = json_sprintf("%s cannot be read (%s)", name, reason.message);
    else if (status != QK_OK)
        change = json_sprintf("%s is missing", name);
    else if (bytes != json_integer_value(json_object_get(was, "bytes")) ||
             strcmp(hash, qk__json_string(was, "xxh3_128")) != 0)
        change = json_sprintf("%s is not as it was written", name);
    else
        changed = false;
    return changed && json_array_append_new(changes, change) != 0 ? qk__nomem(err) : QK_OK;
}

qk_status qk__manifest_check_owner(const qk__manifest *manifest, const char *folder,
                                   const char *table, qk_error *err)
{
    if (!manifest->runs || !manifest->complete || strcmp(table, "models.csv") == 0 ||
        qk__manifest_owner(manifest, table))
        return QK_OK;
    return qk__fail(
        err, QK_ERR_INCONSISTENT,
        "%s/%s: no run in manifest.json wrote this table; move it to a folder of its own",
        folder, table);
}

static qk_status compare_tables(const json_t *run, const char *folder, json_t *changes,
                                qk_error *err)
{
    size_t i;
    const json_t *name, *contents = json_object_get(run, "contents");
    json_array_foreach(json_object_get(run, "tables"), i, name)
    {
        const char *table = json_string_value(name);
        const json_t *was = table ? json_object_get(contents, table) : NULL;
        if (was)
            QK_TRY(compare_table(folder, table, was, changes, err));
    }
    return QK_OK;
}

qk_status qk__manifest_changes(const qk__manifest *manifest, const char *folder,
                               json_t **changes, qk_error *err)
{
    *changes = json_array();
    qk_status status = *changes ? QK_OK : qk__nomem(err);
    if (status == QK_OK && !manifest->runs)
        status = compare_tables(manifest->root, folder, *changes, err);
    for (size_t i = 0; i < json_array_size(manifest->runs) && status == QK_OK; i++)
        status = compare_tables(json_array_get(manifest->runs, i), folder, *changes, err);
    if (status != QK_OK) {
        json_decref(*changes);
        *changes = NULL;
    }
    return status;
}

qk_status qk__manifest_check(const qk__manifest *manifest, const char *folder, qk_error *err)
{
    if (manifest->broken)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%.800s; without it nothing says which run made the tables: run the "
                        "analyses again into another folder, or remove this file to use the "
                        "tables as they are",
                        manifest->why.message);
    if (!manifest->complete)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: the results are not complete: a run was stopped before its end; "
                        "run it again: %.300s",
                        folder, qk__json_string(manifest->root, "command_line"));
    return check_captures(manifest, folder, err);
}

qk_status qk__manifest_verify(const qk__manifest *manifest, const char *folder, qk_error *err)
{
    json_t *changes;
    QK_TRY(qk__manifest_check(manifest, folder, err));
    QK_TRY(qk__manifest_changes(manifest, folder, &changes, err));
    const char *change = json_string_value(json_array_get(changes, 0));
    qk_status status =
        change ? qk__fail(err, QK_ERR_INCONSISTENT,
                          "%s/%s; run the analysis again, or take it as it is (--force)",
                          folder, change)
               : QK_OK;
    json_decref(changes);
    return status;
}

qk_status qk__manifest_verify_table(const qk__manifest *manifest, const char *folder,
                                    const char *table, qk_error *err)
{
    const json_t *run = manifest->runs ? qk__manifest_owner(manifest, table) : manifest->root;
    const json_t *was = json_object_get(json_object_get(run, "contents"), table);
    json_t *changes = json_array();
    qk_status status = changes ? QK_OK : qk__nomem(err);
    if (status == QK_OK && was)
        status = compare_table(folder, table, was, changes, err);
    const char *change = json_string_value(json_array_get(changes, 0));
    if (status == QK_OK && change)
        status = qk__fail(err, QK_ERR_INCONSISTENT,
                          "%s/%s; run the analysis again, or take it as it is (--force)",
                          folder, change);
    json_decref(changes);
    return status;
}

/* For a folder whose manifest was read. */
static qk_status check_all(const qk__manifest *manifest, const char *folder, qk_error *err)
{
    if (!manifest->root && !manifest->broken)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s/%s: cannot be read; give a folder with results", folder,
                        QK__MANIFEST_NAME);
    const char *kind = qk__json_string(manifest->root, "kind");
    if (!manifest->is_study && !manifest->runs && strcmp(kind, "published") != 0 &&
        strcmp(kind, "ablation") != 0)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "%s/%s: is no manifest of results; run the analysis again into another "
                        "folder",
                        folder, QK__MANIFEST_NAME);
    return qk__manifest_verify(manifest, folder, err);
}

qk_status qk_results_check(const char *folder, qk_error *err)
{
    QK_NEED(err, folder);
    qk__manifest manifest;
    QK_TRY(qk__manifest_read(&manifest, folder, err));
    qk_status status = check_all(&manifest, folder, err);
    qk__manifest_free(&manifest);
    return status;
}

int qk__manifest_layers(const qk__manifest *manifest, const char *model)
{
    size_t i;
    const json_t *run;
    json_int_t layers = 0;
    json_array_foreach(manifest->runs, i, run)
    {
        json_int_t own = json_integer_value(json_object_get(run, "num_layers"));
        if (strcmp(qk__json_string(run, "model"), model) == 0 && own > layers)
            layers = own;
    }
    return layers > 0 && layers < (1 << 20) ? (int)layers : 0;
}

qk_text_lengths qk__manifest_lengths(const qk__manifest *manifest, const char *model)
{
    size_t i;
    const json_t *run, *lengths = NULL;
    json_array_foreach(manifest->runs, i, run)
    {
        const json_t *own = json_object_get(run, "lengths");
        if (own && strcmp(qk__json_string(run, "model"), model) == 0)
            lengths = own;
    }
    return qk__lengths_of_json(lengths);
}

/* Runs that do not classify heads have no thresholds. */
static void add_limits(const json_t *run, double limits[2], bool *found)
{
    const json_t *pca = json_object_get(json_object_get(run, "settings"), "pca");
    const json_t *low = json_object_get(pca, "taxonomy_low");
    const json_t *high = json_object_get(pca, "taxonomy_high");
    if (!json_is_number(low) || !json_is_number(high))
        return;
    const double own[] = {json_number_value(low), json_number_value(high)};
    const bool same = limits[0] == own[0] && limits[1] == own[1];
    for (int i = 0; i < 2; i++)
        limits[i] = same || !*found ? own[i] : NAN;
    *found = true;
}

void qk__manifest_limits(const qk__manifest *manifest, double limits[2], bool *found)
{
    size_t i;
    const json_t *run;
    add_limits(manifest->root, limits, found); /* of a study */
    json_array_foreach(manifest->runs, i, run)
    {
        add_limits(run, limits, found);
    }
}

int qk__manifest_query_heads(const qk__manifest *manifest)
{
    const json_int_t most = 1 << 15;
    json_int_t layers = json_integer_value(json_object_get(manifest->root, "num_layers"));
    json_int_t heads = json_integer_value(json_object_get(manifest->root, "num_q_heads"));
    bool known = layers > 0 && layers < most && heads > 0 && heads < most;
    return known ? (int)(layers * heads) : 0;
}

size_t qk__manifest_failures(const qk__manifest *manifest, const char **first)
{
    size_t i, most = 0;
    const json_t *run;
    *first = "";
    json_array_foreach(manifest->runs, i, run)
    {
        const json_t *failures = json_object_get(run, "failures");
        if (json_array_size(failures) <= most)
            continue;
        most = json_array_size(failures);
        *first = qk__json_string(json_array_get(failures, 0), "head");
    }
    return most;
}
