/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of a folder as a list: those that a condition keeps, in an order, with chosen columns. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json_build.h"
#include "results/head_filter.h"
#include "tables/manifest.h"
#include "results/read_results.h"

/* What a list has where no columns are named: those that a table has. */
static const char USUAL[] =
    "model,layer,q_head,k_head,category,category_probability,r_q,r_q_lo,r_q_hi,r_k,r_k_lo,"
    "r_k_hi,plane_var_fraction,bias_strength,bias_strength_lo,bias_strength_hi,ap_overall,"
    "ap_drop,position_r_q,position_r_k,remove_loss,freeze_share,profile_share";

/* The same of two folders beside each other. */
static const char USUAL_OF_TWO[] = "layer,q_head,category,category_probability,r_q,diff.r_q,"
                                   "bias_strength";

typedef struct row {
    qk__head_row in;
    size_t at;     /* among all, in the order of the results */
    double number; /* to sort by */
    const char *text;
} row;

typedef struct head_list {
    const qk_head_query *query;
    qk__results *results[2]; /* the second of `other`; else NULL */
    qk__head_filter *filter; /* NULL: all heads */
    qk__head_value key;      /* to sort by; no column: as they come */
    bool descending;
    qk__head_column *columns;
    size_t num_columns;
    row *rows;
    size_t num_rows;
} head_list;

/* ---- what is asked ---------------------------------------------------------------------- */

/* Of two folders a column is that of a, of b, or their difference, unless both have the same. */
static qk_status check_side(const head_list *l, const qk__head_column *column, qk_error *err)
{
    const char *name = column->name;
    if (!l->query->other && column->side != QK__OF_ONE)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "%s: a. and b. are of two folders of results, and one is given", name);
    if (l->query->other && column->side == QK__OF_ONE && column->kind != QK__HEAD_ID)
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: of which? Write a.%s or b.%s%s%s", name,
                        name, name, qk__is_head_text(column) ? "" : ", or of both diff.",
                        qk__is_head_text(column) ? "" : name);
    return QK_OK;
}

/* A column; of two folders, both of the name, unless it says which. */
static qk_status add_column(head_list *l, const char *name, qk_error *err)
{
    qk__head_column *column = &l->columns[l->num_columns++];
    char sided[160];
    QK_TRY(qk__find_head_column(name, column, err));
    if (!l->query->other || column->side != QK__OF_ONE || column->kind == QK__HEAD_ID)
        return check_side(l, column, err);
    snprintf(sided, sizeof sided, "a.%s", name);
    QK_TRY(qk__find_head_column(sided, column, err));
    sided[0] = 'b';
    return qk__find_head_column(sided, &l->columns[l->num_columns++], err);
}

/* Columns from `first` on that are there already: two of a name could not be told apart. */
static void drop_repeated(head_list *l, size_t first)
{
    size_t kept = first, k;
    for (size_t i = first; i < l->num_columns; i++) {
        for (k = 0; k < first && strcmp(l->columns[k].name, l->columns[i].name) != 0;)
            k++;
        if (k == first)
            l->columns[kept++] = l->columns[i];
    }
    l->num_columns = kept;
}

static qk_status read_names(head_list *l, qk_error *err)
{
    const char *names = l->query->columns ? l->query->columns
                        : l->query->other ? USUAL_OF_TWO
                                          : USUAL;
    size_t most = 1;
    for (const char *c = names; *c; c++)
        most += *c == ',' ? 1 : 0;
    l->columns = qk__calloc(2 * most, sizeof *l->columns);
    if (!l->columns)
        return qk__nomem(err);
    for (const char *next = names;; next++) {
        char name[128];
        next += strspn(next, " ");
        size_t length = strcspn(next, ", ");
        snprintf(name, sizeof name, "%.*s", (int)(length < 120 ? length : 120), next);
        const size_t first = l->num_columns;
        QK_TRY(qk__context(err, add_column(l, name, err), "columns"));
        drop_repeated(l, first);
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
    const qk__head_column *compared;
    QK_TRY(read_names(l, err));
    if (q->where)
        QK_TRY(qk__context(err, qk__parse_head_filter(&l->filter, q->where, err), "where"));
    for (size_t i = 0; l->filter && (compared = qk__filter_column(l->filter, i)); i++)
        QK_TRY(qk__context(err, check_side(l, compared, err), "where"));
    if (!q->sort)
        return QK_OK;
    l->descending = *q->sort == '-';
    qk_status status = qk__parse_head_value(q->sort + l->descending, &l->key, err);
    if (status == QK_OK)
        status = check_side(l, &l->key.column, err);
    return qk__context(err, status, "sort");
}

/* ---- what there is ---------------------------------------------------------------------- */

static qk_status read_folder(const head_list *l, const char *folder, qk__results **results,
                             qk_error *err)
{
    if (!l->query->force) {
        qk_status status = qk_results_check(folder, err);
        if (status != QK_OK &&
            status != QK_ERR_NOT_FOUND) /* tables without a manifest are read */
            return status;
    }
    QK_TRY(qk__results_read_heads(results, folder, err));
    if (qk__count_heads(*results) == 0)
        return qk__fail(err, QK_ERR_NOT_FOUND, "%s: no heads in the tables here", folder);
    if (l->query->other && (*results)->num_models > 1)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "%s: tables of %zu models: beside another folder, give that of one "
                        "model (of a study, STUDY/models/NAME)",
                        folder, (*results)->num_models);
    return QK_OK;
}

static qk_status add_rows(head_list *l, qk_error *err)
{
    const qk__result_model *b = l->results[1] ? l->results[1]->models : NULL;
    l->rows =
        qk__calloc(qk__count_heads(l->results[0]) + (b ? b->num_heads : 0), sizeof *l->rows);
    if (!l->rows)
        return qk__nomem(err);
    qk__each_model (l->results[0], a) {
        row r = {.in.model = {a, b}, .number = NAN, .text = ""};
        for (size_t at[2] = {0}; qk__next_pair(a, b, at, r.in.head); r.at++)
            l->rows[l->num_rows++] = r;
    }
    for (size_t i = 0; i < l->num_rows; i++)
        l->rows[i].at = i;
    return QK_OK;
}

static bool is_anywhere(const head_list *l, const qk__head_column *column)
{
    for (size_t i = 0; i < l->num_rows; i++)
        if (!isnan(qk__head_number(column, &l->rows[i].in)) ||
            *qk__head_word(column, &l->rows[i].in))
            return true;
    return false;
}

/* A list that is empty because a table is missing would look like an answer. */
static qk_status need_column(const head_list *l, const qk__head_column *column, qk_error *err)
{
    if (is_anywhere(l, column))
        return QK_OK;
    const char *option = column->info.option;
    return qk__fail(
        err, QK_ERR_NOT_FOUND,
        "%s%s%s: no head has a %s here%s%s; 'qkscope explain %s' says what it is and "
        "where it comes from",
        column->side != QK__OF_B ? l->query->results : "",
        column->side == QK__B_LESS_A ? ", " : "",
        column->side == QK__OF_B || column->side == QK__B_LESS_A ? l->query->other : "",
        column->name, option ? ", which needs " : "", option ? option : "", column->info.name);
}

/* Of the usual columns those that are there; of a study alone, the model. */
static qk_status choose_columns(head_list *l, qk_error *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->num_columns; i++) {
        const qk__head_column *column = &l->columns[i];
        if (l->query->columns && column->kind != QK__HEAD_MODEL) /* a name may be empty */
            QK_TRY(need_column(l, column, err));
        bool spared = l->results[0]->num_models == 1 && column->kind == QK__HEAD_MODEL;
        if (l->query->columns || (!spared && is_anywhere(l, column)))
            l->columns[kept++] = *column;
    }
    l->num_columns = kept;
    const qk__head_column *compared;
    for (size_t i = 0; l->filter && (compared = qk__filter_column(l->filter, i)); i++)
        QK_TRY(need_column(l, compared, err));
    return l->key.is_column ? need_column(l, &l->key.column, err) : QK_OK;
}

static qk_status read_heads(head_list *l, qk_error *err)
{
    QK_TRY(read_folder(l, l->query->results, &l->results[0], err));
    if (l->query->other)
        QK_TRY(read_folder(l, l->query->other, &l->results[1], err));
    QK_TRY(qk__need_heads(&l->query->heads, l->results[0], l->results[1], err));
    QK_TRY(add_rows(l, err));
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
    if (order == 0)
        return x->at < y->at ? -1 : 1;
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

static void select_rows(head_list *l)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->num_rows; i++) {
        row *r = &l->rows[i];
        const qk__result_head *head = r->in.head[0] ? r->in.head[0] : r->in.head[1];
        if (!qk_head_set_has(&l->query->heads, head->layer, head->q_head) ||
            (l->filter && !qk__filter_keeps_head(l->filter, &r->in)))
            continue;
        if (l->key.is_column) {
            r->number = qk__head_value_number(&l->key, &r->in);
            r->text = qk__head_value_text(&l->key, &r->in);
        }
        l->rows[kept++] = *r;
    }
    l->num_rows = kept;
    if (l->key.is_column)
        qsort(l->rows, l->num_rows, sizeof *l->rows,
              l->descending ? compare_downwards : compare_upwards);
    if (l->query->top > 0 && l->num_rows > l->query->top)
        l->num_rows = l->query->top;
}

static qk_status tell_side(const qk__results *results, const char *folder, qk_head_side *side,
                           qk_error *err)
{
    qk__manifest manifest;
    snprintf(side->model, sizeof side->model, "%s", results->models[0].name);
    QK_TRY(qk__manifest_read(&manifest, folder, err));
    snprintf(side->capture, sizeof side->capture, "%s",
             qk__json_string(json_array_get(manifest.runs, 0), "capture"));
    qk__manifest_free(&manifest);
    return QK_OK;
}

/* Before any is left out. */
static qk_status tell_totals(const head_list *l, qk_head_totals *totals, qk_error *err)
{
    *totals = (qk_head_totals){.heads = l->num_rows};
    for (int side = 0; side < 2 && l->query->other; side++)
        QK_TRY(tell_side(l->results[side], side ? l->query->other : l->query->results,
                         &totals->sides[side], err));
    for (int side = 0; side < 2 && l->results[side]; side++)
        if (isfinite(l->results[side]->models[0].lengths.most))
            qk__lengths_say(l->results[side], "", totals->sides[side].lengths);
    for (size_t i = 0; l->query->other && i < l->num_rows; i++)
        for (int side = 0; side < 2; side++)
            totals->sides[side].alone += l->rows[i].in.head[!side] == NULL;
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
        const qk__head_row *in = &l->rows[i].in;
        if (qk__is_head_text(column))
            values[i].text = qk__head_word(column, in);
        else if (column->kind == QK__HEAD_ID)
            values[i].integer = (int64_t)qk__head_number(column, in);
        else
            values[i].real = qk__head_number(column, in);
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
        infos[i].name = l->columns[i].name;
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

qk_status qk_head_list(const qk_head_query *query, qk_columns **columns, qk_head_totals *totals,
                       qk_error *err)
{
    QK_NEED(err, columns);
    *columns = NULL;
    QK_NEED(err, query);
    QK_NEED(err, query->results);
    head_list l = {.query = query};
    qk_status status = read_query(&l, err);
    if (status == QK_OK)
        status = read_heads(&l, err);
    if (status == QK_OK && totals)
        status = tell_totals(&l, totals, err);
    if (status == QK_OK) {
        select_rows(&l);
        status = make_columns(&l, columns, err);
    }
    qk__head_filter_free(&l.filter);
    qk__results_free(&l.results[0]);
    qk__results_free(&l.results[1]);
    free(l.columns);
    free(l.rows);
    return status;
}
