/* SPDX-License-Identifier: Apache-2.0 */
/* Decoding the Thrift compact protocol from a span of untrusted bytes.
 *
 * A reader that meets bad bytes remembers the first fault and then yields zeros and "no more
 * fields", so that a decoder is written without a check after every call and looks at
 * `fault` once, at its end:
 *
 *     qk__thrift_field field = {0};
 *     while (qk__thrift_read_field(t, &field))
 *         if (field.id == 1)
 *             num_rows = qk__thrift_read_i64(t, &field);
 *         else
 *             qk__thrift_skip(t, &field); */
#ifndef QK_PARQUET_THRIFT_READ_H
#define QK_PARQUET_THRIFT_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum qk__thrift_type {
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
};

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

/* Moves to the next field of a struct; false at its end and after a fault. */
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
size_t qk__thrift_read_list(qk__thrift_reader *t, const qk__thrift_field *field, uint8_t type,
                            size_t min_bytes);
int32_t qk__thrift_read_element(qk__thrift_reader *t);

/* Passes over the value of a field of any type. */
void qk__thrift_skip(qk__thrift_reader *t, const qk__thrift_field *field);

#endif
