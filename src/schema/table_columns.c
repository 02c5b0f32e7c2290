/* SPDX-License-Identifier: Apache-2.0 */
/* Gives callers of the library a table of a run, column by column. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "schema/columns.h"

static qk__value value_of(const qk__column *column, const qk__row *row)
{
    switch (column->info.type) {
    case QK_COLUMN_REAL:
        return (qk__value){.real = qk__real_of(column, row)};
    case QK_COLUMN_INTEGER:
        return (qk__value){.integer = qk__integer_of(column, row)};
    default:
        return (qk__value){.text = qk__text_of(column, row)};
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

qk_status qk__columns_own(qk_columns *columns, const char *text, const char **copy,
                          qk_error *err)
{
    qk_columns *c = columns;
    *copy = NULL;
    if (!text)
        return QK_OK;
    if (c->num_texts == c->texts_room) {
        char **grown = qk__grow(c->texts, &c->texts_room, sizeof *grown);
        if (!grown)
            return qk__nomem(err);
        c->texts = grown;
    }
    char *made = qk__strdup(text);
    if (!made)
        return qk__nomem(err);
    *copy = c->texts[c->num_texts++] = made;
    return QK_OK;
}

/* The results may go. In most columns all rows have the same text. */
static qk_status own_texts(qk_columns *c, size_t k, qk_error *err)
{
    const char *last = NULL, *copy = NULL;
    for (size_t i = 0; i < c->num_rows; i++) {
        const char *text = c->values[k][i].text;
        if (text != last)
            QK_TRY(qk__columns_own(c, text, &copy, err));
        last = text;
        c->values[k][i].text = copy;
    }
    return QK_OK;
}

/* Integers that the file leaves empty. */
static qk_status mark_empty(qk_columns *c, size_t k, qk_error *err)
{
    for (size_t i = 0; i < c->num_rows; i++) {
        if (!qk__is_empty_integer(c->columns[k], c->values[k][i].integer))
            continue;
        if (!c->empty[k] && !(c->empty[k] = qk__calloc(c->num_rows, sizeof **c->empty)))
            return qk__nomem(err);
        c->empty[k][i] = true;
        c->values[k][i].integer = 0;
    }
    return QK_OK;
}

static qk_status fill_columns(const qk__table *table, const qk_analysis_results *results,
                              qk_columns *c, qk_error *err)
{
    c->num_rows = visit(table, results, c);
    QK_TRY(QK__CREATE_ARRAYS(err, {&c->columns, table->num_columns, sizeof *c->columns},
                             {&c->empty, table->num_columns, sizeof *c->empty},
                             {&c->values, table->num_columns, sizeof *c->values}));
    for (size_t i = 0; i < table->num_columns; i++) {
        if (!qk__has_column(&table->columns[i], results->contents))
            continue;
        c->values[c->count] = qk__calloc(c->num_rows + 1, sizeof **c->values);
        if (!c->values[c->count])
            return qk__nomem(err);
        c->columns[c->count++] = &table->columns[i];
    }
    visit(table, results, c);
    for (size_t k = 0; k < c->count; k++)
        if (c->columns[k]->storage == QK__TEXT)
            QK_TRY(own_texts(c, k, err));
        else if (c->columns[k]->info.type == QK_COLUMN_INTEGER)
            QK_TRY(mark_empty(c, k, err));
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
    if (!*columns)
        return qk__nomem(err);
    qk_status status = fill_columns(found, results, *columns, err);
    if (status != QK_OK)
        qk_columns_free(columns);
    return status;
}

void qk_columns_free(qk_columns **columns)
{
    assert(columns);
    qk_columns *c = *columns;
    *columns = NULL;
    if (!c)
        return;
    for (size_t k = 0; k < c->count; k++)
        free(c->values[k]);
    for (size_t k = 0; c->empty && k < c->count; k++)
        free(c->empty[k]);
    free(c->empty);
    free(c->made);
    qk__strings_free(c->texts, c->num_texts);
    free(c->values);
    free(c->columns);
    free(c);
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

static const void *find_values(const qk_columns *columns, const char *name, qk_column_type type)
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
    return find_values(columns, name, QK_COLUMN_REAL);
}

const int64_t *qk_columns_integers(const qk_columns *columns, const char *name)
{
    return find_values(columns, name, QK_COLUMN_INTEGER);
}

const char *const *qk_columns_texts(const qk_columns *columns, const char *name)
{
    return find_values(columns, name, QK_COLUMN_TEXT);
}

const bool *qk_columns_empty(const qk_columns *columns, const char *name)
{
    assert(columns && name);
    for (size_t i = 0; i < columns->count && columns->empty; i++)
        if (strcmp(columns->columns[i]->info.name, name) == 0)
            return columns->empty[i];
    return NULL;
}
