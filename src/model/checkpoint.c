/* SPDX-License-Identifier: Apache-2.0 */
/* What is in mapped weight files: shapes of tensors, their numbers, the fingerprint of all. */
#include "model/checkpoint.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <xxhash.h>

#include "base/error.h"
#include "base/file.h"
#include "model/weight_files.h"

enum { SAMPLE_BYTES = 4096 };

/* ---- tensors ---------------------------------------------------------------------------- */

static const uint8_t *find_number(const qk__tensor *tensor, int64_t row, int64_t column)
{
    const qk__quant *type = tensor->type;
    size_t number = (size_t)row * (size_t)tensor->columns + (size_t)column;
    return (const uint8_t *)tensor->data + number / type->block_values * type->block_bytes;
}

/* Where the file has what is number `i` of its head: pairs that are rotated together lie side
 * by side there, and half a head apart here. */
static int64_t paired(int64_t i, int64_t head)
{
    int64_t inside = i % head;
    return i - inside + 2 * (inside % (head / 2)) + inside / (head / 2);
}

static const float *paired_rows(const qk__tensor *tensor, int64_t first, int64_t count,
                                float *out)
{
    size_t columns = (size_t)tensor->columns;
    if (tensor->rows == 1) /* a bias */
        for (int64_t i = 0; i < tensor->columns; i++)
            qk__quant_expand(tensor->type,
                             find_number(tensor, 0, paired(i, tensor->paired_head)), 1,
                             out + i);
    for (int64_t i = 0; i < count && tensor->rows > 1; i++)
        qk__quant_expand(tensor->type,
                         find_number(tensor, paired(first + i, tensor->paired_head), 0),
                         columns, out + (size_t)i * columns);
    return out;
}

const float *qk__tensor_rows(const qk__tensor *tensor, int64_t first, int64_t count, float *out)
{
    const uint8_t *source = find_number(tensor, first, 0);
    if (tensor->paired_head > 0)
        return paired_rows(tensor, first, count, out);
    if (tensor->type->id == QK_TYPE_F32 && (uintptr_t)source % sizeof(float) == 0)
        return (const float *)(const void *)source;
    qk__quant_expand(tensor->type, source, (size_t)count * (size_t)tensor->columns, out);
    return out;
}

const void *qk__tensor_bf16_row(const qk__tensor *tensor, int64_t row)
{
    bool as_it_is = tensor->type->id == QK_TYPE_BF16 && tensor->paired_head == 0;
    return as_it_is ? find_number(tensor, row, 0) : NULL;
}

qk__tensor qk__tensor_slice(const qk__tensor *tensor, int64_t first, int64_t count)
{
    qk__tensor part = *tensor;
    bool vector = tensor->rows == 1;
    if (tensor->data)
        part.data = vector ? find_number(tensor, 0, first) : find_number(tensor, first, 0);
    *(vector ? &part.columns : &part.rows) = count;
    return part;
}

/* ---- the files -------------------------------------------------------------------------- */

void qk__checkpoint_close(qk__checkpoint **checkpoint)
{
    qk__checkpoint *c = *checkpoint;
    if (!c)
        return;
    for (size_t i = 0; i < c->num_files; i++) {
        qk__tensor_list_free(&c->files[i].list);
        qk__unmap_file(c->files[i].bytes, c->files[i].size);
        free(c->files[i].name);
    }
    free(c->files);
    free(c->tensors);
    free(c);
    *checkpoint = NULL;
}

/* ---- what is in it ---------------------------------------------------------------------- */

bool qk__checkpoint_has(const qk__checkpoint *checkpoint, const char *name)
{
    return qk__weight_files_find(checkpoint, name) != NULL;
}

int64_t qk__checkpoint_rows(const qk__checkpoint *checkpoint, const char *name)
{
    const qk__tensor_entry *entry = qk__weight_files_find(checkpoint, name);
    return !entry ? 0 : entry->rank == 2 ? entry->shape[0] : 1;
}

static void print_shape(const qk__tensor_entry *entry, char text[200])
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < entry->rank; i++)
        used += (size_t)snprintf(text + used, 200 - used, "%s%lld", i > 0 ? ", " : "",
                                 (long long)entry->shape[i]);
}

qk_status qk__checkpoint_get(const qk__checkpoint *checkpoint, const char *name, int64_t rows,
                             int64_t columns, qk__tensor *tensor, qk_error *err)
{
    const qk__tensor_entry *entry = qk__weight_files_find(checkpoint, name);
    *tensor = (qk__tensor){NULL, qk__quant_plain("BF16"), rows, columns, 0};
    if (checkpoint->make)
        return checkpoint->make(checkpoint->maker, name, rows, columns, err);
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
                        "%s: tensor %s has shape [%s], %s says [%s%lld]", entry->file, name,
                        shape, checkpoint->source, wanted, (long long)columns);
    }
    if (!entry->type || (vector && entry->type->block_values > 1))
        return qk__fail(err, QK_ERR_UNSUPPORTED, "%s: tensor %s is stored as %s; %s are read",
                        entry->file, name, entry->dtype, checkpoint->types);
    *tensor = (qk__tensor){entry->data, entry->type, rows, columns, 0};
    return QK_OK;
}

static qk_status make_nothing(void *maker, const char *name, int64_t rows, int64_t columns,
                              qk_error *err)
{
    (void)maker, (void)name, (void)rows, (void)columns, (void)err;
    return QK_OK;
}

const qk__checkpoint qk__checkpoint_of_shapes = {.make = make_nothing};

static void hash_ends(XXH3_state_t *hash, const qk__tensor_entry *entry)
{
    size_t size = (size_t)entry->size;
    size_t part = size < SAMPLE_BYTES ? size : SAMPLE_BYTES;
    XXH3_64bits_update(hash, entry->data, part);
    XXH3_64bits_update(hash, entry->data + size - part, part);
}

qk_status qk__checkpoint_fingerprint(const qk__checkpoint *checkpoint, uint64_t seed,
                                     uint64_t *fingerprint, qk_error *err)
{
    XXH3_state_t *hash = XXH3_createState();
    if (!hash)
        return qk__nomem(err);
    XXH3_64bits_reset_withSeed(hash, seed);
    for (size_t i = 0; i < checkpoint->num_files; i++) {
        const qk__weight_file *file = &checkpoint->files[i];
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
