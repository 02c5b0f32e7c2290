/* SPDX-License-Identifier: Apache-2.0 */
/* Reads JSON from outside, and writes it. jansson holds the values. Its own parser refuses a whole file for one number
 * that it cannot hold, though nobody asks for it, and does not distinguish lack of memory from wrong text. */
#ifndef QK_BASE_JSON_H
#define QK_BASE_JSON_H

#include <stddef.h>

#include <jansson.h>

#include <qkscope/common.h>

#include "base/json_limits.h"

/* The one value of a text: RFC 8259, and NaN, Infinity and -Infinity, which Python writes by
 * default, as numbers. An object's key given twice is an error, and so are half of a surrogate
 * pair (where the kind allows it, such a string is an empty list, since no text can hold it), nesting deeper than 2,048 and more than the kind may have (json_limits.h). Integers have
 * 64 bits; other numbers, if finite, are doubles. A number that is neither becomes a value that is no JSON_INTEGER, JSON_REAL or
 * JSON_STRING, so that nobody takes it for another one (see qk__json_odd_number).
 *
 * Errors: QK_ERR_MALFORMED with the place in the text, QK_ERR_NOMEM. *root is NULL then. */
QK_MUST_CHECK qk_status qk__json_parse(json_t **root, const void *text, size_t size,
                                       qk__json_kind kind, qk_error *err);

/* Like json_dumps, but NULL when memory runs out, and for NULL: jansson's own then leaves out the name of a member and
 * goes on. Numbers have as many digits as they need. */
char *qk__json_dumps(const json_t *value, size_t flags);

/* A shallow copy of an object or array; NULL when memory runs out: json_copy then leaves members out. */
json_t *qk__json_copy(json_t *value);

/* The text of a number that fits neither 64 bits nor a double: "18446744073709551616", "1e999", "NaN". NULL for every
 * other value. */
const char *qk__json_odd_number(const json_t *value);

#endif
