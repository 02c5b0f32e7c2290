/* SPDX-License-Identifier: Apache-2.0 */
/* Runs statements: the tables that a statement reads are filled before its first step, and what it may do is decided
 * here. */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/context.h"
#include "base/error.h"
#include "base/utf8.h"
#include "tables/store.h"

enum {
    STEPS_BETWEEN =
        100, /* between two looks at memory; a step takes at most QK__MOST_TEXT of it */
    STEPS_TO_ASK = 1000, /* between two looks at the clock and questions to the user */
};

/* ---- what there is ---------------------------------------------------------------------- */

const char *const qk__head_tables[] = {"heads",  "pc0",       "rotated",        "head_metrics",
                                       "stages", "attention", "ablation_heads", NULL};

qk__store_set *qk__store_set_of(const qk__store *t, const char *name)
{
    for (size_t i = 0; i < t->num_sets; i++)
        if (sqlite3_stricmp(t->sets[i]->name, name) == 0)
            return t->sets[i];
    return NULL;
}

qk__store_table *qk__store_table_of(const qk__store_set *set, const char *name)
{
    for (size_t i = 0; i < set->num_tables; i++)
        if (sqlite3_stricmp(set->tables[i].name, name) == 0)
            return &set->tables[i];
    return NULL;
}

/* ---- what a statement may --------------------------------------------------------------- */

static void want(qk__store *t, const char *set, const char *table, const char *column)
{
    const qk__store_set *in = set ? qk__store_set_of(t, set) : NULL;
    qk__store_table *found = in ? qk__store_table_of(in, table) : NULL;
    /* Without a set's name SQLite, too, takes the first set with the table. */
    for (size_t i = 0; !set && i < t->num_sets && !found; i++)
        found = qk__store_table_of(t->sets[i], table);
    if (!found)
        return;
    found->asked = true;
    for (size_t i = 0; i < found->num_columns; i++)
        if (sqlite3_stricmp(found->columns[i].name, column) == 0)
            found->columns[i].wanted = true;
}

/* SQLite asks while it prepares a statement. */
static int authorize(void *user, int action, const char *first, const char *second,
                     const char *set, const char *trigger)
{
    qk__store *t = user;
    (void)trigger;
    switch (action) {
    case SQLITE_READ:
        want(t, set, first, second);
        return SQLITE_OK;
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        return t->outside && sqlite3_stricmp(second, "load_extension") == 0 ? SQLITE_DENY
                                                                            : SQLITE_OK;
    default:
        return t->outside ? SQLITE_DENY : SQLITE_OK;
    }
}

/* Not 0: stop. */
static int go_on(void *user)
{
    qk__store *t = user;
    t->steps += STEPS_BETWEEN;
    if (t->outside && sqlite3_memory_used() - t->memory > QK__MOST_MEMORY)
        t->stopped = QK__STOP_MEMORY;
    else if (t->steps % STEPS_TO_ASK != 0)
        return 0;
    else if (t->outside && qk__thread_seconds() > t->until)
        t->stopped = QK__STOP_TIME;
    else if (!qk__tell_progress(t->context, &(qk_progress){.what = ""}))
        t->stopped = QK__STOP_USER;
    return t->stopped != QK__NOT_STOPPED;
}

void qk__sql_guard(qk__store *t)
{
    sqlite3_set_authorizer(t->db, authorize, t);
    sqlite3_progress_handler(t->db, STEPS_BETWEEN, go_on, t);
}

/* sql: the part that could not be read. */
static qk_status fail_at(qk__store *t, const char *sql, int code, qk_error *err)
{
    const char *message = sqlite3_errmsg(t->db);
    const int at = sql ? sqlite3_error_offset(t->db) : -1;
    if (code == SQLITE_NOMEM)
        return qk__nomem(err);
    if (t->stopped == QK__STOP_USER)
        return qk__fail(err, QK_ERR_CANCELLED, "cancelled");
    if (t->stopped == QK__STOP_TIME)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "the statement is not done after %g s (a join without a condition?): "
                        "ask for less, or allow more (--seconds)",
                        t->seconds);
    if (t->stopped == QK__STOP_MEMORY)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "the statement takes more than a gigabyte of memory; ask for less");
    if (code == SQLITE_TOOBIG)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "a text of more than %d bytes, or too long a statement", QK__MOST_TEXT);
    if (code == SQLITE_AUTH || strstr(message, "not authorized"))
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "only SELECT is for tables of results, which are never changed (%s)",
                        message);
    static const char NONE[] = "no such column: ";
    const char *quote =
        strstr(message, "no such column")
            ? "; a text stands in single quotes; 'qkscope sql RESULTS' lists columns"
        : strstr(message, "no such table") ? "; 'qkscope sql RESULTS' lists tables"
                                           : "";
    if (sql && strcmp(message, "incomplete input") == 0) {
        const char *end = sql + strlen(sql), *word;
        while (end > sql && isspace((unsigned char)end[-1]))
            end--;
        for (word = end; word > sql && !isspace((unsigned char)word[-1]);)
            word--;
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "incomplete input: something is missing after '%.*s'",
                        (int)(end - word), word);
    }
    const char *none = strncmp(message, NONE, strlen(NONE)) == 0 ? message + strlen(NONE) : "";
    const char *instead = qk_gone_column(none);
    if (instead)
        return qk__fail(err, QK_ERR_ARGUMENT, "the column %s has left: use %s", none, instead);
    if (at >= 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "character %d: %s%s", qk__utf8_count(sql, at) + 1,
                        message, quote);
    return qk__fail(err, QK_ERR_ARGUMENT, "%s%s", message, quote);
}

qk_status qk__sql_fail(qk__store *t, int code, qk_error *err)
{
    return fail_at(t, NULL, code, err);
}

/* ---- statements ------------------------------------------------------------------------- */

static bool lacks(const qk__store_table *table)
{
    bool lacking = !table->filled;
    for (size_t i = 0; i < table->num_columns; i++)
        lacking = lacking || (table->columns[i].wanted && !table->columns[i].filled);
    return lacking && !table->busy;
}

qk_status qk__store_fill(qk__store_table *table, qk_error *err)
{
    qk__store *t = table->set->store;
    if (!lacks(table))
        return QK_OK;
    const bool outside = t->outside;
    t->outside = false;
    table->busy = true;
    for (size_t i = 0; i < table->num_columns; i++)
        table->columns[i].wanted |= table->columns[i].filled;
    qk_status status = QK_OK;
    if (table->filled || table->columns[0].filled)
        status =
            qk__store_do(t, err, "DELETE FROM \"%w\".\"%w\"", table->set->name, table->name);
    if (status == QK_OK)
        status = table->fill(table, err);
    for (size_t i = 0; i < table->num_columns; i++)
        table->columns[i].filled = status == QK_OK && table->columns[i].wanted;
    table->filled = status == QK_OK;
    table->busy = false;
    t->outside = outside;
    return status;
}

/* Takes the tables that a statement asks for. Filling them takes statements of our own, which ask for tables as well:
 * so these tables are noted first. */
static qk_status take_asked(qk__store *t, qk__store_table ***asked, size_t *count,
                            qk_error *err)
{
    *count = 0;
    *asked = qk__calloc(t->num_tables + 1, sizeof **asked);
    if (!*asked)
        return qk__nomem(err);
    for (size_t s = 0; s < t->num_sets; s++)
        for (size_t i = 0; i < t->sets[s]->num_tables; i++) {
            qk__store_table *table = &t->sets[s]->tables[i];
            if (table->asked && t->sets[s]->ready)
                (*asked)[(*count)++] = table;
            table->asked = false;
        }
    return QK_OK;
}

static qk_status fill_asked(qk__store *t, qk_status status, qk_error *err)
{
    qk__store_table **asked;
    size_t count;
    QK_TRY(take_asked(t, &asked, &count, err));
    for (size_t i = 0; i < count && status == QK_OK; i++)
        status = qk__store_fill(asked[i], err);
    free(asked);
    return status;
}

/* NULL: there is no fault. */
static const char *fault_of(const qk__store *t, sqlite3_stmt *statement, const char *rest)
{
    if (!statement)
        return "there is no statement";
    if (rest[strspn(rest, " \t\r\n;")] != 0)
        return "one statement is run, not several";
    if (t->outside && !sqlite3_stmt_readonly(statement))
        return "only SELECT is for tables of results, which are never changed";
    if (t->outside && sqlite3_bind_parameter_count(statement) > 0)
        return "a parameter (?) has no value here";
    return NULL;
}

/* ---- USING and NATURAL ------------------------------------------------------------------ */

static bool is_in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The beginning of the name before `end`, without quotes and spaces. */
static const char *skip_back(const char *sql, const char *end)
{
    while (end > sql && strchr(" \t\r\n\"`[]", end[-1]))
        end--;
    return end;
}

/* Whether, before `end`, the statement has the name and a dot; without a dot, `alone`. */
static bool follows(const char *sql, const char *end, const char *name, bool alone)
{
    const size_t length = strlen(name);
    end = skip_back(sql, end);
    if (end == sql || end[-1] != '.')
        return alone;
    end = skip_back(sql, end - 1);
    return (size_t)(end - sql) >= length &&
           sqlite3_strnicmp(end - length, name, (int)length) == 0;
}

/* Whether a statement names a table of the set: as SET.TABLE, or, in the first set, as TABLE alone. */
static bool is_named(const char *sql, const qk__store_set *set, bool first, const char *table)
{
    const size_t length = strlen(table);
    for (const char *p = sql; *p; p++)
        if (sqlite3_strnicmp(p, table, (int)length) == 0 && !is_in_name(p[length]) &&
            (p == sql || !is_in_name(p[-1])) && follows(sql, p, set->name, first))
            return true;
    return false;
}

/* Wants the columns of that name, or all (NULL), of the tables that are asked for. */
static void want_named(qk__store *t, const char *name, size_t length)
{
    for (size_t s = 0; s < t->num_sets; s++)
        for (size_t i = 0; i < t->sets[s]->num_tables; i++) {
            const qk__store_table *table = &t->sets[s]->tables[i];
            for (size_t c = 0; c < table->num_columns && table->asked; c++)
                if (!name || (strlen(table->columns[c].name) == length &&
                              sqlite3_strnicmp(table->columns[c].name, name, (int)length) == 0))
                    table->columns[c].wanted = true;
        }
}

/* Wants the columns in the parentheses behind USING. */
static void want_using(qk__store *t, const char *list)
{
    list += strspn(list, " \t\r\n");
    if (*list != '(')
        return;
    for (const char *name = list + 1; *name && *name != ')'; name++) {
        size_t length = 0;
        while (is_in_name(name[length]))
            length++;
        if (length > 0)
            want_named(t, name, length);
        name += length > 0 ? length - 1 : 0;
    }
}

/* SQLite does not say that it reads the columns of USING and NATURAL. */
static void want_joined(qk__store *t, const char *sql)
{
    static const char USING[] = "using";
    const bool natural = sqlite3_strlike("%natural%", sql, 0) == 0;
    if (sqlite3_strlike("%using%", sql, 0) != 0 && !natural)
        return;
    for (size_t s = 0; s < t->num_sets; s++)
        for (size_t i = 0; i < t->sets[s]->num_tables; i++)
            t->sets[s]->tables[i].asked |=
                is_named(sql, t->sets[s], s == 0, t->sets[s]->tables[i].name);
    if (natural)
        want_named(t, NULL, 0);
    for (const char *p = sql; *p; p++)
        if (sqlite3_strnicmp(p, USING, (int)strlen(USING)) == 0)
            want_using(t, p + strlen(USING));
}

/* ---- statements ------------------------------------------------------------------------- */

qk_status qk__sql_prepare(qk__store *t, const char *sql, sqlite3_stmt **out, qk_error *err)
{
    const char *rest;
    int code = sqlite3_prepare_v2(t->db, sql, -1, out, &rest);
    const char *fault = code == SQLITE_OK ? fault_of(t, *out, rest) : NULL;
    qk_status status = code == SQLITE_OK ? QK_OK : fail_at(t, sql, code, err);
    if (fault)
        status = qk__fail(err, QK_ERR_ARGUMENT, "%s", fault);
    want_joined(t, sql);
    status = fill_asked(t, status, err);
    if (status != QK_OK) {
        sqlite3_finalize(*out);
        *out = NULL;
    }
    return status;
}

qk_status qk__sql_expect(qk__store *t, const char *sql, qk_error *err)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(t->db, sql, -1, &statement, NULL);
    sqlite3_finalize(statement);
    want_joined(t, sql);
    for (size_t s = 0; s < t->num_sets; s++)
        for (size_t i = 0; i < t->sets[s]->num_tables; i++)
            t->sets[s]->tables[i].asked = false;
    return code == SQLITE_OK ? QK_OK : qk__sql_fail(t, code, err);
}

static qk_status make(qk__store *t, sqlite3_stmt **out, qk_error *err, const char *sql,
                      va_list args)
{
    char *text = sqlite3_vmprintf(sql, args);
    *out = NULL;
    qk_status status = text ? qk__sql_prepare(t, text, out, err) : qk__nomem(err);
    sqlite3_free(text);
    return status;
}

qk_status qk__sql_make(qk__store *t, sqlite3_stmt **out, qk_error *err, const char *sql, ...)
{
    va_list args;
    va_start(args, sql);
    qk_status status = make(t, out, err, sql, args);
    va_end(args);
    return status;
}

qk_status qk__store_do(qk__store *t, qk_error *err, const char *sql, ...)
{
    sqlite3_stmt *statement;
    va_list args;
    va_start(args, sql);
    qk_status status = make(t, &statement, err, sql, args);
    va_end(args);
    int code = SQLITE_DONE;
    while (status == QK_OK && (code = sqlite3_step(statement)) == SQLITE_ROW)
        ;
    if (status == QK_OK && code != SQLITE_DONE)
        status = qk__sql_fail(t, code, err);
    sqlite3_finalize(statement);
    return status;
}

qk_status qk__sql_number(qk__store *t, double *number, qk_error *err, const char *sql, ...)
{
    sqlite3_stmt *statement;
    va_list args;
    va_start(args, sql);
    qk_status status = make(t, &statement, err, sql, args);
    va_end(args);
    *number = NAN;
    if (status == QK_OK && sqlite3_step(statement) != SQLITE_ROW)
        status = qk__sql_fail(t, SQLITE_ERROR, err);
    if (status == QK_OK && sqlite3_column_type(statement, 0) != SQLITE_NULL)
        *number = sqlite3_column_double(statement, 0);
    sqlite3_finalize(statement);
    return status;
}

qk_status qk__sql_insert(const qk__store_table *table, qk__buffer *sql, qk_error *err)
{
    QK_TRY(qk__buffer_printf(sql, err, "INSERT INTO \"%s\".\"%s\" (", table->set->name,
                             table->name));
    for (size_t i = 0, put = 0; i < table->num_columns; i++)
        if (table->columns[i].wanted)
            QK_TRY(qk__buffer_printf(sql, err, "%s\"%s\"", put++ > 0 ? ", " : "",
                                     table->columns[i].name));
    return qk__buffer_printf(sql, err, ")");
}
