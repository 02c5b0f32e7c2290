/* SPDX-License-Identifier: Apache-2.0 */
/* How sure plasticity is where the rows are a random choice of those that there were.
 *
 * What is repeated is the choice, not the texts: each repetition leaves out a sixteenth of the
 * keys of all texts, by a hash of text and position. Query buckets stay as they are, since their
 * weights and mean positions are of all queries. */
#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/plasticity_core.h"

enum { GROUPS = 16 };

/* Another one than that by which rows are chosen, of whose values those that are here are the
 * smallest. */
static uint32_t group_of(int64_t example, int64_t position)
{
    uint64_t z = (uint64_t)example * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)position;
    z = (z ^ (z >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    z = (z ^ (z >> 32)) * UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)(z ^ (z >> 32)) % GROUPS;
}

/* Of the repetitions that have a number. */
static double error_of(const double values[GROUPS], double share_held)
{
    double mean = 0, sum = 0;
    uint32_t used = 0;
    for (uint32_t g = 0; g < GROUPS; g++)
        if (!isnan(values[g])) {
            mean += values[g];
            used++;
        }
    mean /= used;
    for (uint32_t g = 0; g < GROUPS; g++)
        if (!isnan(values[g]))
            sum += (values[g] - mean) * (values[g] - mean);
    return used > 1 ? sqrt(sum * (used - 1) / used * (1 - share_held)) : NAN;
}

qk_status qk__plasticity_sampling_error(const qk__query_model *model, const qk_block *queries,
                                        const qk_block *keys, const qk__key_index *index,
                                        const qk__totals *totals,
                                        const qk_plasticity_settings *settings,
                                        const uint64_t stream[2], double *se, qk_error *err)
{
    double values[GROUPS], fifths[QK_FIFTHS];
    *se = 0;
    if ((int64_t)keys->rows >= totals->keys)
        return QK_OK;
    uint32_t *group = qk__calloc(keys->rows, sizeof *group);
    if (!group)
        return qk__nomem(err);
    qk_block some = *keys;
    some.group = group;
    for (size_t i = 0; i < keys->rows; i++)
        group[i] = group_of(keys->example[i], keys->position[i]);
    qk_status status = QK_OK;
    for (uint32_t g = 0; g < GROUPS && status == QK_OK; g++) {
        some.left_out = g;
        status = qk__plasticity_profile(model, queries, &some, index, totals, settings, stream,
                                        &values[g], fifths, err);
    }
    free(group);
    if (status == QK_OK)
        *se = error_of(values, (double)keys->rows / (double)totals->keys);
    return status;
}
