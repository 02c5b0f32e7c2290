/* SPDX-License-Identifier: Apache-2.0 */
/* Writing one buffered column as a column chunk: its pages with their headers and levels. How
 * the values are encoded is decided in writer_plan.c. */
#include "parquet/writer.h"

#include <limits.h>
#include <string.h>

#include <zlib.h>

#include "base/error.h"
#include "parquet/encoders.h"
#include "parquet/format.h"
#include "parquet/thrift.h"

/* Definition level of a value that is there; a null in a flat column has level 0. */
enum { FLAT_DEFINITION = 1, LIST_DEFINITION = 3, LIST_DEFINITION_BITS = 2 };

/* The page in qk__chunk_writer.body: repetition levels, definition levels, values; each kind of levels behind its length. */
typedef struct page {
    int type;
    int encoding;
    size_t values; /* slots, nulls included */
} page;

void qk__chunk_writer_free(qk__chunk_writer *writer)
{
    qk__codec_state_free(&writer->codec);
    qk__dictionary_free(&writer->dictionary);
    qk__buffer_free(&writer->levels);
    qk__buffer_free(&writer->indices);
    qk__buffer_free(&writer->strings);
    qk__buffer_free(&writer->body);
    qk__buffer_free(&writer->compressed);
    qk__buffer_free(&writer->header);
    qk__buffer_free(&writer->repetition);
}

/* ---- one page to the file --------------------------------------------------------------- */

static qk_status write_page(qk__chunk_writer *writer, const page *p, qk__chunk_info *info,
                            qk_error *err)
{
    const qk__buffer *compressed = &writer->compressed;
    QK_TRY(qk__zstd_compress(&writer->codec, writer->body.data, writer->body.size,
                             &writer->compressed, err));
    if (compressed->size > INT32_MAX)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "page of %zu bytes, more than the format allows", compressed->size);
    qk__thrift_writer w;
    writer->header.size = 0;
    qk__thrift_writer_init(&w, &writer->header, err);
    qk__thrift_i32(&w, 1, p->type);
    qk__thrift_i32(&w, 2, (int32_t)writer->body.size);
    qk__thrift_i32(&w, 3, (int32_t)compressed->size);
    uLong crc = crc32(crc32(0, NULL, 0), compressed->data, (uInt)compressed->size);
    qk__thrift_i32(&w, 4, (int32_t)(uint32_t)crc);
    qk__thrift_begin(&w, p->type == PAGE_DATA ? 5 : 7);
    qk__thrift_i32(&w, 1, (int32_t)p->values);
    qk__thrift_i32(&w, 2, p->encoding);
    if (p->type == PAGE_DATA) {
        qk__thrift_i32(&w, 3, ENC_RLE);
        qk__thrift_i32(&w, 4, ENC_RLE);
    }
    qk__thrift_end(&w);
    qk__thrift_end(&w);
    QK_TRY(w.status);
    QK_TRY(qk__outfile_write(writer->out, writer->header.data, writer->header.size, err));
    QK_TRY(qk__outfile_write(writer->out, compressed->data, compressed->size, err));
    info->uncompressed_bytes += (int64_t)(writer->header.size + writer->body.size);
    info->compressed_bytes += (int64_t)(writer->header.size + compressed->size);
    return QK_OK;
}

/* ---- levels ----------------------------------------------------------------------------- */

static qk_status reserve_levels(qk__chunk_writer *writer, size_t count, qk_error *err)
{
    return qk__buffer_reserve(&writer->levels, count * sizeof(uint16_t), err);
}

/* 0 1 1 .. 1 for each vector. Nearly all pages of a file hold the same number of vectors
 * of the same width, so the last answer is kept. */
static qk_status encode_repetition(qk__chunk_writer *writer, size_t rows, size_t width,
                                   qk_error *err)
{
    if (writer->repetition_rows == rows && writer->repetition_width == width)
        return QK_OK;
    writer->repetition_rows = 0;
    QK_TRY(reserve_levels(writer, rows * width, err));
    uint16_t *levels = (uint16_t *)(void *)writer->levels.data;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < width; j++)
            levels[i * width + j] = j > 0;
    writer->repetition.size = 0;
    QK_TRY(qk__encode_hybrid(&writer->repetition, levels, rows * width, 1, err));
    writer->repetition_rows = rows;
    writer->repetition_width = width;
    return QK_OK;
}

static qk_status encode_definition(qk__chunk_writer *writer, const qk__column_buffer *column,
                                   const qk__slice *slice, qk_error *err)
{
    size_t slots = slice->rows * column->width;
    if (column->kind == QK__FIELD_VECTOR)
        return qk__encode_run(&writer->body, LIST_DEFINITION, slots, LIST_DEFINITION_BITS, err);
    if (slice->values == slots || slice->values == 0)
        return qk__encode_run(&writer->body, slice->values ? FLAT_DEFINITION : 0, slots, 1,
                              err);
    QK_TRY(reserve_levels(writer, slots, err));
    uint16_t *levels = (uint16_t *)(void *)writer->levels.data;
    for (size_t i = 0; i < slots; i++)
        levels[i] = column->valid.data[slice->row + i] ? FLAT_DEFINITION : 0;
    return qk__encode_hybrid(&writer->body, levels, slots, 1, err);
}

/* Appends room for a length; returns where the levels start. */
static qk_status begin_levels(qk__buffer *body, size_t *start, qk_error *err)
{
    static const uint8_t zeros[4];
    QK_TRY(qk__buffer_append(body, zeros, sizeof zeros, err));
    *start = body->size;
    return QK_OK;
}

static void end_levels(qk__buffer *body, size_t start)
{
    uint32_t size = (uint32_t)(body->size - start);
    memcpy(body->data + start - sizeof size, &size, sizeof size);
}

static qk_status put_levels(qk__chunk_writer *writer, const qk__column_buffer *column,
                            const qk__slice *slice, qk_error *err)
{
    size_t start;
    if (column->kind == QK__FIELD_VECTOR) {
        QK_TRY(encode_repetition(writer, slice->rows, column->width, err));
        QK_TRY(begin_levels(&writer->body, &start, err));
        QK_TRY(qk__buffer_append(&writer->body, writer->repetition.data,
                                 writer->repetition.size, err));
        end_levels(&writer->body, start);
    }
    QK_TRY(begin_levels(&writer->body, &start, err));
    QK_TRY(encode_definition(writer, column, slice, err));
    end_levels(&writer->body, start);
    return QK_OK;
}

/* ---- the chunk -------------------------------------------------------------------------- */

static qk_status write_dictionary(qk__chunk_writer *writer, const qk__column_buffer *column,
                                  qk__chunk_info *info, qk_error *err)
{
    const page p = {PAGE_DICTIONARY, ENC_PLAIN, writer->dictionary.count};
    info->dictionary_offset = qk__outfile_size(writer->out);
    writer->body.size = 0;
    QK_TRY(qk__plan_dictionary(writer, column, &writer->body, err));
    return write_page(writer, &p, info, err);
}

static qk_status write_data(qk__chunk_writer *writer, const qk__column_buffer *column,
                            const qk__slice *slice, qk__chunk_info *info, qk_error *err)
{
    const page p = {PAGE_DATA, info->encoding, slice->rows * column->width};
    writer->body.size = 0;
    QK_TRY(put_levels(writer, column, slice, err));
    QK_TRY(qk__plan_values(writer, column, slice, info->encoding, &writer->body, err));
    info->data_pages++;
    return write_page(writer, &p, info, err);
}

static void set_range(const qk__column_buffer *column, qk__chunk_info *info)
{
    info->has_range = column->present > 0 &&
                      (column->kind == QK__FIELD_INT32 || column->kind == QK__FIELD_INT64);
    if (!info->has_range)
        return;
    info->min = INT64_MAX;
    info->max = INT64_MIN;
    for (size_t i = 0; i < column->present; i++) {
        int64_t value = qk__load_integer(column->values.data, i, column->value_size);
        info->min = value < info->min ? value : info->min;
        info->max = value > info->max ? value : info->max;
    }
}

qk_status qk__chunk_write(qk__chunk_writer *writer, const qk__column_buffer *column,
                          size_t rows, qk__chunk_info *info, qk_error *err)
{
    *info = (qk__chunk_info){0};
    info->num_values = (int64_t)(rows * column->width);
    info->null_count = (int64_t)column->nulls;
    set_range(column, info);
    QK_TRY(qk__plan_encoding(writer, column, rows, &info->encoding, err));
    if (info->encoding == ENC_RLE_DICTIONARY)
        QK_TRY(write_dictionary(writer, column, info, err));
    info->data_offset = qk__outfile_size(writer->out);
    qk__slice slice = {0};
    while (qk__plan_slice(column, rows, &slice))
        QK_TRY(write_data(writer, column, &slice, info, err));
    return QK_OK;
}
