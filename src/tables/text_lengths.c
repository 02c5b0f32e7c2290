/* SPDX-License-Identifier: Apache-2.0 */
#include "tables/text_lengths.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/json_build.h"
#include "base/number.h"

const qk_text_lengths qk__no_lengths = {NAN, NAN, NAN, NAN, NAN, NAN};

#define MEMBER(member) offsetof(qk_text_lengths, member)
const qk__length_member qk__length_members[QK__NUM_LENGTHS] = {
    {"text_tokens", MEMBER(median)},          {"text_tokens_least", MEMBER(least)},
    {"text_tokens_most", MEMBER(most)},       {"position_least", MEMBER(position_least)},
    {"position_mean", MEMBER(position_mean)}, {"position_most", MEMBER(position_most)},
};

double *qk__length_of(qk_text_lengths *lengths, size_t member)
{
    return (double *)(void *)((char *)lengths + qk__length_members[member].at);
}

json_t *qk__lengths_to_json(const qk_text_lengths *lengths)
{
    qk_text_lengths copy = *lengths;
    json_t *object = json_object();
    for (size_t i = 0; i < QK__NUM_LENGTHS; i++)
        object = qk__json_set(object, qk__length_members[i].name,
                              qk__json_number(*qk__length_of(&copy, i)));
    return object;
}

qk_text_lengths qk__lengths_of_json(const json_t *object)
{
    qk_text_lengths lengths = qk__no_lengths;
    for (size_t i = 0; i < QK__NUM_LENGTHS; i++) {
        const json_t *value = json_object_get(object, qk__length_members[i].name);
        if (json_is_number(value))
            *qk__length_of(&lengths, i) = json_number_value(value);
    }
    return lengths;
}

static bool differ(double x, double y)
{
    return fmax(x, y) > 1.1 * fmin(x, y) && isfinite(x) && isfinite(y);
}

bool qk__lengths_differ(const qk_text_lengths *a, const qk_text_lengths *b)
{
    return differ(a->median, b->median) || differ(a->most, b->most);
}

double qk__length_shown(const qk_text_lengths *lengths, const qk_text_lengths *other)
{
    assert(lengths && other);
    const bool medians = isfinite(lengths->median) && isfinite(other->median);
    if (medians &&
        (differ(lengths->median, other->median) || !qk__lengths_differ(lengths, other)))
        return lengths->median;
    return lengths->most;
}

const char *qk_text_lengths_say(const qk_text_lengths *lengths, char text[QK_LENGTHS_SIZE])
{
    assert(lengths && text);
    const qk_text_lengths *l = lengths;
    size_t used = 0;
    if (isfinite(l->median) && l->least < l->most)
        used = (size_t)qk__print_plain(text, QK_LENGTHS_SIZE,
                                       "texts of %.15g tokens (%.15g to %.15g)", l->median,
                                       l->least, l->most);
    else if (isfinite(l->least) && l->least < l->most)
        used = (size_t)qk__print_plain(text, QK_LENGTHS_SIZE, "texts of %.15g to %.15g tokens",
                                       l->least, l->most);
    else if (isfinite(l->most))
        used = (size_t)qk__print_plain(text, QK_LENGTHS_SIZE, "texts of %s%.15g token%s",
                                       isfinite(l->least) ? "" : "up to ", l->most,
                                       l->most == 1 ? "" : "s");
    else
        used = (size_t)qk__print_plain(text, QK_LENGTHS_SIZE, "texts of unknown length");
    if (isfinite(l->position_most) && used < QK_LENGTHS_SIZE)
        qk__print_plain(text + used, QK_LENGTHS_SIZE - used,
                        ", positions %.15g to %.15g (mean %.6g)", l->position_least,
                        l->position_most, l->position_mean);
    return text;
}

bool qk__lengths_unlike(const qk_text_lengths *each, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if (qk__lengths_differ(&each[i], &each[k]))
                return true;
    return false;
}

const char *qk__lengths_of_all(const qk_text_lengths *each, size_t count,
                               char text[QK_LENGTHS_SIZE])
{
    qk_text_lengths all = qk__no_lengths;
    char words[QK_LENGTHS_SIZE];
    for (size_t i = 0; i < count; i++) {
        all.least = fmin(all.least, each[i].least); /* fmin ignores NaN */
        all.most = fmax(all.most, each[i].most);
    }
    if (count == 1)
        all = each[0];
    qk__print_plain(text, QK_LENGTHS_SIZE, "%.*s%s", QK_LENGTHS_SIZE - 40,
                    qk_text_lengths_say(&all, words),
                    qk__lengths_unlike(each, count) ? ", unlike among models" : "");
    return text;
}
