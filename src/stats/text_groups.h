/* SPDX-License-Identifier: Apache-2.0 */
/* Which texts are kept together, decided while ids arrive, whatever their order.
 *
 * Up to `limit` texts each have a group of their own. With more, texts whose ids agree in their
 * last bits share one, with as many bits as leave no more than `limit` groups: ids that count
 * up are dealt in turn, so are those that count in steps, and ids without a pattern fall
 * evenly. The groups depend on the set of ids alone, so those of two files, and of files read
 * apart and merged, fit together. */
#ifndef QK_STATS_TEXT_GROUPS_H
#define QK_STATS_TEXT_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>
#include <qkscope/sink.h> /* QK_MOST_GROUPS, the largest limit */

enum {
    QK_TEXT_GROUPS = 16,     /* limit of the groups that every head's sums are kept apart by */
    QK_INTERVAL_GROUPS = 32, /* of the groups of confidence intervals, which refine these */
    QK_COUNTED_TEXTS = (1 << 16) - 1,
};

typedef struct qk__known_text {
    uint64_t id;
    uint32_t group;
    bool used;
} qk__known_text;

typedef struct qk__text_groups {
    uint32_t limit, count; /* groups: at most, and so far */
    uint64_t mask;         /* the bits of an id that tell its group */
    uint64_t label[QK_MOST_GROUPS + 1];
    size_t num_texts; /* found so far; not counted beyond QK_COUNTED_TEXTS */
    size_t room;      /* of the table, a power of two */
    qk__known_text *known;
} qk__text_groups;

/* limit: 1 .. QK_MOST_GROUPS. An object of zeros may be freed. */
void qk__text_groups_start(qk__text_groups *groups, uint32_t limit);
void qk__text_groups_free(qk__text_groups *groups);

/* The group of a text. Where a new text makes groups join, *joined is set and move[g] says where the contents of group
 * g now belong; other groups stay. */
QK_MUST_CHECK qk_status qk__text_groups_find(qk__text_groups *groups, int64_t id,
                                             uint32_t *group, bool *joined,
                                             uint32_t move[QK_MOST_GROUPS], qk_error *err);

/* Finds the groups of all texts. */
QK_MUST_CHECK qk_status qk__text_groups_add(qk__text_groups *groups, const int64_t *ids,
                                            size_t count, qk_error *err);

/* The most bits in which no more than `limit` of `count` labels differ: `mask` itself, or fewer of
 * them. Takes the square of count. */
uint64_t qk__text_groups_mask(const uint64_t *labels, size_t count, uint32_t limit,
                              uint64_t mask);

/* ---- the groups of queries and keys together -------------------------------------------- */

/* Labels, each once. */
typedef struct qk__text_labels {
    uint64_t mask;
    uint32_t count;
    uint64_t label[2 * QK_MOST_GROUPS];
} qk__text_labels;

/* The labels of a[num_a] (of a mask) and b[num_b], in the most bits that leave no more than `limit`. With a single
 * label there may be many texts, but nothing to leave out. */
void qk__text_labels_unite(qk__text_labels *labels, const uint64_t *a, uint32_t num_a,
                           uint64_t mask_a, const uint64_t *b, uint32_t num_b, uint64_t mask_b,
                           uint32_t limit);

/* The label that an id, or a label with more bits, belongs to; labels->count: none. */
uint32_t qk__text_labels_find(const qk__text_labels *labels, uint64_t id);

#endif
