/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the Thrift compact protocol: the structs of a Parquet footer and its page
 * headers, appended to a buffer.
 *
 * Fields are written in ascending order of id between qk__thrift_begin and
 * qk__thrift_end. The first failure is kept in the writer and later calls do nothing, so
 * that the caller checks `status` once. */
#ifndef QK_PARQUET_THRIFT_WRITE_H
#define QK_PARQUET_THRIFT_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

#include "base/buffer.h"

enum {
    THRIFT_WRITE_DEPTH = 12, /* FileMetaData -> ... -> PageEncodingStats is 6 */
};

/* Element types of a list; also the field types of the protocol. */
typedef enum qk__thrift_element {
    THRIFT_LIST_I32 = 5,
    THRIFT_LIST_STRING = 8,
    THRIFT_LIST_STRUCT = 12,
} qk__thrift_element;

typedef struct qk__thrift_writer {
    qk__buffer *out;
    qk_error *err;
    qk_status status;
    int depth;
    int last_id[THRIFT_WRITE_DEPTH]; /* ids are written as differences */
} qk__thrift_writer;

/* Starts a top-level struct. */
void qk__thrift_writer_init(qk__thrift_writer *writer, qk__buffer *out, qk_error *err);

/* Ends the innermost open struct, the top-level one included. */
void qk__thrift_end(qk__thrift_writer *writer);

void qk__thrift_i32(qk__thrift_writer *writer, int id, int32_t value);
void qk__thrift_i64(qk__thrift_writer *writer, int id, int64_t value);
void qk__thrift_bool(qk__thrift_writer *writer, int id, bool value);
void qk__thrift_binary(qk__thrift_writer *writer, int id, const void *data, size_t size);
void qk__thrift_string(qk__thrift_writer *writer, int id, const char *text);
void qk__thrift_begin(qk__thrift_writer *writer, int id);

/* A list field: the header, then `count` elements by the calls below. A struct element
 * ends with qk__thrift_end. */
void qk__thrift_list(qk__thrift_writer *writer, int id, qk__thrift_element element,
                     size_t count);
void qk__thrift_element_i32(qk__thrift_writer *writer, int32_t value);
void qk__thrift_element_string(qk__thrift_writer *writer, const char *text);
void qk__thrift_element_begin(qk__thrift_writer *writer);

#endif
