/* SPDX-License-Identifier: Apache-2.0 */
/* Statements of the user, and the list of what can be asked. */
#include <string.h>

#include "base/buffer.h"
#include "base/csv_reader.h"
#include "base/error.h"
#include "tables/store.h"

/* All folders are "main"; each of several folders has a letter, too. */
static qk_status open_folders(const qk_sql_query *query, qk__store **tables, qk_error *err)
{
    enum { LETTERS = 26 };
    QK_TRY(qk__store_open(tables, &query->context, err));
    for (size_t i = 0; i < query->count; i++) {
        char letter[2] = {(char)('a' + i), 0};
        QK_TRY(qk__store_add(*tables, "main", query->folders[i], query->force, err));
        if (query->count > 1 && i < LETTERS)
            QK_TRY(qk__store_add(*tables, letter, query->folders[i], query->force, err));
    }
    return QK_OK;
}

/* ---- what there is ---------------------------------------------------------------------- */

static qk_status list_row(qk__store *t, const char *table, const char *column,
                          const qk_column_info *info, const char *about, qk_error *err)
{
    return qk__store_do(t, err, "INSERT INTO temp.listed VALUES (%Q, %Q, %Q, %Q, %Q)", table,
                        column, info ? qk_column_type_name(info->type) : NULL,
                        info ? info->unit : NULL, about);
}

/* The columns that the file has. */
static qk_status list_columns(qk__store *t, const qk__store_table *table, const char *path,
                              qk_error *err)
{
    qk__csv_reader *csv;
    QK_TRY(qk__reader_open(&csv, path, err));
    qk_status status = QK_OK;
    for (size_t i = 0; i < table->num_columns && status == QK_OK; i++) {
        const qk_column_info *info =
            table->columns[i].column ? &table->columns[i].column->info : NULL;
        size_t column;
        if (!info)
            continue;
        status = qk__reader_find(csv, info->name, false, &column, err);
        if (status == QK_OK && column != QK__NO_COLUMN)
            status = list_row(t, table->name, info->name, info, info->about, err);
    }
    qk__reader_close(&csv);
    return status;
}

static qk_status list_tables(qk__store *t, const qk__store_set *set, qk_error *err)
{
    QK_TRY(qk__store_do(t, err,
                        "CREATE TABLE temp.listed (\"table\" TEXT, \"column\" TEXT, "
                        "type TEXT, unit TEXT, about TEXT)"));
    QK_TRY(list_row(t, "head_numbers", "*", NULL,
                    "a row a head: every column of the tables with one, and of pc0", err));
    QK_TRY(list_row(t, "pc0", "*", NULL, "qk on component 0", err));
    QK_TRY(list_row(t, "models", "*", NULL,
                    "the models in order, with label, family, layers, lengths of texts", err));
    QK_TRY(
        list_row(t, "distance_map", "*", NULL,
                 "head_distance summed over the heads of a model: n_pairs, ap, and width, the "
                 "tokens of a bin",
                 err));
    QK_TRY(list_row(t, "dimension_weights", "*", NULL,
                    "head_component_weights, the mean over the heads of a model", err));
    QK_TRY(list_row(t, "scores", "*", NULL,
                    "scores.csv, a row a model and column: model, family, score, value, and "
                    "scored, the model here",
                    err));
    QK_TRY(list_row(t, "ablated", "*", NULL,
                    "the model of ablation_groups, its query_heads and lengths of its texts",
                    err));
    QK_TRY(list_row(t, "any table of heads", "head_id", NULL,
                    "the head's number, the same in all tables: JOIN ... USING (head_id)",
                    err));
    for (size_t i = 0; i < set->num_tables; i++) {
        const qk__store_table *table = &set->tables[i];
        qk__path path;
        bool there;
        if (!table->file || table->first_component)
            continue;
        QK_TRY(qk__find_table_file(&set->sources[0], table->file, &path, &there, err));
        if (there)
            QK_TRY(list_columns(t, table, path.text, err));
    }
    return QK_OK;
}

/* ---- for callers of the library --------------------------------------------------------- */

qk_status qk_sql(const qk_sql_query *query, qk_columns **columns, qk_error *err)
{
    QK_NEED(err, columns);
    *columns = NULL;
    QK_NEED(err, query);
    QK_NEED(err, query->folders);
    qk__store *tables;
    double seconds = query->seconds > 0 ? query->seconds : QK_SQL_SECONDS;
    qk_status status = open_folders(query, &tables, err);
    if (status == QK_OK && query->sql)
        status = qk__store_query(tables, query->sql, seconds, columns, err);
    else if (status == QK_OK) {
        status = query->count > 0 ? list_tables(tables, tables->sets[0], err) : QK_OK;
        if (status == QK_OK)
            status = qk__store_ask(tables, columns, err, "SELECT * FROM temp.listed");
    }
    qk__store_close(&tables);
    return status;
}
