/* SPDX-License-Identifier: Apache-2.0 */
/* Reading YAML files of settings by tables of keys. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/expand.h"
#include "base/file.h"
#include "study/config.h"
#include "study/spelling.h"

/* A configuration is a page of text. */
enum { MAX_CONFIG_BYTES = 256 << 10, MAX_KEY = QK_MAX_WORD };

qk_status qk__config_parse(qk_config *config, const char *path, qk_error *err)
{
    qk_buffer raw;
    qk_buffer text = {0};
    QK_TRY(qk__read_file(path, MAX_CONFIG_BYTES, &raw, err));
    qk_status status =
        qk__expand_variables((const char *)raw.data, raw.size, MAX_CONFIG_BYTES, &text, err);
    if (status == QK_OK)
        status = qk__yaml_parse(&text, &config->document, err);
    config->has_document = status == QK_OK;
    if (status != QK_OK)
        qk__context(err, status, "%s", path);
    qk__buffer_free(&raw);
    qk__buffer_free(&text);
    return status;
}

/* ---- keys ---------------------------------------------------------------------------- */

typedef struct table {
    const qk__key *keys;
    size_t count;
    bool of_study;
} table;

static bool is_known(const table *t, size_t i)
{
    return !(t->of_study && t->keys[i].one_capture);
}

/* Its row; count where there is none. */
static size_t find_key(const table *t, const char *name)
{
    for (size_t i = 0; i < t->count; i++)
        if (is_known(t, i) && strcmp(t->keys[i].name, name) == 0)
            return i;
    return t->count;
}

static const char *last_word(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* The known key that a wrong one most likely means: the same name in another section, or
 * one a few letters off. */
static const char *nearest_key(const table *t, const char *name)
{
    const char *nearest = NULL;
    int least = 4;
    for (size_t i = 0; i < t->count; i++) {
        if (!is_known(t, i))
            continue;
        if (strcmp(last_word(t->keys[i].name), last_word(name)) == 0)
            return t->keys[i].name;
        int distance = qk__edit_distance(name, t->keys[i].name);
        if (distance < least) {
            least = distance;
            nearest = t->keys[i].name;
        }
    }
    return nearest;
}

static qk_status fail_unknown(const table *t, const yaml_node_t *node, const char *name,
                              qk_error *err)
{
    const char *nearest = nearest_key(t, name);
    return qk__fail(err, QK_ERR_ARGUMENT, "line %llu: unknown key %s%s%s%s",
                    qk__yaml_line(node), name, nearest ? " (did you mean " : "",
                    nearest ? nearest : "", nearest ? "?)" : "");
}

/* Sections nest as deep as the table does, so this recursion ends. */
static qk_status read_section(qk_config *config, const table *t, const yaml_node_t *node,
                              const char *section, bool *seen, qk_error *err)
{
    if (node->type != YAML_MAPPING_NODE)
        return qk__fail(err, QK_ERR_ARGUMENT, "line %llu: %s: expected keys and values",
                        qk__yaml_line(node), *section ? section : "the file");
    yaml_node_pair_t *pair = node->data.mapping.pairs.start;
    for (; pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(&config->document, pair->key);
        const yaml_node_t *value = yaml_document_get_node(&config->document, pair->value);
        const char *text = qk__yaml_text(key);
        char name[MAX_KEY];
        int length = snprintf(name, sizeof name, "%s%s%s", section, *section ? "." : "",
                              text ? text : "that is no text");
        size_t k = length < (int)sizeof name && text ? find_key(t, name) : t->count;
        if (k == t->count)
            return fail_unknown(t, key, name, err);
        if (seen[k])
            return qk__fail(err, QK_ERR_ARGUMENT, "line %llu: %s is given twice",
                            qk__yaml_line(key), name);
        seen[k] = true;
        if (qk__yaml_is_null(value))
            continue;
        QK_TRY(t->keys[k].set ? t->keys[k].set(config, value, name, err)
                              : read_section(config, t, value, name, seen, err));
    }
    return QK_OK;
}

qk_status qk__read_keys(qk_config *config, const qk__key *keys, size_t count,
                        const yaml_node_t *node, const char *section, qk_error *err)
{
    const table t = {keys, count, config->of_study};
    bool *seen = qk__calloc(count, sizeof *seen);
    if (!seen)
        return qk__nomem(err);
    qk_status status = read_section(config, &t, node, section, seen, err);
    free(seen);
    return status;
}
