/* SPDX-License-Identifier: Apache-2.0 */
/* Takes rows of tables from the memory of a run: where each is, its values, its text as CSV. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "schema/schema.h"

/* ---- where the rows are ----------------------------------------------------------------- */

static const void *pointer_at(const void *from, size_t offset)
{
    return *(const void *const *)(const void *)((const char *)from + offset);
}

static const void *analysis_of(const qk__table *table, const qk_head_results *head)
{
    return pointer_at(head, table->rows.analysis);
}

bool qk__find_row(const qk__table *table, const qk_analysis_results *results,
                  const qk_head_results *head, size_t i, qk__row *row)
{
    const qk__rows *rows = &table->rows;
    const void *analysis = analysis_of(table, head);
    size_t count = 1;
    if (!analysis)
        return false;
    if (rows->each == QK__AN_ITEM)
        memcpy(&count, (const char *)analysis + rows->count, sizeof count);
    if (rows->each == QK__A_MODEL)
        for (const qk_head_results *h = results->heads; h < head; h++)
            if (analysis_of(table, h))
                return false;
    if (i >= count)
        return false;
    *row = (qk__row){.index = i};
    row->from[QK__OF_REPORT] = results;
    row->from[QK__OF_HEAD] = head;
    row->from[QK__OF_ANALYSIS] = analysis;
    row->from[QK__OF_INTERVALS] = i == 0 ? head->intervals : NULL;
    if (rows->size > 0)
        row->from[QK__OF_ITEM] =
            (const char *)pointer_at(analysis, rows->items) + i * rows->size;
    else if (rows->each == QK__A_MODEL)
        row->from[QK__OF_ITEM] = (const char *)results + rows->items;
    return true;
}

void qk__drop_rows(const qk__table *table, qk_head_results *head)
{
    char *analysis = *(char **)(void *)((char *)head + table->rows.analysis);
    if (!analysis || table->rows.each != QK__AN_ITEM)
        return;
    void **items = (void **)(void *)(analysis + table->rows.items);
    free(*items);
    *items = NULL;
    *(size_t *)(void *)(analysis + table->rows.count) = 0;
}

/* ---- values ----------------------------------------------------------------------------- */

static const void *place(const qk__column *column, const qk__row *row)
{
    const char *from = row->from[column->origin];
    return from ? from + column->offset : NULL;
}

static double fewer(const size_t counts[2])
{
    size_t count = counts[0] < counts[1] ? counts[0] : counts[1];
    return count > 0 ? (double)count : NAN;
}

double qk__real_of(const qk__column *column, const qk__row *row)
{
    const double *value = place(column, row);
    if (!value)
        return NAN;
    switch (column->storage) {
    case QK__ARRAY:
        return (*(const double *const *)(const void *)value)[row->index];
    case QK__WIDTH:
        return value[1] - value[0];
    case QK__FEWER:
        return fewer((const void *)value);
    default:
        return *value;
    }
}

int64_t qk__integer_of(const qk__column *column, const qk__row *row)
{
    const void *value = place(column, row);
    switch (column->storage) {
    case QK__INDEX:
        return (int64_t)row->index;
    case QK__INT:
        return *(const int *)value;
    case QK__COUNT:
        return (int64_t) * (const size_t *)value;
    default:
        return *(const int64_t *)value;
    }
}

bool qk__is_empty_integer(const qk__column *column, int64_t value)
{
    return (column->storage == QK__POSITIVE && value <= 0) ||
           (column->storage == QK__KNOWN && value == QK_NO_EXAMPLE);
}

int qk__category_of(const char *text)
{
    for (int c = 0; text && c < QK_NUM_CATEGORIES; c++)
        if (strcmp(text, qk_category_name((qk_category)c)) == 0)
            return c;
    return -1;
}

const char *qk__text_of(const qk__column *column, const qk__row *row)
{
    const void *value = place(column, row);
    switch (column->storage) {
    case QK__CATEGORY:
        return *(const int *)value < 0 ? "" : qk_category_name(*(const qk_category *)value);
    case QK__LETTERS:
        return value;
    case QK__KIND:
        return *(const qk_kind *)value == QK_QUERY ? "q" : "k";
    default:
        return *(const char *const *)value;
    }
}

/* ---- as CSV ----------------------------------------------------------------------------- */

qk_status qk__csv_header(const qk__table *table, unsigned contents, qk__buffer *text,
                         qk_error *err)
{
    for (size_t i = 0; i < table->num_columns; i++)
        if (qk__has_column(&table->columns[i], contents))
            QK_TRY(qk__buffer_printf(text, err, "%s%s", i ? "," : "",
                                     table->columns[i].info.name));
    return qk__buffer_append(text, "\n", 1, err);
}

static qk_status add_value(const qk__column *column, const qk__row *row, qk__buffer *text,
                           char end, qk_error *err)
{
    switch (column->info.type) {
    case QK_COLUMN_TEXT:
        return qk__csv_text(text, qk__text_of(column, row), end, err);
    case QK_COLUMN_REAL:
        return qk__csv_number(text, qk__real_of(column, row), end, err);
    default:
        if (qk__is_empty_integer(column, qk__integer_of(column, row)))
            return qk__buffer_append(text, &end, 1, err);
        return qk__csv_integer(text, qk__integer_of(column, row), end, err);
    }
}

qk_status qk__csv_row(const qk__table *table, unsigned contents, const qk__row *row,
                      qk__buffer *text, qk_error *err)
{
    for (size_t i = 0; i < table->num_columns; i++)
        if (qk__has_column(&table->columns[i], contents))
            QK_TRY(add_value(&table->columns[i], row, text, ',', err));
    text->data[text->size - 1] = '\n'; /* in place of the last comma */
    return QK_OK;
}

qk_status qk__csv_rows(const qk__table *table, const qk_analysis_results *results,
                       const qk_head_results *head, qk__buffer *text, qk_error *err)
{
    qk__row row;
    for (size_t i = 0; qk__find_row(table, results, head, i, &row); i++)
        QK_TRY(qk__csv_row(table, results->contents, &row, text, err));
    return QK_OK;
}
