/* SPDX-License-Identifier: Apache-2.0 */
/* Finding added tokens: at each place the longest one that begins there, from left to right. */
#include "tokenizer/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tokenizer/characters.h"

static int compare_tokens(const void *a, const void *b)
{
    const qk__added_pattern *x = a, *y = b;
    size_t shorter = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->text, y->text, shorter);
    return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

qk_status qk__added_set_init(qk__added_set *set, qk__added_pattern *patterns, size_t count,
                             qk_error *err)
{
    *set = (qk__added_set){.patterns = patterns, .count = count};
    if (count > 1)
        qsort(patterns, count, sizeof *patterns, compare_tokens);
    for (size_t i = 1; i < count; i++)
        if (compare_tokens(&patterns[i - 1], &patterns[i]) == 0)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "added_tokens: ids %d and %d are looked for by the same text",
                            patterns[i - 1].token->id, patterns[i].token->id);
    for (size_t b = 0, i = 0; b <= 256; b++) {
        while (i < count && patterns[i].text[0] < b)
            i++;
        set->first[b] = (uint32_t)i;
    }
    return QK_OK;
}

/* The first of patterns[low .. high), which agree in `depth` bytes, whose next byte is at least
 * c; one that ends there comes before all others. */
static size_t first_with(const qk__added_set *set, size_t low, size_t high, size_t depth,
                         unsigned c)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const qk__added_pattern *pattern = &set->patterns[middle];
        if (pattern->length > depth && pattern->text[depth] >= c)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The longest pattern that text begins with. */
static const qk__added_pattern *longest_at(const qk__added_set *set, const uint8_t *text,
                                           size_t size)
{
    const qk__added_pattern *best = NULL;
    size_t low = set->first[text[0]], high = set->first[text[0] + 1];
    for (size_t depth = 1; low < high; depth++) {
        if (set->patterns[low].length == depth)
            best = &set->patterns[low];
        if (depth == size)
            break;
        size_t from = first_with(set, low, high, depth, text[depth]);
        high = first_with(set, from, high, depth, text[depth] + 1u);
        low = from;
    }
    return best;
}

static bool stands_alone(const qk__added_walk *walk, size_t start, size_t end)
{
    size_t length;
    if (start > 0) {
        const uint8_t *before = qk__utf8_previous(walk->text, walk->text + start);
        if (qk__is_word(qk__utf8_read(before, &length)))
            return false;
    }
    return end == walk->size || !qk__is_word(qk__utf8_read(walk->text + end, &length));
}

/* The white space around a token that it takes with it; what an earlier token took is gone. */
static void take_spaces(qk__added_walk *walk, qk__stretch *found)
{
    size_t length, start = found->start;
    while (found->token->lstrip && start > walk->done) {
        const uint8_t *before = qk__utf8_previous(walk->text, walk->text + start);
        if (!qk__is_space(qk__utf8_read(before, &length)))
            break;
        start = (size_t)(before - walk->text);
    }
    if (found->token->lstrip)
        found->start = start > walk->done ? start : walk->done;
    if (!found->token->rstrip)
        return;
    /* Tokens may lie within spaces that one before them took: those are not walked again. */
    if (found->end < walk->spaces_end)
        found->end = walk->spaces_end;
    while (found->end < walk->size &&
           qk__is_space(qk__utf8_read(walk->text + found->end, &length)))
        found->end += length;
    walk->spaces_end = found->end;
}

static bool find_token(qk__added_walk *walk, qk__stretch *found)
{
    const qk__added_set *set = walk->set;
    size_t at = walk->next;
    while (at < walk->size) {
        unsigned c = walk->text[at];
        const qk__added_pattern *pattern =
            set->first[c] < set->first[c + 1]
                ? longest_at(set, walk->text + at, walk->size - at)
                : NULL;
        if (!pattern) {
            at++;
            continue;
        }
        *found = (qk__stretch){at, at + pattern->length, pattern->token};
        at += pattern->length; /* also after one that is passed over */
        if (pattern->token->single_word && !stands_alone(walk, found->start, found->end))
            continue;
        take_spaces(walk, found);
        walk->next = at;
        return true;
    }
    walk->next = at;
    return false;
}

bool qk__added_next(qk__added_walk *walk, qk__stretch *stretch)
{
    if (walk->waiting) {
        *stretch = walk->token;
        walk->waiting = false;
        return true;
    }
    if (walk->finished)
        return false;
    if (walk->set->count > 0 && find_token(walk, &walk->token)) {
        size_t before = walk->done;
        walk->done = walk->token.end;
        walk->waiting = before < walk->token.start;
        *stretch = walk->waiting ? (qk__stretch){before, walk->token.start, NULL} : walk->token;
        return true;
    }
    walk->finished = true;
    *stretch = (qk__stretch){walk->done, walk->size, NULL};
    return walk->done != walk->size;
}
