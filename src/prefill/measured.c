/* SPDX-License-Identifier: Apache-2.0 */
/* Measured attention of a run: the sums of each block of queries, which are added in the order of blocks
 * once a layer is done, so that they do not depend on threads; and the tokens of texts. */
#include "prefill/prefill.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/attention.h>

#include "base/buffer.h"
#include "base/error.h"

/* Buckets of rows (qkscope/attention.h) that a block has rows in. */
static int first_bucket(const qk__panel_block *block)
{
    return qk_distance_bin((int64_t)(block->first_panel * QK_LANES));
}

static size_t count_buckets(const qk__prefill_run *run, const qk__panel_block *block)
{
    int64_t end = (int64_t)((block->first_panel + block->panels) * QK_LANES);
    int64_t count = run->sequences[block->sequence].count;
    int last = qk_distance_bin((end < count ? end : count) - 1);
    return (size_t)last - (size_t)first_bucket(block) + 1;
}

static float *outputs_of(const qk__prefill_run *run, const qk__panel_block *block)
{
    return run->measured.outputs +
           block->first_sums * run->measured.heads * (size_t)run->model->config.head_dim;
}

static float *sums_of(const qk__prefill_run *run, const qk__panel_block *block)
{
    return run->measured.sums + block->first_sums * run->measured.heads * QK_ATTENTION_SUMS;
}

/* Of a sequence; before it and behind it are tokens that are none. */
static int32_t *tokens_of(const qk__prefill_run *run, size_t sequence)
{
    return run->measured.tokens + run->first_panel[sequence] * QK_LANES + sequence + 1;
}

/* ---- memory ------------------------------------------------------------------------------ */

/* A block has a bucket, and all but the first few only one: of each other one begins. */
int64_t qk__prefill_measured_bytes(const qk_model *model, bool outputs, int64_t panels,
                                   int64_t blocks)
{
    int64_t buckets = blocks + qk_distance_bin(panels * QK_LANES);
    int64_t values = buckets * model->config.num_q_heads *
                         (QK_ATTENTION_SUMS + (outputs ? model->config.head_dim : 0)) +
                     2 * panels * QK_LANES + model->config.vocab_size;
    return values * (int64_t)sizeof(float) + panels * QK_LANES * (int64_t)sizeof(double);
}

qk_status qk__prefill_init_measured(qk__prefill_run *run, qk_error *err)
{
    qk__prefill_measured *m = &run->measured;
    size_t places = run->num_panels * QK_LANES, buckets = 0;
    for (int layer = 0; layer <= run->last_layer; layer++)
        if (run->wanted[2 * layer].count > m->heads)
            m->heads = run->wanted[2 * layer].count;
    if (!run->settings->attention || m->heads == 0)
        return QK_OK;
    for (size_t i = 0; i < run->num_blocks; i++) {
        run->blocks[i].first_sums = buckets;
        buckets += count_buckets(run, &run->blocks[i]);
    }
    m->size = buckets * m->heads * QK_ATTENTION_SUMS;
    m->sums = qk__calloc(m->size, sizeof *m->sums);
    m->outputs_size =
        run->settings->outputs ? buckets * m->heads * (size_t)run->model->config.head_dim : 0;
    m->outputs = m->outputs_size > 0 ? qk__calloc(m->outputs_size, sizeof *m->outputs) : NULL;
    m->tokens = qk__calloc(places + run->num_sequences, sizeof *m->tokens);
    m->repeats = qk__calloc(places, sizeof *m->repeats);
    m->seen = qk__calloc((size_t)run->model->config.vocab_size, sizeof *m->seen);
    m->logs = qk__calloc(run->longest * QK_LANES + 1, sizeof *m->logs);
    if (!m->sums || (!m->outputs && m->outputs_size > 0) || !m->tokens || !m->repeats ||
        !m->seen || !m->logs)
        return qk__nomem(err);
    for (size_t i = 1; i <= run->longest * QK_LANES; i++)
        m->logs[i] = log((double)i);
    m->window = -1;
    for (size_t s = 0; s < run->num_sequences; s++) {
        int32_t *tokens = tokens_of(run, s);
        size_t end = s + 1 < run->num_sequences ? run->first_panel[s + 1] : run->num_panels;
        size_t count = (size_t)run->sequences[s].count;
        memset(tokens - 1, -1, (1 + (end - run->first_panel[s]) * QK_LANES) * sizeof *tokens);
        memcpy(tokens, run->sequences[s].tokens, count * sizeof *tokens);
    }
    return QK_OK;
}

void qk__prefill_free_measured(qk__prefill_run *run)
{
    free(run->measured.sums);
    free(run->measured.outputs);
    free(run->measured.tokens);
    free(run->measured.repeats);
    free(run->measured.seen);
    free(run->measured.logs);
}

/* ---- a layer ----------------------------------------------------------------------------- */

bool qk__prefill_measures(const qk__prefill_run *run)
{
    return run->settings->attention && qk__prefill_wanted(run, QK_QUERY)->count > 0;
}

/* For each token, how many of its earlier copies it sees. */
static void count_repeats(const qk__prefill_run *run, size_t sequence, int64_t window)
{
    int32_t *seen = run->measured.seen; /* of each token, in the window so far */
    int32_t *repeats = run->measured.repeats + run->first_panel[sequence] * QK_LANES;
    const int32_t *tokens = run->sequences[sequence].tokens;
    int64_t count = run->sequences[sequence].count;
    for (int64_t i = 0; i < count; i++) {
        if (window > 0 && i >= window)
            seen[tokens[i - window]]--;
        repeats[i] = seen[tokens[i]]++;
    }
    for (int64_t i = 0; i < count; i++)
        seen[tokens[i]] = 0;
}

void qk__prefill_start_measuring(qk__prefill_run *run)
{
    qk__prefill_measured *m = &run->measured;
    int64_t window = run->model->layers[run->layer].window;
    memset(m->sums, 0, m->size * sizeof *m->sums);
    for (size_t i = QK_ATTENTION_LOGIT_MAX; i < m->size; i += QK_ATTENTION_SUMS)
        m->sums[i] = -INFINITY;
    if (m->outputs)
        memset(m->outputs, 0, m->outputs_size * sizeof *m->outputs);
    for (size_t s = 0; s < run->num_sequences && window != m->window; s++)
        count_repeats(run, s, window);
    m->window = window;
}

qk__measured_heads qk__prefill_measured_heads(const qk__prefill_run *run,
                                              const qk__panel_block *block)
{
    const qk__wanted_heads *heads = qk__prefill_wanted(run, QK_QUERY);
    return (qk__measured_heads){
        .text = {.tokens = tokens_of(run, block->sequence),
                 .repeats =
                     run->measured.repeats + run->first_panel[block->sequence] * QK_LANES,
                 .logs = run->measured.logs,
                 .count = run->sequences[block->sequence].count,
                 .window = run->model->layers[run->layer].window},
        .heads = heads->heads,
        .count = heads->count,
        .sums = sums_of(run, block),
        .first_bucket = first_bucket(block),
        .num_buckets = count_buckets(run, block),
    };
}

void qk__prefill_measure_outputs(const qk__prefill_run *run, const qk__panel_block *block,
                                 const qk__panels *attended)
{
    const qk__wanted_heads *heads = qk__prefill_wanted(run, QK_QUERY);
    const size_t width = (size_t)run->model->config.head_dim;
    const size_t buckets = count_buckets(run, block), rows = block->panels * QK_LANES;
    const int64_t start = (int64_t)(block->first_panel * QK_LANES);
    float *sums = outputs_of(run, block);
    for (size_t h = 0; h < heads->count; h++)
        for (size_t row = 0; row < rows; row++) {
            const int64_t position = start + (int64_t)row;
            if (position >= run->sequences[block->sequence].count)
                break;
            const size_t bucket = (size_t)(qk_distance_bin(position) - first_bucket(block));
            const float *from = attended->values + row / QK_LANES * attended->step +
                                (size_t)heads->heads[h] * width * QK_LANES + row % QK_LANES;
            float *to = sums + (h * buckets + bucket) * width;
            for (size_t i = 0; i < width; i++)
                to[i] += from[i * QK_LANES];
        }
}

/* Adds a block's sums, [heads][its buckets][width], to those of its text; at `maximum` of width is the larger. */
static void add_block(const qk__prefill_run *run, const qk__panel_block *block,
                      const qk_prefill_attention *text, const float *from, size_t width,
                      size_t maximum, double *sums)
{
    size_t first = (size_t)first_bucket(block);
    size_t n = count_buckets(run, block) * width;
    for (size_t head = 0; head < text->num_heads; head++, from += n) {
        double *to = sums + (head * text->num_buckets + first) * width;
        for (size_t i = 0; i < n; i++)
            to[i] =
                i % width == maximum ? fmax(to[i], (double)from[i]) : to[i] + (double)from[i];
    }
}

qk_status qk__prefill_deliver_measured(const qk__prefill_run *run, qk_error *err)
{
    const qk__wanted_heads *heads = qk__prefill_wanted(run, QK_QUERY);
    const size_t width = run->measured.outputs ? (size_t)run->model->config.head_dim : 0;
    const size_t cells = heads->count * QK_DISTANCE_BINS;
    double *sums = qk__calloc(cells * (QK_ATTENTION_SUMS + width), sizeof *sums);
    double *outputs = sums && width > 0 ? sums + cells * QK_ATTENTION_SUMS : NULL;
    qk_status status = sums ? QK_OK : qk__nomem(err);
    const qk__panel_block *block = run->blocks, *end = block + run->num_blocks;
    for (size_t s = 0; status == QK_OK && s < run->num_sequences; s++) {
        int64_t rows[QK_DISTANCE_BINS] = {0}, count = run->sequences[s].count;
        for (int64_t i = 0; i < count; i++)
            rows[qk_distance_bin(i)]++;
        qk_prefill_attention text = {
            .layer = run->layer,
            .sequence = s,
            .num_heads = heads->count,
            .heads = heads->heads,
            .num_buckets = (size_t)qk_distance_bin(count - 1) + 1,
            .bucket_rows = rows,
            .sums = sums,
            .outputs = outputs,
        };
        memset(sums, 0, cells * (QK_ATTENTION_SUMS + width) * sizeof *sums);
        for (size_t i = 0; i < cells; i++)
            sums[i * QK_ATTENTION_SUMS + QK_ATTENTION_LOGIT_MAX] = -INFINITY;
        for (; block < end && block->sequence == s; block++) {
            add_block(run, block, &text, sums_of(run, block), QK_ATTENTION_SUMS,
                      QK_ATTENTION_LOGIT_MAX, sums);
            if (outputs)
                add_block(run, block, &text, outputs_of(run, block), width, SIZE_MAX, outputs);
        }
        qk_error why = {0};
        status = run->settings->attention(run->settings->user, &text, &why);
        if (status != QK_OK)
            status = qk__fail(err, status, "%s",
                              why.message[0] ? why.message : "stopped by its sink");
    }
    free(sums);
    return status;
}
