/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what lies in the folders of a capture and is none of its files, before they are removed. */
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

/* Of "data.parquet.tmp-qkscope-123-0", too, which a killed run left. */
static bool ends_with(const char *name, const char *ending)
{
    size_t stem = qk__temporary_stem(name), size = strlen(ending);
    size_t length = stem > 0 ? stem : strlen(name);
    return length > size && strncmp(name + length - size, ending, size) == 0;
}

/* A link is removed, and nothing behind it. */
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

static qk_status check_place(const char *output, int place, qk_error *err)
{
    qk__names names = {0};
    char *folder = qk__place_folder(output, place);
    if (!folder)
        return qk__nomem(err);
    qk_status status = QK_OK;
    if ((place == 0 || is_folder(folder)) && qk__holds_capture(folder)) {
        status = qk__list_dir(folder, &names, err);
        for (size_t i = 0; status == QK_OK && i < names.count; i++)
            if (qk__is_part_of_capture(names.items[i]))
                status = check_part(folder, names.items[i], err);
    }
    qk__names_free(&names);
    free(folder);
    return status;
}

qk_status qk__check_strangers(const char *output, qk_error *err)
{
    qk_status status = QK_OK;
    for (int i = 0; status == QK_OK && i < QK__PLACES; i++)
        status = check_place(output, i, err);
    return status;
}
