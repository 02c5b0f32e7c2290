/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of compare-stages: stages.csv, rope_pairs.csv, score_by_distance.csv. Their columns
 * are defined here. */
#include <math.h>

#include "base/error.h"
#include "study/stages.h"
#include "study/table.h"

static const qk_head_stages *stages_of(const qk_run *run, const qk_head_report *head)
{
    return run->stages[head - run->report->heads];
}

static qk_status add_side(const qk_stage_numbers *numbers, qk_buffer *text, qk_error *err)
{
    const double values[] = {numbers->r_q, numbers->r_k, numbers->explained_variance};
    QK_TRY(qk__add_numbers(text, values, 3, ',', err));
    return qk__csv_text(text, qk_category_name(numbers->category), ',', err);
}

static qk_status add_top(const qk_head_stages *s, qk_buffer *text, qk_error *err)
{
    bool none = s->top_pair >= s->num_pairs;
    const qk_rope_pair *top = none ? NULL : &s->pairs[s->top_pair];
    const double values[] = {none ? NAN : (double)s->top_pair, none ? NAN : top->frequency,
                             none ? NAN : top->wavelength, none ? NAN : top->score_share};
    return qk__add_numbers(text, values, 4, ',', err);
}

static qk_status format_head(const qk_run *run, const qk_head_report *head, qk_buffer *text,
                             qk_error *err)
{
    const qk_head_stages *s = stages_of(run, head);
    if (!s)
        return QK_OK;
    const double curve[] = {s->r_squared_predicted, s->curve_r,     s->chance_share,
                            s->measured_mean,       s->measured_sd, s->predicted_mean,
                            s->predicted_sd};
    const double slow[] = {s->slow_energy_q,      s->slow_energy_k, s->slow_score_share,
                           s->rotation_deviation, s->scale_q,       s->scale_k};
    QK_TRY(qk__add_ids(run, head, text, err));
    QK_TRY(add_side(&s->before, text, err));
    QK_TRY(add_side(&s->after, text, err));
    QK_TRY(qk__add_numbers(text, curve, sizeof curve / sizeof *curve, ',', err));
    QK_TRY(add_top(s, text, err));
    QK_TRY(qk__csv_integer(text, (long long)s->context, ',', err));
    QK_TRY(qk__csv_integer(text, (long long)s->slow_pairs, ',', err));
    QK_TRY(qk__add_numbers(text, slow, sizeof slow / sizeof *slow, ',', err));
    QK_TRY(qk__csv_integer(text, (long long)s->rows_q, ',', err));
    QK_TRY(qk__csv_integer(text, (long long)s->rows_k, ',', err));
    QK_TRY(qk__csv_integer(text, (long long)s->texts, ',', err));
    return qk__csv_integer(text, (long long)s->row_pairs, '\n', err);
}

static qk_status format_pairs(const qk_run *run, const qk_head_report *head, qk_buffer *text,
                              qk_error *err)
{
    const qk_head_stages *s = stages_of(run, head);
    for (size_t p = 0; s && p < s->num_pairs; p++) {
        const qk_rope_pair *pair = &s->pairs[p];
        const double values[] = {pair->frequency,  pair->wavelength,      pair->energy_q,
                                 pair->energy_k,   pair->concentration_q, pair->concentration_k,
                                 pair->mean_q,     pair->mean_k,          pair->phase,
                                 pair->score_share};
        QK_TRY(qk__add_ids(run, head, text, err));
        QK_TRY(qk__csv_integer(text, (long long)p, ',', err));
        QK_TRY(qk__add_numbers(text, values, sizeof values / sizeof *values, '\n', err));
    }
    return QK_OK;
}

static qk_status format_curve(const qk_run *run, const qk_head_report *head, qk_buffer *text,
                              qk_error *err)
{
    const qk_head_stages *s = stages_of(run, head);
    for (size_t b = 0; s && b < s->num_bins; b++) {
        const qk_score_bin *bin = &s->bins[b];
        const double values[] = {bin->distance, bin->measured, bin->predicted,
                                 bin->standard_error};
        QK_TRY(qk__add_ids(run, head, text, err));
        QK_TRY(qk__csv_integer(text, bin->number, ',', err));
        QK_TRY(qk__csv_integer(text, (long long)bin->first, ',', err));
        QK_TRY(qk__csv_integer(text, (long long)bin->last, ',', err));
        QK_TRY(qk__add_numbers(text, values, 4, ',', err));
        QK_TRY(qk__csv_integer(text, (long long)bin->pairs, ',', err));
        QK_TRY(qk__csv_integer(text, (long long)bin->texts, '\n', err));
    }
    return QK_OK;
}

qk_status qk__write_stage_tables(qk_run *run, qk_error *err)
{
    static const qk_table_spec stages = {
        "stages.csv",
        "model,layer,q_head,k_head,r_q_before,r_k_before,explained_variance_before,"
        "category_before,r_q_after,r_k_after,explained_variance_after,category_after,"
        "r_squared_predicted,curve_r,chance_share,measured_mean,measured_sd,predicted_mean,"
        "predicted_sd,top_pair,top_frequency,top_wavelength,top_share,context,slow_pairs,"
        "slow_energy_q,slow_energy_k,slow_score_share,rotation_deviation,scale_q,scale_k,n_q,"
        "n_k,texts,row_pairs",
        NULL, format_head};
    static const qk_table_spec pairs = {
        "rope_pairs.csv",
        "model,layer,q_head,k_head,pair,frequency,wavelength,energy_q,energy_k,"
        "concentration_q,concentration_k,mean_q,mean_k,phase,score_share",
        NULL, format_pairs};
    static const qk_table_spec curve = {
        "score_by_distance.csv",
        "model,layer,q_head,k_head,bin,first,last,distance,measured,predicted,standard_error,"
        "pairs,texts",
        NULL, format_curve};
    QK_TRY(qk__write_table(run, &stages, err));
    QK_TRY(qk__write_table(run, &pairs, err));
    return qk__write_table(run, &curve, err);
}
