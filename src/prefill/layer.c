/* SPDX-License-Identifier: Apache-2.0 */
/* One layer over all sequences: first the keys and values of every block, then, block by
 * block, queries, attention and what follows. */
#include "prefill/prefill.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/parallel.h"
#include "prefill/rounding.h"

/* In the last layer nothing is projected but the heads that the sink wants. Where attention is measured it
 * has all queries and keys all the same: at most two thousandths of a run of
 * 30 layers. Then the measured heads form scores, about half of the work of attention; values,
 * and all that follows, are not. */
static bool has_only_wanted(const qk__prefill_run *run)
{
    return qk__prefill_ends_here(run) && !qk__prefill_measures(run);
}

/* ---- weights ---------------------------------------------------------------------------- */

static void load_norm(qk__norm *norm, const qk__tensor *tensor)
{
    if (tensor->data)
        qk__norm_fill(norm, tensor);
}

static void load_weights(qk__prefill_run *run)
{
    const qk__layer *layer = &run->model->layers[run->layer];
    size_t head_dim = (size_t)run->model->config.head_dim;
    const qk__wanted_heads *q = qk__prefill_wanted(run, QK_QUERY),
                           *k = qk__prefill_wanted(run, QK_KEY);
    bool last = qk__prefill_ends_here(run), only_wanted = has_only_wanted(run);
    qk__matrix_source sources[] = {
        {&run->q, &layer->q, {only_wanted ? q->heads : NULL, q->count, head_dim}},
        {&run->k, &layer->k, {only_wanted ? k->heads : NULL, k->count, head_dim}},
        {&run->v, &layer->v, {0}},
        {&run->o, &layer->o, {0}},
        {&run->gate, &layer->gate, {0}},
        {&run->up, &layer->up, {0}},
        {&run->down, &layer->down, {0}},
    };
    qk__matrices_fill(sources, last ? 2 : 7, run->rounding, run->bf16, run->threads);
    load_norm(&run->attention_norm, &layer->attention_norm);
    load_norm(&run->q_norm, &layer->q_norm);
    load_norm(&run->k_norm, &layer->k_norm);
    if (last)
        return;
    load_norm(&run->attention_out_norm, &layer->attention_out_norm);
    load_norm(&run->mlp_norm, &layer->mlp_norm);
    load_norm(&run->mlp_out_norm, &layer->mlp_out_norm);
}

/* ---- parts of a layer ------------------------------------------------------------------- */

static void round_values(const qk__prefill_run *run, float *x, size_t n)
{
    if (run->bf16)
        run->bf16->round(x, n);
    else
        qk__round_values(run->rounding, x, n);
}

static void round_panels(const qk__prefill_run *run, const qk__panels *panels, size_t features)
{
    for (size_t p = 0; run->rounding && p < panels->count; p++)
        round_values(run, panels->values + p * panels->step, features * QK_LANES);
}

/* Before a matrix, or queries, multiply them. */
static void pair_features(const qk__prefill_run *run, const qk__panels *panels, size_t features)
{
    for (size_t p = 0; run->bf16 && p < panels->count; p++)
        run->bf16->pair_features(panels->values + p * panels->step, features,
                                 panels->values + p * panels->step);
}

/* As scores take them: each head's by themselves. */
static void pair_keys(const qk__prefill_run *run, const qk__panels *keys)
{
    size_t width = (size_t)run->model->config.head_dim;
    size_t paired = qk__paired(run->bf16, width);
    for (size_t p = 0; p < keys->count; p++) {
        float *panel = keys->values + p * keys->step;
        for (size_t h = 0; h < run->k.rows / width; h++)
            run->bf16->pair_features(panel + h * width * QK_LANES, width,
                                     panel + h * paired * QK_LANES);
    }
}

static void apply(const qk__prefill_run *run, const qk__matrix *matrix, const qk__panels *x,
                  const qk__panels *y)
{
    qk__matrix_apply(run->kernel, matrix, x, y);
    round_panels(run, y, matrix->rows);
}

static void norm_panels(const qk__prefill_run *run, const qk__norm *norm, const qk__panels *x,
                        const qk__panels *y)
{
    for (size_t p = 0; p < x->count; p++)
        run->kernel->norm(norm, x->values + p * x->step, y->values + p * y->step);
}

static void norm_heads(const qk__prefill_run *run, const qk__norm *norm, size_t heads,
                       const qk__panels *panels)
{
    for (size_t p = 0; p < panels->count; p++)
        for (size_t h = 0; h < heads; h++) {
            float *head = panels->values + p * panels->step + h * norm->width * QK_LANES;
            run->kernel->norm(norm, head, head);
        }
}

static qk__panels residual(const qk__prefill_run *run, const qk__panel_block *block)
{
    size_t step = run->sizes.features * QK_LANES;
    size_t first = run->first_panel[block->sequence] + block->first_panel;
    return (qk__panels){run->x + first * step, step, block->panels};
}

static void copy_panels(const qk__panels *from, const qk__panels *to)
{
    for (size_t p = 0; p < to->count; p++)
        memcpy(to->values + p * to->step, from->values + p * from->step,
               to->step * sizeof(float));
}

static void add_to_residual(const qk__prefill_run *run, const qk__panels *y,
                            const qk__panels *x)
{
    size_t n = (size_t)run->model->config.hidden_size * QK_LANES;
    for (size_t p = 0; p < x->count; p++) {
        float *to = x->values + p * x->step;
        const float *from = y->values + p * y->step;
        for (size_t i = 0; i < n; i++)
            to[i] += from[i];
        round_values(run, to, n);
    }
}

static void rotate_heads(const qk__prefill_run *run, const qk__panel_block *block, size_t heads,
                         const qk__panels *panels, const qk__prefill_scratch *scratch)
{
    const qk__rope *rope = run->model->layers[run->layer].rope;
    if (!rope)
        return;
    qk__panel_rotation rotation = qk__rotation_at(
        &run->tables[rope - run->model->ropes], run->sequences[block->sequence].count,
        block->first_panel, block->panels, scratch->rotation);
    rotation.interleaved = run->model->config.interleaved_rope;
    size_t width = (size_t)run->model->config.head_dim * QK_LANES;
    for (size_t p = 0; p < panels->count; p++)
        for (size_t h = 0; h < heads; h++)
            qk__rotate(run->kernel, &rotation, p,
                       panels->values + p * panels->step + h * width);
}

static qk__panels scratch_panels(float *values, size_t features, const qk__panel_block *block)
{
    return (qk__panels){values, features * QK_LANES, block->panels};
}

static qk__panels stored(const qk__prefill_run *run, float *values,
                         const qk__panel_block *block)
{
    size_t first = run->first_panel[block->sequence] + block->first_panel;
    return (qk__panels){values + first * run->k_step, run->k_step, block->panels};
}

/* ---- queries and keys ------------------------------------------------------------------- */

/* Projects a block, and shows the sink what it wants of it. False: the run has stopped. */
static bool project(qk__prefill_run *run, size_t number, qk_kind kind, const qk__panels *hidden,
                    const qk__panels *out, const qk__prefill_scratch *scratch)
{
    const qk__panel_block *block = &run->blocks[number];
    const qk__model_config *c = &run->model->config;
    const qk__matrix *matrix = kind == QK_QUERY ? &run->q : &run->k;
    const qk__norm *norm = kind == QK_QUERY ? &run->q_norm : &run->k_norm;
    size_t heads = matrix->rows / (size_t)c->head_dim;
    bool only_wanted = has_only_wanted(run);
    bool wanted = qk__prefill_wanted(run, kind)->count > 0;
    bool before = wanted && run->settings->before_rope;
    bool after = wanted && run->settings->after_rope;

    apply(run, matrix, hidden, out);
    if (norm->weight)
        norm_heads(run, norm, heads, out);
    if (before)
        qk__prefill_gather(run, kind, out, only_wanted, scratch->before);
    if (qk__prefill_turns(run)) {
        const qk__panels unrotated = kind == QK_KEY
                                         ? stored(run, run->unrotated, block)
                                         : scratch_panels(scratch->before, run->sizes.q, block);
        copy_panels(out, &unrotated);
    }
    if (only_wanted && !after)
        return qk__prefill_emit(run, number, kind, scratch->before, NULL);
    rotate_heads(run, block, heads, out, scratch);
    if (kind == QK_QUERY && c->query_scale_beta != 0)
        qk__prefill_scale_queries(run, block->first_panel, out, matrix->rows);
    if (after)
        qk__prefill_gather(run, kind, out, only_wanted, scratch->after);
    return (!before && !after) ||
           qk__prefill_emit(run, number, kind, before ? scratch->before : NULL,
                            after ? scratch->after : NULL);
}

/* ---- the jobs of a layer ---------------------------------------------------------------- */

static qk__panels normed(const qk__prefill_run *run, const qk__panel_block *block,
                         const qk__prefill_scratch *scratch)
{
    qk__panels x = residual(run, block);
    qk__panels hidden = scratch_panels(scratch->hidden, run->sizes.features, block);
    norm_panels(run, &run->attention_norm, &x, &hidden);
    pair_features(run, &hidden, (size_t)run->model->config.hidden_size);
    return hidden;
}

static void keys_job(void *context, size_t number, int worker)
{
    qk__prefill_run *run = context;
    const qk__panel_block *block = &run->blocks[number];
    if (qk__prefill_stopped(run))
        return;
    qk__prefill_scratch scratch = qk__prefill_scratch_of(run, worker);
    qk__panels hidden = normed(run, block, &scratch);
    qk__panels keys = stored(run, run->keys, block), values = stored(run, run->values, block);
    bool last = qk__prefill_ends_here(run);
    if (!last)
        apply(run, &run->v, &hidden, &values);
    if (!project(run, number, QK_KEY, &hidden, &keys, &scratch) || !run->bf16)
        return;
    pair_keys(run, &keys);
    for (size_t p = 0; !last && p < values.count; p++)
        run->bf16->pair_lanes(values.values + p * values.step, run->v.rows * QK_LANES);
}

/* Of a last layer that has only what is wanted. */
static void last_job(void *context, size_t number, int worker)
{
    qk__prefill_run *run = context;
    const qk__panel_block *block = &run->blocks[number];
    if (qk__prefill_stopped(run))
        return;
    qk__prefill_scratch scratch = qk__prefill_scratch_of(run, worker);
    qk__panels hidden = normed(run, block, &scratch);
    qk__panels q = scratch_panels(scratch.q, run->sizes.q, block);
    qk__panels keys = stored(run, run->keys, block);
    if (qk__prefill_wanted(run, QK_QUERY)->count > 0 &&
        !project(run, number, QK_QUERY, &hidden, &q, &scratch))
        return;
    if (qk__prefill_wanted(run, QK_KEY)->count > 0)
        project(run, number, QK_KEY, &hidden, &keys, &scratch);
}

static void attend(const qk__prefill_run *run, const qk__panel_block *block,
                   const qk__panels *q, const qk__panels *attended,
                   const qk__prefill_scratch *scratch)
{
    const qk__model_config *c = &run->model->config;
    qk__measured_heads measured = {0};
    qk__attention attention;
    qk__prefill_attention_of(run, block->sequence, &attention);
    if (qk__prefill_measures(run)) {
        measured = qk__prefill_measured_heads(run, block);
        attention.measured = &measured;
    }
    qk__attend(&attention, block->first_panel, q, attended, scratch->attention);
    if (attention.values)
        round_panels(run, attended, (size_t)c->num_q_heads * (size_t)c->head_dim);
    if (measured.count > 0 && run->measured.outputs)
        qk__prefill_measure_outputs(run, block, attended);
}

/* out = down(act(gate(x)) * up(x)), QK_DEPTH inner features at a time. */
static void mlp(const qk__prefill_run *run, const qk__panels *x, const qk__panels *out,
                const qk__prefill_scratch *scratch)
{
    size_t hidden = run->gate.columns, inner = run->gate.rows, step = QK_DEPTH * QK_LANES;
    qk__panels gate = {scratch->gate, step, x->count}, up = {scratch->up, step, x->count};
    for (size_t at = 0; at < inner; at += QK_DEPTH) {
        size_t n = inner - at < QK_DEPTH ? inner - at : QK_DEPTH, whole = qk__whole_tiles(n);
        qk__matrix_multiply(run->kernel, &run->gate, at, whole, 0, hidden, x, false, &gate);
        qk__matrix_multiply(run->kernel, &run->up, at, whole, 0, hidden, x, false, &up);
        qk__matrix_add_bias(&run->gate, at, n, &gate);
        qk__matrix_add_bias(&run->up, at, n, &up);
        round_panels(run, &gate, n);
        round_panels(run, &up, n);
        for (size_t p = 0; p < x->count; p++)
            run->kernel->activate(run->model->config.activation, gate.values + p * step,
                                  n * QK_LANES);
        round_panels(run, &gate, n);
        for (size_t p = 0; p < x->count; p++)
            for (size_t i = 0; i < n * QK_LANES; i++)
                gate.values[p * step + i] *= up.values[p * step + i];
        round_panels(run, &gate, n);
        pair_features(run, &gate, n);
        qk__matrix_multiply(run->kernel, &run->down, 0, qk__whole_tiles(run->down.rows), at, n,
                            &gate, at > 0, out);
    }
    qk__matrix_add_bias(&run->down, 0, run->down.rows, out);
    round_panels(run, out, run->down.rows);
}

/* What follows attention, which is used up. */
static void finish_block(const qk__prefill_run *run, const qk__panels *x,
                         const qk__panels *attended, const qk__prefill_scratch *scratch)
{
    const size_t step = run->sizes.features * QK_LANES;
    const qk__panels hidden = {scratch->hidden, step, x->count};
    const qk__panels out = {scratch->out, step, x->count};
    pair_features(run, attended, run->o.columns);
    apply(run, &run->o, attended, &out);
    if (run->attention_out_norm.weight)
        norm_panels(run, &run->attention_out_norm, &out, &out);
    add_to_residual(run, &out, x);
    norm_panels(run, &run->mlp_norm, x, &hidden);
    pair_features(run, &hidden, run->gate.columns);
    mlp(run, &hidden, &out, scratch);
    if (run->mlp_out_norm.weight)
        norm_panels(run, &run->mlp_out_norm, &out, &out);
    add_to_residual(run, &out, x);
}

/* The layer where a branch begins, on a block of its text: all but the changed heads is at hand. */
static void begin_branch(const qk__prefill_run *run, size_t number,
                         const qk__panel_block *block, const qk__panels *q,
                         const qk__panels *attended, const qk__prefill_scratch *scratch)
{
    const qk__branch *branch = &run->branches[number];
    const size_t from = branch->first_panel, first = block->first_panel;
    const size_t skipped = from > first ? from - first : 0;
    if (skipped >= block->panels)
        return;
    qk__panel_block part = *block;
    part.first_panel += skipped;
    part.panels -= skipped;
    const qk__panels text = residual(run, &part);
    const qk__panels queries = {q->values + skipped * q->step, q->step, part.panels};
    const qk__panels heads = {attended->values + skipped * q->step, q->step, part.panels};
    const qk__panels changed = {scratch->after, q->step, part.panels};
    copy_panels(&heads, &changed);
    qk__prefill_change(run, branch, &part, skipped, &queries, &changed, scratch);
    part.sequence = run->first_branch + number;
    const qk__panels x = residual(run, &part);
    copy_panels(&text, &x);
    finish_block(run, &x, &changed, scratch);
}

static void rest_job(void *context, size_t number, int worker)
{
    qk__prefill_run *run = context;
    const qk__panel_block *block = &run->blocks[number];
    if (qk__prefill_stopped(run))
        return;
    qk__prefill_scratch scratch = qk__prefill_scratch_of(run, worker);
    qk__panels x = residual(run, block), hidden = normed(run, block, &scratch);
    qk__panels q = scratch_panels(scratch.q, run->sizes.q, block);
    qk__panels attended = scratch_panels(scratch.attended, run->sizes.q, block);
    if (!project(run, number, QK_QUERY, &hidden, &q, &scratch))
        return;
    attend(run, block, &q, &attended, &scratch);
    if (qk__prefill_ends_here(run))
        return;
    if (block->sequence >= run->first_branch)
        qk__prefill_change(run, &run->branches[block->sequence - run->first_branch], block, 0,
                           &q, &attended, &scratch);
    for (size_t i = 0; i < run->num_sequences - run->first_branch; i++)
        if (run->branches[i].first_layer == run->layer &&
            run->branches[i].given->sequence == block->sequence)
            begin_branch(run, i, block, &q, &attended, &scratch);
    finish_block(run, &x, &attended, &scratch);
}

/* Blocks of texts, and of branches that began before this layer. */
static size_t count_blocks(const qk__prefill_run *run)
{
    size_t n = run->num_text_blocks;
    while (n < run->num_blocks &&
           run->branches[run->blocks[n].sequence - run->first_branch].first_layer < run->layer)
        n++;
    return n;
}

qk_status qk__prefill_layer(qk__prefill_run *run, qk_error *err)
{
    load_weights(run);
    memset(run->turns, 0, 2 * run->num_sequences * sizeof *run->turns);
    if (qk__prefill_measures(run))
        qk__prefill_start_measuring(run);
    if (has_only_wanted(run)) {
        qk__parallel_for(run->num_blocks, run->threads, last_job, run);
    } else {
        const size_t blocks = count_blocks(run);
        qk__parallel_for(blocks, run->threads, keys_job, run);
        qk__parallel_for(blocks, run->threads, rest_job, run);
    }
    if (run->failure == QK_OK)
        return qk__prefill_measures(run) ? qk__prefill_deliver_measured(run, err) : QK_OK;
    if (run->error.message[0] == 0)
        return qk__fail(err, run->failure, "stopped by its sink");
    if (err)
        *err = run->error;
    return run->failure;
}
