/* SPDX-License-Identifier: Apache-2.0 */
/* What the differences of all heads have in common: corrected p-values, means, and which heads
 * changed most. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "results/comparison.h"
#include "stats/false_discovery.h"
#include "stats/student.h"

/* ---- p-values of heads ------------------------------------------------------------------ */

static qk_status correct_changes(qk__comparison *c, qk_error *err)
{
    double *p = qk__calloc(c->num_changes + 1, 2 * sizeof *p);
    if (!p)
        return qk__nomem(err);
    double *corrected = p + c->num_changes;
    for (size_t i = 0; i < c->num_changes; i++)
        p[i] = c->changes[i].p;
    qk_status status = qk__correct_p_values(p, c->num_changes, corrected, err);
    for (size_t i = 0; i < c->num_changes; i++)
        c->changes[i].p_corrected = corrected[i];
    free(p);
    return status;
}

/* ---- over heads ------------------------------------------------------------------------- */

/* About the mean of all values, those of a and those of b. */
static double spread_of(const qk__change *changes, size_t count, double mean)
{
    qk__mean squares = {0};
    for (size_t i = 0; i < count; i++)
        if (isfinite(changes[i].difference)) {
            qk__mean_add(&squares, (changes[i].a - mean) * (changes[i].a - mean));
            qk__mean_add(&squares, (changes[i].b - mean) * (changes[i].b - mean));
        }
    return sqrt(qk__mean_of(&squares));
}

/* The mean difference of the query heads of each key head, which are not independent; returns how many
 * there are. Heads lie by layer and query head, so those of a key head are neighbours. */
static size_t mean_by_group(const qk__change *changes, size_t count, double *means)
{
    size_t groups = 0;
    for (size_t i = 0, next; i < count; i = next) {
        qk__mean mean = {0};
        for (next = i; next < count && changes[next].layer == changes[i].layer &&
                       changes[next].k_head == changes[i].k_head;
             next++)
            qk__mean_add(&mean, changes[next].difference);
        if (mean.count > 0)
            means[groups++] = qk__mean_of(&mean);
    }
    return groups;
}

/* Student's t about the mean over groups. */
static void estimate(const double *means, size_t count, double level, qk__compared_metric *m)
{
    qk__mean mean = {0}, squares = {0};
    for (size_t i = 0; i < count; i++)
        qk__mean_add(&mean, means[i]);
    m->groups = count;
    m->mean = qk__mean_of(&mean);
    m->low = m->high = m->p = NAN;
    if (count < 3)
        return;
    for (size_t i = 0; i < count; i++)
        qk__mean_add(&squares, (means[i] - m->mean) * (means[i] - m->mean));
    double degrees = (double)count - 1;
    double error = sqrt(qk__mean_of(&squares) / degrees);
    double half = qk__student_quantile((1 + level) / 2, degrees) * error;
    m->low = m->mean - half;
    m->high = m->mean + half;
    m->p = m->mean == 0 ? 1 : qk__student_p_value(m->mean / error, degrees);
}

static void sum_up(const qk__comparison *c, qk__compared_metric *m, double *means)
{
    qk__change *changes = c->changes + m->first;
    qk__mean a = {0}, b = {0};
    for (size_t i = 0; i < c->num_paired; i++) {
        if (!isfinite(changes[i].difference))
            continue;
        qk__mean_add(&a, changes[i].a);
        qk__mean_add(&b, changes[i].b);
        m->tested += !isnan(changes[i].p);
        m->supported += changes[i].p_corrected < QK__CHANGE_LEVEL;
    }
    m->heads = a.count;
    m->mean_a = qk__mean_of(&a);
    m->mean_b = qk__mean_of(&b);
    m->spread = spread_of(changes, c->num_paired, (m->mean_a + m->mean_b) / 2);
    estimate(means, mean_by_group(changes, c->num_paired, means), c->level, m);
    if (c->silent)
        m->p = NAN;
    for (size_t i = 0; i < c->num_paired; i++)
        if (isfinite(changes[i].difference))
            changes[i].size =
                changes[i].difference == 0 ? 0 : changes[i].difference / m->spread;
}

static qk_status correct_means(qk__comparison *c, qk_error *err)
{
    double *p = qk__calloc(c->num_metrics, 2 * sizeof *p);
    if (!p)
        return qk__nomem(err);
    for (size_t m = 0; m < c->num_metrics; m++)
        p[m] = c->metrics[m].p;
    qk_status status = qk__correct_p_values(p, c->num_metrics, p + c->num_metrics, err);
    for (size_t m = 0; m < c->num_metrics; m++)
        c->metrics[m].p_corrected = p[c->num_metrics + m];
    free(p);
    return status;
}

/* ---- what changed most ------------------------------------------------------------------ */

/* A change that texts explain is no news, however large: supported ones go before others. */
static bool is_above(const qk__change *x, const qk__compared_head *head)
{
    bool own = x->p_corrected < QK__CHANGE_LEVEL,
         best = head->top_p_corrected < QK__CHANGE_LEVEL;
    if (!isfinite(x->size) || x->size == 0)
        return false;
    if (!*head->top_metric || own != best)
        return own || !*head->top_metric;
    return fabs(x->size) > fabs(head->top_size);
}

static void find_top_metrics(qk__comparison *c)
{
    for (size_t h = 0, i = 0; h < c->num_heads; h++) {
        qk__compared_head *head = &c->heads[h];
        if (strcmp(head->in, "both") != 0)
            continue;
        for (size_t m = 0; m < c->num_metrics; m++) {
            const qk__change *change = &c->changes[c->metrics[m].first + i];
            if (!is_above(change, head) || change->open)
                continue;
            head->top_metric = change->metric;
            head->top_difference = change->difference;
            head->top_size = change->size;
            head->top_p_corrected = change->p_corrected;
        }
        if (*head->top_metric)
            c->top[c->num_top++] = h;
        i++;
    }
}

static bool comes_before(const qk__comparison *c, size_t x, size_t y)
{
    const qk__compared_head *a = &c->heads[x], *b = &c->heads[y];
    bool in_a = a->top_p_corrected < QK__CHANGE_LEVEL,
         in_b = b->top_p_corrected < QK__CHANGE_LEVEL;
    if (in_a != in_b)
        return in_a;
    double size_a = fabs(a->top_size), size_b = fabs(b->top_size);
    return size_a > size_b || (size_a == size_b && x < y);
}

/* qsort knows no context: a heap, so that thousands of heads take no time. */
static void sift(const qk__comparison *c, size_t *heap, size_t at, size_t count)
{
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && comes_before(c, heap[child], heap[child + 1]))
            child++;
        if (!comes_before(c, heap[at], heap[child]))
            return;
        size_t moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
    }
}

static void sort_top(qk__comparison *c)
{
    for (size_t i = c->num_top / 2; i-- > 0;)
        sift(c, c->top, i, c->num_top);
    for (size_t end = c->num_top; end-- > 1;) {
        size_t last = c->top[0];
        c->top[0] = c->top[end];
        c->top[end] = last;
        sift(c, c->top, 0, end);
    }
}

qk_status qk__compare_means(qk__comparison *c, qk_error *err)
{
    QK_TRY(correct_changes(c, err));
    double *means = qk__calloc(c->num_paired, sizeof *means);
    if (!means)
        return qk__nomem(err);
    for (size_t m = 0; m < c->num_metrics; m++)
        sum_up(c, &c->metrics[m], means);
    free(means);
    find_top_metrics(c);
    sort_top(c);
    return correct_means(c, err);
}
