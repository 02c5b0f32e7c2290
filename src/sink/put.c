/* SPDX-License-Identifier: Apache-2.0 */
/* Takes vectors to the block's file, and to the chunks that are summed. Their place follows from text, layer, kind and
 * position alone, so they may come from any thread in any order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "sink/sink.h"

/* ---- numbers ---------------------------------------------------------------------------- */

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 0x1f, rest = h & 0x3ff;
    if (exponent == 0x1f)
        return from_bits(sign | 0x7f800000 | rest << 13);
    if (exponent > 0)
        return from_bits(sign | (exponent + 112) << 23 | rest << 13);
    float value = (float)rest * 0x1p-24F;
    return sign ? -value : value;
}

static void take_vector(const qk_sink_rows *rows, ptrdiff_t at, size_t dim, float *to)
{
    const uint16_t *halves = (const uint16_t *)rows->data + (rows->type ? at : 0);
    switch (rows->type) {
    case QK_FLOAT32:
        memcpy(to, (const float *)rows->data + at, dim * sizeof *to);
        break;
    case QK_FLOAT16:
        for (size_t i = 0; i < dim; i++)
            to[i] = half_to_float(halves[i]);
        break;
    case QK_BFLOAT16:
        for (size_t i = 0; i < dim; i++)
            to[i] = from_bits((uint32_t)halves[i] << 16);
        break;
    }
}

static bool is_finite(const float *values, size_t count)
{
    bool finite = true;
    for (size_t i = 0; i < count; i++)
        finite &= isfinite(values[i]) != 0;
    return finite;
}

/* ---- which of them are kept ------------------------------------------------------------- */

/* A row that is kept. */
typedef struct match_row {
    size_t row;  /* among the rows that are put */
    size_t kept; /* its place in the part's list */
} match_row;

typedef struct delivery {
    qk_sink *sink;
    const qk_sink_rows *rows;
    qk__text_block *block;
    qk__text *text;
    int64_t example_id, tokens;
    qk__part *part; /* NULL: nothing of it is kept, or */
    bool came;      /* all of it has come */
    bool summed;    /* its sums have come: rows are only those that are stored */
    int stage;
    const int *captured;
    size_t num_captured;
    ptrdiff_t head_stride, row_stride;
    match_row *matches;
    size_t count;
    float *vectors; /* of one head, [count][dim] */
    size_t *full;   /* chunks that these rows complete */
    size_t num_full;
} delivery;

static int64_t position_of(const qk_sink_rows *rows, size_t r)
{
    return rows->positions ? rows->positions[r] : rows->first_position + (int64_t)r;
}

static qk_status match_rows(delivery *d, qk_error *err)
{
    const qk_sink_rows *rows = d->rows;
    const qk__part *part = d->part;
    size_t at = 0, step = part->count;
    d->matches =
        qk__calloc(rows->rows < part->count ? rows->rows : part->count, sizeof *d->matches);
    if (!d->matches)
        return qk__nomem(err);
    for (; step > 0; step /= 2) /* chunks before them */
        while (at + step <= part->count &&
               part->kept[at + step - 1].position < position_of(rows, 0))
            at += step;
    for (size_t r = 0; r < rows->rows; r++) {
        int64_t position = position_of(rows, r);
        if (r > 0 && position <= position_of(rows, r - 1))
            return qk__fail(err, QK_ERR_ARGUMENT, "positions do not ascend: %lld after %lld",
                            (long long)position, (long long)position_of(rows, r - 1));
        while (at < part->count && part->kept[at].position < position)
            at++;
        if (at == part->count || part->kept[at].position != position)
            continue;
        if (d->summed && part->kept[at].row < 0)
            return qk__fail(err, QK_ERR_ARGUMENT,
                            "layer %d: the rows at position %lld of text %lld are in its sums: "
                            "put those of qk_sink_stored_positions",
                            rows->layer, (long long)position, (long long)rows->text);
        d->matches[d->count++] = (match_row){r, at++};
    }
    return QK_OK;
}

static size_t find_head(const delivery *d, size_t i)
{
    int head = d->rows->heads ? d->rows->heads[i] : (int)i;
    return qk__head_place(d->captured, d->num_captured, head);
}

/* ---- what came -------------------------------------------------------------------------- */

static qk_status fail_again(const delivery *d, size_t head, size_t kept, qk_error *err)
{
    return qk__fail(err, QK_ERR_ARGUMENT,
                    "layer %d, %s head %d: the vector at position %lld of text %lld came twice",
                    d->rows->layer, d->rows->kind == QK_QUERY ? "query" : "key",
                    d->captured[head], (long long)d->part->kept[kept].position,
                    (long long)d->rows->text);
}

/* Notes the vectors of a head, and makes room in the chunks. The caller holds the mutex. */
static qk_status mark(delivery *d, size_t head, qk_error *err)
{
    qk__stage_part *s = &d->part->stages[d->stage];
    if ((s->summed != NULL) != d->summed)
        return qk__fail(
            err, QK_ERR_ARGUMENT,
            "layer %d: sums of text %lld came while its rows came: put the sums first",
            d->rows->layer, (long long)d->rows->text);
    for (size_t i = 0; i < d->count; i++) {
        size_t kept = d->matches[i].kept, bit = head * d->part->count + kept;
        size_t c = kept / QK__CHUNK_ROWS;
        if (s->came[bit / 64] >> bit % 64 & 1)
            return fail_again(d, head, kept, err);
        s->came[bit / 64] |= UINT64_C(1) << bit % 64;
        if (!s->chunks || s->chunks[c].vectors)
            continue;
        s->chunks[c].vectors =
            qk__alloc_aligned(d->num_captured * qk__chunk_rows_of(d->part, c),
                              d->sink->settings.head_dim * sizeof(float));
        if (!s->chunks[c].vectors)
            return qk__nomem(err);
    }
    return QK_OK;
}

/* Counts the vectors as there, and notes the chunks that are full now. */
static void count(delivery *d, size_t heads)
{
    qk__stage_part *s = &d->part->stages[d->stage];
    d->part->left -= d->count * heads;
    for (size_t i = 0; s->chunks && heads > 0 && i < d->count; i++) {
        size_t c = d->matches[i].kept / QK__CHUNK_ROWS;
        s->chunks[c].missing -= heads;
        if (s->chunks[c].missing == 0)
            d->full[d->num_full++] = c;
    }
}

/* ---- one head --------------------------------------------------------------------------- */

static qk_status fail_not_finite(const delivery *d, size_t head, size_t kept, qk_error *err)
{
    return qk__fail(err, QK_ERR_DEGENERATE,
                    "layer %d, %s head %d: the vector at position %lld of example %lld is not "
                    "finite: weights of this layer or one before it are damaged (fetch the "
                    "model again), or the numbers overflow",
                    d->rows->layer, d->rows->kind == QK_QUERY ? "query" : "key",
                    d->captured[head], (long long)d->part->kept[kept].position,
                    (long long)d->example_id);
}

/* Where a head's row lies while it is worked on: in its chunk or, without sums, in a buffer. */
static float *vector_of(const delivery *d, size_t head, size_t match)
{
    const qk__chunk_vectors *chunks = d->part->stages[d->stage].chunks;
    size_t dim = d->sink->settings.head_dim, kept = d->matches[match].kept;
    if (!chunks)
        return d->vectors + match * dim;
    size_t c = kept / QK__CHUNK_ROWS, rows = qk__chunk_rows_of(d->part, c);
    return chunks[c].vectors + (head * rows + kept % QK__CHUNK_ROWS) * dim;
}

/* Writes neighbouring rows of the file at once. */
static qk_status store(delivery *d, size_t head, qk_error *err)
{
    const qk__part *part = d->part;
    size_t dim = d->sink->settings.head_dim, filled = 0;
    size_t bytes = dim * sizeof(float);
    int64_t start = part->stages[d->stage].offset + (int64_t)(head * part->stored * bytes);
    float *stored = d->vectors + d->count * dim; /* behind the vectors themselves */
    int64_t first = -1;
    for (size_t i = 0; i < d->count; i++) {
        int64_t row = part->kept[d->matches[i].kept].row;
        if (row < 0)
            continue;
        if (filled > 0 && row != first + (int64_t)filled) {
            QK_TRY(qk__unit_write(&d->block->unit, start + first * (int64_t)bytes, stored,
                                  filled * bytes, err));
            filled = 0;
        }
        if (filled == 0)
            first = row;
        memcpy(stored + filled++ * dim, vector_of(d, head, i), bytes);
    }
    return filled == 0 ? QK_OK
                       : qk__unit_write(&d->block->unit, start + first * (int64_t)bytes, stored,
                                        filled * bytes, err);
}

static qk_status put_head(delivery *d, size_t i, size_t head, qk_error *err)
{
    size_t dim = d->sink->settings.head_dim;
    for (size_t m = 0; m < d->count; m++) {
        const match_row *match = &d->matches[m];
        float *vector = vector_of(d, head, m);
        take_vector(d->rows,
                    (ptrdiff_t)i * d->head_stride + (ptrdiff_t)match->row * d->row_stride, dim,
                    vector);
        if (!is_finite(vector, dim))
            return fail_not_finite(d, head, match->kept, err);
    }
    if (d->part->stored == 0)
        return QK_OK;
    return store(d, head, err);
}

/* ---- all of them ------------------------------------------------------------------------ */

static qk_status check_rows(const qk_sink *sink, const qk_sink_rows *rows, qk_error *err)
{
    QK_TRY(qk__check_heads(sink, rows->layer, rows->kind, rows->heads, rows->num_heads, err));
    if ((unsigned)rows->type > QK_BFLOAT16)
        return qk__fail(err, QK_ERR_ARGUMENT, "type %d: no such type of numbers",
                        (int)rows->type);
    if (rows->rows > 0 && rows->num_heads > 0 && !rows->data)
        return qk__fail(err, QK_ERR_ARGUMENT, "rows without data");
    return QK_OK;
}

/* Checks the first and the last position; those between are checked as they are matched. */
static qk_status check_positions(const qk_sink_rows *rows, int64_t tokens, qk_error *err)
{
    if (rows->rows == 0)
        return QK_OK;
    int64_t first = position_of(rows, 0), last = first;
    if (first >= 0 && first < tokens)
        last = rows->positions || rows->rows <= (uint64_t)(tokens - first)
                   ? position_of(rows, rows->rows - 1)
                   : tokens;
    if (first >= 0 && last >= 0 && last < tokens)
        return QK_OK;
    return qk__fail(err, QK_ERR_ARGUMENT, "position %lld: text %lld has %lld tokens",
                    (long long)(first < 0 ? first : last), (long long)rows->text,
                    (long long)tokens);
}

static void set_strides(delivery *d)
{
    d->head_stride = d->rows->head_stride;
    d->row_stride = d->rows->row_stride;
    if (d->head_stride == 0 && d->row_stride == 0) {
        d->row_stride = (ptrdiff_t)d->sink->settings.head_dim;
        d->head_stride = (ptrdiff_t)(d->rows->rows * d->sink->settings.head_dim);
    }
}

/* The caller holds the mutex. The part stays until qk__part_leave. */
static qk_status enter(delivery *d, qk_error *err)
{
    const qk_sink_rows *rows = d->rows;
    QK_TRY(qk__find_text(d->sink, rows->text, &d->block, &d->text, err));
    d->example_id = d->text->example_id;
    d->tokens = d->text->tokens;
    QK_TRY(check_positions(rows, d->tokens, err));
    QK_TRY(qk__part_get(d->sink, d->block, d->text, rows->layer, rows->kind, &d->part, err));
    size_t number = qk__part_of(rows->layer, rows->kind);
    d->came = d->text->ends[number] == QK__PART_CAME;
    if (d->part) {
        d->part->users++;
        d->summed = d->part->stages[d->stage].summed != NULL;
    }
    return QK_OK;
}

static qk_status begin_delivery(delivery *d, qk_error *err)
{
    set_strides(d);
    d->num_captured = qk__heads_of(d->sink, d->rows->layer, d->rows->kind, &d->captured);
    pthread_mutex_lock(&d->sink->mutex);
    qk_status status = enter(d, err);
    pthread_mutex_unlock(&d->sink->mutex);
    return status;
}

static void leave(delivery *d)
{
    if (!d->part)
        return;
    pthread_mutex_lock(&d->sink->mutex);
    qk__part_leave(d->text, qk__part_of(d->rows->layer, d->rows->kind));
    pthread_mutex_unlock(&d->sink->mutex);
}

/* A complete part takes only rows that are not kept. */
static qk_status check_late(delivery *d, qk_error *err)
{
    const qk_sink_rows *rows = d->rows;
    qk__part part = {0};
    size_t i = 0;
    while (i < rows->num_heads && find_head(d, i) == d->num_captured)
        i++;
    if (i == rows->num_heads)
        return QK_OK;
    qk_status status =
        qk__part_choose(d->sink, d->example_id, d->tokens, rows->layer, rows->kind, &part, err);
    d->part = &part;
    if (status == QK_OK)
        status = match_rows(d, err);
    if (status == QK_OK && d->count > 0)
        status = fail_again(d, find_head(d, i), d->matches[0].kept, err);
    d->part = NULL;
    free(part.kept);
    return status;
}

static qk_status put_heads(delivery *d, size_t *heads, qk_error *err)
{
    qk_sink *sink = d->sink;
    size_t dim = sink->settings.head_dim;
    d->vectors = qk__alloc_aligned(2 * d->count, dim * sizeof *d->vectors);
    d->full = qk__calloc(qk__chunks_of(d->part), sizeof *d->full);
    if (!d->vectors || !d->full)
        return qk__nomem(err);
    for (size_t i = 0; i < d->rows->num_heads; i++) {
        size_t head = find_head(d, i);
        if (head == d->num_captured)
            continue;
        pthread_mutex_lock(&sink->mutex);
        qk_status status = mark(d, head, err);
        pthread_mutex_unlock(&sink->mutex);
        QK_TRY(status);
        QK_TRY(put_head(d, i, head, err));
        ++*heads;
    }
    return QK_OK;
}

static qk_status sum_full(delivery *d, qk_error *err)
{
    const qk_sink_rows *rows = d->rows;
    for (size_t i = 0; i < d->num_full; i++)
        QK_TRY(qk__sum_chunk(d->sink, d->block, d->text, d->part, d->stage, rows->layer,
                             rows->kind, d->full[i], err));
    pthread_mutex_lock(&d->sink->mutex);
    d->part->left -= d->num_full;
    pthread_mutex_unlock(&d->sink->mutex);
    return QK_OK;
}

static qk_status deliver(delivery *d, qk_error *err)
{
    size_t heads = 0;
    if (d->num_captured == 0 || d->rows->rows == 0)
        return QK_OK;
    if (!d->part)
        return d->came ? check_late(d, err) : QK_OK;
    QK_TRY(match_rows(d, err));
    if (d->count == 0)
        return QK_OK;
    QK_TRY(put_heads(d, &heads, err));
    pthread_mutex_lock(&d->sink->mutex);
    count(d, heads);
    pthread_mutex_unlock(&d->sink->mutex);
    return sum_full(d, err);
}

qk_status qk_sink_put(qk_sink *sink, const qk_sink_rows *rows, qk_error *err)
{
    QK_NEED(err, sink, rows);
    delivery d = {.sink = sink, .rows = rows, .stage = rows->before_rope ? QK__PRE : QK__POST};
    qk_status status = check_rows(sink, rows, err);
    if (status == QK_OK && !sink->stages[d.stage])
        return QK_OK;
    if (status == QK_OK)
        status = begin_delivery(&d, err);
    if (status == QK_OK)
        status = deliver(&d, err);
    leave(&d);
    free(d.matches);
    free(d.vectors);
    free(d.full);
    if (status != QK_OK)
        qk__sink_fail(sink, status, err);
    return status;
}
