/* SPDX-License-Identifier: Apache-2.0 */
/* The Thrift compact protocol, in which a Parquet file keeps its footer and its page headers.
 *
 *     thrift_read.c    decodes it from untrusted bytes
 *     thrift_write.c   appends it to a buffer */
#ifndef QK_PARQUET_THRIFT_H
#define QK_PARQUET_THRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

#include "base/buffer.h"

typedef enum qk__thrift_type {
    THRIFT_STOP = 0,
    THRIFT_TRUE = 1,
    THRIFT_FALSE = 2,
    THRIFT_BYTE = 3,
    THRIFT_I16 = 4,
    THRIFT_I32 = 5,
    THRIFT_I64 = 6,
    THRIFT_DOUBLE = 7,
    THRIFT_BINARY = 8,
    THRIFT_LIST = 9,
    THRIFT_SET = 10,
    THRIFT_MAP = 11,
    THRIFT_STRUCT = 12,
} qk__thrift_type;

/* ---- reading ---------------------------------------------------------------------------- */

/* A reader that meets bad bytes remembers the first fault and then yields zeros and "no more
 * fields", so that a decoder is written without a check after every call and looks at `fault`
 * once, at its end. */
typedef struct qk__thrift_reader {
    const uint8_t *next, *end;
    const char *fault; /* NULL while all is well */
    bool truncated;    /* the fault is that the bytes ended: more of them may help */
} qk__thrift_reader;

/* Start each struct with a zeroed field: ids are coded relative to the one before. */
typedef struct qk__thrift_field {
    int id;
    uint8_t type;
} qk__thrift_field;

typedef struct qk__thrift_bytes {
    const uint8_t *data;
    size_t size;
} qk__thrift_bytes;

void qk__thrift_init(qk__thrift_reader *t, const uint8_t *data, size_t size);

/* Records a fault found by the caller; the first one stays. */
void qk__thrift_fault(qk__thrift_reader *t, const char *fault);

/* One field that a struct may have, and where its value goes: "at" is an offset in the target.
 * A table of them ends with a row of zeros. */
typedef struct qk__thrift_member qk__thrift_member;
typedef void qk__thrift_fn(qk__thrift_reader *t, const qk__thrift_field *field, void *target);
struct qk__thrift_member {
    int id;
    enum { QK__THRIFT_INT32, QK__THRIFT_INT64, QK__THRIFT_BOOL, QK__THRIFT_BYTES } value;
    size_t at;
    qk__thrift_fn *read; /* not NULL: it reads the field, and knows what it is */
};

#define QK__THRIFT_AT(id, value, type, member)                                                 \
    {                                                                                          \
        id, QK__THRIFT_##value, offsetof(type, member), NULL                                   \
    }

/* Reads a struct by its table, and passes over fields that the table lacks. Returns which
 * fields below 32 were there, one bit for each id. */
uint32_t qk__thrift_read_members(qk__thrift_reader *t, const qk__thrift_member *members,
                                 void *target);

/* The same by hand. Moves to the next field of a struct; false at its end and after a fault. */
bool qk__thrift_read_field(qk__thrift_reader *t, qk__thrift_field *field);

/* Value of the field just met. Another type, or for i32 a value out of range, is a fault. */
bool qk__thrift_read_bool(qk__thrift_reader *t, const qk__thrift_field *field);
int32_t qk__thrift_read_i32(qk__thrift_reader *t, const qk__thrift_field *field);
int64_t qk__thrift_read_i64(qk__thrift_reader *t, const qk__thrift_field *field);
qk__thrift_bytes qk__thrift_read_binary(qk__thrift_reader *t, const qk__thrift_field *field);

/* True if the field is a struct: its fields come next, with a field of their own. */
bool qk__thrift_read_struct(qk__thrift_reader *t, const qk__thrift_field *field);

/* Number of elements of a list of the given type. A count that could not fit the bytes left,
 * at min_bytes an element, is a fault, so it may be used to size an allocation. Elements
 * follow: structs as after qk__thrift_read_struct, i32 with qk__thrift_read_element. */
size_t qk__thrift_read_list(qk__thrift_reader *t, const qk__thrift_field *field,
                            qk__thrift_type type, size_t min_bytes);
int32_t qk__thrift_read_element(qk__thrift_reader *t);

/* Passes over the value of a field of any type. */
void qk__thrift_skip(qk__thrift_reader *t, const qk__thrift_field *field);

/* ---- writing ---------------------------------------------------------------------------- */

enum { THRIFT_WRITE_DEPTH = 12 }; /* FileMetaData -> ... -> PageEncodingStats is 6 */

/* Fields are written in ascending order of id. The first failure is kept in the writer and
 * later calls do nothing, so that the caller checks `status` once. */
typedef struct qk__thrift_writer {
    qk__buffer *out;
    qk_error *err;
    qk_status status;
    int depth;
    int last_id[THRIFT_WRITE_DEPTH]; /* ids are written as differences */
} qk__thrift_writer;

/* Starts a top-level struct. */
void qk__thrift_writer_init(qk__thrift_writer *writer, qk__buffer *out, qk_error *err);

/* A field that is a struct: its fields follow. End is that of the innermost open struct, the
 * top-level one included. */
void qk__thrift_begin(qk__thrift_writer *writer, int id);
void qk__thrift_end(qk__thrift_writer *writer);

void qk__thrift_i32(qk__thrift_writer *writer, int id, int32_t value);
void qk__thrift_i64(qk__thrift_writer *writer, int id, int64_t value);
void qk__thrift_bool(qk__thrift_writer *writer, int id, bool value);
void qk__thrift_binary(qk__thrift_writer *writer, int id, const void *data, size_t size);
void qk__thrift_string(qk__thrift_writer *writer, int id, const char *text);

/* A list field: the header, then `count` elements by the calls below. A struct element
 * ends with qk__thrift_end. */
void qk__thrift_list(qk__thrift_writer *writer, int id, qk__thrift_type element, size_t count);
void qk__thrift_element_i32(qk__thrift_writer *writer, int32_t value);
void qk__thrift_element_string(qk__thrift_writer *writer, const char *text);
void qk__thrift_element_begin(qk__thrift_writer *writer);

#endif
