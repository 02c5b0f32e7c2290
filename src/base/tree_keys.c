/* SPDX-License-Identifier: Apache-2.0 */
/* Reading files of settings by tables of keys. */
#include "base/tree_keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/expand.h"
#include "base/file.h"
#include "base/spelling.h"
#include "base/tree_yaml.h"

/* Settings are a page of text. */
enum { MAX_BYTES = 256 << 10 };

qk_status qk__read_settings(const char *path, qk__tree **tree, qk_error *err)
{
    qk_buffer raw, text = {0};
    *tree = NULL;
    QK_TRY(qk__read_file(path, MAX_BYTES, &raw, err));
    qk_status status =
        qk__expand_variables((const char *)raw.data, raw.size, MAX_BYTES, &text, err);
    if (status == QK_OK)
        status = qk__tree_parse(tree, text.data, text.size, err);
    if (status != QK_OK)
        qk__context(err, status, "%s", path);
    qk__buffer_free(&raw);
    qk__buffer_free(&text);
    return status;
}

/* ---- which key ---- */

static bool is_known(const qk__keys *keys, size_t i)
{
    return !(keys->rows[i].only & keys->hidden);
}

static const char *last_word(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* The known key that a wrong one most likely means: the same name in another section, or
 * one a few letters off. */
static const char *nearest_key(const qk__keys *keys, const char *name)
{
    const char *nearest = NULL;
    int least = 4;
    for (size_t i = 0; i < keys->count; i++) {
        const char *known = keys->rows[i].name;
        if (!is_known(keys, i))
            continue;
        if (strcmp(last_word(known), last_word(name)) == 0)
            return known;
        int distance = qk__edit_distance(name, known);
        if (distance < least) {
            least = distance;
            nearest = known;
        }
    }
    return nearest;
}

/* Line of the key, which may stand above its value. */
static size_t key_line(const qk__node *member)
{
    return qk__yaml_part(member->parent->value, member->index)->line;
}

static qk_status find_key(const qk__keys *keys, const qk__node *member, size_t *row,
                          qk_error *err)
{
    char name[QK__PATH_SIZE];
    qk__node_path(member, name);
    for (*row = 0; *row < keys->count; ++*row)
        if (is_known(keys, *row) && strcmp(keys->rows[*row].name, name) == 0)
            return QK_OK;
    const char *nearest = strlen(name) < QK_MAX_WORD ? nearest_key(keys, name) : NULL;
    return qk__fail(err, QK_ERR_ARGUMENT, "line %zu: unknown key %s%s%s%s", key_line(member),
                    name, nearest ? " (did you mean " : "", nearest ? nearest : "",
                    nearest ? "?)" : "");
}

/* ---- its value ---- */

/* What is false asks for nothing. */
static qk_status ignore(const qk__node *value, const char *name, qk_error *err)
{
    bool asked = true;
    const char *text = NULL;
    if (qk__read_bool(value, NULL, &asked, NULL) == QK_OK && !asked)
        return QK_OK;
    if (qk__node_kind_of(value) == QK__SCALAR)
        QK_TRY(qk__read_text(value, NULL, &text, err));
    return qk__tree_note(value->tree, err, "%s%s%.60s has no effect", name, text ? ": " : "",
                         text ? text : "");
}

static qk_status read_value(const qk__key *key, const qk__node *value, void *target,
                            qk_error *err)
{
    void *place = (char *)target + key->at;
    switch (key->type) {
    case QK__KEY_TEXT:
        return qk__read_text(value, NULL, place, err);
    case QK__KEY_BOOL:
        return qk__read_bool(value, NULL, place, err);
    case QK__KEY_INT:
        return qk__read_int(value, NULL, (int)key->whole.least, (int)key->whole.most, place,
                            err);
    case QK__KEY_INT64:
        return qk__read_int64(value, NULL, key->whole.least, key->whole.most, place, err);
    case QK__KEY_REAL:
        return qk__read_real(value, NULL, key->real.least, key->real.most, place, err);
    case QK__KEY_WORD:
        return qk__read_word(value, NULL, key->words, place, err);
    case QK__KEY_IGNORED:
        return ignore(value, key->name, err);
    case QK__KEY_SECTION:
    case QK__KEY_READ:
        break;
    }
    return key->read(target, value, key, err);
}

/* Sections nest as deep as the table does, so this recursion ends. */
static qk_status read_object(const qk__node *object, const qk__keys *keys, void *target,
                             bool *seen, qk_error *err)
{
    qk__node member = {0};
    if (qk__node_kind_of(object) != QK__OBJECT)
        return qk__fail_expected(object, "keys and values", err);
    while (qk__node_next(object, &member)) {
        size_t i;
        QK_TRY(find_key(keys, &member, &i, err));
        const qk__key *key = &keys->rows[i];
        if (seen[i])
            return qk__fail(err, QK_ERR_ARGUMENT, "line %zu: %s is given twice",
                            key_line(&member), key->name);
        seen[i] = true;
        if (qk__node_is_given(&member))
            QK_TRY(key->type == QK__KEY_SECTION ? read_object(&member, keys, target, seen, err)
                                                : read_value(key, &member, target, err));
    }
    return QK_OK;
}

qk_status qk__read_keys(const qk__node *object, qk__keys keys, void *target, qk_error *err)
{
    bool *seen = qk__calloc(keys.count, sizeof *seen);
    if (!seen)
        return qk__nomem(err);
    qk_status status = read_object(object, &keys, target, seen, err);
    free(seen);
    return status;
}
