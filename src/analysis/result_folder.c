/* SPDX-License-Identifier: Apache-2.0 */
/* The results folder of a run: whose it is, which tables in it stay, and how new ones take the
 * place of old ones.
 *
 * A run may be killed at any time. Before the first table moves, manifest.json says "complete":
 * false and lists the runs whose tables stay; when the last one has moved, the new manifest
 * takes its place. A table that no run in the manifest wrote was left by a killed run: the next
 * run removes it. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <qkscope/common.h>

#include "analysis/run.h"
#include "analysis/run_manifest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_build.h"
#include "capture/capture.h"
#include "capture/packed_file.h"
#include "schema/schema.h"

/* ---- what stays ------------------------------------------------------------------------- */

/* The tables of an analysis go together, even those that this run leaves out. Files about all tables are written
 * again. */
static bool stays(const qk__run *run, const char *name)
{
    const qk__table *table = qk__find_table(name);
    return table && qk__is_result(table) && !qk__is_table_of(table, run->results->contents);
}

/* Appends the entry of an earlier run with the tables that stay; without such a table the run is dropped. */
static qk_status keep_run(qk__run *run, json_t *old, qk_error *err)
{
    size_t i;
    const json_t *name;
    json_t *tables = json_array(), *entry = qk__json_copy(old);
    int failed = tables && entry ? 0 : -1;
    json_array_foreach(json_object_get(old, "tables"), i, name)
    {
        const char *table = json_string_value(name);
        if (table && stays(run, table) && failed == 0)
            failed = json_array_append_new(tables, json_string(table));
    }
    if (failed == 0 && json_array_size(tables) > 0)
        failed = json_object_set(entry, "tables", tables) != 0
                     ? -1
                     : json_array_append(run->staying, entry);
    void *next;
    const char *key;
    json_t *value, *contents = json_object_get(entry, "contents");
    json_object_foreach_safe(contents, next, key, value)
    {
        if (!stays(run, key))
            json_object_del(contents, key);
    }
    json_decref(tables);
    json_decref(entry);
    return failed == 0 ? QK_OK : qk__nomem(err);
}

static bool is_owned(json_t *runs, const char *table)
{
    const qk__manifest manifest = {.runs = runs};
    return qk__manifest_owner(&manifest, table) != NULL;
}

/* ---- whose folder it is ----------------------------------------------------------------- */

#define REFUSE(run, err, why, ...)                                                             \
    qk__fail((err), QK_ERR_EXISTS,                                                             \
             "%s: " why "; choose another folder, or --force to replace the results there",    \
             (run)->settings->output, __VA_ARGS__)

/* Whether a file that an earlier run read differs from this capture's, by its size, or for the first file by its
 * contents: the others are compared when they are read. */
static bool differs(const qk__run *run, const json_t *input, bool read)
{
    qk__input now;
    const char *was = qk__json_string(input, "xxh3_128");
    bool other = !qk__input_find(run, qk__json_string(input, "file"), &now) ||
                 qk__input_print(&now, read, &now.print) != QK_OK ||
                 now.print.bytes != json_integer_value(json_object_get(input, "bytes")) ||
                 (read && strcmp(now.print.hash, was) != 0);
    return other && *was;
}

static qk_status refuse_capture(const qk__run *run, const json_t *old, const char *file,
                                qk_error *err)
{
    return REFUSE(run, err,
                  "holds results of another capture, or of this one before it changed (%.300s "
                  "was read from %.300s)",
                  file, qk__json_string(old, "capture"));
}

static qk_status check_inputs(const qk__run *run, const json_t *old, qk_error *err)
{
    size_t i;
    const json_t *input;
    json_array_foreach(json_object_get(old, "inputs"), i, input)
    {
        if (differs(run, input, i == 0))
            return refuse_capture(run, old, qk__json_string(input, "file"), err);
    }
    return QK_OK;
}

static const char FIRST_POSITION[] = "from_position";

/* The tables that stay and the new ones must fit together. */
static qk_status check_staying(qk__run *run, const json_t *old, qk_error *err)
{
    static const char *const SELECTION[] = {"layers", "heads", "sample_heads", "max_samples",
                                            FIRST_POSITION};
    json_t *group = json_object_get(old, "group");
    const json_t *was = json_object_get(old, "settings");
    json_int_t size = json_integer_value(json_object_get(group, "q_per_kv_group"));
    const char *table = json_string_value(json_array_get(json_object_get(old, "tables"), 0));
    if (strcmp(qk__json_string(old, "model"), run->results->model) != 0)
        return REFUSE(run, err, "%s there has the model name '%.100s', and this run '%.100s'",
                      table, qk__json_string(old, "model"), run->results->model);
    if (size > 0 && run->results->group.size > 0 && size != run->results->group.size)
        return REFUSE(run, err, "%s there has group size %d, and this run %d", table, (int)size,
                      run->results->group.size);
    json_t *settings = qk__describe_settings(run->settings);
    for (size_t i = 0; settings && i < sizeof SELECTION / sizeof *SELECTION; i++)
        if (!json_equal(json_object_get(was, SELECTION[i]),
                        json_object_get(settings, SELECTION[i]))) {
            qk__tell_notice(&run->context, QK_NOTICE_WARNING,
                            "%s: %s there, which stays, was made with other %s",
                            run->settings->output, table, SELECTION[i]);
            break;
        }
    json_decref(settings);
    return QK_OK;
}

/* Whether a run's selection includes that of another run. No selection, or 0: everything. */
static bool takes_all(const json_t *now, const json_t *was)
{
    size_t i, j;
    const json_t *one, *other;
    bool whole = !json_is_array(now) ? json_integer_value(now) == 0 : json_array_size(now) == 0;
    bool was_whole =
        !json_is_array(was) ? json_integer_value(was) == 0 : json_array_size(was) == 0;
    if (whole || was_whole)
        return whole;
    if (!json_is_array(now) || !json_is_array(was))
        return json_integer_value(now) >= json_integer_value(was);
    json_array_foreach(was, i, one)
    {
        bool found = false;
        json_array_foreach(now, j, other)
        {
            found = found || json_equal(one, other);
        }
        if (!found)
            return false;
    }
    return true;
}

static json_int_t first_position(const json_t *settings)
{
    return json_integer_value(json_object_get(settings, FIRST_POSITION));
}

/* A look at one layer should not cost the tables of all layers: new tables must cover what they replace. */
static qk_status check_replaced(const qk__run *run, const json_t *old, qk_error *err)
{
    static const char *const SELECTION[] = {"layers", "heads", "sample_heads", "max_samples"};
    const json_t *name, *was = json_object_get(old, "settings");
    const char *table = NULL;
    size_t i;
    json_array_foreach(json_object_get(old, "tables"), i, name)
    {
        if (!table && json_is_string(name) && !stays(run, json_string_value(name)))
            table = json_string_value(name);
    }
    json_t *settings = table ? qk__describe_settings(run->settings) : NULL;
    const char *less = NULL;
    for (i = 0; settings && i < sizeof SELECTION / sizeof *SELECTION && !less; i++)
        if (!takes_all(json_object_get(settings, SELECTION[i]),
                       json_object_get(was, SELECTION[i])))
            less = SELECTION[i];
    if (!less && first_position(settings) > first_position(was))
        less = FIRST_POSITION;
    json_decref(settings);
    return less ? REFUSE(run, err,
                         "%s there is of more of this capture (%s) than this run takes", table,
                         less)
                : QK_OK;
}

/* The first result in the folder, or a manifest; NULL: neither. */
static qk_status find_result(const qk__run *run, const char **found, qk_error *err)
{
    *found = NULL;
    for (size_t i = 0; i <= qk__num_tables && !*found; i++) {
        const char *name = i < qk__num_tables ? qk__tables[i].info.name : QK__MANIFEST_NAME;
        if (i < qk__num_tables && !qk__is_result(&qk__tables[i]))
            continue;
        char *path = qk__path_join(run->settings->output, name);
        if (!path)
            return qk__nomem(err);
        *found = qk__is_file(path) ? name : NULL;
        free(path);
    }
    return QK_OK;
}

/* found: a result that was there before the manifest was read. Without a manifest its origin is unknown, and it must
 * not be mixed with new results. */
static qk_status check_owner(qk__run *run, const char *found, qk_error *err)
{
    const qk__manifest *before = &run->before;
    if (before->is_study || before->is_comparison)
        return qk__fail(err, QK_ERR_EXISTS, "%s: is the folder of a %s; choose another folder",
                        run->settings->output, before->is_study ? "study" : "comparison");
    if (run->settings->force)
        return QK_OK;
    if (!before->runs)
        return found ? REFUSE(
                           run, err,
                           "holds %s, without a manifest.json that says which capture it is of",
                           found)
                     : QK_OK;
    for (size_t i = 0; i < json_array_size(before->runs); i++)
        QK_TRY(keep_run(run, json_array_get(before->runs, i), err));
    for (size_t i = 0; i < json_array_size(before->runs); i++)
        QK_TRY(check_inputs(run, json_array_get(before->runs, i), err));
    for (size_t i = 0; i < json_array_size(before->runs); i++)
        QK_TRY(check_replaced(run, json_array_get(before->runs, i), err));
    for (size_t i = 0; i < json_array_size(run->staying); i++)
        QK_TRY(check_staying(run, json_array_get(run->staying, i), err));
    return QK_OK;
}

/* Results in a head's folder of a capture would be mistaken for a part of it. */
static qk_status check_no_head(const char *output, qk_error *err)
{
    qk_head_id id;
    qk__names names;
    bool rows = false;
    char *path = realpath(output, NULL);
    if (!path) /* not there yet */
        return QK_OK;
    qk_status status = QK_OK;
    const char *name = strrchr(path, '/') + 1;
    if ((qk_head_parse(name, &id) || qk__layer_parse(name, &id)) && qk__is_dir(path) &&
        (status = qk__list_dir(path, &names, err)) == QK_OK) {
        for (size_t i = 0; i < names.count; i++) {
            size_t length = strlen(names.items[i]);
            rows = rows || (length > 8 && strcmp(names.items[i] + length - 8, ".parquet") == 0);
        }
        qk__names_free(&names);
    }
    free(path);
    if (rows)
        return qk__fail(err, QK_ERR_EXISTS, "%s: is a head of a capture; choose another folder",
                        output);
    return status;
}

static bool is_same_folder(const char *a, const char *b)
{
    struct stat one, other;
    return a && b && stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

/* Refuses results in the folder of a capture: the next reader would find both. */
static qk_status check_place(const qk__run *run, qk_error *err)
{
    const char *output = run->settings->output;
    for (const qk__run *side = run; side; side = side->before_rope)
        if (is_same_folder(output, side->settings->capture) ||
            (side->capture && is_same_folder(output, qk_capture_path(side->capture))))
            return qk__fail(err, QK_ERR_ARGUMENT,
                            "%s: is the folder of the capture; choose another folder", output);
    return check_no_head(output, err);
}

static qk_status look(qk__run *run, qk_error *err)
{
    const char *found, *output = run->settings->output;
    run->staying = json_array();
    QK_TRY(find_result(run, &found, err));
    QK_TRY(qk__manifest_read(&run->before, output, err));
    if (!run->staying)
        return qk__nomem(err);
    return check_owner(run, found, err);
}

qk_status qk__results_claim(qk__run *run, qk_error *err)
{
    const char *output = run->settings->output;
    QK_TRY(check_place(run, err));
    QK_TRY(qk__place_claim(&run->folder, output, err));
    QK_TRY(look(run, err));
    if (!run->before.complete)
        qk__tell_notice(
            &run->context, QK_NOTICE_WARNING,
            "%s: not complete: a run was stopped while its tables took their places "
            "(%.300s); this one replaces them",
            output, qk__json_string(run->before.root, "command_line"));
    return qk__place_sweep(output, err);
}

/* ---- new tables in the place of old ones ------------------------------------------------ */

/* Takes `entry` over; without one, the manifest says that the folder is not complete. */
static qk_status write_manifest(const qk__run *run, json_t *entry, qk__outfile **file,
                                qk_error *err)
{
    bool complete = entry != NULL;
    json_t *runs = qk__json_copy(run->staying);
    int failed = runs ? 0 : -1;
    if (failed == 0 && complete)
        failed = json_array_append(runs, entry);
    json_decref(entry);
    json_t *root =
        failed == 0
            ? json_pack("{s:s, s:s, s:b, s:o, s:O}", "qkscope", QK_VERSION, "kind", "results",
                        "complete", complete, "command_line",
                        qk__json_text_or_null(run->settings->command_line), "runs", runs)
            : NULL;
    json_decref(runs);
    return qk__json_write(root, run->settings->output, QK__MANIFEST_NAME, file, err);
}

/* By now the files have been read, every byte. */
static qk_status check_hashes(const qk__run *run, const json_t *entry, qk_error *err)
{
    const char *file;
    for (size_t i = 0; !run->settings->force && i < json_array_size(run->before.runs); i++) {
        const json_t *old = json_array_get(run->before.runs, i);
        if (!qk__same_capture(entry, old, &file))
            return refuse_capture(run, old, file, err);
    }
    return QK_OK;
}

static qk_status remove_stale(const void *context, qk_error *err)
{
    const qk__run *run = context;
    for (size_t i = 0; i < qk__num_tables; i++) {
        const char *name = qk__tables[i].info.name;
        if (qk__is_result(&qk__tables[i]) && !qk__file_set_has(&run->outputs, name) &&
            !is_owned(run->staying, name))
            QK_TRY(qk__remove_file(run->settings->output, name, err));
    }
    return QK_OK;
}

/* Nothing takes its place before all is written: a full disk leaves the old results. */
qk_status qk__results_commit(qk__run *run, qk_error *err)
{
    qk__outfile *file, *mark;
    json_t *entry = qk__describe_run(run);
    QK_TRY(qk__describe_files(&entry, &run->outputs, err));
    qk_status status = check_hashes(run, entry, err);
    if (status != QK_OK) {
        json_decref(entry);
        return status;
    }
    QK_TRY(write_manifest(run, entry, &file, err));
    QK_TRY(qk__run_add_output(run, QK__MANIFEST_NAME, file, QK_OK));
    QK_TRY(write_manifest(run, NULL, &mark, err));
    QK_TRY(qk__file_set_install(&run->outputs, mark, remove_stale, run, err));
    char *page = qk__path_join(run->settings->output, "report.html");
    if (page && qk__is_file(page))
        qk__tell_notice(
            &run->context, QK_NOTICE_WARNING,
            "%s shows the tables from before this run; qkscope report makes it again", page);
    free(page);
    return QK_OK;
}

/* ---- results that are there already ----------------------------------------------------- */

qk_status qk__results_take(qk__run *run, const char *from, const char *name, qk_error *err)
{
    qk__buffer text = {0};
    char *path = qk__path_join(from, name);
    qk_status status = path ? qk__read_file(path, (size_t)1 << 40, &text, err) : qk__nomem(err);
    if (status == QK_OK && run->outputs.count == QK__SET_FILES)
        status = qk__fail(err, QK_ERR_UNSUPPORTED, "%s: too many tables", from);
    if (status == QK_OK)
        status = qk__file_set_write(&run->outputs, run->settings->output, name, text.data,
                                    text.size, err);
    qk__buffer_free(&text);
    free(path);
    return status;
}

qk_status qk__results_replace(const char *output, bool force, qk__fill_results_fn *fill,
                              void *context, qk_error *err)
{
    bool there = false;
    qk__names names;
    qk__outfile *mark;
    const qk_analysis_settings settings = {.output = output, .force = true};
    qk__run run = {.settings = &settings, .folder.lock = -1};
    qk_status status = qk__results_claim(&run, err);
    if (status == QK_OK && !force && (status = qk__list_dir(output, &names, err)) == QK_OK) {
        there = names.count > 0;
        qk__names_free(&names);
    }
    if (there)
        status = qk__fail(err, QK_ERR_EXISTS,
                          "%s: is not empty; choose another folder, or force", output);
    if (status == QK_OK)
        status = fill(context, &run, err);
    if (status == QK_OK)
        status = write_manifest(&run, NULL, &mark, err);
    if (status == QK_OK)
        status = qk__file_set_install(&run.outputs, mark, remove_stale, &run, err);
    qk__file_set_discard(&run.outputs);
    qk__manifest_free(&run.before);
    json_decref(run.staying);
    qk__place_release(&run.folder);
    return status;
}

static qk_status take_files(qk__run *run, const char *from, qk_error *err)
{
    QK_TRY(qk_results_check(from, err));
    for (size_t i = 0; i < qk__num_tables; i++)
        if (qk__is_file_in(from, qk__tables[i].info.name))
            QK_TRY(qk__results_take(run, from, qk__tables[i].info.name, err));
    if (qk__is_file_in(from, QK__SCHEMA_NAME))
        QK_TRY(qk__results_take(run, from, QK__SCHEMA_NAME, err));
    return qk__results_take(run, from, QK__MANIFEST_NAME, err);
}

static qk_status watch_and_take(void *context, qk__run *run, qk_error *err)
{
    const char *const *from = context;
    qk__hold source = {.lock = -1};
    qk_status status = qk__place_watch(&source, *from, &run->folder, err);
    if (status == QK_OK)
        status = take_files(run, *from, err);
    qk__place_release(&source);
    return status;
}

qk_status qk_results_save(const char *from, const char *output, bool force, qk_error *err)
{
    QK_NEED(err, from);
    QK_NEED(err, output);
    return qk__results_replace(output, force, watch_and_take, &from, err);
}
