/* SPDX-License-Identifier: Apache-2.0 */
/* How sure plasticity is where the rows are a random choice of those that there were.
 *
 * What is repeated is the choice, not the texts: each repetition leaves out a sixteenth of the
 * keys that were chosen from more, by a hash of text and position, and the others of their text
 * and bucket stand for them. Query buckets stay as they are, since their weights and mean
 * positions are of all queries. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/plasticity_core.h"

enum {
    GROUPS = 16,
    LEAST = GROUPS / 2
}; /* with so few keys that fewer are used, no spread is known */

/* By another hash. The rows that are here have the smallest values of the hash that chose them, so those are no longer
 * evenly spread. */
static uint32_t group_of(int64_t example, int64_t position)
{
    uint64_t z = (uint64_t)example * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)position;
    z = (z ^ (z >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    z = (z ^ (z >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)(z ^ (z >> 32)) % GROUPS;
}

/* The standard error, from the repetitions that have a value. */
static double error_of(const double values[GROUPS], const bool dealt[GROUPS], double share_held)
{
    double mean = 0, sum = 0;
    uint32_t used = 0, leaving = 0;
    for (uint32_t g = 0; g < GROUPS; g++)
        leaving += dealt[g] && !isnan(values[g]);
    for (uint32_t g = 0; g < GROUPS; g++)
        if (!isnan(values[g])) {
            mean += values[g];
            used++;
        }
    mean /= used;
    for (uint32_t g = 0; g < GROUPS; g++)
        if (!isnan(values[g]))
            sum += (values[g] - mean) * (values[g] - mean);
    return leaving >= LEAST ? sqrt(sum * (used - 1) / used * (1 - share_held)) : NAN;
}

/* Sets the group of each key: GROUPS, which is never left out, where all keys of its text and bucket are here; and
 * which groups have keys. Returns the chosen keys' share of the keys that they were chosen from. */
static double deal(const qk_block *keys, const qk__key_index *index, const qk__totals *totals,
                   uint32_t *group, bool dealt[GROUPS + 1])
{
    double here = 0, all = 0;
    for (size_t place = 0; place < index->rows; place++) {
        uint32_t i = index->row[place];
        bool chosen = !index->weight || index->weight[place] > 1;
        group[i] = chosen ? group_of(keys->example[i], keys->position[i]) : GROUPS;
        dealt[group[i]] = true;
        if (chosen && index->weight) {
            here++;
            all += index->weight[place];
        }
    }
    return here > 0 ? here / all : (double)keys->rows / (double)totals->keys;
}

qk_status qk__plasticity_sampling_error(const qk__query_model *model,
                                        const qk__plasticity_input *in, double *se,
                                        qk_error *err)
{
    double values[GROUPS], fifths[QK_FIFTHS];
    bool dealt[GROUPS + 1] = {false};
    *se = 0;
    if ((int64_t)in->keys->rows >= in->totals->keys)
        return QK_OK;
    uint32_t *group = qk__calloc(in->keys->rows, sizeof *group);
    if (!group)
        return qk__nomem(err);
    double held = deal(in->keys, in->index, in->totals, group, dealt);
    qk_block some = *in->keys;
    qk__plasticity_input without = *in;
    some.group = group;
    without.keys = &some;
    qk_status status = QK_OK;
    for (uint32_t g = 0; g < GROUPS && status == QK_OK; g++) {
        some.left_out = g;
        status = qk__plasticity_profile(model, &without, &values[g], fifths, err);
    }
    free(group);
    if (status == QK_OK)
        *se = error_of(values, dealt, held);
    return status;
}
