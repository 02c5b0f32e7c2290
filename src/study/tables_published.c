/* SPDX-License-Identifier: Apache-2.0 */
/* The three tables of the original tool of attention plasticity, with its names. */
#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"
#include "study/table.h"

static qk_status add_ids(const qk_head_report *head, qk_buffer *text, qk_error *err)
{
    QK_TRY(qk__csv_integer(text, head->id.layer, ',', err));
    QK_TRY(qk__csv_integer(text, head->id.head, ',', err));
    return qk__csv_integer(text, head->k_head, ',', err);
}

static qk_status format_metrics(const qk_run *run, const qk_head_report *head, qk_buffer *text,
                                qk_error *err)
{
    const qk_plasticity *p = head->plasticity;
    (void)run;
    if (!p)
        return QK_OK;
    const double values[] = {p->q_r2_pos,
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
                             p->ap_mean};
    QK_TRY(add_ids(head, text, err));
    QK_TRY(qk__csv_integer(text, p->n_q, ',', err));
    QK_TRY(qk__csv_integer(text, p->n_k, ',', err));
    QK_TRY(qk__csv_integer(text, (long long)p->dim, ',', err));
    return qk__add_numbers(text, values, sizeof values / sizeof *values, '\n', err);
}

static qk_status format_buckets(const qk_run *run, const qk_head_report *head, qk_buffer *text,
                                qk_error *err)
{
    const qk_plasticity *p = head->plasticity;
    (void)run;
    for (size_t i = 0; p && i < p->num_cells; i++) {
        QK_TRY(add_ids(head, text, err));
        QK_TRY(qk__csv_integer(text, p->cells[i].q_bucket, ',', err));
        QK_TRY(qk__csv_integer(text, p->cells[i].k_bucket, ',', err));
        QK_TRY(qk__csv_number(text, p->cells[i].ap, '\n', err));
    }
    return QK_OK;
}

static qk_status format_components(const qk_run *run, const qk_head_report *head,
                                   qk_buffer *text, qk_error *err)
{
    const qk_plasticity *p = head->plasticity;
    (void)run;
    for (size_t i = 0; p && i < p->dim; i++) {
        const double values[] = {p->component_r2[i], p->component_weight[i]};
        QK_TRY(add_ids(head, text, err));
        QK_TRY(qk__csv_integer(text, (long long)i, ',', err));
        QK_TRY(qk__add_numbers(text, values, 2, '\n', err));
    }
    return QK_OK;
}

#define IDS "layer,q_head,k_head,"

static qk_status write_one(qk_run *run, const qk_table_spec *spec, const char *path,
                           qk_error *err)
{
    char *folder;
    QK_TRY(qk__parent_folder(path, &folder, err));
    qk_status status = qk__make_dirs(folder, err);
    free(folder);
    return status == QK_OK ? qk__write_table_at(run, spec, path, err) : status;
}

qk_status qk__write_published_tables(qk_run *run, qk_error *err)
{
    static const qk_table_spec METRICS = {
        .columns = IDS "n_q_tokens,n_k_tokens,d_model,q_R2_pos,q_beta_norm,q_R2_scalar,"
                       "q_mae_baseline,q_mae_proj,q_mae_ratio,q_resid0_skew,q_resid0_kurt,"
                       "q_resid0_ks_p,q_noise_med_abs_skew,q_noise_med_abs_kurt,"
                       "q_noise_med_ks_p,q_noise_frac_ks_p_lt_alpha,ap_overall",
        .format = format_metrics};
    static const qk_table_spec BUCKETS = {.columns = IDS "q_bucket,k_bucket,ap_bucket",
                                          .format = format_buckets};
    static const qk_table_spec COMPONENTS = {
        .columns = IDS "component,component_r2,component_weight", .format = format_components};
    const qk_published_tables *tables = run->settings->published_tables;
    QK_TRY(write_one(run, &METRICS, tables->metrics, err));
    QK_TRY(write_one(run, &BUCKETS, tables->buckets, err));
    return write_one(run, &COMPONENTS, tables->components, err);
}
