/* SPDX-License-Identifier: Apache-2.0 */
/* The moments of a head's rows by groups of texts, for repetitions without one group. */
#ifndef QK_STATS_TEXT_PARTS_H
#define QK_STATS_TEXT_PARTS_H

#include <qkscope/stats.h>

#include "stats/text_groups.h"

/* Of groups with rows. An object of zeros may be freed. */
typedef struct qk__text_parts {
    uint64_t mask; /* the bits of an id that tell its group */
    uint32_t count;
    uint64_t label[QK_MOST_GROUPS];
    uint64_t texts[QK_MOST_GROUPS]; /* a hash of the ids in the group; 0: not known */
    qk_moments *part[QK_MOST_GROUPS];
} qk__text_parts;

/* By the texts in sample->example, at most `limit` groups. On failure parts is empty. */
QK_MUST_CHECK qk_status qk__text_parts_of_rows(qk__text_parts *parts, const qk_block *sample,
                                               uint32_t limit, qk_error *err);

/* The same by fewer bits: groups that become one are merged. */
QK_MUST_CHECK qk_status qk__text_parts_join(qk__text_parts *joined, const qk__text_parts *parts,
                                            uint64_t mask, qk_error *err);
void qk__text_parts_free(qk__text_parts *parts);

/* The moments of a label; NULL: it has no rows. */
const qk_moments *qk__text_parts_find(const qk__text_parts *parts, uint64_t label);
uint64_t qk__text_parts_texts(const qk__text_parts *parts, uint64_t label);

/* The label of each row's text. */
QK_MUST_CHECK qk_status qk__text_labels_of_rows(const qk__text_labels *labels,
                                                const qk_block *sample, uint32_t **group,
                                                qk_error *err);

#endif
