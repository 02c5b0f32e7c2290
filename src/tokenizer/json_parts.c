/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what several parts of tokenizer.json have: lists of parts, patterns, token ids. */
#include "tokenizer/json_parts.h"

#include <string.h>

#include "base/error.h"

enum { MAX_NESTING = 16 };

static qk_status each(const qk__node *part, const char *key, qk__add_part *add, void *target,
                      int nesting, qk_error *err)
{
    const char *type;
    qk__node list;
    QK_TRY(qk__need_kind(part, NULL, QK__OBJECT, &list, err));
    QK_TRY(qk__need_text(part, "type", &type, err));
    if (strcmp(type, "Sequence") != 0)
        return add(target, type, part, err);
    if (nesting == MAX_NESTING)
        return qk__fail_at(part, err, QK_ERR_UNSUPPORTED, "sequences within sequences");
    QK_TRY(qk__need_kind(part, key, QK__LIST, &list, err));
    for (size_t i = 0; i < qk__node_count(&list); i++) {
        qk__node item = qk__node_item(&list, i);
        QK_TRY(each(&item, key, add, target, nesting + 1, err));
    }
    return QK_OK;
}

qk_status qk__part_each(const qk__node *part, const char *key, qk__add_part *add, void *target,
                        qk_error *err)
{
    return qk__node_is_given(part) ? each(part, key, add, target, 0, err) : QK_OK;
}

qk_status qk__part_pattern(const qk__node *part, qk__regex **regex, qk_error *err)
{
    qk__node pattern;
    const char *text;
    QK_TRY(qk__need_kind(part, "pattern", QK__OBJECT, &pattern, err));
    bool literal = qk__node_kind_in(&pattern, "String") != QK__NOTHING;
    QK_TRY(qk__need_text(&pattern, literal ? "String" : "Regex", &text, err));
    return qk__context_at(&pattern, err,
                          qk__regex_compile(regex, text, strlen(text), literal, err));
}

qk_status qk__token_id(const qk__node *at, const char *name, int32_t *id, qk_error *err)
{
    int found = 0;
    QK_TRY(qk__need(at, name, err));
    QK_TRY(qk__read_int(at, name, 0, QK__MAX_ID, &found, err));
    *id = found;
    return QK_OK;
}
