/* SPDX-License-Identifier: Apache-2.0 */
/* The schema: which tables there are, what their columns mean, and where in memory the values
 * of a row are. All of it is said in tables.def; tables.c, which leads, makes arrays of it, and
 * table_rows.c takes values of rows. */
#ifndef QK_SCHEMA_SCHEMA_H
#define QK_SCHEMA_SCHEMA_H

#include <jansson.h>

#include <qkscope/ablate.h>
#include <qkscope/analysis.h>
#include <qkscope/results.h>

#include "base/buffer.h"

/* An analysis that only compare-stages does. */
#define QK__ANALYSE_STAGES ((qk_analyses)(1 << 4))

/* What a run has besides its analyses (a sum of qk_analyses and these), and what a table
 * needs. */
enum {
    QK__SINGLE = 1 << 8,      /* the PCA of each kind by itself */
    QK__PLANES = 1 << 10,     /* of the complement */
    QK__INTERVALS = 1 << 11,  /* confidence intervals */
    QK__STUDY = 1 << 12,      /* of many models */
    QK__RESERVOIR = 1 << 13,  /* some of the rows, beside moments of all */
    QK__COMPARISON = 1 << 14, /* of two models */
    QK__ABLATION = 1 << 15,   /* of a model whose heads are changed */
    QK__AT_LENGTHS = 1 << 16, /* categories at other lengths of the texts */
    QK__TOKENS = 1 << 17,     /* token strings of keys */
};
unsigned qk__contents_of(const qk_analysis_settings *settings);

/* A model as models.csv lists it. */
typedef struct qk__listed_model {
    const char *name, *label, *family, *phase, *source, *same_as, *folder;
    int layers;
    size_t heads;
    qk_text_lengths lengths;
} qk__listed_model;

/* What changed heads lose at some positions, in ablation_positions.csv. */
typedef struct qk__ablation_position {
    const char *group, *what;
    int64_t first, last, tokens;
    double loss, delta, drift;
} qk__ablation_position;

/* What a model loses by a head, in ablation_heads.csv. */
typedef struct qk__ablated_number {
    double value, lo, hi;
} qk__ablated_number;
typedef struct qk__ablated_head {
    const char *model;
    int layer, q_head, k_head;
    qk__ablated_number remove, drift, freeze, profile, freeze_share, profile_share;
} qk__ablated_head;

/* ---- a row ------------------------------------------------------------------------------ */

/* The structs that a column may take its value from. */
typedef enum qk__origin {
    QK__OF_REPORT,    /* qk_analysis_results */
    QK__OF_HEAD,      /* qk_head_results */
    QK__OF_ANALYSIS,  /* qk_pca, qk_rotation or qk_plasticity */
    QK__OF_ITEM,      /* of the row itself: a component, a plane, a bucket, ... */
    QK__OF_INTERVALS, /* qk_head_intervals, in the first row of a head; else empty fields */
    QK__NUM_ORIGINS,
} qk__origin;

typedef struct qk__row {
    const void *from[QK__NUM_ORIGINS];
    size_t index; /* within its head */
} qk__row;

/* Where the rows of a table are. */
typedef struct qk__rows {
    enum {
        QK__NO_ROWS, /* in no results */
        QK__A_HEAD,  /* one for each head with the analysis */
        QK__AN_ITEM, /* one for each item of the analysis */
        QK__A_MODEL, /* one, which goes where that of the first such head would */
    } each;
    size_t analysis; /* offset of the pointer to it in qk_head_results */
    size_t items;    /* of the pointer to items in the analysis; of a model: of the item in
                        qk_analysis_results */
    size_t count;    /* of their number in the analysis */
    size_t size;     /* of an item; 0: there are none */
} qk__rows;

/* ---- tables ----------------------------------------------------------------------------- */

typedef enum qk__storage {
    QK__REAL,     /* double */
    QK__INT,      /* int */
    QK__INT64,    /* int64_t */
    QK__ARRAY,    /* double *, of which this row's */
    QK__WIDTH,    /* double[2], of which the second less the first */
    QK__FEWER,    /* size_t[2], of which the smaller; NaN for 0 */
    QK__INDEX,    /* of the row */
    QK__POSITIVE, /* int64_t; empty unless above 0 */
    QK__KNOWN,    /* int64_t; empty for QK_NO_EXAMPLE */
    QK__COUNT,    /* size_t */
    QK__TEXT,     /* char * */
    QK__LETTERS,  /* char[] */
    QK__CATEGORY, /* qk_category, or int of one; empty below 0 */
    QK__KIND,     /* qk_kind */
} qk__storage;

/* Whose colours a number has, wherever it is shown by colour (figure/scale.h). */
typedef enum qk__hue {
    QK__HUE_NONE, /* none of these */
    QK__HUE_QUERIES,
    QK__HUE_KEYS,
    QK__HUE_BIAS,
    QK__HUE_PLASTICITY, /**/
} qk__hue;

/* Where a number of a head goes. */
typedef enum qk__use {
    QK__COMPARED, /* everywhere */
    QK__SHOWN, /* nowhere where two runs are compared: it says how sure other numbers are, or has steps */
    QK__LISTED, /* to lists of heads alone */
} qk__use;

typedef struct qk__column {
    qk_column_info info; /* first, so that a qk_column_info * of the schema is one of this */
    qk__storage storage;
    qk__origin origin;
    size_t offset;
    unsigned needs;   /* 0: always there */
    const char *file; /* its table's */
    qk__hue hue;
    qk__use use; /* of a field */
} qk__column;

typedef struct qk__table {
    qk_table_info info; /* first, likewise */
    unsigned needs;     /* what a run must have to make it */
    qk__rows rows;
    const qk__column *columns; /* NULL: not a table of columns (summary.json) */
    size_t num_columns;
} qk__table;

extern const qk__table qk__tables[];
extern const size_t qk__num_tables;

/* NULL: there is none. By the name of the file, with or without ".csv". */
const qk__table *qk__find_table(const char *name);

/* A file of an analysis of one capture, in the folder of its results. */
bool qk__is_result(const qk__table *table);
/* Whether a run with these contents is the one to write the table or to leave it out. */
bool qk__is_table_of(const qk__table *table, unsigned contents);
/* Whether it writes it, and with this column. */
bool qk__has_table(const qk__table *table, unsigned contents);
bool qk__has_column(const qk__column *column, unsigned contents);

/* ---- numbers of a head by name, for figures, tables and charts that take any; those of qk.csv are of component 0 */

typedef qk__column qk__field;
extern const qk__field qk__fields[]; /* in the order of the tables */
extern const size_t qk__num_fields;
const qk__field *qk__find_field(const char *name); /* NULL: no such number */

/* The qk_category that a text of a table names; -1: none, or NULL. */
int qk__category_of(const char *text);

/* Row i of a head; false: there is none. */
bool qk__find_row(const qk__table *table, const qk_analysis_results *results,
                  const qk_head_results *head, size_t i, qk__row *row);

/* Frees the items of a head that are the rows of a table; then it has none. */
void qk__drop_rows(const qk__table *table, qk_head_results *head);

/* ---- values and texts ------------------------------------------------------------------- */

double qk__real_of(const qk__column *column, const qk__row *row);
int64_t qk__integer_of(const qk__column *column, const qk__row *row);
/* One that the file leaves empty. */
bool qk__is_empty_integer(const qk__column *column, int64_t value);
const char *qk__text_of(const qk__column *column, const qk__row *row);

/* The table as CSV: its header with the line end; all rows of a head; one row. */
QK_MUST_CHECK qk_status qk__csv_header(const qk__table *table, unsigned contents,
                                       qk__buffer *text, qk_error *err);
QK_MUST_CHECK qk_status qk__csv_rows(const qk__table *table, const qk_analysis_results *results,
                                     const qk_head_results *head, qk__buffer *text,
                                     qk_error *err);
QK_MUST_CHECK qk_status qk__csv_row(const qk__table *table, unsigned contents,
                                    const qk__row *row, qk__buffer *text, qk_error *err);

/* A table as schema.json has it, with the columns that these contents give it; NULL: no
 * memory. */
json_t *qk__describe_columns(const qk__table *table, unsigned contents);

#endif
