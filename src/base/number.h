/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as text, and fields of CSV tables. */
#ifndef QK_BASE_NUMBER_H
#define QK_BASE_NUMBER_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

#include "base/buffer.h"

enum { QK_NUMBER_SIZE = 40 };

/* Shortest text of at most 17 digits that reads back as the same number, with a decimal
 * point whatever the locale; "" for NaN and infinities. Returns its length. */
size_t qk__format_number(double value, char text[QK_NUMBER_SIZE]);

/* snprintf with a decimal point whatever the locale. */
int qk__print_plain(char *out, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* "65,536"; returns its length. */
int qk__group_digits(int64_t value, char text[32]);

/* Appends one CSV field (RFC 4180) and the separator that follows it. */
QK_MUST_CHECK qk_status qk__csv_number(qk__buffer *row, double value, char separator,
                                       qk_error *err);
QK_MUST_CHECK qk_status qk__csv_integer(qk__buffer *row, long long value, char separator,
                                        qk_error *err);
QK_MUST_CHECK qk_status qk__csv_text(qk__buffer *row, const char *text, char separator,
                                     qk_error *err);

#endif
