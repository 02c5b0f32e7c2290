/* SPDX-License-Identifier: Apache-2.0 */
/* Reading files of settings by tables of keys. */
#include "yaml/tree_keys.h"

#include <stdio.h>
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
    qk__buffer raw, text = {0};
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

/* ---- which key -------------------------------------------------------------------------- */

static bool is_known(const qk__keys *keys, size_t i)
{
    return !(keys->rows[i].only & keys->hidden);
}

static const char *last_word(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* The known key or section that a wrong one most likely means: the same name in another
 * section, or one a few letters off. "" if there is none. */
static void nearest_key(const qk__keys *keys, const char *name, char nearest[QK__PATH_SIZE])
{
    int least = 4;
    *nearest = 0;
    for (size_t i = 0; i < keys->count; i++) {
        const char *known = keys->rows[i].name;
        size_t length = 0;
        while (is_known(keys, i) && known[length]) {
            char part[QK__PATH_SIZE];
            length += strcspn(known + length + 1, ".") + 1;
            snprintf(part, sizeof part, "%.*s", (int)length, known);
            bool same = !known[length] && strcmp(last_word(known), last_word(name)) == 0;
            int distance = same ? -1 : qk__edit_distance(name, part);
            if (distance < least) {
                least = distance;
                snprintf(nearest, sizeof part, "%s", part);
            }
        }
    }
}

/* Line of the key, which may stand above its value. */
static size_t key_line(const qk__node *member)
{
    return qk__yaml_part(member->parent->value, member->index)->line;
}

/* A section is what names of rows begin with: *row is NULL then. */
static qk_status find_key(const qk__keys *keys, const qk__node *member, const qk__key **row,
                          qk_error *err)
{
    char name[QK__PATH_SIZE], nearest[QK__PATH_SIZE] = "";
    qk__node_path(member, name);
    size_t length = strlen(name);
    bool is_section = false;
    for (size_t i = 0; i < keys->count; i++) {
        *row = &keys->rows[i];
        if (!is_known(keys, i) || strncmp((*row)->name, name, length) != 0)
            continue;
        if ((*row)->name[length] == 0)
            return QK_OK;
        is_section |= (*row)->name[length] == '.';
    }
    *row = NULL;
    if (is_section)
        return QK_OK;
    if (length < QK_MAX_WORD)
        nearest_key(keys, name, nearest);
    return qk__fail(err, QK_ERR_ARGUMENT, "line %zu: unknown key %s%s%s%s", key_line(member),
                    name, *nearest ? " (did you mean " : "", nearest, *nearest ? "?)" : "");
}

/* ---- its value -------------------------------------------------------------------------- */

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
    case QK__KEY_IGNORED:
        return ignore(value, key->name, err);
    case QK__KEY_READ:
        break;
    }
    return key->read(target, value, key, err);
}

/* Sections nest as deep as the table does, so this recursion ends. */
qk_status qk__read_keys(const qk__node *object, qk__keys keys, void *target, qk_error *err)
{
    qk__node member = {0};
    if (qk__node_kind_of(object) != QK__OBJECT)
        return qk__fail_expected(object, "keys and values", err);
    while (qk__node_next(object, &member)) {
        const qk__key *key;
        char path[QK__PATH_SIZE];
        QK_TRY(find_key(&keys, &member, &key, err));
        if (qk__node_member(object, member.name).index != member.index)
            return qk__fail(err, QK_ERR_ARGUMENT, "line %zu: %s is given twice",
                            key_line(&member), qk__node_path(&member, path));
        if (qk__node_is_given(&member))
            QK_TRY(key ? read_value(key, &member, target, err)
                       : qk__read_keys(&member, keys, target, err));
    }
    return QK_OK;
}
