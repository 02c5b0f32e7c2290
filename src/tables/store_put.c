/* SPDX-License-Identifier: Apache-2.0 */
/* Puts rows of the caller into a table, so that computed rows can be asked like files. */
#include <math.h>

#include "base/buffer.h"
#include "base/error.h"
#include "schema/columns.h"
#include "tables/store.h"

static void bind(sqlite3_stmt *insert, int at, const qk_columns *rows, size_t column,
                 size_t row)
{
    const qk__value value = rows->values[column][row];
    const qk_column_type type = rows->columns[column]->info.type;
    if (type == QK_COLUMN_REAL)
        sqlite3_bind_double(insert, at, value.real); /* NaN is NULL */
    else if (type == QK_COLUMN_INTEGER)
        sqlite3_bind_int64(insert, at, value.integer);
    else
        sqlite3_bind_text(insert, at, value.text, -1, SQLITE_STATIC);
}

static qk_status prepare(qk__store *t, const char *table, const qk_columns *rows,
                         sqlite3_stmt **insert, qk_error *err)
{
    qk__buffer names = {0}, places = {0};
    qk_status status = QK_OK;
    for (size_t i = 0; i < rows->count && status == QK_OK; i++) {
        status = qk__buffer_printf(&names, err, "%s\"%s\"", i > 0 ? ", " : "",
                                   rows->columns[i]->info.name);
        if (status == QK_OK)
            status = qk__buffer_printf(&places, err, "%s?%zu", i > 0 ? ", " : "", i + 1);
    }
    if (status == QK_OK)
        status = qk__sql_make(t, insert, err, "INSERT INTO main.\"%w\" (%s) VALUES (%s)", table,
                              (const char *)names.data, (const char *)places.data);
    qk__buffer_free(&names);
    qk__buffer_free(&places);
    return status;
}

qk_status qk__store_put(qk__store *t, const char *table, const qk_columns *rows, qk_error *err)
{
    sqlite3_stmt *insert = NULL;
    QK_TRY(prepare(t, table, rows, &insert, err));
    int code = SQLITE_DONE;
    for (size_t row = 0; row < rows->num_rows && code == SQLITE_DONE; row++) {
        for (size_t i = 0; i < rows->count; i++)
            bind(insert, (int)i + 1, rows, i, row);
        code = sqlite3_step(insert);
        sqlite3_reset(insert);
    }
    qk_status status = code == SQLITE_DONE ? QK_OK : qk__sql_fail(t, code, err);
    sqlite3_finalize(insert);
    return status;
}
