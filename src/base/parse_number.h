/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in text, strictly and whatever the locale. */
#ifndef QK_BASE_PARSE_NUMBER_H
#define QK_BASE_PARSE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* The whole text is one decimal number ("-1.5e-3", ".5", "+2"), correctly rounded. False, with
 * *value unset, for anything else: spaces, "nan", "inf", hexadecimal, a decimal comma, numbers
 * too large for a double, texts of more than 1,000 bytes. */
bool qk__parse_number(const char *text, double *value);

/* The number at the beginning of a text; returns what follows it, NULL without a number. */
const char *qk__read_number(const char *text, double *value);

/* The whole text is a decimal integer of 64 bits, without a point or an exponent. */
bool qk__parse_integer(const char *text, int64_t *value);

#endif
