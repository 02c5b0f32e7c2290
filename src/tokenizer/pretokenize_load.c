/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-tokenizers from tokenizer.json. */
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/error.h"
#include "tokenizer/pretokenize.h"
#include "tokenizer/json_parts.h"
#include "tokenizer/characters.h"

enum { MAX_CUTTERS = 64 };

/* The pattern of GPT-2, which ByteLevel brings along. */
static const char GPT2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static bool is_punctuation(uint32_t c)
{
    if (c < 0x80)
        return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
               (c >= '{' && c <= '~');
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

/* The next free place in the list. */
static qk_status new_cutter(qk__cutters *cutters, qk__cutter_kind kind,
                            const qk__json_place *at, qk__cutter **cutter, qk_error *err)
{
    if (cutters->count == MAX_CUTTERS)
        return qk__fail_at(at, err, QK_ERR_UNSUPPORTED, "more than %d parts", MAX_CUTTERS);
    *cutter = &cutters->items[cutters->count++];
    (*cutter)->kind = kind;
    return QK_OK;
}

static qk_status load_behavior(const json_t *part, const qk__json_place *at,
                               qk__cut_behavior *cut, qk_error *err)
{
    static const char *const NAMES[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const char *name;
    size_t length;
    const qk__json_place place = {at, "behavior", 0};
    QK_TRY(qk__need_string(part, "behavior", at, &name, &length, err));
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        if (strcmp(name, NAMES[i]) == 0) {
            *cut = (qk__cut_behavior)i;
            return QK_OK;
        }
    }
    return qk__fail_at(&place, err, QK_ERR_MALFORMED, "there is no \"%.60s\"", name);
}

static qk_status load_split(qk__cutters *cutters, const json_t *part, const qk__json_place *at,
                            qk_error *err)
{
    qk__cutter *cutter;
    QK_TRY(new_cutter(cutters, QK__CUTTER_SPLIT, at, &cutter, err));
    QK_TRY(load_behavior(part, at, &cutter->cut, err));
    QK_TRY(qk__need_bool(part, "invert", at, &cutter->invert, err));
    return qk__part_pattern(part, at, &cutter->regex, err);
}

static qk_status load_byte_level(qk__cutters *cutters, const json_t *part,
                                 const qk__json_place *at, qk_error *err)
{
    qk__cutter *cutter;
    bool prefix, regex;
    QK_TRY(qk__get_bool(part, "add_prefix_space", true, at, &prefix, err));
    QK_TRY(qk__get_bool(part, "use_regex", true, at, &regex, err));
    if (prefix)
        QK_TRY(new_cutter(cutters, QK__CUTTER_SPACE, at, &cutter, err));
    if (regex) {
        QK_TRY(new_cutter(cutters, QK__CUTTER_SPLIT, at, &cutter, err));
        cutter->cut = QK__CUT_ISOLATED;
        QK_TRY(qk__regex_compile(&cutter->regex, GPT2, sizeof GPT2 - 1, false, err));
    }
    return new_cutter(cutters, QK__CUTTER_BYTES, at, &cutter, err);
}

static qk_status load_prepend(const json_t *part, const qk__json_place *at,
                              qk__prepend *prepend, qk_error *err)
{
    static const char *const NAMES[] = {"always", "first", "never"};
    const char *name;
    size_t length, i = 0;
    bool prefix;
    const qk__json_place place = {at, "prepend_scheme", 0};
    QK_TRY(qk__get_bool(part, "add_prefix_space", true, at, &prefix, err));
    QK_TRY(qk__get_string(part, "prepend_scheme", at, &name, &length, err));
    *prepend = prefix ? QK__PREPEND_ALWAYS : QK__PREPEND_NEVER;
    if (!name)
        return QK_OK;
    while (i < sizeof NAMES / sizeof *NAMES && strcmp(name, NAMES[i]) != 0)
        i++;
    if (i == sizeof NAMES / sizeof *NAMES)
        return qk__fail_at(&place, err, QK_ERR_MALFORMED, "there is no \"%.60s\"", name);
    if (!prefix && i != QK__PREPEND_NEVER)
        return qk__fail_at(&place, err, QK_ERR_INCONSISTENT,
                           "\"%s\" does not go with add_prefix_space false", name);
    *prepend = (qk__prepend)i;
    return QK_OK;
}

static qk_status load_metaspace(qk__cutters *cutters, const json_t *part,
                                const qk__json_place *at, qk_error *err)
{
    qk__cutter *cutter;
    const char *mark;
    size_t length;
    const qk__json_place place = {at, "replacement", 0};
    QK_TRY(new_cutter(cutters, QK__CUTTER_METASPACE, at, &cutter, err));
    QK_TRY(qk__need_string(part, "replacement", at, &mark, &length, err));
    if (length == 0 || length != qk__utf8_length((const uint8_t *)mark))
        return qk__fail_at(&place, err, QK_ERR_MALFORMED, "expected one character");
    memcpy(cutter->mark, mark, length);
    cutter->mark_length = length;
    QK_TRY(qk__get_bool(part, "split", true, at, &cutter->split, err));
    return load_prepend(part, at, &cutter->prepend, err);
}

static qk_status load_class(qk__cutters *cutters, const char *type, const json_t *part,
                            const qk__json_place *at, qk_error *err)
{
    qk__cutter *cutter;
    bool individual;
    QK_TRY(new_cutter(cutters, QK__CUTTER_CLASS, at, &cutter, err));
    if (strcmp(type, "Digits") == 0) {
        QK_TRY(qk__need_bool(part, "individual_digits", at, &individual, err));
        cutter->in = qk__is_numeric;
        cutter->cut = individual ? QK__CUT_ISOLATED : QK__CUT_CONTIGUOUS;
        return QK_OK;
    }
    if (strcmp(type, "WhitespaceSplit") == 0) {
        cutter->in = qk__is_space;
        cutter->cut = QK__CUT_REMOVED;
        return QK_OK;
    }
    cutter->in = is_punctuation;
    cutter->cut = QK__CUT_ISOLATED;
    return json_object_get(part, "behavior") ? load_behavior(part, at, &cutter->cut, err)
                                             : QK_OK;
}

static qk_status add(void *target, const char *type, const json_t *part,
                     const qk__json_place *at, qk_error *err)
{
    qk__cutter *cutter;
    if (strcmp(type, "Split") == 0)
        return load_split(target, part, at, err);
    if (strcmp(type, "ByteLevel") == 0)
        return load_byte_level(target, part, at, err);
    if (strcmp(type, "Metaspace") == 0)
        return load_metaspace(target, part, at, err);
    if (strcmp(type, "Whitespace") == 0)
        return new_cutter(target, QK__CUTTER_WORDS, at, &cutter, err);
    if (strcmp(type, "Digits") == 0 || strcmp(type, "WhitespaceSplit") == 0 ||
        strcmp(type, "Punctuation") == 0)
        return load_class(target, type, part, at, err);
    return qk__fail_at(at, err, QK_ERR_UNSUPPORTED, "there is no support for \"%.60s\"", type);
}

qk_status qk__cutters_load(qk__cutters *cutters, const json_t *part, qk_error *err)
{
    const qk__json_place place = {NULL, "pre_tokenizer", 0};
    *cutters = (qk__cutters){0};
    if (!part || json_is_null(part))
        return QK_OK;
    cutters->items = qk__calloc(MAX_CUTTERS, sizeof *cutters->items);
    if (!cutters->items)
        return qk__nomem(err);
    return qk__part_each(part, &place, "pretokenizers", add, cutters, err);
}

void qk__cutters_free(qk__cutters *cutters)
{
    for (size_t i = 0; i < cutters->count; i++)
        qk__regex_free(cutters->items[i].regex);
    free(cutters->items);
    *cutters = (qk__cutters){0};
}
