/* SPDX-License-Identifier: Apache-2.0 */
/* Reads pre-tokenizers from tokenizer.json. */
#include <string.h>

#include <utf8proc.h>

#include "base/error.h"
#include "tokenizer/characters.h"
#include "tokenizer/json_parts.h"
#include "tokenizer/pretokenize.h"

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
static qk_status new_cutter(qk__cutters *cutters, qk__cutter_kind kind, const qk__node *at,
                            qk__cutter **cutter, qk_error *err)
{
    enum { MOST = sizeof cutters->items / sizeof *cutters->items };
    if (cutters->count == MOST)
        return qk__fail_at(at, err, QK_ERR_UNSUPPORTED, "more than %d parts", MOST);
    *cutter = &cutters->items[cutters->count++];
    (*cutter)->kind = kind;
    return QK_OK;
}

static qk_status load_behavior(const qk__node *part, qk__cut_behavior *cut, qk_error *err)
{
    static const char *const NAMES[] = {"Removed",        "Isolated",   "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous", NULL};
    int found = 0;
    QK_TRY(qk__need(part, "behavior", err));
    QK_TRY(qk__read_word(part, "behavior", NAMES, &found, err));
    *cut = (qk__cut_behavior)found;
    return QK_OK;
}

static qk_status load_split(qk__cutters *cutters, const qk__node *part, qk_error *err)
{
    qk__cutter *cutter;
    QK_TRY(new_cutter(cutters, QK__CUTTER_SPLIT, part, &cutter, err));
    QK_TRY(load_behavior(part, &cutter->cut, err));
    QK_TRY(qk__need_bool(part, "invert", &cutter->invert, err));
    return qk__part_pattern(part, &cutter->regex, err);
}

static qk_status load_byte_level(qk__cutters *cutters, const qk__node *part, qk_error *err)
{
    qk__cutter *cutter;
    bool prefix = true, regex = true;
    QK_TRY(qk__read_bool(part, "add_prefix_space", &prefix, err));
    QK_TRY(qk__read_bool(part, "use_regex", &regex, err));
    if (prefix)
        QK_TRY(new_cutter(cutters, QK__CUTTER_SPACE, part, &cutter, err));
    if (regex) {
        QK_TRY(new_cutter(cutters, QK__CUTTER_SPLIT, part, &cutter, err));
        cutter->cut = QK__CUT_ISOLATED;
        QK_TRY(qk__regex_compile(&cutter->regex, GPT2, sizeof GPT2 - 1, false, err));
    }
    return new_cutter(cutters, QK__CUTTER_BYTES, part, &cutter, err);
}

static qk_status load_prepend(const qk__node *part, qk__prepend *prepend, qk_error *err)
{
    static const char *const NAMES[] = {"always", "first", "never", NULL};
    bool prefix = true;
    QK_TRY(qk__read_bool(part, "add_prefix_space", &prefix, err));
    int found = prefix ? QK__PREPEND_ALWAYS : QK__PREPEND_NEVER;
    QK_TRY(qk__read_word(part, "prepend_scheme", NAMES, &found, err));
    if (!prefix && found != QK__PREPEND_NEVER)
        return qk__fail_in(part, "prepend_scheme", err, QK_ERR_INCONSISTENT,
                           "\"%s\" does not go with add_prefix_space false", NAMES[found]);
    *prepend = (qk__prepend)found;
    return QK_OK;
}

static qk_status load_metaspace(qk__cutters *cutters, const qk__node *part, qk_error *err)
{
    qk__cutter *cutter;
    const char *mark;
    QK_TRY(new_cutter(cutters, QK__CUTTER_METASPACE, part, &cutter, err));
    QK_TRY(qk__need_text(part, "replacement", &mark, err));
    cutter->mark_length = strlen(mark);
    if (!*mark || cutter->mark_length != qk__utf8_length((const uint8_t *)mark))
        return qk__fail_in(part, "replacement", err, QK_ERR_MALFORMED,
                           "expected one character, found \"%.60s\"", mark);
    memcpy(cutter->mark, mark, cutter->mark_length);
    cutter->split = true;
    QK_TRY(qk__read_bool(part, "split", &cutter->split, err));
    return load_prepend(part, &cutter->prepend, err);
}

static qk_status load_class(qk__cutters *cutters, const char *type, const qk__node *part,
                            qk_error *err)
{
    qk__cutter *cutter;
    bool individual;
    QK_TRY(new_cutter(cutters, QK__CUTTER_CLASS, part, &cutter, err));
    if (strcmp(type, "Digits") == 0) {
        QK_TRY(qk__need_bool(part, "individual_digits", &individual, err));
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
    return qk__node_kind_in(part, "behavior") != QK__NOTHING
               ? load_behavior(part, &cutter->cut, err)
               : QK_OK;
}

static qk_status add_pretokenizer(void *target, const char *type, const qk__node *part,
                                  qk_error *err)
{
    qk__cutter *cutter;
    if (strcmp(type, "Split") == 0)
        return load_split(target, part, err);
    if (strcmp(type, "ByteLevel") == 0)
        return load_byte_level(target, part, err);
    if (strcmp(type, "Metaspace") == 0)
        return load_metaspace(target, part, err);
    if (strcmp(type, "Whitespace") == 0)
        return new_cutter(target, QK__CUTTER_WORDS, part, &cutter, err);
    if (strcmp(type, "Digits") == 0 || strcmp(type, "WhitespaceSplit") == 0 ||
        strcmp(type, "Punctuation") == 0)
        return load_class(target, type, part, err);
    return qk__fail_at(part, err, QK_ERR_UNSUPPORTED, "there is no support for \"%.60s\"",
                       type);
}

qk_status qk__cutters_load(qk__cutters *cutters, const qk__node *part, qk_error *err)
{
    return qk__part_each(part, "pretokenizers", add_pretokenizer, cutters, err);
}

void qk__cutters_free(qk__cutters *cutters)
{
    for (size_t i = 0; i < cutters->count; i++)
        qk__regex_free(cutters->items[i].regex);
    *cutters = (qk__cutters){0};
}
