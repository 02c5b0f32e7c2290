/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses some checkpoints of a training. */
#include "figure/milestones.h"

/* Checkpoints that have something to show. */
typedef struct shown {
    const qk__results *results;
    bool (*has)(const void *of, const qk__result_model *model);
    const void *of;
} shown;

/* The first checkpoint at or after `from` that has heads to show; num_models: none. */
static size_t next_shown(const shown *all, size_t from)
{
    while (from < all->results->num_models && !all->has(all->of, &all->results->models[from]))
        from++;
    return from;
}

/* How many milestones there are: the first checkpoint and the last of each phase. *found is the
 * one of number `wanted`. */
static size_t find_milestone(const shown *all, size_t wanted, size_t *found)
{
    const qk__results *results = all->results;
    size_t count = 0, next;
    for (size_t m = next_shown(all, 0); m < results->num_models; m = next) {
        next = next_shown(all, m + 1);
        if (count > 0 && next < results->num_models &&
            results->models[next].phase_index == results->models[m].phase_index)
            continue;
        if (count++ == wanted)
            *found = m;
    }
    return count;
}

/* The checkpoint in the middle of the widest gap between those chosen, which are in order and
 * include the first and the last; num_models: there is no gap. */
static size_t find_between(const shown *all, const size_t *chosen, size_t count)
{
    size_t best = all->results->num_models, best_room = 0;
    for (size_t i = 1; i < count; i++)
        for (size_t m = next_shown(all, chosen[i - 1] + 1); m < chosen[i];
             m = next_shown(all, m + 1)) {
            size_t room = (m - chosen[i - 1]) * (chosen[i] - m);
            if (room > best_room) {
                best = m;
                best_room = room;
            }
        }
    return best;
}

size_t qk__choose_milestones(const qk__results *results,
                             bool (*has)(const void *of, const qk__result_model *model),
                             const void *of, size_t chosen[QK__MILESTONES])
{
    const shown those = {results, has, of}, *all = &those;
    size_t milestones = find_milestone(all, 0, &chosen[0]), count = 0;
    if (milestones > QK__MILESTONES) {
        for (; count < QK__MILESTONES; count++)
            find_milestone(all, (2 * count * (milestones - 1) + 5) / 10, &chosen[count]);
        return count;
    }
    for (; count < milestones; count++)
        find_milestone(all, count, &chosen[count]);
    while (count < QK__MILESTONES) {
        size_t more = find_between(all, chosen, count), at = count;
        if (more == all->results->num_models)
            break;
        for (; at > 0 && chosen[at - 1] > more; at--)
            chosen[at] = chosen[at - 1];
        chosen[at] = more;
        count++;
    }
    return count;
}
