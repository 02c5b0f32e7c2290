/* SPDX-License-Identifier: Apache-2.0 */
/* A head by the footers of its files: rows are counted there, columns have statistics, and the vectors'
 * dimension is their numbers divided by the rows. */
#include "capture/head_footer.h"

#include "base/error.h"
#include "capture/packed_file.h"
#include "capture/row_columns.h"
#include "parquet/reader.h"

/* Row groups of a file. */
typedef struct groups {
    const qk_parquet *file;
    size_t first, count;
} groups;

/* A range and another one; none yet where *any is false. */
static void widen_range(qk__footer_range *range, bool *any, bool known, int64_t min,
                        int64_t max)
{
    range->known = known && (!*any || range->known);
    range->min = !*any || min < range->min ? min : range->min;
    range->max = !*any || max > range->max ? max : range->max;
    *any = true;
}

/* Rows without a value are 0; so is a column that is not there (index -1). */
static void add_range(qk__footer_range *range, bool any, const groups *g, int index)
{
    for (size_t k = g->first; k < g->first + g->count; k++) {
        const qk__row_group *group = &g->file->metadata.groups[k];
        const qk__chunk *chunk = index >= 0 ? &group->chunks[index] : NULL;
        int64_t nulls = chunk ? chunk->null_count : group->num_rows;
        if (nulls > 0)
            widen_range(range, &any, true, 0, 0);
        if (nulls == group->num_rows)
            continue;
        bool told =
            chunk->has_range && nulls >= 0 && !g->file->metadata.leaves[index].is_unsigned;
        widen_range(range, &any, told, chunk->min, chunk->max);
    }
}

static size_t dim_of(const groups *g, int vector, int64_t rows)
{
    int64_t values = 0;
    for (size_t k = g->first; k < g->first + g->count; k++)
        values += g->file->metadata.groups[k].chunks[vector].num_values;
    return rows > 0 && values % rows == 0 ? (size_t)(values / rows) : 0;
}

qk_status qk__head_footer_add(qk__head_footer *sum, const qk_head *head, size_t i,
                              const qk_parquet *file, qk_error *err)
{
    groups g = {file, 0, file->metadata.num_groups};
    int vector, position, bucket, window;
    if (head->parts) {
        QK_TRY(qk__packed_check(file, &head->parts[i], err));
        g.first = (size_t)head->parts[i].first_group;
        g.count = (size_t)head->parts[i].num_groups;
    }
    QK_TRY(qk__row_column_find(file, QK__VECTOR, false, &vector, err));
    QK_TRY(qk__row_column_find(file, QK__POSITION, false, &position, err));
    QK_TRY(qk__row_column_find(file, QK__BUCKET, true, &bucket, err));
    QK_TRY(qk__row_column_find(file, QK__WINDOW, false, &window, err));
    int64_t rows = 0;
    for (size_t k = g.first; k < g.first + g.count; k++)
        rows += file->metadata.groups[k].num_rows;
    if (rows == 0)
        return QK_OK;
    size_t dim = dim_of(&g, vector, rows);
    sum->dim = !sum->begun || sum->dim == dim ? dim : 0;
    sum->rows += rows;
    add_range(&sum->position, sum->begun, &g, position);
    add_range(&sum->window, sum->begun, &g, window);
    if (bucket >= 0)
        add_range(&sum->bucket, sum->begun, &g, bucket);
    sum->begun = true;
    return QK_OK;
}
