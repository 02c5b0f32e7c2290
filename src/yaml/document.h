/* SPDX-License-Identifier: Apache-2.0 */
/* YAML documents from text, whose values are read as base/tree.h has it.
 *
 *     document.c        parses, and holds the notes; it leads
 *     document_json.c   a part of a document as JSON */
#ifndef QK_YAML_DOCUMENT_H
#define QK_YAML_DOCUMENT_H

#include "base/tree.h"

/* The only document in a YAML text. Aliases are links, never copies, so that a small file
 * remains a small tree. QK_ERR_ARGUMENT names the line: no YAML, nested too deep, too many
 * anchors, more than one document, or none. */
QK_MUST_CHECK qk_status qk__tree_parse(qk__tree **tree, const void *text, size_t size,
                                       qk_error *err);
void qk__tree_free(qk__tree **tree);

qk__node qk__tree_root(qk__tree *tree);

/* What a reader has to say about a file that it takes: "device: cuda has no effect". Printf
 * style; notes beyond 32 are dropped. */
QK_MUST_CHECK qk_status qk__tree_note(qk__tree *tree, qk_error *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
size_t qk__tree_num_notes(const qk__tree *tree);
const char *qk__tree_get_note(const qk__tree *tree, size_t i);

/* A part of a YAML file as JSON text, to be freed, for what is handed on as it is.
 * QK_ERR_ARGUMENT for what JSON cannot hold and for a part that its aliases make huge. */
QK_MUST_CHECK qk_status qk__node_to_json(const qk__node *node, char **text, qk_error *err);

#endif
