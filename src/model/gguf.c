/* SPDX-License-Identifier: Apache-2.0 */
/* Checking a GGUF header: "GGUF", version, two counts, so many keys with values, so many
 * tensors with shape, type and offset, then their bytes, aligned.
 *
 * Counts are believed as far as the bytes that follow could hold so many things of the smallest
 * size, so that memory follows the file. */
#include "model/gguf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json_limits.h"
#include "base/utf8.h"
#include "model/quants.h"

enum {
    MIN_KEY_BYTES = 8 + 4 + 1,            /* an empty name, a type, a boolean */
    MIN_TENSOR_BYTES = 8 + 4 + 8 + 4 + 8, /* an empty name, rank, a length, a type, an offset */
    MAX_NAME_BYTES = 65535,
    MAX_RANK = 4,
    MAX_DEPTH = 4, /* arrays of arrays */
    DEFAULT_ALIGNMENT = 32,
    MAX_ALIGNMENT = 1 << 20,
};

typedef enum value_type {
    TYPE_U8,
    TYPE_I8,
    TYPE_U16,
    TYPE_I16,
    TYPE_U32,
    TYPE_I32,
    TYPE_F32,
    TYPE_BOOL,
    TYPE_STRING,
    TYPE_ARRAY,
    TYPE_U64,
    TYPE_I64,
    TYPE_F64,
    NUM_TYPES
} value_type;

/* Bytes of a value, at least. */
static const size_t TYPE_BYTES[NUM_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

typedef struct cursor {
    const uint8_t *bytes;
    size_t size, at;
    size_t memory; /* of values, so far */
} cursor;

static size_t left(const cursor *c)
{
    return c->size - c->at;
}

/* A little-endian number of `width` bytes. */
static qk_status read_number(cursor *c, size_t width, uint64_t *value, qk_error *err)
{
    if (left(c) < width)
        return qk__fail(err, QK_ERR_MALFORMED, "the file ends at byte %zu, in its header",
                        c->size);
    *value = 0;
    for (size_t i = 0; i < width; i++)
        *value |= (uint64_t)c->bytes[c->at + i] << (8 * i);
    c->at += width;
    return QK_OK;
}

/* UTF-8, not terminated by a zero; points into the file. */
static qk_status read_text(cursor *c, const char **text, size_t *length, qk_error *err)
{
    uint64_t bytes;
    QK_TRY(read_number(c, 8, &bytes, err));
    if (bytes > left(c))
        return qk__fail(err, QK_ERR_MALFORMED,
                        "a text of %llu bytes, where the file has %zu left",
                        (unsigned long long)bytes, left(c));
    *text = (const char *)c->bytes + c->at;
    *length = (size_t)bytes;
    if (qk__utf8_valid(c->bytes + c->at, *length) != *length)
        return qk__fail(err, QK_ERR_MALFORMED, "byte %zu: a text that is not UTF-8", c->at);
    c->at += *length;
    return QK_OK;
}

/* The name of a key or tensor: new, without zero bytes. */
static qk_status read_name(cursor *c, char **name, qk_error *err)
{
    const char *text;
    size_t length;
    QK_TRY(read_text(c, &text, &length, err));
    if (length == 0 || length > MAX_NAME_BYTES || memchr(text, 0, length))
        return qk__fail(err, QK_ERR_MALFORMED, "byte %zu: expected a name", c->at - length);
    *name = malloc(length + 1);
    if (!*name)
        return qk__nomem(err);
    memcpy(*name, text, length);
    (*name)[length] = 0;
    return QK_OK;
}

/* ---- values ----------------------------------------------------------------------------- */

static qk_status read_string(cursor *c, json_t **value, qk_error *err)
{
    const char *text;
    size_t length;
    QK_TRY(read_text(c, &text, &length, err));
    *value = json_stringn_nocheck(text, length);
    return *value ? QK_OK : qk__nomem(err);
}

static json_t *integer(uint64_t bits, value_type type)
{
    switch (type) {
    case TYPE_I8:
        return json_integer((int8_t)bits);
    case TYPE_I16:
        return json_integer((int16_t)bits);
    case TYPE_I32:
        return json_integer((int32_t)bits);
    case TYPE_I64:
        return json_integer((int64_t)bits);
    default:
        return bits > INT64_MAX ? json_null() : json_integer((json_int_t)bits);
    }
}

/* The shortest decimal number that rounds to it: writers take float32 for numbers that were
 * decimal before, and 0.1 should be 0.1 again, not 0.10000000149. */
static double shortest(float value)
{
    char text[32];
    double number = (double)value;
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        number = strtod(text, NULL);
        if ((float)number == value)
            break;
    }
    return number;
}

static json_t *real(uint64_t bits, value_type type, int depth)
{
    double value;
    if (type == TYPE_F32) {
        float narrow;
        uint32_t word = (uint32_t)bits;
        memcpy(&narrow, &word, sizeof narrow);
        value = depth == 0 && isfinite(narrow) ? shortest(narrow) : (double)narrow;
    } else {
        memcpy(&value, &bits, sizeof value);
    }
    return isfinite(value) ? json_real(value) : json_null();
}

/* Before values are made, each of which takes so much. */
static qk_status count_memory(cursor *c, size_t count, size_t memory, qk_error *err)
{
    const qk__json_limits *limits = qk__json_limits_of(QK__JSON_METADATA);
    if (count > (limits->values - c->memory) / memory)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "more values than %s may have: they would take over %zu MB of memory",
                        limits->what, limits->values >> 20);
    c->memory += count * memory;
    return QK_OK;
}

static qk_status read_array(cursor *c, int depth, json_t **value, qk_error *err);

static qk_status read_value(cursor *c, value_type type, int depth, json_t **value,
                            qk_error *err)
{
    uint64_t bits;
    if (type == TYPE_STRING)
        return read_string(c, value, err);
    if (type == TYPE_ARRAY)
        return read_array(c, depth + 1, value, err);
    QK_TRY(read_number(c, TYPE_BYTES[type], &bits, err));
    if (type == TYPE_BOOL && bits > 1)
        return qk__fail(err, QK_ERR_MALFORMED, "%d is no boolean", (int)bits);
    if (type == TYPE_BOOL)
        *value = json_boolean(bits);
    else
        *value = type == TYPE_F32 || type == TYPE_F64 ? real(bits, type, depth)
                                                      : integer(bits, type);
    return *value ? QK_OK : qk__nomem(err);
}

static qk_status read_type(cursor *c, value_type *type, qk_error *err)
{
    uint64_t number;
    QK_TRY(read_number(c, 4, &number, err));
    if (number >= NUM_TYPES)
        return qk__fail(err, QK_ERR_MALFORMED, "there is no type of value %llu",
                        (unsigned long long)number);
    *type = (value_type)number;
    return QK_OK;
}

static qk_status read_array(cursor *c, int depth, json_t **value, qk_error *err)
{
    value_type type;
    uint64_t count;
    if (depth > MAX_DEPTH)
        return qk__fail(err, QK_ERR_MALFORMED, "arrays in arrays in arrays");
    QK_TRY(read_type(c, &type, err));
    QK_TRY(read_number(c, 8, &count, err));
    if (count > left(c) / TYPE_BYTES[type])
        return qk__fail(err, QK_ERR_MALFORMED,
                        "an array of %llu values, where the file has %zu bytes left",
                        (unsigned long long)count, left(c));
    QK_TRY(count_memory(c, (size_t)count,
                        QK__ITEM_MEMORY + (type == TYPE_STRING  ? QK__STRING_MEMORY
                                           : type == TYPE_ARRAY ? QK__LIST_MEMORY
                                                                : QK__NUMBER_MEMORY),
                        err));
    json_t *array = json_array();
    if (!array)
        return qk__nomem(err);
    qk_status status = QK_OK;
    for (uint64_t i = 0; i < count && status == QK_OK; i++) {
        json_t *item;
        status = read_value(c, type, depth, &item, err);
        if (status == QK_OK && json_array_append_new(array, item) != 0)
            status = qk__nomem(err);
    }
    if (status == QK_OK)
        *value = array;
    else
        json_decref(array);
    return status;
}

static qk_status read_key(cursor *c, json_t *metadata, qk_error *err)
{
    char *name;
    value_type type;
    json_t *value;
    QK_TRY(read_name(c, &name, err));
    qk_status status = read_type(c, &type, err);
    if (status == QK_OK)
        status = count_memory(c, 1, QK__MEMBER_MEMORY + QK__LIST_MEMORY, err);
    if (status == QK_OK)
        status = read_value(c, type, 0, &value, err);
    if (status != QK_OK) {
        qk__context(err, status, "key %s", name);
    } else if (json_object_get(metadata, name)) {
        json_decref(value);
        status = qk__fail(err, QK_ERR_MALFORMED, "key %s is there twice", name);
    } else if (json_object_set_new(metadata, name, value) != 0) {
        status = qk__nomem(err);
    }
    free(name);
    return status;
}

/* ---- tensors ---------------------------------------------------------------------------- */

static qk_status read_shape(cursor *c, qk__tensor_entry *entry, qk_error *err)
{
    uint64_t rank, length;
    QK_TRY(read_number(c, 4, &rank, err));
    if (rank < 1 || rank > MAX_RANK)
        return qk__fail(err, QK_ERR_MALFORMED, "%llu dimensions", (unsigned long long)rank);
    entry->rank = (int)rank;
    entry->parameters = 1;
    for (int i = entry->rank - 1; i >= 0; i--) { /* the file has the fastest first */
        QK_TRY(read_number(c, 8, &length, err));
        if (length > INT64_MAX ||
            __builtin_mul_overflow(entry->parameters, (int64_t)length, &entry->parameters))
            return qk__fail(err, QK_ERR_MALFORMED, "a dimension of %llu",
                            (unsigned long long)length);
        entry->shape[i] = (int64_t)length;
    }
    return QK_OK;
}

/* Type and size; a type that is not known has its number for a name, and no size. */
static qk_status read_tensor_type(cursor *c, qk__tensor_entry *entry, qk_error *err)
{
    uint64_t id;
    QK_TRY(read_number(c, 4, &id, err));
    const char *name = qk__quant_name((uint32_t)id);
    const qk__quant *type = entry->type = qk__quant_find((uint32_t)id);
    if (name)
        snprintf(entry->dtype, sizeof entry->dtype, "%s", name);
    else
        snprintf(entry->dtype, sizeof entry->dtype, "type %u", (unsigned)id);
    if (!type)
        return QK_OK;
    int64_t columns = entry->shape[entry->rank - 1];
    if (columns % (int64_t)type->block_values != 0)
        return qk__fail(err, QK_ERR_MALFORMED, "rows of %lld values in blocks of %zu (%s)",
                        (long long)columns, type->block_values, type->name);
    if (__builtin_mul_overflow(entry->parameters / (int64_t)type->block_values,
                               (int64_t)type->block_bytes, &entry->size))
        return qk__fail(err, QK_ERR_MALFORMED, "its size has more than 63 bits");
    return QK_OK;
}

/* *offset is counted from the end of the header. */
static qk_status read_tensor(cursor *c, qk__tensor_entry *entry, uint64_t *offset,
                             qk_error *err)
{
    QK_TRY(read_name(c, &entry->name, err));
    qk_status status = read_shape(c, entry, err);
    if (status == QK_OK)
        status = read_tensor_type(c, entry, err);
    if (status == QK_OK)
        status = read_number(c, 8, offset, err);
    return qk__context(err, status, "tensor %s", entry->name);
}

static qk_status place_tensor(const cursor *c, size_t data, size_t alignment, uint64_t offset,
                              qk__tensor_entry *entry, qk_error *err)
{
    if (offset % alignment != 0)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "tensor %s: offset %llu is not a multiple of %zu", entry->name,
                        (unsigned long long)offset, alignment);
    if (offset > c->size - data || (uint64_t)entry->size > c->size - data - offset)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "tensor %s: %lld bytes from %llu on lie beyond the end of the file: it "
                        "is cut short",
                        entry->name, (long long)entry->size, (unsigned long long)offset);
    entry->data = c->bytes + data + offset;
    return QK_OK;
}

static qk_status find_alignment(const json_t *metadata, size_t *alignment, qk_error *err)
{
    const json_t *value = json_object_get(metadata, "general.alignment");
    int64_t number = value ? json_integer_value(value) : DEFAULT_ALIGNMENT;
    if ((value && !json_is_integer(value)) || number < 1 || number > MAX_ALIGNMENT ||
        (number & (number - 1)) != 0)
        return qk__fail(err, QK_ERR_MALFORMED, "general.alignment: expected a power of two");
    *alignment = (size_t)number;
    return QK_OK;
}

static qk_status place_tensors(cursor *c, qk__gguf *gguf, const uint64_t *offsets,
                               qk_error *err)
{
    size_t alignment;
    QK_TRY(find_alignment(gguf->metadata, &alignment, err));
    size_t data = (c->at + alignment - 1) / alignment * alignment;
    if (data > c->size)
        data = c->size; /* of a file with nothing but metadata */
    for (size_t i = 0; i < gguf->tensors.count; i++)
        QK_TRY(place_tensor(c, data, alignment, offsets[i], &gguf->tensors.items[i], err));
    gguf->tensors.header_size = c->at;
    return qk__tensor_list_order(&gguf->tensors, err);
}

static qk_status read_tensors(cursor *c, uint64_t count, qk__gguf *gguf, qk_error *err)
{
    if (count > left(c) / MIN_TENSOR_BYTES)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "%llu tensors, where the file has %zu bytes left",
                        (unsigned long long)count, left(c));
    uint64_t *offsets = qk__calloc((size_t)count, sizeof *offsets);
    gguf->tensors.items = qk__calloc((size_t)count, sizeof *gguf->tensors.items);
    qk_status status = count == 0 || (offsets && gguf->tensors.items) ? QK_OK : qk__nomem(err);
    for (size_t i = 0; i < count && status == QK_OK; i++) {
        gguf->tensors.count++;
        status = read_tensor(c, &gguf->tensors.items[i], &offsets[i], err);
    }
    if (status == QK_OK)
        status = place_tensors(c, gguf, offsets, err);
    free(offsets);
    return status;
}

/* ---- all of it -------------------------------------------------------------------------- */

static qk_status read_header(cursor *c, uint64_t *tensors, uint64_t *keys, qk_error *err)
{
    uint64_t version;
    if (c->size < 4 || memcmp(c->bytes, "GGUF", 4) != 0)
        return qk__fail(err, QK_ERR_MALFORMED, "no GGUF file: it does not begin with \"GGUF\"");
    c->at = 4;
    QK_TRY(read_number(c, 4, &version, err));
    if (version > 0xffff)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "a big-endian GGUF file; little-endian ones "
                        "are read");
    if (version < 2 || version > 3)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "GGUF version %d; 2 and 3 are read",
                        (int)version);
    QK_TRY(read_number(c, 8, tensors, err));
    QK_TRY(read_number(c, 8, keys, err));
    if (*keys > left(c) / MIN_KEY_BYTES)
        return qk__fail(err, QK_ERR_MALFORMED, "%llu keys, where the file has %zu bytes left",
                        (unsigned long long)*keys, left(c));
    return QK_OK;
}

qk_status qk__gguf_parse(qk__gguf *gguf, const uint8_t *bytes, size_t size, qk_error *err)
{
    cursor c = {bytes, size, 0, 0};
    uint64_t tensors, keys;
    *gguf = (qk__gguf){0};
    QK_TRY(read_header(&c, &tensors, &keys, err));
    gguf->metadata = json_object();
    qk_status status = gguf->metadata ? QK_OK : qk__nomem(err);
    for (uint64_t i = 0; i < keys && status == QK_OK; i++)
        status = read_key(&c, gguf->metadata, err);
    if (status == QK_OK)
        status = read_tensors(&c, tensors, gguf, err);
    if (status != QK_OK) {
        json_decref(gguf->metadata);
        qk__tensor_list_free(&gguf->tensors);
        *gguf = (qk__gguf){0};
    }
    return status;
}
