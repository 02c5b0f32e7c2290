/* SPDX-License-Identifier: Apache-2.0 */
/* How a column chunk is cut into pages and which encoding its values get. */
#include "parquet/writer.h"

#include <string.h>

#include <xxhash.h>

#include "base/bit_width.h"
#include "base/error.h"
#include "parquet/encoders.h"
#include "parquet/format.h"

/* Pages of vectors that are compressed both ways. Row groups of up to this many pages are
 * judged exactly; beyond it the pages of one head are so alike that evenly spread ones
 * decide as well as all, at a fraction of the time. */
enum { SAMPLE_PAGES = 3, PAGE_BYTES = 1 << 20 };

/* One distinct string: where it first occurs in the column. */
typedef struct distinct_string {
    size_t offset;
    uint32_t length;
} distinct_string;

static uint32_t length_at(const qk__column_buffer *column, size_t i)
{
    uint32_t length;
    memcpy(&length, column->lengths.data + i * sizeof length, sizeof length);
    return length;
}

/* ---- pages ------------------------------------------------------------------------------ */

bool qk__plan_slice(const qk__column_buffer *column, size_t rows, qk__slice *slice)
{
    slice->row += slice->rows;
    slice->value += slice->values;
    slice->byte += slice->bytes;
    slice->rows = slice->values = slice->bytes = 0;
    if (column->kind == QK__FIELD_VECTOR) {
        size_t row_bytes = column->width * column->value_size;
        size_t most = PAGE_BYTES > row_bytes ? PAGE_BYTES / row_bytes : 1;
        slice->rows = rows - slice->row < most ? rows - slice->row : most;
        slice->values = slice->rows * column->width;
        return slice->rows > 0;
    }
    size_t size = 0;
    while (slice->row + slice->rows < rows && size < PAGE_BYTES) {
        if (column->valid.data[slice->row + slice->rows++] == 0)
            continue;
        size += column->value_size;
        if (column->kind == QK__FIELD_STRING) {
            uint32_t length = length_at(column, slice->value + slice->values);
            slice->bytes += length;
            size += length + sizeof length;
        }
        slice->values++;
    }
    return slice->rows > 0;
}

/* ---- values of one page ----------------------------------------------------------------- */

static qk_status put_plain_strings(const qk__column_buffer *column, const qk__slice *slice,
                                   qk__buffer *out, qk_error *err)
{
    size_t byte = slice->byte;
    for (size_t i = 0; i < slice->values; i++) {
        uint32_t length = length_at(column, slice->value + i);
        QK_TRY(qk__buffer_append(out, &length, sizeof length, err));
        QK_TRY(qk__buffer_append(out, column->values.data + byte, length, err));
        byte += length;
    }
    return QK_OK;
}

static qk_status put_indices(qk__chunk_writer *writer, const qk__slice *slice, qk__buffer *out,
                             qk_error *err)
{
    const uint16_t *indices = (const uint16_t *)(const void *)writer->indices.data;
    size_t count = writer->dictionary.count; /* readers dislike a width of 0 */
    uint8_t width = (uint8_t)(count > 1 ? qk__bit_width(count - 1) : 1);
    QK_TRY(qk__buffer_append(out, &width, 1, err));
    return qk__encode_hybrid(out, indices + slice->value, slice->values, width, err);
}

qk_status qk__plan_values(qk__chunk_writer *writer, const qk__column_buffer *column,
                          const qk__slice *slice, int encoding, qk__buffer *out, qk_error *err)
{
    if (encoding == ENC_RLE_DICTIONARY)
        return put_indices(writer, slice, out, err);
    if (column->kind == QK__FIELD_STRING)
        return put_plain_strings(column, slice, out, err);
    if (slice->values == 0)
        return QK_OK;
    const uint8_t *values = column->values.data + slice->value * column->value_size;
    if (encoding == ENC_BYTE_STREAM_SPLIT)
        return qk__encode_split(out, values, slice->values, err);
    if (encoding == ENC_DELTA_BINARY_PACKED)
        return qk__encode_delta(out, values, slice->values, column->value_size, err);
    return qk__buffer_append(out, values, slice->values * column->value_size, err);
}

/* ---- dictionaries ----------------------------------------------------------------------- */

qk_status qk__plan_dictionary(qk__chunk_writer *writer, const qk__column_buffer *column,
                              qk__buffer *out, qk_error *err)
{
    const qk__dictionary *d = &writer->dictionary;
    if (column->kind == QK__FIELD_STRING) {
        for (size_t i = 0; i < d->count; i++) {
            distinct_string s;
            memcpy(&s, writer->strings.data + i * sizeof s, sizeof s);
            QK_TRY(qk__buffer_append(out, &s.length, sizeof s.length, err));
            QK_TRY(qk__buffer_append(out, column->values.data + s.offset, s.length, err));
        }
        return QK_OK;
    }
    QK_TRY(qk__buffer_reserve(out, out->size + d->count * column->value_size, err));
    for (size_t i = 0; i < d->count; i++)
        QK_TRY(qk__buffer_append(out, &d->keys[i], column->value_size, err));
    return QK_OK;
}

/* Strings are numbered by their hash. Two strings of one hash make the column go without
 * a dictionary: so rare that a chain of equal hashes would never be tested. */
static qk_status index_strings(qk__chunk_writer *writer, const qk__column_buffer *column,
                               bool *fits, qk_error *err)
{
    uint16_t *indices = (uint16_t *)(void *)writer->indices.data;
    size_t offset = 0;
    writer->strings.size = 0;
    *fits = true;
    for (size_t i = 0; i < column->present && *fits; i++) {
        distinct_string s = {.offset = offset, .length = length_at(column, i)};
        /* An empty column of strings has no bytes at all. */
        const uint8_t *text = s.length > 0 ? column->values.data + offset : &(const uint8_t){0};
        uint64_t hash = XXH3_64bits(text, s.length);
        size_t known = writer->dictionary.count;
        QK_TRY(qk__dictionary_index(&writer->dictionary, (const uint8_t *)&hash, 1, sizeof hash,
                                    &indices[i], fits, err));
        offset += s.length;
        if (writer->dictionary.count > known) {
            QK_TRY(qk__buffer_append(&writer->strings, &s, sizeof s, err));
        } else if (*fits) {
            distinct_string first;
            memcpy(&first, writer->strings.data + indices[i] * sizeof first, sizeof first);
            *fits = first.length == s.length &&
                    (s.length == 0 ||
                     memcmp(column->values.data + first.offset, text, s.length) == 0);
        }
    }
    return QK_OK;
}

static qk_status build_dictionary(qk__chunk_writer *writer, const qk__column_buffer *column,
                                  bool *fits, qk_error *err)
{
    *fits = column->present > 0;
    if (!*fits)
        return QK_OK;
    qk__dictionary_clear(&writer->dictionary);
    QK_TRY(qk__buffer_reserve(&writer->indices, column->present * sizeof(uint16_t), err));
    if (column->kind == QK__FIELD_STRING)
        return index_strings(writer, column, fits, err);
    return qk__dictionary_index(&writer->dictionary, column->values.data, column->present,
                                column->value_size, (uint16_t *)(void *)writer->indices.data,
                                fits, err);
}

/* ---- the choice ------------------------------------------------------------------------- */

/* Size of all values of the chunk in one encoding, dictionary included, uncompressed. */
static qk_status encoded_size(qk__chunk_writer *writer, const qk__column_buffer *column,
                              int encoding, size_t *size, qk_error *err)
{
    qk__slice all = {.values = column->present};
    writer->body.size = 0;
    if (encoding == ENC_RLE_DICTIONARY)
        QK_TRY(qk__plan_dictionary(writer, column, &writer->body, err));
    QK_TRY(qk__plan_values(writer, column, &all, encoding, &writer->body, err));
    *size = writer->body.size;
    return QK_OK;
}

/* Integers and strings: the smallest before compression. */
static qk_status choose_flat(qk__chunk_writer *writer, const qk__column_buffer *column,
                             bool dictionary, int *encoding, qk_error *err)
{
    size_t best = column->values.size + column->lengths.size;
    size_t size;
    *encoding = ENC_PLAIN;
    if (column->present > 0 && column->kind != QK__FIELD_STRING) {
        QK_TRY(encoded_size(writer, column, ENC_DELTA_BINARY_PACKED, &size, err));
        if (size < best) {
            best = size;
            *encoding = ENC_DELTA_BINARY_PACKED;
        }
    }
    if (dictionary) {
        QK_TRY(encoded_size(writer, column, ENC_RLE_DICTIONARY, &size, err));
        if (size <= best)
            *encoding = ENC_RLE_DICTIONARY;
    }
    return QK_OK;
}

static qk_status compressed_size(qk__chunk_writer *writer, size_t *size, qk_error *err)
{
    QK_TRY(qk__zstd_compress(&writer->codec, writer->body.data, writer->body.size,
                             &writer->compressed, err));
    *size += writer->compressed.size;
    return QK_OK;
}

/* Compresses some pages both ways; see SAMPLE_PAGES. */
static qk_status choose_vector(qk__chunk_writer *writer, const qk__column_buffer *column,
                               size_t rows, int *encoding, qk_error *err)
{
    static const int encodings[2] = {ENC_RLE_DICTIONARY, ENC_BYTE_STREAM_SPLIT};
    size_t pages = 0;
    size_t total[2] = {0};
    for (qk__slice s = {0}; qk__plan_slice(column, rows, &s);)
        pages++;
    size_t samples = pages < SAMPLE_PAGES ? pages : SAMPLE_PAGES;
    size_t taken = 0;
    qk__slice slice = {0};
    for (size_t p = 0; taken < samples && qk__plan_slice(column, rows, &slice); p++) {
        if (p < taken * pages / samples)
            continue;
        taken++;
        for (int e = 0; e < 2; e++) {
            writer->body.size = 0;
            QK_TRY(qk__plan_values(writer, column, &slice, encodings[e], &writer->body, err));
            QK_TRY(compressed_size(writer, &total[e], err));
        }
    }
    size_t dictionary = 0;
    writer->body.size = 0;
    QK_TRY(qk__plan_dictionary(writer, column, &writer->body, err));
    QK_TRY(compressed_size(writer, &dictionary, err));
    double scale = (double)pages / (double)samples;
    bool smaller = (double)dictionary + scale * (double)total[0] < scale * (double)total[1];
    *encoding = encodings[smaller ? 0 : 1];
    return QK_OK;
}

qk_status qk__plan_encoding(qk__chunk_writer *writer, const qk__column_buffer *column,
                            size_t rows, int *encoding, qk_error *err)
{
    bool fits;
    QK_TRY(build_dictionary(writer, column, &fits, err));
    if (column->kind != QK__FIELD_VECTOR)
        return choose_flat(writer, column, fits, encoding, err);
    *encoding = ENC_BYTE_STREAM_SPLIT;
    return fits ? choose_vector(writer, column, rows, encoding, err) : QK_OK;
}
