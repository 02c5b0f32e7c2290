/* SPDX-License-Identifier: Apache-2.0 */
/* The store from within: its tables, what a statement wants of them, and who fills them. store.c leads; sql.c runs
 * statements, table_folder.c finds files, layout.c defines tables and columns, fill_csv.c reads files, fill_sums.c
 * sums some while it reads them, fill_scores.c reads a file with unknown columns, fill_ablated.c asks manifests,
 * fill_heads.c makes tables from others, result_rows.c makes columns of the rows that a statement returns,
 * aggregates.c has the functions that SQLite lacks, head_sentence.c puts a head into words, category_texts.c finds misspelt categories, head_totals.c
 * describes the folders of a list of heads, key_heads.c turns a list of query heads into one of key heads. */
#ifndef QK_TABLES_STORE_H
#define QK_TABLES_STORE_H

#include <sqlite3.h>

#include "base/csv_reader.h"
#include "base/path.h"
#include "schema/schema.h"
#include "tables/manifest.h"
#include "tables/tables.h"

enum { QK__MOST_TEXT = 1 << 20 };   /* bytes of a value */
enum { QK__MOST_MEMORY = 1 << 30 }; /* limit for a statement from outside and its rows */
/* head_id: the number of the model, the layer and the query head. */
enum { QK__ID_BITS = 21, QK__MAX_ID = (1 << QK__ID_BITS) - 1 };

typedef struct qk__store_table qk__store_table;
typedef qk_status qk__fill(qk__store_table *table, qk_error *err);

typedef struct qk__store_column {
    const char *name;
    const qk__column *column; /* in the schema; NULL: none */
    char *from;               /* in head_numbers and diff: the expression that fills it */
    bool wanted, filled;
} qk__store_column;

struct qk__store_table {
    struct qk__store_set *set;
    char name[40];
    const qk__table *file; /* NULL: made from other tables */
    bool of_heads;         /* it has model, layer, q_head, k_head, and a head_id before them */
    bool
        of_ablation; /* it has layer and q_head, and before them head_id and model, by the manifest */
    bool a_head;          /* has one row a head */
    bool first_component; /* only rows with pc 0 */
    qk__fill *fill;
    qk__store_column *columns; /* with head_id and ids, as CREATE TABLE has them */
    size_t num_columns;
    bool asked, filled, busy; /* asked for by the statement being prepared */
};

typedef struct qk__table_folder {
    char *folder;
    bool force;
    qk__manifest manifest, ablation; /* of the folder `ablation` in it */
} qk__table_folder;

/* The folders of one name, and their tables. */
typedef struct qk__store_set {
    qk__store *store;
    char *name;
    qk__table_folder *sources;
    size_t num_sources, source_capacity;
    char *scores; /* file to read them from; NULL: the folders' own */
    qk__store_table *tables;
    size_t num_tables;
    bool ready;  /* its tables exist: SQLite asks for them while it makes them, too */
    bool listed; /* models.csv says which models there are */
} qk__store_set;

struct qk__store {
    sqlite3 *db;
    const qk_context *context;
    qk__store_set **sets;
    size_t num_sets, set_capacity;
    size_t num_tables; /* of all sets */
    bool outside;      /* the statement being prepared or run is the user's */
    int64_t steps, memory;
    double seconds, until; /* that it may take, and when they end */
    enum { QK__NOT_STOPPED, QK__STOP_TIME, QK__STOP_MEMORY, QK__STOP_USER } stopped;
};

/* From now on SQLite asks what statements may do, and whether to go on. */
void qk__sql_guard(qk__store *t);
/* A statement whose tables are filled. */
QK_MUST_CHECK qk_status qk__sql_prepare(qk__store *t, const char *sql, sqlite3_stmt **out,
                                        qk_error *err);
/* The same for a statement of our own, printf style as in qk__store_ask. */
QK_MUST_CHECK qk_status qk__sql_make(qk__store *t, sqlite3_stmt **out, qk_error *err,
                                     const char *sql, ...);
/* Tables that this statement asks for get its columns when they are filled. */
QK_MUST_CHECK qk_status qk__sql_expect(qk__store *t, const char *sql, qk_error *err);
/* The number in the only row of such a statement; NaN where it is empty. */
QK_MUST_CHECK qk_status qk__sql_number(qk__store *t, double *number, qk_error *err,
                                       const char *sql, ...);
/* "INSERT INTO table (...)" with the wanted columns. */
QK_MUST_CHECK qk_status qk__sql_insert(const qk__store_table *table, qk__buffer *sql,
                                       qk_error *err);
/* The message of SQLite, as an error of ours. */
qk_status qk__sql_fail(qk__store *t, int code, qk_error *err);
QK_MUST_CHECK qk_status qk__store_fill(qk__store_table *table, qk_error *err);

/* Tables with a row a head (of qk.csv: pc0), in the order in which models and heads appear; NULL at the end. */
extern const char *const qk__head_tables[];
qk__store_table *qk__store_table_of(const qk__store_set *set, const char *name);
qk__store_set *qk__store_set_of(const qk__store *t, const char *name);
/* Makes the tables, empty. */
QK_MUST_CHECK qk_status qk__layout_create(qk__store_set *set, qk_error *err);
/* Makes main.diff: b less a, in each number of heads. */
QK_MUST_CHECK qk_status qk__layout_add_diff(qk__store_set *set, qk_error *err);
QK_MUST_CHECK qk_status qk__store_add_diff(qk__store *t, qk_error *err);
QK_MUST_CHECK qk_status qk__find_table_file(const qk__table_folder *source,
                                            const qk__table *file, qk__path *path, bool *there,
                                            qk_error *err);

/* The file of a table, as its run wrote it; *csv is NULL where there is none. */
QK_MUST_CHECK qk_status qk__open_table_file(qk__table_folder *source, const qk__table *file,
                                            qk__csv_reader **csv, qk_error *err);
/* The model of the current row, most often that of the row before. */
typedef struct qk__row_model {
    sqlite3_stmt *find;
    char *name;
    int64_t id;
} qk__row_model;
QK_MUST_CHECK qk_status qk__row_model_begin(qk__row_model *model, const qk__store_set *set,
                                            qk_error *err);
QK_MUST_CHECK qk_status qk__row_model_find(qk__row_model *model, qk__store_set *set,
                                           const qk__csv_reader *csv, size_t column,
                                           qk_error *err);
/* The model of a folder's ablation, for all rows of a table. */
QK_MUST_CHECK qk_status qk__row_model_ablated(qk__row_model *model, qk__store_set *set,
                                              const qk__table_folder *source, const char *table,
                                              qk_error *err);
/* *there: it is in the list of models, or was added to it. */
QK_MUST_CHECK qk_status qk__row_model_named(qk__row_model *model, qk__store_set *set,
                                            const char *name, bool *there, qk_error *err);
void qk__row_model_free(qk__row_model *model);
/* The name of a model without a name; NULL: no memory. */
char *qk__unnamed_model(const qk__store_set *set);
/* Adds what manifests know of a model. */
QK_MUST_CHECK qk_status qk__tell_of_model(qk__store_set *set, const char *name, qk_error *err);
/* Adds a model that is in no list, at the end. */
QK_MUST_CHECK qk_status qk__store_add_model(qk__store_set *set, const char *name,
                                            qk_error *err);
qk__fill qk__fill_csv, qk__fill_sums, qk__fill_scores, qk__fill_ablated, qk__fill_models,
    qk__fill_ids, qk__fill_numbers, qk__fill_diff;

/* For a condition whose list is empty: fails where one of its texts is a misspelt category. */
QK_MUST_CHECK qk_status qk__check_categories(const char *condition, qk_error *err);
/* The category at the beginning of a text that lacks quotes; NULL: none. */
const char *qk__category_at(const char *text);
/* Refuses shifts. SQLite's << and >> move bits, and a number that is no integer loses its fraction first: a slip of the key for < or >
 * gives a list that looks like an answer. */
QK_MUST_CHECK qk_status qk__check_shifts(const char *condition, qk_error *err);

/* Lengths of texts of the models in a set, and of its ablation, if it is asked for. With a second set, also the model,
 * the capture, and how many heads the second set lacks. */
QK_MUST_CHECK qk_status qk__tell_side(qk__store *store, const char *set, const char *other,
                                      bool ablation, qk_head_side *side, qk_error *err);

/* The rows that a statement returns. */
QK_MUST_CHECK qk_status qk__sql_rows(qk__store *t, sqlite3_stmt *statement, qk_columns **rows,
                                     qk_error *err);
QK_MUST_CHECK qk_status qk__sql_functions(qk__store *t, qk_error *err);
QK_MUST_CHECK qk_status qk__sentence_function(qk__store *t, qk_error *err);

/* Adds a name to those of the columns that are empty. */
qk_status qk__note_empty(char names[QK_EMPTY_SIZE], const char *name);
/* Appends to a condition that a row is of a named head. */
QK_MUST_CHECK qk_status qk__put_named_heads(const qk_head_set *heads, qk__buffer *sql,
                                            qk_error *err);
/* A named head that `from` does not have is a mistake in the name. */
QK_MUST_CHECK qk_status qk__need_named_heads(qk__store *store, const char *from,
                                             const qk_head_set *heads, qk_error *err);

/* A column in a list of heads: of texts, or of layers and heads. */
typedef struct qk__listed {
    const char *name;
    bool text, id;
} qk__listed;

/* Appends the SELECT of key heads, with the number of their query heads in the list and in all. query_heads: the
 * SELECT of the list, with these columns, head_id, model, layer, k_head, and `place`, its order. A key head stands
 * where the first of its query heads would. */
QK_MUST_CHECK qk_status qk__list_key_heads(qk__buffer *sql, const qk__listed *columns,
                                           size_t count, const char *query_heads, bool down,
                                           qk_error *err);

#endif
