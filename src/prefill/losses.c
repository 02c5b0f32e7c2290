/* SPDX-License-Identifier: Apache-2.0 */
/* How well the tokens of a run are foretold. The vocabulary goes by in chunks of the output layer, each of which is
 * converted once and meets all tokens; of a token's logits a running softmax is kept, and the one of the
 * token that follows. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/parallel.h"
#include "prefill/prefill.h"
#include "prefill/rounding.h"

static const float IN_LN2 = 0x1.715476p+0f;

/* Of all tokens, [panels][lanes]; logits in units of ln 2. */
typedef struct losses {
    const qk__prefill_run *run;
    qk__matrix matrix;
    qk__norm norm;
    size_t first;  /* word of the chunk in hand */
    float *top;    /* the largest logit so far */
    double *total; /* sum of 2^(logit - top) */
    float *next;   /* logit of the token that follows */
} losses;

static qk__panels hidden_of(const losses *l, const qk__panel_block *block)
{
    size_t step = l->run->sizes.features * QK_LANES;
    size_t first = l->run->first_panel[block->sequence] + block->first_panel;
    return (qk__panels){l->run->x + first * step, step, block->panels};
}

/* The residual stream of a block becomes what the output layer takes. */
static void norm_job(void *context, size_t number, int worker)
{
    const losses *l = context;
    const qk__prefill_run *run = l->run;
    const qk__panels x = hidden_of(l, &run->blocks[number]);
    (void)worker;
    for (size_t p = 0; p < x.count; p++) {
        float *panel = x.values + p * x.step;
        run->kernel->norm(&l->norm, panel, panel);
        if (run->bf16)
            run->bf16->pair_features(panel, l->norm.width, panel);
    }
}

/* Logits as the model has them in its arithmetic, then in units of ln 2. */
static void finish_logits(const qk__prefill_run *run, float *logits, size_t n)
{
    const float cap = (float)run->model->config.logit_cap;
    qk__round_values(run->rounding, logits, n);
    if (cap > 0)
        for (size_t i = 0; i < n; i++) {
            float part = qk__rounded(run->rounding, logits[i] / cap);
            part = qk__rounded(run->rounding, tanhf(part));
            logits[i] = qk__rounded(run->rounding, part * cap);
        }
    for (size_t i = 0; i < n; i++)
        logits[i] *= IN_LN2;
}

/* Notes the logits of tokens that follow, of words first .. first + n - 1. */
static void note_next(const losses *l, const qk__panel_block *block, size_t panel, size_t first,
                      size_t n, const float *logits)
{
    const qk_sequence *sequence = &l->run->sequences[block->sequence];
    const size_t at = (block->first_panel + panel) * QK_LANES;
    float *next = l->next + l->run->first_panel[block->sequence] * QK_LANES + at;
    for (size_t lane = 0; lane < QK_LANES && at + lane + 1 < (size_t)sequence->count; lane++) {
        const size_t word = (size_t)sequence->tokens[at + lane + 1];
        if (first <= word && word - first < n)
            next[lane] = logits[(word - first) * QK_LANES + lane];
    }
}

/* Adds n logits of a panel, in whole tiles, which are used up. */
static void add_logits(const losses *l, size_t place, size_t n, float *logits)
{
    float *top = l->top + place, before[QK_LANES], sum[QK_LANES] = {0};
    const size_t whole = qk__whole_tiles(n);
    for (size_t i = n * QK_LANES; i < whole * QK_LANES; i++)
        logits[i] = -INFINITY;
    memcpy(before, top, sizeof before);
    l->run->kernel->softmax(logits, whole, top, sum, NULL, 0);
    for (size_t lane = 0; lane < QK_LANES; lane++) {
        double *total = &l->total[place + lane];
        if (before[lane] != top[lane])
            *total *= exp2((double)before[lane] - (double)top[lane]);
        *total += (double)sum[lane];
    }
}

static void logits_job(void *context, size_t number, int worker)
{
    losses *l = context;
    const qk__prefill_run *run = l->run;
    const qk__panel_block *block = &run->blocks[number];
    const qk__panels x = hidden_of(l, block);
    const qk__panels y = {qk__prefill_scratch_of(run, worker).gate, QK_DEPTH * QK_LANES,
                          x.count};
    for (size_t at = 0; at < l->matrix.rows; at += QK_DEPTH) {
        const size_t left = l->matrix.rows - at, n = left < QK_DEPTH ? left : QK_DEPTH;
        qk__matrix_multiply(run->kernel, &l->matrix, at, qk__whole_tiles(n), 0,
                            l->matrix.columns, &x, false, &y);
        for (size_t p = 0; p < x.count; p++) {
            float *logits = y.values + p * y.step;
            size_t panel = run->first_panel[block->sequence] + block->first_panel + p;
            finish_logits(run, logits, n * QK_LANES);
            note_next(l, block, p, l->first + at, n, logits);
            add_logits(l, panel * QK_LANES, n, logits);
        }
    }
}

/* ---- the run ----------------------------------------------------------------------------- */

static qk_status init_losses(losses *l, const qk__prefill_run *run, qk_error *err)
{
    const qk__model_config *c = &run->model->config;
    const size_t places = run->num_panels * QK_LANES, hidden = (size_t)c->hidden_size;
    const size_t vocab = (size_t)c->vocab_size;
    *l = (losses){.run = run};
    QK_TRY(qk__matrix_init(&l->matrix, vocab < QK_WORDS ? vocab : QK_WORDS, hidden, err));
    l->norm = (qk__norm){c->norm, c->norm_eps, run->rounding, hidden,
                         qk__calloc(hidden, sizeof(float))};
    l->top = qk__calloc(places, sizeof *l->top);
    l->total = qk__calloc(places, sizeof *l->total);
    l->next = qk__calloc(places, sizeof *l->next);
    if (!l->norm.weight || !l->top || !l->total || !l->next)
        return qk__nomem(err);
    qk__norm_fill(&l->norm, &run->output.norm);
    for (size_t i = 0; i < places; i++)
        l->top[i] = -FLT_MAX;
    return QK_OK;
}

static void free_losses(losses *l)
{
    qk__matrix_free(&l->matrix);
    free(l->norm.weight);
    free(l->top);
    free(l->total);
    free(l->next);
}

static void meet_vocabulary(losses *l)
{
    const qk__prefill_run *run = l->run;
    const qk__linear *all = &run->output.logits;
    const size_t vocab = (size_t)run->model->config.vocab_size;
    qk__parallel_for(run->num_blocks, run->threads, norm_job, l);
    for (l->first = 0; l->first < vocab; l->first += QK_WORDS) {
        const size_t left = vocab - l->first, n = left < QK_WORDS ? left : QK_WORDS;
        const qk__linear part = {
            .weight = qk__tensor_slice(&all->weight, (int64_t)l->first, (int64_t)n)};
        const qk__matrix_source source = {&l->matrix, &part, {0}};
        qk__matrices_fill(&source, 1, run->rounding, run->bf16, run->threads);
        qk__parallel_for(run->num_blocks, run->threads, logits_job, l);
    }
}

/* Into l->next, from its own numbers. */
static qk_status deliver(const losses *l, size_t s, qk_error *err)
{
    static const double ln2 = 0x1.62e42fefa39efp-1;
    const qk__prefill_run *run = l->run;
    const size_t first = run->first_panel[s] * QK_LANES;
    const int64_t count = run->sequences[s].count - 1;
    for (size_t i = first; i < first + (size_t)count; i++)
        l->next[i] =
            (float)(ln2 * ((double)l->top[i] - (double)l->next[i] + log2(l->total[i])));
    if (count == 0)
        return QK_OK;
    qk_error why = {0};
    qk_status status =
        run->settings->loss(run->settings->user, s, l->next + first, count, &why);
    return status == QK_OK ? QK_OK
                           : qk__fail(err, status, "%s",
                                      why.message[0] ? why.message : "stopped by its sink");
}

qk_status qk__prefill_losses(qk__prefill_run *run, qk_error *err)
{
    losses l;
    qk_status status = init_losses(&l, run, err);
    if (status == QK_OK)
        meet_vocabulary(&l);
    for (size_t s = 0; status == QK_OK && s < run->num_sequences; s++)
        status = deliver(&l, s, err);
    free_losses(&l);
    return status;
}
