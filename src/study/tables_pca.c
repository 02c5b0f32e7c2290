/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of the PCA: qk.csv, heads.csv, correlations.csv. Their columns are defined here. */
#include <math.h>

#include "base/error.h"
#include "study/table.h"

/* Of the first component; the others have none. */
static qk_status add_component_intervals(const qk_run *run, const qk_head_report *head,
                                         size_t pc, qk_buffer *text, qk_error *err)
{
    qk_interval intervals[] = {{NAN, NAN}, {NAN, NAN}};
    if (pc == 0 && head->intervals) {
        intervals[0] = head->intervals->r_q;
        intervals[1] = head->intervals->r_k;
    }
    return qk__add_intervals(run, text, intervals, 2, err);
}

static qk_status format_components(const qk_run *run, const qk_head_report *head,
                                   qk_buffer *text, qk_error *err)
{
    const qk_pca *pca = head->pca;
    for (size_t i = 0; pca && i < pca->num_components; i++) {
        const qk_component *c = &pca->components[i];
        const double values[] = {c->explained_variance,
                                 c->r_q,
                                 c->r_k,
                                 c->p_q,
                                 c->p_k,
                                 c->mu_q,
                                 c->mu_k,
                                 c->alpha,
                                 c->beta,
                                 c->sd_q,
                                 c->sd_k};
        QK_TRY(qk__add_ids(run, head, text, err));
        QK_TRY(qk__csv_integer(text, (long long)i, ',', err));
        QK_TRY(qk__add_numbers(text, values, sizeof values / sizeof *values, ',', err));
        QK_TRY(qk__csv_integer(text, pca->n_q, ',', err));
        QK_TRY(qk__csv_integer(text, pca->n_k, qk__row_end(run), err));
        QK_TRY(add_component_intervals(run, head, i, text, err));
    }
    return QK_OK;
}

/* Texts of the kind with fewer, and how wide the interval of r_q is. */
static qk_status add_certainty(const qk_head_report *head, qk_buffer *text, qk_error *err)
{
    size_t texts = head->texts_q < head->texts_k ? head->texts_q : head->texts_k;
    const double values[] = {texts > 0 ? (double)texts : NAN,
                             head->certainty.r_q_hi - head->certainty.r_q_lo};
    return qk__add_numbers(text, values, 2, '\n', err);
}

static qk_status format_head(const qk_run *run, const qk_head_report *head, qk_buffer *text,
                             qk_error *err)
{
    const qk_pca *pca = head->pca;
    if (!pca)
        return QK_OK;
    const double values[] = {pca->components[0].explained_variance,
                             pca->pos_var_q,
                             pca->pos_var_k,
                             pca->pos_var_q_pc0_share,
                             pca->lin_var_q,
                             pca->lin_var_k,
                             pca->positional_overhead,
                             pca->separation,
                             pca->fisher,
                             pca->lda_accuracy,
                             pca->mu_q_beta,
                             pca->alpha_beta};
    QK_TRY(qk__add_ids(run, head, text, err));
    QK_TRY(qk__csv_text(text, qk_category_name(pca->category), ',', err));
    QK_TRY(qk__csv_number(text, head->certainty.category_share, ',', err));
    QK_TRY(qk__add_numbers(text, values, sizeof values / sizeof *values, ',', err));
    QK_TRY(qk__csv_integer(text, pca->n_q, ',', err));
    QK_TRY(qk__csv_integer(text, pca->n_k, ',', err));
    QK_TRY(qk__csv_integer(text, (long long)pca->dim, ',', err));
    return add_certainty(head, text, err);
}

static qk_status format_correlations(const qk_run *run, const qk_head_report *head,
                                     qk_buffer *text, qk_error *err)
{
    (void)run;
    for (size_t i = 0; head->pca && i < head->pca->num_components; i++) {
        const qk_component *c = &head->pca->components[i];
        const double values[] = {c->r_q, c->p_q, c->explained_variance};
        QK_TRY(qk__csv_integer(text, head->id.layer, ',', err));
        QK_TRY(qk__csv_integer(text, head->id.head, ',', err));
        QK_TRY(qk__csv_text(text, head->id.kind == QK_QUERY ? "q" : "k", ',', err));
        QK_TRY(qk__csv_integer(text, (long long)i, ',', err));
        QK_TRY(qk__add_numbers(text, values, sizeof values / sizeof *values, '\n', err));
    }
    return QK_OK;
}

qk_status qk__write_pca_tables(qk_run *run, qk_error *err)
{
    static const qk_table_spec components = {
        "qk.csv",
        "model,layer,q_head,k_head,pc,explained_variance,r_q,r_k,p_q,p_k,mu_q,mu_k,alpha,beta,"
        "sd_q,sd_k,n_q,n_k",
        "r_q_lo,r_q_hi,r_k_lo,r_k_hi", format_components};
    static const qk_table_spec heads = {
        "heads.csv",
        "model,layer,q_head,k_head,category,category_share,ev0,pos_var_q,pos_var_k,pos_var_q_"
        "pc0_share,"
        "lin_var_q,lin_var_k,positional_overhead,separation,fisher,lda_accuracy,mu_q_beta,"
        "alpha_beta,n_q,n_k,d,texts,r_q_width",
        NULL, format_head};
    QK_TRY(qk__write_table(run, &components, err));
    return qk__write_table(run, &heads, err);
}

qk_status qk__write_single_table(qk_run *run, qk_error *err)
{
    static const qk_table_spec correlations = {
        "correlations.csv",
        "layer,head,kind,pca_dim,correlation,p_value,explained_variance_ratio", NULL,
        format_correlations};
    return qk__write_table(run, &correlations, err);
}
