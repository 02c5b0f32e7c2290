/* SPDX-License-Identifier: Apache-2.0 */
/* Says which files in a folder belong to captures, and removes those. */
#include "sink/place.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json_build.h"
#include "capture/capture.h"
#include "sink/sink.h"

char *qk__place(const char *output, int place)
{
    return place == 0 ? qk__strdup(output)
                      : qk__path_join(output, qk__stage_name(place == 1 ? QK__POST : QK__PRE));
}

/* ---- whose a file is -------------------------------------------------------------------- */

bool qk__is_part_of_capture(const char *name)
{
    qk_head_id id;
    return qk__layer_parse(name, &id) || qk_head_parse(name, &id) ||
           strcmp(name, QK__MOMENTS_FOLDER) == 0 || strcmp(name, "README.md") == 0 ||
           strcmp(name, "examples.csv") == 0 || strcmp(name, "truth.json") == 0;
}

static bool is_temporary_of(const char *file, const char *name)
{
    size_t length = strlen(name);
    return strncmp(file, name, length) == 0 && qk__temporary_stem(file) == length;
}

static bool is_temporary(const char *file)
{
    static const char *const OURS[] = {QK_MANIFEST_NAME, "README.md", "examples.csv",
                                       "run.json", "data.parquet"};
    for (size_t i = 0; i < sizeof OURS / sizeof *OURS; i++)
        if (is_temporary_of(file, OURS[i]))
            return true;
    return false;
}

bool qk__holds_capture(const char *folder)
{
    qk__names names;
    qk_head_id id;
    char *path = qk__path_join(folder, QK_MANIFEST_NAME);
    bool yes = path && qk__is_file(path);
    free(path);
    if (yes || qk__list_dir(folder, &names, NULL) != QK_OK)
        return yes;
    for (size_t i = 0; i < names.count; i++)
        yes |= qk_head_parse(names.items[i], &id) || qk__layer_parse(names.items[i], &id);
    qk__names_free(&names);
    return yes;
}

bool qk__holds_captures(const char *output)
{
    bool yes = false;
    for (int i = 0; !yes && i < QK__PLACES; i++) {
        char *folder = qk__place(output, i);
        yes = folder && qk__holds_capture(folder);
        free(folder);
    }
    return yes;
}

static json_t *read_manifest(const char *folder)
{
    char *path = qk__path_join(folder, QK_MANIFEST_NAME);
    json_t *root = path && qk__is_file(path) ? qk__json_read(path) : NULL;
    free(path);
    return root;
}

bool qk__is_capture_of(const char *folder, const char *fingerprint)
{
    json_t *root = read_manifest(folder);
    const char *found = json_string_value(json_object_get(root, "fingerprint"));
    bool yes = found && strcmp(found, fingerprint) == 0 &&
               json_is_true(json_object_get(root, "complete"));
    json_decref(root);
    return yes;
}

json_t *qk__captured_identity(const char *output)
{
    json_t *identity = NULL;
    for (int i = 0; !identity && i < QK__PLACES; i++) {
        char *folder = qk__place(output, i);
        json_t *root = folder ? read_manifest(folder) : NULL;
        identity = json_incref(json_object_get(root, "run"));
        json_decref(root);
        free(folder);
    }
    return identity;
}

/* In an output folder itself (outer) .partial, post and pre may lie as well. */
static bool holds_one_alone(const char *folder, bool outer)
{
    qk__names names;
    if (qk__list_dir(folder, &names, NULL) != QK_OK)
        return false;
    bool capture = qk__holds_capture(folder);
    bool alone = capture || outer;
    for (size_t i = 0; i < names.count; i++) {
        const char *name = names.items[i];
        bool ours = capture && (qk__is_part_of_capture(name) || is_temporary(name) ||
                                strcmp(name, QK_MANIFEST_NAME) == 0);
        if (outer)
            ours |= strcmp(name, "." QK__PARTIAL) == 0 || strcmp(name, "post") == 0 ||
                    strcmp(name, "pre") == 0;
        alone &= ours;
    }
    qk__names_free(&names);
    return alone;
}

bool qk__holds_captures_alone(const char *output)
{
    bool alone = true;
    struct stat st;
    for (int i = 0; alone && i < QK__PLACES; i++) {
        char *folder = qk__place(output, i);
        if (!folder)
            return false;
        alone = (i > 0 && lstat(folder, &st) != 0) || holds_one_alone(folder, i == 0);
        free(folder);
    }
    return alone;
}

/* ---- removing --------------------------------------------------------------------------- */

/* Links are removed, not followed. What cannot be removed stays. */
static void remove_below(const char *folder, const char *name)
{
    char *path = qk__path_join(folder, name);
    if (path)
        qk__remove_tree(path);
    free(path);
}

typedef bool name_fn(const char *name);

static void remove_those(const char *folder, name_fn *those)
{
    qk__names names;
    if (qk__list_dir(folder, &names, NULL) != QK_OK)
        return;
    for (size_t i = 0; i < names.count; i++)
        if (those(names.items[i]))
            remove_below(folder, names.items[i]);
    qk__names_free(&names);
}

void qk__output_sweep(const char *folder)
{
    remove_those(folder, is_temporary);
}

qk_status qk__capture_mark(const char *folder, qk_error *err)
{
    static const char TEXT[] =
        "{\"format\": \"" QK_MANIFEST_FORMAT "\", \"format_version\": 1, \"complete\": false, "
        "\"changing\": true}\n";
    char *path = qk__path_join(folder, QK_MANIFEST_NAME);
    qk_status status = path ? qk__write_file(path, TEXT, sizeof TEXT - 1, err) : qk__nomem(err);
    free(path);
    return status;
}

qk_status qk__capture_remove(const char *folder, qk_error *err)
{
    (void)err;
    qk__output_sweep(folder);
    remove_those(folder, qk__is_part_of_capture);
    remove_below(folder, QK_MANIFEST_NAME);
    return QK_OK;
}

qk_status qk__each_capture(const char *output, qk__capture_fn *function, qk_error *err)
{
    qk_status status = QK_OK;
    for (int i = 0; status == QK_OK && i < QK__PLACES; i++) {
        char *folder = qk__place(output, i);
        if (!folder)
            status = qk__nomem(err);
        else if (qk__holds_capture(folder))
            status = function(folder, err);
        if (folder && i > 0)
            rmdir(folder); /* stays if anything is in it */
        free(folder);
    }
    return status;
}

static bool is_no_lock(const char *name)
{
    return strcmp(name, "lock") != 0;
}

void qk__partial_empty(const char *partial)
{
    remove_below(partial, "run.json");
    remove_those(partial, is_no_lock);
}

void qk__partial_unbuild(const char *partial)
{
    remove_below(partial, QK__BUILT);
    remove_below(partial, "cleared");
    remove_below(partial, "new");
}

void qk__partial_drop(const char *output)
{
    char *partial = qk__path_join(output, "." QK__PARTIAL);
    if (partial) {
        qk__partial_empty(partial);
        qk__remove_tree(partial);
    }
    free(partial);
}

void qk__output_remove(const char *output)
{
    if (qk__each_capture(output, qk__capture_remove, NULL) != QK_OK)
        return;
    qk__partial_drop(output);
    rmdir(output);
}
