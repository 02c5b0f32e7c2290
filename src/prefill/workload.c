/* SPDX-License-Identifier: Apache-2.0 */
/* What a run will do and what it needs: layers, heads, blocks, bytes and operations. */
#include "prefill/prefill.h"

#include <assert.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/parallel.h"

static size_t whole_panels(int64_t tokens)
{
    return (size_t)((tokens + QK_LANES - 1) / QK_LANES);
}

/* Blocks small enough for 16 to share a text, large enough that weights are read seldom. */
static size_t block_panels(int64_t tokens)
{
    size_t panels = (whole_panels(tokens) + 15) / 16;
    return panels < QK_MAX_PANELS ? panels : QK_MAX_PANELS;
}

void qk__prefill_measure(qk__prefill_sizes *s, const qk_model *model,
                         const qk_prefill_settings *settings)
{
    const qk__model_config *c = &model->config;
    size_t hidden = (size_t)c->hidden_size, inner = (size_t)c->intermediate_size;
    size_t head_dim = (size_t)c->head_dim;
    size_t q = (size_t)c->num_q_heads * head_dim, k = (size_t)c->num_k_heads * head_dim;
    size_t heads = (size_t)(c->num_q_heads > c->num_k_heads ? c->num_q_heads : c->num_k_heads);
    *s = (qk__prefill_sizes){
        .features = qk__whole_tiles(hidden),
        .q = qk__whole_tiles(q),
        /* a tile of the last head's features may reach past them */
        .k = qk__whole_tiles(k + QK_TILE - 1),
        .rows = QK_MAX_PANELS * QK_LANES * qk__whole_tiles(heads * head_dim),
    };
    size_t pairs = 0, panel = QK_LANES * sizeof(float);
    for (int i = 0; i < QK_NUM_ROPES; i++) {
        size_t n = (size_t)model->ropes[i].pairs;
        pairs = n > pairs ? n : pairs;
        s->per_panel += (int64_t)(2 * n * panel);
    }
    const qk__measured_heads measured = {.count = 0};
    qk__attention attention = {.head_dim = head_dim,
                               .group = (size_t)(c->num_q_heads / c->num_k_heads)};
    if (settings->attention)
        attention.measured = &measured;
    s->rotation = qk__rope_scratch(pairs, QK_MAX_PANELS);
    s->attention = qk__attention_scratch(&attention, QK_MAX_PANELS);
    if (settings->num_branches > 0)
        s->changes = qk__changes_scratch(head_dim, pairs);
    s->scratch = QK_MAX_PANELS * QK_LANES * (2 * s->features + 2 * s->q + 2 * QK_DEPTH) +
                 s->attention + s->rotation + 2 * s->rows + s->changes;
    s->scratch = (s->scratch + 15) / 16 * 16;
    s->weights = qk__matrix_bytes(q, hidden) + 2 * qk__matrix_bytes(k, hidden) +
                 qk__matrix_bytes(hidden, q) + 2 * qk__matrix_bytes(inner, hidden) +
                 qk__matrix_bytes(hidden, inner);
    s->per_panel += (int64_t)((s->features + 2 * s->k) * panel);
    if (qk__prefill_turns_keys(settings))
        s->per_panel += (int64_t)(s->k * panel);
}

qk__prefill_scratch qk__prefill_scratch_of(const qk__prefill_run *run, int worker)
{
    const qk__prefill_sizes *s = &run->sizes;
    size_t lanes = QK_MAX_PANELS * QK_LANES;
    qk__prefill_scratch at;
    at.hidden = run->scratch + (size_t)worker * s->scratch;
    at.out = at.hidden + lanes * s->features;
    at.q = at.out + lanes * s->features;
    at.attended = at.q + lanes * s->q;
    at.gate = at.attended + lanes * s->q;
    at.up = at.gate + lanes * QK_DEPTH;
    at.attention = at.up + lanes * QK_DEPTH;
    at.before = at.attention + s->attention;
    at.after = at.before + s->rows;
    at.changes = at.after + s->rows;
    at.rotation = at.changes + s->changes;
    return at;
}

/* The heads of one layer and kind that the sink wants. */
static size_t list_heads(const bool *wanted, int layer, int num_heads, int *heads)
{
    size_t count = 0;
    for (int head = 0; head < num_heads; head++)
        if (!wanted || wanted[(size_t)layer * (size_t)num_heads + (size_t)head])
            heads[count++] = head;
    return count;
}

static qk_status plan_heads(qk__prefill_run *run, qk_error *err)
{
    const qk__model_config *c = &run->model->config;
    size_t both = (size_t)c->num_q_heads + (size_t)c->num_k_heads;
    run->wanted = qk__calloc(2 * (size_t)c->num_layers, sizeof *run->wanted);
    int *heads = qk__calloc((size_t)c->num_layers * both, sizeof *heads);
    if (!run->wanted || !heads) {
        free(heads);
        return qk__nomem(err);
    }
    bool rows = run->settings->before_rope || run->settings->after_rope;
    run->last_layer = -1;
    for (int layer = 0; layer < c->num_layers; layer++) {
        qk__wanted_heads *q = &run->wanted[2 * layer], *k = q + 1;
        q->heads = heads + (size_t)layer * both;
        k->heads = q->heads + c->num_q_heads;
        if (!run->model->layers[layer].attends)
            continue;
        if (rows || run->settings->attention)
            q->count = list_heads(run->settings->q_heads, layer, c->num_q_heads, q->heads);
        if (rows)
            k->count = list_heads(run->settings->k_heads, layer, c->num_k_heads, k->heads);
        if (q->count + k->count > 0 || run->settings->loss)
            run->last_layer = layer;
    }
    for (int layer = 0; layer <= run->last_layer; layer++)
        run->num_run += run->model->layers[layer].attends;
    return QK_OK;
}

static qk_status check_tokens(const qk__prefill_run *run, qk_error *err)
{
    int vocab = run->model->config.vocab_size;
    for (size_t s = 0; s < run->first_branch; s++) {
        const qk_sequence *sequence = &run->sequences[s];
        if (sequence->count <= 0 || sequence->count > INT32_MAX)
            return qk__fail(err, QK_ERR_ARGUMENT, "sequence %zu has %lld tokens", s,
                            (long long)sequence->count);
        for (int64_t i = 0; i < sequence->count; i++)
            if (sequence->tokens[i] < 0 || sequence->tokens[i] >= vocab)
                return qk__fail(err, QK_ERR_ARGUMENT,
                                "token %lld of sequence %zu is %d, but the model has %d",
                                (long long)i, s, (int)sequence->tokens[i], vocab);
    }
    return QK_OK;
}

/* Row from which a branch differs, and the panel from which it has panels of its own. */
static int64_t first_row(int64_t tokens, int64_t suffix)
{
    return suffix > 0 && suffix < tokens ? tokens - suffix : 0;
}

static size_t first_own_panel(int64_t tokens, int64_t suffix)
{
    return (size_t)first_row(tokens, suffix) / (QK_KEY_PANELS * QK_LANES) * QK_KEY_PANELS;
}

/* Branches join the sequences. */
static qk_status plan_branches(qk__prefill_run *run, qk_error *err)
{
    const qk_prefill_settings *settings = run->settings;
    const size_t given = run->num_sequences, branches = settings->num_branches;
    run->first_branch = given;
    QK_TRY(qk__prefill_check_branches(run, err));
    run->all_sequences = qk__calloc(given + branches, sizeof *run->all_sequences);
    run->branches = qk__calloc(branches + 1, sizeof *run->branches);
    if (!run->all_sequences || !run->branches)
        return qk__nomem(err);
    for (size_t s = 0; s < given; s++)
        run->all_sequences[s] = run->sequences[s];
    for (size_t b = 0; b < branches; b++) {
        const qk_prefill_branch *branch = &settings->branches[b];
        const int64_t tokens = run->sequences[branch->sequence].count;
        run->all_sequences[given + b] = run->sequences[branch->sequence];
        run->branches[b] = (qk__branch){branch, branch->changes[0].layer,
                                        first_own_panel(tokens, branch->suffix),
                                        first_row(tokens, branch->suffix)};
    }
    run->sequences = run->all_sequences;
    run->num_sequences = given + branches;
    return QK_OK;
}

static size_t first_panel_of(const qk__prefill_run *run, size_t sequence)
{
    return sequence < run->first_branch
               ? 0
               : run->branches[sequence - run->first_branch].first_panel;
}

static qk_status plan_blocks(qk__prefill_run *run, qk_error *err)
{
    run->first_panel = qk__calloc(run->num_sequences, sizeof *run->first_panel);
    if (!run->first_panel)
        return qk__nomem(err);
    for (size_t s = 0; s < run->num_sequences; s++) {
        size_t panels = whole_panels(run->sequences[s].count), first = first_panel_of(run, s);
        size_t step = block_panels(run->sequences[s].count);
        if (s == run->first_branch)
            run->num_text_blocks = run->num_blocks;
        /* the panels before are there: its text's, further ahead */
        run->first_panel[s] = run->num_panels - first;
        run->num_panels += panels - first;
        run->num_blocks += (panels - first + step - 1) / step;
        run->longest = panels > run->longest ? panels : run->longest;
    }
    if (run->first_branch == run->num_sequences)
        run->num_text_blocks = run->num_blocks;
    run->blocks = qk__calloc(run->num_blocks, sizeof *run->blocks);
    if (!run->blocks)
        return qk__nomem(err);
    qk__panel_block *next = run->blocks;
    for (size_t s = 0; s < run->num_sequences; s++) {
        size_t panels = whole_panels(run->sequences[s].count);
        size_t step = block_panels(run->sequences[s].count), from = first_panel_of(run, s);
        for (size_t first = from; first < panels; first += step, next++)
            *next = (qk__panel_block){
                .sequence = s,
                .number = (first - from) / step,
                .first_panel = first,
                .panels = panels - first < step ? panels - first : step,
            };
    }
    return QK_OK;
}

qk_status qk__prefill_plan(qk__prefill_run *run, qk_error *err)
{
    run->first_branch = run->num_sequences;
    QK_TRY(check_tokens(run, err));
    QK_TRY(plan_branches(run, err));
    QK_TRY(plan_heads(run, err));
    return plan_blocks(run, err);
}

/* Keys that the queries of a text see, in all. */
static double visible(int64_t tokens, int64_t window)
{
    double n = (double)tokens, w = (double)window;
    if (window <= 0 || window >= tokens)
        return n * (n + 1) / 2;
    return w * (w + 1) / 2 + (n - w) * w;
}

double qk_prefill_flops(const qk_model *model, const qk_prefill_settings *settings,
                        int64_t tokens)
{
    assert(model && settings);
    const qk__model_config *c = &model->config;
    qk__prefill_run run = {.model = model, .settings = settings};
    double flops = 0;
    if (tokens <= 0 || plan_heads(&run, NULL) != QK_OK)
        tokens = 0;
    double n = (double)tokens, hidden = c->hidden_size, d = c->head_dim;
    for (int layer = 0; tokens > 0 && layer <= run.last_layer; layer++) {
        if (!model->layers[layer].attends)
            continue;
        double q = (double)run.wanted[2 * layer].count,
               k = (double)run.wanted[2 * layer + 1].count;
        double seen = visible(tokens, model->layers[layer].window);
        double heads = c->num_q_heads + c->num_k_heads;
        if (layer < run.last_layer || settings->loss)
            flops += 2 * n * hidden * (2 * d * heads + 3.0 * c->intermediate_size) +
                     4 * d * c->num_q_heads * seen;
        else if (settings->attention && q > 0)
            flops += 2 * n * hidden * d * heads + 2 * d * q * seen;
        else
            flops += 2 * n * hidden * d * (q + k);
    }
    if (settings->loss)
        flops += 2 * n * hidden * c->vocab_size;
    if (run.wanted)
        free(run.wanted[0].heads);
    free(run.wanted);
    return flops;
}

/* What losses need: some of the output layer, and of a token two floats and a double. */
static int64_t losses_bytes(const qk__model_config *c, int64_t panels)
{
    const int words = c->vocab_size < QK_WORDS ? c->vocab_size : QK_WORDS;
    return qk__matrix_bytes((size_t)words, (size_t)c->hidden_size) +
           panels * QK_LANES * (int64_t)(2 * sizeof(float) + sizeof(double));
}

int64_t qk_prefill_bytes(const qk_model *model, const qk_prefill_settings *settings,
                         int64_t tokens)
{
    assert(model && settings);
    qk__prefill_sizes sizes;
    qk__prefill_measure(&sizes, model, settings);
    int64_t panels = tokens > 0 ? (int64_t)whole_panels(tokens) : 0;
    int64_t step = (int64_t)block_panels(panels * QK_LANES), measured = 0;
    int threads = qk__count_threads(&settings->context);
    if (settings->attention && panels > 0)
        measured = qk__prefill_measured_bytes(model, settings->outputs, panels,
                                              (panels + step - 1) / step);
    if (settings->loss)
        measured += losses_bytes(&model->config, panels);
    return panels * sizes.per_panel + sizes.weights + measured +
           threads * (int64_t)(sizes.scratch * sizeof(float));
}

int64_t qk__prefill_branch_bytes(const qk_model *model, const qk_prefill_settings *settings,
                                 int64_t tokens, int64_t suffix)
{
    assert(model && settings);
    qk__prefill_sizes sizes;
    qk__prefill_measure(&sizes, model, settings);
    if (tokens <= 0)
        return 0;
    const size_t panels = whole_panels(tokens) - first_own_panel(tokens, suffix);
    /* beside all that is of panels: what losses and their drift need of a token */
    return (int64_t)panels *
           (sizes.per_panel + QK_LANES * (int64_t)(2 * sizeof(float) + 2 * sizeof(double)));
}

double qk__prefill_branch_flops(const qk_model *model, int layer, int64_t tokens,
                                int64_t suffix)
{
    assert(model);
    const qk__model_config *c = &model->config;
    const int64_t first = first_row(tokens, suffix);
    const double n = (double)(tokens - first), hidden = c->hidden_size, d = c->head_dim;
    double flops = 2 * n * hidden * c->vocab_size;
    for (int l = layer; l >= 0 && l < c->num_layers; l++) {
        if (!model->layers[l].attends)
            continue;
        const int64_t window = model->layers[l].window;
        const double seen = visible(tokens, window) - visible(first, window);
        const double heads = l > layer ? c->num_q_heads : 1;
        const double projected = l > layer ? c->num_q_heads + 2 * c->num_k_heads : 0;
        flops +=
            2 * n * hidden * (d * (projected + c->num_q_heads) + 3.0 * c->intermediate_size) +
            4 * d * heads * seen;
    }
    return flops;
}
