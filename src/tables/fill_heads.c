/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the tables that are made from others: models, the list of heads, every number of a head, and differences. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "tables/store.h"

/* ---- models ----------------------------------------------------------------------------- */

/* The models of a table in order of appearance. */
static qk_status list_models(qk__store_set *set, qk__csv_reader *csv, qk_error *err)
{
    size_t column;
    bool more = true;
    qk__buffer last = {0};
    qk_status status = qk__reader_find(csv, "model", true, &column, err);
    while (status == QK_OK && more) {
        status = qk__reader_next(csv, &more, err);
        const char *name = status == QK_OK && more ? qk__reader_text(csv, column) : NULL;
        if (!name || (last.size > 0 && strcmp((const char *)last.data, name) == 0))
            continue;
        status = qk__store_add_model(set, name, err);
        last.size = 0;
        if (status == QK_OK)
            status = qk__buffer_append(&last, name, strlen(name) + 1, err);
    }
    qk__buffer_free(&last);
    return status;
}

/* *any: such a file is there. */
static qk_status list_models_of(qk__store_set *set, qk__table_folder *source,
                                const qk__store_table *table, bool *any, qk_error *err)
{
    qk__csv_reader *csv;
    QK_TRY(qk__open_table_file(source, table->file, &csv, err));
    *any = *any || csv;
    qk_status status = csv ? list_models(set, csv, err) : QK_OK;
    qk__reader_close(&csv);
    return status;
}

/* qk.csv is long and has no model that heads.csv lacks. The same holds for other files with several rows a head, so
 * they are read only where they are alone. */
static qk_status list_all_models(qk__store_set *set, qk__table_folder *source, qk_error *err)
{
    bool any = false;
    for (size_t i = 0; qk__head_tables[i]; i++) {
        const qk__store_table *table = qk__store_table_of(set, qk__head_tables[i]);
        if (!table->first_component || !any)
            QK_TRY(list_models_of(set, source, table, &any, err));
    }
    for (size_t i = 0; i < set->num_tables && !any; i++)
        if (set->tables[i].file && set->tables[i].of_heads)
            QK_TRY(list_models_of(set, source, &set->tables[i], &any, err));
    return QK_OK;
}

/* Adds what models.csv leaves out of its models. */
static qk_status complete_models(qk__store_set *set, qk_error *err)
{
    char *unnamed = qk__unnamed_model(set);
    qk_status status =
        unnamed ? qk__store_do(
                      set->store, err,
                      "UPDATE \"%w\".models SET label = coalesce(label, nullif(model, ''), "
                      "%Q), family = coalesce(family, label, nullif(model, ''), %Q)",
                      set->name, unnamed, unnamed)
                : qk__nomem(err);
    free(unnamed);
    QK_TRY(status);
    sqlite3_stmt *statement;
    status = qk__sql_make(set->store, &statement, err,
                          "SELECT model FROM \"%w\".models WHERE coalesce(layers, 0) = 0",
                          set->name);
    int code = SQLITE_DONE;
    while (status == QK_OK && (code = sqlite3_step(statement)) == SQLITE_ROW)
        status = qk__tell_of_model(set, (const char *)sqlite3_column_text(statement, 0), err);
    if (status == QK_OK && code != SQLITE_DONE)
        status = qk__sql_fail(set->store, code, err);
    sqlite3_finalize(statement);
    return status;
}

qk_status qk__fill_models(qk__store_table *table, qk_error *err)
{
    qk__store_set *set = table->set;
    size_t lists = 0;
    for (size_t i = 0; i < table->num_columns; i++)
        table->columns[i].wanted = true;
    QK_TRY(qk__fill_csv(table, err));
    for (size_t i = 0; i < set->num_sources; i++) {
        qk__path path;
        bool there;
        QK_TRY(qk__find_table_file(&set->sources[i], table->file, &path, &there, err));
        lists += there;
        if (!there)
            QK_TRY(list_all_models(set, &set->sources[i], err));
    }
    set->listed = lists == set->num_sources;
    return complete_models(set, err);
}

/* ---- heads ------------------------------------------------------------------------------ */

/* Fails where a statement returns a row, whose first text says why. */
static qk_status refuse(qk__store *t, const char *sql, qk_error *err)
{
    sqlite3_stmt *statement;
    QK_TRY(qk__sql_prepare(t, sql, &statement, err));
    int code = sqlite3_step(statement);
    qk_status status = code == SQLITE_DONE ? QK_OK
                       : code == SQLITE_ROW
                           ? qk__fail(err, QK_ERR_INCONSISTENT, "%s",
                                      (const char *)sqlite3_column_text(statement, 0))
                           : qk__sql_fail(t, code, err);
    sqlite3_finalize(statement);
    return status;
}

static qk_status check_heads(const qk__store_table *table, qk_error *err)
{
    const char *set = table->set->name;
    const bool ablation = table->file->needs & QK__ABLATION;
    char *sql = sqlite3_mprintf(
        ablation
            ? "SELECT '%q: is of the model ''' || t.model || ''', "
              "which the other tables do not have: give ablate --model-name, "
              "or another folder' FROM \"%w\".\"%w\" t WHERE EXISTS (SELECT 1 "
              "FROM \"%w\".head_ids) AND t.head_id >> 42 NOT IN (SELECT head_id >> 42 "
              "FROM \"%w\".head_ids) LIMIT 1"
            : "SELECT '%q: key head ' || t.k_head || ' of layer ' || t.layer || ', "
              "query head ' || t.q_head || ' is ' || i.k_head || ' in another row or table' "
              "FROM \"%w\".\"%w\" t JOIN \"%w\".head_ids i ON i.head_id = t.head_id "
              "WHERE t.k_head <> i.k_head AND '%q' <> '' LIMIT 1",
        table->file->info.name, set, table->name, set, set);
    qk_status status = sql ? refuse(table->set->store, sql, err) : qk__nomem(err);
    sqlite3_free(sql);
    return status;
}

qk_status qk__fill_ids(qk__store_table *table, qk_error *err)
{
    const qk__store_set *set = table->set;
    for (size_t i = 0; qk__head_tables[i]; i++) {
        const qk__store_table *from = qk__store_table_of(set, qk__head_tables[i]);
        QK_TRY(check_heads(from, err));
        QK_TRY(qk__store_do(
            set->store, err,
            "INSERT OR IGNORE INTO \"%w\".head_ids SELECT head_id, model, layer, q_head, "
            "k_head FROM \"%w\".\"%w\"",
            set->name, set->name, from->name));
    }
    for (size_t i = 0; i < table->num_columns; i++)
        table->columns[i].wanted = true;
    return QK_OK;
}

/* "INSERT INTO table SELECT ", and for each wanted column where it comes from. */
static qk_status begin_insert(const qk__store_table *table, qk__buffer *sql, qk_error *err)
{
    QK_TRY(qk__sql_insert(table, sql, err));
    for (size_t i = 0, put = 0; i < table->num_columns; i++)
        if (table->columns[i].wanted)
            QK_TRY(qk__buffer_printf(sql, err, "%s%s", put++ > 0 ? ", " : " SELECT ",
                                     table->columns[i].from));
    return QK_OK;
}

static qk_status number_sources(const qk__store_table *table, qk__buffer *sql, qk_error *err)
{
    const char *set = table->set->name;
    QK_TRY(qk__buffer_printf(
        sql, err,
        " FROM \"%s\".head_ids i JOIN \"%s\".models m ON m.model_id = i.head_id >> 42 "
        "JOIN (SELECT h.head_id >> 42 AS model_id, max(max(h.layer), "
        "coalesce(max(o.layers), 0) - 1) AS last FROM \"%s\".head_ids h "
        "JOIN \"%s\".models o ON o.model_id = h.head_id >> 42 "
        "GROUP BY 1) l ON l.model_id = m.model_id",
        set, set, set, set));
    for (size_t i = 0; qk__head_tables[i]; i++)
        QK_TRY(qk__buffer_printf(sql, err,
                                 " LEFT JOIN \"%s\".\"%s\" ON \"%s\".head_id = i.head_id", set,
                                 qk__head_tables[i], qk__head_tables[i]));
    return QK_OK;
}

static qk_status run_insert(qk__store_table *table,
                            qk_status (*sources)(const qk__store_table *, qk__buffer *,
                                                 qk_error *),
                            qk_error *err)
{
    qk__buffer sql = {0};
    qk_status status = begin_insert(table, &sql, err);
    if (status == QK_OK)
        status = sources(table, &sql, err);
    if (status == QK_OK)
        status = qk__store_do(table->set->store, err, "%s", (const char *)sql.data);
    qk__buffer_free(&sql);
    return status;
}

qk_status qk__fill_numbers(qk__store_table *table, qk_error *err)
{
    for (size_t i = 0; i < 5; i++) /* ids */
        table->columns[i].wanted = true;
    return run_insert(table, number_sources, err);
}

static qk_status difference_sources(const qk__store_table *table, qk__buffer *sql,
                                    qk_error *err)
{
    (void)table;
    return qk__buffer_printf(
        sql, err, " FROM a.head_numbers a JOIN b.head_numbers b ON b.head_id = a.head_id");
}

qk_status qk__fill_diff(qk__store_table *table, qk_error *err)
{
    table->columns[0].wanted = true;
    return run_insert(table, difference_sources, err);
}
