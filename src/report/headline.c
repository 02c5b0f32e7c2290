/* SPDX-License-Identifier: Apache-2.0 */
/* Headline numbers of a model, a family, or all models: one SELECT each. */
#include "report/headline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"

#define PCA        "Combined QK PCA"
#define TAXONOMY   "Kinds of heads"
#define ROTATION   "Rotation model"
#define PLASTICITY "Attention plasticity"
#define STAGES     "Before and after RoPE"

const qk__headline_column qk__headline_columns[QK__NUM_HEADLINES] = {
    {"ev0", "PC0 variance", "share of all, mean", PCA, "avg", "ev0", true},
    {"mean_r_q", "mean r<sub>q</sub>", "with position, on PC0", PCA, "avg", "r_q", false},
    {"mean_abs_r_k", "mean |r<sub>k</sub>|", "with position, on PC0", PCA, "avg", "abs(r_k)",
     false},
    {"pos_var_q", "positional variance Q", "mean, all components", PCA, "avg", "pos_var_q",
     true},
    {"pos_var_k", "positional variance K", "mean, all components", PCA, "avg", "pos_var_k",
     true},
    {"pos_var_q_pc0_share", "of it in PC0", "share of Q, mean", PCA, "avg",
     "pos_var_q_pc0_share", true},
    {"separation_median", "separation", "of Q and K on PC0, median", PCA, "median",
     "separation", false},
    {"fisher_median", "Fisher ratio", "on PC0, median", PCA, "median", "fisher", false},
    {"lda_accuracy", "LDA accuracy", "in (PC0, PC1), mean", PCA, "avg", "lda_accuracy", true},
    {"position_dominated", "position-dominated", "share of heads", TAXONOMY, "avg",
     "category = 'position-dominated'", true},
    {"q_positional", "Q-positional", "share of heads", TAXONOMY, "avg",
     "category = 'Q-positional'", true},
    {"k_positional", "K-positional", "share of heads", TAXONOMY, "avg",
     "category = 'K-positional'", true},
    {"content_focused", "content-focused", "share of heads", TAXONOMY, "avg",
     "category = 'content-focused'", true},
    {"mixed", "mixed", "share of heads", TAXONOMY, "avg", "category = 'mixed'", true},
    {"uncertain", "uncertain", "share of heads with a probability that is below 95 %", TAXONOMY,
     "avg", "category_probability < 0.95", true},
    {"plane_variance", "plane variance", "in (a, b), mean", ROTATION, "avg",
     "plane_var_fraction", true},
    {"bias_positive", "bias &gt; 0", "share of heads", ROTATION, "avg", "bias_strength > 0",
     true},
    {"bias_certain", "bias surely &gt; 0", "share of heads with an interval", ROTATION, "avg",
     "bias_strength_lo > 0", true},
    {"bias_median", "bias", "median, per token", ROTATION, "median", "bias_strength", false},
    {"slope_ratio", "slope ratio", "median of |\xCE\xB1<sub>k</sub>| / |\xCE\xB1<sub>q</sub>|",
     ROTATION, "median", "abs(alpha_k) / abs(alpha_q)", false},
    {"mean_abs_r_q_a", "|r<sub>q</sub>| on a", "mean", ROTATION, "avg", "abs(r_q_a)", false},
    {"mean_abs_r_k_a", "|r<sub>k</sub>| on a", "mean", ROTATION, "avg", "abs(r_k_a)", false},
    {"ap_overall", "plasticity", "mean", PLASTICITY, "avg", "ap_overall", false},
    {"ap_overall_se", "standard error", "of it, from choosing keys, at most", PLASTICITY, "avg",
     "ap_overall_se", false},
    {"ap_first_20pct", "first fifth", "of the context, mean", PLASTICITY, "avg",
     "ap_first_20pct", false},
    {"ap_last_20pct", "last fifth", "of the context, mean", PLASTICITY, "avg", "ap_last_20pct",
     false},
    {"ap_drop", "drop", "first − last, mean", PLASTICITY, "avg", "ap_drop", false},
    {"mean_r_q_before", "r<sub>q</sub> before", "on PC0, mean", STAGES, "avg", "r_q_before",
     false},
    {"mean_r_q_after", "r<sub>q</sub> after", "on PC0, mean", STAGES, "avg", "r_q_after",
     false},
    {"mean_abs_r_k_before", "|r<sub>k</sub>| before", "on PC0, mean", STAGES, "avg",
     "abs(r_k_before)", false},
    {"mean_abs_r_k_after", "|r<sub>k</sub>| after", "on PC0, mean", STAGES, "avg",
     "abs(r_k_after)", false},
    {"r_squared_predicted", "R² of the score", "by distance, median", STAGES, "median",
     "r_squared_predicted", false},
    {"slow_energy_q", "slow energy Q", "in slow rotary pairs, mean", STAGES, "avg",
     "slow_energy_q", true},
    {"slow_energy_k", "slow energy K", "in slow rotary pairs, mean", STAGES, "avg",
     "slow_energy_k", true},
    {"slow_score_share", "slow score variance", "over distance, mean", STAGES, "avg",
     "slow_score_share", true},
};

/* The beginning of each SELECT; what it is about follows. */
static qk_status put_columns(qk__buffer *sql, qk_error *err)
{
    for (size_t i = 0; i < QK__NUM_HEADLINES; i++) {
        const qk__headline_column *c = &qk__headline_columns[i];
        QK_TRY(qk__buffer_printf(
            sql, err, "%s%s(%s) AS \"%s\", 1.0 * count(%s) AS \"%s heads\"",
            i > 0 ? ", " : "SELECT ", c->over_heads, c->of, c->name, c->of, c->name));
    }
    return qk__buffer_printf(sql, err, " FROM head_numbers");
}

static qk_status ask_row(qk__store *tables, const char *sql, const qk__headline *row,
                         qk_columns **rows, qk_error *err)
{
    if (row->model)
        return qk__store_ask(tables, rows, err, "%s WHERE head_id >= %lld AND head_id < %lld",
                             sql, (long long)row->model->id << 42,
                             ((long long)row->model->id + 1) << 42);
    if (row->family)
        return qk__store_ask(tables, rows, err, "%s WHERE family = %Q", sql, row->family);
    return qk__store_ask(tables, rows, err, "%s", sql);
}

static qk_status compute(qk__store *tables, const char *sql, qk__headline *row, qk_error *err)
{
    qk_columns *rows;
    QK_TRY(ask_row(tables, sql, row, &rows, err));
    for (size_t c = 0; c < QK__NUM_HEADLINES; c++) {
        char count[80];
        const char *name = qk__headline_columns[c].name;
        snprintf(count, sizeof count, "%s heads", name);
        row->values[c] = qk_columns_reals(rows, name)[0];
        row->counts[c] = (size_t)qk_columns_reals(rows, count)[0];
    }
    qk_columns_free(&rows);
    return QK_OK;
}

static bool in_row(const qk__headline *row, const qk__result_model *model)
{
    return row->model ? row->model == model
                      : !row->family || strcmp(row->family, model->family) == 0;
}

/* A row for each model; for each family with more than one model, where there are other families; for all models,
 * where there are several. Checkpoints of one training run are not added up. */
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

static qk_status compute_all(const qk__results *results, qk__store *tables,
                             qk__headlines *headlines, qk_error *err)
{
    qk__buffer sql = {0};
    qk_status status = put_columns(&sql, err);
    for (size_t i = 0; i < headlines->count && status == QK_OK; i++) {
        qk__headline *row = &headlines->rows[i];
        for (size_t m = 0; m < results->num_models; m++)
            if (in_row(row, &results->models[m])) {
                row->num_models++;
                row->num_heads += results->models[m].num_heads;
            }
        status = compute(tables, (const char *)sql.data, row, err);
        for (size_t c = 0; c < QK__NUM_HEADLINES && status == QK_OK; c++)
            headlines->present[c] |= isfinite(row->values[c]);
    }
    qk__buffer_free(&sql);
    return status;
}

qk_status qk__headlines_compute(const qk__results *results, qk__store *tables,
                                qk__headlines *headlines, qk_error *err)
{
    *headlines = (qk__headlines){0};
    headlines->rows =
        qk__calloc(results->num_models + results->num_families + 1, sizeof *headlines->rows);
    if (!headlines->rows)
        return qk__nomem(err);
    list_rows(results, headlines);
    qk_status status = compute_all(results, tables, headlines, err);
    if (status != QK_OK)
        qk__headlines_free(headlines);
    return status;
}

void qk__headlines_free(qk__headlines *headlines)
{
    free(headlines->rows);
    *headlines = (qk__headlines){0};
}
