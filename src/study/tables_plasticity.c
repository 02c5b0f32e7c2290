/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of attention plasticity: five by head, one of the model. Their columns are defined
 * here. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "study/table.h"

static qk_status add_window(const qk_plasticity *p, qk_buffer *text, qk_error *err)
{
    if (p->window > 0)
        return qk__csv_integer(text, p->window, ',', err);
    return qk__csv_text(text, "", ',', err);
}

static qk_status format_metrics(const qk_run *run, const qk_head_report *head, qk_buffer *text,
                                qk_error *err)
{
    const qk_plasticity *p = head->plasticity;
    if (!p)
        return QK_OK;
    const double values[] = {p->bucket_width,
                             p->q_r2_pos,
                             p->beta_norm,
                             p->q_r2_scalar,
                             p->q_mae_baseline,
                             p->q_mae_proj,
                             p->q_mae_ratio,
                             p->resid0_skew,
                             p->resid0_kurt,
                             p->resid0_ks_p,
                             p->noise_med_abs_skew,
                             p->noise_med_abs_kurt,
                             p->noise_med_ks_p,
                             p->noise_frac_ks_p_lt_alpha,
                             p->ap_overall,
                             p->fifths[0],
                             p->fifths[QK_FIFTHS - 1],
                             p->ap_drop,
                             p->ap_mean};
    QK_TRY(qk__add_ids(run, head, text, err));
    QK_TRY(qk__csv_integer(text, p->n_q, ',', err));
    QK_TRY(qk__csv_integer(text, p->n_k, ',', err));
    QK_TRY(qk__csv_integer(text, (long long)p->dim, ',', err));
    QK_TRY(add_window(p, text, err));
    QK_TRY(
        qk__add_numbers(text, values, sizeof values / sizeof *values, qk__row_end(run), err));
    qk_interval intervals[] = {{NAN, NAN}, {NAN, NAN}};
    if (head->intervals) {
        intervals[0] = head->intervals->ap_overall;
        intervals[1] = head->intervals->ap_drop;
    }
    return qk__add_intervals(run, text, intervals, 2, err);
}

static qk_status format_profile(const qk_run *run, const qk_head_report *head, qk_buffer *text,
                                qk_error *err)
{
    const qk_plasticity *p = head->plasticity;
    for (size_t i = 0; p && i < p->num_profile; i++) {
        const qk_ap_profile *row = &p->profile[i];
        QK_TRY(qk__add_ids(run, head, text, err));
        QK_TRY(qk__csv_integer(text, row->q_bucket, ',', err));
        QK_TRY(qk__csv_number(text, row->position, ',', err));
        QK_TRY(qk__csv_integer(text, row->queries, ',', err));
        QK_TRY(qk__csv_integer(text, row->pairs, ',', err));
        QK_TRY(qk__csv_number(text, row->ap, '\n', err));
    }
    return QK_OK;
}

static qk_status format_cells(const qk_run *run, const qk_head_report *head, qk_buffer *text,
                              qk_error *err)
{
    const qk_plasticity *p = head->plasticity;
    for (size_t i = 0; p && i < p->num_cells; i++) {
        const qk_ap_cell *row = &p->cells[i];
        QK_TRY(qk__add_ids(run, head, text, err));
        QK_TRY(qk__csv_integer(text, row->q_bucket, ',', err));
        QK_TRY(qk__csv_integer(text, row->k_bucket, ',', err));
        QK_TRY(qk__csv_integer(text, row->pairs, ',', err));
        QK_TRY(qk__csv_number(text, row->ap, '\n', err));
    }
    return QK_OK;
}

static qk_status format_distances(const qk_run *run, const qk_head_report *head,
                                  qk_buffer *text, qk_error *err)
{
    const qk_plasticity *p = head->plasticity;
    for (size_t i = 0; p && i < p->num_distances; i++) {
        const qk_ap_distance *row = &p->distances[i];
        QK_TRY(qk__add_ids(run, head, text, err));
        QK_TRY(qk__csv_integer(text, row->distance_bin, ',', err));
        QK_TRY(qk__csv_integer(text, row->lag_bin, ',', err));
        QK_TRY(qk__csv_integer(text, row->pairs, ',', err));
        QK_TRY(qk__csv_number(text, row->ap, '\n', err));
    }
    return QK_OK;
}

static qk_status format_components(const qk_run *run, const qk_head_report *head,
                                   qk_buffer *text, qk_error *err)
{
    const qk_plasticity *p = head->plasticity;
    for (size_t i = 0; p && i < p->dim; i++) {
        const double values[] = {p->component_r2[i], p->component_weight[i]};
        QK_TRY(qk__add_ids(run, head, text, err));
        QK_TRY(qk__csv_integer(text, (long long)i, ',', err));
        QK_TRY(qk__add_numbers(text, values, 2, '\n', err));
    }
    return QK_OK;
}

/* ---- the model as a whole --------------------------------------------------------------- */

enum { NUM_MEANS = 3 + QK_FIFTHS + QK_TENTHS };

/* The numbers of a head that the model has the mean of, in the order of NUM_MEANS. */
static void list_numbers(const qk_plasticity *p, double values[NUM_MEANS])
{
    values[0] = p->ap_overall;
    values[1] = p->ap_drop;
    values[2] = p->ap_mean;
    memcpy(values + 3, p->fifths, sizeof p->fifths);
    memcpy(values + 3 + QK_FIFTHS, p->tenths, sizeof p->tenths);
}

static qk_model_plasticity average(const qk_study_report *report)
{
    double sums[NUM_MEANS] = {0}, means[NUM_MEANS];
    size_t counts[NUM_MEANS] = {0};
    qk_model_plasticity model = {0};
    for (size_t i = 0; i < report->num_heads; i++) {
        double values[NUM_MEANS];
        if (!report->heads[i].plasticity)
            continue;
        model.heads++;
        list_numbers(report->heads[i].plasticity, values);
        for (int k = 0; k < NUM_MEANS; k++) {
            sums[k] += isnan(values[k]) ? 0 : values[k];
            counts[k] += !isnan(values[k]);
        }
    }
    for (int k = 0; k < NUM_MEANS; k++)
        means[k] = counts[k] ? sums[k] / (double)counts[k] : NAN;
    model.ap_overall = means[0];
    model.ap_drop = means[1];
    model.ap_mean = means[2];
    memcpy(model.fifths, means + 3, sizeof model.fifths);
    memcpy(model.tenths, means + 3 + QK_FIFTHS, sizeof model.tenths);
    return model;
}

/* One row, which goes where that of the first head with numbers would. */
static qk_status format_model(const qk_run *run, const qk_head_report *head, qk_buffer *text,
                              qk_error *err)
{
    const qk_head_report *first = run->report->heads;
    while (first < run->report->heads + run->report->num_heads && !first->plasticity)
        first++;
    if (head != first)
        return QK_OK;
    const qk_model_plasticity *model = &run->report->plasticity;
    const double rest[] = {model->ap_overall, model->fifths[0], model->fifths[QK_FIFTHS - 1],
                           model->ap_drop, model->ap_mean};
    QK_TRY(qk__csv_text(text, run->report->model, ',', err));
    QK_TRY(qk__csv_integer(text, (long long)model->heads, ',', err));
    QK_TRY(qk__add_numbers(text, model->fifths, QK_FIFTHS, ',', err));
    QK_TRY(qk__add_numbers(text, model->tenths, QK_TENTHS, ',', err));
    return qk__add_numbers(text, rest, sizeof rest / sizeof *rest, '\n', err);
}

/* ---- files ------------------------------------------------------------------------------ */

#define IDS "model,layer,q_head,k_head,"

static const qk_table_spec TABLES[] = {
    {"head_metrics.csv",
     IDS "n_q,n_k,d,sliding_window,bucket_width,q_R2_pos,beta_norm,q_R2_scalar,q_mae_baseline,"
         "q_mae_proj,q_mae_ratio,q_resid0_skew,q_resid0_kurt,q_resid0_ks_p,"
         "q_noise_med_abs_skew,q_noise_med_abs_kurt,q_noise_med_ks_p,"
         "q_noise_frac_ks_p_lt_alpha,ap_overall,ap_first_20pct,ap_last_20pct,ap_drop,ap_mean",
     "ap_overall_lo,ap_overall_hi,ap_drop_lo,ap_drop_hi", format_metrics},
    {"head_profile.csv", IDS "q_bucket,position,n_queries,n_pairs,ap", NULL, format_profile},
    {"head_bucket_plasticity.csv", IDS "q_bucket,k_bucket,n_pairs,ap_bucket", NULL,
     format_cells},
    {"head_distance.csv", IDS "distance_bin,lag_bin,n_pairs,ap", NULL, format_distances},
    {"head_component_weights.csv", IDS "component,component_r2,component_weight", NULL,
     format_components},
    {"model_report.csv",
     "model,heads,q1,q2,q3,q4,q5,d1,d2,d3,d4,d5,d6,d7,d8,d9,d10,ap_overall,ap_first_20pct,"
     "ap_last_20pct,ap_drop,ap_mean",
     NULL, format_model},
};

qk_status qk__write_plasticity_tables(qk_run *run, qk_error *err)
{
    run->report->plasticity = average(run->report);
    if (run->settings->published_tables)
        return qk__write_published_tables(run, err);
    for (size_t i = 0; i < sizeof TABLES / sizeof *TABLES; i++)
        QK_TRY(qk__write_table(run, &TABLES[i], err));
    return QK_OK;
}
