/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the files in a folder that belong to captures, and removes them. */
#include "sink/captures.h"

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

const char *qk__stage_name(int stage)
{
    static const char *const names[QK__SUM_SETS] = {"post", "pre", "attention"};
    return names[stage];
}

const char *qk__place_name(int place)
{
    return place == 0 ? "" : qk__stage_name(place == 1 ? QK__POST : QK__PRE);
}

char *qk__place_folder(const char *output, int place)
{
    return place == 0 ? qk__strdup(output) : qk__path_join(output, qk__place_name(place));
}

/* A file may be somebody's; it is refused later, where a folder has to be. */
static bool is_link(const char *output, const char *name)
{
    struct stat st;
    char *path = qk__path_join(output, name);
    bool yes = path && lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
    free(path);
    return yes;
}

qk_status qk__check_links(const char *output, qk_error *err)
{
    bool there;
    for (int i = 1; i < QK__PLACES; i++)
        if (is_link(output, qk__place_name(i)))
            QK_TRY(qk__look_below(output, qk__place_name(i), &there, err));
    return qk__look_below(output, "." QK__PARTIAL "/new", &there, err);
}

/* ---- whose a file is -------------------------------------------------------------------- */

bool qk__is_part_of_capture(const char *name)
{
    qk_head_id id;
    return qk__layer_parse(name, &id) || qk_head_parse(name, &id) || qk__is_sums_folder(name) ||
           strcmp(name, "README.md") == 0 || strcmp(name, "examples.csv") == 0 ||
           strcmp(name, "truth.json") == 0;
}

static bool is_temporary_of(const char *file, const char *name)
{
    size_t length = strlen(name);
    return strncmp(file, name, length) == 0 && qk__temporary_stem(file) == length;
}

bool qk__is_left_of_capture(const char *file)
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
    bool yes = qk__is_file_in(folder, QK_MANIFEST_NAME);
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
        char *folder = qk__place_folder(output, i);
        yes = folder && qk__holds_capture(folder);
        free(folder);
    }
    return yes;
}

static json_t *read_manifest(const char *folder)
{
    char *path = qk__path_join(folder, QK_MANIFEST_NAME);
    json_t *root = path && qk__is_file(path) ? qk__json_read(path, QK__JSON_CAPTURE) : NULL;
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

bool qk__is_changing(const char *folder)
{
    json_t *root = read_manifest(folder);
    bool yes = json_is_true(json_object_get(root, "changing"));
    json_decref(root);
    return yes;
}

/* NULL where there is none; a link that leads nowhere counts as a manifest. */
static qk_status read_any_manifest(const char *folder, json_t **root, qk_error *err)
{
    struct stat st;
    *root = NULL;
    char *path = folder ? qk__path_join(folder, QK_MANIFEST_NAME) : NULL;
    qk_status status = path ? QK_OK : qk__nomem(err);
    if (path && lstat(path, &st) == 0)
        status = qk__json_read_file(root, path, QK__JSON_CAPTURE, err);
    free(path);
    return status;
}

qk_status qk__captured_identity(const char *output, json_t **identity, qk_error *err)
{
    qk_status status = QK_OK;
    *identity = NULL;
    for (int i = 0; status == QK_OK && i < QK__PLACES; i++) {
        json_t *root;
        char *folder = qk__place_folder(output, i);
        status = read_any_manifest(folder, &root, err);
        if (!*identity)
            *identity = json_incref(json_object_get(root, "run"));
        json_decref(root);
        free(folder);
    }
    if (status != QK_OK) {
        json_decref(*identity);
        *identity = NULL;
    }
    return status;
}

/* ---- removing --------------------------------------------------------------------------- */

static bool is_left(const char *name, const void *context)
{
    (void)context;
    return qk__is_left_of_capture(name);
}

static bool is_old(const char *name, const void *context)
{
    return is_left(name, context) || qk__is_part_of_capture(name);
}

static bool is_any(const char *name, const void *context)
{
    (void)name;
    (void)context;
    return true;
}

/* What cannot be removed stays. */
static bool remove_those(const char *output, const char *name, qk__choose_name *those)
{
    return qk__empty_below(output, name, those, NULL, NULL) == QK_OK;
}

static void remove_it(const char *output, const char *name)
{
    if (qk__remove_below(output, name, NULL) != QK_OK) { /* it stays */
    }
}

void qk__output_sweep(const char *top, const char *name)
{
    remove_those(top, name, is_left);
}

qk_status qk__capture_mark(const char *output, int place, qk_error *err)
{
    static const char TEXT[] =
        "{\"format\": \"" QK_MANIFEST_FORMAT "\", \"format_version\": 1, \"complete\": false, "
        "\"changing\": true}\n";
    char *folder = qk__place_folder(output, place);
    qk_status status =
        folder ? qk__write_file_in(folder, QK_MANIFEST_NAME, TEXT, sizeof TEXT - 1, err)
               : qk__nomem(err);
    free(folder);
    return status;
}

qk_status qk__capture_remove(const char *output, int place, qk_error *err)
{
    static const char *const MANIFESTS[] = {QK_MANIFEST_NAME, "post/" QK_MANIFEST_NAME,
                                            "pre/" QK_MANIFEST_NAME};
    (void)err;
    /* the manifest tells a later sweep what could not be removed */
    if (remove_those(output, qk__place_name(place), is_old))
        remove_it(output, MANIFESTS[place]);
    return QK_OK;
}

qk_status qk__each_capture(const char *output, qk__capture_fn *function, qk_error *err)
{
    qk_status status = QK_OK;
    for (int i = 0; status == QK_OK && i < QK__PLACES; i++) {
        char *folder = qk__place_folder(output, i);
        if (!folder)
            status = qk__nomem(err);
        else if (!(i > 0 && is_link(output, qk__place_name(i))) && qk__holds_capture(folder))
            status = function(output, i, err);
        if (folder && i > 0)
            rmdir(folder); /* stays unless it is empty */
        free(folder);
    }
    return status;
}

void qk__partial_empty(const char *output)
{
    remove_it(output, "." QK__PARTIAL "/run.json");
    remove_those(output, "." QK__PARTIAL, is_any);
}

void qk__partial_unbuild(const char *output)
{
    remove_it(output, "." QK__PARTIAL "/new");
}

void qk__partial_drop(const char *output)
{
    qk__partial_empty(output);
    remove_it(output, "." QK__PARTIAL);
}

void qk__output_remove(const char *output)
{
    if (qk__each_capture(output, qk__capture_remove, NULL) != QK_OK)
        return;
    qk__partial_drop(output);
    rmdir(output);
}
