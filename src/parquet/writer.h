/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a Parquet file as captures are: zstd, data pages of version 1 and 1 MiB with checksums; of vectors, in each row
 * group, the smaller of a dictionary and BYTE_STREAM_SPLIT.
 *
 *     writer.c         rows in, buffered column by column up to one row group; it leads
 *     writer_chunk.c   one buffered column -> a column chunk of pages
 *     writer_plan.c    where pages are cut, how their values are encoded
 *     writer_footer.c  what was written where -> the footer */
#ifndef QK_PARQUET_WRITER_H
#define QK_PARQUET_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/parquet.h>

#include "base/buffer.h"
#include "base/file.h"
#include "parquet/codec.h"
#include "parquet/dictionary.h"

typedef enum qk__field_kind {
    QK__FIELD_INT32, /* from int64_t values that fit */
    QK__FIELD_INT64,
    QK__FIELD_STRING, /* from NUL-terminated UTF-8 */
    QK__FIELD_VECTOR, /* 3-level LIST of FLOAT, `width` values a row */
} qk__field_kind;

typedef struct qk__field {
    const char *name;
    qk__field_kind kind;
    size_t width; /* vectors only */
} qk__field;

/* Values of one field for the rows being added. */
typedef struct qk__field_values {
    const int64_t *i64;         /* INT32, INT64 */
    const char *const *strings; /* STRING */
    const float *f32;           /* VECTOR: rows x width, row-major */
    const uint8_t *valid;       /* one a row, 0 = null; NULL = all valid. Not for vectors. */
} qk__field_values;

typedef struct qk__parquet_writer qk__parquet_writer;

/* Starts a file beside `path`; nothing appears at `path` before finish. Every field is
 * optional (nullable) in the schema, as pyarrow writes it. group_rows: rows are buffered up to so many; 0 = 65,536. */
QK_MUST_CHECK qk_status qk__parquet_writer_open(qk__parquet_writer **writer, const char *path,
                                                const qk__field *fields, size_t num_fields,
                                                size_t group_rows, qk_error *err);

/* Appends rows; values[f] belongs to fields[f]. QK_ERR_ARGUMENT for an INT32 value out of range. */
QK_MUST_CHECK qk_status qk__parquet_writer_add(qk__parquet_writer *writer,
                                               const qk__field_values *values, size_t rows,
                                               qk_error *err);

/* Writes the rows gathered so far as a row group of their own. */
QK_MUST_CHECK qk_status qk__parquet_writer_cut(qk__parquet_writer *writer, qk_error *err);

/* Forgets them instead, and tells how many there were. */
size_t qk__parquet_writer_drop(qk__parquet_writer *writer);

/* Writes what is buffered and the footer, syncs, renames to `path`, frees the
 * writer and sets *writer to NULL, on failure too (nothing then appears at `path`). */
QK_MUST_CHECK qk_status qk__parquet_writer_finish(qk__parquet_writer **writer, qk_error *err);

/* Drops the unfinished file. NULL is allowed. */
void qk__parquet_writer_abort(qk__parquet_writer **writer);

/* ---- what the parts of the writer share ------------------------------------------------- */

/* One column of the row group being gathered. Values are packed: nulls take no room. */
typedef struct qk__column_buffer {
    char *name;
    qk__field_kind kind;
    size_t width;       /* values a row: 1 except for vectors */
    size_t value_size;  /* bytes a value; 0 for strings */
    qk__buffer values;  /* values as PLAIN stores them; for strings the bytes alone */
    qk__buffer lengths; /* strings: one uint32_t a value */
    qk__buffer valid;   /* one byte a row; empty for vectors, which have no nulls */
    size_t present;     /* values, vector elements counted singly */
    size_t nulls;
} qk__column_buffer;

/* What the footer says about one column chunk. */
typedef struct qk__chunk_info {
    int64_t num_values;
    int64_t null_count;
    int64_t uncompressed_bytes; /* page headers included, as in compressed_bytes */
    int64_t compressed_bytes;
    int64_t data_offset;
    int64_t dictionary_offset; /* 0: no dictionary */
    int encoding;              /* of the data pages */
    int data_pages;
    bool has_range; /* integer columns with a value that is not null */
    int64_t min, max;
} qk__chunk_info;

typedef struct qk__group_info {
    int64_t rows;
    int64_t offset;
    qk__chunk_info *chunks; /* one per column */
} qk__group_info;

/* Scratch for encoding; its memory is kept from chunk to chunk. */
typedef struct qk__chunk_writer {
    qk__outfile *out;
    qk__codec_state codec;
    qk__dictionary dictionary;
    qk__buffer levels;  /* uint16_t each, before encoding */
    qk__buffer indices; /* uint16_t each: dictionary indices of the chunk */
    qk__buffer strings; /* string dictionaries: where each first occurs */
    qk__buffer body;    /* one page: levels, then values */
    qk__buffer compressed;
    qk__buffer header;
    qk__buffer repetition; /* encoded levels of a page of repetition_rows vectors */
    size_t repetition_rows;
    size_t repetition_width;
} qk__chunk_writer;

/* The part of a column that one page holds. */
typedef struct qk__slice {
    size_t row, rows;
    size_t value, values; /* of those present */
    size_t byte, bytes;   /* strings only */
} qk__slice;

void qk__chunk_writer_free(qk__chunk_writer *writer);

/* Writes one column of `rows` rows as a column chunk and describes it. */
QK_MUST_CHECK qk_status qk__chunk_write(qk__chunk_writer *writer,
                                        const qk__column_buffer *column, size_t rows,
                                        qk__chunk_info *info, qk_error *err);

/* Moves on to the next page's part; a zeroed slice stands before the first. False at the
 * end of the column. */
bool qk__plan_slice(const qk__column_buffer *column, size_t rows, qk__slice *slice);

/* Picks the encoding of a chunk's data pages; for ENC_RLE_DICTIONARY, dictionary and
 * indices are left in the writer for the two calls below. */
QK_MUST_CHECK qk_status qk__plan_encoding(qk__chunk_writer *writer,
                                          const qk__column_buffer *column, size_t rows,
                                          int *encoding, qk_error *err);

/* Append the values of the dictionary page, and of one data page. */
QK_MUST_CHECK qk_status qk__plan_dictionary(qk__chunk_writer *writer,
                                            const qk__column_buffer *column, qk__buffer *out,
                                            qk_error *err);
QK_MUST_CHECK qk_status qk__plan_values(qk__chunk_writer *writer,
                                        const qk__column_buffer *column, const qk__slice *slice,
                                        int encoding, qk__buffer *out, qk_error *err);

/* Appends the serialised FileMetaData. */
QK_MUST_CHECK qk_status qk__footer_encode(qk__buffer *out, const qk__column_buffer *columns,
                                          size_t num_columns, const qk__group_info *groups,
                                          size_t num_groups, qk_error *err);

#endif
