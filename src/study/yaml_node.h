/* SPDX-License-Identifier: Apache-2.0 */
/* Small typed readers on top of libyaml's document tree. Messages do not name the file:
 * the caller adds it. Aliases are links in the tree, never copies, so a document cannot
 * grow while it is read. */
#ifndef QK_STUDY_YAML_NODE_H
#define QK_STUDY_YAML_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include <yaml.h>

#include <qkscope/status.h>

#include "base/buffer.h"

/* Parses the only document in text; release it with yaml_document_delete. QK_ERR_ARGUMENT
 * names the line. */
QK_MUST_CHECK qk_status qk__yaml_parse(const qk_buffer *text, yaml_document_t *document,
                                       qk_error *err);

/* Line of a node, from 1. */
unsigned long long qk__yaml_line(const yaml_node_t *node);

/* null, ~ or nothing at all. */
bool qk__yaml_is_null(const yaml_node_t *node);

/* Text of a scalar; NULL for lists, mappings and text with a zero byte in it. */
const char *qk__yaml_text(const yaml_node_t *node);

/* Each fails with QK_ERR_ARGUMENT "line N: KEY: expected ...". */
QK_MUST_CHECK qk_status qk__yaml_string(const yaml_node_t *node, const char *key,
                                        const char **value, qk_error *err);
QK_MUST_CHECK qk_status qk__yaml_bool(const yaml_node_t *node, const char *key, bool *value,
                                      qk_error *err);
QK_MUST_CHECK qk_status qk__yaml_int(const yaml_node_t *node, const char *key, int64_t min,
                                     int64_t max, int64_t *value, qk_error *err);

/* A decimal number from 0 to max. */
QK_MUST_CHECK qk_status qk__yaml_decimal(const yaml_node_t *node, const char *key, double max,
                                         double *value, qk_error *err);

#endif
