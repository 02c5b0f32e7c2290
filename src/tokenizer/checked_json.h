/* SPDX-License-Identifier: Apache-2.0 */
/* Values of tokenizer.json with checks; failures name the key. */
#ifndef QK_TOKENIZER_CHECKED_JSON_H
#define QK_TOKENIZER_CHECKED_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <qkscope/status.h>

/* Where a value is: "model.merges[3]". A chain towards the root, on the stack of whoever reads.
 */
typedef struct qk__json_place {
    const struct qk__json_place *parent; /* NULL: at the root */
    const char *key;                     /* NULL: an item of a list */
    size_t index;
} qk__json_place;

enum { QK__PLACE_SIZE = 200 };

/* The path as text; what does not fit is left out. */
const char *qk__place_text(const qk__json_place *place, char text[QK__PLACE_SIZE]);

/* qk__fail with the place in front. */
#define qk__fail_at(place, err, status, ...)                                                   \
    (qk__set_error_at((place), (err), (status), __VA_ARGS__), (status))
void qk__set_error_at(const qk__json_place *place, qk_error *err, qk_status status,
                      const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* What object[key] holds, checked for type. A key that is missing or null gives the default,
 * where there is one. `at` is the place of the object. Strings belong to the object. */
QK_MUST_CHECK qk_status qk__get_bool(const json_t *object, const char *key, bool missing,
                                     const qk__json_place *at, bool *value, qk_error *err);
QK_MUST_CHECK qk_status qk__need_bool(const json_t *object, const char *key,
                                      const qk__json_place *at, bool *value, qk_error *err);
QK_MUST_CHECK qk_status qk__need_string(const json_t *object, const char *key,
                                        const qk__json_place *at, const char **value,
                                        size_t *length, qk_error *err);
/* NULL when missing or null. */
QK_MUST_CHECK qk_status qk__get_string(const json_t *object, const char *key,
                                       const qk__json_place *at, const char **value,
                                       size_t *length, qk_error *err);
QK_MUST_CHECK qk_status qk__need_list(const json_t *object, const char *key,
                                      const qk__json_place *at, const json_t **value,
                                      qk_error *err);
QK_MUST_CHECK qk_status qk__need_object(const json_t *object, const char *key,
                                        const qk__json_place *at, const json_t **value,
                                        qk_error *err);
/* A token id, 0 .. QK__MAX_ID. */
enum { QK__MAX_ID = (1 << 24) - 1 };
QK_MUST_CHECK qk_status qk__token_id(const json_t *value, const qk__json_place *at, int32_t *id,
                                     qk_error *err);

/* The object's "type"; an object without is an error. */
QK_MUST_CHECK qk_status qk__part_type(const json_t *part, const qk__json_place *at,
                                      const char **type, qk_error *err);

#endif
