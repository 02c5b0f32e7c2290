/* SPDX-License-Identifier: Apache-2.0 */
/* Which pairs there are, how many, and where their values are summed. */
#ifndef QK_STATS_PAIR_SPACE_H
#define QK_STATS_PAIR_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/stats.h>

#include "stats/key_index.h"
#include "stats/pair_kernel.h"
#include "stats/query_grid.h"

/* Keys (at their places in the index) and the query buckets that see them. */
typedef struct qk__pair_space {
    const qk_block *keys;
    const qk__key_index *index;
    const qk__query_grid *grid;
    /* [keys] for each the first place of its text that makes a pair with it */
    const size_t *near;
} qk__pair_space;

/* Pairs of eligible keys of one example, for every query bucket: pairs[grid->num]. */
void qk__count_pairs(const qk__pair_space *space, int64_t *pairs);

/* A cell for each query bucket j and each key bucket below it: cell[at[j] + rank], where rank counts the
 * key buckets in ascending order. A cell's `pairs` are those there are, or -1 without a key that j
 * sees; its `ap` is a sum. */
typedef struct qk__cell_table {
    uint32_t *rank; /* [keys] of each key's bucket */
    size_t num_cells;
    size_t *at; /* [grid->num + 1] */
    qk_ap_cell *cell;
    double *weight; /* [num_cells] of the pairs in each sum; NULL where keys have no weights */
} qk__cell_table;

QK_MUST_CHECK qk_status qk__cell_table_create(qk__cell_table **table,
                                              const qk__pair_space *space, qk_error *err);
void qk__cell_table_free(qk__cell_table **table);

/* The plane of distances and lags, in bins of `width` tokens. */
typedef struct qk__bin {
    double ap; /* sum */
    int64_t pairs;
    double weight; /* of these pairs, where keys have weights */
} qk__bin;

typedef struct qk__bin_table {
    bool weighted; /* keys have weights */
    double width;
    int64_t first_lag; /* bins of lags first_lag .. first_lag + lags - 1 */
    size_t distances, lags;
    qk__bin *bin; /* [distances][lags] */
} qk__bin_table;

QK_MUST_CHECK qk_status qk__bin_table_create(qk__bin_table **table, const qk__pair_space *space,
                                             double width, qk_error *err);
void qk__bin_table_free(qk__bin_table **table);

/* Sums of the pairs of each query bucket, apart by groups of texts. */
typedef struct qk__ap_parts {
    const uint32_t *group; /* of each row of the keys; less than `groups` */
    size_t groups, buckets;
    int64_t *id;    /* [buckets] of the query buckets, ascending */
    double *ap;     /* [groups][buckets] */
    double *weight; /* [groups][buckets] of these pairs, which count one each without weights */
} qk__ap_parts;

/* Room for the buckets of a grid; group and groups are set. */
QK_MUST_CHECK qk_status qk__ap_parts_create(qk__ap_parts *parts, const qk__query_grid *grid,
                                            qk_error *err);
/* parts may be zeros. */
void qk__ap_parts_free(qk__ap_parts *parts);

/* The mean over a bucket's pairs outside one group; NaN without any. */
double qk__ap_without(const qk__ap_parts *parts, size_t bucket, size_t group);

/* Where the values of pairs are summed. cells and bins are NULL where only the profile is
 * wanted. */
typedef struct qk__tally {
    double *ap;        /* [grid->num] sums over the pairs of a query bucket */
    double *weight;    /* [grid->num] their weights; for qk__sum_pairs only */
    int64_t *pairs;    /* [grid->num] number of pairs; of more than `limit` some are drawn */
    int64_t limit;     /* pairs a cell, INT64_MAX without */
    int64_t evaluated; /* values of PP */
    int64_t sampled;   /* query buckets and cells whose pairs were drawn */
    qk__cell_table *cells;
    qk__bin_table *bins;
    qk__ap_parts *parts; /* or NULL */
} qk__tally;

#endif
