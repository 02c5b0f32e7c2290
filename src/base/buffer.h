/* SPDX-License-Identifier: Apache-2.0 */
/* A growable byte buffer. Zero-initialise it (`qk__buffer b = {0};`) and release it with
 * qk__buffer_free. Growth fails with QK_ERR_NOMEM and leaves the contents as they were. */
#ifndef QK_BASE_BUFFER_H
#define QK_BASE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

typedef struct qk__buffer {
    uint8_t *data;
    size_t size;
    size_t capacity;
} qk__buffer;

void qk__buffer_free(qk__buffer *buffer);

/* Makes room for `capacity` bytes in all; keeps contents. */
QK_MUST_CHECK qk_status qk__buffer_reserve(qk__buffer *buffer, size_t capacity, qk_error *err);

QK_MUST_CHECK qk_status qk__buffer_append(qk__buffer *buffer, const void *data, size_t size,
                                          qk_error *err);

/* Appends formatted text (no terminating zero is counted, but one follows). */
QK_MUST_CHECK qk_status qk__buffer_printf(qk__buffer *buffer, qk_error *err, const char *fmt,
                                          ...) __attribute__((format(printf, 3, 4)));

/* Array allocation with overflow check; NULL on failure or when count is 0.
 * Release with free(). The first form zeroes, the second is aligned to 64 bytes. */
void *qk__calloc(size_t count, size_t size);
void *qk__alloc_aligned(size_t count, size_t size);

/* Several arrays by the first form: all of them or, out of memory, none: then their pointers are NULL.
 *
 *     QK_TRY(QK__CREATE_ARRAYS(err, {&x, rows, sizeof *x}, {&y, rows, sizeof *y})); */
typedef struct qk__new_array {
    void *pointer; /* pointer to the array's pointer */
    size_t count, size;
} qk__new_array;

QK_MUST_CHECK qk_status qk__create_arrays(const qk__new_array *arrays, size_t count,
                                          qk_error *err);
#define QK__CREATE_ARRAYS(err, ...)                                                            \
    qk__create_arrays((const qk__new_array[]){__VA_ARGS__},                                    \
                      sizeof((const qk__new_array[]){__VA_ARGS__}) / sizeof(qk__new_array),    \
                      err)

/* A full array with room for more, at least twice as much; *capacity is set. NULL: out of memory; the old array and
 * *capacity stay as they were. */
void *qk__grow(void *items, size_t *capacity, size_t size);

/* A copy of a string, and formatted text as a new string; NULL on failure. */
char *qk__strdup(const char *text);
char *qk__format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Releases an array of strings with its strings; either may be NULL. */
void qk__strings_free(char **strings, size_t count);

#endif
