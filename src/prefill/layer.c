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

/* q *= 1 + beta ln(1 + floor(position / original)), in the float32 steps of the original. */
static void scale_queries(const qk__prefill_run *run, const qk__panel_block *block,
                          const qk__panels *q, size_t features)
{
    const qk__model_config *c = &run->model->config;
    for (size_t p = 0; p < q->count; p++) {
        float scale[QK_LANES];
        for (size_t lane = 0; lane < QK_LANES; lane++) {
            float position = (float)((block->first_panel + p) * QK_LANES + lane);
            float texts = floorf(position / (float)c->query_scale_original);
            scale[lane] = 1 + (float)c->query_scale_beta * logf(1 + texts);
        }
        qk__round_values(run->rounding, scale, QK_LANES);
        float *values = q->values + p * q->step;
        for (size_t i = 0; i < features; i++)
            for (size_t lane = 0; lane < QK_LANES; lane++)
                values[i * QK_LANES + lane] *= scale[lane];
        qk__round_values(run->rounding, values, features * QK_LANES);
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
    if (only_wanted && !after)
        return qk__prefill_emit(run, number, kind, scratch->before, NULL);
    rotate_heads(run, block, heads, out, scratch);
    if (kind == QK_QUERY && c->query_scale_beta != 0)
        scale_queries(run, block, out, matrix->rows);
    if (after)
        qk__prefill_gather(run, kind, out, only_wanted, scratch->after);
    return (!before && !after) ||
           qk__prefill_emit(run, number, kind, before ? scratch->before : NULL,
                            after ? scratch->after : NULL);
}

/* ---- the jobs of a layer ---------------------------------------------------------------- */

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
    size_t first = run->first_panel[block->sequence];
    bool last = qk__prefill_ends_here(run), measures = qk__prefill_measures(run);
    qk__measured_heads measured = {0};
    if (measures)
        measured = qk__prefill_measured_heads(run, block);
    qk__attention attention = {
        .kernel = run->kernel,
        .bf16 = run->bf16,
        .num_k_heads = (size_t)c->num_k_heads,
        .group = (size_t)(c->num_q_heads / c->num_k_heads),
        .head_dim = (size_t)c->head_dim,
        .window = run->model->layers[run->layer].window,
        .scale = (float)c->attention_scale,
        .rounding = run->rounding,
        .keys = run->keys + first * run->k_step,
        .values = last ? NULL : run->values + first * run->k_step,
        .step = run->k_step,
        .measured = measures ? &measured : NULL,
    };
    qk__attend(&attention, block->first_panel, q, attended, scratch->attention);
    if (!last)
        round_panels(run, attended, (size_t)c->num_q_heads * (size_t)c->head_dim);
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
    qk__panels out = scratch_panels(scratch.out, run->sizes.features, block);
    if (!project(run, number, QK_QUERY, &hidden, &q, &scratch))
        return;
    attend(run, block, &q, &attended, &scratch);
    if (qk__prefill_ends_here(run))
        return;
    pair_features(run, &attended, run->o.columns);
    apply(run, &run->o, &attended, &out);
    if (run->attention_out_norm.weight)
        norm_panels(run, &run->attention_out_norm, &out, &out);
    add_to_residual(run, &out, &x);
    norm_panels(run, &run->mlp_norm, &x, &hidden);
    pair_features(run, &hidden, run->gate.columns);
    mlp(run, &hidden, &out, &scratch);
    if (run->mlp_out_norm.weight)
        norm_panels(run, &run->mlp_out_norm, &out, &out);
    add_to_residual(run, &out, &x);
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
        qk__parallel_for(run->num_blocks, run->threads, keys_job, run);
        qk__parallel_for(run->num_blocks, run->threads, rest_job, run);
    }
    if (run->failure == QK_OK)
        return qk__prefill_measures(run) ? qk__prefill_deliver_measured(run, err) : QK_OK;
    if (run->error.message[0] == 0)
        return qk__fail(err, run->failure, "stopped by its sink");
    if (err)
        *err = run->error;
    return run->failure;
}
