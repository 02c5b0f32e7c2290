/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a sink: when all blocks are there, one process makes the captures from them. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/context.h"
#include "base/error.h"
#include "sink/sink.h"

/* All blocks of this shard have to be there. */
static qk_status check_own(const qk_sink *sink, qk_error *err)
{
    int64_t first = -1, blocks = 0, texts = 0;
    for (int64_t b = sink->num_blocks; b-- > 0;) {
        if (!qk__is_own(b, &sink->settings.shard) || sink->there[b])
            continue;
        first = qk__text_at(sink, b * sink->block_texts);
        texts += qk__block_size(sink, b);
        blocks++;
    }
    if (blocks == 0)
        return QK_OK;
    if (texts == 1)
        return qk__fail(err, QK_ERR_INCONSISTENT, "text %lld was not put into the sink",
                        (long long)first);
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "%lld texts from number %lld on were not %sput into the sink",
                    (long long)texts, (long long)first, texts > blocks ? "all " : "");
}

/* The bytes of a file. 0 where it is missing, or the same as before, since heads may share a file. */
static int64_t bytes_of(const char *path, const char *before)
{
    struct stat st;
    bool counted = before && path && strcmp(path, before) == 0;
    return path && !counted && stat(path, &st) == 0 ? st.st_size : 0;
}

/* Counts what a finished capture has. Neighbouring heads share a layer, not a kind. */
static void count_capture(const char *folder, qk_sink_outcome *there)
{
    qk_capture *capture;
    const char *rows[2] = {NULL}, *moments = NULL;
    if (qk_capture_open(&capture, folder, "", NULL) != QK_OK) /* others may lie deeper */
        return;
    there->heads = qk_capture_num_heads(capture);
    for (size_t i = 0; i < qk_capture_num_heads(capture); i++) {
        const qk_head *head = qk_capture_head(capture, i);
        const char *file = head->num_files > 0 ? head->files[0] : NULL;
        there->rows += head->rows;
        there->summed += head->summed;
        there->bytes += bytes_of(file, rows[head->id.kind]) + bytes_of(head->moments, moments);
        rows[head->id.kind] = file;
        moments = head->moments;
    }
    qk_capture_close(&capture);
}

/* Counts the captures of a complete run, made by this process or another. */
static void count_captures(const qk_sink *sink, qk_sink_outcome *outcome)
{
    qk_sink_outcome there = {0};
    for (int stage = 0; stage < QK__STAGES; stage++) {
        char *folder = qk__stage_folder(sink, sink->settings.output, stage);
        if (folder && sink->stages[stage])
            count_capture(folder, &there);
        free(folder);
    }
    outcome->heads = there.heads;
    outcome->rows = there.rows;
    outcome->summed = there.summed;
    outcome->bytes = there.bytes;
}

static qk_status put_together(qk_sink *sink, qk_sink_outcome *outcome, qk_error *err)
{
    qk_status status = qk__write_captures(sink, err);
    if (status == QK_ERR_DEGENERATE) { /* a second attempt would end the same way */
        for (int64_t b = 0; b < sink->num_blocks; b++)
            sink->there[b] = false;
        sink->began = sink->empty = true;
        sink->failure = status;
    }
    QK_TRY(status);
    QK_TRY(qk__output_publish(sink, err));
    outcome->complete = true;
    return QK_OK;
}

/* Whether this process may put the capture together: then nobody else may until it closes the sink. */
static bool may_end(qk_sink *sink)
{
    return sink->alone || qk__place_try(sink->partial, &sink->end);
}

static qk_status count_blocks(qk_sink *sink, qk_sink_outcome *outcome, qk_error *err)
{
    QK_TRY(qk__blocks_look(sink, err)); /* other processes may have added blocks */
    outcome->texts_there = sink->texts_before;
    outcome->blocks_there = 0;
    for (int64_t b = 0; b < sink->num_blocks; b++)
        outcome->blocks_there += sink->there[b];
    return QK_OK;
}

/* Of several processes that see all blocks one does the work; if it dies, the next one does. Where a file system has
 * no locks there may be two: they write the same bytes. */
static qk_status end_capture(qk_sink *sink, qk_sink_outcome *outcome, qk_error *err)
{
    outcome->blocks = outcome->blocks_there = sink->num_blocks;
    outcome->texts_there = sink->settings.num_texts;
    outcome->complete = sink->complete;
    if (sink->complete)
        return QK_OK;
    QK_TRY(count_blocks(sink, outcome, err));
    if (outcome->blocks_there < sink->num_blocks)
        return QK_OK;
    if (may_end(sink))
        return put_together(sink, outcome, err);
    outcome->complete = qk__is_complete(sink);
    if (!outcome->complete)
        qk__tell_notice(&sink->settings.context, QK_NOTICE_INFO,
                        "another process puts the capture together; if it dies: qkscope merge "
                        "%s",
                        sink->settings.output);
    return QK_OK;
}

qk_status qk__sink_end(qk_sink *sink, qk_sink_outcome *outcome, qk_error *err)
{
    qk_status status = end_capture(sink, outcome, err);
    /* A block that is gone was used by the process that put all together. */
    if (status != QK_OK && (sink->alone || !qk__is_complete(sink)))
        return status;
    outcome->complete |= status != QK_OK;
    if (outcome->complete)
        count_captures(sink, outcome);
    return QK_OK;
}

static qk_status finish_capture(qk_sink *sink, qk_sink_outcome *outcome, qk_error *err)
{
    if (sink->failure != QK_OK)
        return qk__fail(err, QK_ERR_ARGUMENT, "%s",
                        sink->why.message[0] ? sink->why.message
                                             : "the sink has failed before");
    if (!sink->complete)
        QK_TRY(check_own(sink, err));
    return qk__sink_end(sink, outcome, err);
}

qk_status qk_sink_finish(qk_sink **sink, qk_sink_outcome *outcome, qk_error *err)
{
    QK_NEED(err, sink);
    QK_NEED(err, *sink);
    if (!outcome)
        qk_sink_close(sink); /* cannot be used any more */
    QK_NEED(err, outcome);
    *outcome = (qk_sink_outcome){0};
    qk_status status = finish_capture(*sink, outcome, err);
    qk_sink_close(sink);
    return status;
}
