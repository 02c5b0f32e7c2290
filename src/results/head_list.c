/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of a folder as a list: those that a condition keeps, in an order, with chosen columns. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "results/head_filter.h"
#include "results/read_results.h"

/* What a list has where no columns are named: those that a table has. */
static const char USUAL[] =
    "model,layer,q_head,k_head,category,category_probability,r_q,r_q_lo,r_q_hi,r_k,r_k_lo,"
    "r_k_hi,plane_var_fraction,bias_strength,bias_strength_lo,bias_strength_hi,ap_overall,"
    "ap_drop";

typedef struct row {
    const qk__result_model *model;
    const qk__result_head *head;
    double number; /* to sort by */
    const char *text;
} row;

typedef struct head_list {
    const qk_head_query *query;
    qk__results *results;
    qk__head_filter *filter; /* NULL: all heads */
    qk__head_value key;      /* to sort by; no column: as they come */
    bool descending;
    qk__head_column *columns;
    size_t num_columns;
    row *rows;
    size_t num_rows;
} head_list;

/* ---- what is asked ---------------------------------------------------------------------- */

static qk_status read_names(head_list *l, qk_error *err)
{
    const char *names = l->query->columns ? l->query->columns : USUAL;
    size_t most = 1;
    for (const char *c = names; *c; c++)
        most += *c == ',' ? 1 : 0;
    l->columns = qk__calloc(most, sizeof *l->columns);
    if (!l->columns)
        return qk__nomem(err);
    for (const char *next = names;; next++) {
        char name[128];
        next += strspn(next, " ");
        size_t length = strcspn(next, ", ");
        snprintf(name, sizeof name, "%.*s", (int)(length < 120 ? length : 120), next);
        QK_TRY(qk__context(err, qk__find_head_column(name, &l->columns[l->num_columns++], err),
                           "columns"));
        next += length + strspn(next + length, " ");
        if (*next != ',')
            return *next == 0 ? QK_OK
                              : qk__fail(err, QK_ERR_ARGUMENT,
                                         "columns: expected a comma behind '%s'", name);
    }
}

static qk_status read_query(head_list *l, qk_error *err)
{
    const qk_head_query *q = l->query;
    QK_TRY(read_names(l, err));
    if (q->where)
        QK_TRY(qk__context(err, qk__parse_head_filter(&l->filter, q->where, err), "where"));
    if (!q->sort)
        return QK_OK;
    l->descending = *q->sort == '-';
    return qk__context(err, qk__parse_head_value(q->sort + l->descending, &l->key, err),
                       "sort");
}

/* ---- what there is ---------------------------------------------------------------------- */

static bool is_anywhere(const qk__results *results, const qk__head_column *column)
{
    qk__each_model (results, model)
        qk__each_head (model, head) {
            if (!isnan(qk__head_number(column, head)) || *qk__head_word(column, model, head))
                return true;
        }
    return false;
}

/* A list that is empty because a table is missing would look like an answer. */
static qk_status need_column(const head_list *l, const qk__head_column *column, qk_error *err)
{
    if (is_anywhere(l->results, column))
        return QK_OK;
    const char *option = column->info.option;
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "%s: no head has a %s here%s%s; 'qkscope explain %s' says what it is and "
                    "where it comes from",
                    l->query->results, column->info.name, option ? ", which needs " : "",
                    option ? option : "", column->info.name);
}

/* Of the usual columns those that are there; of a study alone, the model. */
static qk_status choose_columns(head_list *l, qk_error *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->num_columns; i++) {
        const qk__head_column *column = &l->columns[i];
        if (l->query->columns && column->kind != QK__HEAD_MODEL) /* a name may be empty */
            QK_TRY(need_column(l, column, err));
        bool spared = l->results->num_models == 1 && column->kind == QK__HEAD_MODEL;
        if (l->query->columns || (!spared && is_anywhere(l->results, column)))
            l->columns[kept++] = *column;
    }
    l->num_columns = kept;
    const qk__head_column *compared;
    for (size_t i = 0; l->filter && (compared = qk__filter_column(l->filter, i)); i++)
        QK_TRY(need_column(l, compared, err));
    return l->key.is_column ? need_column(l, &l->key.column, err) : QK_OK;
}

static qk_status read_folder(head_list *l, qk_error *err)
{
    if (!l->query->force) {
        qk_status status = qk_results_check(l->query->results, err);
        if (status != QK_OK &&
            status != QK_ERR_NOT_FOUND) /* tables without a manifest are read */
            return status;
    }
    QK_TRY(qk__results_read_heads(&l->results, l->query->results, err));
    if (qk__count_heads(l->results) == 0)
        return qk__fail(err, QK_ERR_NOT_FOUND, "%s: no heads in the tables here",
                        l->query->results);
    return choose_columns(l, err);
}

/* ---- rows ------------------------------------------------------------------------------- */

static bool is_empty(const row *r)
{
    return isnan(r->number) && !*r->text;
}

static int compare_rows(const row *x, const row *y, bool descending)
{
    if (is_empty(x) != is_empty(y))
        return is_empty(x) ? 1 : -1;
    int order =
        *x->text ? strcmp(x->text, y->text) : (x->number > y->number) - (x->number < y->number);
    if (order == 0) /* heads lie in the order of the results */
        return x->head < y->head ? -1 : 1;
    return descending ? -order : order;
}

static int compare_upwards(const void *a, const void *b)
{
    return compare_rows(a, b, false);
}

static int compare_downwards(const void *a, const void *b)
{
    return compare_rows(a, b, true);
}

static qk_status select_rows(head_list *l, qk_error *err)
{
    l->rows = qk__calloc(qk__count_heads(l->results), sizeof *l->rows);
    if (!l->rows)
        return qk__nomem(err);
    qk__each_model (l->results, model)
        qk__each_head (model, head) {
            if (l->filter && !qk__filter_keeps_head(l->filter, model, head))
                continue;
            row *r = &l->rows[l->num_rows++];
            *r = (row){model, head, NAN, ""};
            if (l->key.is_column) {
                r->number = qk__head_value_number(&l->key, head);
                r->text = qk__head_value_text(&l->key, model, head);
            }
        }
    if (l->key.is_column)
        qsort(l->rows, l->num_rows, sizeof *l->rows,
              l->descending ? compare_downwards : compare_upwards);
    if (l->query->top > 0 && l->num_rows > l->query->top)
        l->num_rows = l->query->top;
    return QK_OK;
}

/* ---- columns ---------------------------------------------------------------------------- */

typedef union value {
    double real;
    int64_t integer;
    const char *text;
} value;

static void fill_values(const head_list *l, const qk__head_column *column, value *values)
{
    for (size_t i = 0; i < l->num_rows; i++) {
        const row *r = &l->rows[i];
        if (qk__is_head_text(column))
            values[i].text = qk__head_word(column, r->model, r->head);
        else if (column->kind == QK__HEAD_ID)
            values[i].integer = (int64_t)qk__head_number(column, r->head);
        else
            values[i].real = qk__head_number(column, r->head);
    }
}

static qk_status make_columns(head_list *l, qk_columns **columns, qk_error *err)
{
    qk_column_info *infos = qk__calloc(l->num_columns, sizeof *infos);
    const void **starts = qk__calloc(l->num_columns, sizeof *starts);
    value *values = qk__calloc(l->num_columns * (l->num_rows + 1), sizeof *values);
    qk_status status = infos && starts && values ? QK_OK : qk__nomem(err);
    for (size_t i = 0; status == QK_OK && i < l->num_columns; i++) {
        value *own = values + i * (l->num_rows + 1);
        infos[i] = l->columns[i].info;
        fill_values(l, &l->columns[i], own);
        starts[i] = own;
    }
    if (status == QK_OK)
        status = qk_columns_make(columns, infos, l->num_columns, l->num_rows, starts, err);
    free(infos);
    free(starts);
    free(values);
    return status;
}

qk_status qk_head_list(const qk_head_query *query, qk_columns **columns, size_t *num_heads,
                       qk_error *err)
{
    QK_NEED(err, columns);
    *columns = NULL;
    QK_NEED(err, query);
    QK_NEED(err, query->results);
    head_list l = {.query = query};
    qk_status status = read_query(&l, err);
    if (status == QK_OK)
        status = read_folder(&l, err);
    if (status == QK_OK)
        status = select_rows(&l, err);
    if (status == QK_OK)
        status = make_columns(&l, columns, err);
    if (status == QK_OK && num_heads)
        *num_heads = qk__count_heads(l.results);
    qk__head_filter_free(&l.filter);
    qk__results_free(&l.results);
    free(l.columns);
    free(l.rows);
    return status;
}
