/* SPDX-License-Identifier: Apache-2.0 */
/* Rotating panels of queries and keys. */
#include "prefill/panel_rope.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/parallel.h"
#include "prefill/panel_kernel.h"
#include "prefill/rounding.h"

/* One panel; steps is [2][lanes][pairs] of scratch. */
static void fill_panel(const qk__rope *rope, const float *frequencies, qk__rounding rounding,
                       size_t panel, float *cosines, float *sines, float *steps)
{
    size_t pairs = (size_t)rope->pairs, n = pairs * QK_LANES;
    qk__rope_cos_sin(rope, frequencies, (int64_t)(panel * QK_LANES), QK_LANES, steps,
                     steps + n);
    for (size_t i = 0; i < pairs; i++)
        for (size_t lane = 0; lane < QK_LANES; lane++) {
            cosines[i * QK_LANES + lane] = steps[lane * pairs + i];
            sines[i * QK_LANES + lane] = steps[n + lane * pairs + i];
        }
    qk__round_values(rounding, cosines, n);
    qk__round_values(rounding, sines, n);
}

typedef struct table_filling {
    qk__rope_table *table;
    float *scratch; /* for each worker */
} table_filling;

static void fill_job(void *context, size_t panel, int worker)
{
    const table_filling *f = context;
    const qk__rope *rope = f->table->rope;
    size_t n = (size_t)rope->pairs * QK_LANES;
    fill_panel(rope, rope->frequencies, f->table->rounding, panel,
               f->table->cosines + panel * n, f->table->sines + panel * n,
               f->scratch + (size_t)worker * 2 * n);
}

qk_status qk__rope_table_init(qk__rope_table *table, const qk__rope *rope, size_t panels,
                              qk__rounding rounding, int threads, qk_error *err)
{
    size_t n = (size_t)rope->pairs * QK_LANES;
    *table = (qk__rope_table){.rope = rope, .rounding = rounding};
    table->cosines = qk__alloc_aligned(panels, n * sizeof(float));
    table->sines = qk__alloc_aligned(panels, n * sizeof(float));
    table_filling f = {table, qk__alloc_aligned((size_t)threads, 2 * n * sizeof(float))};
    if (!table->cosines || !table->sines || !f.scratch) {
        free(f.scratch);
        qk__rope_table_free(table);
        return qk__nomem(err);
    }
    qk__parallel_for(panels, threads, fill_job, &f);
    free(f.scratch);
    return QK_OK;
}

void qk__rope_table_free(qk__rope_table *table)
{
    free(table->cosines);
    free(table->sines);
    *table = (qk__rope_table){0};
}

size_t qk__rope_scratch(size_t pairs, size_t panels)
{
    return (2 * panels + 2) * pairs * QK_LANES + pairs;
}

qk__panel_rotation qk__rotation_at(const qk__rope_table *table, int64_t length,
                                   size_t first_panel, size_t count, float *scratch)
{
    const qk__rope *rope = table->rope;
    size_t pairs = (size_t)rope->pairs, n = pairs * QK_LANES;
    qk__panel_rotation rotation = {.pairs = pairs, .rounding = table->rounding};
    float *frequencies = scratch, *cosines = scratch + pairs, *sines = cosines + count * n;
    if (rope->needs_length)
        qk__rope_frequencies(rope, length, frequencies);
    if (!rope->needs_length ||
        memcmp(frequencies, rope->frequencies, pairs * sizeof(float)) == 0) {
        rotation.cosines = table->cosines + first_panel * n;
        rotation.sines = table->sines + first_panel * n;
        return rotation;
    }
    for (size_t i = 0; i < count; i++)
        fill_panel(rope, frequencies, table->rounding, first_panel + i, cosines + i * n,
                   sines + i * n, sines + count * n);
    rotation.cosines = cosines;
    rotation.sines = sines;
    return rotation;
}

qk__panel_rotation qk__rotation_of(const qk__rope_table *table, int64_t length,
                                   const int32_t *positions, const bool *frozen, size_t count,
                                   float *scratch)
{
    const qk__rope *rope = table->rope;
    const size_t pairs = (size_t)rope->pairs, n = pairs * QK_LANES;
    float *cosines = scratch + pairs, *sines = cosines + count * n;
    float *turned = sines + count * n, *still = turned + 2 * pairs;
    const float *frequencies = rope->frequencies;
    if (rope->needs_length) {
        qk__rope_frequencies(rope, length, scratch);
        frequencies = scratch;
    }
    qk__rope_cos_sin(rope, frequencies, 0, 1, still, still + pairs);
    for (size_t i = 0; i < count * QK_LANES; i++) {
        const size_t at = i / QK_LANES * n + i % QK_LANES;
        qk__rope_cos_sin(rope, frequencies, positions[i], 1, turned, turned + pairs);
        for (size_t pair = 0; pair < pairs; pair++) {
            const float *from = frozen && frozen[pair] ? still : turned;
            cosines[at + pair * QK_LANES] = from[pair];
            sines[at + pair * QK_LANES] = from[pairs + pair];
        }
    }
    qk__round_values(table->rounding, cosines, count * n);
    qk__round_values(table->rounding, sines, count * n);
    return (qk__panel_rotation){cosines, sines, pairs, false, table->rounding};
}

void qk__rotate(const qk__panel_kernel *kernel, const qk__panel_rotation *rotation, size_t i,
                float *head)
{
    size_t pairs = rotation->pairs;
    size_t step = rotation->interleaved ? 2 : 1, partner = rotation->interleaved ? 1 : pairs;
    for (size_t pair = 0; pair < pairs; pair++) {
        float *a = head + pair * step * QK_LANES;
        size_t at = (i * pairs + pair) * QK_LANES;
        kernel->turn(rotation->rounding, a, a + partner * QK_LANES, rotation->cosines + at,
                     rotation->sines + at);
    }
}
