/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of folders of results as one database in memory (SQLite): what comes after a run asks it in SQL. store.c leads: it opens
 * them; sql.c runs statements, store_put.c takes rows of callers, head_sentence.c
 * puts a head into words, head_totals.c lengths of texts.
 *
 *     qk__store *tables;
 *     status = qk__store_open(&tables, &context, err);
 *     status = qk__store_add(tables, "main", folder, false, err);
 *     status = qk__store_ask(tables, &rows, err, "SELECT model, avg(r_q) AS mean FROM head_numbers GROUP BY model");
 *     const double *mean = qk_columns_reals(rows, "mean");
 *     qk_columns_free(&rows);
 *     qk__store_close(&tables);
 *
 * Each CSV of the schema is a table of its name (heads.csv is `heads`) with the columns and types of the schema; an
 * empty field is NULL. Tables are read when a statement asks for them, and of their columns those that it asks for.
 * A table of heads has a column head_id, which is the same for one head in all of them. Besides there are
 *
 *     head_numbers  a row a head, with every column of the tables that have a row a head, and of qk.csv's component 0
 *     pc0           qk.csv on component 0
 *     models        the models in order: of models.csv, else those that the tables and the manifest tell
 *     distance_map  head_distance.csv summed over the heads of each model while it is read: n_pairs, and ap over them; of
 *                   more than 1,024 bins a side 2, 4, ... are one; width: tokens a bin, NULL where heads differ. The
 *                   last bins of a model have a row, without pairs, too
 *     dimension_weights  head_component_weights.csv likewise: component_weight, the mean over the heads of a model
 *     ablated       the model of ablation_groups.csv, and its query heads, and lengths of its texts: NULL where they are not known
 *     scores        scores.csv: a row a model and column of numbers; scored is the model of `models` that it is of
 *
 * and the aggregates median(x), quantile(x, p), corr(x, y), slope(x, y), sd(x). avg(x) carries rounding errors. */
#ifndef QK_TABLES_TABLES_H
#define QK_TABLES_TABLES_H

#include <qkscope/common.h>
#include <qkscope/results.h>

#include "base/buffer.h"

typedef struct qk__store qk__store;

/* The context must outlive them; its progress is asked whether to go on. */
QK_MUST_CHECK qk_status qk__store_open(qk__store **tables, const qk_context *context,
                                       qk_error *err);
void qk__store_close(qk__store **tables);

/* Adds a folder of results, a study, a comparison or an ablation. Folders of one name ("main" to begin with) have
 * their rows in the same tables, one model in one folder; folders of another name have their own tables: "a" has
 * a.heads, a.models, ... QK_ERR_NOT_FOUND: it has no tables. QK_ERR_INCONSISTENT, unless `force`, here and when a
 * table is read: the manifest says that the folder is not complete, or a table has changed. */
QK_MUST_CHECK qk_status qk__store_add(qk__store *tables, const char *name, const char *folder,
                                      bool force, qk_error *err);

/* A file to fill `scores` from, in place of scores.csv in folders of that name. */
QK_MUST_CHECK qk_status qk__store_scores(qk__store *tables, const char *name, const char *path,
                                         qk_error *err);

/* The rows of a SELECT of our own, printf style with SQLite's conversions: %Q is a text in quotes or NULL, %w a name
 * between quotes. A column of the result is an integer, a real or a text, as its values are; whole numbers with empty
 * ones among them are reals. */
QK_MUST_CHECK qk_status qk__store_ask(qk__store *tables, qk_columns **rows, qk_error *err,
                                      const char *sql, ...);

/* Runs a statement of our own that returns no rows; temporary tables are `temp.NAME`. */
QK_MUST_CHECK qk_status qk__store_do(qk__store *tables, qk_error *err, const char *sql, ...);
/* From now on the caller puts rows into this table of "main"; no file is read into it. */
QK_MUST_CHECK qk_status qk__store_own(qk__store *tables, const char *table, qk_error *err);
/* Adds rows to it, by the names of the columns. */
QK_MUST_CHECK qk_status qk__store_put(qk__store *tables, const char *table,
                                      const qk_columns *rows, qk_error *err);

/* Announces a SELECT of our own: tables that are read from now on have its columns, so that no table is read once for
 * each statement. */
QK_MUST_CHECK qk_status qk__store_expect(qk__store *tables, const char *sql, qk_error *err);

/* The rows of a statement from outside: one SELECT, within some seconds and a gigabyte of memory. QK_ERR_ARGUMENT: it
 * is wrong, with the place; QK_ERR_UNSUPPORTED: it needs more than that. */
QK_MUST_CHECK qk_status qk__store_query(qk__store *tables, const char *sql, double seconds,
                                        qk_columns **rows, qk_error *err);

/* The lengths of an ablation's texts in words; "" without an ablation, and where they are those of the others. */
QK_MUST_CHECK qk_status qk__ablation_lengths(qk__store *tables, const char *set,
                                             const char *others, char text[QK_LENGTHS_SIZE],
                                             qk_error *err);

/* Appends to a SELECT from the head_numbers of a set ", ... AS sentence": what a head is, in words; empty where nothing is known.
 * head: what it is called, in SQL. gaps: "{r_k}" stands for a number. */
QK_MUST_CHECK qk_status qk__put_sentence(qk__store *tables, const char *set, const char *head,
                                         bool gaps, qk__buffer *sql, qk_error *err);
/* Thresholds of the categories in a set; NaN: no manifest says, or they differ. */
void qk__category_limits(const qk__store *tables, const char *set, double limits[2]);

/* Whether there is a table of this file ("qk.csv") in a folder of this name. */
bool qk__store_has(const qk__store *tables, const char *name, const char *file);

#endif
