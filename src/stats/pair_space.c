/* SPDX-License-Identifier: Apache-2.0 */
/* Counting pairs, and the tables their numbers go to. */
#include "stats/pair_space.h"

#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/row_order.h"

enum { MAX_BINS = 512 }; /* a side */

/* Without a window a key and those before it are seen by all buckets from one on: what it adds
 * is noted there, and summed up at the end. */
static void count_without_window(const qk__pair_space *space, int64_t *pairs)
{
    const qk__key_index *index = space->index;
    const qk__query_grid *grid = space->grid;
    for (size_t e = 0; e < index->num_examples; e++) {
        size_t first = index->start[e], end = index->start[e + 1];
        if (end - first < 2)
            continue;
        for (size_t i = first, j = 0; i < end; i++) {
            while (j < grid->num && grid->bucket[j].id <= index->bucket[i])
                j++;
            if (j == grid->num)
                break;
            pairs[j] += (int64_t)(i - space->near[i]);
        }
    }
    for (size_t j = 1; j < grid->num; j++)
        pairs[j] += pairs[j - 1];
}

/* Pairs of the keys first .. end-1 that bucket j sees; -1: it sees none. There are less than 2^32 keys, so this and
 * its sums fit. */
static int64_t count_seen(const qk__pair_space *space, size_t j, size_t first, size_t end)
{
    const qk__key_index *index = space->index;
    const qk__query_bucket *bucket = &space->grid->bucket[j];
    int64_t seen = 0, pairs = -1; /* seen: of from .. i-1 */
    for (size_t i = first, from = first; i < end; i++) {
        for (; from < space->near[i]; from++)
            seen -= qk__sees(space->grid, bucket, index->bucket[from], index->position[from]);
        if (qk__sees(space->grid, bucket, index->bucket[i], index->position[i]))
            pairs = (pairs < 0 ? 0 : pairs) + seen++;
    }
    return pairs;
}

void qk__count_pairs(const qk__pair_space *space, int64_t *pairs)
{
    const qk__key_index *index = space->index;
    for (size_t j = 0; j < space->grid->num; j++)
        pairs[j] = 0;
    if (space->grid->window == 0) {
        count_without_window(space, pairs);
        return;
    }
    for (size_t e = 0; e < index->num_examples; e++)
        for (size_t j = 0; j < space->grid->num; j++) {
            int64_t seen = count_seen(space, j, index->start[e], index->start[e + 1]);
            pairs[j] += seen > 0 ? seen : 0;
        }
}

/* Ranks of the key buckets, and their ids in ascending order in `ids`. */
static qk_status rank_buckets(qk__cell_table *table, const qk__key_index *index, int64_t *ids,
                              size_t *num_ids, qk_error *err)
{
    uint32_t *order;
    const int64_t *const column = index->bucket;
    *num_ids = 0;
    QK_TRY(qk__rows_in_order(&order, index->rows, &column, 1, err));
    for (size_t i = 0; i < index->rows; i++) {
        int64_t id = index->bucket[order[i]];
        if (*num_ids == 0 || ids[*num_ids - 1] != id)
            ids[(*num_ids)++] = id;
        table->rank[order[i]] = (uint32_t)(*num_ids - 1);
    }
    free(order);
    return QK_OK;
}

static qk_status allocate_cells(qk__cell_table *table, const qk__query_grid *grid,
                                const int64_t *ids, size_t num_ids, qk_error *err)
{
    size_t below = 0;
    for (size_t j = 0; j < grid->num; j++) {
        while (below < num_ids && ids[below] < grid->bucket[j].id)
            below++;
        table->at[j + 1] = table->at[j] + below;
    }
    table->num_cells = table->at[grid->num];
    table->cell = qk__calloc(table->num_cells + 1, sizeof *table->cell);
    if (!table->cell)
        return qk__nomem(err);
    for (size_t j = 0; j < grid->num; j++)
        for (size_t c = table->at[j]; c < table->at[j + 1]; c++)
            table->cell[c] = (qk_ap_cell){
                .q_bucket = grid->bucket[j].id, .k_bucket = ids[c - table->at[j]], .pairs = -1};
    return QK_OK;
}

/* Adds the keys first .. end-1, of one bucket of one example, to the cells that see them.
 * Without a window all query buckets see the same: only the last is counted here. */
static void count_cells(qk__cell_table *table, const qk__pair_space *space, size_t first,
                        size_t end)
{
    const qk__query_grid *grid = space->grid;
    for (size_t j = grid->num; j-- > 0;) {
        if (grid->bucket[j].id <= space->index->bucket[first])
            return;
        int64_t seen = count_seen(space, j, first, end);
        int64_t *pairs = &table->cell[table->at[j] + table->rank[first]].pairs;
        if (seen >= 0)
            *pairs = (*pairs < 0 ? 0 : *pairs) + seen;
        if (!grid->window)
            return;
    }
}

static void copy_last_counts(qk__cell_table *table, const qk__query_grid *grid)
{
    const qk_ap_cell *last = table->cell + table->at[grid->num - 1];
    for (size_t j = 0; j + 1 < grid->num; j++)
        for (size_t c = table->at[j]; c < table->at[j + 1]; c++)
            table->cell[c].pairs = last[c - table->at[j]].pairs;
}

qk_status qk__cell_table_create(qk__cell_table **table, const qk__pair_space *space,
                                qk_error *err)
{
    const qk__key_index *index = space->index;
    *table = NULL;
    qk__cell_table *t = calloc(1, sizeof *t);
    if (!t)
        return qk__nomem(err);
    size_t num_ids;
    t->rank = qk__calloc(index->rows + 1, sizeof *t->rank);
    t->at = qk__calloc(space->grid->num + 1, sizeof *t->at);
    int64_t *ids = qk__calloc(index->rows + 1, sizeof *ids);
    qk_status status = QK_OK;
    if (!t->rank || !t->at || !ids)
        status = qk__nomem(err);
    if (status == QK_OK)
        status = rank_buckets(t, index, ids, &num_ids, err);
    if (status == QK_OK)
        status = allocate_cells(t, space->grid, ids, num_ids, err);
    if (status == QK_OK && index->weight &&
        !(t->weight = qk__calloc(t->num_cells + 1, sizeof *t->weight)))
        status = qk__nomem(err);
    free(ids);
    if (status != QK_OK) {
        qk__cell_table_free(&t);
        return status;
    }
    for (size_t e = 0; e < index->num_examples; e++)
        for (size_t i = index->start[e], end; i < index->start[e + 1]; i = end) {
            for (end = i + 1; end < index->start[e + 1] && t->rank[end] == t->rank[i];)
                end++;
            count_cells(t, space, i, end);
        }
    if (space->grid->window == 0 && space->grid->num > 0)
        copy_last_counts(t, space->grid);
    *table = t;
    return QK_OK;
}

void qk__cell_table_free(qk__cell_table **table)
{
    if (!*table)
        return;
    free((*table)->rank);
    free((*table)->at);
    free((*table)->cell);
    free((*table)->weight);
    free(*table);
    *table = NULL;
}

/* Bins for all distances and lags that the positions allow. Rounding keeps order, so no pair
 * falls outside. */
qk_status qk__bin_table_create(qk__bin_table **table, const qk__pair_space *space, double width,
                               qk_error *err)
{
    const qk__key_index *index = space->index;
    const qk__query_grid *grid = space->grid;
    double least = INFINITY, most = -INFINITY, soonest = INFINITY, latest = -INFINITY;
    for (size_t i = 0; i < index->rows; i++) {
        least = fmin(least, index->position[i]);
        most = fmax(most, index->position[i]);
    }
    for (size_t j = 0; j < grid->num; j++) {
        soonest = fmin(soonest, grid->bucket[j].tau);
        latest = fmax(latest, grid->bucket[j].tau);
    }
    *table = NULL;
    qk__bin_table *t = calloc(1, sizeof *t);
    if (!t)
        return qk__nomem(err);
    t->weighted = index->weight != NULL;
    if (grid->num > 0 && index->rows > 0) {
        double side = fmax(most - least, (latest - least) - (soonest - most));
        t->width = fmax(width, side / (MAX_BINS - 2));
        t->width = fmax(t->width, fabs(soonest - most) * 0x1p-52); /* first_lag stays exact */
        double first = floor((soonest - most) / t->width);
        t->first_lag = (int64_t)first;
        t->lags = (size_t)(floor((latest - least) / t->width) - first) + 1;
        t->distances = (size_t)floor((most - least) / t->width) + 1;
    } else {
        t->width = width;
    }
    t->bin = qk__calloc(t->distances * t->lags + 1, sizeof *t->bin);
    if (!t->bin) {
        qk__bin_table_free(&t);
        return qk__nomem(err);
    }
    *table = t;
    return QK_OK;
}

void qk__bin_table_free(qk__bin_table **table)
{
    if (!*table)
        return;
    free((*table)->bin);
    free(*table);
    *table = NULL;
}

qk_status qk__ap_parts_create(qk__ap_parts *parts, const qk__query_grid *grid, qk_error *err)
{
    parts->buckets = grid->num;
    QK_TRY(QK__CREATE_ARRAYS(
        err, {&parts->id, grid->num + 1, sizeof *parts->id},
        {&parts->ap, parts->groups * grid->num + 1, sizeof *parts->ap},
        {&parts->weight, parts->groups * grid->num + 1, sizeof *parts->weight}));
    for (size_t j = 0; j < grid->num; j++)
        parts->id[j] = grid->bucket[j].id;
    return QK_OK;
}

void qk__ap_parts_free(qk__ap_parts *parts)
{
    free(parts->id);
    free(parts->ap);
    free(parts->weight);
    *parts = (qk__ap_parts){0};
}

double qk__ap_without(const qk__ap_parts *parts, size_t bucket, size_t group)
{
    double ap = 0, weight = 0;
    for (size_t g = 0; g < parts->groups; g++) {
        if (g == group)
            continue;
        ap += parts->ap[g * parts->buckets + bucket];
        weight += parts->weight[g * parts->buckets + bucket];
    }
    return weight > 0 ? ap / weight : NAN;
}
