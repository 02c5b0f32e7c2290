/* SPDX-License-Identifier: Apache-2.0 */
/* Headline numbers of a model, a family, or all models: one SELECT each. */
#include "report/headline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/analysis.h>

#include "base/buffer.h"
#include "base/error.h"

/* What a macro stands for, as text. */
#define TEXT_OF(macro) SPELT(macro)
#define SPELT(text)    #text

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

/* What a head adds to a column, and how the column is summed up. */
static qk_status put_column(const qk__headline_column *c, qk__buffer *sql, qk_error *err)
{
    static const char *const OVER[] = {
        [QK__MEAN] = "avg(%s)",           [QK__MEAN_MAGNITUDE] = "avg(%s)",
        [QK__MEDIAN] = "median(%s)",      [QK__SHARE_POSITIVE] = "avg(%s)",
        [QK__SHARE_CATEGORY] = "avg(%s)", [QK__SHARE_UNCERTAIN] = "avg(%s)",
        [QK__MEDIAN_RATIO] = "median(%s)"};
    char of[120];
    switch (c->kind) {
    case QK__MEAN_MAGNITUDE:
        snprintf(of, sizeof of, "abs(%s)", c->field);
        break;
    case QK__SHARE_POSITIVE:
        snprintf(of, sizeof of, "%s > 0", c->field);
        break;
    case QK__SHARE_CATEGORY:
        snprintf(of, sizeof of, "category = '%s'", qk_category_name((qk_category)c->category));
        break;
    case QK__SHARE_UNCERTAIN:
        snprintf(of, sizeof of, "%s < " TEXT_OF(QK_CERTAIN), c->field);
        break;
    case QK__MEDIAN_RATIO:
        snprintf(of, sizeof of, "abs(%s) / abs(%s)", c->field, c->other);
        break;
    default:
        snprintf(of, sizeof of, "%s", c->field);
    }
    QK_TRY(qk__buffer_printf(sql, err, sql->size > 0 ? ", " : "SELECT "));
    QK_TRY(qk__buffer_printf(sql, err, OVER[c->kind], of));
    return qk__buffer_printf(sql, err, " AS \"%s\", 1.0 * count(%s) AS \"%s heads\"", c->name,
                             of, c->name);
}

/* The beginning of each SELECT; what it is about follows. */
static qk_status put_columns(qk__buffer *sql, qk_error *err)
{
    for (size_t c = 0; c < QK__NUM_HEADLINES; c++)
        QK_TRY(put_column(&qk__headline_columns[c], sql, err));
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
