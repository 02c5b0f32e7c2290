/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a model over sequences: takes memory, embeds tokens, runs one layer after the other. */
#include "prefill/prefill.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/parallel.h"
#include "prefill/rounding.h"

void qk_prefill_settings_default(qk_prefill_settings *settings)
{
    assert(settings);
    *settings = (qk_prefill_settings){.after_rope = true};
}

/* ---- memory ----------------------------------------------------------------------------- */

/* Some models have no such norm: then the last layer that is run has none, and no other has. */
static qk_status init_norm(qk__norm *norm, const qk__prefill_run *run, const qk__tensor *tensor,
                           qk_error *err)
{
    const qk__model_config *c = &run->model->config;
    if (!tensor->data)
        return QK_OK;
    *norm = (qk__norm){c->norm, c->norm_eps, run->rounding, (size_t)tensor->columns,
                       qk__calloc((size_t)tensor->columns, sizeof(float))};
    return norm->weight ? QK_OK : qk__nomem(err);
}

static qk_status init_weights(qk__prefill_run *run, qk_error *err)
{
    const qk__model_config *c = &run->model->config;
    size_t hidden = (size_t)c->hidden_size, inner = (size_t)c->intermediate_size;
    size_t q = (size_t)c->num_q_heads * (size_t)c->head_dim;
    size_t k = (size_t)c->num_k_heads * (size_t)c->head_dim;
    QK_TRY(qk__matrix_init(&run->q, q, hidden, err));
    QK_TRY(qk__matrix_init(&run->k, k, hidden, err));
    if (run->num_run > 1 || run->settings->loss) {
        QK_TRY(qk__matrix_init(&run->v, k, hidden, err));
        QK_TRY(qk__matrix_init(&run->o, hidden, q, err));
        QK_TRY(qk__matrix_init(&run->gate, inner, hidden, err));
        QK_TRY(qk__matrix_init(&run->up, inner, hidden, err));
        QK_TRY(qk__matrix_init(&run->down, hidden, inner, err));
    }
    const qk__layer *layer = &run->model->layers[run->last_layer];
    QK_TRY(init_norm(&run->attention_norm, run, &layer->attention_norm, err));
    QK_TRY(init_norm(&run->attention_out_norm, run, &layer->attention_out_norm, err));
    QK_TRY(init_norm(&run->mlp_norm, run, &layer->mlp_norm, err));
    QK_TRY(init_norm(&run->mlp_out_norm, run, &layer->mlp_out_norm, err));
    QK_TRY(init_norm(&run->q_norm, run, &layer->q_norm, err));
    return init_norm(&run->k_norm, run, &layer->k_norm, err);
}

static qk_status init_tables(qk__prefill_run *run, qk_error *err)
{
    for (int layer = 0; layer <= run->last_layer; layer++) {
        const qk__rope *rope = run->model->layers[layer].rope;
        if (!run->model->layers[layer].attends || !rope)
            continue;
        qk__rope_table *table = &run->tables[rope - run->model->ropes];
        if (!table->rope)
            QK_TRY(qk__rope_table_init(table, rope, run->longest, run->rounding, run->threads,
                                       err));
    }
    return QK_OK;
}

static float *panel_memory(const qk__prefill_run *run, size_t features)
{
    if (features > SIZE_MAX / sizeof(float) / QK_LANES)
        return NULL;
    return qk__alloc_aligned(run->num_panels, features * QK_LANES * sizeof(float));
}

static qk_status init_memory(qk__prefill_run *run, qk_error *err)
{
    qk__prefill_measure(&run->sizes, run->model, run->settings);
    run->k_step = run->sizes.k * QK_LANES;
    run->turns = qk__calloc(2 * run->num_sequences, sizeof *run->turns);
    run->x = panel_memory(run, run->sizes.features);
    run->keys = panel_memory(run, run->sizes.k);
    run->values = panel_memory(run, run->sizes.k);
    if (qk__prefill_turns_keys(run->settings)) {
        run->unrotated = panel_memory(run, run->sizes.k);
        if (!run->unrotated)
            return qk__nomem(err);
    }
    run->scratch = qk__alloc_aligned((size_t)run->threads, run->sizes.scratch * sizeof(float));
    if (!run->turns || !run->x || !run->keys || !run->values || !run->scratch)
        return qk__nomem(err);
    QK_TRY(init_weights(run, err));
    QK_TRY(qk__prefill_init_measured(run, err));
    return init_tables(run, err);
}

static void free_run(qk__prefill_run *run)
{
    free(run->blocks);
    free(run->first_panel);
    free(run->x);
    free(run->keys);
    free(run->values);
    free(run->unrotated);
    free(run->all_sequences);
    free(run->branches);
    free(run->scratch);
    free(run->turns);
    qk__prefill_free_measured(run);
    if (run->wanted)
        free(run->wanted[0].heads);
    free(run->wanted);
    for (int i = 0; i < QK_NUM_ROPES; i++)
        qk__rope_table_free(&run->tables[i]);
    qk__matrix *matrices[] = {&run->q,    &run->k,  &run->v,   &run->o,
                              &run->gate, &run->up, &run->down};
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        qk__matrix_free(matrices[i]);
    qk__norm *norms[] = {&run->attention_norm, &run->attention_out_norm,
                         &run->mlp_norm,       &run->mlp_out_norm,
                         &run->q_norm,         &run->k_norm};
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        free(norms[i]->weight);
}

/* ---- running ---------------------------------------------------------------------------- */

static void embed_token(const qk__prefill_run *run, int32_t token, float scale, float *row,
                        float *out)
{
    size_t hidden = (size_t)run->model->config.hidden_size;
    const float *values = qk__tensor_rows(&run->model->embedding, token, 1, row);
    for (size_t i = 0; i < hidden; i++) {
        float value = values[i] * scale;
        out[i * QK_LANES] = qk__rounded(run->rounding, value);
    }
}

/* Tokens past the end of a sequence are zero. */
static void embed_job(void *context, size_t number, int worker)
{
    const qk__prefill_run *run = context;
    const qk__panel_block *block = &run->blocks[number];
    const qk_sequence *sequence = &run->sequences[block->sequence];
    float scale = qk__rounded(run->rounding, run->model->config.embedding_scale);
    float *row = qk__prefill_scratch_of(run, worker).hidden;
    size_t step = run->sizes.features * QK_LANES;
    for (size_t p = 0; p < block->panels; p++) {
        size_t panel = block->first_panel + p;
        float *out = run->x + (run->first_panel[block->sequence] + panel) * step;
        int64_t left = sequence->count - (int64_t)(panel * QK_LANES);
        if (left < QK_LANES)
            memset(out, 0, step * sizeof *out);
        for (int64_t lane = 0; lane < QK_LANES && lane < left; lane++)
            embed_token(run, sequence->tokens[panel * QK_LANES + (size_t)lane], scale, row,
                        out + lane);
    }
}

static qk_status run_layers(qk__prefill_run *run, qk_error *err)
{
    int done = 0;
    qk__parallel_for(run->num_text_blocks, run->threads, embed_job, run);
    for (run->layer = 0; run->layer <= run->last_layer; run->layer++) {
        if (!run->model->layers[run->layer].attends)
            continue;
        if (!qk__tell_progress(
                &run->settings->context,
                &(qk_progress){.what = "layers", .done = done, .total = run->num_run}))
            return qk__fail(err, QK_ERR_CANCELLED, "cancelled");
        done++;
        QK_TRY(qk__prefill_layer(run, err));
    }
    return QK_OK;
}

qk_status qk_prefill(const qk_model *model, const qk_prefill_settings *settings,
                     const qk_sequence *sequences, size_t num_sequences, qk_error *err)
{
    QK_NEED(err, model, settings);
    return qk__prefill_by(qk__best_bf16_kernel(), model, settings, sequences, num_sequences,
                          err);
}

qk_status qk__prefill_by(const qk__bf16_kernel *bf16, const qk_model *model,
                         const qk_prefill_settings *settings, const qk_sequence *sequences,
                         size_t num_sequences, qk_error *err)
{
    qk__prefill_run run = {
        .model = model,
        .settings = settings,
        .sequences = sequences,
        .num_sequences = num_sequences,
        .kernel = qk__best_panel_kernel(),
        .threads = qk__count_threads(&settings->context),
        .bf16 = settings->arithmetic == QK_ARITHMETIC_BF16 ? bf16 : NULL,
        .rounding = settings->arithmetic == QK_ARITHMETIC_BF16_SIM  ? QK__BF16
                    : settings->arithmetic == QK_ARITHMETIC_BF16    ? QK__BF16
                    : settings->arithmetic == QK_ARITHMETIC_F16_SIM ? QK__F16
                                                                    : QK__UNROUNDED,
    };
    bool rows = settings->before_rope || settings->after_rope;
    if (!settings->sink && (rows || (!settings->attention && !settings->loss)))
        return qk__fail(err, QK_ERR_ARGUMENT, "a run without a sink");
    if (settings->outputs && (!settings->attention || !settings->loss))
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "what heads put out comes with attention and losses");
    if (!model->embedding.data)
        return qk__fail(err, QK_ERR_ARGUMENT, "a run of a model opened without its weights");
    if (num_sequences == 0)
        return QK_OK;
    if (pthread_mutex_init(&run.lock, NULL))
        return qk__nomem(err);
    if (pthread_cond_init(&run.turned, NULL)) {
        pthread_mutex_destroy(&run.lock);
        return qk__nomem(err);
    }
    qk_status status = settings->loss ? qk__model_output(model, &run.output, err) : QK_OK;
    if (status == QK_OK)
        status = qk__prefill_plan(&run, err);
    if (status == QK_OK && run.last_layer >= 0) {
        status = init_memory(&run, err);
        if (status == QK_OK)
            status = run_layers(&run, err);
        if (status == QK_OK && settings->loss)
            status = qk__prefill_losses(&run, err);
    }
    free_run(&run);
    pthread_cond_destroy(&run.turned);
    pthread_mutex_destroy(&run.lock);
    return status;
}
