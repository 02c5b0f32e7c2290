/* SPDX-License-Identifier: Apache-2.0 */
/* The weights of a folder: model.safetensors, or an index and the files that it names. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_build.h"
#include "model/checkpoint.h"
#include "model/quants.h"
#include "model/weight_files.h"

#define SINGLE_NAME "model.safetensors"
#define INDEX_NAME  "model.safetensors.index.json"
/* ---- the index of a checkpoint in several files ----------------------------------------- */

/* A name as it may stand in an index: of a file beside it, nothing else. */
static bool is_file_name(const char *name)
{
    static const char suffix[] = ".safetensors";
    size_t length = strlen(name), end = sizeof suffix - 1;
    return length > end && length < 256 && strcmp(name + length - end, suffix) == 0 &&
           name[0] != '.' && !strchr(name, '/') && !strchr(name, '\\');
}

static qk_status list_files(qk__checkpoint *c, json_t *map, qk_error *err)
{
    size_t count = json_object_size(map);
    if (count == 0)
        return qk__fail(err, QK_ERR_MALFORMED, "weight_map: expected file names by tensor");
    const char **names = qk__calloc(count, sizeof *names);
    if (!names)
        return qk__nomem(err);
    qk_status status = QK_OK;
    size_t i = 0;
    const char *tensor;
    json_t *value;
    json_object_foreach(map, tensor, value)
    {
        names[i] = json_string_value(value);
        if (!names[i] || !is_file_name(names[i])) {
            status = qk__fail(err, QK_ERR_MALFORMED,
                              "weight_map: %s lies in \"%s\", which is no *.safetensors file "
                              "of this folder",
                              tensor, names[i] ? names[i] : "");
            break;
        }
        i++;
    }
    if (status == QK_OK)
        status = qk__weight_files_name(c, names, count, err);
    free(names);
    return status;
}

/* Every tensor lies in the file that the index says. */
static qk_status check_index(const qk__checkpoint *c, json_t *map, qk_error *err)
{
    const char *name;
    json_t *file;
    json_object_foreach(map, name, file)
    {
        const qk__tensor_entry *entry = qk__weight_files_find(c, name);
        if (!entry || strcmp(entry->file, json_string_value(file)) != 0)
            return qk__fail(err, QK_ERR_INCONSISTENT, "tensor %s is not in %s", name,
                            json_string_value(file));
    }
    return QK_OK;
}

/* ---- opening ---------------------------------------------------------------------------- */

static qk_status parse_file(void *context, qk__weight_file *file, qk_error *err)
{
    (void)context;
    QK_TRY(qk__tensor_list_parse(&file->list, file->bytes, file->size, err));
    for (size_t i = 0; i < file->list.count; i++)
        file->list.items[i].type = qk__quant_plain(file->list.items[i].dtype);
    return file->list.count > 0 ? QK_OK : qk__fail(err, QK_ERR_MALFORMED, "no tensors in it");
}

static qk_status open_indexed(qk__checkpoint *c, const char *folder, const char *index,
                              qk_error *err)
{
    json_t *object;
    QK_TRY(qk__json_read_file(&object, index, QK__JSON_INDEX, err));
    json_t *map = json_object_get(object, "weight_map");
    qk_status status = qk__context(err, list_files(c, map, err), "%s", index);
    if (status == QK_OK)
        status = qk__weight_files_open(c, folder, parse_file, NULL, err);
    if (status == QK_OK)
        status = qk__context(err, check_index(c, map, err), "%s", index);
    json_decref(object);
    return status;
}

static qk_status open_found(qk__checkpoint *c, const char *folder, const char *single,
                            const char *index, qk_error *err)
{
    if (qk__is_there(single)) {
        const char *name = SINGLE_NAME;
        QK_TRY(qk__weight_files_name(c, &name, 1, err));
        return qk__weight_files_open(c, folder, parse_file, NULL, err);
    }
    if (qk__is_there(index))
        return open_indexed(c, folder, index, err);
    return qk__refuse_folder(folder, SINGLE_NAME " or " INDEX_NAME, err);
}

qk_status qk__checkpoint_open_folder(qk__checkpoint **checkpoint, const char *folder,
                                     qk_error *err)
{
    qk__path single, index;
    *checkpoint = NULL;
    QK_TRY(qk__path_in(&single, folder, SINGLE_NAME, err));
    QK_TRY(qk__path_in(&index, folder, INDEX_NAME, err));
    qk__checkpoint *c = qk__calloc(1, sizeof *c);
    if (!c)
        return qk__nomem(err);
    *c = (qk__checkpoint){.source = "config.json", .types = "F32, F16 and BF16"};
    qk_status status = open_found(c, folder, single.text, index.text, err);
    if (status == QK_OK)
        *checkpoint = c;
    else
        qk__checkpoint_close(&c);
    return status;
}
