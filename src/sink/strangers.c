/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what is in the folders of a capture and none of its files, before they are removed. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "capture/capture.h"
#include "sink/captures.h"

static qk_status fail_stranger(const char *path, qk_error *err)
{
    return qk__fail(err, QK_ERR_EXISTS,
                    "%s: is no file of a capture and would be removed with it: move it "
                    "elsewhere, or choose another folder",
                    path);
}

/* Also "data.parquet.tmp-qkscope-123-0", which a killed run left. */
static bool ends_with(const char *name, const char *ending)
{
    size_t stem = qk__temporary_stem(name), size = strlen(ending);
    size_t length = stem > 0 ? stem : strlen(name);
    return length > size && strncmp(name + length - size, ending, size) == 0;
}

/* A link is removed, but nothing behind it. */
static bool is_folder(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static qk_status check_file(const char *folder, const char *name, const char *ending,
                            qk_error *err)
{
    char *path = qk__path_join(folder, name);
    if (!path)
        return qk__nomem(err);
    qk_status status =
        ends_with(name, ending) && !is_folder(path) ? QK_OK : fail_stranger(path, err);
    free(path);
    return status;
}

static qk_status check_files(const char *folder, const char *ending, qk_error *err)
{
    qk__names names;
    QK_TRY(qk__list_dir(folder, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; status == QK_OK && i < names.count; i++)
        status = check_file(folder, names.items[i], ending, err);
    qk__names_free(&names);
    return status;
}

static qk_status check_part(const char *folder, const char *name, qk_error *err)
{
    qk_head_id id;
    struct stat st;
    bool sums = qk__is_sums_folder(name);
    bool wants = sums || qk__layer_parse(name, &id) || qk_head_parse(name, &id);
    char *path = qk__path_join(folder, name);
    qk_status status = QK_OK;
    if (!path)
        return qk__nomem(err);
    if (is_folder(path))
        status = wants ? check_files(path, sums ? ".safetensors" : ".parquet", err)
                       : fail_stranger(path, err);
    else if (wants && lstat(path, &st) == 0 && !S_ISLNK(st.st_mode))
        status = fail_stranger(path, err);
    free(path);
    return status;
}

/* What may lie beside the parts of a capture; in an output folder .partial, post and pre, too. */
static bool may_lie_beside(const char *name, int place, bool capture)
{
    bool outer = strcmp(name, "." QK__PARTIAL) == 0;
    for (int i = 1; i < QK__PLACES; i++)
        outer |= strcmp(name, qk__place_name(i)) == 0;
    return (place == 0 && outer) ||
           (capture && (qk__is_left_of_capture(name) || strcmp(name, QK_MANIFEST_NAME) == 0));
}

static qk_status check_names(const char *folder, int place, bool *alone, qk_error *err)
{
    qk__names names;
    const bool capture = qk__holds_capture(folder);
    QK_TRY(qk__list_dir(folder, &names, err));
    qk_status status = QK_OK;
    *alone &= capture || place == 0;
    for (size_t i = 0; status == QK_OK && i < names.count; i++) {
        if (capture && qk__is_part_of_capture(names.items[i]))
            status = check_part(folder, names.items[i], err);
        else
            *alone &= may_lie_beside(names.items[i], place, capture);
    }
    qk__names_free(&names);
    return status;
}

static qk_status check_place(const char *output, int place, bool *alone, qk_error *err)
{
    struct stat st;
    char *folder = qk__place_folder(output, place);
    qk_status status = folder ? QK_OK : qk__nomem(err);
    if (folder && (place == 0 || is_folder(folder)))
        status = check_names(folder, place, alone, err);
    else if (folder && lstat(folder, &st) == 0)
        *alone = false;
    free(folder);
    return status;
}

qk_status qk__check_strangers(const char *output, bool *alone, qk_error *err)
{
    qk_status status = QK_OK;
    *alone = true;
    for (int i = 0; status == QK_OK && i < QK__PLACES; i++)
        status = check_place(output, i, alone, err);
    return status;
}
