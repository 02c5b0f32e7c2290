/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the Thrift compact protocol. */
#include "parquet/thrift_write.h"

#include <string.h>

#include "base/error.h"

enum field_type {
    TYPE_TRUE = 1,
    TYPE_FALSE = 2,
    TYPE_I16 = 4,
    TYPE_I32 = 5,
    TYPE_I64 = 6,
    TYPE_BINARY = 8,
    TYPE_LIST = 9,
    TYPE_STRUCT = 12,
};

static void put(qk__thrift_writer *w, const void *data, size_t size)
{
    if (w->status == QK_OK)
        w->status = qk__buffer_append(w->out, data, size, w->err);
}

static void put_varint(qk__thrift_writer *w, uint64_t value)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[n++] = (uint8_t)(value | 0x80);
    bytes[n++] = (uint8_t)value;
    put(w, bytes, n);
}

static void put_zigzag(qk__thrift_writer *w, int64_t value)
{
    put_varint(w, (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0));
}

static void put_field(qk__thrift_writer *w, int id, enum field_type type)
{
    int delta = id - w->last_id[w->depth];
    w->last_id[w->depth] = id;
    uint8_t byte = (uint8_t)(delta << 4 | (int)type);
    if (delta >= 1 && delta <= 15) {
        put(w, &byte, 1);
        return;
    }
    byte = (uint8_t)type;
    put(w, &byte, 1);
    put_zigzag(w, id);
}

static void enter(qk__thrift_writer *w)
{
    if (w->depth + 1 < THRIFT_WRITE_DEPTH)
        w->last_id[++w->depth] = 0;
    else if (w->status == QK_OK)
        w->status = qk__fail(w->err, QK_ERR_ARGUMENT, "Thrift structs nested too deeply");
}

void qk__thrift_writer_init(qk__thrift_writer *writer, qk__buffer *out, qk_error *err)
{
    *writer = (qk__thrift_writer){.out = out, .err = err, .status = QK_OK};
}

void qk__thrift_end(qk__thrift_writer *writer)
{
    static const uint8_t stop = 0;
    put(writer, &stop, 1);
    if (writer->depth > 0)
        writer->depth--;
}

void qk__thrift_i32(qk__thrift_writer *writer, int id, int32_t value)
{
    put_field(writer, id, TYPE_I32);
    put_zigzag(writer, value);
}

void qk__thrift_i64(qk__thrift_writer *writer, int id, int64_t value)
{
    put_field(writer, id, TYPE_I64);
    put_zigzag(writer, value);
}

void qk__thrift_bool(qk__thrift_writer *writer, int id, bool value)
{
    put_field(writer, id, value ? TYPE_TRUE : TYPE_FALSE);
}

void qk__thrift_binary(qk__thrift_writer *writer, int id, const void *data, size_t size)
{
    put_field(writer, id, TYPE_BINARY);
    put_varint(writer, size);
    put(writer, data, size);
}

void qk__thrift_string(qk__thrift_writer *writer, int id, const char *text)
{
    qk__thrift_binary(writer, id, text, strlen(text));
}

void qk__thrift_begin(qk__thrift_writer *writer, int id)
{
    put_field(writer, id, TYPE_STRUCT);
    enter(writer);
}

void qk__thrift_list(qk__thrift_writer *writer, int id, qk__thrift_element element,
                     size_t count)
{
    put_field(writer, id, TYPE_LIST);
    uint8_t byte = (uint8_t)((count < 15 ? count : 15) << 4 | (unsigned)element);
    put(writer, &byte, 1);
    if (count >= 15)
        put_varint(writer, count);
}

void qk__thrift_element_i32(qk__thrift_writer *writer, int32_t value)
{
    put_zigzag(writer, value);
}

void qk__thrift_element_string(qk__thrift_writer *writer, const char *text)
{
    size_t size = strlen(text);
    put_varint(writer, size);
    put(writer, text, size);
}

void qk__thrift_element_begin(qk__thrift_writer *writer)
{
    enter(writer);
}
