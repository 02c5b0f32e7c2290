/* SPDX-License-Identifier: Apache-2.0 */
/* Which texts are kept together. */
#include "stats/text_groups.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"

enum { FIRST_ROOM = 64 };

void qk__text_groups_start(qk__text_groups *groups, uint32_t limit)
{
    *groups = (qk__text_groups){.limit = limit, .mask = UINT64_MAX};
}

void qk__text_groups_free(qk__text_groups *groups)
{
    free(groups->known);
    *groups = (qk__text_groups){0};
}

/* ---- texts seen before ------------------------------------------------------------------ */

/* The place of an id in the table, or the free one where it would go. */
static qk__known_text *place_of(const qk__text_groups *groups, uint64_t id)
{
    size_t at = (size_t)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (groups->room - 1);
    while (groups->known[at].used && groups->known[at].id != id)
        at = (at + 1) & (groups->room - 1);
    return &groups->known[at];
}

static qk_status make_room(qk__text_groups *groups, qk_error *err)
{
    if (groups->room > 2 * groups->num_texts)
        return QK_OK;
    qk__text_groups old = *groups;
    groups->room = old.room ? 2 * old.room : FIRST_ROOM;
    groups->known = qk__calloc(groups->room, sizeof *groups->known);
    if (!groups->known) {
        *groups = old;
        return qk__nomem(err);
    }
    for (size_t i = 0; i < old.room; i++)
        if (old.known[i].used)
            *place_of(groups, old.known[i].id) = old.known[i];
    free(old.known);
    return QK_OK;
}

/* ---- groups ----------------------------------------------------------------------------- */

/* Lowest bit in which two labels differ, 64 for none: with so many bits they are one. */
static unsigned common_bits(uint64_t a, uint64_t b)
{
    return a == b ? 64 : (unsigned)__builtin_ctzll(a ^ b);
}

static uint64_t low_bits(unsigned bits)
{
    return bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
}

/* How many labels differ in their masked bits. */
static size_t distinct(const uint64_t *labels, size_t count, uint64_t mask)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        bool known = false;
        for (size_t j = 0; j < i && !known; j++)
            known = ((labels[i] ^ labels[j]) & mask) == 0;
        found += !known;
    }
    return found;
}

uint64_t qk__text_groups_mask(const uint64_t *labels, size_t count, uint32_t limit,
                              uint64_t mask)
{
    while (distinct(labels, count, mask) > limit) {
        unsigned bits = 0; /* the most with which two that differ now are one */
        for (size_t i = 0; i < count; i++)
            for (size_t j = 0; j < i; j++) {
                unsigned common = common_bits(labels[i] & mask, labels[j] & mask);
                if (common < 64 && common > bits)
                    bits = common;
            }
        mask = low_bits(bits);
    }
    return mask;
}

/* Joins groups until the last one, over the limit, has found a place. */
static void join_groups(qk__text_groups *groups, uint32_t move[QK_MOST_GROUPS + 1])
{
    uint32_t before = groups->count, kept = 0;
    groups->mask = qk__text_groups_mask(groups->label, before, groups->limit, groups->mask);
    for (uint32_t g = 0; g < before; g++) {
        uint64_t label = groups->label[g] & groups->mask;
        uint32_t to = 0;
        while (to < kept && groups->label[to] != label)
            to++;
        if (to == kept)
            groups->label[kept++] = label;
        move[g] = to;
    }
    groups->count = kept;
    for (size_t i = 0; i < groups->room; i++)
        if (groups->known[i].used)
            groups->known[i].group = move[groups->known[i].group];
}

/* The group of an id that is not in the table. */
static uint32_t group_of_label(qk__text_groups *groups, uint64_t id, bool *joined,
                               uint32_t move[QK_MOST_GROUPS])
{
    uint64_t label = id & groups->mask;
    for (uint32_t g = 0; g < groups->count; g++)
        if (groups->label[g] == label)
            return g;
    uint32_t own = groups->count++;
    groups->label[own] = label;
    if (own < groups->limit)
        return own;
    uint32_t all[QK_MOST_GROUPS + 1];
    join_groups(groups, all);
    for (uint32_t g = 0; g < own; g++)
        move[g] = all[g];
    *joined = true;
    return all[own];
}

qk_status qk__text_groups_find(qk__text_groups *groups, int64_t id, uint32_t *group,
                               bool *joined, uint32_t move[QK_MOST_GROUPS], qk_error *err)
{
    uint64_t bits = (uint64_t)id;
    *joined = false;
    QK_TRY(make_room(groups, err));
    qk__known_text *place = place_of(groups, bits);
    if (place->used) {
        *group = place->group;
        return QK_OK;
    }
    *group = group_of_label(groups, bits, joined, move);
    if (groups->num_texts < QK_COUNTED_TEXTS) {
        *place = (qk__known_text){bits, *group, true};
        groups->num_texts++;
    }
    return QK_OK;
}

qk_status qk__text_groups_add(qk__text_groups *groups, const int64_t *ids, size_t count,
                              qk_error *err)
{
    uint32_t group, move[QK_MOST_GROUPS];
    bool joined;
    for (size_t i = 0; i < count; i++)
        if (i == 0 || ids[i] != ids[i - 1])
            QK_TRY(qk__text_groups_find(groups, ids[i], &group, &joined, move, err));
    return QK_OK;
}

/* ---- queries and keys together ---------------------------------------------------------- */

uint32_t qk__text_labels_find(const qk__text_labels *labels, uint64_t id)
{
    uint32_t g = 0;
    while (g < labels->count && labels->label[g] != (id & labels->mask))
        g++;
    return g;
}

static void add_labels(qk__text_labels *labels, const uint64_t *more, uint32_t count)
{
    for (uint32_t g = 0; g < count; g++)
        if (qk__text_labels_find(labels, more[g]) == labels->count)
            labels->label[labels->count++] = more[g] & labels->mask;
}

void qk__text_labels_unite(qk__text_labels *labels, const uint64_t *a, uint32_t num_a,
                           uint64_t mask_a, const uint64_t *b, uint32_t num_b, uint64_t mask_b,
                           uint32_t limit)
{
    *labels = (qk__text_labels){.mask = mask_a & mask_b};
    add_labels(labels, a, num_a);
    add_labels(labels, b, num_b);
    uint64_t mask = qk__text_groups_mask(labels->label, labels->count, limit, labels->mask);
    if (mask == labels->mask)
        return;
    *labels = (qk__text_labels){.mask = mask};
    add_labels(labels, a, num_a);
    add_labels(labels, b, num_b);
}
