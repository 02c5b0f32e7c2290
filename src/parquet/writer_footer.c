/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the footer of a Parquet file. Field numbers are those of parquet.thrift. */
#include "parquet/writer.h"

#include <qkscope/common.h>

#include "parquet/format.h"
#include "parquet/thrift.h"

static int32_t physical_type(const qk__column_buffer *column)
{
    switch (column->kind) {
    case QK__FIELD_INT32:
        return QK_PARQUET_INT32;
    case QK__FIELD_INT64:
        return QK_PARQUET_INT64;
    case QK__FIELD_VECTOR:
        return QK_PARQUET_FLOAT;
    case QK__FIELD_STRING:
        break;
    }
    return QK_PARQUET_BYTE_ARRAY;
}

/* A union whose chosen member is an empty struct. */
static void put_choice(qk__thrift_writer *w, int id, int choice)
{
    qk__thrift_begin(w, id);
    qk__thrift_begin(w, choice);
    qk__thrift_end(w);
    qk__thrift_end(w);
}

static void put_root(qk__thrift_writer *w, size_t num_columns)
{
    qk__thrift_element_begin(w);
    qk__thrift_string(w, 4, "schema");
    qk__thrift_i32(w, 5, (int32_t)num_columns);
    qk__thrift_end(w);
}

static void put_leaf(qk__thrift_writer *w, const qk__column_buffer *column, const char *name)
{
    qk__thrift_element_begin(w);
    qk__thrift_i32(w, 1, physical_type(column));
    qk__thrift_i32(w, 3, REPETITION_OPTIONAL);
    qk__thrift_string(w, 4, name);
    if (column->kind == QK__FIELD_STRING) {
        qk__thrift_i32(w, 6, CONVERTED_UTF8);
        put_choice(w, 10, LOGICAL_STRING);
    }
    qk__thrift_end(w);
}

/* optional group <name> (LIST) { repeated group list { optional float element; } }, or double */
static void put_list(qk__thrift_writer *w, const qk__column_buffer *column)
{
    qk__thrift_element_begin(w);
    qk__thrift_i32(w, 3, REPETITION_OPTIONAL);
    qk__thrift_string(w, 4, column->name);
    qk__thrift_i32(w, 5, 1);
    qk__thrift_i32(w, 6, CONVERTED_LIST);
    put_choice(w, 10, LOGICAL_LIST);
    qk__thrift_end(w);
    qk__thrift_element_begin(w);
    qk__thrift_i32(w, 3, REPETITION_REPEATED);
    qk__thrift_string(w, 4, "list");
    qk__thrift_i32(w, 5, 1);
    qk__thrift_end(w);
    put_leaf(w, column, "element");
}

static void put_schema(qk__thrift_writer *w, const qk__column_buffer *columns, size_t count)
{
    size_t elements = 1;
    for (size_t i = 0; i < count; i++)
        elements += columns[i].kind == QK__FIELD_VECTOR ? 3 : 1;
    qk__thrift_list(w, 2, THRIFT_STRUCT, elements);
    put_root(w, count);
    for (size_t i = 0; i < count; i++) {
        if (columns[i].kind == QK__FIELD_VECTOR)
            put_list(w, &columns[i]);
        else
            put_leaf(w, &columns[i], columns[i].name);
    }
}

static void put_statistics(qk__thrift_writer *w, const qk__column_buffer *column,
                           const qk__chunk_info *info)
{
    qk__thrift_begin(w, 12);
    qk__thrift_i64(w, 3, info->null_count);
    if (info->has_range) {
        qk__thrift_binary(w, 5, &info->max, column->value_size);
        qk__thrift_binary(w, 6, &info->min, column->value_size);
    }
    qk__thrift_end(w);
}

static void put_encoding_count(qk__thrift_writer *w, int page, int encoding, int count)
{
    qk__thrift_element_begin(w);
    qk__thrift_i32(w, 1, page);
    qk__thrift_i32(w, 2, encoding);
    qk__thrift_i32(w, 3, count);
    qk__thrift_end(w);
}

static void put_encodings(qk__thrift_writer *w, const qk__chunk_info *info)
{
    bool dictionary = info->dictionary_offset > 0;
    qk__thrift_list(w, 2, THRIFT_I32, dictionary ? 3 : 2);
    if (dictionary)
        qk__thrift_element_i32(w, ENC_PLAIN); /* of the dictionary page */
    qk__thrift_element_i32(w, ENC_RLE);
    qk__thrift_element_i32(w, info->encoding);
}

static void put_path(qk__thrift_writer *w, const qk__column_buffer *column)
{
    bool list = column->kind == QK__FIELD_VECTOR;
    qk__thrift_list(w, 3, THRIFT_BINARY, list ? 3 : 1);
    qk__thrift_element_string(w, column->name);
    if (list) {
        qk__thrift_element_string(w, "list");
        qk__thrift_element_string(w, "element");
    }
}

static void put_chunk(qk__thrift_writer *w, const qk__column_buffer *column,
                      const qk__chunk_info *info)
{
    bool dictionary = info->dictionary_offset > 0;
    qk__thrift_element_begin(w);
    qk__thrift_i64(w, 2, 0); /* deprecated, but required */
    qk__thrift_begin(w, 3);
    qk__thrift_i32(w, 1, physical_type(column));
    put_encodings(w, info);
    put_path(w, column);
    qk__thrift_i32(w, 4, CODEC_ZSTD);
    qk__thrift_i64(w, 5, info->num_values);
    qk__thrift_i64(w, 6, info->uncompressed_bytes);
    qk__thrift_i64(w, 7, info->compressed_bytes);
    qk__thrift_i64(w, 9, info->data_offset);
    if (dictionary)
        qk__thrift_i64(w, 11, info->dictionary_offset);
    put_statistics(w, column, info);
    qk__thrift_list(w, 13, THRIFT_STRUCT, dictionary ? 2 : 1);
    if (dictionary)
        put_encoding_count(w, PAGE_DICTIONARY, ENC_PLAIN, 1);
    put_encoding_count(w, PAGE_DATA, info->encoding, info->data_pages);
    qk__thrift_end(w);
    qk__thrift_end(w);
}

static void put_group(qk__thrift_writer *w, const qk__column_buffer *columns,
                      size_t num_columns, const qk__group_info *group)
{
    int64_t uncompressed = 0;
    int64_t compressed = 0;
    qk__thrift_element_begin(w);
    qk__thrift_list(w, 1, THRIFT_STRUCT, num_columns);
    for (size_t i = 0; i < num_columns; i++) {
        put_chunk(w, &columns[i], &group->chunks[i]);
        uncompressed += group->chunks[i].uncompressed_bytes;
        compressed += group->chunks[i].compressed_bytes;
    }
    qk__thrift_i64(w, 2, uncompressed);
    qk__thrift_i64(w, 3, group->rows);
    qk__thrift_i64(w, 5, group->offset);
    qk__thrift_i64(w, 6, compressed);
    qk__thrift_end(w);
}

qk_status qk__footer_encode(qk__buffer *out, const qk__column_buffer *columns,
                            size_t num_columns, const qk__group_info *groups, size_t num_groups,
                            qk_error *err)
{
    int64_t rows = 0;
    for (size_t i = 0; i < num_groups; i++)
        rows += groups[i].rows;
    qk__thrift_writer w;
    qk__thrift_writer_init(&w, out, err);
    qk__thrift_i32(&w, 1, 2);
    put_schema(&w, columns, num_columns);
    qk__thrift_i64(&w, 3, rows);
    qk__thrift_list(&w, 4, THRIFT_STRUCT, num_groups);
    for (size_t i = 0; i < num_groups; i++)
        put_group(&w, columns, num_columns, &groups[i]);
    qk__thrift_string(&w, 6, "qkscope version " QK_VERSION);
    /* Without this, readers do not trust min_value and max_value. */
    qk__thrift_list(&w, 7, THRIFT_STRUCT, num_columns);
    for (size_t i = 0; i < num_columns; i++) {
        qk__thrift_element_begin(&w);
        qk__thrift_begin(&w, 1);
        qk__thrift_end(&w);
        qk__thrift_end(&w);
    }
    qk__thrift_end(&w);
    return w.status;
}
