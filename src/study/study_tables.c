/* SPDX-License-Identifier: Apache-2.0 */
/* The combined tables of a study: the rows of all models' tables one after the other; and the files that list models,
 * scores and columns. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json_build.h"
#include "base/number.h"
#include "base/csv_reader.h"
#include "schema/schema.h"
#include "study/study.h"

enum { MAX_TABLE_BYTES = 1 << 30 };

unsigned qk__study_contents(const qk__study_work *work)
{
    const unsigned some =
        QK__RESERVOIR | QK__TOKENS | QK_ANALYSE_ATTENTION; /* which a model may lack */
    unsigned contents = qk__contents_of(&work->plan->config.settings) & ~some;
    for (size_t i = 0; i < work->plan->num_models; i++)
        contents |= work->places[i].contents & some;
    return contents;
}

/* ---- one combined table ----------------------------------------------------------------- */

typedef struct combined {
    const qk__table *table;
    qk__buffer header; /* with its line end */
    qk__outfile *file;
} combined;

/* Adds rows of a table that lacks a column of the others: its fields stay empty. */
static qk_status add_aligned(combined *c, const char *path, unsigned contents, qk_error *err)
{
    qk__csv_reader *reader;
    qk__buffer line = {0};
    bool more = true;
    QK_TRY(qk__reader_open(&reader, path, err));
    qk_status status = qk__reader_next(reader, &more, err);
    while (status == QK_OK && more) {
        line.size = 0;
        for (size_t i = 0, at; status == QK_OK && i < c->table->num_columns; i++) {
            const qk__column *column = &c->table->columns[i];
            if (!qk__has_column(column, contents))
                continue;
            status = qk__reader_find(reader, column->info.name, false, &at, err);
            if (status == QK_OK)
                status = qk__csv_text(&line, qk__reader_text(reader, at), ',', err);
        }
        if (status == QK_OK && line.size > 0) {
            line.data[line.size - 1] = '\n';
            status = qk__outfile_write(c->file, line.data, line.size, err);
        }
        if (status == QK_OK)
            status = qk__reader_next(reader, &more, err);
    }
    qk__buffer_free(&line);
    qk__reader_close(&reader);
    return status;
}

static qk_status add_rows(combined *c, const qk__buffer *text, qk_error *err)
{
    size_t header = c->header.size;
    if (text->size < header || memcmp(text->data, c->header.data, header) != 0)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "has other columns than this run gives it: it was changed; --force "
                        "computes it again");
    return qk__outfile_write(c->file, text->data + header, text->size - header, err);
}

static qk_status add_model(const qk__study_work *work, combined *c, size_t i, qk_error *err)
{
    unsigned own = work->places[i].contents, all = qk__study_contents(work);
    qk__buffer text;
    if (!qk__has_table(c->table, own))
        return QK_OK;
    char *path = qk__path_join(work->places[i].folder, c->table->info.name);
    if (!path)
        return qk__nomem(err);
    bool differs = false;
    for (size_t k = 0; k < c->table->num_columns; k++)
        differs = differs || qk__has_column(&c->table->columns[k], own) !=
                                 qk__has_column(&c->table->columns[k], all);
    qk_status status = differs ? add_aligned(c, path, all, err)
                               : qk__read_file(path, MAX_TABLE_BYTES, &text, err);
    if (status == QK_OK && !differs) {
        status = add_rows(c, &text, err);
        if (status != QK_OK)
            qk__context(err, status, "%s", path);
        qk__buffer_free(&text);
    }
    free(path);
    return status;
}

static qk_status add_models(const qk__study_work *work, combined *c, qk_error *err)
{
    QK_TRY(qk__csv_header(c->table, qk__study_contents(work), &c->header, err));
    QK_TRY(qk__outfile_write(c->file, c->header.data, c->header.size, err));
    for (size_t i = 0; i < work->plan->num_models; i++)
        if (qk__study_has_results(&work->outcome->models[i]))
            QK_TRY(add_model(work, c, i, err));
    return qk__outfile_finish(c->file, err);
}

static qk_status combine(qk__study_work *work, const qk__table *table, qk_error *err)
{
    combined c = {.table = table};
    QK_TRY(qk__outfile_open_in(&c.file, work->run->output, table->info.name, err));
    qk_status status =
        qk__file_set_add(&work->outputs, table->info.name, c.file, add_models(work, &c, err));
    qk__buffer_free(&c.header);
    return status;
}

/* ---- the other files -------------------------------------------------------------------- */

/* Every model of the study has a row; a model without results shows that it is missing. */
static qk_status list_models(const qk__study_work *work, qk__buffer *text, qk_error *err)
{
    const qk__table *table = qk__find_table("models.csv");
    QK_TRY(qk__csv_header(table, QK__STUDY, text, err));
    for (size_t i = 0; i < work->plan->num_models; i++) {
        qk__listed_model listed = qk__study_listed(work, i);
        qk__buffer folder = {0};
        QK_TRY(qk__buffer_printf(&folder, err, "models/%s", work->slugs[i]));
        listed.folder = (const char *)folder.data;
        const qk__row row = {.from = {[QK__OF_ITEM] = &listed}};
        qk_status status = qk__csv_row(table, QK__STUDY, &row, text, err);
        qk__buffer_free(&folder);
        QK_TRY(status);
    }
    return QK_OK;
}

/* The schema of the models' tables, and of the list of models. */
static qk_status write_schema(qk__study_work *work, qk_error *err)
{
    unsigned contents = qk__study_contents(work);
    json_t *tables = json_object();
    qk__outfile *file;
    for (size_t i = 0; i < qk__num_tables; i++)
        if (qk__has_table(&qk__tables[i], contents) || qk__has_table(&qk__tables[i], QK__STUDY))
            tables = qk__json_set(tables, qk__tables[i].info.name,
                                  qk__describe_columns(&qk__tables[i], contents));
    QK_TRY(qk__json_write(tables, work->run->output, QK__SCHEMA_NAME, &file, err));
    return qk__file_set_add(&work->outputs, QK__SCHEMA_NAME, file, QK_OK);
}

/* Files that an earlier run wrote and this one does not must not be taken for its results. */
static qk_status remove_others(const void *context, qk_error *err)
{
    const qk__study_work *work = context;
    unsigned contents = qk__study_contents(work);
    for (size_t i = 0; i < qk__num_tables; i++)
        if (qk__is_result(&qk__tables[i]) && !qk__has_table(&qk__tables[i], contents))
            QK_TRY(qk__remove_file(work->run->output, qk__tables[i].info.name, err));
    return work->plan->scores ? QK_OK : qk__remove_file(work->run->output, "scores.csv", err);
}

qk_status qk__study_write_tables(qk__study_work *work, qk_error *err)
{
    unsigned contents = qk__study_contents(work);
    qk__buffer models = {0};
    for (size_t i = 0; i < qk__num_tables; i++)
        if (qk__has_table(&qk__tables[i], contents))
            QK_TRY(combine(work, &qk__tables[i], err));
    qk_status status = list_models(work, &models, err);
    if (status == QK_OK)
        status = qk__file_set_write(&work->outputs, work->run->output, "models.csv",
                                    models.data, models.size, err);
    qk__buffer_free(&models);
    QK_TRY(status);
    if (work->plan->scores)
        QK_TRY(qk__file_set_write(&work->outputs, work->run->output, "scores.csv",
                                  work->scores.data, work->scores.size, err));
    QK_TRY(write_schema(work, err));
    return qk__file_set_install(&work->outputs, NULL, remove_others, work, err);
}
