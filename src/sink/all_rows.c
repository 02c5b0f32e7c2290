/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the rows of all blocks. An index says where: first, for each part, where its regions begin in the
 * list of regions that follows. */
#include "sink/all_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

typedef struct block_files {
    int rows, index; /* descriptors; -1: nothing is stored */
    int64_t bytes;   /* of rows */
    int64_t regions;
    int64_t *stored; /* [parts] rows of each head */
} block_files;

struct qk__all_rows {
    const qk_sink *sink;
    block_files *blocks; /* [num_blocks] */
    int64_t *kept;       /* [parts] rows of each head */
    int64_t *stored;     /* [parts] of them in files */
};

static size_t count_parts(const qk_sink *sink)
{
    return 2 * (size_t)sink->settings.num_layers;
}

/* ---- opening ---------------------------------------------------------------------------- */

static qk_status open_file(const qk_sink *sink, int64_t block, const char *what, int stage,
                           int *fd, int64_t *bytes, qk_error *err)
{
    char unit[QK__UNIT_NAME_SIZE], name[32];
    qk__block_name(block, unit);
    snprintf(name, sizeof name, "%s.%s", what, qk__stage_name(stage));
    QK_TRY(qk__block_check(sink, block, name, err));
    char *path = qk__units_path(&sink->units, unit, name);
    qk_status status = path ? qk__open_file(path, fd, bytes, err) : qk__nomem(err);
    free(path);
    return status;
}

static qk_status open_block(qk__all_rows *all, int64_t number, int stage, qk_error *err)
{
    size_t parts = count_parts(all->sink);
    block_files *b = &all->blocks[number];
    qk__block_facts facts;
    QK_TRY(qk__block_read(all->sink, number, &facts, err));
    for (size_t i = 0; i < parts; i++) {
        all->kept[i] += facts.rows[i];
        all->stored[i] += facts.stored[i];
    }
    b->stored = qk__calloc(parts, sizeof *b->stored);
    if (b->stored)
        memcpy(b->stored, facts.stored, parts * sizeof *b->stored);
    free(facts.rows);
    if (!b->stored)
        return qk__nomem(err);
    if (!qk__stores_rows(all->sink))
        return QK_OK;
    int64_t bytes, starts = (int64_t)((parts + 1) * sizeof(int64_t));
    QK_TRY(open_file(all->sink, number, "rows", stage, &b->rows, &b->bytes, err));
    QK_TRY(open_file(all->sink, number, "index", stage, &b->index, &bytes, err));
    b->regions = (bytes - starts) / (int64_t)sizeof(qk__region);
    return bytes < starts ? qk__block_fail(all->sink, number, NULL, err) : QK_OK;
}

qk_status qk__all_rows_open(qk__all_rows **rows, const qk_sink *sink, int stage, qk_error *err)
{
    qk__all_rows *all = calloc(1, sizeof *all);
    size_t blocks = (size_t)sink->num_blocks, parts = count_parts(sink);
    *rows = all;
    if (!all)
        return qk__nomem(err);
    all->sink = sink;
    all->blocks = qk__calloc(blocks + 1, sizeof *all->blocks);
    all->kept = qk__calloc(parts, sizeof *all->kept);
    all->stored = qk__calloc(parts, sizeof *all->stored);
    for (size_t b = 0; all->blocks && b < blocks; b++)
        all->blocks[b].rows = all->blocks[b].index = -1;
    qk_status status = all->blocks && all->kept && all->stored ? QK_OK : qk__nomem(err);
    for (int64_t b = 0; status == QK_OK && b < sink->num_blocks; b++)
        status = open_block(all, b, stage, err);
    if (status != QK_OK)
        qk__all_rows_close(rows);
    return status;
}

void qk__all_rows_close(qk__all_rows **rows)
{
    qk__all_rows *all = *rows;
    if (!all)
        return;
    for (int64_t b = 0; all->blocks && b < all->sink->num_blocks; b++) {
        if (all->blocks[b].rows >= 0)
            close(all->blocks[b].rows);
        if (all->blocks[b].index >= 0)
            close(all->blocks[b].index);
        free(all->blocks[b].stored);
    }
    free(all->blocks);
    free(all->kept);
    free(all->stored);
    free(all);
    *rows = NULL;
}

int64_t qk__all_rows_count(const qk__all_rows *rows, size_t part)
{
    return rows->stored[part];
}

int64_t qk__all_rows_kept(const qk__all_rows *rows, size_t part)
{
    return rows->kept[part];
}

void qk__all_rows_sum(const qk__all_rows *rows, qk_sink_outcome *outcome)
{
    size_t parts = count_parts(rows->sink);
    outcome->heads = 0;
    for (size_t part = 0; part < parts; part++) {
        const int *list;
        size_t number = qk__heads_of(rows->sink, (int)(part / 2), (qk_kind)(part % 2), &list);
        outcome->heads += rows->kept[part] > 0 ? number : 0;
        outcome->rows += rows->stored[part] * (int64_t)number;
        if (rows->sink->settings.keep.moments)
            outcome->summed += rows->kept[part] * (int64_t)number;
    }
}

/* ---- texts ------------------------------------------------------------------------------ */

static qk_status fail_damaged(qk_error *err)
{
    return qk__fail(err, QK_ERR_MALFORMED, "rows of the unfinished run are damaged");
}

/* Positions and tokens of one region, then `see`. */
static qk_status see_region(const qk__all_rows *all, const block_files *b,
                            const qk__region *region, size_t heads, qk__see_text_fn *see,
                            void *user, qk_error *err)
{
    const int64_t row = (int64_t)(sizeof(int64_t) + sizeof(int32_t) +
                                  heads * all->sink->settings.head_dim * sizeof(float));
    if (region->rows < 1 || region->offset < 0 || region->offset > b->bytes ||
        region->rows > (b->bytes - region->offset) / row)
        return fail_damaged(err);
    size_t rows = (size_t)region->rows, even = rows + rows % 2;
    size_t before = rows * sizeof(int64_t) + even * sizeof(int32_t);
    int64_t *positions = qk__calloc(before, 1);
    if (!positions)
        return qk__nomem(err);
    const qk__text_rows text = {.fd = b->rows,
                                .example_id = region->example_id,
                                .rows = region->rows,
                                .offset = region->offset + (int64_t)before,
                                .position = positions,
                                .token = (const int32_t *)(const void *)(positions + rows)};
    qk_status status = qk__read_at(b->rows, positions, before, region->offset, err);
    for (size_t i = 0; status == QK_OK && i < rows; i++)
        if (positions[i] < 0)
            status = fail_damaged(err);
    if (status == QK_OK)
        status = see(user, &text, err);
    free(positions);
    return status;
}

static qk_status see_block(const qk__all_rows *all, const block_files *b, size_t part,
                           qk__see_text_fn *see, void *user, qk_error *err)
{
    int64_t ends[2];
    const int *list;
    size_t parts = count_parts(all->sink);
    size_t heads = qk__heads_of(all->sink, (int)(part / 2), (qk_kind)(part % 2), &list);
    QK_TRY(qk__read_at(b->index, ends, sizeof ends, (int64_t)(part * sizeof *ends), err));
    if (ends[0] < 0 || ends[0] > ends[1] || ends[1] > b->regions)
        return fail_damaged(err);
    size_t count = (size_t)(ends[1] - ends[0]);
    int64_t left = b->stored[part];
    if (count == 0)
        return left == 0 ? QK_OK : fail_damaged(err);
    qk__region *regions = qk__calloc(count, sizeof *regions);
    if (!regions)
        return qk__nomem(err);
    int64_t at = (int64_t)((parts + 1) * sizeof(int64_t)) + ends[0] * (int64_t)sizeof *regions;
    qk_status status = qk__read_at(b->index, regions, count * sizeof *regions, at, err);
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

qk_status qk__each_text(const qk__all_rows *rows, size_t part, qk__see_text_fn *see, void *user,
                        qk_error *err)
{
    qk_status status = QK_OK;
    for (int64_t b = 0; b < rows->sink->num_blocks && status == QK_OK; b++) {
        if (rows->blocks[b].index >= 0)
            status = see_block(rows, &rows->blocks[b], part, see, user, err);
        if (status == QK_ERR_MALFORMED)
            status = qk__block_fail(rows->sink, b, NULL, err);
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
