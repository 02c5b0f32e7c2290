/* SPDX-License-Identifier: Apache-2.0 */
/* Open texts, from their beginning until all that is kept of them has come. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json_build.h"
#include "sink/sink.h"

/* After a failure nothing is taken, so that no faulty block is finished. */
static qk_status fail_again(const qk_sink *sink, qk_error *err)
{
    const char *why = sink->why.message[0] ? sink->why.message : "the sink has failed before";
    return qk__fail(err, sink->failure, "%s", why);
}

/* ---- beginning -------------------------------------------------------------------------- */

static json_t *text_or_empty(const char *text)
{
    return qk__json_text(text ? text : "");
}

static int64_t text_id_of(const qk_sink *sink, const qk_sink_text *t)
{
    return sink->settings.text_ids ? sink->settings.text_ids[t->number] : t->example_id;
}

static char *make_line(const qk_sink *sink, const qk_sink_text *t)
{
    const int64_t text_id = text_id_of(sink, t);
    json_t *line = json_pack("{s:I, s:o, s:o, s:I, s:b, s:I, s:I}", "example_id",
                             (json_int_t)t->example_id, "source", text_or_empty(t->source),
                             "source_id", text_or_empty(t->source_id), "tokens",
                             (json_int_t)t->tokens, "truncated", t->truncated, "window",
                             (json_int_t)t->window, "first_token", (json_int_t)t->first_token);
    if (text_id != t->example_id)
        line = qk__json_set(line, "text_id", json_integer((json_int_t)text_id));
    if (t->checksum)
        line = qk__json_set(line, "tokens_xxh3", json_sprintf("%016" PRIx64, *t->checksum));
    char *dump = qk__json_dumps(line, JSON_COMPACT);
    json_decref(line);
    return dump;
}

static qk_status begin_text(qk_sink *sink, const qk_sink_text *t, qk_error *err)
{
    size_t parts = 2 * (size_t)sink->settings.num_layers;
    qk__text_block *block;
    if (sink->failure != QK_OK)
        return fail_again(sink, err);
    if (!qk_sink_wants(sink, t->number) || t->tokens < 0)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "text %lld with %lld tokens is not wanted: there are %lld texts, and "
                        "this process has its shard of them",
                        (long long)t->number, (long long)t->tokens,
                        (long long)sink->settings.num_texts);
    QK_TRY(qk__open_block(sink, t->number, &block, err));
    qk__text *text = qk__text_of(sink, block, t->number);
    if (text->state != QK__TEXT_WAITS)
        return qk__fail(err, QK_ERR_ARGUMENT, "text %lld is begun twice", (long long)t->number);
    const int64_t next = qk__text_at(sink, block->first + block->begun);
    if (t->number != next)
        return qk__fail(
            err, QK_ERR_ARGUMENT,
            "text %lld is begun before text %lld: texts of a block come in the order "
            "of qk_sink_next, blocks in any",
            (long long)t->number, (long long)next);
    block->begun++;
    *text = (qk__text){.state = QK__TEXT_OPEN,
                       .number = t->number,
                       .example_id = t->example_id,
                       .text_id = text_id_of(sink, t),
                       .tokens = t->tokens,
                       .ids = t->ids,
                       .line = make_line(sink, t),
                       .parts = qk__calloc(parts, sizeof *text->parts),
                       .ends = qk__calloc(parts, sizeof *text->ends)};
    const bool attention = sink->settings.keep.attention;
    if (attention)
        text->attended = qk__calloc((size_t)sink->settings.num_layers, sizeof *text->attended);
    return text->line && text->parts && text->ends && (text->attended || !attention)
               ? QK_OK
               : qk__nomem(err);
}

qk_status qk_sink_begin(qk_sink *sink, const qk_sink_text *text, qk_error *err)
{
    QK_NEED(err, sink, text);
    pthread_mutex_lock(&sink->mutex);
    qk_status status = begin_text(sink, text, err);
    pthread_mutex_unlock(&sink->mutex);
    if (status != QK_OK)
        qk__sink_fail(sink, status, err);
    return status;
}

static bool is_done(const qk_sink *sink, const qk__text_block *block, int64_t number)
{
    if (number < 0 || number >= sink->settings.num_texts)
        return false;
    return block ? qk__text_of(sink, block, number)->state == QK__TEXT_DONE
                 : sink->there[qk_sink_block(sink, number)];
}

qk_status qk__find_text(qk_sink *sink, int64_t number, qk__text_block **found, qk__text **text,
                        qk_error *err)
{
    const int64_t wanted = qk_sink_block(sink, number);
    qk__text_block *block = sink->open;
    while (block && block->number != wanted)
        block = block->next;
    *found = block;
    *text = block ? qk__text_of(sink, block, number) : NULL;
    qk_status status = sink->failure;
    if (status != QK_OK) {
        (void)fail_again(sink, err);
    } else if (!block || (*text)->state != QK__TEXT_OPEN) {
        status = QK_ERR_ARGUMENT;
        (void)qk__fail(err, status, "text %lld is not open: %s", (long long)number,
                       is_done(sink, block, number) ? "it is done, and takes no more"
                                                    : "begin it before anything of it comes");
    }
    return status;
}

/* ---- positions -------------------------------------------------------------------------- */

qk_status qk__check_part(const qk_sink *sink, int layer, qk_kind kind, qk_error *err)
{
    if (layer < 0 || layer >= sink->settings.num_layers || (kind != QK_QUERY && kind != QK_KEY))
        return qk__fail(
            err, QK_ERR_ARGUMENT,
            "layer %d, kind %d: the model has %d layers, of queries (0) and keys (1)", layer,
            (int)kind, sink->settings.num_layers);
    return QK_OK;
}

qk_status qk__check_heads(const qk_sink *sink, int layer, qk_kind kind, const int *heads,
                          size_t count, qk_error *err)
{
    QK_TRY(qk__check_part(sink, layer, kind, err));
    int limit = kind == QK_QUERY ? sink->settings.num_q_heads : sink->settings.num_k_heads;
    for (size_t i = 0; i < count; i++) {
        int head = heads ? heads[i] : (int)i;
        if (head < 0 || head >= limit)
            return qk__fail(err, QK_ERR_ARGUMENT, "head %d: the model has %d of that kind",
                            head, limit);
    }
    return QK_OK;
}

static qk_status list_positions(const qk__part *part, bool stored, int64_t **positions,
                                size_t *count, qk_error *err)
{
    if ((stored ? part->stored : part->count) == 0)
        return QK_OK;
    *positions = qk__calloc(part->count, sizeof **positions);
    if (!*positions)
        return qk__nomem(err);
    for (size_t i = 0; i < part->count; i++)
        if (!stored || part->kept[i].row >= 0)
            (*positions)[(*count)++] = part->kept[i].position;
    return QK_OK;
}

static qk_status find_positions(qk_sink *sink, int64_t number, int layer, qk_kind kind,
                                bool stored, int64_t **positions, size_t *count, qk_error *err)
{
    qk__text_block *block;
    qk__text *text;
    qk__part part = {0};
    *count = 0;
    QK_TRY(qk__check_part(sink, layer, kind, err));
    int64_t example_id = 0, tokens = 0;
    pthread_mutex_lock(&sink->mutex);
    qk_status status = qk__find_text(sink, number, &block, &text, err);
    if (status == QK_OK) {
        example_id = text->example_id;
        tokens = text->tokens;
    }
    pthread_mutex_unlock(&sink->mutex);
    if (status == QK_OK)
        status = qk__part_choose(sink, example_id, tokens, layer, kind, &part, err);
    if (status == QK_OK)
        status = list_positions(&part, stored, positions, count, err);
    free(part.kept);
    return status;
}

qk_status qk_sink_positions(qk_sink *sink, int64_t number, int layer, qk_kind kind,
                            int64_t **positions, size_t *count, qk_error *err)
{
    QK_NEED(err, positions);
    *positions = NULL;
    QK_NEED(err, sink, count);
    return find_positions(sink, number, layer, kind, false, positions, count, err);
}

qk_status qk_sink_stored_positions(qk_sink *sink, int64_t number, int layer, qk_kind kind,
                                   int64_t **positions, size_t *count, qk_error *err)
{
    QK_NEED(err, positions);
    *positions = NULL;
    QK_NEED(err, sink, count);
    return find_positions(sink, number, layer, kind, true, positions, count, err);
}

/* ---- ending ----------------------------------------------------------------------------- */

static size_t count_came(const qk__stage_part *s, size_t vectors)
{
    size_t came = 0;
    for (size_t i = 0; s->came && i < vectors; i++)
        came += s->came[i / 64] >> i % 64 & 1;
    return came;
}

static qk_status fail_missing(const qk_sink *sink, int64_t text, int layer, qk_kind kind,
                              const qk__part *part, qk_error *err)
{
    const int *heads;
    size_t num_heads = qk__heads_of(sink, layer, kind, &heads), all = 0, came = 0;
    for (int stage = 0; stage < QK__STAGES; stage++) {
        const qk__stage_part *s = &part->stages[stage];
        if (s->unsummed > 0)
            return qk__fail(
                err, QK_ERR_INCONSISTENT,
                "layer %d: the sums of %zu of %zu heads of its %s in text %lld came", layer,
                num_heads - s->unsummed, num_heads, kind == QK_QUERY ? "queries" : "keys",
                (long long)text);
        if (sink->stages[stage])
            all += num_heads * (s->summed ? part->stored : part->count);
        came += count_came(s, num_heads * part->count);
    }
    if (part->left == 0)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "text %lld is not done: rows are still being put", (long long)text);
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "layer %d: %zu of %zu vectors of its %s in text %lld came%s", layer, came,
                    all, kind == QK_QUERY ? "queries" : "keys", (long long)text,
                    !sink->stages[QK__PRE]    ? "; those before RoPE are passed over here"
                    : !sink->stages[QK__POST] ? "; those after RoPE are passed over here"
                                              : "");
}

static qk_status check_all_came(qk_sink *sink, qk__text_block *block, qk__text *text,
                                int64_t number, qk_error *err)
{
    const int *heads;
    for (int layer = 0; text->attended && layer < sink->settings.num_layers; layer++)
        if (!text->attended[layer] && text->tokens > 0 &&
            qk__heads_of(sink, layer, QK_QUERY, &heads) > 0)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "layer %d: sums of the attention in text %lld did not come", layer,
                            (long long)number);
    for (int layer = 0; layer < sink->settings.num_layers; layer++)
        for (int kind = QK_QUERY; kind <= QK_KEY; kind++) {
            qk__part *part;
            QK_TRY(qk__part_get(sink, block, text, layer, (qk_kind)kind, &part, err));
            if (part)
                return fail_missing(sink, number, layer, (qk_kind)kind, part, err);
        }
    return QK_OK;
}

static qk_status end_text(qk_sink *sink, int64_t number, qk__text_block **block, qk_error *err)
{
    qk__text *text;
    QK_TRY(qk__find_text(sink, number, block, &text, err));
    QK_TRY(check_all_came(sink, *block, text, number, err));
    text->state = QK__TEXT_DONE;
    text->ids = NULL;
    free(text->parts);
    free(text->ends);
    free(text->attended);
    text->parts = NULL;
    text->ends = NULL;
    text->attended = NULL;
    return QK_OK;
}

/* Takes a complete block out of the list of open blocks. */
static bool close_if_last(qk_sink *sink, qk__text_block *block)
{
    if (++block->done < block->count)
        return false;
    qk__text_block **at = &sink->open;
    while (*at != block)
        at = &(*at)->next;
    *at = block->next;
    return true;
}

qk_status qk_sink_text_done(qk_sink *sink, int64_t number, qk_error *err)
{
    QK_NEED(err, sink);
    qk__text_block *block = NULL;
    bool last = false;
    pthread_mutex_lock(&sink->mutex);
    qk_status status = end_text(sink, number, &block, err);
    pthread_mutex_unlock(&sink->mutex);
    if (status == QK_OK && qk__keeps_sums(sink))
        status = qk__sums_follow(sink, block, err);
    pthread_mutex_lock(&sink->mutex);
    /* Counted when the sums are in, so that nobody else uses the block when it is finished. */
    if (status == QK_OK)
        last = close_if_last(sink, block);
    pthread_mutex_unlock(&sink->mutex);
    if (last)
        status = qk__block_publish(sink, block, err);
    if (status != QK_OK)
        qk__sink_fail(sink, status, err);
    return status;
}
