/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a table head by head, in the order of heads. */
#include "analysis/table_file.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"

struct qk__table_file {
    qk__run *run;
    const qk__table *table;
    size_t heads;     /* of the run, whose results may be gone when this is dropped */
    const char *name; /* among the outputs */
    qk__outfile *file;
    pthread_mutex_t lock; /* guards what follows, and the file */
    size_t next;          /* the head whose rows are written next */
    bool *put;            /* [heads] */
    qk__buffer *texts;    /* [heads] rows that wait */
};

static qk_status write_header(const qk__table_file *t, qk_error *err)
{
    qk__buffer header = {0};
    qk_status status = qk__csv_header(t->table, t->run->results->contents, &header, err);
    if (status == QK_OK)
        status = qk__outfile_write(t->file, header.data, header.size, err);
    qk__buffer_free(&header);
    return status;
}

qk_status qk__table_file_open(qk__table_file **file, qk__run *run, const qk__table *table,
                              qk_error *err)
{
    size_t heads = run->results->num_heads;
    qk__table_file *t = *file = calloc(1, sizeof *t);
    if (!t)
        return qk__nomem(err);
    *t = (qk__table_file){.run = run, .table = table, .heads = heads, .name = table->info.name};
    pthread_mutex_init(&t->lock, NULL);
    t->put = qk__calloc(heads, sizeof *t->put);
    t->texts = qk__calloc(heads, sizeof *t->texts);
    qk_status status = t->put && t->texts ? QK_OK : qk__nomem(err);
    if (status == QK_OK)
        status = qk__outfile_open_in(&t->file, run->settings->output, t->name, err);
    if (status == QK_OK)
        status = write_header(t, err);
    if (status != QK_OK)
        qk__table_file_drop(file);
    return status;
}

const qk__table *qk__table_file_table(const qk__table_file *file)
{
    return file->table;
}

/* ---- head by head ----------------------------------------------------------------------- */

static qk_status write_ready(qk__table_file *t, qk_error *err)
{
    for (; t->next < t->heads && t->put[t->next]; t->next++) {
        qk__buffer *text = &t->texts[t->next];
        QK_TRY(qk__outfile_write(t->file, text->data, text->size, err));
        qk__buffer_free(text);
    }
    return QK_OK;
}

qk_status qk__table_file_put(qk__table_file *t, size_t i, qk_error *err)
{
    const qk_analysis_results *results = t->run->results;
    qk__buffer text = {0};
    qk_status status = qk__csv_rows(t->table, results, &results->heads[i], &text, err);
    pthread_mutex_lock(&t->lock);
    t->put[i] = true;
    t->texts[i] = text;
    if (status == QK_OK)
        status = write_ready(t, err);
    pthread_mutex_unlock(&t->lock);
    return status;
}

static qk_status put_missing(void *context, size_t i, int worker, qk_error *err)
{
    (void)worker;
    qk__table_file *t = context;
    return t->put[i] ? QK_OK : qk__table_file_put(t, i, err);
}

static void free_table_file(qk__table_file **file)
{
    qk__table_file *t = *file;
    for (size_t i = 0; t->texts && i < t->heads; i++)
        qk__buffer_free(&t->texts[i]);
    free(t->texts);
    free(t->put);
    pthread_mutex_destroy(&t->lock);
    free(t);
    *file = NULL;
}

qk_status qk__table_file_end(qk__table_file **file, qk_error *err)
{
    qk__table_file *t = *file;
    qk__run *run = t->run;
    qk_status status = qk__parallel_try(t->heads, run->threads, put_missing, t, err);
    if (status == QK_OK)
        status = qk__outfile_finish(t->file, err);
    status = qk__run_add_output(run, t->name, t->file, status);
    free_table_file(file);
    return status;
}

void qk__table_file_drop(qk__table_file **file)
{
    if (!*file)
        return;
    qk__outfile_discard(&(*file)->file);
    free_table_file(file);
}
