/* SPDX-License-Identifier: Apache-2.0 */
/* Moments of every head of a layer over one set of rows: a chunk, a group of texts, a bucket; and
 * ordered lists of such sets. */
#ifndef QK_STATE_MOMENT_SET_H
#define QK_STATE_MOMENT_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

/* What its arrays look like. */
typedef struct qk__set_shape {
    size_t num_heads, dim;
    bool diagonal; /* of sum_xx only the diagonal */
    bool means;    /* count and mean alone, the last of them a maximum: no other arrays */
    size_t pairs;  /* of sum_abs */
} qk__set_shape;

typedef struct qk__moment_set {
    uint64_t key;            /* of a group its label, of a bucket qk__bucket_key */
    int64_t *count;          /* [heads] */
    double *mean_t, *sum_tt; /* [heads] */
    double *mean, *sum_xt;   /* [heads][d] */
    double *sum_xx;          /* [heads][qk__set_squares]: i <= j, row by row */
    double *sum_abs;         /* [heads][pairs] of lengths; NaN: not known */
} qk__moment_set;

/* Numbers of sum_xx of one head. */
size_t qk__set_squares(const qk__set_shape *shape);

/* Numbers of all its arrays; they lie one after the other. */
size_t qk__set_size(const qk__set_shape *shape);
void qk__set_place(qk__moment_set *set, const qk__set_shape *shape, double *memory);

/* Without rows, all zeros. One allocation, released with free(); NULL without memory. */
qk__moment_set *qk__set_create(const qk__set_shape *shape, uint64_t key);

/* to = to and then more, head by head. */
void qk__set_add(const qk__set_shape *shape, qk__moment_set *to, const qk__moment_set *more);

/* Buckets in the order of their numbers, as keys in the order of unsigned ones; and back. */
static inline uint64_t qk__bucket_key(int64_t bucket)
{
    return (uint64_t)bucket ^ (UINT64_C(1) << 63);
}
static inline int64_t qk__bucket_of_key(uint64_t key)
{
    return (int64_t)(key ^ (UINT64_C(1) << 63));
}

/* ---- lists ------------------------------------------------------------------------------ */

/* Sets in ascending order of their keys, each key once. Zeros are an empty list. */
typedef struct qk__set_list {
    qk__moment_set **sets; /* [capacity] */
    size_t count, capacity;
} qk__set_list;

/* NULL: there is none. */
qk__moment_set *qk__set_list_find(const qk__set_list *list, uint64_t key);

/* Room for so many sets. */
QK_MUST_CHECK qk_status qk__set_list_reserve(qk__set_list *list, size_t count, qk_error *err);

/* Adds a set, whose key is not there and for which there is room. */
void qk__set_list_insert(qk__set_list *list, qk__moment_set *set);

/* Adds an empty set of a key that is not there. NULL without memory. */
qk__moment_set *qk__set_list_new(qk__set_list *list, const qk__set_shape *shape, uint64_t key);

/* Sets whose keys agree in the masked bits become one, in the order of their keys. */
void qk__set_list_join(qk__set_list *list, const qk__set_shape *shape, uint64_t mask);

/* list = list and then later, whose sets move or are freed; there is room for all. */
void qk__set_list_merge(qk__set_list *list, const qk__set_shape *shape, qk__set_list *later);

void qk__set_list_free(qk__set_list *list);

#endif
