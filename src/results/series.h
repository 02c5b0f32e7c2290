/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables that have several for a head: its components, its query buckets, its
 * dimensions, its rotary pairs, its distances, what it attends to. */
#ifndef QK_RESULTS_SERIES_H
#define QK_RESULTS_SERIES_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

enum { QK__SERIES_VALUES = 4 };

typedef struct qk__series_row {
    size_t head, row; /* row: of the file */
    int64_t index;    /* within the head */
    double values[QK__SERIES_VALUES];
} qk__series_row;

typedef struct qk__series {
    char *path; /* of the first file, for messages; NULL: there is none */
    const char *index_name;
    qk__series_row *rows;
    size_t count, capacity;
} qk__series;

void qk__series_free(qk__series *series);
/* Before the rows of a file; those of others may be there already. */
QK_MUST_CHECK qk_status qk__series_begin(qk__series *series, const char *path,
                                         const char *index_name, qk_error *err);
QK_MUST_CHECK qk_status qk__series_add(qk__series *series, qk__series_row row, qk_error *err);

/* By head and index. */
void qk__series_sort(qk__series *series);

/* Rows [first, result) are of the same head as the first. */
size_t qk__series_end(const qk__series *series, size_t first);

#endif
