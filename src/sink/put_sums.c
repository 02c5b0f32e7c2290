/* SPDX-License-Identifier: Apache-2.0 */
/* Sums that the engine has made, in place of rows. They are added as one chunk of their text, when the sums of all its
 * heads are there. */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "sink/sink.h"

typedef struct delivery {
    qk_sink *sink;
    const qk_sink_sums *sums;
    qk__text_block *block;
    qk__text *text;
    qk__part *part;
    int stage;
    const int *captured;
    size_t num_captured;
} delivery;

static const char *kind_name(qk_kind kind)
{
    return kind == QK_QUERY ? "query" : "key";
}

/* ---- what may come ---------------------------------------------------------------------- */

static qk_status check_sums(const qk_sink *sink, const qk_sink_sums *sums, qk_error *err)
{
    QK_TRY(qk__check_heads(sink, sums->layer, sums->kind, sums->heads, sums->num_heads, err));
    if (!sink->settings.keep.moments || sink->settings.keep.rows)
        return qk__fail(
            err, QK_ERR_ARGUMENT,
            "sums go with moments without rows, and this sink keeps %s: put the rows, "
            "or keep \"moments\" or \"moments,reservoir=N\"",
            sink->settings.keep.moments ? "both" : "rows");
    if (sink->settings.keep.first > 0)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "sums do not tell rows of positions below %d apart, as this sink keeps "
                        "them: put the rows, or keep moments without first=%d",
                        sink->settings.keep.first, sink->settings.keep.first);
    bool by_bucket = sums->bucket_sum_x && sums->bucket_sum_xt && sums->bucket_sum_xx;
    if (sums->rows > 0 && sums->num_heads > 0 &&
        (!sums->sum_x || !sums->sum_xt || !sums->sum_xx ||
         (sums->kind == QK_QUERY && !by_bucket)))
        return qk__fail(err, QK_ERR_ARGUMENT, "sums without %s",
                        sums->kind == QK_QUERY ? "numbers, of all rows and by bucket"
                                               : "numbers");
    const int stage = sums->before_rope ? QK__PRE : QK__POST;
    const size_t pairs = qk__part_shape_of(sink, stage, sums->layer, sums->kind).pairs;
    if (sums->sum_abs && pairs > 0 && sums->num_pairs != pairs)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "sum_abs of %zu rotary pairs, and layer %d has %zu", sums->num_pairs,
                        sums->layer, pairs);
    if (!isfinite(sums->origin_t))
        return qk__fail(err, QK_ERR_ARGUMENT, "origin_t is not finite");
    return QK_OK;
}

static qk_status check_rows(const delivery *d, size_t kept, qk_error *err)
{
    if (d->sums->rows == (int64_t)kept)
        return QK_OK;
    return qk__fail(
        err, QK_ERR_ARGUMENT,
        "layer %d, %s heads: sums over %lld rows of text %lld, of which %zu positions "
        "are kept: sum the rows at all positions that the sink keeps, and no others",
        d->sums->layer, kind_name(d->sums->kind), (long long)d->sums->rows,
        (long long)d->sums->text, kept);
}

/* ---- the first sums of a part ----------------------------------------------------------- */

static bool any_came(const qk__stage_part *s, size_t vectors)
{
    for (size_t i = 0; i < vectors / 64 + 1; i++)
        if (s->came[i])
            return true;
    return false;
}

/* Makes chunks for the sums of all heads, as many as the buckets take. The caller holds the mutex. */
static qk_status expect(const delivery *d, qk__stage_part *s, qk_error *err)
{
    const qk__part *part = d->part;
    qk__part_shape shape = qk__part_shape_of(d->sink, d->stage, d->sums->layer, d->sums->kind);
    int64_t *position = qk__calloc(2 * part->count, sizeof *position);
    if (!position)
        return qk__nomem(err);
    int64_t *bucket = position + part->count;
    for (size_t i = 0; i < part->count; i++) {
        position[i] = part->kept[i].position;
        bucket[i] = qk_sampler_bucket(&d->sink->settings.sampler, position[i]);
    }
    const qk__summed_rows rows = {.rows = part->count, .position = position, .bucket = bucket};
    size_t chunks = qk__summed_chunks(&shape, &rows);
    qk_status status = QK_OK;
    for (size_t c = chunks; status == QK_OK && c-- > 0;) {
        qk__waiting *w;
        status = qk__spare_take(d->sink, &w, err);
        if (status != QK_OK)
            break;
        w->text = d->text - d->block->texts;
        w->chunk = c;
        w->last = c + 1 == chunks;
        w->next = s->sums;
        s->sums = w;
        status = qk__chunk_moments_expect(w->moments, &shape, &rows, c, err);
    }
    free(position);
    return status;
}

/* From now on only the stored rows come. The caller holds the mutex. */
static qk_status turn_to_sums(delivery *d, qk__stage_part *s, qk_error *err)
{
    qk__part *part = d->part;
    if (any_came(s, d->num_captured * part->count))
        return qk__fail(
            err, QK_ERR_ARGUMENT,
            "layer %d, %s heads: rows of text %lld came before its sums: a part comes "
            "by rows, or by sums and then the rows that are stored",
            d->sums->layer, kind_name(d->sums->kind), (long long)d->sums->text);
    s->summed = qk__calloc(d->num_captured, sizeof *s->summed);
    if (!s->summed)
        return qk__nomem(err);
    qk_status status = expect(d, s, err);
    if (status != QK_OK) { /* other threads may come before the sink is told */
        qk__waiting_free(&s->sums);
        free(s->summed);
        s->summed = NULL;
        return status;
    }
    part->left -= d->num_captured * (part->count - part->stored) + qk__chunks_of(part);
    part->left += d->num_captured + 1; /* the sums of each head, and the chunk of them all */
    s->unsummed = d->num_captured;
    free(s->chunks);
    s->chunks = NULL;
    return QK_OK;
}

static size_t place_of(const delivery *d, size_t i)
{
    int head = d->sums->heads ? d->sums->heads[i] : (int)i;
    return qk__head_place(d->captured, d->num_captured, head);
}

static bool any_captured(const delivery *d)
{
    size_t i = 0;
    while (i < d->sums->num_heads && place_of(d, i) == d->num_captured)
        i++;
    return i < d->sums->num_heads;
}

/* The caller holds the mutex. The part stays until qk__part_leave. */
static qk_status enter(delivery *d, qk_error *err)
{
    const qk_sink_sums *sums = d->sums;
    QK_TRY(qk__find_text(d->sink, sums->text, &d->block, &d->text, err));
    QK_TRY(qk__part_get(d->sink, d->block, d->text, sums->layer, sums->kind, &d->part, err));
    if (!any_captured(d)) {
        d->part = NULL;
        return QK_OK;
    }
    if (d->part) {
        d->part->users++;
        QK_TRY(check_rows(d, d->part->count, err));
        qk__stage_part *s = &d->part->stages[d->stage];
        return s->summed ? QK_OK : turn_to_sums(d, s, err);
    }
    if (d->text->ends[qk__part_of(sums->layer, sums->kind)] == QK__PART_CAME)
        return qk__fail(err, QK_ERR_ARGUMENT, "layer %d: all %s heads of text %lld came before",
                        sums->layer, kind_name(sums->kind), (long long)sums->text);
    return check_rows(d, 0, err);
}

/* ---- heads ------------------------------------------------------------------------------ */

static qk_status mark(const delivery *d, qk__stage_part *s, size_t place, qk_error *err)
{
    bool twice = s->summed[place];
    s->summed[place] = true;
    if (!twice)
        return QK_OK;
    return qk__fail(err, QK_ERR_ARGUMENT,
                    "layer %d, %s head %d: its sums of text %lld came twice", d->sums->layer,
                    kind_name(d->sums->kind), d->captured[place], (long long)d->sums->text);
}

/* The sums of head i. */
static qk__head_sums head_sums(const delivery *d, size_t i)
{
    const qk_sink_sums *s = d->sums;
    const size_t dim = d->sink->settings.head_dim, at = i * dim;
    qk__head_sums sums = {.origin = s->origin ? s->origin + at : NULL,
                          .origin_t = s->origin_t,
                          .x = s->sum_x + at,
                          .xt = s->sum_xt + at,
                          .xx = s->sum_xx + at * dim,
                          .abs = s->sum_abs ? s->sum_abs + i * s->num_pairs : NULL};
    if (s->kind == QK_QUERY) {
        sums.runs = s->num_buckets;
        sums.run_x = s->bucket_sum_x + at * s->num_buckets;
        sums.run_xt = s->bucket_sum_xt + at * s->num_buckets;
        sums.run_xx = s->bucket_sum_xx + at * s->num_buckets;
    }
    return sums;
}

static qk_status take_head(const delivery *d, const qk__stage_part *s, size_t i, size_t place,
                           qk_error *err)
{
    const qk__head_sums sums = head_sums(d, i);
    for (const qk__waiting *w = s->sums; w; w = w->next) {
        const char *wrong = qk__chunk_moments_take(w->moments, place, &sums);
        if (wrong)
            return qk__fail(err, QK_ERR_DEGENERATE, "layer %d, %s head %d, text %lld: %s",
                            d->sums->layer, kind_name(d->sums->kind), d->captured[place],
                            (long long)d->sums->text, wrong);
    }
    return QK_OK;
}

static qk_status take_heads(delivery *d, qk__stage_part *s, qk_error *err)
{
    size_t taken = 0;
    for (size_t i = 0; i < d->sums->num_heads; i++) {
        size_t place = place_of(d, i);
        if (place == d->num_captured)
            continue;
        pthread_mutex_lock(&d->sink->mutex);
        qk_status status = mark(d, s, place, err);
        pthread_mutex_unlock(&d->sink->mutex);
        QK_TRY(status);
        QK_TRY(take_head(d, s, i, place, err));
        taken++;
    }
    pthread_mutex_lock(&d->sink->mutex);
    s->unsummed -= taken;
    d->part->left -= taken;
    bool full = taken > 0 && s->unsummed == 0;
    pthread_mutex_unlock(&d->sink->mutex);
    if (!full)
        return QK_OK;
    qk__waiting *all = s->sums;
    s->sums = NULL;
    QK_TRY(qk__sums_push(d->sink, d->block, d->stage, d->sums->layer, d->sums->kind, all, err));
    pthread_mutex_lock(&d->sink->mutex);
    d->part->left--;
    pthread_mutex_unlock(&d->sink->mutex);
    return QK_OK;
}

qk_status qk_sink_put_sums(qk_sink *sink, const qk_sink_sums *sums, qk_error *err)
{
    QK_NEED(err, sink, sums);
    delivery d = {.sink = sink, .sums = sums, .stage = sums->before_rope ? QK__PRE : QK__POST};
    qk_status status = check_sums(sink, sums, err);
    if (status == QK_OK && !sink->stages[d.stage])
        return QK_OK;
    if (status == QK_OK) {
        d.num_captured = qk__heads_of(sink, sums->layer, sums->kind, &d.captured);
        pthread_mutex_lock(&sink->mutex);
        status = enter(&d, err);
        pthread_mutex_unlock(&sink->mutex);
    }
    if (status == QK_OK && d.part)
        status = take_heads(&d, &d.part->stages[d.stage], err);
    if (d.part) {
        pthread_mutex_lock(&sink->mutex);
        qk__part_leave(d.text, qk__part_of(sums->layer, sums->kind));
        pthread_mutex_unlock(&sink->mutex);
    }
    if (status != QK_OK)
        qk__sink_fail(sink, status, err);
    return status;
}
