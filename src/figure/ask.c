/* SPDX-License-Identifier: Apache-2.0 */
/* Takes numbers and texts out of the rows that a SELECT has found. */
#include "figure/ask.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "schema/columns.h"
#include "schema/schema.h"

double qk__number_in(const qk__found *rows, size_t row, size_t column)
{
    const qk_columns *of = rows->of;
    const qk__value value = of->values[column][rows->first + row];
    switch (of->columns[column]->info.type) {
    case QK_COLUMN_REAL:
        return value.real;
    case QK_COLUMN_INTEGER:
        return (double)value.integer;
    default:
        return NAN;
    }
}

const char *qk__text_in(const qk__found *rows, size_t row, size_t column)
{
    const bool text = rows->of->columns[column]->info.type == QK_COLUMN_TEXT;
    return text ? rows->of->values[column][rows->first + row].text : NULL;
}

int qk__category_in(const qk__found *rows, size_t row, size_t column)
{
    return qk__category_of(qk__text_in(rows, row, column));
}

qk__found qk__same_in(const qk__found *rows, size_t row, size_t column)
{
    size_t end = row;
    while (end < rows->count &&
           qk__number_in(rows, end, column) == qk__number_in(rows, row, column))
        end++;
    return (qk__found){rows->of, rows->first + row, end - row};
}

/* ---- models ----------------------------------------------------------------------------- */

qk_status qk__find_model_ids(qk__store *tables, const qk__results *results, qk__model_ids *ids,
                             qk_error *err)
{
    qk_columns *columns;
    *ids = (qk__model_ids){0};
    QK_TRY(qk__store_ask(tables, &columns, err,
                         "SELECT model_id, model FROM models ORDER BY model_id"));
    const qk__found rows = {columns, 0, qk_columns_num_rows(columns)};
    ids->count = rows.count > 0 ? (size_t)qk__number_in(&rows, rows.count - 1, 0) : 0;
    ids->models = qk__calloc(ids->count + 1, sizeof *ids->models);
    for (size_t i = 0; ids->models && i <= ids->count; i++)
        ids->models[i] = SIZE_MAX;
    for (size_t i = 0; ids->models && i < rows.count; i++)
        for (size_t m = 0; m < results->num_models; m++)
            if (strcmp(results->models[m].name, qk__text_in(&rows, i, 1)) == 0)
                ids->models[(size_t)qk__number_in(&rows, i, 0)] = m;
    qk_columns_free(&columns);
    return ids->models ? QK_OK : qk__nomem(err);
}

size_t qk__model_in(const qk__model_ids *ids, const qk__found *rows, size_t row, size_t column)
{
    const double id = qk__number_in(rows, row, column);
    return id >= 0 && id <= (double)ids->count ? ids->models[(size_t)id] : SIZE_MAX;
}

qk__found qk__rows_of_model(const qk__model_ids *ids, const qk__found *rows, size_t model)
{
    for (size_t i = 0; i < rows->count;) {
        qk__found own = qk__same_in(rows, i, 0);
        if (qk__model_in(ids, rows, i, 0) == model)
            return own;
        i += own.count;
    }
    return (qk__found){rows->of, rows->first, 0};
}
