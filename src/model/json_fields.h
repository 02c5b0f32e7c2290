/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a JSON object with their types and ranges checked; errors name them by their whole
 * path ("text_config.hidden_size"). */
#ifndef QK_MODEL_JSON_FIELDS_H
#define QK_MODEL_JSON_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <qkscope/status.h>

typedef struct qk__json_fields {
    const json_t *object;
    const char *path; /* of the object with a dot behind it, "" for the root */
} qk__json_fields;

/* NULL when the member is absent or null. */
const json_t *qk__json_field(const qk__json_fields *fields, const char *key);
/* Whether it is there, be it null. */
bool qk__json_field_present(const qk__json_fields *fields, const char *key);

/* Each leaves *value alone when the member is absent or null, so that it may hold the default.
 * QK_ERR_MALFORMED: another type, or out of range. */
QK_MUST_CHECK qk_status qk__json_field_int(const qk__json_fields *fields, const char *key,
                                           int64_t least, int64_t most, int64_t *value,
                                           qk_error *err);
/* A number above 0 and finite. */
QK_MUST_CHECK qk_status qk__json_field_positive(const qk__json_fields *fields, const char *key,
                                                double *value, qk_error *err);
QK_MUST_CHECK qk_status qk__json_field_bool(const qk__json_fields *fields, const char *key,
                                            bool *value, qk_error *err);
/* The string belongs to the object. */
QK_MUST_CHECK qk_status qk__json_field_text(const qk__json_fields *fields, const char *key,
                                            const char **value, qk_error *err);
/* An array with at least `count` elements, or NULL; not told apart from null. */
QK_MUST_CHECK qk_status qk__json_field_array(const qk__json_fields *fields, const char *key,
                                             size_t count, const json_t **value, qk_error *err);

#endif
