/* SPDX-License-Identifier: Apache-2.0 */
/* Collecting the rows of heads and putting them in order. */
#include "results/series.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "results/grow.h"

void qk__series_free(qk__series *series)
{
    free(series->path);
    free(series->rows);
    *series = (qk__series){0};
}

qk_status qk__series_begin(qk__series *series, const char *path, const char *index_name,
                           qk_error *err)
{
    series->index_name = index_name;
    if (!series->path)
        series->path = qk__strdup(path);
    return series->path ? QK_OK : qk__nomem(err);
}

qk_status qk__series_add(qk__series *series, qk__series_row row, qk_error *err)
{
    if (series->count == series->capacity) {
        qk__series_row *rows = qk__grow(series->rows, &series->capacity, sizeof *rows);
        if (!rows)
            return qk__nomem(err);
        series->rows = rows;
    }
    series->rows[series->count++] = row;
    return QK_OK;
}

static int compare_rows(const void *a, const void *b)
{
    const qk__series_row *x = a, *y = b;
    if (x->head != y->head)
        return x->head < y->head ? -1 : 1;
    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

void qk__series_sort(qk__series *series)
{
    size_t i = 1; /* tables are written in order */
    while (i < series->count && compare_rows(&series->rows[i - 1], &series->rows[i]) < 0)
        i++;
    if (i < series->count)
        qsort(series->rows, series->count, sizeof *series->rows, compare_rows);
}

size_t qk__series_end(const qk__series *series, size_t first)
{
    size_t end = first;
    while (end < series->count && series->rows[end].head == series->rows[first].head)
        end++;
    return end;
}
