/* SPDX-License-Identifier: Apache-2.0 */
/* Growable byte buffer and checked array allocation. */
#include "base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { FIRST_CAPACITY = 16 };

void qk__buffer_free(qk__buffer *buffer)
{
    free(buffer->data);
    *buffer = (qk__buffer){0};
}

qk_status qk__buffer_reserve(qk__buffer *buffer, size_t capacity, qk_error *err)
{
    if (capacity <= buffer->capacity)
        return QK_OK;
    size_t grown = buffer->capacity + buffer->capacity / 2;
    if (grown < capacity)
        grown = capacity;
    uint8_t *data = realloc(buffer->data, grown);
    if (!data)
        return qk__nomem(err);
    buffer->data = data;
    buffer->capacity = grown;
    return QK_OK;
}

qk_status qk__buffer_append(qk__buffer *buffer, const void *data, size_t size, qk_error *err)
{
    if (size == 0)
        return QK_OK;
    if (size > SIZE_MAX - buffer->size)
        return qk__nomem(err);
    QK_TRY(qk__buffer_reserve(buffer, buffer->size + size, err));
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    return QK_OK;
}

qk_status qk__buffer_printf(qk__buffer *buffer, qk_error *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (length < 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "cannot format text");
    QK_TRY(qk__buffer_reserve(buffer, buffer->size + (size_t)length + 1, err));
    va_start(args, fmt);
    vsnprintf((char *)buffer->data + buffer->size, (size_t)length + 1, fmt, args);
    va_end(args);
    buffer->size += (size_t)length;
    return QK_OK;
}

void *qk__calloc(size_t count, size_t size)
{
    return count == 0 || size == 0 ? NULL : calloc(count, size);
}

void *qk__alloc_aligned(size_t count, size_t size)
{
    if (count == 0 || size == 0 || count > (SIZE_MAX - 63) / size)
        return NULL;
    return aligned_alloc(64, (count * size + 63) / 64 * 64);
}

/* Pointers may be of any type: their bytes are copied. */
qk_status qk__create_arrays(const qk__new_array *arrays, size_t count, qk_error *err)
{
    void *memory, *none = NULL;
    for (size_t i = 0; i < count; i++)
        memcpy(arrays[i].pointer, &none, sizeof none);
    for (size_t i = 0; i < count; i++) {
        memory = qk__calloc(arrays[i].count, arrays[i].size);
        memcpy(arrays[i].pointer, &memory, sizeof memory);
        if (memory)
            continue;
        while (i-- > 0) {
            memcpy(&memory, arrays[i].pointer, sizeof memory);
            free(memory);
            memcpy(arrays[i].pointer, &none, sizeof none);
        }
        return qk__nomem(err);
    }
    return QK_OK;
}

void *qk__grow(void *items, size_t *capacity, size_t size)
{
    size_t grown = *capacity > 0 ? *capacity : FIRST_CAPACITY / 2;
    if (grown > SIZE_MAX / 2 / size)
        return NULL;
    grown *= 2;
    void *moved = realloc(items, grown * size);
    if (moved)
        *capacity = grown;
    return moved;
}

char *qk__strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

char *qk__format(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = length >= 0 ? malloc((size_t)length + 1) : NULL;
    va_start(args, fmt);
    if (text)
        vsnprintf(text, (size_t)length + 1, fmt, args);
    va_end(args);
    return text;
}

void qk__strings_free(char **strings, size_t count)
{
    for (size_t i = 0; strings && i < count; i++)
        free(strings[i]);
    free(strings);
}
