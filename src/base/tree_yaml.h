/* SPDX-License-Identifier: Apache-2.0 */
/* YAML documents in memory: what yaml/document.c makes and tree.c reads as nodes. */
#ifndef QK_BASE_TREE_YAML_H
#define QK_BASE_TREE_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/node_kind.h"

enum { QK__MAX_NOTES = 32 };

typedef struct qk__yaml {
    qk__node_kind kind; /* QK__SCALAR, also of null, QK__LIST or QK__OBJECT */
    bool plain;         /* a scalar without quotation marks */
    size_t line;        /* from 1 */
    size_t length;      /* of text, which may hold zero bytes */
    qk__buffer parts;   /* qk__yaml *: items of a list; keys and values in turn */
    char *anchor;       /* NULL: none */
    struct qk__yaml *next, *next_anchor;
    char text[];
} qk__yaml;

struct qk__tree {
    qk__yaml *root, *values, *anchors; /* values: all there are */
    char *notes[QK__MAX_NOTES];
    size_t num_notes;
};

static inline const qk__yaml *qk__yaml_part(const qk__yaml *value, size_t i)
{
    return ((qk__yaml *const *)(const void *)value->parts.data)[i];
}

static inline size_t qk__yaml_count(const qk__yaml *value)
{
    return value->parts.size / sizeof(qk__yaml *);
}

/* The text of a scalar; NULL for others and for text with a zero byte in it. */
const char *qk__yaml_text(const qk__yaml *value);

/* Whether it is a plain scalar and one of the words, NULL behind the last. */
bool qk__yaml_is_one_of(const qk__yaml *value, const char *const *words);

bool qk__yaml_is_null(const qk__yaml *value);

#endif
