/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences of parts, and patterns. */
#include "tokenizer/json_parts.h"

#include <string.h>

#include "base/error.h"

enum { MAX_NESTING = 16 };

static qk_status each(const json_t *part, const qk__json_place *at, const char *key,
                      qk__add_part *add, void *target, int nesting, qk_error *err)
{
    const char *type;
    const json_t *list;
    QK_TRY(qk__part_type(part, at, &type, err));
    if (strcmp(type, "Sequence") != 0)
        return add(target, type, part, at, err);
    if (nesting == MAX_NESTING)
        return qk__fail_at(at, err, QK_ERR_UNSUPPORTED, "sequences within sequences");
    QK_TRY(qk__need_list(part, key, at, &list, err));
    const qk__json_place place = {at, key, 0};
    for (size_t i = 0; i < json_array_size(list); i++) {
        const qk__json_place item = {&place, NULL, i};
        QK_TRY(each(json_array_get(list, i), &item, key, add, target, nesting + 1, err));
    }
    return QK_OK;
}

qk_status qk__part_each(const json_t *part, const qk__json_place *at, const char *key,
                        qk__add_part *add, void *target, qk_error *err)
{
    return each(part, at, key, add, target, 0, err);
}

qk_status qk__part_pattern(const json_t *part, const qk__json_place *at, qk__regex **regex,
                           qk_error *err)
{
    const json_t *pattern;
    const char *text;
    size_t length;
    const qk__json_place place = {at, "pattern", 0};
    QK_TRY(qk__need_object(part, "pattern", at, &pattern, err));
    bool literal = json_object_get(pattern, "String") != NULL;
    const char *key = literal ? "String" : "Regex";
    QK_TRY(qk__need_string(pattern, key, &place, &text, &length, err));
    qk_status status = qk__regex_compile(regex, text, length, literal, err);
    if (status != QK_OK) {
        char path[QK__PLACE_SIZE];
        qk__context(err, status, "%s", qk__place_text(&place, path));
    }
    return status;
}
