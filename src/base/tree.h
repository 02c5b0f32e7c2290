/* SPDX-License-Identifier: Apache-2.0 */
/* Values of YAML and JSON files, read with their types and ranges checked. A failure says
 * where: "line 3: data.layers: expected a whole number from 0 to 9999, found "two"". It does
 * not name the file: the caller adds that.
 *
 * A node is a value and the way to it. It is small, lies on the reader's stack, and points to the
 * node it was taken from, which must stay where it is. YAML documents come from yaml/document.h,
 * so that readers of JSON alone need no libyaml. */
#ifndef QK_BASE_TREE_H
#define QK_BASE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <qkscope/common.h>

#include "base/node_kind.h"

typedef struct qk__tree qk__tree; /* a YAML document: yaml/document.h */

typedef struct qk__node {
    qk__tree *tree;    /* NULL: JSON */
    const void *value; /* NULL: there is none */
    const struct qk__node *parent;
    const char *name; /* of a member; NULL: an item of a list, or the root */
    size_t index;
} qk__node;

qk__node qk__tree_of_json(const json_t *root);

/* ---- ways ------------------------------------------------------------------------------- */

/* The first member of that name; a node of QK__NOTHING where there is none. */
qk__node qk__node_member(const qk__node *object, const char *name);

/* The number of items of a list. A value that is no list counts as its own only item; null and nothing have none. */
size_t qk__node_count(const qk__node *list);
qk__node qk__node_item(const qk__node *list, size_t i);

/* Goes through the members of an object: *member is {0} at first. A key that is no text has the
 * name "(no text)". */
bool qk__node_next(const qk__node *object, qk__node *member);

qk__node_kind qk__node_kind_of(const qk__node *node);
qk__node_kind qk__node_kind_in(const qk__node *object, const char *name);

/* Neither absent nor null. */
bool qk__node_is_given(const qk__node *node);

/* The value of jansson, to read on in it or to change it. NULL: nothing, or YAML. */
json_t *qk__node_json(const qk__node *node);

/* The names on the way to it, without the file's lists where the line is enough: "models.name", in JSON
 * "model.merges[3]". What does not fit is left out. */
enum { QK__PATH_SIZE = 200 };
const char *qk__node_path(const qk__node *node, char path[QK__PATH_SIZE]);

/* ---- failures --------------------------------------------------------------------------- */

/* qk__fail with the place in front; "the file" where it has no name. */
#define qk__fail_at(node, err, status, ...)                                                    \
    (qk__error_at((node), (err), (status), __VA_ARGS__), (status))
void qk__error_at(const qk__node *node, qk_error *err, qk_status status, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The same for a member, present or not. */
#define qk__fail_in(object, name, err, status, ...)                                            \
    qk__fail_at((&(const qk__node){(object)->tree, NULL, (object), (name), 0}), (err),         \
                (status), __VA_ARGS__)

/* Puts the place before the message of a failure; QK_OK stays. */
qk_status qk__context_at(const qk__node *node, qk_error *err, qk_status status);

/* "expected WHAT, found ..." or "missing". QK_ERR_ARGUMENT for YAML, which holds settings, QK_ERR_MALFORMED for JSON,
 * which holds data, and there QK_ERR_UNSUPPORTED for a text with U+0000. */
qk_status qk__fail_expected(const qk__node *node, const char *what, qk_error *err);

/* ---- values ----------------------------------------------------------------------------- */

/* Each reads the member `name` of the node `at`, or `at` itself where name is NULL. An absent or null member leaves
 * *value alone, so that it may hold the default. In YAML a number, true or false in quotation marks is a text, and
 * anything without them is one if a text is asked for. Texts belong to the tree and have no U+0000 in them. */
QK_MUST_CHECK qk_status qk__read_text(const qk__node *at, const char *name, const char **value,
                                      qk_error *err);
QK_MUST_CHECK qk_status qk__read_bool(const qk__node *at, const char *name, bool *value,
                                      qk_error *err);
QK_MUST_CHECK qk_status qk__read_int(const qk__node *at, const char *name, int least, int most,
                                     int *value, qk_error *err);
QK_MUST_CHECK qk_status qk__read_int64(const qk__node *at, const char *name, int64_t least,
                                       int64_t most, int64_t *value, qk_error *err);
QK_MUST_CHECK qk_status qk__read_real(const qk__node *at, const char *name, double least,
                                      double most, double *value, qk_error *err);
QK_MUST_CHECK qk_status qk__read_above_0(const qk__node *at, const char *name, double *value,
                                         qk_error *err);

/* The number of the word, in a list that NULL ends. */
QK_MUST_CHECK qk_status qk__read_word(const qk__node *at, const char *name,
                                      const char *const *words, int *value, qk_error *err);

/* A list of at least so many items, or a node of another kind where it is absent or null. */
QK_MUST_CHECK qk_status qk__read_list(const qk__node *at, const char *name, size_t least,
                                      qk__node *list, qk_error *err);

/* For a member without a default: fails where it is absent or null. */
QK_MUST_CHECK qk_status qk__need(const qk__node *at, const char *name, qk_error *err);
QK_MUST_CHECK qk_status qk__need_text(const qk__node *at, const char *name, const char **value,
                                      qk_error *err);
QK_MUST_CHECK qk_status qk__need_bool(const qk__node *at, const char *name, bool *value,
                                      qk_error *err);
/* A QK__LIST or QK__OBJECT. */
QK_MUST_CHECK qk_status qk__need_kind(const qk__node *at, const char *name, qk__node_kind kind,
                                      qk__node *found, qk_error *err);

#endif
