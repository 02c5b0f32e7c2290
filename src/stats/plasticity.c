/* SPDX-License-Identifier: Apache-2.0 */
/* Attention plasticity of one head: everything that its tables say. */
#include <qkscope/stats.h>

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/bucket_width.h"
#include "stats/normality.h"
#include "stats/plasticity_core.h"
#include "stats/project.h"

void qk__plasticity_free(qk_plasticity **plasticity)
{
    assert(plasticity);
    if (!*plasticity)
        return;
    free((*plasticity)->component_r2);
    free((*plasticity)->component_weight);
    free((*plasticity)->profile);
    free((*plasticity)->cells);
    free((*plasticity)->distances);
    free(*plasticity);
    *plasticity = NULL;
}

/* Share of each dimension's variance that is linear in position. */
static qk_status set_components(qk_plasticity *out, const qk_moments *q, double beta_norm,
                                qk_error *err)
{
    size_t d = q->dim;
    double total = qk__trace(q), sum = 0;
    QK_TRY(QK__CREATE_ARRAYS(err, {&out->component_r2, d, sizeof(double)},
                             {&out->component_weight, d, sizeof(double)}));
    for (size_t i = 0; i < d; i++) {
        double variance = q->sum_xx[i * d + i], drift = q->sum_xt[i];
        if (beta_norm > 0 && variance > (double)d * DBL_EPSILON * total)
            out->component_r2[i] = fmin(drift * drift / (variance * q->sum_tt), 1);
        sum += out->component_r2[i];
    }
    for (size_t i = 0; i < d; i++)
        out->component_weight[i] = sum > 0 ? out->component_r2[i] / sum : NAN;
    out->q_r2_pos = sum / (double)d;
    out->beta_norm = beta_norm;
    return QK_OK;
}

/* Clears what describes the fit of the query model, which is undefined where rows are left out. */
static void clear_description(qk_plasticity *out)
{
    out->q_r2_scalar = out->q_mae_baseline = out->q_mae_proj = out->q_mae_ratio = NAN;
    out->resid0_skew = out->resid0_kurt = out->resid0_ks_p = NAN;
    out->noise_med_abs_skew = out->noise_med_abs_kurt = NAN;
    out->noise_med_ks_p = out->noise_frac_ks_p_lt_alpha = NAN;
    out->ap_overall_se = NAN; /* nothing is drawn where all rows are there */
}

static qk_status set_profile(qk_plasticity *out, const qk__query_grid *grid,
                             const qk__tally *tally, qk_error *err)
{
    out->profile = qk__calloc(grid->num + 1, sizeof *out->profile);
    if (!out->profile)
        return qk__nomem(err);
    out->num_profile = grid->num;
    for (size_t j = 0; j < grid->num; j++)
        out->profile[j] = (qk_ap_profile){.q_bucket = grid->bucket[j].id,
                                          .position = grid->bucket[j].tau,
                                          .queries = grid->bucket[j].total,
                                          .pairs = tally->pairs[j],
                                          .ap = tally->ap[j]};
    qk__summarise_profile(grid, tally->ap, &out->ap_overall, out->fifths, out->tenths);
    out->ap_drop = out->fifths[0] - out->fifths[QK_FIFTHS - 1];
    out->pairs_evaluated = tally->evaluated;
    out->cells_sampled = tally->sampled;
    return QK_OK;
}

/* Takes the cells that have an eligible key out of the table; the mean of those with pairs. */
static void take_cells(qk_plasticity *out, qk__cell_table *table)
{
    for (size_t c = 0; c < table->num_cells; c++)
        if (table->cell[c].pairs >= 0)
            table->cell[out->num_cells++] = table->cell[c];
    out->cells = table->cell;
    table->cell = NULL;
    double sum = 0;
    size_t counted = 0;
    for (size_t c = 0; c < out->num_cells; c++)
        if (out->cells[c].pairs > 0) {
            sum += out->cells[c].ap;
            counted++;
        }
    out->ap_mean = counted > 0 ? sum / (double)counted : NAN;
}

static qk_status set_distances(qk_plasticity *out, const qk__bin_table *table, qk_error *err)
{
    size_t size = table->distances * table->lags, used = 0;
    for (size_t i = 0; i < size; i++)
        used += table->bin[i].pairs > 0;
    out->distances = qk__calloc(used + 1, sizeof *out->distances);
    if (!out->distances)
        return qk__nomem(err);
    out->bucket_width = table->width;
    for (size_t i = 0; i < size; i++) {
        const qk__bin *bin = &table->bin[i];
        if (bin->pairs > 0)
            out->distances[out->num_distances++] = (qk_ap_distance){
                .distance_bin = (int64_t)(i / table->lags),
                .lag_bin = table->first_lag + (int64_t)(i % table->lags),
                .pairs = bin->pairs,
                .ap = bin->ap / (table->weighted ? bin->weight : (double)bin->pairs)};
    }
    return QK_OK;
}

static qk_status check_inputs(const qk_moments *q, const qk_block *queries,
                              const qk_block *keys, qk_error *err)
{
    if (q->dim != queries->dim || q->dim != keys->dim)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "queries have %zu dimensions, their moments %zu, keys %zu",
                        queries->dim, q->dim, keys->dim);
    if (queries->rows == 0 || keys->rows == 0 || q->count < 1)
        return qk__fail(err, QK_ERR_DEGENERATE, "no %s", keys->rows == 0 ? "keys" : "queries");
    return QK_OK;
}

/* The rest, once the index of present keys and the query buckets are there. */
static qk_status fit(qk_plasticity *out, const qk__query_model *model,
                     const qk__pair_source *source, const qk__plasticity_input *in,
                     qk_error *err)
{
    const qk__pair_space *space = &source->space;
    const qk__query_grid *grid = space->grid;
    const qk__totals *totals = in->totals;
    double width = in->settings->bucket_width;
    if (!(width > 0))
        width = qk__bucket_width(in->queries, in->keys);
    if (grid->rows == 0 || space->index->rows == 0)
        return qk__fail(err, QK_ERR_DEGENERATE, "no %s", grid->rows == 0 ? "queries" : "keys");
    out->n_q = totals ? totals->queries : (int64_t)grid->rows;
    out->n_k = totals ? totals->keys : (int64_t)space->index->rows;
    out->window = grid->window;
    qk__tally tally = {0};
    qk_status status = QK__CREATE_ARRAYS(err, {&tally.ap, grid->num + 1, sizeof *tally.ap},
                                         {&tally.pairs, grid->num + 1, sizeof *tally.pairs});
    if (status == QK_OK)
        status = qk__cell_table_create(&tally.cells, space, err);
    if (status == QK_OK)
        status = qk__bin_table_create(&tally.bins, space, width, err);
    if (status == QK_OK && in->parts) {
        status = qk__ap_parts_create(in->parts, grid, err);
        tally.parts = in->parts;
    }
    if (status == QK_OK)
        status = qk__sum_pairs(source, model, in, &tally, err);
    if (status == QK_OK)
        status = set_profile(out, grid, &tally, err);
    if (status == QK_OK)
        status = set_distances(out, tally.bins, err);
    if (status == QK_OK)
        take_cells(out, tally.cells);
    free(tally.ap);
    free(tally.pairs);
    qk__cell_table_free(&tally.cells);
    qk__bin_table_free(&tally.bins);
    return status;
}

qk_status qk__plasticity_fit(const qk_moments *q, const qk__plasticity_input *in, int sign,
                             qk_plasticity **plasticity, qk_error *err)
{
    *plasticity = NULL;
    QK_TRY(check_inputs(q, in->queries, in->keys, err));
    qk__query_model *model = NULL;
    qk__pair_source source = {0};
    qk_plasticity *out = calloc(1, sizeof *out);
    qk_status status =
        out ? qk__query_model_create(&model, q, NULL, sign, err) : qk__nomem(err);
    if (status == QK_OK)
        status = qk__pair_source_open(&source, in, err);
    if (status == QK_OK) {
        out->dim = q->dim;
        clear_description(out);
        status = fit(out, model, &source, in, err);
    }
    if (status == QK_OK && in->totals)
        status = qk__plasticity_sampling_error(model, in, &out->ap_overall_se, err);
    if (status == QK_OK)
        status = set_components(out, q, model->beta_norm, err);
    if (status == QK_OK && !in->queries->group)
        status = qk__describe_queries(model, in->queries, in->settings, out, err);
    qk__pair_source_close(&source);
    qk__query_model_free(&model);
    if (status != QK_OK)
        qk__plasticity_free(&out);
    *plasticity = out;
    return status;
}
