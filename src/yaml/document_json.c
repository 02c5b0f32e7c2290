/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a YAML document as JSON. */
#include "yaml/document.h"

#include <jansson.h>

#include "base/error.h"
#include "base/json.h"
#include "base/parse_number.h"
#include "base/tree_yaml.h"

/* Aliases may make a small file a huge tree. */
enum { MAX_VALUES = 10000 };

typedef struct conversion {
    int values;
    bool refused; /* else what failed was memory */
} conversion;

static json_t *to_json(conversion *c, const qk__yaml *value);

static json_t *scalar_to_json(conversion *c, const qk__yaml *value)
{
    static const char *const TRUE[] = {"true", "True", "TRUE", NULL};
    static const char *const FALSE[] = {"false", "False", "FALSE", NULL};
    const char *text = qk__yaml_text(value);
    int64_t whole;
    double real;
    c->refused |= !text;
    if (!text || !value->plain)
        return text ? json_string(text) : NULL;
    if (qk__yaml_is_null(value))
        return json_null();
    if (qk__yaml_is_one_of(value, TRUE) || qk__yaml_is_one_of(value, FALSE))
        return json_boolean(qk__yaml_is_one_of(value, TRUE));
    if (qk__parse_integer(text, &whole))
        return json_integer(whole);
    return qk__parse_number(text, &real) ? json_real(real) : json_string(text);
}

/* jansson releases what it cannot take, and what it makes an object of. */
static json_t *parts_to_json(conversion *c, const qk__yaml *value)
{
    bool list = value->kind == QK__LIST;
    json_t *made = list ? json_array() : json_object();
    for (size_t i = 0; i < qk__yaml_count(value) && made; i += list ? 1 : 2) {
        json_t *part = to_json(c, qk__yaml_part(value, list ? i : i + 1));
        const char *key = list ? NULL : qk__yaml_text(qk__yaml_part(value, i));
        c->refused |= !list && !key;
        if (list ? json_array_append_new(made, part) : json_object_set_new(made, key, part)) {
            json_decref(made);
            made = NULL;
        }
    }
    return made;
}

static json_t *to_json(conversion *c, const qk__yaml *value)
{
    c->refused |= ++c->values > MAX_VALUES;
    if (c->refused)
        return NULL;
    return value->kind == QK__SCALAR ? scalar_to_json(c, value) : parts_to_json(c, value);
}

qk_status qk__node_to_json(const qk__node *node, char **text, qk_error *err)
{
    conversion c = {0};
    json_t *made = to_json(&c, node->value);
    *text = qk__json_dumps(made, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(made);
    if (*text)
        return QK_OK;
    return c.refused ? qk__fail_at(node, err, QK_ERR_ARGUMENT, "cannot be put as JSON")
                     : qk__nomem(err);
}
