/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the rows of a statement into columns in memory. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/number.h"
#include "schema/columns.h"
#include "tables/store.h"

/* A value; texts lie in a buffer, where `integer` says. */
typedef struct cell {
    qk__value value;
    int type; /* SQLITE_INTEGER, ... */
} cell;

typedef struct found {
    size_t columns, rows, count, capacity;
    cell *cells; /* row by row */
    qk__buffer texts;
} found;

static qk_status take_cell(found *f, sqlite3_stmt *statement, int i, qk_error *err)
{
    cell *c = &f->cells[f->count];
    c->type = sqlite3_column_type(statement, i);
    if (c->type == SQLITE_FLOAT) {
        c->value.real = sqlite3_column_double(statement, i);
    } else if (c->type == SQLITE_INTEGER) {
        c->value.integer = sqlite3_column_int64(statement, i);
    } else if (c->type == SQLITE_TEXT) {
        const unsigned char *text = sqlite3_column_text(statement, i);
        if (!text)
            return qk__nomem(err);
        c->value.integer = (int64_t)f->texts.size;
        QK_TRY(qk__buffer_append(&f->texts, text, strlen((const char *)text) + 1, err));
    } else if (c->type == SQLITE_BLOB) {
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "column '%.100s' has bytes that are no text; ask for hex(...)",
                        sqlite3_column_name(statement, i));
    }
    f->count++;
    return QK_OK;
}

static qk_status take_rows(qk__store *t, found *f, sqlite3_stmt *statement, qk_error *err)
{
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        while (f->count + f->columns > f->capacity) {
            cell *grown = qk__grow(f->cells, &f->capacity, sizeof *grown);
            if (!grown)
                return qk__nomem(err);
            f->cells = grown;
        }
        for (size_t i = 0; i < f->columns; i++)
            QK_TRY(take_cell(f, statement, (int)i, err));
        f->rows++;
        if (t->outside && f->count * sizeof *f->cells + f->texts.size > QK__MOST_MEMORY)
            return qk__fail(
                err, QK_ERR_UNSUPPORTED,
                "the statement has more than a gigabyte of rows; ask for less (LIMIT)");
    }
    return code == SQLITE_DONE ? QK_OK : qk__sql_fail(t, code, err);
}

/* ---- columns ---------------------------------------------------------------------------- */

static const cell *cell_at(const found *f, size_t row, size_t column)
{
    return &f->cells[row * f->columns + column];
}

/* A text makes all numbers of its column texts; a real or an empty value makes all integers reals. */
static qk_column_type type_of(const found *f, size_t column, const char *declared)
{
    bool any[SQLITE_NULL + 1] = {false};
    for (size_t row = 0; row < f->rows; row++)
        any[cell_at(f, row, column)->type] = true;
    if (any[SQLITE_TEXT])
        return QK_COLUMN_TEXT;
    if (any[SQLITE_INTEGER])
        return any[SQLITE_FLOAT] || any[SQLITE_NULL] ? QK_COLUMN_REAL : QK_COLUMN_INTEGER;
    const char *type = declared ? declared : "REAL";
    return any[SQLITE_FLOAT] || strcmp(type, "TEXT") != 0
               ? f->rows == 0 && strcmp(type, "INTEGER") == 0 ? QK_COLUMN_INTEGER
                                                              : QK_COLUMN_REAL
               : QK_COLUMN_TEXT;
}

static const char *text_at(const found *f, const cell *c)
{
    return c->type == SQLITE_TEXT ? (const char *)f->texts.data + c->value.integer : NULL;
}

/* Spells the numbers of a column of texts. */
static qk_status spell_numbers(found *f, size_t column, qk_error *err)
{
    for (size_t row = 0; row < f->rows; row++) {
        cell *c = &f->cells[row * f->columns + column];
        char text[QK_NUMBER_SIZE];
        if (c->type == SQLITE_INTEGER)
            sqlite3_snprintf(sizeof text, text, "%lld", (long long)c->value.integer);
        else if (c->type == SQLITE_FLOAT)
            qk__format_number(c->value.real, text);
        else
            continue;
        *c = (cell){.value.integer = (int64_t)f->texts.size, .type = SQLITE_TEXT};
        QK_TRY(qk__buffer_append(&f->texts, text, strlen(text) + 1, err));
    }
    return QK_OK;
}

static void fill_column(const found *f, size_t column, qk_column_type type, qk__value *values)
{
    for (size_t row = 0; row < f->rows; row++) {
        const cell *c = cell_at(f, row, column);
        if (type == QK_COLUMN_TEXT)
            values[row].text = text_at(f, c);
        else if (type == QK_COLUMN_INTEGER)
            values[row].integer = c->value.integer;
        else
            values[row].real = c->type == SQLITE_FLOAT     ? c->value.real
                               : c->type == SQLITE_INTEGER ? (double)c->value.integer
                                                           : NAN;
    }
}

/* Of a number of a head with this name, else of a table's column; of other names nothing is known. */
static qk_column_info info_of(const char *name)
{
    const char *dot = strchr(name, '.'), *plain = dot ? dot + 1 : name; /* "a.r_q" of a list */
    const qk__column *known = qk__find_field(plain);
    for (size_t i = 0; i < qk__num_tables && !known; i++)
        for (size_t k = 0; k < qk__tables[i].num_columns && !known; k++)
            if (strcmp(qk__tables[i].columns[k].info.name, plain) == 0)
                known = &qk__tables[i].columns[k];
    qk_column_info info = known ? known->info : (qk_column_info){.about = ""};
    info.name = name;
    return info;
}

/* Columns are found by name, so the second `layer` of a join is "layer:1", as in SQLite itself. */
static qk_status name_columns(const found *f, sqlite3_stmt *statement, char **names,
                              qk_error *err)
{
    for (size_t i = 0; i < f->columns; i++) {
        const char *name = sqlite3_column_name(statement, (int)i);
        size_t before = 0;
        for (size_t k = 0; k < i && name; k++)
            before += strcmp(sqlite3_column_name(statement, (int)k), name) == 0;
        names[i] = !name        ? NULL
                   : before > 0 ? qk__format("%s:%zu", name, before)
                                : qk__strdup(name);
        if (!names[i])
            return qk__nomem(err);
    }
    return QK_OK;
}

static qk_status make(found *f, sqlite3_stmt *statement, qk_columns **rows, qk_error *err)
{
    char **names = qk__calloc(f->columns + 1, sizeof *names);
    qk_column_info *infos = qk__calloc(f->columns + 1, sizeof *infos);
    const void **starts = qk__calloc(f->columns + 1, sizeof *starts);
    qk__value *values = qk__calloc(f->columns * f->rows + 1, sizeof *values);
    qk_status status = names && infos && starts && values
                           ? name_columns(f, statement, names, err)
                           : qk__nomem(err);
    for (size_t i = 0; i < f->columns && status == QK_OK; i++) {
        infos[i] = info_of(names[i]);
        infos[i].type = type_of(f, i, sqlite3_column_decltype(statement, (int)i));
        if (infos[i].type == QK_COLUMN_TEXT)
            status = spell_numbers(f, i, err);
    }
    for (size_t i = 0; i < f->columns && status == QK_OK; i++) {
        starts[i] = values + i * f->rows;
        fill_column(f, i, infos[i].type, values + i * f->rows);
    }
    if (status == QK_OK)
        status = qk_columns_make(rows, infos, f->columns, f->rows, starts, err);
    qk__strings_free(names, names ? f->columns : 0);
    free(infos);
    free(starts);
    free(values);
    return status;
}

qk_status qk__sql_rows(qk__store *t, sqlite3_stmt *statement, qk_columns **rows, qk_error *err)
{
    found f = {.columns = (size_t)sqlite3_column_count(statement)};
    qk_status status = take_rows(t, &f, statement, err);
    if (status == QK_OK)
        status = make(&f, statement, rows, err);
    free(f.cells);
    qk__buffer_free(&f.texts);
    return status;
}
