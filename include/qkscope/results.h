/* SPDX-License-Identifier: Apache-2.0 */
/* Results as columns: which tables and columns there are and what they mean, and the numbers of
 * a run in memory, by name. With it a binding needs no struct for any table:
 *
 *     settings.output = NULL;                          (nothing is written)
 *     status = qk_analysis_run(&settings, &results, &err);
 *     status = qk_results_table(results, "rotated.csv", &columns, &err);
 *     const double *bias = qk_columns_reals(columns, "bias_strength");
 *     for (size_t i = 0; i < qk_columns_num_rows(columns); i++) ...
 *     qk_columns_free(&columns);
 *
 * The same tables, with the same columns in the same order, are the files that a run writes.
 * docs/reference/tables.md lists them all. */
#ifndef QKSCOPE_RESULTS_H
#define QKSCOPE_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/analysis.h>
#include <qkscope/common.h>

QK_BEGIN_DECLS

/* ---- what tables and columns there are -------------------------------------------------- */

typedef enum qk_column_type {
    QK_COLUMN_TEXT,
    QK_COLUMN_INTEGER,
    QK_COLUMN_REAL, /* an empty field where a number is not defined, NaN in memory */
} qk_column_type;

/* Texts are UTF-8; NULL where there is nothing to say. */
typedef struct qk_column_info {
    const char *name;
    qk_column_type type;
    const char *unit;
    const char *range;  /* "0 .. 1" */
    const char *symbol; /* in formulas */
    const char *label;  /* of an axis; NULL: figures do not show the column */
    const char *about;  /* what it is; never NULL */
    const char *read;   /* how to read it */
    const char *method; /* page in docs/, with the section; NULL: that of the table */
    const char *option; /* the column needs this option */
} qk_column_info;

typedef struct qk_table_info {
    const char *name;   /* of the file */
    const char *rows;   /* there is one row for each ... */
    const char *about;  /* what it is */
    const char *method; /* page in docs/, with the section */
} qk_table_info;

/* Every table that this version writes, in order; NULL beyond the last. */
QK_API const qk_table_info *qk_schema_table(size_t i);
/* By the name of the file, with or without ".csv"; NULL: there is none. */
QK_API const qk_table_info *qk_schema_find(const char *name);
/* The columns of a table, in the order of the file; NULL beyond the last. */
QK_API const qk_column_info *qk_table_column(const qk_table_info *table, size_t i);
QK_API const char *qk_column_type_name(qk_column_type type); /* "text", "integer", "real" */

/* The table or column that a wrong name most likely means; NULL: none is near. */
QK_API const char *qk_schema_suggest(const char *name);

/* All tables as JSON, as `qkscope explain --json` prints them: an object from table names to objects with rows, about,
 * method and columns. Release with free(); NULL: out of memory. */
QK_API char *qk_schema_json(void);

/* ---- the numbers of a run --------------------------------------------------------------- */

/* One table in memory, column by column. */
typedef struct qk_columns qk_columns;

/* The table of that name (as in qk_schema_find) with the rows of the run's file. It owns its memory; the results may
 * be freed. QK_ERR_NOT_FOUND: there is no such table, or the analyses of this run do not make it. models.csv has rows
 * in a study only. */
QK_API QK_MUST_CHECK qk_status qk_results_table(const qk_analysis_results *results,
                                                const char *table, qk_columns **columns,
                                                qk_error *err);
QK_API void qk_columns_free(qk_columns **columns);

QK_API size_t qk_columns_num_rows(const qk_columns *columns);
/* What column i is; columns that need an option are there where the run had it. NULL beyond the last. */
QK_API const qk_column_info *qk_columns_info(const qk_columns *columns, size_t i);

/* The values of a column, one a row; NULL without a column of this name and type. They are valid as long as the
 * columns. A real that the file leaves empty is NaN, an integer 0. */
QK_API const double *qk_columns_reals(const qk_columns *columns, const char *name);
QK_API const int64_t *qk_columns_integers(const qk_columns *columns, const char *name);
QK_API const char *const *qk_columns_texts(const qk_columns *columns, const char *name);
/* Which integers of a column are empty; NULL: none is. */
QK_API const bool *qk_columns_empty(const qk_columns *columns, const char *name);

/* A table of the caller's, with columns that it describes: so a binding can pass on what it read or computed like the
 * tables of a run. values[i] points to `rows` doubles, int64_t or texts, by the type in infos[i]; NaN, QK_NO_INTEGER
 * (which becomes 0) and NULL stand for nothing. All is copied. */
#define QK_NO_INTEGER INT64_MIN
QK_API QK_MUST_CHECK qk_status qk_columns_make(qk_columns **columns,
                                               const qk_column_info *infos, size_t count,
                                               size_t rows, const void *const *values,
                                               qk_error *err);

/* The table as the text of a CSV file: numbers with all their digits, empty fields where there is
 * nothing. Release it with free(). */
QK_API QK_MUST_CHECK qk_status qk_columns_csv(const qk_columns *columns, char **text,
                                              qk_error *err);

/* ---- results in a folder ---------------------------------------------------------------- */

/* Whether a folder has results, complete and as they were written: manifest.json has the size and a fingerprint of
 * each table. QK_ERR_NOT_FOUND: there is no manifest.json. QK_ERR_MALFORMED: it is no manifest of results.
 * QK_ERR_INCONSISTENT: a table was changed, cut short or removed, a run was stopped, or there are tables of two
 * captures; the text has the remedy. */
QK_API QK_MUST_CHECK qk_status qk_results_check(const char *folder, qk_error *err);

/* Writes the results of a folder into another one, as the run that made them would have: all or none. With `force`
 * results there are replaced, and other files stay; without it, a folder that is not empty is QK_ERR_EXISTS. So in
 * either case is a folder that another run works in, or of a study or a comparison. */
QK_API QK_MUST_CHECK qk_status qk_results_save(const char *from, const char *output, bool force,
                                               qk_error *err);

/* Joins the tables of runs of one capture with the same settings, each of other layers or heads, in a folder that is
 * replaced as by qk_results_save. They are the tables of a single run of all heads, except that means in
 * model_report.csv may end in other digits, and without summary.json. The inputs stay. command_line: for
 * manifest.json; NULL: none. QK_ERR_INCONSISTENT: two folders have the same head, or runs differ in more than their
 * heads. */
QK_API QK_MUST_CHECK qk_status qk_results_join(const char *const *folders, size_t count,
                                               const char *output, bool force,
                                               const char *command_line, qk_error *err);

/* ---- tables by SQL ---------------------------------------------------------------------- */

/* A SELECT on the tables in folders of results, studies, comparisons and ablations (docs/sql.md). NULL and 0 stand for
 * what is not asked for. */
typedef struct qk_sql_query {
    /* the tables have the rows of all folders; a.heads, b.heads, ... have those of each */
    const char *const *folders;
    size_t count;
    const char *sql; /* SQLite's; NULL: the list of tables and columns, a row for each column */
    double seconds;  /* limit on its time; 0: QK_SQL_SECONDS */
    bool force;      /* also from tables that were changed, or are not complete */
    qk_context context;
} qk_sql_query;

#define QK_SQL_SECONDS 60

/* The rows of the statement, in columns of the names that it gives them. Nothing is written or changed.
 * QK_ERR_ARGUMENT: what is wrong in it, and where. QK_ERR_UNSUPPORTED: it takes longer than that, or a gigabyte of
 * memory. Others: as qk_results_check, and faults of tables by file, row and column. */
QK_API QK_MUST_CHECK qk_status qk_sql(const qk_sql_query *query, qk_columns **columns,
                                      qk_error *err);

/* ---- a list of heads -------------------------------------------------------------------- */

/* A list of heads of a folder. NULL and 0 stand for what is not asked for. */
typedef struct qk_head_query {
    const char *results; /* folder of results, or of a study */
    const char *other;   /* folder of results beside it, both of one model; NULL: none */
    const char *columns; /* "layer,q_head,r_q"; NULL: the usual columns, as far as known */
    const char *where;   /* condition, docs/sql.md#lists-of-heads; NULL: all heads */
    qk_head_set heads;   /* only these, as far as the condition holds; none named: all */
    const char *sort; /* column, or abs(column), with "-" before it in descending order; empty
                            values come last. NULL: by model, layer and query head */
    size_t top;       /* the first so many; 0: all */
    /* not 0: a row for each key head, over its query heads that meet the condition: q_heads of its group_size; a
     * number x becomes x_min, x_mean and x_max over these. With one folder only */
    int by_key;
    bool force;    /* also from tables that were changed, or are not complete */
    bool sentence; /* a column `sentence` at the end: a query head of one folder in words */
} qk_head_query;

/* One of two folders; "" where it does not say. */
typedef struct qk_head_side {
    char model[128], capture[512];
    size_t alone; /* heads that the other folder lacks */
    /* heads that an analysis has no numbers of, by manifest.json; of a study 0 */
    size_t failed;
    char first_failed[QK_HEAD_NAME_SIZE];
    char lengths[QK_LENGTHS_SIZE]; /* of the texts, in words */
    char ablation
        [QK_LENGTHS_SIZE]; /* of an ablation's texts, where they differ and its columns are listed */
} qk_head_side;

enum { QK_EMPTY_SIZE = 200 };
typedef struct qk_head_totals {
    size_t heads;              /* before any was left out */
    char empty[QK_EMPTY_SIZE]; /* listed columns that no head has, with commas between */
    /* with another folder; else only lengths and failed heads of the first are set */
    qk_head_side sides[2];
} qk_head_totals;

/* A row for each head, with the names of the columns of the tables (heads.csv, qk.csv on PC0, rotated.csv,
 * head_metrics.csv, stages.csv; models.csv). Integers are layers and heads; other numbers are reals. With another
 * folder a row is a head of either, and columns begin with "a.", "b." or "diff.", b less a; only columns of layers and
 * heads do not, and `columns` names both. totals: NULL: not asked for. QK_ERR_ARGUMENT: a column or the condition is
 * wrong. QK_ERR_NOT_FOUND: there are no tables, or none has a named column or head. QK_ERR_INCONSISTENT: as
 * qk_results_check. */
QK_API QK_MUST_CHECK qk_status qk_head_list(const qk_head_query *query, qk_columns **columns,
                                            qk_head_totals *totals, qk_error *err);

/* What replaced a column ("entropy", "a.entropy") of tables of earlier versions; NULL: it is no such column. */
QK_API const char *qk_gone_column(const char *name);

QK_END_DECLS

#endif
