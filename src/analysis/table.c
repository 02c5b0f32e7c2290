/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the tables of a run, and schema.json, both from the schema. */
#include "analysis/run.h"

#include <stddef.h>
#include <string.h>

#include "analysis/table_file.h"
#include "base/error.h"
#include "base/json_build.h"

/* ---- tables whose rows leave memory -------------------------------------------------------- */

/* With many buckets a head has a hundred times more rows in these tables than in all others. */
static bool is_long(const qk__table *table)
{
    const qk__rows *rows = &table->rows;
    return rows->each == QK__AN_ITEM &&
           rows->analysis == offsetof(qk_head_results, plasticity) &&
           (rows->items == offsetof(qk_plasticity, cells) ||
            rows->items == offsetof(qk_plasticity, distances));
}

static bool is_written(const qk__run *run, const qk__table *table)
{
    return table->rows.each != QK__NO_ROWS && qk__has_table(table, run->results->contents);
}

qk_status qk__long_tables_open(qk__run *run, qk_error *err)
{
    const qk_analysis_settings *s = run->settings;
    qk__long_tables *open = &run->long_tables;
    if (!s->output || !s->drop_written)
        return QK_OK;
    for (size_t i = 0; i < qk__num_tables; i++)
        if (is_long(&qk__tables[i]) && is_written(run, &qk__tables[i])) {
            QK_TRY(qk__table_file_open(&open->file[open->count], run, &qk__tables[i], err));
            open->count++;
        }
    for (size_t i = 0; i < run->results->num_heads; i++)
        if (run->results->heads[i].key_missing)
            qk__long_tables_put(run, i);
    return QK_OK;
}

/* A run that cannot write ends early. */
static void stop_run(qk__run *run, qk_status status, const qk_error *err)
{
    pthread_mutex_lock(&run->lock);
    if (run->long_tables.status == QK_OK) {
        run->long_tables.status = status;
        run->long_tables.error = *err;
    }
    pthread_mutex_unlock(&run->lock);
    atomic_store(&run->cancelled, true);
}

qk_status qk__long_tables_check(const qk__run *run, qk_error *err)
{
    if (run->long_tables.status != QK_OK && err)
        *err = run->long_tables.error;
    return run->long_tables.status;
}

void qk__long_tables_put(qk__run *run, size_t i)
{
    qk_error err = {0};
    const qk__long_tables *open = &run->long_tables;
    qk_status status = QK_OK;
    for (size_t t = 0; t < open->count && status == QK_OK; t++)
        status = qk__table_file_put(open->file[t], i, &err);
    if (status != QK_OK)
        stop_run(run, status, &err);
    for (size_t t = 0; t < qk__num_tables && open->count > 0; t++)
        if (is_long(&qk__tables[t]))
            qk__drop_rows(&qk__tables[t], &run->results->heads[i]);
}

void qk__long_tables_drop(qk__run *run)
{
    for (size_t t = 0; t < run->long_tables.count; t++)
        qk__table_file_drop(&run->long_tables.file[t]);
    run->long_tables.count = 0;
}

/* ---- all of them ------------------------------------------------------------------------ */

/* The file of a long table, or a new file. */
static qk_status open_table(qk__run *run, const qk__table *table, qk__table_file **file,
                            qk_error *err)
{
    qk__long_tables *open = &run->long_tables;
    for (size_t t = 0; t < open->count; t++)
        if (open->file[t] && qk__table_file_table(open->file[t]) == table) {
            *file = open->file[t];
            open->file[t] = NULL;
            return QK_OK;
        }
    return qk__table_file_open(file, run, table, err);
}

qk_status qk__write_tables(qk__run *run, qk_error *err)
{
    for (size_t i = 0; i < qk__num_tables; i++) {
        qk__table_file *file;
        if (!is_written(run, &qk__tables[i]))
            continue;
        QK_TRY(open_table(run, &qk__tables[i], &file, err));
        QK_TRY(qk__table_file_end(&file, err));
    }
    return QK_OK;
}

/* ---- schema.json ------------------------------------------------------------------------ */

/* The contents of the run that wrote a table; 0: it does not stay. */
static unsigned contents_of_staying(const qk__run *run, const qk__table *table)
{
    const qk__manifest staying = {.runs = run->staying};
    const json_t *owner = qk__manifest_owner(&staying, table->info.name);
    json_t *settings = json_object_get(owner, "settings");
    bool intervals = json_is_number(json_object_get(settings, "ci"));
    json_t *kept = json_object_get(json_object_get(owner, "kept"), "rows");
    bool reservoir = json_is_string(kept) && strcmp(json_string_value(kept), "reservoir") == 0;
    return owner ? table->needs | (intervals ? QK__INTERVALS : 0U) |
                       (reservoir ? QK__RESERVOIR : 0U)
                 : 0;
}

static json_t *describe_tables(const qk__run *run)
{
    json_t *tables = json_object();
    for (size_t i = 0; i < qk__num_tables; i++) {
        const qk__table *table = &qk__tables[i];
        unsigned contents = run->results->contents;
        if (!qk__has_table(table, contents))
            contents = contents_of_staying(run, table);
        if (contents)
            tables =
                qk__json_set(tables, table->info.name, qk__describe_columns(table, contents));
    }
    return tables;
}

qk_status qk__write_schema(qk__run *run, qk_error *err)
{
    qk__outfile *file;
    QK_TRY(qk__json_write(describe_tables(run), run->settings->output, QK__SCHEMA_NAME, &file,
                          err));
    return qk__run_add_output(run, QK__SCHEMA_NAME, file, QK_OK);
}
