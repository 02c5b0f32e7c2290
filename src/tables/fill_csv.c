/* SPDX-License-Identifier: Apache-2.0 */
/* Fills tables from the CSV files of their folders, and says where a file is wrong. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/stats.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/parse_number.h"
#include "tables/store.h"

/* The limit on all tables: head_distance.csv may have 150 million rows. */
static const int64_t MOST_OF_TABLES = INT64_C(8) << 30;
enum {
    NUM_IDS = 5
}; /* head_id, model, layer, q_head, k_head, which an ablation's table lacks */

/* ---- rows ------------------------------------------------------------------------------- */

/* Tables with several rows a head: the column that numbers these rows, and whether it may skip numbers. */
typedef struct index_column {
    const char *table, *name, *what;
    int64_t least;
    bool gaps;
} index_column;
static const index_column INDEXES[] = {
    {"qk", "pc", "component", 0, false},
    {"head_component_weights", "component", "component", 0, false},
    {"rope_pairs", "pair", "rotary pair", 0, false},
    {"score_by_distance", "bin", "bin", 0, true},
    {"attention_profile", "cell", "cell", 0, true},
    {"lengths", "length", "length", 1, true},
    {"head_profile", "q_bucket", "query bucket", INT64_MIN, true}};

/* A file that fills a table. */
typedef struct filling {
    qk__store_table *table;
    qk__csv_reader *csv;
    sqlite3_stmt *insert;
    /* The file's column for each column of the table; QK__NO_COLUMN: it is not wanted or not there. */
    size_t *columns;
    size_t pc;
    size_t ids; /* so many columns are ids of a head */
    qk__row_model model;
    const index_column *index; /* NULL: the table has one row a head */
    size_t index_at;           /* column of the table */
    int64_t head, last_head, last_index;
    bool unordered; /* rows do not count up head after head: a row may be missing or double */
} filling;

static qk_status find_columns(filling *f, qk_error *err)
{
    const qk__store_table *table = f->table;
    for (size_t i = 0; i < table->num_columns; i++) {
        const qk__store_column *c = &table->columns[i];
        bool id = i < f->ids || (table->of_heads && f->index && i == f->index_at) ||
                  (strcmp(table->name, "models") == 0 && strcmp(c->name, "model") == 0);
        f->columns[i] = QK__NO_COLUMN;
        if (c->column && (c->wanted || id))
            QK_TRY(qk__reader_find(f->csv, c->name, id, &f->columns[i], err));
    }
    return table->first_component ? qk__reader_find(f->csv, "pc", true, &f->pc, err) : QK_OK;
}

/* Prepares the statement for the wanted columns, and a value for each. */
static qk_status prepare_insert(filling *f, qk_error *err)
{
    const qk__store_table *table = f->table;
    qk__buffer sql = {0};
    qk_status status = qk__sql_insert(table, &sql, err);
    const char *before = " VALUES (";
    for (size_t i = 0; i < table->num_columns && status == QK_OK; i++)
        if (table->columns[i].wanted) {
            status = qk__buffer_printf(&sql, err, "%s?%zu", before, i + 1);
            before = ", ";
        }
    if (status == QK_OK)
        status = qk__buffer_printf(&sql, err, ")");
    if (status == QK_OK)
        status = qk__sql_prepare(table->set->store, (const char *)sql.data, &f->insert, err);
    qk__buffer_free(&sql);
    return status;
}

static qk_status bind_ids(filling *f, qk_error *err)
{
    int64_t id[3] = {0};
    if (f->table->of_heads)
        QK_TRY(qk__row_model_find(&f->model, f->table->set, f->csv, f->columns[1], err));
    for (size_t i = 0; i < f->ids - 2; i++)
        QK_TRY(qk__reader_integer(f->csv, f->columns[2 + i], 0, QK__MAX_ID, &id[i], err));
    f->head = (f->model.id << 2 * QK__ID_BITS) + (id[0] << QK__ID_BITS) + id[1];
    sqlite3_bind_int64(f->insert, 1, f->head);
    if (f->table->columns[1].wanted)
        sqlite3_bind_text(f->insert, 2, f->model.name, -1, SQLITE_STATIC);
    for (size_t i = 0; i < f->ids - 2; i++)
        if (f->table->columns[2 + i].wanted)
            sqlite3_bind_int64(f->insert, (int)i + 3, id[i]);
    return QK_OK;
}

static qk_status bind_field(filling *f, size_t i, qk_error *err)
{
    const qk__column *column = f->table->columns[i].column;
    const char *text = qk__reader_text(f->csv, f->columns[i]);
    int64_t integer;
    double real;
    if (!*text && strcmp(column->info.name, "model") != 0) {
        sqlite3_bind_null(f->insert, (int)i + 1);
    } else if (column->info.type == QK_COLUMN_TEXT) {
        if (column->storage == QK__CATEGORY && qk__category_of(text) < 0)
            return qk__reader_fail(f->csv, f->columns[i], QK_ERR_MALFORMED, "is no category",
                                   err);
        sqlite3_bind_text(f->insert, (int)i + 1, text, -1, SQLITE_STATIC);
    } else if (column->info.type == QK_COLUMN_INTEGER) {
        QK_TRY(qk__reader_integer(f->csv, f->columns[i], INT64_MIN, INT64_MAX, &integer, err));
        sqlite3_bind_int64(f->insert, (int)i + 1, integer);
    } else {
        QK_TRY(qk__reader_number(f->csv, f->columns[i], &real, err));
        sqlite3_bind_double(f->insert, (int)i + 1, real);
    }
    return QK_OK;
}

/* Finds the earlier row with the same ids, by reading the file again. */
static qk_status fail_twice(filling *f, qk_error *err)
{
    if (!f->table->of_heads)
        return qk__reader_fail(f->csv, f->columns[1], QK_ERR_INCONSISTENT,
                               "is in an earlier row, too", err);
    const char *path = qk__reader_path(f->csv);
    size_t row = qk__reader_row(f->csv), before = 0;
    char ids[2][24];
    for (size_t i = 0; i < 2; i++)
        sqlite3_snprintf(sizeof ids[i], ids[i], "%s",
                         qk__reader_text(f->csv, f->columns[2 + i]));
    qk__csv_reader *again;
    bool more = true;
    QK_TRY(qk__reader_open(&again, path, err));
    while (before == 0 && more && qk__reader_next(again, &more, NULL) == QK_OK && more) {
        bool same = strcmp(qk__reader_text(again, f->columns[1]), f->model.name) == 0;
        for (size_t i = 0; i < 2; i++)
            same = same && strtoll(qk__reader_text(again, f->columns[2 + i]), NULL, 10) ==
                               strtoll(ids[i], NULL, 10);
        if (same &&
            (!f->table->first_component || strcmp(qk__reader_text(again, f->pc), "0") == 0))
            before = qk__reader_row(again);
    }
    qk__reader_close(&again);
    if (before == 0 || before >= row)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: model '%.80s' is in another folder, too: where these are two "
                        "models, make the results again with --model-name",
                        path, f->model.name);
    return qk__fail(
        err, QK_ERR_INCONSISTENT,
        "%s: rows %zu and %zu are of the same head: model '%.80s', layer %s, query head %s",
        path, before, row, f->model.name, ids[0], ids[1]);
}

/* Rows that count up are complete and single; other rows are checked at the end. */
static qk_status note_order(filling *f, qk_error *err)
{
    const bool more = f->head == f->last_head;
    const int64_t expected = more ? f->last_index + 1 : 0;
    int64_t index;
    QK_TRY(qk__reader_integer(f->csv, f->columns[f->index_at], f->index->least,
                              f->index->gaps ? INT64_MAX : INT32_MAX, &index, err));
    f->unordered |= f->head < f->last_head ||
                    (f->index->gaps ? more && index < expected : index != expected);
    f->last_head = f->head;
    f->last_index = index;
    return QK_OK;
}

/* The first row that equals the row before it, or follows a missing row. */
static const char WRONG_ROW[] =
    "SELECT model, head_id >> %d & %d, head_id & %d, i, row, expected, "
    "CASE WHEN i = before THEN row_before END FROM (SELECT head_id, %s AS i, "
    "rowid + 1 AS row, lag(%s) OVER head AS before, lag(rowid + 1) OVER head AS row_before, "
    "row_number() OVER head - 1 AS expected FROM \"%w\".\"%w\" "
    "WINDOW head AS (PARTITION BY head_id ORDER BY %s, rowid)) "
    "JOIN \"%w\".models ON model_id = head_id >> 2 * %d WHERE i = before OR (%d "
    "AND i <> expected) LIMIT 1";

static qk_status fail_order(const filling *f, sqlite3_stmt *found, qk_error *err)
{
    const char *file = f->table->file->info.name, *what = f->index->what;
    const char *model = (const char *)sqlite3_column_text(found, 0);
    const int layer = sqlite3_column_int(found, 1), head = sqlite3_column_int(found, 2);
    const long long index = sqlite3_column_int64(found, 3),
                    row = sqlite3_column_int64(found, 4);
    const long long expected = sqlite3_column_int64(found, 5),
                    before = sqlite3_column_int64(found, 6);
    if (before > 0)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: rows %lld and %lld are both of %s %lld: model '%.80s', layer %d, "
                        "query head %d",
                        file, before, row, what, index, model, layer, head);
    return qk__fail(
        err, QK_ERR_INCONSISTENT,
        "%s: row %lld is of %s %lld, but no row is of %lld: model '%.80s', layer %d, "
        "query head %d",
        file, row, what, index, expected, model, layer, head);
}

static qk_status check_order(const filling *f, qk_error *err)
{
    const qk__store_set *set = f->table->set;
    const char *index = f->index->name;
    sqlite3_stmt *statement;
    QK_TRY(qk__sql_make(set->store, &statement, err, WRONG_ROW, QK__ID_BITS, QK__MAX_ID,
                        QK__MAX_ID, index, index, set->name, f->table->name, index, set->name,
                        QK__ID_BITS, !f->index->gaps));
    int code = sqlite3_step(statement);
    qk_status status = code == SQLITE_DONE  ? QK_OK
                       : code == SQLITE_ROW ? fail_order(f, statement, err)
                                            : qk__sql_fail(set->store, code, err);
    sqlite3_finalize(statement);
    return status;
}

static qk_status add_row(filling *f, qk_error *err)
{
    qk__store_table *table = f->table;
    int64_t pc = 0;
    if (table->first_component)
        QK_TRY(qk__reader_integer(f->csv, f->pc, 0, INT_MAX, &pc, err));
    if (pc > 0)
        return QK_OK;
    if (f->ids > 0)
        QK_TRY(bind_ids(f, err));
    for (size_t i = f->ids; i < table->num_columns; i++)
        if (f->columns[i] != QK__NO_COLUMN)
            QK_TRY(bind_field(f, i, err));
    if (f->index)
        QK_TRY(note_order(f, err));
    int code = sqlite3_step(f->insert);
    sqlite3_reset(f->insert);
    if (code == SQLITE_DONE)
        return QK_OK;
    return code == SQLITE_CONSTRAINT ? fail_twice(f, err)
                                     : qk__sql_fail(table->set->store, code, err);
}

static qk_status add_rows(filling *f, qk_error *err)
{
    bool more;
    QK_TRY(find_columns(f, err));
    for (;;) {
        QK_TRY(qk__reader_next(f->csv, &more, err));
        if (!more)
            return QK_OK;
        if (qk__reader_row(f->csv) % 1024 == 0 && sqlite3_memory_used() > MOST_OF_TABLES)
            return qk__fail(err, QK_ERR_UNSUPPORTED,
                            "%s: row %zu: the columns that are asked for take more than 8 GiB; "
                            "ask for fewer of them, or of one model",
                            qk__reader_path(f->csv), qk__reader_row(f->csv));
        QK_TRY(add_row(f, err));
    }
}

static qk_status fill_from(filling *f, qk_error *err)
{
    qk__store_set *set = f->table->set;
    QK_TRY(prepare_insert(f, err));
    for (size_t i = 0; i < set->num_sources; i++) {
        QK_TRY(qk__open_table_file(&set->sources[i], f->table->file, &f->csv, err));
        if (!f->csv)
            continue;
        qk_status status = f->table->of_ablation
                               ? qk__row_model_ablated(&f->model, set, &set->sources[i],
                                                       f->table->file->info.name, err)
                               : QK_OK;
        if (status == QK_OK)
            status = add_rows(f, err);
        qk__reader_close(&f->csv);
        QK_TRY(status);
    }
    return QK_OK;
}

static void find_index(filling *f)
{
    for (size_t i = 0; i < sizeof INDEXES / sizeof *INDEXES; i++)
        if (strcmp(INDEXES[i].table, f->table->name) == 0)
            f->index = &INDEXES[i];
    for (size_t i = 0; f->index && i < f->table->num_columns; i++)
        if (strcmp(f->table->columns[i].name, f->index->name) == 0)
            f->table->columns[f->index_at = i].wanted = true;
}

qk_status qk__fill_csv(qk__store_table *table, qk_error *err)
{
    filling f = {.table = table, .pc = QK__NO_COLUMN, .last_head = -1};
    f.ids = table->of_heads ? NUM_IDS : table->of_ablation ? NUM_IDS - 1 : 0;
    qk__store *t = table->set->store;
    qk_status status = QK_OK;
    table->columns[0].wanted = true;
    for (size_t i = 0; i < NUM_IDS && table->a_head; i++) /* the list of heads has them all */
        table->columns[i].wanted = true;
    find_index(&f);
    f.columns = qk__calloc(table->num_columns, sizeof *f.columns);
    if (!f.columns)
        return qk__nomem(err);
    if (f.ids > 0)
        status = qk__row_model_begin(&f.model, table->set, err);
    if (status == QK_OK)
        status = qk__store_do(t, err, "BEGIN");
    if (status == QK_OK)
        status = fill_from(&f, err);
    if (status == QK_OK && f.unordered)
        status = check_order(&f, err);
    sqlite3_finalize(f.insert);
    if (!sqlite3_get_autocommit(t->db)) {
        qk_status ended = qk__store_do(t, status == QK_OK ? err : NULL,
                                       status == QK_OK ? "COMMIT" : "ROLLBACK");
        status = status == QK_OK ? ended : status;
    }
    free(f.columns);
    qk__row_model_free(&f.model);
    return status;
}
