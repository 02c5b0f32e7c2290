/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses some checkpoints of a training. */
#include "figure/milestones.h"

#include <string.h>

/* The first checkpoint, and the last of each phase. */
static bool is_milestone(const qk__result_model *const *all, size_t count, size_t i)
{
    return i == 0 || i + 1 == count || all[i + 1]->phase_index != all[i]->phase_index;
}

/* The checkpoint in the middle of the widest gap between the kept ones, which include the first and the last; NULL:
 * there is no gap. */
static const qk__result_model *find_between(const qk__result_model *const *all, size_t count,
                                            const qk__result_model *const *kept,
                                            size_t num_kept)
{
    const qk__result_model *best = NULL;
    ptrdiff_t best_room = 0;
    for (size_t k = 1; k < num_kept; k++)
        for (size_t i = 0; i < count; i++) {
            ptrdiff_t before = all[i] - kept[k - 1], behind = kept[k] - all[i];
            if (before > 0 && behind > 0 && before * behind > best_room) {
                best = all[i];
                best_room = before * behind;
            }
        }
    return best;
}

size_t qk__keep_milestones(const qk__result_model **checkpoints, size_t count)
{
    const qk__result_model *kept[QK__MILESTONES], *more;
    size_t milestones = 0, seen = 0, num_kept = 0;
    for (size_t i = 0; i < count; i++)
        milestones += is_milestone(checkpoints, count, i);
    for (size_t i = 0; i < count && num_kept < QK__MILESTONES; i++) {
        size_t next = num_kept; /* or evenly, where more were kept */
        if (milestones > QK__MILESTONES)
            next = (2 * num_kept * (milestones - 1) + QK__MILESTONES - 1) /
                   (2 * (QK__MILESTONES - 1));
        if (is_milestone(checkpoints, count, i) && seen++ == next)
            kept[num_kept++] = checkpoints[i];
    }
    while (num_kept < QK__MILESTONES &&
           (more = find_between(checkpoints, count, kept, num_kept))) {
        size_t at = num_kept++;
        for (; at > 0 && kept[at - 1] > more; at--)
            kept[at] = kept[at - 1];
        kept[at] = more;
    }
    memcpy(checkpoints, kept, num_kept * sizeof(const qk__result_model *));
    return num_kept;
}
