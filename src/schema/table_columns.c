/* SPDX-License-Identifier: Apache-2.0 */
/* Gives callers of the library a table of a run, column by column. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "schema/schema.h"

/* Values of any type, 8 bytes each. */
typedef union value {
    double real;
    int64_t integer;
    const char *text;
} value;

struct qk_columns {
    size_t num_rows, count;
    const qk__column **columns;
    value **values; /* [count][num_rows] */
};

static value value_of(const qk__column *column, const qk__row *row)
{
    switch (column->info.type) {
    case QK_COLUMN_REAL:
        return (value){.real = qk__real_of(column, row)};
    case QK_COLUMN_INTEGER:
        return (value){.integer = qk__integer_of(column, row)};
    default:
        return (value){.text = qk__text_of(column, row)};
    }
}

/* Visits all rows: without room for values, to count them. */
static size_t visit(const qk__table *table, const qk_analysis_results *results, qk_columns *c)
{
    size_t at = 0;
    qk__row row;
    for (size_t h = 0; h < results->num_heads; h++)
        for (size_t i = 0; qk__find_row(table, results, &results->heads[h], i, &row); i++, at++)
            for (size_t k = 0; k < c->count; k++)
                c->values[k][at] = value_of(c->columns[k], &row);
    return at;
}

static qk_status fill(const qk__table *table, const qk_analysis_results *results, qk_columns *c,
                      qk_error *err)
{
    c->num_rows = visit(table, results, c);
    c->columns = qk__calloc(table->num_columns, sizeof *c->columns);
    c->values = qk__calloc(table->num_columns, sizeof *c->values);
    if (!c->columns || !c->values)
        return qk__nomem(err);
    for (size_t i = 0; i < table->num_columns; i++) {
        if (!qk__has_column(&table->columns[i], results->contents))
            continue;
        c->values[c->count] = qk__calloc(c->num_rows + 1, sizeof **c->values);
        if (!c->values[c->count])
            return qk__nomem(err);
        c->columns[c->count++] = &table->columns[i];
    }
    visit(table, results, c);
    return QK_OK;
}

qk_status qk_results_table(const qk_analysis_results *results, const char *table,
                           qk_columns **columns, qk_error *err)
{
    QK_NEED(err, columns);
    *columns = NULL;
    QK_NEED(err, results, table);
    const qk__table *found = qk__find_table(table);
    if (!found || found->rows.each == QK__NO_ROWS)
        return qk__fail(err, QK_ERR_NOT_FOUND, "a run has no table '%.100s'", table);
    if (!qk__has_table(found, results->contents))
        return qk__fail(err, QK_ERR_NOT_FOUND, "%s: the analyses of this run do not make it",
                        found->info.name);
    *columns = qk__calloc(1, sizeof **columns);
    qk_status status = *columns ? fill(found, results, *columns, err) : qk__nomem(err);
    if (status != QK_OK)
        qk_columns_free(columns);
    return status;
}

void qk_columns_free(qk_columns **columns)
{
    assert(columns);
    qk_columns *c = *columns;
    if (!c)
        return;
    for (size_t k = 0; k < c->count; k++)
        free(c->values[k]);
    free(c->values);
    free(c->columns);
    free(c);
    *columns = NULL;
}

size_t qk_columns_num_rows(const qk_columns *columns)
{
    assert(columns);
    return columns->num_rows;
}

const qk_column_info *qk_columns_info(const qk_columns *columns, size_t i)
{
    assert(columns);
    return i < columns->count ? &columns->columns[i]->info : NULL;
}

static const void *find(const qk_columns *columns, const char *name, qk_column_type type)
{
    assert(columns && name);
    for (size_t i = 0; i < columns->count; i++)
        if (columns->columns[i]->info.type == type &&
            strcmp(columns->columns[i]->info.name, name) == 0)
            return columns->values[i];
    return NULL;
}

const double *qk_columns_reals(const qk_columns *columns, const char *name)
{
    return find(columns, name, QK_COLUMN_REAL);
}

const int64_t *qk_columns_integers(const qk_columns *columns, const char *name)
{
    return find(columns, name, QK_COLUMN_INTEGER);
}

const char *const *qk_columns_texts(const qk_columns *columns, const char *name)
{
    return find(columns, name, QK_COLUMN_TEXT);
}
