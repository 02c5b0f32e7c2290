/* SPDX-License-Identifier: Apache-2.0 */
/* A table in memory: table_columns.c, which leads, makes one of a run, made_columns.c one of a caller's
 * values. */
#ifndef QK_SCHEMA_COLUMNS_H
#define QK_SCHEMA_COLUMNS_H

#include "schema/schema.h"

/* Values of any type, 8 bytes each. */
typedef union qk__value {
    double real;
    int64_t integer;
    const char *text;
} qk__value;

struct qk_columns {
    size_t num_rows, count;
    const qk__column **columns;
    qk__value **values; /* [count][num_rows] */
    qk__column *made;   /* by qk_columns_make */
    bool **empty;       /* [count][num_rows] of its integers; NULL: none are */
    char **texts;       /* those that columns point to and that are not the library's */
    size_t num_texts, texts_room;
};

/* *copy is the text's, which is the table's own; NULL stays NULL. */
QK_MUST_CHECK qk_status qk__columns_own(qk_columns *columns, const char *text,
                                        const char **copy, qk_error *err);

#endif
