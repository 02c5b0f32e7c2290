/* SPDX-License-Identifier: Apache-2.0 */
/* The CSV tables: qk.csv, heads.csv, correlations.csv. Columns are defined here only. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/number.h"
#include "base/parallel.h"
#include "study/run.h"

/* Appends the rows of one head to text. */
typedef qk_status format_head_fn(const qk_run *run, const qk_head_report *head, qk_buffer *text,
                                 qk_error *err);

typedef struct table {
    const qk_run *run;
    format_head_fn *format;
    qk_buffer *texts; /* one a head, so that heads can be formatted in parallel */
    qk_status *statuses;
} table;

static void format_one(void *context, size_t i, int worker)
{
    (void)worker;
    table *t = context;
    const qk_head_report *head = &t->run->report->heads[i];
    if (head->pca)
        t->statuses[i] = t->format(t->run, head, &t->texts[i], NULL);
}

/* *output is the file, finished but not committed. */
static qk_status write_texts(const table *t, const char *path, const char *header,
                             qk_outfile **output, qk_error *err)
{
    qk_outfile *file;
    QK_TRY(qk__outfile_open(&file, path, err));
    qk_status status = qk__outfile_write(file, header, strlen(header), err);
    for (size_t i = 0; i < t->run->report->num_heads && status == QK_OK; i++) {
        if (t->statuses[i] != QK_OK)
            status = qk__nomem(err); /* formatting fails for no other reason */
        else
            status = qk__outfile_write(file, t->texts[i].data, t->texts[i].size, err);
    }
    if (status == QK_OK)
        status = qk__outfile_finish(file, err);
    if (status == QK_OK)
        *output = file;
    else
        qk__outfile_discard(&file);
    return status;
}

static qk_status write_table(qk_run *run, const char *name, const char *header,
                             format_head_fn *format, qk_error *err)
{
    size_t heads = run->report->num_heads;
    table t = {.run = run, .format = format};
    char *path = qk__path_join(run->settings->output, name);
    t.texts = qk__calloc(heads, sizeof *t.texts);
    t.statuses = qk__calloc(heads, sizeof *t.statuses);
    qk_status status;
    if (path && t.texts && t.statuses) {
        qk__parallel_for(heads, run->threads, format_one, &t);
        status = write_texts(&t, path, header, &run->outputs[run->num_outputs], err);
        run->num_outputs += status == QK_OK;
    } else {
        status = qk__nomem(err);
    }
    for (size_t i = 0; t.texts && i < heads; i++)
        qk__buffer_free(&t.texts[i]);
    free(t.texts);
    free(t.statuses);
    free(path);
    return status;
}

/* Numbers of one row, the last one ending the line. */
static qk_status add_numbers(qk_buffer *text, const double *values, size_t count, char end,
                             qk_error *err)
{
    for (size_t i = 0; i < count; i++)
        QK_TRY(qk__csv_number(text, values[i], i + 1 < count ? ',' : end, err));
    return QK_OK;
}

static qk_status add_ids(const qk_run *run, const qk_head_report *head, qk_buffer *text,
                         qk_error *err)
{
    QK_TRY(qk__csv_text(text, run->report->model, ',', err));
    QK_TRY(qk__csv_integer(text, head->id.layer, ',', err));
    QK_TRY(qk__csv_integer(text, head->id.head, ',', err));
    return qk__csv_integer(text, head->k_head, ',', err);
}

static const char QK_HEADER[] =
    "model,layer,q_head,k_head,pc,explained_variance,r_q,r_k,p_q,p_k,mu_q,mu_k,alpha,beta,"
    "sd_q,sd_k,n_q,n_k\n";

static qk_status format_components(const qk_run *run, const qk_head_report *head,
                                   qk_buffer *text, qk_error *err)
{
    const qk_pca *pca = head->pca;
    for (size_t i = 0; i < pca->num_components; i++) {
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
        QK_TRY(add_ids(run, head, text, err));
        QK_TRY(qk__csv_integer(text, (long long)i, ',', err));
        QK_TRY(add_numbers(text, values, sizeof values / sizeof *values, ',', err));
        QK_TRY(qk__csv_integer(text, pca->n_q, ',', err));
        QK_TRY(qk__csv_integer(text, pca->n_k, '\n', err));
    }
    return QK_OK;
}

static const char HEADS_HEADER[] =
    "model,layer,q_head,k_head,category,ev0,pos_var_q,pos_var_k,pos_var_q_pc0_share,lin_var_q,"
    "lin_var_k,positional_overhead,separation,fisher,lda_accuracy,mu_q_beta,alpha_beta,n_q,n_k,"
    "d\n";

static qk_status format_head(const qk_run *run, const qk_head_report *head, qk_buffer *text,
                             qk_error *err)
{
    const qk_pca *pca = head->pca;
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
    QK_TRY(add_ids(run, head, text, err));
    QK_TRY(qk__csv_text(text, qk_category_name(pca->category), ',', err));
    QK_TRY(add_numbers(text, values, sizeof values / sizeof *values, ',', err));
    QK_TRY(qk__csv_integer(text, pca->n_q, ',', err));
    QK_TRY(qk__csv_integer(text, pca->n_k, ',', err));
    return qk__csv_integer(text, (long long)pca->dim, '\n', err);
}

static const char CORRELATIONS_HEADER[] =
    "layer,head,kind,pca_dim,correlation,p_value,explained_variance_ratio\n";

static qk_status format_correlations(const qk_run *run, const qk_head_report *head,
                                     qk_buffer *text, qk_error *err)
{
    (void)run;
    for (size_t i = 0; i < head->pca->num_components; i++) {
        const qk_component *c = &head->pca->components[i];
        const double values[] = {c->r_q, c->p_q, c->explained_variance};
        QK_TRY(qk__csv_integer(text, head->id.layer, ',', err));
        QK_TRY(qk__csv_integer(text, head->id.head, ',', err));
        QK_TRY(qk__csv_text(text, head->id.kind == QK_QUERY ? "q" : "k", ',', err));
        QK_TRY(qk__csv_integer(text, (long long)i, ',', err));
        QK_TRY(add_numbers(text, values, sizeof values / sizeof *values, '\n', err));
    }
    return QK_OK;
}

qk_status qk__write_combined_tables(qk_run *run, qk_error *err)
{
    QK_TRY(write_table(run, "qk.csv", QK_HEADER, format_components, err));
    return write_table(run, "heads.csv", HEADS_HEADER, format_head, err);
}

qk_status qk__write_single_table(qk_run *run, qk_error *err)
{
    return write_table(run, "correlations.csv", CORRELATIONS_HEADER, format_correlations, err);
}
