/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the CSV tables of a run. */
#include "study/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"

typedef struct table {
    const qk_run *run;
    const qk_table_spec *spec;
    qk_buffer *texts; /* one a head, so that heads can be formatted in parallel */
    qk_status *statuses;
} table;

static void format_one(void *context, size_t i, int worker)
{
    (void)worker;
    table *t = context;
    t->statuses[i] = t->spec->format(t->run, &t->run->report->heads[i], &t->texts[i], NULL);
}

static qk_status write_header(const table *t, qk_outfile *file, qk_error *err)
{
    const char *columns = t->spec->columns, *more = t->spec->intervals;
    QK_TRY(qk__outfile_write(file, columns, strlen(columns), err));
    if (more && t->run->settings->ci > 0) {
        QK_TRY(qk__outfile_write(file, ",", 1, err));
        QK_TRY(qk__outfile_write(file, more, strlen(more), err));
    }
    return qk__outfile_write(file, "\n", 1, err);
}

/* *output is the file, finished but not committed. */
static qk_status write_texts(const table *t, const char *path, qk_outfile **output,
                             qk_error *err)
{
    qk_outfile *file;
    QK_TRY(qk__outfile_open(&file, path, err));
    qk_status status = write_header(t, file, err);
    for (size_t i = 0; i < t->run->report->num_heads && status == QK_OK; i++) {
        if (t->statuses[i] != QK_OK)
            status = qk__nomem(err); /* formatting fails for no other reason */
        else
            status = qk__outfile_write(file, t->texts[i].data, t->texts[i].size, err);
    }
    if (status == QK_OK)
        status = qk__outfile_finish(file, err);
    if (status == QK_OK)
        *output = file;
    else
        qk__outfile_discard(&file);
    return status;
}

static qk_status write_table(qk_run *run, const qk_table_spec *spec, const char *path,
                             const char *name, qk_error *err)
{
    size_t heads = run->report->num_heads;
    table t = {.run = run, .spec = spec};
    qk_outfile *file = NULL;
    t.texts = qk__calloc(heads, sizeof *t.texts);
    t.statuses = qk__calloc(heads, sizeof *t.statuses);
    qk_status status;
    if (t.texts && t.statuses) {
        qk__parallel_for(heads, run->threads, format_one, &t);
        status = write_texts(&t, path, &file, err);
        if (status == QK_OK)
            qk__run_add_output(run, name, file);
    } else {
        status = qk__nomem(err);
    }
    for (size_t i = 0; t.texts && i < heads; i++)
        qk__buffer_free(&t.texts[i]);
    free(t.texts);
    free(t.statuses);
    return status;
}

qk_status qk__write_table(qk_run *run, const qk_table_spec *spec, qk_error *err)
{
    char *path = qk__path_join(run->settings->output, spec->name);
    if (!path)
        return qk__nomem(err);
    qk_status status = write_table(run, spec, path, spec->name, err);
    free(path);
    return status;
}

qk_status qk__write_table_at(qk_run *run, const qk_table_spec *spec, const char *path,
                             qk_error *err)
{
    return write_table(run, spec, path, path, err);
}

qk_status qk__add_ids(const qk_run *run, const qk_head_report *head, qk_buffer *text,
                      qk_error *err)
{
    QK_TRY(qk__csv_text(text, run->report->model, ',', err));
    QK_TRY(qk__csv_integer(text, head->id.layer, ',', err));
    QK_TRY(qk__csv_integer(text, head->id.head, ',', err));
    return qk__csv_integer(text, head->k_head, ',', err);
}

qk_status qk__add_numbers(qk_buffer *text, const double *values, size_t count, char end,
                          qk_error *err)
{
    for (size_t i = 0; i < count; i++)
        QK_TRY(qk__csv_number(text, values[i], i + 1 < count ? ',' : end, err));
    return QK_OK;
}

char qk__row_end(const qk_run *run)
{
    return run->settings->ci > 0 ? ',' : '\n';
}

qk_status qk__add_intervals(const qk_run *run, qk_buffer *text, const qk_interval *intervals,
                            size_t count, qk_error *err)
{
    for (size_t i = 0; i < count && run->settings->ci > 0; i++) {
        const double bounds[] = {intervals[i].lo, intervals[i].hi};
        QK_TRY(qk__add_numbers(text, bounds, 2, i + 1 < count ? ',' : '\n', err));
    }
    return QK_OK;
}
