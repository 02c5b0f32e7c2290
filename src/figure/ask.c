/* SPDX-License-Identifier: Apache-2.0 */
/* Takes numbers and texts out of the rows of a SELECT. */
#include "figure/ask.h"

#include <math.h>
#include <string.h>

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

bool qk__any_number(const qk__found *rows, size_t column)
{
    for (size_t i = 0; i < rows->count; i++)
        if (isfinite(qk__number_in(rows, i, column)))
            return true;
    return false;
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

size_t qk__model_in(const qk__results *results, const qk__found *rows, size_t row,
                    size_t column)
{
    const double id = qk__number_in(rows, row, column);
    for (size_t m = 0; m < results->num_models; m++)
        if ((double)results->models[m].id == id)
            return m;
    return SIZE_MAX;
}

qk__found qk__rows_of_model(const qk__found *rows, const qk__result_model *model)
{
    for (size_t i = 0; i < rows->count;) {
        qk__found own = qk__same_in(rows, i, 0);
        if (qk__number_in(rows, i, 0) == (double)model->id)
            return own;
        i += own.count;
    }
    return (qk__found){rows->of, rows->first, 0};
}
