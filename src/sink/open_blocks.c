/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that texts are put into, and what is written when all texts of a block have come. blocks.c has the layout. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sink/sink.h"

void qk__text_block_free(const qk_sink *sink, qk__text_block *block)
{
    for (int64_t i = 0; block->texts && i < block->count; i++)
        qk__text_free(sink, &block->texts[i]);
    free(block->texts);
    qk__queues_free(sink, block);
    for (int stage = 0; stage < QK__STAGES; stage++)
        qk__buffer_free(&block->regions[stage]);
    qk__unit_discard(&block->unit);
    free(block->facts.numbers);
    free(block);
}

static qk_status begin_block(qk_sink *sink, qk__text_block *block, qk_error *err)
{
    char name[QK__UNIT_NAME_SIZE];
    block->texts = qk__calloc((size_t)block->count, sizeof *block->texts);
    if (!block->texts)
        return qk__nomem(err);
    QK_TRY(qk__facts_create(sink, &block->facts, err));
    qk__block_name(block->number, name);
    qk_status status = qk__unit_begin(&block->unit, sink->units, name, err);
    if (status == QK_OK && qk__keeps_sums(sink))
        status = qk__queues_create(sink, block, err);
    return status;
}

qk_status qk__open_block(qk_sink *sink, int64_t text, qk__text_block **found, qk_error *err)
{
    int64_t number = qk__place_of(sink, text) / sink->block_texts;
    for (*found = sink->open; *found; *found = (*found)->next)
        if ((*found)->number == number)
            return QK_OK;
    qk__text_block *block = calloc(1, sizeof *block);
    if (!block)
        return qk__nomem(err);
    *block = (qk__text_block){.number = number,
                              .first = number * sink->block_texts,
                              .count = qk__block_size(sink, number),
                              .unit = {.fd = -1}};
    qk_status status = begin_block(sink, block, err);
    if (status != QK_OK) {
        qk__text_block_free(sink, block);
        return status;
    }
    block->next = sink->open;
    sink->open = block;
    *found = block;
    return QK_OK;
}

/* ---- finishing -------------------------------------------------------------------------- */

static int compare_regions(const void *a, const void *b)
{
    const qk__region *x = a, *y = b;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return (x->text > y->text) - (x->text < y->text);
}

/* Where the regions of each part begin comes first, then the regions. */
static qk_status write_index(const qk_sink *sink, qk__text_block *block, int stage,
                             int64_t *offset, qk_error *err)
{
    qk__buffer list = block->regions[stage], index = {0};
    size_t parts = 2 * (size_t)sink->settings.num_layers,
           count = list.size / sizeof(qk__region);
    qk__region *regions = (qk__region *)(void *)list.data;
    if (count > 0)
        qsort(regions, count, sizeof *regions, compare_regions);
    qk_status status = QK_OK;
    for (size_t part = 0, at = 0; status == QK_OK && part <= parts; part++) {
        while (at < count && regions[at].part < (int64_t)part)
            at++;
        int64_t start = (int64_t)at;
        status = qk__buffer_append(&index, &start, sizeof start, err);
    }
    if (status == QK_OK)
        status = qk__buffer_append(&index, list.data, list.size, err);
    if (status == QK_OK)
        status = qk__unit_append(&block->unit, index.data, index.size, offset, err);
    qk__buffer_free(&index);
    return status;
}

/* A line for each text. */
static qk_status write_lines(qk__text_block *block, int64_t *numbers, qk_error *err)
{
    qk__buffer lines = {0};
    qk_status status = QK_OK;
    numbers[QK__BLOCK_TEXTS] = block->count;
    for (int64_t i = 0; status == QK_OK && i < block->count; i++) {
        numbers[QK__BLOCK_TOKENS] += block->texts[i].tokens;
        status = qk__buffer_printf(&lines, err, "%lld %s\n", (long long)block->texts[i].number,
                                   block->texts[i].line);
    }
    numbers[QK__EXAMPLES_SIZE] = (int64_t)lines.size;
    if (status == QK_OK)
        status = qk__unit_append(&block->unit, lines.data, lines.size,
                                 &numbers[QK__AT_EXAMPLES], err);
    qk__buffer_free(&lines);
    return status;
}

static qk_status write_sums(const qk_sink *sink, qk__text_block *block, int64_t *offset,
                            qk_error *err)
{
    size_t count = QK__SUM_SETS * 2 * (size_t)sink->settings.num_layers;
    qk__stored_sums *list = qk__calloc(2 * count, sizeof *list);
    qk_status status = list ? QK_OK : qk__nomem(err);
    for (size_t i = 0; status == QK_OK && i < 2 * count; i++) {
        const qk__queue *queue = &block->queues[i / 2];
        const qk__part_moments *sums = i % 2 ? queue->first : queue->sums;
        if (!sums)
            continue;
        list[i].size = (int64_t)qk__part_moments_stored(sums);
        list[i].offset = qk__unit_reserve(&block->unit, (size_t)list[i].size);
        status =
            qk__context(err, qk__part_moments_store(sums, block->unit.fd, list[i].offset, err),
                        "%s", block->unit.temporary);
    }
    if (status == QK_OK)
        status = qk__unit_append(&block->unit, list, 2 * count * sizeof *list, offset, err);
    free(list);
    return status;
}

static qk_status write_block(qk_sink *sink, qk__text_block *block, qk_error *err)
{
    int64_t *numbers = block->facts.numbers;
    qk__buffer head = {0};
    QK_TRY(write_lines(block, numbers, err));
    for (int stage = 0; stage < QK__STAGES; stage++)
        if (sink->stages[stage] && qk__stores_rows(sink))
            QK_TRY(write_index(sink, block, stage, &numbers[QK__AT_INDEX + stage], err));
    if (qk__keeps_sums(sink))
        QK_TRY(write_sums(sink, block, &numbers[QK__AT_SUMS], err));
    qk_status status = qk__facts_print(sink, &block->facts, &head, err);
    if (status == QK_OK)
        status = qk__unit_finish(&block->unit, sink->fingerprint, (const char *)head.data, err);
    qk__buffer_free(&head);
    return status;
}

qk_status qk__block_publish(qk_sink *sink, qk__text_block *block, qk_error *err)
{
    qk_status status = write_block(sink, block, err);
    if (status == QK_OK)
        sink->there[block->number] = true;
    qk__text_block_free(sink, block);
    return status;
}
