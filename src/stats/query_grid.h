/* SPDX-License-Identifier: Apache-2.0 */
/* The query buckets of a head, and which keys each of them may see. */
#ifndef QK_STATS_QUERY_GRID_H
#define QK_STATS_QUERY_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/stats.h>

typedef struct qk__query_bucket {
    int64_t id;               /* > 0 */
    double tau;               /* mean position of its queries */
    size_t first, queries;    /* its rows are order[first .. first + queries - 1] */
    int64_t total;            /* number of queries, where rows are some of them */
    double tenths[QK_TENTHS]; /* of these in each tenth of the context */
} qk__query_bucket;

/* What is known of all queries and keys of a head where rows are some of them. */
typedef struct qk__totals {
    int64_t queries, keys;
    int64_t last_position; /* of a query */
    size_t num_buckets;    /* of queries, ascending; 0: not known for the buckets of the rows */
    const int64_t *bucket, *count;
    const double *mean_t; /* of their positions */
} qk__totals;

typedef struct qk__query_grid {
    size_t rows; /* queries in all, those of bucket <= 0 too */
    size_t num;
    qk__query_bucket *bucket; /* [num] in ascending order of id */
    uint32_t *order;
    int64_t window;  /* 0 = full attention */
    bool in_buckets; /* whether the window counts buckets; else tokens */
} qk__query_grid;

/* From the queries that are not left out. With totals, buckets have their numbers and mean positions from there
 * (tenths in proportion to the rows); else totals is NULL. QK_ERR_INCONSISTENT where windows differ, or rows and
 * totals have different buckets. */
QK_MUST_CHECK qk_status qk__query_grid_create(qk__query_grid **grid, const qk_block *queries,
                                              bool in_buckets, const qk__totals *totals,
                                              qk_error *err);
void qk__query_grid_free(qk__query_grid **grid);

/* Whether queries of bucket j may see a key. */
static inline bool qk__sees(const qk__query_grid *grid, const qk__query_bucket *j,
                            int64_t bucket, double position)
{
    if (grid->in_buckets)
        return bucket < j->id && (grid->window == 0 || bucket >= j->id - grid->window);
    return bucket < j->id && (grid->window == 0 || bucket == j->id - 1 ||
                              j->tau - position <= (double)grid->window);
}

#endif
