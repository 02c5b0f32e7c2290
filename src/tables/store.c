/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the database, adds folders, and asks. */
#include "tables/store.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/file.h"
#include "paths/path_kind.h"

/* ---- opening ---------------------------------------------------------------------------- */

static qk_status configure(qk__store *t, qk_error *err)
{
    int off;
    sqlite3_extended_result_codes(t->db, 0);
    sqlite3_limit(t->db, SQLITE_LIMIT_LENGTH, QK__MOST_TEXT);
    sqlite3_limit(t->db, SQLITE_LIMIT_SQL_LENGTH, QK__MOST_TEXT);
    sqlite3_limit(t->db, SQLITE_LIMIT_WORKER_THREADS, 0);
    /* A misspelt name in double quotes would be a text. */
    sqlite3_db_config(t->db, SQLITE_DBCONFIG_DQS_DML, 0, &off);
    sqlite3_db_config(t->db, SQLITE_DBCONFIG_DEFENSIVE, 1, &off);
    qk__sql_guard(t);
    QK_TRY(qk__store_do(t, err, "PRAGMA temp_store = MEMORY"));
    QK_TRY(qk__sentence_function(t, err));
    return qk__sql_functions(t, err);
}

qk_status qk__store_open(qk__store **tables, const qk_context *context, qk_error *err)
{
    qk__store *t = *tables = qk__calloc(1, sizeof *t);
    if (!t)
        return qk__nomem(err);
    t->context = context;
    int code =
        sqlite3_open_v2(":memory:", &t->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    qk_status status = code == SQLITE_OK ? configure(t, err) : qk__nomem(err);
    if (status != QK_OK)
        qk__store_close(tables);
    return status;
}

static void free_set(qk__store_set *set)
{
    for (size_t i = 0; i < set->num_sources; i++) {
        free(set->sources[i].folder);
        qk__manifest_free(&set->sources[i].manifest);
        qk__manifest_free(&set->sources[i].ablation);
    }
    for (size_t i = 0; i < set->num_tables; i++) {
        for (size_t c = 0; c < set->tables[i].num_columns; c++)
            free(set->tables[i].columns[c].from);
        free(set->tables[i].columns);
    }
    free(set->tables);
    free(set->sources);
    free(set->scores);
    free(set->name);
    free(set);
}

void qk__store_close(qk__store **tables)
{
    qk__store *t = *tables;
    *tables = NULL;
    if (!t)
        return;
    for (size_t i = 0; i < t->num_sets; i++)
        free_set(t->sets[i]);
    free(t->sets);
    sqlite3_close(t->db);
    free(t);
}

/* ---- folders ---------------------------------------------------------------------------- */

/* A new set with empty tables. */
static qk_status need_set(qk__store *t, const char *name, qk__store_set **set, qk_error *err)
{
    *set = qk__store_set_of(t, name);
    if (*set)
        return QK_OK;
    if (t->num_sets == t->set_capacity) {
        qk__store_set **grown = qk__grow(t->sets, &t->set_capacity, sizeof *grown);
        if (!grown)
            return qk__nomem(err);
        t->sets = grown;
    }
    qk__store_set *made = qk__calloc(1, sizeof *made);
    if (!made || !(made->name = qk__strdup(name))) {
        free(made);
        return qk__nomem(err);
    }
    made->store = t;
    *set = t->sets[t->num_sets++] = made;
    if (strcmp(name, "main") != 0)
        QK_TRY(qk__store_do(t, err, "ATTACH ':memory:' AS \"%w\"", name));
    return qk__layout_create(made, err);
}

static qk_status open_source(qk__table_folder *source, const char *folder, bool force,
                             qk_error *err)
{
    source->force = force;
    source->folder = qk__strdup(folder);
    if (!source->folder)
        return qk__nomem(err);
    QK_TRY(qk__manifest_read(&source->manifest, folder, err));
    return force ? QK_OK : qk__manifest_check(&source->manifest, folder, err);
}

static qk_status check_tables(const qk__store_set *set, const qk__table_folder *source,
                              qk_error *err)
{
    qk__path path;
    bool there = qk__is_file_in(source->folder, "scores.csv");
    for (size_t i = 0; i < set->num_tables && !there; i++)
        if (set->tables[i].file)
            QK_TRY(qk__find_table_file(source, set->tables[i].file, &path, &there, err));
    QK_TRY(qk__path_in(&path, source->folder, "scores.csv", err));
    if (there || qk__is_there(path.text))
        return QK_OK;
    if (!qk__is_there(source->folder))
        return qk__fail(err, QK_ERR_NOT_FOUND, "%s: no such folder of results", source->folder);
    qk__set_error(err, QK_ERR_NOT_FOUND,
                  "%s: no tables of results here (qk.csv, heads.csv, rotated.csv, head_*.csv, "
                  "stages.csv)",
                  source->folder);
    return qk__path_tell(source->folder, QK__PATH_RESULTS, QK_ERR_NOT_FOUND, err);
}

qk_status qk__store_add(qk__store *t, const char *name, const char *folder, bool force,
                        qk_error *err)
{
    qk__store_set *set;
    QK_TRY(need_set(t, name, &set, err));
    if (set->num_sources == set->source_capacity) {
        qk__table_folder *grown = qk__grow(set->sources, &set->source_capacity, sizeof *grown);
        if (!grown)
            return qk__nomem(err);
        set->sources = grown;
    }
    qk__table_folder *source = &set->sources[set->num_sources++];
    *source = (qk__table_folder){0};
    QK_TRY(open_source(source, folder, force, err));
    for (size_t i = 0; i < set->num_tables; i++) /* more rows follow */
        set->tables[i].filled = false;
    return check_tables(set, source, err);
}

qk_status qk__store_scores(qk__store *t, const char *name, const char *path, qk_error *err)
{
    qk__store_set *set = qk__store_set_of(t, name);
    free(set->scores);
    set->scores = qk__strdup(path);
    return set->scores ? QK_OK : qk__nomem(err);
}

qk_status qk__store_add_diff(qk__store *t, qk_error *err)
{
    qk__store_set *set;
    QK_TRY(need_set(t, "main", &set, err));
    return qk__layout_add_diff(set, err);
}

qk_status qk__store_own(qk__store *t, const char *name, qk_error *err)
{
    qk__store_set *set;
    QK_TRY(need_set(t, "main", &set, err));
    qk__store_table *table = qk__store_table_of(set, name);
    table->filled = true;
    for (size_t i = 0; i < table->num_columns; i++)
        table->columns[i].wanted = table->columns[i].filled = true;
    return QK_OK;
}

bool qk__store_has(const qk__store *t, const char *name, const char *file)
{
    const qk__store_set *set = qk__store_set_of(t, name);
    const qk__table *table = qk__find_table(file);
    qk__path path;
    bool there = false;
    for (size_t i = 0; set && table && i < set->num_sources && !there; i++)
        if (qk__find_table_file(&set->sources[i], table, &path, &there, NULL) != QK_OK)
            return false;
    return there;
}

/* ---- statements ------------------------------------------------------------------------- */

static qk_status ask(qk__store *t, const char *sql, qk_columns **rows, qk_error *err)
{
    sqlite3_stmt *statement;
    *rows = NULL;
    t->stopped = QK__NOT_STOPPED;
    qk_status status = qk__sql_prepare(t, sql, &statement, err);
    t->until = qk__thread_seconds() + t->seconds;
    t->memory = sqlite3_memory_used();
    if (status == QK_OK)
        status = qk__sql_rows(t, statement, rows, err);
    sqlite3_finalize(statement);
    return status;
}

qk_status qk__store_ask(qk__store *t, qk_columns **rows, qk_error *err, const char *sql, ...)
{
    va_list args;
    va_start(args, sql);
    char *text = sqlite3_vmprintf(sql, args);
    va_end(args);
    *rows = NULL;
    qk_status status = text ? ask(t, text, rows, err) : qk__nomem(err);
    sqlite3_free(text);
    return status;
}

qk_status qk__store_expect(qk__store *t, const char *sql, qk_error *err)
{
    return qk__sql_expect(t, sql, err);
}

qk_status qk__store_query(qk__store *t, const char *sql, double seconds, qk_columns **rows,
                          qk_error *err)
{
    t->outside = true;
    t->seconds = seconds;
    qk_status status = ask(t, sql, rows, err);
    t->outside = false;
    return status;
}
