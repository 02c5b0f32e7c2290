/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of moments: how two of them join, and lists of them. */
#include "state/moment_set.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/moments.h"

size_t qk__set_squares(const qk__set_shape *shape)
{
    return shape->diagonal ? shape->dim : shape->dim * (shape->dim + 1) / 2;
}

size_t qk__set_size(const qk__set_shape *shape)
{
    size_t of_head = shape->means ? 1 + shape->dim
                                  : 3 + 2 * shape->dim + qk__set_squares(shape) + shape->pairs;
    return shape->num_heads * of_head;
}

void qk__set_place(qk__moment_set *set, const qk__set_shape *shape, double *memory)
{
    size_t heads = shape->num_heads;
    set->count = (int64_t *)(void *)memory;
    if (shape->means) {
        set->mean = memory + heads;
        return;
    }
    set->mean_t = memory + heads;
    set->sum_tt = set->mean_t + heads;
    set->mean = set->sum_tt + heads;
    set->sum_xt = set->mean + heads * shape->dim;
    set->sum_xx = set->sum_xt + heads * shape->dim;
    set->sum_abs = set->sum_xx + heads * qk__set_squares(shape);
}

qk__moment_set *qk__set_create(const qk__set_shape *shape, uint64_t key)
{
    qk__moment_set *set = calloc(1, sizeof *set + qk__set_size(shape) * sizeof(double));
    if (!set)
        return NULL;
    set->key = key;
    qk__set_place(set, shape, (double *)(void *)(set + 1));
    return set;
}

/* ---- joining two ------------------------------------------------------------------------ */

/* One row of a triangle. */
static inline void add_row(double *restrict to, const double *restrict more, double weight,
                           double factor, const double *restrict step, size_t count)
{
    for (size_t j = 0; j < count; j++)
        to[j] = to[j] + more[j] + weight * (factor * step[j]);
}

/* Adds to the squares what the two means are apart, a stretch of columns at a time, so that the
 * steps need no memory. */
static void add_triangle(double *to, const double *more, double weight, const double *mean,
                         const double *more_mean, size_t d)
{
    enum { STRETCH = 512 };
    for (size_t from = 0; from < d; from += STRETCH) {
        double step[STRETCH];
        size_t end = d - from < STRETCH ? d : from + STRETCH;
        for (size_t j = from; j < end; j++)
            step[j - from] = more_mean[j] - mean[j];
        for (size_t i = 0; i < end; i++) {
            size_t j = i > from ? i : from, at = i * d - i * (i + 1) / 2 + j;
            add_row(to + at, more + at, weight, more_mean[i] - mean[i], step + (j - from),
                    end - j);
        }
    }
}

/* As in qk__moments_merge. */
static void add_means(size_t d, double share, double *mean, const double *more)
{
    for (size_t i = 0; i < d; i++)
        mean[i] += (more[i] - mean[i]) * share;
}

static void add_moments(const qk__set_shape *shape, qk__moment_set *to,
                        const qk__moment_set *more, size_t head, double share)
{
    const size_t d = shape->dim, squares = qk__set_squares(shape);
    double *mean = to->mean + head * d, *sum_xt = to->sum_xt + head * d;
    double *sum_xx = to->sum_xx + head * squares;
    const double *more_mean = more->mean + head * d, *more_xt = more->sum_xt + head * d;
    const double *more_xx = more->sum_xx + head * squares;
    const double weight = (double)to->count[head] * share;
    const double step_t = more->mean_t[head] - to->mean_t[head];
    to->sum_tt[head] = to->sum_tt[head] + more->sum_tt[head] + weight * step_t * step_t;
    to->mean_t[head] += step_t * share;
    if (!shape->diagonal)
        add_triangle(sum_xx, more_xx, weight, mean, more_mean, d);
    for (size_t i = 0; i < d; i++) {
        double step = more_mean[i] - mean[i];
        sum_xt[i] = sum_xt[i] + more_xt[i] + weight * step * step_t;
        if (shape->diagonal)
            sum_xx[i] = sum_xx[i] + more_xx[i] + weight * (step * step);
    }
}

static void add_head(const qk__set_shape *shape, qk__moment_set *to, const qk__moment_set *more,
                     size_t head)
{
    const size_t d = shape->dim;
    const int64_t count = to->count[head] + more->count[head];
    const double share = (double)more->count[head] / (double)count;
    double *mean = to->mean + head * d;
    const double most = fmax(mean[d - 1], more->mean[head * d + d - 1]);
    if (!shape->means)
        add_moments(shape, to, more, head, share);
    add_means(d, share, mean, more->mean + head * d);
    if (shape->means)
        mean[d - 1] = most;
    to->count[head] = count;
}

static void copy_head(const qk__set_shape *shape, qk__moment_set *to,
                      const qk__moment_set *from, size_t head)
{
    const size_t d = shape->dim, squares = qk__set_squares(shape);
    to->count[head] = from->count[head];
    memcpy(to->mean + head * d, from->mean + head * d, d * sizeof(double));
    if (shape->means)
        return;
    to->mean_t[head] = from->mean_t[head];
    to->sum_tt[head] = from->sum_tt[head];
    memcpy(to->sum_xt + head * d, from->sum_xt + head * d, d * sizeof(double));
    memcpy(to->sum_xx + head * squares, from->sum_xx + head * squares,
           squares * sizeof(double));
}

void qk__set_add(const qk__set_shape *shape, qk__moment_set *to, const qk__moment_set *more)
{
    for (size_t h = 0; h < shape->num_heads; h++) {
        if (more->count[h] == 0)
            continue;
        for (size_t i = h * shape->pairs; i < (h + 1) * shape->pairs; i++)
            to->sum_abs[i] += more->sum_abs[i];
        if (to->count[h] == 0)
            copy_head(shape, to, more, h);
        else
            add_head(shape, to, more, h);
    }
}

/* ---- lists ------------------------------------------------------------------------------ */

/* The first place whose key is not below. */
static size_t place_of(const qk__set_list *list, uint64_t key)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (list->sets[middle]->key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

qk__moment_set *qk__set_list_find(const qk__set_list *list, uint64_t key)
{
    size_t at = place_of(list, key);
    return at < list->count && list->sets[at]->key == key ? list->sets[at] : NULL;
}

qk_status qk__set_list_reserve(qk__set_list *list, size_t count, qk_error *err)
{
    while (list->capacity < count) {
        void *grown = qk__grow(list->sets, &list->capacity, sizeof(qk__moment_set *));
        if (!grown)
            return qk__nomem(err);
        list->sets = grown;
    }
    return QK_OK;
}

void qk__set_list_insert(qk__set_list *list, qk__moment_set *set)
{
    size_t at = place_of(list, set->key);
    memmove(list->sets + at + 1, list->sets + at,
            (list->count - at) * sizeof(qk__moment_set *));
    list->sets[at] = set;
    list->count++;
}

qk__moment_set *qk__set_list_new(qk__set_list *list, const qk__set_shape *shape, uint64_t key)
{
    qk__moment_set *set = NULL;
    if (qk__set_list_reserve(list, list->count + 1, NULL) == QK_OK)
        set = qk__set_create(shape, key);
    if (set)
        qk__set_list_insert(list, set);
    return set;
}

/* Fewer bits change the order of the keys: what is left is sorted in anew. */
void qk__set_list_join(qk__set_list *list, const qk__set_shape *shape, uint64_t mask)
{
    size_t count = list->count;
    for (size_t i = list->count = 0; i < count; i++) {
        qk__moment_set *set = list->sets[i];
        qk__moment_set *known = qk__set_list_find(list, set->key & mask);
        set->key &= mask;
        if (known) {
            qk__set_add(shape, known, set);
            free(set);
        } else {
            qk__set_list_insert(list, set); /* at most at the place that it had */
        }
    }
}

void qk__set_list_merge(qk__set_list *list, const qk__set_shape *shape, qk__set_list *later)
{
    for (size_t i = 0; i < later->count; i++) {
        qk__moment_set *known = qk__set_list_find(list, later->sets[i]->key);
        if (known) {
            qk__set_add(shape, known, later->sets[i]);
            free(later->sets[i]);
        } else {
            qk__set_list_insert(list, later->sets[i]);
        }
    }
    later->count = 0;
}

void qk__set_list_free(qk__set_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->sets[i]);
    free(list->sets);
    *list = (qk__set_list){0};
}
