/* SPDX-License-Identifier: Apache-2.0 */
/* The different token strings of a head, in the order in which its rows have them: a row then needs a number alone. */
#ifndef QK_CAPTURE_TOKEN_STRINGS_H
#define QK_CAPTURE_TOKEN_STRINGS_H

#include <qkscope/common.h>

#include "base/buffer.h"
#include "parquet/reader.h"

/* A longer string is known by its beginning. Rows have no further strings once there are so many, or so many bytes in all,
 * which no vocabulary has. */
enum {
    QK__MOST_TOKEN_BYTES = 256,
    QK__MOST_TOKEN_STRINGS = 1 << 20,
    QK__MOST_TOKEN_STRING_BYTES = 1 << 26,
};

/* Zeros at first. */
typedef struct qk__token_strings {
    size_t count;
    uint32_t *at;     /* [count] where a string begins */
    qk__buffer bytes; /* of all: UTF-8, each with a zero behind it */
    uint32_t *places; /* [num_places] 1 + a string's number; 0: free */
    size_t room, num_places;
} qk__token_strings;

void qk__token_strings_free(qk__token_strings *strings);

static inline const char *qk__token_text(const qk__token_strings *strings, size_t i)
{
    return (const char *)strings->bytes.data + strings->at[i];
}

/* The number of a text that a list like this has, which is new or not; -1: there are too many. */
QK_MUST_CHECK qk_status qk__token_strings_add(qk__token_strings *strings, const char *text,
                                              int64_t *number, qk_error *err);

/* The next rows of a column, at most `count`, *rows of them: the number of each string, which is new or not; -1: a null, or
 * there are too many. What is no UTF-8, and a byte of zero, is U+FFFD in a string. */
QK_MUST_CHECK qk_status qk__token_strings_read(qk__token_strings *strings, qk__cursor *cursor,
                                               int64_t *numbers, size_t count, size_t *rows,
                                               qk_error *err);

#endif
