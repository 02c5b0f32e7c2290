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
    const size_t blocks = (size_t)sink->num_blocks, counts = 2 * count_parts(sink);
    opening o = {all, sink};
    *all =
        (qk__all_blocks){.sink = sink, .blocks = qk__calloc(blocks + 1, sizeof *all->blocks)};
    for (size_t b = 0; all->blocks && b < blocks; b++)
        all->blocks[b].fd = -1;
    if (!all->blocks)
        return qk__nomem(err);
    QK_TRY(qk__facts_create(sink, &all->total, err));
    QK_TRY(qk__parallel_try(blocks, sink->threads, open_block, &o, err));
    for (size_t b = 0; b < blocks; b++)
        for (size_t i = 0; i < counts; i++) /* rows, and behind them the stored rows */
            all->total.rows[i] += all->blocks[b].facts.rows[i];
    return QK_OK;
}

void qk__all_blocks_close(qk__all_blocks *all)
{
    for (int64_t b = 0; all->blocks && b < all->sink->num_blocks; b++)
        qk__block_close(&all->blocks[b]);
    free(all->blocks);
    free(all->total.numbers);
    *all = (qk__all_blocks){0};
}

bool qk__all_blocks_any(const qk__all_blocks *all)
{
    int64_t kept = 0;
    for (size_t part = 0; part < count_parts(all->sink); part++)
        kept += all->total.rows[part];
    return kept > 0;
}

/* ---- texts ------------------------------------------------------------------------------ */

static qk_status fail_damaged(qk_error *err)
{
    return qk__fail(err, QK_ERR_MALFORMED, "rows of the unfinished run are damaged");
}

/* Reads positions and tokens of one region, then calls `see`. Rows come first in the file. */
static qk_status see_region(const qk__all_blocks *all, const qk__block *b,
                            const qk__region *region, size_t heads, qk__see_text_fn *see,
                            void *user, qk_error *err)
{
    const int64_t row = (int64_t)(sizeof(int64_t) + sizeof(int32_t) +
                                  heads * all->sink->settings.head_dim * sizeof(float));
    const int64_t bytes = b->facts.numbers[QK__AT_EXAMPLES];
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

/* Adds the regions of a part in one block to `list`. */
static qk_status list_block(const qk__all_blocks *all, int64_t number, int stage, size_t part,
                            qk__buffer *list, qk_error *err)
{
    int64_t ends[2], rows = 0;
    const qk__block *b = &all->blocks[number];
    const int64_t index = b->facts.numbers[QK__AT_INDEX + stage];
    QK_TRY(qk__read_at(b->fd, ends, sizeof ends, index + (int64_t)(part * sizeof *ends), err));
    if (ends[0] < 0 || ends[0] > ends[1] ||
        ends[1] - ends[0] > b->facts.numbers[QK__BLOCK_TEXTS])
        return fail_damaged(err);
    const size_t bytes = (size_t)(ends[1] - ends[0]) * sizeof(qk__region);
    QK_TRY(qk__buffer_reserve(list, list->size + bytes + 1, err));
    qk__region *region = (qk__region *)(void *)(list->data + list->size);
    QK_TRY(qk__read_at(b->fd, region, bytes,
                       index + (int64_t)((count_parts(all->sink) + 1) * sizeof(int64_t)) +
                           ends[0] * (int64_t)sizeof *region,
                       err));
    list->size += bytes;
    for (int64_t i = 0; i < ends[1] - ends[0]; i++) {
        region[i].block = number;
        if (region[i].rows < 1 || region[i].rows > b->facts.stored[part] - rows)
            return fail_damaged(err);
        rows += region[i].rows;
    }
    return rows == b->facts.stored[part] ? QK_OK : fail_damaged(err);
}

static int compare_regions(const void *a, const void *b)
{
    const qk__region *x = a, *y = b;
    return (x->text > y->text) - (x->text < y->text);
}

/* *block: the number of the current block. */
static qk_status each_text(const qk__all_blocks *all, int stage, size_t part, qk__buffer *list,
                           qk__see_text_fn *see, void *user, int64_t *block, qk_error *err)
{
    const int *heads;
    size_t num_heads = qk__heads_of(all->sink, (int)(part / 2), (qk_kind)(part % 2), &heads);
    for (*block = 0; *block < all->sink->num_blocks; ++*block)
        QK_TRY(list_block(all, *block, stage, part, list, err));
    qk__region *region = (qk__region *)(void *)list->data;
    const size_t count = list->size / sizeof *region;
    if (count > 0)
        qsort(region, count, sizeof *region, compare_regions);
    for (size_t i = 0; i < count; i++) {
        *block = region[i].block;
        QK_TRY(see_region(all, &all->blocks[*block], &region[i], num_heads, see, user, err));
    }
    return QK_OK;
}

qk_status qk__each_text(const qk__all_blocks *all, int stage, size_t part, qk__see_text_fn *see,
                        void *user, qk_error *err)
{
    int64_t block = 0;
    qk__buffer list = {0};
    if (!qk__stores_rows(all->sink))
        return QK_OK;
    qk_status status = each_text(all, stage, part, &list, see, user, &block, err);
    qk__buffer_free(&list);
    return status == QK_ERR_MALFORMED ? qk__block_fail(all->sink, block, NULL, err) : status;
}

qk_status qk__text_vectors(const qk__text_rows *text, size_t head, size_t first, size_t count,
                           size_t dim, float *vectors, qk_error *err)
{
    int64_t at =
        text->offset + (int64_t)((head * (size_t)text->rows + first) * dim * sizeof(float));
    return qk__read_at(text->fd, vectors, count * dim * sizeof(float), at, err);
}
