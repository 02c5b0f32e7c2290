/* SPDX-License-Identifier: Apache-2.0 */
/* The weight files of a folder, mapped, and their tensors by name. */
#include "model/safetensors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "model/convert.h"
#include "model/folder.h"
#include "model/tensor_list.h"

#define SINGLE_NAME "model.safetensors"
#define INDEX_NAME  "model.safetensors.index.json"
enum { MAX_INDEX_BYTES = 64 << 20, SAMPLE_BYTES = 4096 };

typedef struct shard {
    char *name;
    uint8_t *bytes; /* NULL: not mapped */
    size_t size;
    qk_tensor_list list;
} shard;

struct qk_checkpoint {
    shard *shards; /* in order of their names */
    size_t num_shards;
    const qk_tensor_entry **tensors; /* in order of their names */
    size_t num_tensors;
};

/* ---- tensors --------------------------------------------------------------------------------
 */

static size_t dtype_size(qk_dtype dtype)
{
    return dtype == QK_DTYPE_F32 ? 4 : 2;
}

const float *qk__tensor_rows(const qk_tensor *tensor, int64_t first, int64_t count, float *out)
{
    size_t numbers = (size_t)count * (size_t)tensor->columns;
    const uint8_t *source = (const uint8_t *)tensor->data +
                            (size_t)first * (size_t)tensor->columns * dtype_size(tensor->dtype);
    switch (tensor->dtype) {
    case QK_DTYPE_F32:
        if ((uintptr_t)source % sizeof(float) == 0)
            return (const float *)(const void *)source;
        memcpy(out, source, numbers * sizeof *out);
        break;
    case QK_DTYPE_F16:
        qk__convert_kernels()->from_f16(source, out, numbers);
        break;
    case QK_DTYPE_BF16:
        qk__convert_kernels()->from_bf16(source, out, numbers);
        break;
    }
    return out;
}

qk_tensor qk__tensor_slice(const qk_tensor *tensor, int64_t first, int64_t count)
{
    qk_tensor part = *tensor;
    part.data = (const uint8_t *)tensor->data +
                (size_t)first * (size_t)tensor->columns * dtype_size(tensor->dtype);
    part.rows = count;
    return part;
}

/* ---- files ----------------------------------------------------------------------------------
 */

static qk_status map_file(shard *file, const char *path, qk_error *err)
{
    int fd;
    int64_t size;
    QK_TRY(qk__open_file(path, &fd, &size, err));
    qk_status status = QK_OK;
    if (size <= 0 || (uint64_t)size > SIZE_MAX)
        status = qk__fail(err, QK_ERR_MALFORMED, "%s: %lld bytes are no safetensors file", path,
                          (long long)size);
    if (status == QK_OK) {
        file->size = (size_t)size;
        void *bytes = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED)
            status = qk__fail(err, errno == ENOMEM ? QK_ERR_NOMEM : QK_ERR_IO,
                              "%s: cannot map %zu bytes: %s", path, file->size, strerror(errno));
        else
            file->bytes = bytes;
    }
    close(fd);
    return status;
}

static qk_status open_shard(shard *file, const char *folder, qk_error *err)
{
    char *path = qk__path_join(folder, file->name);
    if (!path)
        return qk__nomem(err);
    qk_status status = map_file(file, path, err);
    if (status == QK_OK) {
        status = qk__tensor_list_parse(&file->list, file->bytes, file->size, err);
        if (status != QK_OK)
            qk__context(err, status, "%s", path);
    }
    for (size_t i = 0; i < file->list.count; i++)
        file->list.items[i].file = file->name;
    free(path);
    return status;
}

void qk__checkpoint_close(qk_checkpoint **checkpoint)
{
    qk_checkpoint *c = *checkpoint;
    if (!c)
        return;
    for (size_t i = 0; i < c->num_shards; i++) {
        qk__tensor_list_free(&c->shards[i].list);
        if (c->shards[i].bytes)
            munmap(c->shards[i].bytes, c->shards[i].size);
        free(c->shards[i].name);
    }
    free(c->shards);
    free(c->tensors);
    free(c);
    *checkpoint = NULL;
}

/* ---- the index of a checkpoint in several files
 * ----------------------------------------------- */

/* A name as it may stand in an index: of a file beside it, nothing else. */
static bool is_shard_name(const char *name)
{
    static const char suffix[] = ".safetensors";
    size_t length = strlen(name), end = sizeof suffix - 1;
    return length > end && length < 256 && strcmp(name + length - end, suffix) == 0 &&
           name[0] != '.' && !strchr(name, '/') && !strchr(name, '\\');
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static qk_status add_shards(qk_checkpoint *c, const char **names, size_t count, qk_error *err)
{
    qsort(names, count, sizeof *names, compare_names);
    c->shards = qk__calloc(count, sizeof *c->shards);
    if (!c->shards)
        return qk__nomem(err);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && strcmp(names[i], names[i - 1]) == 0)
            continue;
        shard *file = &c->shards[c->num_shards++];
        file->name = qk__strdup(names[i]);
        if (!file->name)
            return qk__nomem(err);
    }
    return QK_OK;
}

static qk_status list_shards(qk_checkpoint *c, json_t *map, qk_error *err)
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
        if (!names[i] || !is_shard_name(names[i])) {
            status = qk__fail(err, QK_ERR_MALFORMED,
                              "weight_map: %s lies in \"%s\", which is no *.safetensors file "
                              "of this folder",
                              tensor, names[i] ? names[i] : "");
            break;
        }
        i++;
    }
    if (status == QK_OK)
        status = add_shards(c, names, count, err);
    free(names);
    return status;
}

/* ---- tensors by name
 * -------------------------------------------------------------------------- */

static int compare_entries(const void *a, const void *b)
{
    const qk_tensor_entry *x = *(const qk_tensor_entry *const *)a;
    const qk_tensor_entry *y = *(const qk_tensor_entry *const *)b;
    return strcmp(x->name, y->name);
}

static const qk_tensor_entry *find(const qk_checkpoint *c, const char *name)
{
    size_t low = 0, high = c->num_tensors;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, c->tensors[middle]->name);
        if (order == 0)
            return c->tensors[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static qk_status sort_tensors(qk_checkpoint *c, qk_error *err)
{
    size_t count = 0;
    for (size_t i = 0; i < c->num_shards; i++)
        count += c->shards[i].list.count;
    c->tensors = qk__calloc(count, sizeof *c->tensors);
    if (!c->tensors)
        return count > 0
                   ? qk__nomem(err)
                   : qk__fail(err, QK_ERR_MALFORMED, "%s: no tensors in it", c->shards[0].name);
    for (size_t i = 0; i < c->num_shards; i++)
        for (size_t j = 0; j < c->shards[i].list.count; j++)
            c->tensors[c->num_tensors++] = &c->shards[i].list.items[j];
    qsort(c->tensors, count, sizeof *c->tensors, compare_entries);
    for (size_t i = 1; i < count; i++)
        if (strcmp(c->tensors[i - 1]->name, c->tensors[i]->name) == 0)
            return qk__fail(err, QK_ERR_INCONSISTENT, "tensor %s is in %s and in %s",
                            c->tensors[i]->name, c->tensors[i - 1]->file, c->tensors[i]->file);
    return QK_OK;
}

/* Every tensor lies in the file that the index says. */
static qk_status check_index(const qk_checkpoint *c, json_t *map, qk_error *err)
{
    const char *name;
    json_t *file;
    json_object_foreach(map, name, file)
    {
        const qk_tensor_entry *entry = find(c, name);
        if (!entry || strcmp(entry->file, json_string_value(file)) != 0)
            return qk__fail(err, QK_ERR_INCONSISTENT, "tensor %s is not in %s", name,
                            json_string_value(file));
    }
    return QK_OK;
}

/* ---- opening
 * ---------------------------------------------------------------------------------- */

static qk_status open_shards(qk_checkpoint *c, const char *folder, qk_error *err)
{
    for (size_t i = 0; i < c->num_shards; i++)
        QK_TRY(open_shard(&c->shards[i], folder, err));
    return sort_tensors(c, err);
}

static qk_status open_indexed(qk_checkpoint *c, const char *folder, const char *index,
                              qk_error *err)
{
    qk_buffer text;
    QK_TRY(qk__read_file(index, MAX_INDEX_BYTES, &text, err));
    json_t *object, *map = NULL;
    qk_status status = qk__json_parse(&object, text.data, text.size, QK__JSON_NO_ZEROS, err);
    qk__buffer_free(&text);
    if (status == QK_OK) {
        map = json_object_get(object, "weight_map");
        status = list_shards(c, map, err);
    }
    if (status != QK_OK)
        qk__context(err, status, "%s", index);
    if (status == QK_OK)
        status = open_shards(c, folder, err);
    if (status == QK_OK) {
        status = check_index(c, map, err);
        if (status != QK_OK)
            qk__context(err, status, "%s", index);
    }
    json_decref(object);
    return status;
}

static qk_status open_found(qk_checkpoint *c, const char *folder, const char *single,
                            const char *index, qk_error *err)
{
    if (qk__is_there(single)) {
        const char *name = SINGLE_NAME;
        QK_TRY(add_shards(c, &name, 1, err));
        return open_shards(c, folder, err);
    }
    if (qk__is_there(index))
        return open_indexed(c, folder, index, err);
    return qk__refuse_folder(folder, SINGLE_NAME " or " INDEX_NAME, err);
}

qk_status qk__checkpoint_open(qk_checkpoint **checkpoint, const char *folder, qk_error *err)
{
    *checkpoint = NULL;
    qk_checkpoint *c = qk__calloc(1, sizeof *c);
    char *single = qk__path_join(folder, SINGLE_NAME);
    char *index = qk__path_join(folder, INDEX_NAME);
    qk_status status =
        c && single && index ? open_found(c, folder, single, index, err) : qk__nomem(err);
    free(single);
    free(index);
    if (status == QK_OK)
        *checkpoint = c;
    else
        qk__checkpoint_close(&c);
    return status;
}

/* ---- what is in it
 * ---------------------------------------------------------------------------- */

bool qk__checkpoint_has(const qk_checkpoint *checkpoint, const char *name)
{
    return find(checkpoint, name) != NULL;
}

static bool parse_dtype(const char *name, qk_dtype *dtype)
{
    static const char *const names[] = {
        [QK_DTYPE_F32] = "F32", [QK_DTYPE_F16] = "F16", [QK_DTYPE_BF16] = "BF16"};
    for (int i = 0; i < 3; i++)
        if (strcmp(names[i], name) == 0) {
            *dtype = (qk_dtype)i;
            return true;
        }
    return false;
}

static void print_shape(const qk_tensor_entry *entry, char text[200])
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < entry->rank; i++)
        used += (size_t)snprintf(text + used, 200 - used, "%s%lld", i > 0 ? ", " : "",
                                 (long long)entry->shape[i]);
}

qk_status qk__checkpoint_get(const qk_checkpoint *checkpoint, const char *name, int64_t rows,
                             int64_t columns, qk_tensor *tensor, qk_error *err)
{
    const qk_tensor_entry *entry = find(checkpoint, name);
    if (!entry)
        return qk__fail(err, QK_ERR_NOT_FOUND, "the weights have no tensor %s", name);
    bool matrix = entry->rank == 2 && entry->shape[0] == rows && entry->shape[1] == columns;
    bool vector = entry->rank == 1 && rows == 1 && entry->shape[0] == columns;
    if (!matrix && !vector) {
        char shape[200], wanted[48] = "";
        print_shape(entry, shape);
        if (rows > 1)
            snprintf(wanted, sizeof wanted, "%lld, ", (long long)rows);
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: tensor %s has shape [%s], config.json says [%s%lld]", entry->file,
                        name, shape, wanted, (long long)columns);
    }
    if (!parse_dtype(entry->dtype, &tensor->dtype))
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "%s: tensor %s is stored as %s; F32, F16 and BF16 are read",
                        entry->file, name, entry->dtype);
    tensor->data = entry->data;
    tensor->rows = rows;
    tensor->columns = columns;
    return QK_OK;
}

static void hash_ends(XXH3_state_t *hash, const qk_tensor_entry *entry)
{
    size_t size = (size_t)entry->size;
    size_t part = size < SAMPLE_BYTES ? size : SAMPLE_BYTES;
    XXH3_64bits_update(hash, entry->data, part);
    XXH3_64bits_update(hash, entry->data + size - part, part);
}

qk_status qk__checkpoint_fingerprint(const qk_checkpoint *checkpoint, uint64_t seed,
                                     uint64_t *fingerprint, qk_error *err)
{
    XXH3_state_t *hash = XXH3_createState();
    if (!hash)
        return qk__nomem(err);
    XXH3_64bits_reset_withSeed(hash, seed);
    for (size_t i = 0; i < checkpoint->num_shards; i++) {
        const shard *file = &checkpoint->shards[i];
        uint64_t size = file->size;
        XXH3_64bits_update(hash, &size, sizeof size);
        XXH3_64bits_update(hash, file->bytes, file->list.header_size);
        for (size_t j = 0; j < file->list.count; j++)
            hash_ends(hash, &file->list.items[j]);
    }
    *fingerprint = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    return QK_OK;
}
