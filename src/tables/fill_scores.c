/* SPDX-License-Identifier: Apache-2.0 */
/* Fills `scores` from the table of an external benchmark. The file has a row for each model and any columns of
 * numbers; `scores` has a row for each model and column. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "tables/store.h"

typedef struct scoring {
    qk__store_set *set;
    qk__csv_reader *csv;
    sqlite3_stmt *insert, *note; /* note: the models that were met */
    size_t model, family, rows;
} scoring;

/* Whether any field begins like a number. Then a field that is neither a number nor empty is a mistake, and does not
 * make the next column the score. */
static qk_status find_numbers(const scoring *s, size_t column, bool *any, qk_error *err)
{
    double value;
    qk_error why;
    *any = false;
    for (int pass = 0; pass < (*any ? 2 : 1); pass++)
        for (size_t i = 0; i < s->rows; i++) {
            qk__reader_go(s->csv, i);
            const char *text = qk__reader_text(s->csv, column);
            *any = *any || isdigit((unsigned char)text[strspn(text, " +-.")]);
            if (pass == 1 && qk__reader_number(s->csv, column, &value, &why) != QK_OK)
                return qk__fail(err, QK_ERR_MALFORMED,
                                "%s: leave the field empty where there is no score, or leave "
                                "out the column",
                                why.message);
        }
    return QK_OK;
}

static qk_status step(const scoring *s, sqlite3_stmt *statement, qk_error *err)
{
    const int code = sqlite3_step(statement);
    sqlite3_reset(statement);
    return code == SQLITE_DONE ? QK_OK : qk__sql_fail(s->set->store, code, err);
}

/* Nothing would distinguish two columns of one name. */
static qk_status add_column(const scoring *s, size_t column, qk_error *err)
{
    const char *name = qk__reader_column_name(s->csv, column);
    size_t unused;
    double value;
    QK_TRY(qk__reader_find(s->csv, name, true, &unused, err));
    for (size_t i = 0; i < s->rows; i++) {
        qk__reader_go(s->csv, i);
        QK_TRY(qk__reader_number(s->csv, column, &value, err));
        sqlite3_bind_text(s->insert, 1, qk__reader_text(s->csv, s->model), -1, SQLITE_STATIC);
        sqlite3_bind_text(s->insert, 2, qk__reader_text(s->csv, s->family), -1, SQLITE_STATIC);
        sqlite3_bind_text(s->insert, 3, name, -1, SQLITE_STATIC);
        sqlite3_bind_double(s->insert, 4, value); /* NaN is NULL */
        QK_TRY(step(s, s->insert, err));
    }
    return QK_OK;
}

/* A model may have one row only. */
static qk_status check_models(const scoring *s, qk_error *err)
{
    const char *path = qk__reader_path(s->csv);
    for (size_t i = 0; i < s->rows; i++) {
        qk__reader_go(s->csv, i);
        const size_t row = qk__reader_row(s->csv);
        const char *model = qk__reader_text(s->csv, s->model);
        sqlite3_bind_text(s->note, 1, model, -1, SQLITE_STATIC);
        sqlite3_bind_int64(s->note, 2, (int64_t)row);
        const int code = sqlite3_step(s->note);
        sqlite3_reset(s->note);
        double before;
        if (code == SQLITE_DONE)
            continue;
        if (code != SQLITE_CONSTRAINT)
            return qk__sql_fail(s->set->store, code, err);
        QK_TRY(qk__sql_number(s->set->store, &before, err,
                              "SELECT row FROM temp.scored WHERE model = %Q", model));
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: rows %.0f and %zu are both of model '%s'", path, before, row,
                        model);
    }
    return QK_OK;
}

static qk_status add_columns(scoring *s, qk_error *err)
{
    QK_TRY(qk__reader_load(s->csv, &s->rows, err));
    QK_TRY(qk__reader_find(s->csv, "model", true, &s->model, err));
    QK_TRY(qk__reader_find(s->csv, "family", false, &s->family, err));
    QK_TRY(check_models(s, err));
    for (size_t i = 0; i < qk__reader_num_columns(s->csv); i++) {
        bool any;
        if (i == s->model || i == s->family || *qk__reader_column_name(s->csv, i) == 0)
            continue;
        QK_TRY(find_numbers(s, i, &any, err));
        if (any)
            QK_TRY(add_column(s, i, err));
    }
    return QK_OK;
}

static qk_status read_scores(scoring *s, const char *path, qk_error *err)
{
    QK_TRY(qk__reader_open(&s->csv, path, err));
    qk_status status = add_columns(s, err);
    qk__reader_close(&s->csv);
    return status;
}

/* Reads the named file, else the files in the folders. */
static qk_status read_all(scoring *s, qk_error *err)
{
    if (s->set->scores)
        return read_scores(s, s->set->scores, err);
    for (size_t i = 0; i < s->set->num_sources; i++) {
        qk__path own;
        QK_TRY(qk__path_in(&own, s->set->sources[i].folder, "scores.csv", err));
        if (qk__is_there(own.text))
            QK_TRY(read_scores(s, own.text, err));
    }
    return QK_OK;
}

/* Models are matched by name, else by label. */
static qk_status match(const scoring *s, qk_error *err)
{
    const char *set = s->set->name;
    return qk__store_do(s->set->store, err,
                        "UPDATE \"%w\".scores AS s SET scored = coalesce((SELECT model "
                        "FROM \"%w\".models m WHERE m.model = s.model), (SELECT model "
                        "FROM \"%w\".models m WHERE m.label = s.model LIMIT 1))",
                        set, set, set);
}

qk_status qk__fill_scores(qk__store_table *table, qk_error *err)
{
    scoring s = {.set = table->set};
    qk__store *t = s.set->store;
    for (size_t i = 0; i < table->num_columns; i++)
        table->columns[i].wanted = true;
    qk_status status =
        qk__store_do(t, err, "CREATE TABLE temp.scored (model TEXT PRIMARY KEY, row INTEGER)");
    if (status == QK_OK)
        status = qk__sql_make(t, &s.note, err, "INSERT INTO temp.scored VALUES (?1, ?2)");
    if (status == QK_OK)
        status = qk__sql_make(t, &s.insert, err,
                              "INSERT INTO \"%w\".scores (model, family, score, "
                              "value) VALUES (?1, nullif(?2, ''), ?3, ?4)",
                              s.set->name);
    if (status == QK_OK)
        status = read_all(&s, err);
    sqlite3_finalize(s.insert);
    sqlite3_finalize(s.note);
    qk_status dropped =
        qk__store_do(t, status == QK_OK ? err : NULL, "DROP TABLE IF EXISTS temp.scored");
    if (status == QK_OK)
        status = dropped;
    return status == QK_OK ? match(&s, err) : status;
}
