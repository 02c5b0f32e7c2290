/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding the values of a page, a few at a time, and dictionaries.
 *
 * Values come out as elements of a fixed size: BOOLEAN 1 byte, INT32 and FLOAT 4, INT64 and
 * DOUBLE 8, FIXED_LEN_BYTE_ARRAY its length, BYTE_ARRAY a qk__bytes that points into
 * the page or dictionary. */
#ifndef QK_PARQUET_VALUES_H
#define QK_PARQUET_VALUES_H

#include <qkscope/parquet.h>

#include "parquet/delta.h"
#include "parquet/kernels.h"
#include "parquet/rle.h"

typedef struct qk__bytes {
    const uint8_t *data;
    size_t size;
} qk__bytes;

/* How values of a column are stored. */
typedef struct qk__value_type {
    qk_parquet_type type;
    size_t element; /* bytes of a decoded value */
} qk__value_type;

/* "INT32" and so on. */
const char *qk__parquet_type_name(qk_parquet_type type);

qk__value_type qk__value_type_of(const qk_parquet_column *column);

typedef struct qk__value_dictionary {
    bool loaded;
    uint32_t count;
    uint8_t *elements; /* count elements, aligned to 64 bytes */
    uint8_t *bytes;    /* what BYTE_ARRAY elements point into */
} qk__value_dictionary;

/* Takes the dictionary from the bytes of a dictionary page, which it copies. */
QK_MUST_CHECK qk_status qk__value_dictionary_load(qk__value_dictionary *dictionary,
                                                  qk__value_type type, const uint8_t *data,
                                                  size_t size, size_t num_values,
                                                  qk_error *err);
void qk__value_dictionary_free(qk__value_dictionary *dictionary);

/* The values of one page; reads straight from the page's bytes, which must stay. */
typedef struct qk__values {
    qk__value_type type;
    int encoding;
    const qk__parquet_kernel *kernel;
    const qk__value_dictionary *dictionary;
    const uint8_t *next, *end; /* PLAIN; the bytes of DELTA_LENGTH_BYTE_ARRAY */
    size_t index;              /* next bit or stream element */
    size_t stride;             /* elements of a byte-split stream */
    qk__rle rle;
    qk__delta delta;
} qk__values;

/* Encodings outside the subset are QK_ERR_UNSUPPORTED. */
QK_MUST_CHECK qk_status qk__values_begin(qk__values *values, qk__value_type type, int encoding,
                                         const qk__parquet_kernel *kernel,
                                         const qk__value_dictionary *dictionary,
                                         const uint8_t *data, size_t size, qk_error *err);

/* Decodes exactly n values. */
QK_MUST_CHECK qk_status qk__values_read(qk__values *values, void *out, size_t n, qk_error *err);

#endif
