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

/* Regions of a part in a block, by the numbers of their texts; some of them are in memory. */
typedef struct reading {
    int64_t offset, left; /* of the regions that are not in memory yet */
    int64_t rows;         /* that are still to come */
    size_t at, count;
    qk__region region[64];
} reading;

/* Has the next region in memory, if there is one. */
static qk_status read_on(const qk__block *b, reading *r, qk_error *err)
{
    const size_t most = sizeof r->region / sizeof *r->region;
    if (r->at < r->count || r->left == 0)
        return r->at == r->count && r->rows > 0 ? fail_damaged(err) : QK_OK;
    const int64_t last = r->count > 0 ? r->region[r->count - 1].text : -1;
    r->count = r->left < (int64_t)most ? (size_t)r->left : most;
    r->at = 0;
    QK_TRY(qk__read_at(b->fd, r->region, r->count * sizeof *r->region, r->offset, err));
    r->offset += (int64_t)(r->count * sizeof *r->region);
    r->left -= (int64_t)r->count;
    for (size_t i = 0; i < r->count; i++) {
        r->rows -= r->region[i].rows;
        if (r->rows < 0 || r->region[i].text <= (i > 0 ? r->region[i - 1].text : last))
            return fail_damaged(err);
    }
    return QK_OK;
}

static qk_status open_part(const qk__all_blocks *all, const qk__block *b, int stage,
                           size_t part, reading *r, qk_error *err)
{
    int64_t ends[2];
    const int64_t index = b->facts.at[QK__AT_INDEX + stage];
    QK_TRY(qk__read_at(b->fd, ends, sizeof ends, index + (int64_t)(part * sizeof *ends), err));
    if (ends[0] < 0 || ends[0] > ends[1] || ends[1] - ends[0] > b->facts.at[QK__AT_EXAMPLES])
        return fail_damaged(err);
    r->offset = index + (int64_t)((count_parts(all->sink) + 1) * sizeof(int64_t)) +
                ends[0] * (int64_t)sizeof *r->region;
    r->left = ends[1] - ends[0];
    r->rows = b->facts.stored[part];
    return read_on(b, r, err);
}

/* The block that has the next text; num_blocks: none has. */
static int64_t find_next(const reading *readings, int64_t blocks)
{
    int64_t next = blocks;
    for (int64_t b = 0; b < blocks; b++)
        if (readings[b].at < readings[b].count &&
            (next == blocks || readings[b].region[readings[b].at].text <
                                   readings[next].region[readings[next].at].text))
            next = b;
    return next;
}

/* *block: that at which it is. */
static qk_status each_text(const qk__all_blocks *all, int stage, size_t part, reading *readings,
                           qk__see_text_fn *see, void *user, int64_t *block, qk_error *err)
{
    const int64_t blocks = all->sink->num_blocks;
    const int *list;
    size_t heads = qk__heads_of(all->sink, (int)(part / 2), (qk_kind)(part % 2), &list);
    for (*block = 0; *block < blocks; ++*block)
        QK_TRY(open_part(all, &all->blocks[*block], stage, part, &readings[*block], err));
    while ((*block = find_next(readings, blocks)) < blocks) {
        reading *r = &readings[*block];
        QK_TRY(see_region(all, &all->blocks[*block], &r->region[r->at], heads, see, user, err));
        r->at++;
        QK_TRY(read_on(&all->blocks[*block], r, err));
    }
    return QK_OK;
}

qk_status qk__each_text(const qk__all_blocks *all, int stage, size_t part, qk__see_text_fn *see,
                        void *user, qk_error *err)
{
    int64_t block = 0;
    if (!qk__stores_rows(all->sink))
        return QK_OK;
    reading *readings = qk__calloc((size_t)all->sink->num_blocks + 1, sizeof *readings);
    if (!readings)
        return qk__nomem(err);
    qk_status status = each_text(all, stage, part, readings, see, user, &block, err);
    free(readings);
    return status == QK_ERR_MALFORMED ? qk__block_fail(all->sink, block, NULL, err) : status;
}

qk_status qk__text_vectors(const qk__text_rows *text, size_t head, size_t first, size_t count,
                           size_t dim, float *vectors, qk_error *err)
{
    int64_t at =
        text->offset + (int64_t)((head * (size_t)text->rows + first) * dim * sizeof(float));
    return qk__read_at(text->fd, vectors, count * dim * sizeof(float), at, err);
}
