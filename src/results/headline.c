/* SPDX-License-Identifier: Apache-2.0 */
/* Headline numbers from the heads of a model, a family, or all models. */
#include "results/headline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/analysis.h>

#include "base/buffer.h"
#include "base/error.h"

#define PCA        "Combined QK PCA"
#define TAXONOMY   "Kinds of heads"
#define ROTATION   "Rotation model"
#define PLASTICITY "Attention plasticity"
#define STAGES     "Before and after RoPE"

const qk__headline_column qk__headline_columns[QK__NUM_HEADLINES] = {
    {"ev0", "PC0 variance", "share of all, mean", PCA, QK__MEAN, "ev0", NULL, 0, true},
    {"mean_r_q", "mean r<sub>q</sub>", "with position, on PC0", PCA, QK__MEAN, "r_q", NULL, 0,
     false},
    {"mean_abs_r_k", "mean |r<sub>k</sub>|", "with position, on PC0", PCA, QK__MEAN_MAGNITUDE,
     "r_k", NULL, 0, false},
    {"pos_var_q", "positional variance Q", "mean, all components", PCA, QK__MEAN, "pos_var_q",
     NULL, 0, true},
    {"pos_var_k", "positional variance K", "mean, all components", PCA, QK__MEAN, "pos_var_k",
     NULL, 0, true},
    {"pos_var_q_pc0_share", "of it in PC0", "share of Q, mean", PCA, QK__MEAN,
     "pos_var_q_pc0_share", NULL, 0, true},
    {"separation_median", "separation", "of Q and K on PC0, median", PCA, QK__MEDIAN,
     "separation", NULL, 0, false},
    {"fisher_median", "Fisher ratio", "on PC0, median", PCA, QK__MEDIAN, "fisher", NULL, 0,
     false},
    {"lda_accuracy", "LDA accuracy", "in (PC0, PC1), mean", PCA, QK__MEAN, "lda_accuracy", NULL,
     0, true},
    {"position_dominated", "position-dominated", "share of heads", TAXONOMY, QK__SHARE_CATEGORY,
     NULL, NULL, QK_POSITION_DOMINATED, true},
    {"q_positional", "Q-positional", "share of heads", TAXONOMY, QK__SHARE_CATEGORY, NULL, NULL,
     QK_Q_POSITIONAL, true},
    {"k_positional", "K-positional", "share of heads", TAXONOMY, QK__SHARE_CATEGORY, NULL, NULL,
     QK_K_POSITIONAL, true},
    {"content_focused", "content-focused", "share of heads", TAXONOMY, QK__SHARE_CATEGORY, NULL,
     NULL, QK_CONTENT_FOCUSED, true},
    {"mixed", "mixed", "share of heads", TAXONOMY, QK__SHARE_CATEGORY, NULL, NULL, QK_MIXED,
     true},
    {"uncertain", "uncertain", "share of heads whose category is less than 95 % probable",
     TAXONOMY, QK__SHARE_UNCERTAIN, "category_probability", NULL, 0, true},
    {"plane_variance", "plane variance", "in (a, b), mean", ROTATION, QK__MEAN,
     "plane_var_fraction", NULL, 0, true},
    {"bias_positive", "bias &gt; 0", "share of heads", ROTATION, QK__SHARE_POSITIVE,
     "bias_strength", NULL, 0, true},
    {"bias_median", "bias", "median, per token", ROTATION, QK__MEDIAN, "bias_strength", NULL, 0,
     false},
    {"slope_ratio", "slope ratio", "median of |\xCE\xB1<sub>k</sub>| / |\xCE\xB1<sub>q</sub>|",
     ROTATION, QK__MEDIAN_RATIO, "alpha_k", "alpha_q", 0, false},
    {"mean_abs_r_q_a", "|r<sub>q</sub>| on a", "mean", ROTATION, QK__MEAN_MAGNITUDE, "r_q_a",
     NULL, 0, false},
    {"mean_abs_r_k_a", "|r<sub>k</sub>| on a", "mean", ROTATION, QK__MEAN_MAGNITUDE, "r_k_a",
     NULL, 0, false},
    {"ap_overall", "plasticity", "mean", PLASTICITY, QK__MEAN, "ap_overall", NULL, 0, false},
    {"ap_overall_se", "standard error", "of it, from choosing keys, at most", PLASTICITY,
     QK__MEAN, "ap_overall_se", NULL, 0, false},
    {"ap_first_20pct", "first fifth", "of the context, mean", PLASTICITY, QK__MEAN,
     "ap_first_20pct", NULL, 0, false},
    {"ap_last_20pct", "last fifth", "of the context, mean", PLASTICITY, QK__MEAN,
     "ap_last_20pct", NULL, 0, false},
    {"ap_drop", "drop", "first − last, mean", PLASTICITY, QK__MEAN, "ap_drop", NULL, 0, false},
    {"mean_r_q_before", "r<sub>q</sub> before", "on PC0, mean", STAGES, QK__MEAN, "r_q_before",
     NULL, 0, false},
    {"mean_r_q_after", "r<sub>q</sub> after", "on PC0, mean", STAGES, QK__MEAN, "r_q_after",
     NULL, 0, false},
    {"mean_abs_r_k_before", "|r<sub>k</sub>| before", "on PC0, mean", STAGES,
     QK__MEAN_MAGNITUDE, "r_k_before", NULL, 0, false},
    {"mean_abs_r_k_after", "|r<sub>k</sub>| after", "on PC0, mean", STAGES, QK__MEAN_MAGNITUDE,
     "r_k_after", NULL, 0, false},
    {"r_squared_predicted", "R² of the score", "by distance, median", STAGES, QK__MEDIAN,
     "r_squared_predicted", NULL, 0, false},
    {"slow_energy_q", "slow energy Q", "in slow rotary pairs, mean", STAGES, QK__MEAN,
     "slow_energy_q", NULL, 0, true},
    {"slow_energy_k", "slow energy K", "in slow rotary pairs, mean", STAGES, QK__MEAN,
     "slow_energy_k", NULL, 0, true},
    {"slow_score_share", "slow score variance", "over distance, mean", STAGES, QK__MEAN,
     "slow_score_share", NULL, 0, true},
};

/* What a head adds to the column; NaN: nothing. */
static double head_value(const qk__headline_column *column, const qk__result_head *head)
{
    if (column->kind == QK__SHARE_CATEGORY)
        return head->category < 0 ? NAN : head->category == column->category;
    double value = qk__field_value(qk__find_field(column->field), &head->v);
    switch (column->kind) {
    case QK__MEAN_MAGNITUDE:
        return fabs(value);
    case QK__SHARE_POSITIVE:
        return isfinite(value) ? value > 0 : NAN;
    case QK__SHARE_UNCERTAIN:
        return isfinite(value) ? value < QK_CERTAIN : NAN;
    case QK__MEDIAN_RATIO:
        return fabs(value) / fabs(qk__field_value(qk__find_field(column->other), &head->v));
    default:
        return value;
    }
}

static bool in_row(const qk__headline *row, const qk__result_model *model)
{
    return row->model ? row->model == model
                      : !row->family || strcmp(row->family, model->family) == 0;
}

/* scratch holds as many numbers as there are heads. */
static double compute(const qk__results *results, const qk__headline *row,
                      const qk__headline_column *column, double *scratch, size_t *count)
{
    qk__mean mean = {0};
    for (size_t m = 0; m < results->num_models; m++) {
        const qk__result_model *model = &results->models[m];
        for (size_t h = 0; in_row(row, model) && h < model->num_heads; h++) {
            double value = head_value(column, &model->heads[h]);
            if (!isfinite(value))
                continue;
            scratch[mean.count] = value;
            qk__mean_add(&mean, value);
        }
    }
    *count = mean.count;
    if (column->kind == QK__MEDIAN || column->kind == QK__MEDIAN_RATIO)
        return qk__median(scratch, mean.count);
    return qk__mean_of(&mean);
}

/* One row a model; one a family where a family is more than one model and not all of them; one
 * of all where there are several models. Checkpoints of one training run are not added up. */
static void list_rows(const qk__results *results, qk__headlines *headlines)
{
    for (size_t m = 0; m < results->num_models; m++)
        headlines->rows[headlines->count++] = (qk__headline){.model = &results->models[m]};
    if (results->num_models < 2 || results->checkpoints)
        return;
    for (size_t f = 0; results->num_families > 1 && f < results->num_families; f++)
        headlines->rows[headlines->count++] = (qk__headline){.family = results->families[f]};
    headlines->rows[headlines->count++] = (qk__headline){0};
}

qk_status qk__headlines_compute(const qk__results *results, qk__headlines *headlines,
                                qk_error *err)
{
    *headlines = (qk__headlines){0};
    double *scratch = qk__calloc(qk__count_heads(results) + 1, sizeof *scratch);
    headlines->rows =
        qk__calloc(results->num_models + results->num_families + 1, sizeof *headlines->rows);
    if (!scratch || !headlines->rows) {
        free(scratch);
        qk__headlines_free(headlines);
        return qk__nomem(err);
    }
    list_rows(results, headlines);
    for (size_t i = 0; i < headlines->count; i++) {
        qk__headline *row = &headlines->rows[i];
        for (size_t m = 0; m < results->num_models; m++)
            if (in_row(row, &results->models[m])) {
                row->num_models++;
                row->num_heads += results->models[m].num_heads;
            }
        for (size_t c = 0; c < QK__NUM_HEADLINES; c++) {
            row->values[c] =
                compute(results, row, &qk__headline_columns[c], scratch, &row->counts[c]);
            headlines->present[c] |= isfinite(row->values[c]);
        }
    }
    free(scratch);
    return QK_OK;
}

void qk__headlines_free(qk__headlines *headlines)
{
    free(headlines->rows);
    *headlines = (qk__headlines){0};
}

double qk__headline_value(const qk__headline *row, const char *name)
{
    for (size_t c = 0; row && c < QK__NUM_HEADLINES; c++)
        if (strcmp(qk__headline_columns[c].name, name) == 0)
            return row->values[c];
    return NAN;
}
