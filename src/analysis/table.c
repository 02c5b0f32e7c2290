/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the tables of a run, and schema.json, both as the schema says. */
#include "analysis/run.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json_build.h"
#include "base/parallel.h"
#include "schema/schema.h"

/* ---- one table -------------------------------------------------------------------------- */

typedef struct job {
    const qk__run *run;
    const qk__table *table;
    qk__buffer *texts; /* one a head, so that heads can be formatted in parallel */
} job;

static qk_status format_one(void *context, size_t i, int worker, qk_error *err)
{
    (void)worker;
    job *j = context;
    const qk_analysis_results *results = j->run->results;
    return qk__csv_rows(j->table, results, &results->heads[i], &j->texts[i], err);
}

static qk_status write_texts(const job *j, qk__outfile *file, qk_error *err)
{
    const qk_analysis_results *results = j->run->results;
    qk__buffer header = {0};
    qk_status status = qk__csv_header(j->table, results->contents, &header, err);
    if (status == QK_OK)
        status = qk__outfile_write(file, header.data, header.size, err);
    qk__buffer_free(&header);
    for (size_t i = 0; i < results->num_heads && status == QK_OK; i++)
        status = qk__outfile_write(file, j->texts[i].data, j->texts[i].size, err);
    return status == QK_OK ? qk__outfile_finish(file, err) : status;
}

/* `name`: among the outputs. */
static qk_status write_table(qk__run *run, const qk__table *table, const char *path,
                             const char *name, qk_error *err)
{
    size_t heads = run->results->num_heads;
    job j = {.run = run, .table = table};
    qk__outfile *file = NULL;
    j.texts = qk__calloc(heads, sizeof *j.texts);
    qk_status status =
        j.texts ? qk__parallel_try(heads, run->threads, format_one, &j, err) : qk__nomem(err);
    if (status == QK_OK)
        status = qk__outfile_open(&file, path, err);
    if (status == QK_OK)
        status = write_texts(&j, file, err);
    status = qk__run_add_output(run, name, file, status);
    for (size_t i = 0; j.texts && i < heads; i++)
        qk__buffer_free(&j.texts[i]);
    free(j.texts);
    return status;
}

/* ---- all of them ------------------------------------------------------------------------ */

static qk_status write_result(qk__run *run, const qk__table *table, qk_error *err)
{
    char *path = qk__path_join(run->settings->output, table->info.name);
    qk_status status =
        path ? write_table(run, table, path, table->info.name, err) : qk__nomem(err);
    free(path);
    return status;
}

/* The original tool's tables lie where its settings say. */
static qk_status write_published(qk__run *run, const qk__table *table, qk_error *err)
{
    const qk_published_tables *paths = run->settings->published_tables;
    const char *path = table == qk__find_table("output_csv")   ? paths->metrics
                       : table == qk__find_table("bucket_csv") ? paths->buckets
                                                               : paths->components;
    char *folder;
    QK_TRY(qk__parent_folder(path, &folder, err));
    qk_status status = qk__make_dirs(folder, err);
    free(folder);
    return status == QK_OK ? write_table(run, table, path, path, err) : status;
}

qk_status qk__write_tables(qk__run *run, qk_error *err)
{
    for (size_t i = 0; i < qk__num_tables; i++) {
        const qk__table *table = &qk__tables[i];
        if (table->rows.each != QK__NO_ROWS && qk__has_table(table, run->results->contents))
            QK_TRY(qk__is_result(table) ? write_result(run, table, err)
                                        : write_published(run, table, err));
    }
    return QK_OK;
}

/* ---- schema.json ------------------------------------------------------------------------ */

/* What the run that wrote a table had; 0: no run that stays. */
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
