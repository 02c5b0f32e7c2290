/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that are open, from their beginning to their end, when all that is kept of them has come. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json_build.h"
#include "sink/sink.h"

/* ---- beginning -------------------------------------------------------------------------- */

static json_t *text_or_empty(const char *text)
{
    return qk__json_text(text ? text : "");
}

static char *make_line(const qk_sink_text *t)
{
    json_t *line = json_pack("{s:I, s:o, s:o, s:I, s:b, s:I, s:I}", "example_id",
                             (json_int_t)t->example_id, "source", text_or_empty(t->source),
                             "source_id", text_or_empty(t->source_id), "tokens",
                             (json_int_t)t->tokens, "truncated", t->truncated, "window",
                             (json_int_t)t->window, "first_token", (json_int_t)t->first_token);
    char *dump = qk__json_dumps(line, JSON_COMPACT);
    json_decref(line);
    return dump;
}

static qk_status begin(qk_sink *sink, const qk_sink_text *t, qk_error *err)
{
    size_t parts = 2 * (size_t)sink->settings.num_layers;
    qk__text_block *block;
    QK_TRY(qk__open_block(sink, t->number, &block, err));
    qk__text *text = &block->texts[t->number - block->first];
    if (text->state != QK__TEXT_WAITS)
        return qk__fail(err, QK_ERR_ARGUMENT, "text %lld is begun twice", (long long)t->number);
    *text = (qk__text){.state = QK__TEXT_OPEN,
                       .example_id = t->example_id,
                       .tokens = t->tokens,
                       .ids = t->ids,
                       .line = make_line(t),
                       .parts = qk__calloc(parts, sizeof *text->parts),
                       .is_done = qk__calloc(parts, sizeof *text->is_done)};
    return text->line && text->parts && text->is_done ? QK_OK : qk__nomem(err);
}

qk_status qk_sink_begin(qk_sink *sink, const qk_sink_text *text, qk_error *err)
{
    QK_NEED(err, sink, text);
    if (!qk_sink_wants(sink, text->number) || text->tokens < 0)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "text %lld with %lld tokens is not wanted: there are %lld texts, and "
                        "this process has its shard of them",
                        (long long)text->number, (long long)text->tokens,
                        (long long)sink->settings.num_texts);
    pthread_mutex_lock(&sink->mutex);
    qk_status status = begin(sink, text, err);
    pthread_mutex_unlock(&sink->mutex);
    if (status != QK_OK)
        qk__sink_fail(sink, status);
    return status;
}

static qk_status find(qk_sink *sink, int64_t number, qk__text_block **found, qk__text **text,
                      qk_error *err)
{
    qk__text_block *block = sink->open;
    while (block && (number < block->first || number >= block->first + block->count))
        block = block->next;
    *found = block;
    *text = block ? &block->texts[number - block->first] : NULL;
    if (!block || (*text)->state != QK__TEXT_OPEN)
        return qk__fail(err, QK_ERR_ARGUMENT, "text %lld is not open", (long long)number);
    return QK_OK;
}

qk_status qk__find_text(qk_sink *sink, int64_t number, qk__text_block **block, qk__text **text,
                        qk_error *err)
{
    pthread_mutex_lock(&sink->mutex);
    qk_status status = find(sink, number, block, text, err);
    pthread_mutex_unlock(&sink->mutex);
    return status;
}

/* ---- positions -------------------------------------------------------------------------- */

static qk_status check_part(const qk_sink *sink, int layer, qk_kind kind, qk_error *err)
{
    if (layer < 0 || layer >= sink->settings.num_layers || (kind != QK_QUERY && kind != QK_KEY))
        return qk__fail(err, QK_ERR_ARGUMENT, "layer %d: the model has %d", layer,
                        sink->settings.num_layers);
    return QK_OK;
}

static qk_status list_positions(const qk__part *part, int64_t **positions, size_t *count,
                                qk_error *err)
{
    if (part->count == 0)
        return QK_OK;
    *positions = qk__calloc(part->count, sizeof **positions);
    if (!*positions)
        return qk__nomem(err);
    for (size_t i = 0; i < part->count; i++)
        (*positions)[i] = part->kept[i].position;
    *count = part->count;
    return QK_OK;
}

qk_status qk_sink_positions(qk_sink *sink, int64_t number, int layer, qk_kind kind,
                            int64_t **positions, size_t *count, qk_error *err)
{
    QK_NEED(err, positions);
    *positions = NULL;
    QK_NEED(err, sink, count);
    qk__text_block *block;
    qk__text *text;
    qk__part part = {0};
    *count = 0;
    QK_TRY(check_part(sink, layer, kind, err));
    QK_TRY(qk__find_text(sink, number, &block, &text, err));
    qk_status status =
        qk__choose_positions(sink, text->example_id, text->tokens, layer, kind, &part, err);
    if (status == QK_OK)
        status = list_positions(&part, positions, count, err);
    free(part.kept);
    return status;
}

/* ---- ending ----------------------------------------------------------------------------- */

static qk_status fail_missing(const qk_sink *sink, int64_t text, int layer, qk_kind kind,
                              const qk__part *part, qk_error *err)
{
    const int *heads;
    int stages = sink->stages[QK__POST] + sink->stages[QK__PRE];
    size_t all = (size_t)stages * part->count * qk__heads_of(sink, layer, kind, &heads);
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "layer %d: %zu of %zu vectors of its %s in text %lld came", layer,
                    all > part->left ? all - part->left : 0, all,
                    kind == QK_QUERY ? "queries" : "keys", (long long)text);
}

static qk_status check_all_came(qk_sink *sink, qk__text_block *block, qk__text *text,
                                int64_t number, qk_error *err)
{
    for (int layer = 0; layer < sink->settings.num_layers; layer++)
        for (int kind = QK_QUERY; kind <= QK_KEY; kind++) {
            qk__part *part;
            QK_TRY(qk__part_get(sink, block, text, layer, (qk_kind)kind, &part, err));
            if (part)
                return fail_missing(sink, number, layer, (qk_kind)kind, part, err);
        }
    return QK_OK;
}

static qk_status end(qk_sink *sink, int64_t number, qk__text_block **block, qk_error *err)
{
    qk__text *text;
    QK_TRY(find(sink, number, block, &text, err));
    QK_TRY(check_all_came(sink, *block, text, number, err));
    text->state = QK__TEXT_DONE;
    text->ids = NULL;
    free(text->parts);
    free(text->is_done);
    text->parts = NULL;
    text->is_done = NULL;
    return QK_OK;
}

/* Takes a complete block out of the list of those that are open. */
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
    qk_status status = end(sink, number, &block, err);
    pthread_mutex_unlock(&sink->mutex);
    if (status == QK_OK && sink->settings.keep.moments)
        status = qk__sums_follow(sink, block, err);
    pthread_mutex_lock(&sink->mutex);
    /* Counted when its sums are in, so nobody else is in the block when it is finished. */
    if (status == QK_OK)
        last = close_if_last(sink, block);
    pthread_mutex_unlock(&sink->mutex);
    if (last)
        status = qk__block_publish(sink, block, err);
    if (status != QK_OK)
        qk__sink_fail(sink, status);
    return status;
}
