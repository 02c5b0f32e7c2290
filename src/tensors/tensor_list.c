/* SPDX-License-Identifier: Apache-2.0 */
/* Checking a safetensors header: eight bytes of length, a JSON object, then the tensors' bytes.
 */
#include "tensors/tensor_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"

/* The largest known models have headers below 1 MiB; the format's own limit of 100 MB would
 * take gigabytes to parse. */
enum { LENGTH_BYTES = 8, MAX_HEADER_BYTES = 16 << 20 };

static const struct {
    const char *name;
    int64_t size;
} element_sizes[] = {
    {"BOOL", 1},    {"U8", 1},          {"I8", 1},          {"F8_E4M3", 1}, {"F8_E5M2", 1},
    {"F8_E8M0", 1}, {"F8_E4M3FNUZ", 1}, {"F8_E5M2FNUZ", 1}, {"I16", 2},     {"U16", 2},
    {"F16", 2},     {"BF16", 2},        {"I32", 4},         {"U32", 4},     {"F32", 4},
    {"I64", 8},     {"U64", 8},         {"F64", 8},         {"C64", 8},
};

int64_t qk__tensor_element_size(const char *dtype)
{
    for (size_t i = 0; i < sizeof element_sizes / sizeof *element_sizes; i++)
        if (strcmp(element_sizes[i].name, dtype) == 0)
            return element_sizes[i].size;
    return 0;
}

/* ---- one tensor ------------------------------------------------------------------------- */

static qk_status parse_dtype(qk__tensor_entry *entry, const json_t *object, qk_error *err)
{
    const char *dtype = json_string_value(json_object_get(object, "dtype"));
    if (!dtype || *dtype == 0 || strlen(dtype) >= sizeof entry->dtype)
        return qk__fail(err, QK_ERR_MALFORMED, "dtype: expected the name of a number format");
    snprintf(entry->dtype, sizeof entry->dtype, "%s", dtype);
    return QK_OK;
}

static qk_status parse_shape(qk__tensor_entry *entry, const json_t *object, qk_error *err)
{
    const json_t *shape = json_object_get(object, "shape");
    size_t rank = json_array_size(shape);
    if (!json_is_array(shape) || rank > QK__MAX_RANK)
        return qk__fail(err, QK_ERR_MALFORMED, "shape: expected at most %d numbers",
                        QK__MAX_RANK);
    entry->rank = (int)rank;
    entry->parameters = 1;
    for (size_t i = 0; i < rank; i++) {
        const json_t *number = json_array_get(shape, i);
        int64_t length = json_integer_value(number);
        if (!json_is_integer(number) || length < 0 ||
            __builtin_mul_overflow(entry->parameters, length, &entry->parameters))
            return qk__fail(err, QK_ERR_MALFORMED, "shape: no length of a dimension");
        entry->shape[i] = length;
    }
    return QK_OK;
}

/* data and size are those of the bytes that follow the header. */
static qk_status parse_offsets(qk__tensor_entry *entry, const json_t *object,
                               const uint8_t *data, size_t size, qk_error *err)
{
    const json_t *offsets = json_object_get(object, "data_offsets");
    const json_t *first = json_array_get(offsets, 0);
    const json_t *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return qk__fail(err, QK_ERR_MALFORMED, "data_offsets: expected two whole numbers");
    int64_t begin = json_integer_value(first), end = json_integer_value(last);
    if (begin < 0 || end < begin)
        return qk__fail(err, QK_ERR_MALFORMED, "data_offsets: %lld to %lld", (long long)begin,
                        (long long)end);
    if ((uint64_t)end > size)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "its data end at byte %lld of %zu: the file is cut short",
                        (long long)end, size);
    entry->data = data + begin;
    entry->size = end - begin;
    int64_t width = qk__tensor_element_size(entry->dtype), wanted;
    if (width > 0 &&
        (__builtin_mul_overflow(entry->parameters, width, &wanted) || wanted != entry->size))
        return qk__fail(err, QK_ERR_MALFORMED,
                        "%lld bytes do not fit its shape, %lld numbers of type %s",
                        (long long)entry->size, (long long)entry->parameters, entry->dtype);
    return QK_OK;
}

static qk_status parse_entry(qk__tensor_entry *entry, const char *name, const json_t *object,
                             const uint8_t *data, size_t size, qk_error *err)
{
    entry->name = qk__strdup(name);
    if (!entry->name)
        return qk__nomem(err);
    qk_status status = json_is_object(object)
                           ? parse_dtype(entry, object, err)
                           : qk__fail(err, QK_ERR_MALFORMED, "expected an object");
    if (status == QK_OK)
        status = parse_shape(entry, object, err);
    if (status == QK_OK)
        status = parse_offsets(entry, object, data, size, err);
    return status == QK_OK ? QK_OK : qk__context(err, status, "tensor %s", name);
}

/* ---- all of them ------------------------------------------------------------------------ */

static int compare_places(const void *a, const void *b)
{
    const qk__tensor_entry *x = a, *y = b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return (x->size > y->size) - (x->size < y->size); /* empty ones first */
}

qk_status qk__tensor_list_order(qk__tensor_list *list, qk_error *err)
{
    if (list->count > 1)
        qsort(list->items, list->count, sizeof *list->items, compare_places);
    for (size_t i = 1; i < list->count; i++) {
        const qk__tensor_entry *last = &list->items[i - 1], *next = &list->items[i];
        if (next->data < last->data + last->size)
            return qk__fail(err, QK_ERR_MALFORMED, "tensors %s and %s overlap", last->name,
                            next->name);
    }
    return QK_OK;
}

static qk_status parse_header(qk__tensor_list *list, json_t *header, const uint8_t *data,
                              size_t size, qk_error *err)
{
    if (!json_is_object(header))
        return qk__fail(err, QK_ERR_MALFORMED, "the header is not a JSON object");
    size_t capacity = json_object_size(header);
    list->items = qk__calloc(capacity, sizeof *list->items);
    if (capacity > 0 && !list->items)
        return qk__nomem(err);
    const char *name;
    json_t *object;
    json_object_foreach(header, name, object)
    {
        if (strcmp(name, "__metadata__") == 0) {
            list->metadata = json_incref(object);
            continue;
        }
        qk__tensor_entry *entry = &list->items[list->count++];
        QK_TRY(parse_entry(entry, name, object, data, size, err));
    }
    return qk__tensor_list_order(list, err);
}

qk_status qk__tensor_list_parse(qk__tensor_list *list, const uint8_t *bytes, size_t size,
                                qk_error *err)
{
    *list = (qk__tensor_list){0};
    if (size < LENGTH_BYTES)
        return qk__fail(err, QK_ERR_MALFORMED, "%zu bytes are too few for a safetensors file",
                        size);
    uint64_t length = 0;
    for (int i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)bytes[i] << (8 * i);
    if (length > size - LENGTH_BYTES)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "a header of %llu bytes does not fit a file of %zu: it is cut short, "
                        "or no safetensors file",
                        (unsigned long long)length, size);
    if (length > MAX_HEADER_BYTES)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "a header of %llu bytes, more than the %d allowed",
                        (unsigned long long)length, MAX_HEADER_BYTES);
    list->header_size = LENGTH_BYTES + (size_t)length;
    json_t *header;
    qk_status status =
        qk__json_parse(&header, bytes + LENGTH_BYTES, (size_t)length, QK__JSON_HEADER, err);
    if (status != QK_OK)
        return qk__context(err, status, "header");
    status =
        parse_header(list, header, bytes + list->header_size, size - list->header_size, err);
    json_decref(header);
    if (status != QK_OK)
        qk__tensor_list_free(list);
    return status;
}

void qk__tensor_list_free(qk__tensor_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].name);
    free(list->items);
    json_decref(list->metadata);
    *list = (qk__tensor_list){0};
}
