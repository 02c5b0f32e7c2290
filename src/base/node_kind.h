/* SPDX-License-Identifier: Apache-2.0 */
/* What a value of a YAML or JSON file can be. */
#ifndef QK_BASE_NODE_KIND_H
#define QK_BASE_NODE_KIND_H

typedef enum qk__node_kind {
    QK__NOTHING, /* no such member */
    QK__NULL,    /* in YAML also ~ and nothing at all */
    QK__SCALAR,
    QK__LIST,
    QK__OBJECT,
} qk__node_kind;

#endif
