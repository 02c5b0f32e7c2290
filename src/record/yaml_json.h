/* SPDX-License-Identifier: Apache-2.0 */
/* YAML values as JSON text. */
#ifndef QK_RECORD_YAML_JSON_H
#define QK_RECORD_YAML_JSON_H

#include "study/yaml_node.h"

/* To be freed; NULL for what JSON cannot hold, for a tree that is too large, and when out of
 * memory. */
char *qk__yaml_to_json(yaml_document_t *document, const yaml_node_t *node);

#endif
