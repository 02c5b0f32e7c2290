/* SPDX-License-Identifier: Apache-2.0 */
/* Building, reading and writing the JSON files of a run. */
#ifndef QK_BASE_JSON_BUILD_H
#define QK_BASE_JSON_BUILD_H

#include <jansson.h>

#include <qkscope/common.h>

#include "base/file.h"
#include "base/json.h"

/* When memory runs out while JSON is built, NULL takes the place of the value, and stays: jansson makes no object of a
 * NULL (json_pack); the two functions below return the array or object, or release it and return NULL where it could
 * not take the value; and qk__json_write calls NULL out of memory. So nothing is written with a value missing, and no
 * other code has to check. */
QK_MUST_CHECK json_t *qk__json_append(json_t *array, json_t *value);
QK_MUST_CHECK json_t *qk__json_set(json_t *object, const char *key, json_t *value);

/* A text from outside as a JSON string; bytes that are not UTF-8 become '?'. NULL for NULL. */
json_t *qk__json_text(const char *text);
/* The same, but null for NULL. */
json_t *qk__json_text_or_null(const char *text);

/* The text of a member; "" where there is none. It lives as long as the object. */
const char *qk__json_string(const json_t *object, const char *key);

/* A number, or null for NaN and infinities. */
json_t *qk__json_number(double value);

/* The value in a JSON file. Messages name the file; *root is NULL on failure. */
QK_MUST_CHECK qk_status qk__json_read_file(json_t **root, const char *path, qk__json_kind kind,
                                           qk_error *err);

/* The same for a file that a run wrote; NULL when it cannot be read or is not JSON. */
json_t *qk__json_read(const char *path, qk__json_kind kind);

/* Writes root (indented, keys in insertion order) for folder/name and releases it. *file is
 * finished, not committed; NULL on failure. root NULL means that building it ran out of
 * memory. */
QK_MUST_CHECK qk_status qk__json_write(json_t *root, const char *folder, const char *name,
                                       qk__outfile **file, qk_error *err);

#endif
