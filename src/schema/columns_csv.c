/* SPDX-License-Identifier: Apache-2.0 */
/* A table in memory as the text of a CSV file. */
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "schema/columns.h"

static qk_status add_cell(const qk_columns *c, size_t k, size_t row, char end, qk__buffer *text,
                          qk_error *err)
{
    qk__value value = c->values[k][row];
    switch (c->columns[k]->info.type) {
    case QK_COLUMN_REAL:
        return qk__csv_number(text, value.real, end, err);
    case QK_COLUMN_INTEGER:
        if (c->empty && c->empty[k] && c->empty[k][row])
            return qk__csv_text(text, "", end, err);
        return qk__csv_integer(text, value.integer, end, err);
    default:
        return qk__csv_text(text, value.text ? value.text : "", end, err);
    }
}

static qk_status add_lines(const qk_columns *c, qk__buffer *text, qk_error *err)
{
    for (size_t k = 0; k < c->count; k++)
        QK_TRY(
            qk__csv_text(text, c->columns[k]->info.name, k + 1 < c->count ? ',' : '\n', err));
    for (size_t row = 0; row < c->num_rows; row++)
        for (size_t k = 0; k < c->count; k++)
            QK_TRY(add_cell(c, k, row, k + 1 < c->count ? ',' : '\n', text, err));
    return qk__buffer_append(text, "", 1, err);
}

qk_status qk_columns_csv(const qk_columns *columns, char **text, qk_error *err)
{
    QK_NEED(err, text);
    *text = NULL;
    QK_NEED(err, columns);
    qk__buffer buffer = {0};
    qk_status status = add_lines(columns, &buffer, err);
    if (status != QK_OK)
        qk__buffer_free(&buffer);
    *text = (char *)buffer.data;
    return status;
}
