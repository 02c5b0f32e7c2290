/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a sink: checks what is asked for, finds its heads and blocks; and closing it. */
#include "sink/sink.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/parallel.h"
#include "capture/capture_writer.h"

/* ---- opening ---------------------------------------------------------------------------- */

#define MAX_TEXTS (INT64_C(1) << 48)

static qk_status check_model(const qk_sink_settings *s, qk_error *err)
{
    if (s->num_layers < 1 || s->num_layers > QK_MAX_HEAD_NUMBER + 1 || s->num_q_heads < 1 ||
        s->num_q_heads > QK__MAX_PART_HEADS || s->num_k_heads < 1 ||
        s->num_k_heads > s->num_q_heads || s->num_q_heads % s->num_k_heads != 0)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "no model has %d layers of %d query and %d key heads", s->num_layers,
                        s->num_q_heads, s->num_k_heads);
    if (s->head_dim < 1 || s->head_dim > QK_MAX_DIM)
        return qk__fail(err, QK_ERR_ARGUMENT, "head dimension %zu is not in 1..%d", s->head_dim,
                        QK_MAX_DIM);
    for (int l = 0; s->frequencies && l < s->num_layers; l++) {
        const qk_frequencies *layer = &s->frequencies[l];
        if (layer->count > s->head_dim / 2)
            return qk__fail(
                err, QK_ERR_ARGUMENT,
                "layer %d has %zu frequencies: vectors of %zu numbers have room for "
                "%zu rotary pairs",
                l, layer->count, s->head_dim, s->head_dim / 2);
        for (size_t i = 0; i < layer->count; i++)
            if (!qk__is_rope_frequency(layer->values[i]))
                return qk__fail(
                    err, QK_ERR_ARGUMENT,
                    "layer %d: frequency %zu is %g; it has to be a finite number from 0 "
                    "(radians per token; 0: the pair does not turn)",
                    l, i, layer->values[i]);
    }
    return QK_OK;
}

static qk_status check_sink_settings(const qk_sink_settings *s, qk_error *err)
{
    if (!s->output || !*s->output)
        return qk__fail(err, QK_ERR_ARGUMENT, "no output folder given");
    QK_TRY(check_model(s, err));
    QK_TRY(qk_sampler_check(&s->sampler, err));
    if (!s->keep.rows && !s->keep.moments)
        return qk__fail(err, QK_ERR_ARGUMENT, "neither rows nor moments are to be kept");
    if (s->keep.reservoir < 0 || (s->keep.reservoir > 0 && (s->keep.rows || !s->keep.moments)))
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "a reservoir goes with moments, in place of rows");
    if (s->keep.first < 0 || s->keep.first > QK_MOST_FIRST ||
        (s->keep.first > 0 && !s->keep.moments))
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "%d first positions apart: give 0 to %d, of moments", s->keep.first,
                        QK_MOST_FIRST);
    if (s->keep.groups != 0 && (s->keep.groups < 2 || s->keep.groups > QK_MOST_GROUPS))
        return qk__fail(err, QK_ERR_ARGUMENT, "%d groups of texts: give 0, or 2 to %d",
                        s->keep.groups, QK_MOST_GROUPS);
    if (s->num_texts < 0 || s->num_texts > MAX_TEXTS || s->num_tokens < 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "%lld texts with %lld tokens: no such number",
                        (long long)s->num_texts, (long long)s->num_tokens);
    if (s->shard.count < 0 || s->shard.index < 0 ||
        s->shard.index >= (s->shard.count > 0 ? s->shard.count : 1))
        return qk__fail(err, QK_ERR_ARGUMENT, "no shard: %lld of %lld",
                        (long long)s->shard.index, (long long)s->shard.count);
    if (s->shard.count > 1 && s->force)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "each shard would replace what the others have made: remove %s, or "
                        "replace it by a run without shards",
                        s->output);
    if ((unsigned)s->stage > QK_ROPE_BOTH || (unsigned)s->layout > QK_LAYOUT_PACKED)
        return qk__fail(err, QK_ERR_ARGUMENT, "a stage or layout that is not known");
    return QK_OK;
}

/* Refused before the work, not at its end. */
static qk_status check_extra(const qk_sink *sink, qk_error *err)
{
    json_t *extra;
    QK_TRY(qk__extra_keys(sink, &extra, err));
    qk_status status = qk__context(err, qk__capture_check_manifest(extra, err), "extra_json");
    json_decref(extra);
    return status;
}

/* Captured heads of a kind, layer by layer. */
static qk_status list_heads(qk_sink *sink, qk_kind kind, qk_error *err)
{
    const qk_sink_settings *s = &sink->settings;
    const bool *chosen = kind == QK_QUERY ? s->q_heads : s->k_heads;
    size_t heads = (size_t)(kind == QK_QUERY ? s->num_q_heads : s->num_k_heads), count = 0;
    size_t layers = (size_t)s->num_layers;
    sink->heads[kind] = qk__calloc(layers * heads, sizeof(int));
    sink->starts[kind] = qk__calloc(layers + 1, sizeof(size_t));
    if (!sink->heads[kind] || !sink->starts[kind])
        return qk__nomem(err);
    for (size_t l = 0; l < layers; l++) {
        for (size_t h = 0; h < heads; h++)
            if (!chosen || chosen[l * heads + h])
                sink->heads[kind][count++] = (int)h;
        sink->starts[kind][l + 1] = count;
    }
    return QK_OK;
}

static qk_status name_folders(qk_sink *sink, qk_error *err)
{
    sink->partial = qk__path_join(sink->settings.output, "." QK__PARTIAL);
    sink->fresh = sink->partial ? qk__path_join(sink->partial, "new") : NULL;
    sink->units = sink->fresh ? qk__path_join(sink->partial, QK__UNITS_NAME) : NULL;
    return sink->units ? qk__check_links(sink->settings.output, err) : qk__nomem(err);
}

/* Says where several processes came from, for a user who did not ask for them. */
static void tell_share(const qk_sink *sink)
{
    const qk_shard *shard = &sink->settings.shard;
    int64_t own = 0, there = 0;
    for (int64_t b = 0; b < sink->num_blocks; b++) {
        own += qk__is_own(b, shard);
        there += qk__is_own(b, shard) && sink->there[b];
    }
    if (own == 0)
        qk__tell_notice(&sink->settings.context, QK_NOTICE_WARNING,
                        "shard %lld of %lld has nothing to do: the texts make %lld block%s",
                        (long long)shard->index, (long long)shard->count,
                        (long long)sink->num_blocks, sink->num_blocks == 1 ? "" : "s");
    else
        qk__tell_notice(&sink->settings.context, QK_NOTICE_INFO,
                        "shard %lld of %lld (%s): %lld of %lld blocks of texts, %lld of them "
                        "are there",
                        (long long)shard->index, (long long)shard->count,
                        shard->source ? shard->source : "given", (long long)own,
                        (long long)sink->num_blocks, (long long)there);
}

/* Another shard may have put the capture together in the meantime. */
static qk_status open_output(qk_sink *sink, qk_error *err)
{
    qk_status status = qk__output_open(sink, err);
    if (sink->complete || sink->settings.shard.count == 1 ||
        (status != QK_OK && status != QK_ERR_NOT_FOUND) || !qk__is_complete(sink))
        return status;
    sink->complete = true;
    qk__partial_drop(sink->settings.output);
    return QK_OK;
}

static qk_status open_sink(qk_sink *sink, qk_error *err)
{
    const qk_sink_settings *s = &sink->settings;
    sink->threads = qk__count_threads(&s->context);
    sink->stages[QK__POST] = s->stage != QK_ROPE_BEFORE;
    sink->stages[QK__PRE] = s->stage != QK_ROPE_AFTER;
    QK_TRY(check_extra(sink, err));
    QK_TRY(list_heads(sink, QK_QUERY, err));
    QK_TRY(list_heads(sink, QK_KEY, err));
    if (sink->starts[QK_QUERY][s->num_layers] + sink->starts[QK_KEY][s->num_layers] == 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "no head is to be captured");
    QK_TRY(qk__order_texts(sink, err));
    sink->block_texts = qk__choose_block(s);
    sink->num_blocks = (s->num_texts + sink->block_texts - 1) / sink->block_texts;
    if (sink->num_blocks > 0 &&
        !(sink->there = qk__calloc((size_t)sink->num_blocks, sizeof *sink->there)))
        return qk__nomem(err);
    QK_TRY(qk__sink_identify(sink, err));
    QK_TRY(name_folders(sink, err));
    QK_TRY(open_output(sink, err));
    if (!sink->complete && s->shard.count > 1)
        tell_share(sink);
    return QK_OK;
}

qk_status qk_sink_open(qk_sink **sink, const qk_sink_settings *settings, qk_error *err)
{
    QK_NEED(err, sink);
    *sink = NULL;
    QK_NEED(err, settings);
    return qk__sink_open(sink, settings, NULL, err);
}

qk_status qk__sink_open(qk_sink **sink, const qk_sink_settings *settings, const char *merging,
                        qk_error *err)
{
    *sink = NULL;
    QK_TRY(check_sink_settings(settings, err));
    qk_sink *s = calloc(1, sizeof *s);
    if (!s)
        return qk__nomem(err);
    s->settings = *settings;
    if (s->settings.shard.count == 0)
        s->settings.shard.count = 1;
    s->merging = merging != NULL;
    snprintf(s->ids_hash, sizeof s->ids_hash, "%s", merging ? merging : "");
    s->place.lock = s->end = -1;
    if (pthread_mutex_init(&s->mutex, NULL) != 0) {
        free(s);
        return qk__nomem(err);
    }
    pthread_mutex_init(&s->asking, NULL); /* never fails with these attributes */
    qk_status status = open_sink(s, err);
    if (status != QK_OK)
        qk_sink_close(&s);
    *sink = s;
    return status;
}

/* What cannot be captured would fail again: without finished blocks nothing is left. What other shards work on stays. */
static void drop_nothing(qk_sink *sink)
{
    bool any = !sink->began || sink->failure != QK_ERR_DEGENERATE ||
               (sink->settings.shard.count > 1 && !sink->empty);
    for (int64_t b = 0; b < sink->num_blocks && !any; b++)
        any = sink->there[b];
    if (any)
        return;
    qk__partial_drop(sink->settings.output);
    rmdir(sink->settings.output); /* stays unless it is empty */
}

void qk_sink_close(qk_sink **sink)
{
    assert(sink);
    qk_sink *s = *sink;
    if (!s)
        return;
    while (s->open) {
        qk__text_block *block = s->open;
        s->open = block->next;
        qk__text_block_free(s, block);
    }
    qk__waiting_free(&s->spare);
    drop_nothing(s);
    for (int kind = QK_QUERY; kind <= QK_KEY; kind++) {
        free(s->heads[kind]);
        free(s->starts[kind]);
    }
    json_decref(s->identity);
    free(s->there);
    free(s->order);
    free(s->partial);
    free(s->fresh);
    free(s->units);
    if (s->end >= 0)
        close(s->end);
    qk__place_release(&s->place);
    pthread_mutex_destroy(&s->asking);
    pthread_mutex_destroy(&s->mutex);
    free(s);
    *sink = NULL;
}

/* ---- what is wanted --------------------------------------------------------------------- */

bool qk_sink_is_complete(const qk_sink *sink)
{
    assert(sink);
    return sink->complete;
}

int64_t qk_sink_texts_before(const qk_sink *sink, int64_t *tokens)
{
    assert(sink);
    if (tokens)
        *tokens = sink->tokens_before;
    return sink->texts_before;
}
