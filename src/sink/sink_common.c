/* SPDX-License-Identifier: Apache-2.0 */
/* What all files of a sink use: names of stages and blocks, failures. */
#include <assert.h>
#include <inttypes.h>

#include "sink/sink.h"

#include "base/context.h"
#include "base/error.h"
#include "sampler/sampler.h"

void qk_sink_settings_default(qk_sink_settings *settings)
{
    assert(settings);
    *settings = (qk_sink_settings){.keep = {.rows = true, .groups = 16}, .shard = {.count = 1}};
    qk__sampler_default(&settings->sampler);
    settings->sampler.type = QK_SAMPLER_ALL;
}

char *qk__stage_folder(const qk_sink *sink, const char *root, int stage)
{
    bool both = sink->stages[QK__POST] && sink->stages[QK__PRE];
    return both ? qk__path_join(root, qk__stage_name(stage)) : qk__strdup(root);
}

size_t qk__head_place(const int *captured, size_t count, int head)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (captured[middle] < head)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && captured[low] == head ? low : count;
}

qk_status qk__sink_ask(qk_sink *sink, const char *what, size_t done, size_t total,
                       qk_error *err)
{
    const qk_sink_settings *s = &sink->settings;
    const qk_progress now = {.what = what, .done = (int64_t)done, .total = (int64_t)total};
    if (!atomic_load(&sink->stopped)) {
        pthread_mutex_lock(&sink->asking);
        if (!qk__tell_progress(&s->context, &now))
            atomic_store(&sink->stopped, true);
        pthread_mutex_unlock(&sink->asking);
    }
    return !atomic_load(&sink->stopped)
               ? QK_OK
               : qk__fail(err, QK_ERR_CANCELLED,
                          "%s: stopped before the capture was complete: run the same again, "
                          "which goes on",
                          s->output);
}

void qk__sink_fail(qk_sink *sink, qk_status status, const qk_error *err)
{
    pthread_mutex_lock(&sink->mutex);
    if (err && !sink->why.message[0])
        sink->why = *err;
    if (sink->failure == QK_OK)
        sink->failure = status;
    pthread_mutex_unlock(&sink->mutex);
}

/* ---- blocks ----------------------------------------------------------------------------- */

/* Each small block reads the weights again and has its own sums; a large block is lost when a run is stopped. The sums
 * of a block are as large as those of the capture: so moments have as few blocks as groups of texts. */
enum { LEAST_TOKENS = 8192, MOST_BLOCKS = 64, USUAL_GROUPS = 16 };

int64_t qk__choose_block(const qk_sink_settings *s)
{
    int64_t size = 1, most = MOST_BLOCKS;
    if (s->keep.moments)
        most = s->keep.groups > 0 ? s->keep.groups : USUAL_GROUPS;
    while (size < s->num_texts &&
           ((s->num_texts + size - 1) / size > most ||
            (s->num_tokens > 0 && (double)s->num_tokens * (double)size <
                                      (double)LEAST_TOKENS * (double)s->num_texts)))
        size *= 2;
    return size;
}

int64_t qk__block_size(const qk_sink *sink, int64_t number)
{
    int64_t left = sink->settings.num_texts - number * sink->block_texts;
    return left < sink->block_texts ? left : sink->block_texts;
}

void qk__block_name(int64_t number, char name[QK__UNIT_NAME_SIZE])
{
    snprintf(name, QK__UNIT_NAME_SIZE, "b%06" PRId64, number);
}
