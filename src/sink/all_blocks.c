/* SPDX-License-Identifier: Apache-2.0 */
/* Opens all blocks and reads their rows. */
#include "sink/all_blocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/parallel.h"

static size_t count_parts(const qk_sink *sink)
{
    return 2 * (size_t)sink->settings.num_layers;
}

/* ---- opening ---------------------------------------------------------------------------- */

typedef struct opening {
    qk__all_blocks *all;
    qk_sink *sink;
} opening;

static qk_status open_block(void *context, size_t i, int worker, qk_error *err)
{
    const opening *o = context;
    (void)worker;
    QK_TRY(qk__sink_ask(o->sink, "blocks", i, (size_t)o->sink->num_blocks, err));
    return qk__block_open(o->sink, (int64_t)i, &o->all->blocks[i], err);
}

qk_status qk__all_blocks_open(qk__all_blocks *all, qk_sink *sink, qk_error *err)
{
    size_t blocks = (size_t)sink->num_blocks, parts = count_parts(sink);
    opening o = {all, sink};
    *all = (qk__all_blocks){.sink = sink,
                            .blocks = qk__calloc(blocks + 1, sizeof *all->blocks),
                            .kept = qk__calloc(parts, sizeof *all->kept),
                            .stored = qk__calloc(parts, sizeof *all->stored)};
    for (size_t b = 0; all->blocks && b < blocks; b++)
        all->blocks[b].fd = -1;
    if (!all->blocks || !all->kept || !all->stored)
        return qk__nomem(err);
    QK_TRY(qk__parallel_try(blocks, sink->threads, open_block, &o, err));
    for (size_t b = 0; b < blocks; b++)
        for (size_t i = 0; i < parts; i++) {
            all->kept[i] += all->blocks[b].facts.rows[i];
            all->stored[i] += all->blocks[b].facts.stored[i];
        }
    return QK_OK;
}

void qk__all_blocks_close(qk__all_blocks *all)
{
    for (int64_t b = 0; all->blocks && b < all->sink->num_blocks; b++)
        qk__block_close(&all->blocks[b]);
    free(all->blocks);
    free(all->kept);
    free(all->stored);
    *all = (qk__all_blocks){0};
}

void qk__all_blocks_sum(const qk__all_blocks *all, qk_sink_outcome *outcome)
{
    size_t parts = count_parts(all->sink);
    outcome->heads = 0;
    for (size_t part = 0; part < parts; part++) {
        const int *list;
        size_t number = qk__heads_of(all->sink, (int)(part / 2), (qk_kind)(part % 2), &list);
        outcome->heads += all->kept[part] > 0 ? number : 0;
        outcome->rows += all->stored[part] * (int64_t)number;
        if (all->sink->settings.keep.moments)
            outcome->summed += all->kept[part] * (int64_t)number;
    }
}

/* ---- texts ------------------------------------------------------------------------------ */

static qk_status fail_damaged(qk_error *err)
{
    return qk__fail(err, QK_ERR_MALFORMED, "rows of the unfinished run are damaged");
}

/* Positions and tokens of one region, then `see`. Rows lie before what else is in the file. */
static qk_status see_region(const qk__all_blocks *all, const qk__block *b,
                            const qk__region *region, size_t heads, qk__see_text_fn *see,
                            void *user, qk_error *err)
{
    const int64_t row = (int64_t)(sizeof(int64_t) + sizeof(int32_t) +
                                  heads * all->sink->settings.head_dim * sizeof(float));
    const int64_t bytes = b->facts.at[QK__AT_EXAMPLES];
    if (region->rows < 1 || region->offset < 0 || region->offset > bytes ||
        region->rows > (bytes - region->offset) / row)
        return fail_damaged(err);
    size_t rows = (size_t)region->rows, even = rows + rows % 2;
    size_t before = rows * sizeof(int64_t) + even * sizeof(int32_t);
    int64_t *positions = qk__calloc(before, 1);
    if (!positions)
        return qk__nomem(err);
    const qk__text_rows text = {.fd = b->fd,
                                .example_id = region->example_id,
                                .rows = region->rows,
                                .offset = region->offset + (int64_t)before,
                                .position = positions,
                                .token = (const int32_t *)(const void *)(positions + rows)};
    qk_status status = qk__read_at(b->fd, positions, before, region->offset, err);
    for (size_t i = 0; status == QK_OK && i < rows; i++)
        if (positions[i] < 0)
            status = fail_damaged(err);
    if (status == QK_OK)
        status = see(user, &text, err);
    free(positions);
    return status;
}

static qk_status see_block(const qk__all_blocks *all, const qk__block *b, int stage,
                           size_t part, qk__see_text_fn *see, void *user, qk_error *err)
{
    int64_t ends[2];
    const int64_t index = b->facts.at[QK__AT_INDEX + stage];
    const int *list;
    size_t parts = count_parts(all->sink);
    size_t heads = qk__heads_of(all->sink, (int)(part / 2), (qk_kind)(part % 2), &list);
    QK_TRY(qk__read_at(b->fd, ends, sizeof ends, index + (int64_t)(part * sizeof *ends), err));
    if (ends[0] < 0 || ends[0] > ends[1] || ends[1] - ends[0] > b->facts.at[QK__AT_EXAMPLES])
        return fail_damaged(err);
    size_t count = (size_t)(ends[1] - ends[0]);
    int64_t left = b->facts.stored[part];
    if (count == 0)
        return left == 0 ? QK_OK : fail_damaged(err);
    qk__region *regions = qk__calloc(count, sizeof *regions);
    if (!regions)
        return qk__nomem(err);
    int64_t at =
        index + (int64_t)((parts + 1) * sizeof(int64_t)) + ends[0] * (int64_t)sizeof *regions;
    qk_status status = qk__read_at(b->fd, regions, count * sizeof *regions, at, err);
    for (size_t i = 0; status == QK_OK && i < count; i++) {
        left -= regions[i].rows;
        if (left < 0)
            status = fail_damaged(err);
        else
            status = see_region(all, b, &regions[i], heads, see, user, err);
    }
    free(regions);
    return status == QK_OK && left > 0 ? fail_damaged(err) : status;
}

qk_status qk__each_text(const qk__all_blocks *all, int stage, size_t part, qk__see_text_fn *see,
                        void *user, qk_error *err)
{
    qk_status status = QK_OK;
    for (int64_t b = 0; b < all->sink->num_blocks && status == QK_OK; b++) {
        if (qk__stores_rows(all->sink))
            status = see_block(all, &all->blocks[b], stage, part, see, user, err);
        if (status == QK_ERR_MALFORMED)
            status = qk__block_fail(all->sink, b, NULL, err);
    }
    return status;
}

qk_status qk__text_vectors(const qk__text_rows *text, size_t head, size_t first, size_t count,
                           size_t dim, float *vectors, qk_error *err)
{
    int64_t at =
        text->offset + (int64_t)((head * (size_t)text->rows + first) * dim * sizeof(float));
    return qk__read_at(text->fd, vectors, count * dim * sizeof(float), at, err);
}
