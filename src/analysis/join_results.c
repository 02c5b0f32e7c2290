/* SPDX-License-Identifier: Apache-2.0 */
/* Joins the tables of several folders: of one capture and the same settings, but of different layers or heads. The
 * rows of a head come from one folder; heads are in the order of a single run. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/results.h>

#include "analysis/run.h"
#include "analysis/run_manifest.h"
#include "base/buffer.h"
#include "base/csv_reader.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_build.h"
#include "base/number.h"
#include "base/path.h"
#include "schema/schema.h"

typedef struct source {
    const char *folder;
    qk__hold hold;
    qk__manifest manifest;
    qk__csv_reader *reader; /* of the current table */
    size_t id[2];           /* its columns of layer and head */
    int64_t at[2];          /* layer and head of the current row */
    bool more;              /* there is a current row */
} source;

typedef struct joining {
    source *sources;
    size_t count;
    const char *command_line;
    qk__run *run;
    qk__outfile *file; /* the table that is written */
} joining;

#define qk__each_source(s, j) for (source *s = (j)->sources; s < (j)->sources + (j)->count; s++)

/* ---- rows of heads ---------------------------------------------------------------------- */

static qk_status go_on(source *s, qk_error *err)
{
    QK_TRY(qk__reader_next(s->reader, &s->more, err));
    for (int i = 0; i < 2 && s->more; i++)
        QK_TRY(qk__reader_integer(s->reader, s->id[i], 0, INT_MAX, &s->at[i], err));
    return QK_OK;
}

static qk_status begin_heads(source *s, qk_error *err)
{
    QK_TRY(qk__reader_find(s->reader, "layer", true, &s->id[0], err));
    QK_TRY(qk__reader_find(s->reader, "q_head", false, &s->id[1], err));
    if (s->id[1] == QK__NO_COLUMN)
        QK_TRY(qk__reader_find(s->reader, "head", true, &s->id[1], err));
    return go_on(s, err);
}

static int compare_heads(const int64_t a[2], const int64_t b[2])
{
    int which = a[0] == b[0];
    return a[which] < b[which] ? -1 : a[which] > b[which];
}

/* The folder with the first of the heads that are left; NULL: none is left. */
static qk_status find_next(const joining *j, source **next, qk_error *err)
{
    *next = NULL;
    qk__each_source (s, j) {
        int order = !s->more ? 1 : *next ? compare_heads(s->at, (*next)->at) : -1;
        if (order == 0)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "%s and %s both have head %lld of layer %lld: join runs of "
                            "different layers or heads",
                            (*next)->folder, s->folder, (long long)s->at[1],
                            (long long)s->at[0]);
        if (order < 0)
            *next = s;
    }
    return QK_OK;
}

static char end_of(const qk__csv_reader *reader, size_t column)
{
    return column + 1 == qk__reader_num_columns(reader) ? '\n' : ',';
}

/* Fields of the header (qk__reader_column_name), or of the current row (qk__reader_text). */
typedef const char *field_fn(const qk__csv_reader *reader, size_t column);
static qk_status put_row(const joining *j, const qk__csv_reader *reader, field_fn *field,
                         qk_error *err)
{
    qk__buffer row = {0};
    qk_status status = QK_OK;
    for (size_t c = 0; c < qk__reader_num_columns(reader) && status == QK_OK; c++)
        status = qk__csv_text(&row, field(reader, c), end_of(reader, c), err);
    if (status == QK_OK)
        status = qk__outfile_write(j->file, row.data, row.size, err);
    qk__buffer_free(&row);
    return status;
}

static qk_status put_heads(const joining *j, qk_error *err)
{
    source *next;
    qk__each_source (s, j)
        QK_TRY(begin_heads(s, err));
    for (;;) {
        QK_TRY(find_next(j, &next, err));
        if (!next)
            return QK_OK;
        const int64_t head[2] = {next->at[0], next->at[1]};
        while (next->more && compare_heads(next->at, head) == 0) {
            QK_TRY(put_row(j, next->reader, qk__reader_text, err));
            QK_TRY(go_on(next, err));
        }
    }
}

/* ---- the row of a model ----------------------------------------------------------------- */

/* Adds up numbers of heads, and means over them. */
static qk_status add_mean(const joining *j, size_t heads_at, size_t column, double *mean,
                          double *heads, qk_error *err)
{
    double value, total = 0, weight;
    *heads = *mean = 0;
    qk__each_source (s, j)
        if (s->more) {
            QK_TRY(qk__reader_number(s->reader, column, &value, err));
            QK_TRY(qk__reader_number(s->reader, heads_at, &weight, err));
            *heads += weight;
            *mean += isfinite(value) ? value * weight : 0;
            total += isfinite(value) ? weight : 0;
        }
    *mean /= total;
    return QK_OK;
}

static qk_status make_model(const joining *j, const qk__csv_reader *reader, qk__buffer *row,
                            qk_error *err)
{
    size_t heads_at;
    double mean, heads;
    QK_TRY(qk__reader_find(reader, "heads", true, &heads_at, err));
    for (size_t c = 0; c < qk__reader_num_columns(reader); c++) {
        const char *name = qk__reader_column_name(reader, c), end = end_of(reader, c);
        bool same = strcmp(name, "model") == 0 || strcmp(name, "reservoir") == 0;
        if (!same)
            QK_TRY(add_mean(j, heads_at, c, &mean, &heads, err));
        QK_TRY(same            ? qk__csv_text(row, qk__reader_text(reader, c), end, err)
               : c == heads_at ? qk__csv_integer(row, (long long)heads, end, err)
                               : qk__csv_number(row, mean, end, err));
    }
    return QK_OK;
}

static qk_status put_model(const joining *j, qk_error *err)
{
    qk__buffer row = {0};
    source *first = NULL;
    qk__each_source (s, j) {
        QK_TRY(qk__reader_next(s->reader, &s->more, err));
        first = first || !s->more ? first : s;
    }
    if (!first)
        return QK_OK;
    qk_status status = make_model(j, first->reader, &row, err);
    if (status == QK_OK)
        status = qk__outfile_write(j->file, row.data, row.size, err);
    qk__buffer_free(&row);
    return status;
}

/* ---- a table ---------------------------------------------------------------------------- */

static qk_status open_table(source *s, const source *first, const char *name, qk_error *err)
{
    qk__path path;
    QK_TRY(qk__path_in(&path, s->folder, name, err));
    QK_TRY(qk__reader_open(&s->reader, path.text, err));
    size_t columns = qk__reader_num_columns(s->reader);
    bool same = columns == qk__reader_num_columns(first->reader);
    for (size_t c = 0; c < columns && same; c++)
        same = strcmp(qk__reader_column_name(s->reader, c),
                      qk__reader_column_name(first->reader, c)) == 0;
    return same ? QK_OK
                : qk__fail(err, QK_ERR_INCONSISTENT, "%s: its columns are not those of %s",
                           path.text, qk__reader_path(first->reader));
}

static qk_status write_table(const joining *j, const qk__table *table, qk_error *err)
{
    qk__each_source (s, j)
        QK_TRY(open_table(s, j->sources, table->info.name, err));
    QK_TRY(put_row(j, j->sources->reader, qk__reader_column_name, err));
    QK_TRY(table->rows.each == QK__A_MODEL ? put_model(j, err) : put_heads(j, err));
    return qk__outfile_finish(j->file, err);
}

static qk_status join_table(joining *j, const qk__table *table, json_t **contents,
                            qk_error *err)
{
    const char *name = table->info.name;
    if (j->run->outputs.count + 2 >= QK__SET_FILES) /* schema.json and manifest.json follow */
        return qk__fail(err, QK_ERR_UNSUPPORTED, "%s: too many tables", j->sources->folder);
    QK_TRY(qk__outfile_open_in(&j->file, j->run->settings->output, name, err));
    qk_status status = write_table(j, table, err);
    qk__each_source (s, j)
        qk__reader_close(&s->reader);
    QK_TRY(qk__file_set_add(&j->run->outputs, name, j->file, status));
    return qk__describe_table(contents, name, qk__outfile_temporary(j->file), err);
}

/* ---- the manifest ----------------------------------------------------------------------- */

static json_t *run_of(const source *s, size_t i)
{
    return json_array_get(s->manifest.runs, i);
}

/* The first setting in which two runs differ, except which heads; NULL: none. */
static const char *find_difference(json_t *a, json_t *b)
{
    const char *name, *deeper;
    json_t *value;
    json_object_foreach(a, name, value)
    {
        json_t *other = json_object_get(b, name);
        if (strcmp(name, "layers") == 0 || strcmp(name, "heads") == 0 ||
            json_equal(value, other))
            continue;
        deeper = json_is_object(value) ? find_difference(value, other) : NULL;
        return deeper ? deeper : name;
    }
    return NULL;
}

static qk_status check_run(const source *first, const source *s, size_t i, qk_error *err)
{
    static const char *const SAME[] = {"qkscope", "model",        "num_layers", "settings",
                                       "buckets", "capture_json", "tables"};
    json_t *a = run_of(first, i), *b = run_of(s, i);
    const char *other = NULL;
    if (!qk__same_capture(a, b, &other))
        return qk__fail(err, QK_ERR_INCONSISTENT, "%s and %s are of two captures: %s differs",
                        first->folder, s->folder, other);
    for (size_t n = 0; n < sizeof SAME / sizeof *SAME && !other; n++) {
        json_t *is = json_object_get(a, SAME[n]), *was = json_object_get(b, SAME[n]);
        if (json_is_object(is))
            other = find_difference(is, was);
        else if (is != was && !json_equal(is, was))
            other = SAME[n];
    }
    /* nothing else distinguishes them */
    if (!other && json_is_null(json_object_get(a, "capture_json")) &&
        !json_equal(json_object_get(a, "capture"), json_object_get(b, "capture")))
        other = "capture";
    return other ? qk__fail(err, QK_ERR_INCONSISTENT,
                            "%s and %s differ in %s: join runs of one capture with the same "
                            "options and version",
                            first->folder, s->folder, other)
                 : QK_OK;
}

/* Joins two lists, each element once. */
static void extend(json_t *list, json_t *more)
{
    size_t i, k;
    json_t *item, *there;
    json_array_foreach(more, i, item)
    {
        bool has = false;
        json_array_foreach(list, k, there)
        {
            has = has || json_equal(there, item);
        }
        if (!has)
            json_array_append(list, item);
    }
}

/* Without a list all are meant. */
static void add_selection(json_t *settings, json_t *more, const char *name)
{
    json_t *list = json_object_get(settings, name);
    json_t *other = json_object_get(more, name);
    if (json_is_array(list) && json_is_array(other))
        extend(list, other);
    else
        json_object_set_new(settings, name, json_null());
}

static void add_run(json_t *entry, json_t *more)
{
    static const char *const COUNTS[] = {"heads", "heads_without_numbers", "rows"};
    static const char *const LISTS[] = {"failures", "warnings", "inputs"};
    static const char *const SELECTION[] = {"layers", "heads"};
    for (size_t i = 0; i < 3; i++)
        json_object_set_new(entry, COUNTS[i],
                            json_integer(json_integer_value(json_object_get(entry, COUNTS[i])) +
                                         json_integer_value(json_object_get(more, COUNTS[i]))));
    for (size_t i = 0; i < 3; i++)
        extend(json_object_get(entry, LISTS[i]), json_object_get(more, LISTS[i]));
    for (size_t i = 0; i < 2; i++)
        add_selection(json_object_get(entry, "settings"), json_object_get(more, "settings"),
                      SELECTION[i]);
}

/* Joins run i of all folders into one, and writes its tables. */
static qk_status join_run(joining *j, size_t i, json_t **entry, qk_error *err)
{
    size_t t;
    const json_t *name;
    json_t *tables = json_array(), *contents = json_object(), *runs = json_array();
    qk_status status = QK_OK;
    *entry = qk__json_copy(run_of(j->sources, i));
    qk__each_source (s, j) {
        if (s > j->sources && status == QK_OK)
            status = check_run(j->sources, s, i, err);
        if (s > j->sources && status == QK_OK)
            add_run(*entry, run_of(s, i));
        runs =
            qk__json_append(runs, json_pack("{s:s, s:O?}", "folder", s->folder, "command_line",
                                            json_object_get(run_of(s, i), "command_line")));
    }
    json_array_foreach(json_object_get(run_of(j->sources, i), "tables"), t, name)
    {
        const qk__table *table =
            json_is_string(name) ? qk__find_table(json_string_value(name)) : NULL;
        if (!table || table->rows.each == QK__NO_ROWS) /* summary.json */
            continue;
        if (status == QK_OK)
            status = join_table(j, table, &contents, err);
        tables = qk__json_append(tables, json_string(table->info.name));
    }
    *entry = qk__json_set(*entry, "tables", tables);
    *entry = qk__json_set(*entry, "contents", contents);
    *entry = qk__json_set(*entry, "joined", runs);
    return status == QK_OK && !*entry ? qk__nomem(err) : status;
}

static qk_status write_manifest(joining *j, json_t *runs, qk_error *err)
{
    qk__outfile *file;
    QK_TRY(qk__json_write(json_pack("{s:s, s:s, s:b, s:o, s:O}", "qkscope", QK_VERSION, "kind",
                                    "results", "complete", 1, "command_line",
                                    qk__json_text_or_null(j->command_line), "runs", runs),
                          j->run->settings->output, QK__MANIFEST_NAME, &file, err));
    return qk__file_set_add(&j->run->outputs, QK__MANIFEST_NAME, file, QK_OK);
}

/* ---- all of it -------------------------------------------------------------------------- */

static qk_status open_source(const joining *j, source *s, qk_error *err)
{
    QK_TRY(qk__place_watch(&s->hold, s->folder, &j->run->folder, err));
    QK_TRY(qk_results_check(s->folder, err));
    QK_TRY(qk__manifest_read(&s->manifest, s->folder, err));
    size_t runs = json_array_size(s->manifest.runs);
    if (runs == 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: no results of an analysis", s->folder);
    return runs == json_array_size(j->sources->manifest.runs)
               ? QK_OK
               : qk__fail(err, QK_ERR_INCONSISTENT,
                          "%s and %s have tables of different analyses", j->sources->folder,
                          s->folder);
}

static qk_status join_all(void *context, qk__run *run, qk_error *err)
{
    joining *j = context;
    j->run = run;
    json_t *entry, *runs = json_array();
    qk_status status = QK_OK;
    qk__each_source (s, j)
        if (status == QK_OK)
            status = open_source(j, s, err);
    for (size_t i = 0; i < json_array_size(j->sources->manifest.runs) && status == QK_OK; i++) {
        status = join_run(j, i, &entry, err);
        runs = qk__json_append(runs, entry);
    }
    if (status == QK_OK)
        status = qk__results_take(run, j->sources->folder, QK__SCHEMA_NAME, err);
    if (status == QK_OK)
        status = write_manifest(j, runs, err);
    json_decref(runs);
    return status;
}

qk_status qk_results_join(const char *const *folders, size_t count, const char *output,
                          bool force, const char *command_line, qk_error *err)
{
    QK_NEED(err, folders);
    QK_NEED(err, output);
    if (count < 2)
        return qk__fail(err, QK_ERR_ARGUMENT, "two folders of results at least are joined");
    joining j = {.sources = calloc(count, sizeof *j.sources),
                 .count = count,
                 .command_line = command_line};
    if (!j.sources)
        return qk__nomem(err);
    for (size_t i = 0; i < count; i++)
        j.sources[i] = (source){.folder = folders[i], .hold = {.lock = -1}};
    qk_status status = qk__results_replace(output, force, join_all, &j, err);
    for (size_t i = 0; i < count; i++) {
        qk__manifest_free(&j.sources[i].manifest);
        qk__place_release(&j.sources[i].hold);
    }
    free(j.sources);
    return status;
}
