/* SPDX-License-Identifier: Apache-2.0 */
/* From panels to rows of heads, and those to the caller: blocks of a sequence in order. */
#include "prefill/prefill.h"

const qk__wanted_heads *qk__prefill_wanted(const qk__prefill_run *run, qk_kind kind)
{
    return &run->wanted[2 * run->layer + (kind == QK_KEY)];
}

/* Features [width][lanes] of a head to rows `step` apart. */
static void transpose(const float *head, size_t width, float *rows, size_t step)
{
    enum { STRIP = 16 };
    for (size_t start = 0; start < width; start += STRIP) {
        size_t end = width - start < STRIP ? width : start + STRIP;
        for (size_t lane = 0; lane < QK_LANES; lane++)
            for (size_t i = start; i < end; i++)
                rows[lane * step + i] = head[i * QK_LANES + lane];
    }
}

void qk__prefill_gather(const qk__prefill_run *run, qk_kind kind, const qk__panels *panels,
                        bool only_wanted, float *rows)
{
    const qk__wanted_heads *wanted = qk__prefill_wanted(run, kind);
    size_t width = (size_t)run->model->config.head_dim, step = wanted->count * width;
    for (size_t p = 0; p < panels->count; p++)
        for (size_t i = 0; i < wanted->count; i++) {
            size_t head = only_wanted ? i : (size_t)wanted->heads[i];
            transpose(panels->values + p * panels->step + head * width * QK_LANES, width,
                      rows + p * QK_LANES * step + i * width, step);
        }
}

bool qk__prefill_stopped(qk__prefill_run *run)
{
    pthread_mutex_lock(&run->lock);
    bool stopped = run->stopped;
    pthread_mutex_unlock(&run->lock);
    return stopped;
}

static size_t *turn_of(qk__prefill_run *run, const qk__panel_block *block, qk_kind kind)
{
    return &run->turns[2 * block->sequence + (kind == QK_KEY)];
}

static qk_status hand_over(const qk__prefill_run *run, const qk__panel_block *block,
                           qk_kind kind, const float *before, const float *after, qk_error *err)
{
    const qk__wanted_heads *wanted = qk__prefill_wanted(run, kind);
    int64_t first = (int64_t)(block->first_panel * QK_LANES);
    int64_t left = run->sequences[block->sequence].count - first;
    int64_t whole = (int64_t)(block->panels * QK_LANES);
    qk_prefill_block out = {
        .layer = run->layer,
        .kind = kind,
        .sequence = block->sequence,
        .first_token = first,
        .num_tokens = left < whole ? left : whole,
        .num_heads = wanted->count,
        .heads = wanted->heads,
        .head_dim = run->model->config.head_dim,
        .rows = before,
    };
    qk_status status = before ? run->settings->sink(run->settings->user, &out, err) : QK_OK;
    if (status == QK_OK && after) {
        out.rotated = true;
        out.rows = after;
        status = run->settings->sink(run->settings->user, &out, err);
    }
    return status;
}

bool qk__prefill_emit(qk__prefill_run *run, size_t number, qk_kind kind, const float *before,
                      const float *after)
{
    const qk__panel_block *block = &run->blocks[number];
    size_t *turn = turn_of(run, block, kind);
    pthread_mutex_lock(&run->lock);
    while (*turn != block->number && !run->stopped)
        pthread_cond_wait(&run->turned, &run->lock);
    bool stopped = run->stopped;
    pthread_mutex_unlock(&run->lock);
    if (stopped)
        return false;

    qk_error error = {0};
    qk_status status = hand_over(run, block, kind, before, after, &error);
    pthread_mutex_lock(&run->lock);
    if (status == QK_OK) {
        *turn += 1;
    } else {
        if (run->failure == QK_OK || number < run->failed_block) {
            run->failed_block = number;
            run->failure = status;
            run->error = error;
        }
        run->stopped = true;
    }
    stopped = run->stopped;
    pthread_cond_broadcast(&run->turned);
    pthread_mutex_unlock(&run->lock);
    return !stopped;
}
