/* SPDX-License-Identifier: Apache-2.0 */
/* Fills tables from long files (head_distance.csv may have 150 million rows), whose rows are summed over the heads of
 * each model as they are read. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "tables/store.h"

/* Files have at most 512 bins a side, but distances need not begin at 0. */
enum { MAX_SIDE = 1024, MAX_SHIFT = 53 };
static const size_t MAX_CELLS = (size_t)1 << 26; /* of all models: 1 GiB */

/* ---- what is summed --------------------------------------------------------------------- */

/* Columns of a file: where a row belongs, how much it counts, and the number to average. */
typedef struct sums {
    const char *table, *file;
    const char *column,
        *row; /* row NULL: there is no such column, and rows of the file count up in each head */
    const char *weight, *value; /* weight NULL: each row counts once */
    const char *insert; /* of model, column, row, sum of weights, mean, width of a bin */
} sums;
static const sums SUMS[] = {
    {"distance_map", "head_distance.csv", "distance_bin", "lag_bin", "n_pairs", "ap",
     "INSERT INTO \"%w\".distance_map VALUES (?1, ?2, ?3, ?4, ?5, ?6)"},
    {"dimension_weights", "head_component_weights.csv", "component", NULL, NULL,
     "component_weight", "INSERT INTO \"%w\".dimension_weights VALUES (?1, ?2, ?5)"}};

/* ---- sums ------------------------------------------------------------------------------- */

typedef struct cell {
    double weight, sum; /* sum of value * weight */
} cell;

/* The sums of one model. */
typedef struct grid {
    char *model;
    size_t columns, rows;          /* bins that were met */
    size_t stride, allocated_rows; /* of cells */
    int shift;                     /* one bin here is 2^shift bins of the file */
    cell *cells;
} grid;

/* A file, and the sums of all models. */
typedef struct summing {
    const sums *of;
    qk__store_set *set;
    qk__csv_reader *csv;
    qk__row_model model;
    size_t ids[3], column, row, weight, value; /* of the file; ids: model, layer, query head */
    grid *grids;                               /* by number of the model */
    size_t count, cells;
    sqlite3_stmt *note; /* which heads were met */
    int64_t head, next; /* of the row before; the column of its head's next row */
} summing;

static qk_status add_grids(summing *s, size_t model, qk_error *err)
{
    size_t count = model + 1 > s->count * 2 ? model + 1 : s->count * 2;
    if (count > SIZE_MAX / sizeof *s->grids)
        return qk__nomem(err);
    grid *grids = realloc(s->grids, count * sizeof *grids);
    if (!grids)
        return qk__nomem(err);
    for (size_t i = s->count; i < count; i++)
        grids[i] = (grid){0};
    s->grids = grids;
    s->count = count;
    return QK_OK;
}

static size_t last_of(size_t bins, int more)
{
    return bins > 0 ? ((bins - 1) >> more) + 1 : 0;
}

/* Makes room for another bin, in powers of two, with cells of 2^shift bins of the file. */
static qk_status reshape(summing *s, grid *g, size_t column, size_t row, int shift,
                         qk_error *err)
{
    const int more = shift - g->shift;
    grid to = {.model = g->model,
               .columns = last_of(g->columns, more),
               .rows = last_of(g->rows, more),
               .stride = 16,
               .allocated_rows = 16,
               .shift = shift};
    while (to.stride <= column || to.stride <= to.columns)
        to.stride *= 2;
    while (to.allocated_rows <= row || to.allocated_rows <= to.rows)
        to.allocated_rows *= 2;
    const size_t old = g->stride * g->allocated_rows, size = to.stride * to.allocated_rows;
    if (size > MAX_CELLS - (s->cells - old))
        return qk__fail(err, QK_ERR_UNSUPPORTED, "%s of all models has more than %zu cells",
                        s->of->table, MAX_CELLS);
    to.cells = qk__calloc(size, sizeof *to.cells);
    if (!to.cells)
        return qk__nomem(err);
    for (size_t r = 0; r < g->rows; r++)
        for (size_t c = 0; c < g->columns; c++) {
            const cell *from = &g->cells[r * g->stride + c];
            cell *into = &to.cells[(r >> more) * to.stride + (c >> more)];
            into->weight += from->weight;
            into->sum += from->sum;
        }
    free(g->cells);
    s->cells += size - old;
    *g = to;
    return QK_OK;
}

static qk_status add_cell(summing *s, grid *g, int64_t file_column, int64_t file_row, cell one,
                          qk_error *err)
{
    int shift = g->shift;
    while (s->of->row && shift < MAX_SHIFT &&
           ((file_column >> shift) >= MAX_SIDE || (file_row >> shift) >= MAX_SIDE))
        shift++;
    const size_t column = (size_t)(file_column >> shift), row = (size_t)(file_row >> shift);
    if (shift != g->shift || column >= g->stride || row >= g->allocated_rows)
        QK_TRY(reshape(s, g, column, row, shift, err));
    g->columns = column >= g->columns ? column + 1 : g->columns;
    g->rows = row >= g->rows ? row + 1 : g->rows;
    cell *at = &g->cells[row * g->stride + column];
    at->weight += one.weight;
    at->sum += one.sum;
    return QK_OK;
}

/* ---- rows ------------------------------------------------------------------------------- */

static qk_status find_columns(summing *s, qk_error *err)
{
    static const char *const IDS[] = {"model", "layer", "q_head"};
    for (size_t i = 0; i < 3; i++)
        QK_TRY(qk__reader_find(s->csv, IDS[i], true, &s->ids[i], err));
    s->row = s->weight = QK__NO_COLUMN;
    QK_TRY(qk__reader_find(s->csv, s->of->column, true, &s->column, err));
    if (s->of->row)
        QK_TRY(qk__reader_find(s->csv, s->of->row, true, &s->row, err));
    if (s->of->weight)
        QK_TRY(qk__reader_find(s->csv, s->of->weight, true, &s->weight, err));
    return qk__reader_find(s->csv, s->of->value, true, &s->value, err);
}

/* Rows are not kept, so a head that is there twice shows only when it comes again: the rows of a head must be
 * together, as they are written. */
static qk_status note_head(summing *s, qk_error *err)
{
    int64_t layer, q_head;
    QK_TRY(qk__row_model_find(&s->model, s->set, s->csv, s->ids[0], err));
    QK_TRY(qk__reader_integer(s->csv, s->ids[1], 0, QK__MAX_ID, &layer, err));
    QK_TRY(qk__reader_integer(s->csv, s->ids[2], 0, QK__MAX_ID, &q_head, err));
    const int64_t head = (s->model.id << 2 * QK__ID_BITS) + (layer << QK__ID_BITS) + q_head;
    if (head == s->head)
        return QK_OK;
    s->head = head;
    s->next = 0;
    sqlite3_bind_int64(s->note, 1, head);
    const int code = sqlite3_step(s->note);
    sqlite3_reset(s->note);
    if (code == SQLITE_CONSTRAINT)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: row %zu is of a head that has rows before, with others between "
                        "them: model '%.80s', layer %lld, query head %lld",
                        qk__reader_path(s->csv), qk__reader_row(s->csv), s->model.name,
                        (long long)layer, (long long)q_head);
    return code == SQLITE_DONE ? QK_OK : qk__sql_fail(s->set->store, code, err);
}

/* A grid without rows has one row of the file for each column of a head, in order. */
static qk_status check_column(summing *s, int64_t column, qk_error *err)
{
    if (s->of->row || column == s->next++)
        return QK_OK;
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "%s: row %zu is of %s %lld, and %lld is next of model '%.80s', layer %s, "
                    "query head %s",
                    qk__reader_path(s->csv), qk__reader_row(s->csv), s->of->column,
                    (long long)column, (long long)s->next - 1, s->model.name,
                    qk__reader_text(s->csv, s->ids[1]), qk__reader_text(s->csv, s->ids[2]));
}

static qk_status grid_of_model(summing *s, grid **g, qk_error *err)
{
    const size_t model = (size_t)s->model.id;
    if (model >= s->count)
        QK_TRY(add_grids(s, model, err));
    *g = &s->grids[model];
    if (!(*g)->model && !((*g)->model = qk__strdup(s->model.name)))
        return qk__nomem(err);
    return QK_OK;
}

static qk_status add_row(summing *s, qk_error *err)
{
    int64_t column, row = 0, weight = 1;
    double value;
    grid *g;
    QK_TRY(note_head(s, err));
    QK_TRY(qk__reader_integer(s->csv, s->column, 0, INT64_MAX, &column, err));
    if (s->row != QK__NO_COLUMN)
        QK_TRY(qk__reader_integer(s->csv, s->row, INT64_MIN, INT64_MAX, &row, err));
    if (s->weight != QK__NO_COLUMN)
        QK_TRY(qk__reader_integer(s->csv, s->weight, 0, INT64_MAX, &weight, err));
    QK_TRY(qk__reader_number(s->csv, s->value, &value, err));
    QK_TRY(check_column(s, column, err));
    if (row < 0) /* keys after the query, where buckets are not in order of position */
        return QK_OK;
    QK_TRY(grid_of_model(s, &g, err));
    const double counted = isfinite(value) ? (double)weight : 0;
    const cell one = {counted, counted > 0 ? counted * value : 0};
    qk_status status = add_cell(s, g, column, row, one, err);
    return status == QK_OK ? QK_OK
                           : qk__context(err, status, "%s: row %zu", qk__reader_path(s->csv),
                                         qk__reader_row(s->csv));
}

static qk_status read_rows(summing *s, qk_error *err)
{
    qk__store_set *set = s->set;
    for (size_t i = 0; i < set->num_sources; i++) {
        bool more = true;
        QK_TRY(
            qk__open_table_file(&set->sources[i], qk__find_table(s->of->file), &s->csv, err));
        qk_status status = s->csv ? find_columns(s, err) : QK_OK;
        while (s->csv && status == QK_OK) {
            status = qk__reader_next(s->csv, &more, err);
            if (status != QK_OK || !more)
                break;
            status = add_row(s, err);
        }
        qk__reader_close(&s->csv);
        QK_TRY(status);
    }
    return QK_OK;
}

/* ---- into the table --------------------------------------------------------------------- */

/* In tokens; unknown where the heads of a model have different bins. */
static qk_status width_of(const summing *s, const grid *g, double *width, qk_error *err)
{
    *width = NAN;
    if (!s->of->row)
        return QK_OK;
    QK_TRY(qk__sql_number(s->set->store, width, err,
                          "SELECT CASE WHEN min(bucket_width) = max(bucket_width) THEN "
                          "min(bucket_width) END FROM \"%w\".head_metrics WHERE model = %Q",
                          s->set->name, g->model));
    *width = ldexp(*width, g->shift);
    return QK_OK;
}

/* Writes the cells with a weight, and the last cell that was met. */
static qk_status put_grid(const summing *s, const grid *g, sqlite3_stmt *insert, qk_error *err)
{
    double width;
    if (!g->model)
        return QK_OK;
    QK_TRY(width_of(s, g, &width, err));
    sqlite3_bind_text(insert, 1, g->model, -1, SQLITE_STATIC);
    sqlite3_bind_double(insert, 6, width);
    for (size_t r = 0; r < g->rows; r++)
        for (size_t c = 0; c < g->columns; c++) {
            const cell *at = &g->cells[r * g->stride + c];
            if (!(at->weight > 0) && !(r + 1 == g->rows && c + 1 == g->columns))
                continue;
            sqlite3_bind_int64(insert, 2, (int64_t)c);
            sqlite3_bind_int64(insert, 3, (int64_t)r);
            sqlite3_bind_double(insert, 4, at->weight);
            sqlite3_bind_double(insert, 5, at->sum / at->weight); /* NaN is NULL */
            int code = sqlite3_step(insert);
            sqlite3_reset(insert);
            if (code != SQLITE_DONE)
                return qk__sql_fail(s->set->store, code, err);
        }
    return QK_OK;
}

static qk_status put_grids(const summing *s, qk_error *err)
{
    sqlite3_stmt *insert;
    QK_TRY(qk__sql_make(s->set->store, &insert, err, s->of->insert, s->set->name));
    qk_status status = QK_OK;
    for (size_t i = 0; i < s->count && status == QK_OK; i++)
        status = put_grid(s, &s->grids[i], insert, err);
    sqlite3_finalize(insert);
    return status;
}

qk_status qk__fill_sums(qk__store_table *table, qk_error *err)
{
    summing s = {.of = SUMS, .set = table->set, .head = -1};
    qk__store *t = table->set->store;
    while (strcmp(s.of->table, table->name) != 0)
        s.of++;
    for (size_t i = 0; i < table->num_columns; i++)
        table->columns[i].wanted = true;
    qk_status status =
        qk__store_do(t, err, "CREATE TABLE temp.met (head_id INTEGER PRIMARY KEY)");
    if (status == QK_OK)
        status = qk__row_model_begin(&s.model, s.set, err);
    if (status == QK_OK)
        status = qk__sql_make(t, &s.note, err, "INSERT INTO temp.met VALUES (?1)");
    if (status == QK_OK)
        status = read_rows(&s, err);
    sqlite3_finalize(s.note);
    qk__row_model_free(&s.model);
    if (status == QK_OK)
        status = put_grids(&s, err);
    for (size_t i = 0; i < s.count; i++) {
        free(s.grids[i].model);
        free(s.grids[i].cells);
    }
    free(s.grids);
    qk_status dropped =
        qk__store_do(t, status == QK_OK ? err : NULL, "DROP TABLE IF EXISTS temp.met");
    return status == QK_OK ? dropped : status;
}
