/* SPDX-License-Identifier: Apache-2.0 */
/* Query buckets: their rows, mean positions, and shares of the context. */
#include "stats/query_grid.h"

#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/row_order.h"

void qk__query_grid_free(qk__query_grid **grid)
{
    if (!*grid)
        return;
    free((*grid)->bucket);
    free((*grid)->order);
    free(*grid);
    *grid = NULL;
}

static qk_status set_window(qk__query_grid *grid, const qk_block *queries, qk_error *err)
{
    for (size_t i = 0; i < grid->rows && queries->window; i++) {
        int64_t window = queries->window[grid->order[i]];
        window = window > 0 ? window : 0;
        if (i > 0 && window != grid->window)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "column 'sliding_window': more than one window among the queries: "
                            "%lld and %lld",
                            (long long)grid->window, (long long)window);
        grid->window = window;
    }
    return QK_OK;
}

/* Puts the queries in order of their buckets, those that see no key (bucket <= 0) first. */
static qk_status order_queries(qk__query_grid *grid, const qk_block *queries, qk_error *err)
{
    for (size_t i = 0; i < queries->rows; i++)
        if (!queries->group || queries->group[i] != queries->left_out)
            grid->order[grid->rows++] = (uint32_t)i;
    QK_TRY(set_window(grid, queries, err));
    return qk__order_rows(grid->order, grid->rows, &queries->bucket, 1, err);
}

static qk_status find_buckets(qk__query_grid *grid, const qk_block *queries, qk_error *err)
{
    size_t first = 0, count = 0;
    while (first < grid->rows && queries->bucket[grid->order[first]] <= 0)
        first++;
    for (size_t i = first; i < grid->rows; i++)
        count += i == first ||
                 queries->bucket[grid->order[i]] != queries->bucket[grid->order[i - 1]];
    grid->bucket = qk__calloc(count + 1, sizeof *grid->bucket);
    if (!grid->bucket)
        return qk__nomem(err);
    for (size_t i = first; i < grid->rows; i++) {
        int64_t id = queries->bucket[grid->order[i]];
        if (grid->num == 0 || id != grid->bucket[grid->num - 1].id)
            grid->bucket[grid->num++] = (qk__query_bucket){.id = id, .first = i};
        grid->bucket[grid->num - 1].queries++;
    }
    return QK_OK;
}

static double context_length(const qk__query_grid *grid, const qk_block *queries)
{
    double length = 0;
    for (size_t i = 0; i < grid->rows; i++) {
        double next = (double)queries->position[grid->order[i]] + 1;
        length = next > length ? next : length;
    }
    return length;
}

static void set_positions(qk__query_grid *grid, const qk_block *queries, double length)
{
    for (size_t j = 0; j < grid->num; j++) {
        qk__query_bucket *bucket = &grid->bucket[j];
        double sum = 0;
        for (size_t i = 0; i < bucket->queries; i++) {
            double t = (double)queries->position[grid->order[bucket->first + i]];
            sum += t;
            if (t >= 0) {
                int tenth = (int)(t * QK_TENTHS / length);
                bucket->tenths[tenth < QK_TENTHS ? tenth : QK_TENTHS - 1]++;
            }
        }
        bucket->tau = sum / (double)bucket->queries;
        bucket->total = (int64_t)bucket->queries;
    }
}

/* The buckets of totals that see keys and have queries are those of the grid, in one order. */
static qk_status set_totals(qk__query_grid *grid, const qk__totals *totals, qk_error *err)
{
    size_t j = 0;
    for (size_t i = 0; i < totals->num_buckets; i++) {
        qk__query_bucket *bucket = j < grid->num ? &grid->bucket[j] : NULL;
        if (totals->bucket[i] <= 0 || totals->count[i] == 0)
            continue;
        if (!bucket || bucket->id != totals->bucket[i] ||
            (int64_t)bucket->queries > totals->count[i])
            return qk__fail(
                err, QK_ERR_INCONSISTENT,
                "rows and moments have other queries in bucket %lld: they are not of one "
                "capture",
                (long long)totals->bucket[i]);
        double factor = (double)totals->count[i] / (double)bucket->queries;
        for (size_t k = 0; k < QK_TENTHS; k++)
            bucket->tenths[k] *= factor;
        bucket->tau = totals->mean_t[i];
        bucket->total = totals->count[i];
        j++;
    }
    return j == grid->num
               ? QK_OK
               : qk__fail(err, QK_ERR_INCONSISTENT,
                          "bucket %lld has queries in rows and none in moments: they are "
                          "not of one capture",
                          (long long)grid->bucket[j].id);
}

qk_status qk__query_grid_create(qk__query_grid **grid, const qk_block *queries, bool in_buckets,
                                const qk__totals *totals, qk_error *err)
{
    *grid = NULL;
    if (queries->rows >= UINT32_MAX)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "%zu queries in one head", queries->rows);
    qk__query_grid *g = calloc(1, sizeof *g);
    if (!g)
        return qk__nomem(err);
    g->in_buckets = in_buckets;
    g->order = qk__calloc(queries->rows + 1, sizeof *g->order);
    qk_status status = g->order ? order_queries(g, queries, err) : qk__nomem(err);
    if (status == QK_OK)
        status = find_buckets(g, queries, err);
    if (status == QK_OK)
        set_positions(g, queries,
                      totals ? (double)totals->last_position + 1 : context_length(g, queries));
    if (status == QK_OK && totals && totals->num_buckets > 0)
        status = set_totals(g, totals, err);
    if (status != QK_OK)
        qk__query_grid_free(&g);
    *grid = g;
    return status;
}
