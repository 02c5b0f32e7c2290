/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the Thrift compact protocol. */
#include "parquet/thrift.h"

#include <string.h>

#include "base/error.h"
#include "parquet/bits.h"

static void put(qk__thrift_writer *w, const void *data, size_t size)
{
    if (w->status == QK_OK)
        w->status = qk__buffer_append(w->out, data, size, w->err);
}

static void put_varint(qk__thrift_writer *w, uint64_t value)
{
    uint8_t bytes[10];
    put(w, bytes, qk__varint_put(bytes, value));
}

static void put_bytes(qk__thrift_writer *w, const void *data, size_t size)
{
    put_varint(w, size);
    put(w, data, size);
}

static void put_field(qk__thrift_writer *w, int id, qk__thrift_type type)
{
    int delta = id - w->last_id[w->depth];
    w->last_id[w->depth] = id;
    bool close = delta >= 1 && delta <= 15;
    uint8_t byte = (uint8_t)((close ? delta << 4 : 0) | (int)type);
    put(w, &byte, 1);
    if (!close)
        put_varint(w, qk__zigzag(id));
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
    put_field(writer, id, THRIFT_I32);
    put_varint(writer, qk__zigzag(value));
}

void qk__thrift_i64(qk__thrift_writer *writer, int id, int64_t value)
{
    put_field(writer, id, THRIFT_I64);
    put_varint(writer, qk__zigzag(value));
}

void qk__thrift_bool(qk__thrift_writer *writer, int id, bool value)
{
    put_field(writer, id, value ? THRIFT_TRUE : THRIFT_FALSE);
}

void qk__thrift_binary(qk__thrift_writer *writer, int id, const void *data, size_t size)
{
    put_field(writer, id, THRIFT_BINARY);
    put_bytes(writer, data, size);
}

void qk__thrift_string(qk__thrift_writer *writer, int id, const char *text)
{
    qk__thrift_binary(writer, id, text, strlen(text));
}

void qk__thrift_begin(qk__thrift_writer *writer, int id)
{
    put_field(writer, id, THRIFT_STRUCT);
    qk__thrift_element_begin(writer);
}

void qk__thrift_list(qk__thrift_writer *writer, int id, qk__thrift_type element, size_t count)
{
    put_field(writer, id, THRIFT_LIST);
    uint8_t byte = (uint8_t)((count < 15 ? count : 15) << 4 | (unsigned)element);
    put(writer, &byte, 1);
    if (count >= 15)
        put_varint(writer, count);
}

void qk__thrift_element_i32(qk__thrift_writer *writer, int32_t value)
{
    put_varint(writer, qk__zigzag(value));
}

void qk__thrift_element_string(qk__thrift_writer *writer, const char *text)
{
    put_bytes(writer, text, strlen(text));
}

void qk__thrift_element_begin(qk__thrift_writer *writer)
{
    if (writer->depth + 1 < THRIFT_WRITE_DEPTH)
        writer->last_id[++writer->depth] = 0;
    else if (writer->status == QK_OK)
        writer->status =
            qk__fail(writer->err, QK_ERR_ARGUMENT, "Thrift structs nested too deeply");
}
