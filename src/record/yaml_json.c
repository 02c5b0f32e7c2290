/* SPDX-License-Identifier: Apache-2.0 */
/* YAML values as JSON text, for parts of a file that are handed on as they are. */
#include "record/yaml_json.h"

#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "record/run.h"

/* Aliases may make a small file a huge tree. */
enum { MAX_NODES = 10000 };

typedef struct conversion {
    yaml_document_t *document;
    int nodes;
} conversion;

static json_t *to_json(conversion *c, const yaml_node_t *node);

static json_t *scalar_to_json(const yaml_node_t *node)
{
    static const char *const TRUE[] = {"true", "True", "TRUE"};
    static const char *const FALSE[] = {"false", "False", "FALSE"};
    const char *text = qk__yaml_text(node);
    char *end;
    if (!text || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return text ? json_string(text) : NULL;
    if (qk__yaml_is_null(node))
        return json_null();
    for (size_t i = 0; i < 3; i++)
        if (strcmp(text, TRUE[i]) == 0 || strcmp(text, FALSE[i]) == 0)
            return json_boolean(strcmp(text, TRUE[i]) == 0);
    bool number = text[strspn(text, "+-.0123456789eE")] == 0 && strpbrk(text, "0123456789");
    long long whole = strtoll(text, &end, 10);
    if (number && *end == 0)
        return json_integer(whole);
    double real = strtod(text, &end);
    if (number && *end == 0 && isfinite(real))
        return json_real(real);
    return json_string(text);
}

static json_t *list_to_json(conversion *c, const yaml_node_t *node)
{
    json_t *array = json_array();
    yaml_node_item_t *item = node->data.sequence.items.start;
    for (; item < node->data.sequence.items.top; item++) {
        json_t *value = to_json(c, yaml_document_get_node(c->document, *item));
        if (json_array_append_new(array, value) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static json_t *mapping_to_json(conversion *c, const yaml_node_t *node)
{
    json_t *object = json_object();
    yaml_node_pair_t *pair = node->data.mapping.pairs.start;
    for (; pair < node->data.mapping.pairs.top; pair++) {
        const char *key = qk__yaml_text(yaml_document_get_node(c->document, pair->key));
        json_t *value = to_json(c, yaml_document_get_node(c->document, pair->value));
        if (json_object_set_new(object, key, value) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *to_json(conversion *c, const yaml_node_t *node)
{
    if (++c->nodes > MAX_NODES)
        return NULL;
    if (node->type == YAML_SCALAR_NODE)
        return scalar_to_json(node);
    return node->type == YAML_SEQUENCE_NODE ? list_to_json(c, node) : mapping_to_json(c, node);
}

char *qk__yaml_to_json(yaml_document_t *document, const yaml_node_t *node)
{
    conversion c = {document, 0};
    json_t *value = to_json(&c, node);
    char *text = qk__json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(value);
    return text;
}
