/* SPDX-License-Identifier: Apache-2.0 */
/* How well the tokens of a run are predicted. The vocabulary goes by in chunks of the output layer, each of which is
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
static const double LN2 = 0x1.62e42fefa39efp-1;

/* Of all tokens, [panels][lanes]; logits in units of ln 2. */
typedef struct losses {
    const qk__prefill_run *run;
    qk__matrix matrix;
    qk__norm norm;
    size_t first;  /* word of the chunk in hand */
    float *top;    /* the largest logit so far */
    double *total; /* sum of 2^(logit - top) */
    float *next;   /* logit of the token that follows */
    /* of branches: sum of the text's 2^(logit - its top) (its logit - this one); NULL without */
    double *drift;
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
static void note_next(const losses *l, size_t s, size_t panel, size_t first, size_t n,
                      const float *logits)
{
    const qk_sequence *sequence = &l->run->sequences[s];
    const size_t at = panel * QK_LANES;
    float *next = l->next + l->run->first_panel[s] * QK_LANES + at;
    for (size_t lane = 0; lane < QK_LANES && at + lane + 1 < (size_t)sequence->count; lane++) {
        const size_t word = (size_t)sequence->tokens[at + lane + 1];
        if (first <= word && word - first < n)
            next[lane] = logits[(word - first) * QK_LANES + lane];
    }
}

/* Adds n logits of a panel, in whole tiles, which become their weights; factor: by how much earlier ones shrink. */
static void add_logits(const losses *l, size_t place, size_t n, float *logits, double *factor)
{
    float *top = l->top + place, before[QK_LANES], sum[QK_LANES] = {0};
    const size_t whole = qk__whole_tiles(n);
    for (size_t i = n * QK_LANES; i < whole * QK_LANES; i++)
        logits[i] = -INFINITY;
    memcpy(before, top, sizeof before);
    l->run->kernel->softmax(logits, whole, top, sum, NULL, 0);
    for (size_t lane = 0; lane < QK_LANES; lane++) {
        double *total = &l->total[place + lane], shrunk = 1;
        if (before[lane] != top[lane])
            shrunk = exp2((double)before[lane] - (double)top[lane]);
        *total = *total * shrunk + (double)sum[lane];
        if (factor)
            factor[lane] = shrunk;
    }
}

/* Logits of words at .. at + n - 1 of the chunk, of panels of one sequence. */
static void multiply(const losses *l, size_t s, size_t first_panel, size_t at, size_t n,
                     const qk__panels *logits)
{
    const qk__prefill_run *run = l->run;
    const qk__panel_block block = {
        .sequence = s, .first_panel = first_panel, .panels = logits->count};
    const qk__panels x = hidden_of(l, &block);
    qk__matrix_multiply(run->kernel, &l->matrix, at, qk__whole_tiles(n), 0, l->matrix.columns,
                        &x, false, logits);
    for (size_t p = 0; p < logits->count; p++) {
        float *panel = logits->values + p * logits->step;
        finish_logits(run, panel, n * QK_LANES);
        note_next(l, s, first_panel + p, l->first + at, n, panel);
    }
}

/* How far a branch's logits of a panel are from its text's, whose weights grew by `factor` since. */
static void add_drift(const losses *l, size_t place, size_t n, const double *factor,
                      const float *weights, const float *text, const float *logits)
{
    float sum[QK_LANES] = {0};
    for (size_t i = 0; i < n; i++)
        for (size_t lane = 0; lane < QK_LANES; lane++) {
            const size_t at = i * QK_LANES + lane;
            sum[lane] += weights[at] * (text[at] - logits[at]);
        }
    for (size_t lane = 0; lane < QK_LANES; lane++)
        l->drift[place + lane] = l->drift[place + lane] * factor[lane] + (double)sum[lane];
}

/* The branches of a block's text, beside its logits of these words. */
static void meet_branches(const losses *l, const qk__panel_block *block, size_t at, size_t n,
                          double factors[][QK_LANES], const qk__panels *text,
                          const float *weights, float *scratch)
{
    const qk__prefill_run *run = l->run;
    for (size_t s = run->first_branch; s < run->num_sequences; s++) {
        const qk__branch *branch = &run->branches[s - run->first_branch];
        const size_t first = block->first_panel, from = branch->first_panel;
        const size_t skipped = from > first ? from - first : 0;
        if (branch->given->sequence != block->sequence || skipped >= block->panels)
            continue;
        const qk__panels logits = {scratch, text->step, block->panels - skipped};
        multiply(l, s, first + skipped, at, n, &logits);
        for (size_t p = 0; p < logits.count; p++) {
            const size_t place = (run->first_panel[s] + first + skipped + p) * QK_LANES;
            const size_t of_text = (skipped + p) * text->step;
            add_drift(l, place, n, factors[skipped + p], weights + of_text,
                      text->values + of_text, logits.values + p * logits.step);
            add_logits(l, place, n, logits.values + p * logits.step, NULL);
        }
    }
}

static void logits_job(void *context, size_t number, int worker)
{
    losses *l = context;
    const qk__prefill_run *run = l->run;
    const qk__panel_block *block = &run->blocks[number];
    const qk__prefill_scratch scratch = qk__prefill_scratch_of(run, worker);
    const bool branches = run->first_branch < run->num_sequences;
    const qk__panels logits = {scratch.gate, QK_DEPTH * QK_LANES, block->panels};
    double factors[QK_MAX_PANELS][QK_LANES];
    for (size_t at = 0; at < l->matrix.rows; at += QK_DEPTH) {
        const size_t left = l->matrix.rows - at, n = left < QK_DEPTH ? left : QK_DEPTH;
        multiply(l, block->sequence, block->first_panel, at, n, &logits);
        for (size_t p = 0; p < block->panels; p++) {
            const size_t panel = run->first_panel[block->sequence] + block->first_panel + p;
            float *weights = logits.values + p * logits.step;
            if (branches)
                weights = memcpy(scratch.changes + p * logits.step, weights,
                                 n * QK_LANES * sizeof *weights);
            add_logits(l, panel * QK_LANES, n, weights, factors[p]);
        }
        if (branches)
            meet_branches(l, block, at, n, factors, &logits, scratch.changes, scratch.up);
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
    if (run->first_branch < run->num_sequences) {
        l->drift = qk__calloc(places, sizeof *l->drift);
        if (!l->drift)
            return qk__nomem(err);
    }
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
    free(l->drift);
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
        qk__parallel_for(run->num_text_blocks, run->threads, logits_job, l);
    }
}

static double log_total(const losses *l, size_t place)
{
    return (double)l->top[place] + log2(l->total[place]);
}

/* KL of a row of a branch and the same of its text. */
static float drift_at(const losses *l, size_t text, size_t place)
{
    return (float)(LN2 * (l->drift[place] / l->total[text] - log_total(l, text) +
                          log_total(l, place)));
}

/* Into l->next and l->top, from their own numbers; l->top of texts is needed until their branches are delivered. */
static qk_status deliver(const losses *l, size_t s, qk_error *err)
{
    const qk__prefill_run *run = l->run;
    const qk__branch *branch =
        s < run->first_branch ? NULL : &run->branches[s - run->first_branch];
    const int64_t row = branch ? branch->first_row : 0,
                  count = run->sequences[s].count - 1 - row;
    const size_t first = run->first_panel[s] * QK_LANES + (size_t)row;
    qk_prefill_losses out = {
        .sequence = s, .branch = -1, .first = row, .count = count, .of = l->next + first};
    if (count <= 0)
        return QK_OK;
    for (size_t i = first; i < first + (size_t)count; i++) {
        l->next[i] = (float)(LN2 * (log_total(l, i) - (double)l->next[i]));
        if (!isfinite(l->next[i]))
            return qk__fail(err, QK_ERR_MALFORMED,
                            "the loss of token %zu is not finite: a weight of the model is "
                            "infinite or not a number, or too large for this arithmetic",
                            i - first + (size_t)row + 1);
    }
    if (branch) {
        const size_t text = run->first_panel[branch->given->sequence] * QK_LANES + (size_t)row;
        for (size_t i = 0; i < (size_t)count; i++)
            l->top[first + i] = drift_at(l, text + i, first + i);
        out.sequence = branch->given->sequence;
        out.branch = (int64_t)(s - run->first_branch);
        out.drift = l->top + first;
    }
    qk_error why = {0};
    qk_status status = run->settings->loss(run->settings->user, &out, &why);
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
