/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the list of nodes in which a file stores its schema into columns with their levels. */
#include "parquet/metadata.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "parquet/format.h"

enum {
    MAX_DEPTH = 1024,
    /* A long name above many leaves is repeated in each of their paths. */
    MAX_PATH_BYTES = 1 << 24,
};

/* A group whose children are being read. */
typedef struct open_group {
    int32_t children_left;
    int definition, repetition;
    size_t path_size;
} open_group;

typedef struct walk {
    open_group *groups;
    size_t depth;
    qk__buffer path; /* names of the open groups, joined by dots */
    qk__leaf *leaves;
    size_t num_leaves;
    size_t path_bytes; /* of all leaves */
} walk;

static qk_parquet_logical logical_of(const qk__schema_node *node)
{
    if (node->logical == LOGICAL_UNKNOWN)
        return QK_PARQUET_NULL;
    if (node->logical == LOGICAL_STRING ||
        (node->logical == 0 && node->converted == CONVERTED_UTF8))
        return QK_PARQUET_STRING;
    if (node->logical == LOGICAL_FLOAT16 && node->type == QK_PARQUET_FIXED_LEN_BYTE_ARRAY &&
        node->type_length == 2)
        return QK_PARQUET_FLOAT16;
    return QK_PARQUET_PLAIN_TYPE;
}

static qk_status add_leaf(walk *w, const qk__schema_node *node, int definition, int repetition,
                          qk_error *err)
{
    w->path_bytes += w->path.size;
    if (w->path_bytes > MAX_PATH_BYTES)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "over the limit: column names take more than %d bytes", MAX_PATH_BYTES);
    if (node->type < QK_PARQUET_BOOLEAN || node->type > QK_PARQUET_FIXED_LEN_BYTE_ARRAY)
        return qk__fail(err, QK_ERR_MALFORMED, "column '%.*s' has unknown physical type %d",
                        (int)w->path.size, (const char *)w->path.data, node->type);
    bool fixed = node->type == QK_PARQUET_FIXED_LEN_BYTE_ARRAY;
    if (fixed && node->type_length <= 0)
        return qk__fail(err, QK_ERR_MALFORMED, "column '%.*s' has type length %d",
                        (int)w->path.size, (const char *)w->path.data, node->type_length);
    char *path = strndup(w->path.data ? (const char *)w->path.data : "", w->path.size);
    if (!path)
        return qk__nomem(err);
    /* A name may hold a zero byte; the C string then ends early, in every use alike. */
    size_t top = w->depth > 1 ? w->groups[1].path_size : w->path.size;
    w->leaves[w->num_leaves++] = (qk__leaf){
        .info = {.path = path,
                 .type = (qk_parquet_type)node->type,
                 .type_length = fixed ? node->type_length : 0,
                 .logical = logical_of(node),
                 .max_definition = definition,
                 .max_repetition = repetition},
        .path = path,
        .top_length = strnlen(path, top),
        .field = w->groups[0].children_left,
        .is_unsigned = !node->logical_signed || (node->converted >= CONVERTED_UINT_FIRST &&
                                                 node->converted <= CONVERTED_UINT_LAST),
    };
    return QK_OK;
}

static qk_status enter_node(walk *w, const qk__schema_node *node, qk_error *err)
{
    open_group *parent = &w->groups[w->depth - 1];
    parent->children_left--;
    w->path.size = parent->path_size;
    if (w->depth > 1)
        QK_TRY(qk__buffer_append(&w->path, ".", 1, err));
    QK_TRY(qk__buffer_append(&w->path, node->name.data, node->name.size, err));
    if (node->repetition < REPETITION_REQUIRED || node->repetition > REPETITION_REPEATED)
        return qk__fail(err, QK_ERR_MALFORMED, "field '%.*s' has unknown repetition %d",
                        (int)w->path.size, (const char *)w->path.data, node->repetition);
    int definition = parent->definition + (node->repetition != REPETITION_REQUIRED);
    int repetition = parent->repetition + (node->repetition == REPETITION_REPEATED);
    if (node->type >= 0)
        return add_leaf(w, node, definition, repetition, err);
    if (w->depth == MAX_DEPTH)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "over the limit: schema nested deeper than %d levels", MAX_DEPTH);
    w->groups[w->depth++] =
        (open_group){node->num_children, definition, repetition, w->path.size};
    return QK_OK;
}

static qk_status walk_tree(walk *w, const qk__schema_node *nodes, size_t count, qk_error *err)
{
    QK_TRY(QK__CREATE_ARRAYS(err, {&w->groups, MAX_DEPTH, sizeof *w->groups},
                             {&w->leaves, count, sizeof *w->leaves}));
    w->groups[w->depth++] = (open_group){.children_left = nodes[0].num_children};
    for (size_t i = 1; i < count; i++) {
        while (w->depth > 0 && w->groups[w->depth - 1].children_left == 0)
            w->depth--;
        if (w->depth == 0)
            return qk__fail(err, QK_ERR_MALFORMED, "schema has nodes outside its root");
        QK_TRY(enter_node(w, &nodes[i], err));
    }
    while (w->depth > 0)
        if (w->groups[--w->depth].children_left > 0)
            return qk__fail(err, QK_ERR_MALFORMED, "schema ends inside a group");
    return QK_OK;
}

qk_status qk__schema_leaves(const qk__schema_node *nodes, size_t count, qk__leaf **leaves,
                            size_t *num_leaves, qk_error *err)
{
    *leaves = NULL;
    *num_leaves = 0;
    walk w = {0};
    qk_status status = walk_tree(&w, nodes, count, err);
    free(w.groups);
    qk__buffer_free(&w.path);
    if (status != QK_OK) {
        for (size_t i = 0; i < w.num_leaves; i++)
            free(w.leaves[i].path);
        free(w.leaves);
        return status;
    }
    *leaves = w.leaves;
    *num_leaves = w.num_leaves;
    return QK_OK;
}
