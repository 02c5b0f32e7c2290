/* SPDX-License-Identifier: Apache-2.0 */
/* The queries or keys of one layer of a text: which positions are kept, and which are still to come. */
#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"
#include "sink/sink.h"

/* ---- which positions -------------------------------------------------------------------- */

static int compare_kept(const void *a, const void *b)
{
    const qk__kept *x = a, *y = b;
    return (x->position > y->position) - (x->position < y->position);
}

/* Rows are stored in the order in which the sampler chose the positions: with max_rows not that of the text. */
qk_status qk__part_choose(const qk_sink *sink, int64_t example_id, int64_t tokens, int layer,
                          qk_kind kind, qk__part *part, qk_error *err)
{
    const int *heads;
    int64_t *positions = NULL;
    size_t count = 0;
    bool sorted = true;
    if (qk__heads_of(sink, layer, kind, &heads) > 0)
        QK_TRY(qk_sampler_positions(&sink->settings.sampler, example_id, layer, kind, heads[0],
                                    tokens, &positions, &count, err));
    part->kept = qk__calloc(count, sizeof *part->kept);
    if (count > 0 && !part->kept) {
        free(positions);
        return qk__nomem(err);
    }
    for (size_t i = 0; i < count; i++) {
        part->kept[i] = (qk__kept){positions[i], (int64_t)i};
        sorted &= i == 0 || positions[i] > positions[i - 1];
    }
    free(positions);
    if (!sorted)
        qsort(part->kept, count, sizeof *part->kept, compare_kept);
    part->count = part->stored = count;
    return sink->settings.keep.rows ? QK_OK
                                    : qk__choose_reservoir(sink, example_id, kind, part, err);
}

/* ---- parts ------------------------------------------------------------------------------ */

static void free_part(qk__part *p)
{
    size_t chunks = qk__chunks_of(p);
    for (int stage = 0; stage < QK__STAGES; stage++) {
        for (size_t c = 0; p->stages[stage].chunks && c < chunks; c++)
            free(p->stages[stage].chunks[c].vectors);
        free(p->stages[stage].chunks);
        free(p->stages[stage].came);
        free(p->stages[stage].summed);
        qk__waiting_free(&p->stages[stage].sums);
    }
    free(p->kept);
    free(p);
}

void qk__part_leave(qk__text *text, size_t number)
{
    qk__part *part = text->parts[number];
    if (--part->users > 0 || part->left > 0)
        return;
    free_part(part);
    text->parts[number] = NULL;
    text->ends[number] = QK__PART_CAME;
}

/* Chooses where the part's rows go in the block's file: positions and tokens first, then the vectors, [heads][rows]. */
static qk_status reserve(qk_sink *sink, qk__text_block *block, const qk__text *text,
                         size_t number, int stage, qk__part *part, qk_error *err)
{
    const int *heads;
    size_t rows = part->stored, even = rows + rows % 2;
    size_t num_heads = qk__heads_of(sink, (int)(number / 2), (qk_kind)(number % 2), &heads);
    size_t before = rows * sizeof(int64_t) + even * sizeof(int32_t);
    size_t vectors = num_heads * rows * sink->settings.head_dim * sizeof(float);
    const qk__region region = {.text = text->number,
                               .example_id = text->example_id,
                               .part = (int64_t)number,
                               .rows = (int64_t)rows,
                               .offset = qk__unit_reserve(&block->unit, before + vectors)};
    int64_t *positions = qk__calloc(before, 1);
    if (!positions)
        return qk__nomem(err);
    int32_t *tokens = (int32_t *)(void *)(positions + rows);
    for (size_t i = 0; i < part->count; i++) {
        const qk__kept *kept = &part->kept[i];
        if (kept->row < 0)
            continue;
        positions[kept->row] = kept->position;
        tokens[kept->row] = text->ids ? text->ids[kept->position] : -1;
    }
    qk_status status = qk__unit_write(&block->unit, region.offset, positions, before, err);
    free(positions);
    part->stages[stage].offset = region.offset + (int64_t)before;
    return status == QK_OK
               ? qk__buffer_append(&block->regions[stage], &region, sizeof region, err)
               : status;
}

static qk_status prepare(qk_sink *sink, qk__text_block *block, const qk__text *text,
                         size_t number, qk__part *part, qk_error *err)
{
    const int *heads;
    size_t num_heads = qk__heads_of(sink, (int)(number / 2), (qk_kind)(number % 2), &heads);
    size_t chunks = sink->settings.keep.moments ? qk__chunks_of(part) : 0;
    for (int stage = 0; stage < QK__STAGES; stage++) {
        qk__stage_part *s = &part->stages[stage];
        if (!sink->stages[stage])
            continue;
        s->came = qk__calloc(num_heads * part->count / 64 + 1, sizeof *s->came);
        s->chunks = qk__calloc(chunks, sizeof *s->chunks);
        if (!s->came || (chunks > 0 && !s->chunks))
            return qk__nomem(err);
        for (size_t c = 0; c < chunks; c++)
            s->chunks[c].missing = num_heads * qk__chunk_rows_of(part, c);
        part->left += num_heads * part->count + chunks;
        if (part->stored > 0)
            QK_TRY(reserve(sink, block, text, number, stage, part, err));
    }
    block->facts.rows[number] += (int64_t)part->count;
    block->facts.stored[number] += (int64_t)part->stored;
    return QK_OK;
}

qk_status qk__part_get(qk_sink *sink, qk__text_block *block, qk__text *text, int layer,
                       qk_kind kind, qk__part **found, qk_error *err)
{
    size_t number = qk__part_of(layer, kind);
    *found = text->parts[number];
    if (*found || text->ends[number] != QK__PART_WAITS)
        return QK_OK;
    qk__part *part = calloc(1, sizeof *part);
    if (!part)
        return qk__nomem(err);
    qk_status status =
        qk__part_choose(sink, text->example_id, text->tokens, layer, kind, part, err);
    if (status == QK_OK && part->count > 0)
        status = prepare(sink, block, text, number, part, err);
    if (status != QK_OK || part->count == 0) {
        free_part(part);
        text->ends[number] = QK__PART_EMPTY;
        if (status != QK_OK && sink->failure == QK_OK) /* before another thread comes here */
            sink->failure = status;
        return status;
    }
    text->parts[number] = *found = part;
    return QK_OK;
}

void qk__text_free(const qk_sink *sink, qk__text *text)
{
    size_t parts = 2 * (size_t)sink->settings.num_layers;
    for (size_t i = 0; text->parts && i < parts; i++)
        if (text->parts[i])
            free_part(text->parts[i]);
    free(text->parts);
    free(text->ends);
    free(text->attended);
    free(text->line);
    text->parts = NULL;
    text->ends = NULL;
    text->attended = NULL;
    text->line = NULL;
}
