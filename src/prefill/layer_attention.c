/* SPDX-License-Identifier: Apache-2.0 */
/* What heads of the layer in hand attend with. */
#include <math.h>

#include "prefill/prefill.h"

/* q *= 1 + beta ln(1 + floor(position / original)), in the float32 steps of the original. */
void qk__prefill_scale_queries(const qk__prefill_run *run, size_t first_panel,
                               const qk__panels *q, size_t features)
{
    const qk__model_config *c = &run->model->config;
    for (size_t p = 0; p < q->count; p++) {
        float scale[QK_LANES];
        for (size_t lane = 0; lane < QK_LANES; lane++) {
            float position = (float)((first_panel + p) * QK_LANES + lane);
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

void qk__prefill_attention_of(const qk__prefill_run *run, size_t sequence,
                              qk__attention *attention)
{
    const qk__model_config *c = &run->model->config;
    const size_t own = run->first_panel[sequence] * run->k_step;
    *attention = (qk__attention){
        .kernel = run->kernel,
        .bf16 = run->bf16,
        .num_k_heads = (size_t)c->num_k_heads,
        .group = (size_t)(c->num_q_heads / c->num_k_heads),
        .head_dim = (size_t)c->head_dim,
        .window = run->model->layers[run->layer].window,
        .scale = (float)c->attention_scale,
        .rounding = run->rounding,
        .keys = run->keys + own,
        .values = qk__prefill_ends_here(run) ? NULL : run->values + own,
        .step = run->k_step,
    };
    if (sequence < run->first_branch)
        return;
    const qk__branch *branch = &run->branches[sequence - run->first_branch];
    const size_t text = run->first_panel[branch->given->sequence] * run->k_step;
    attention->own_from = branch->first_panel;
    attention->keys_before = run->keys + text;
    attention->values_before = run->values + text;
}
