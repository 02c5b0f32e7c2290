/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a layer's moments into memory, head by head. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "state/layer_file.h"
#include "state/layer_view.h"
#include "state/part_moments.h"
#include "stats/moments.h"

/* Names the head of what went wrong, unless nothing did. */
static qk_status name_head(qk_error *err, qk_status status, qk_kind kind, int head)
{
    return qk__context(err, status, "%s, head %d", kind == QK_QUERY ? "queries" : "keys", head);
}

/* ---- heads ------------------------------------------------------------------------------ */

void qk__head_state_free(qk__head_state **state)
{
    assert(state);
    qk__head_state *s = *state;
    if (!s)
        return;
    for (size_t g = 0; s->parts && g < s->num_groups; g++)
        qk_moments_free(&s->parts[g]);
    free(s->parts);
    free(s->labels);
    free(s->sum_abs);
    if (s->buckets)
        free(s->buckets[0].mean); /* that of all */
    free(s->buckets);
    qk_moments_free(&s->moments);
    qk__text_moments_free(&s->texts);
    qk__head_state_free(&s->first);
    free(s);
    *state = NULL;
}

/* One head of a group, with both triangles. NULL without memory. */
static qk_moments *expand(const qk__moment_set *set, size_t d, size_t head)
{
    qk_moments *m = qk__moments_create(d);
    if (!m || set->count[head] == 0)
        return m;
    const double *triangle = set->sum_xx + head * (d * (d + 1) / 2);
    m->count = set->count[head];
    m->mean_t = set->mean_t[head];
    m->sum_tt = set->sum_tt[head];
    memcpy(m->mean, set->mean + head * d, d * sizeof(double));
    memcpy(m->sum_xt, set->sum_xt + head * d, d * sizeof(double));
    for (size_t i = 0; i < d; i++)
        for (size_t j = i; j < d; j++)
            m->sum_xx[i * d + j] = m->sum_xx[j * d + i] = *triangle++;
    return m;
}

static qk_status take_groups(const qk__layer_view *view, size_t head, qk__head_state *state,
                             qk_error *err)
{
    const size_t groups = (size_t)view->sizes.groups, d = view->shape.dim;
    const qk__set_shape shape = {
        .num_heads = view->shape.num_heads, .dim = d, .pairs = view->shape.pairs};
    state->mask = view->mask;
    state->pairs = shape.pairs;
    QK_TRY(QK__CREATE_ARRAYS(err, {&state->labels, groups + 1, sizeof *state->labels},
                             {&state->parts, groups + 1, sizeof *state->parts},
                             {&state->sum_abs, shape.pairs + 1, sizeof *state->sum_abs}));
    for (; state->num_groups < groups; state->num_groups++) {
        const size_t g = state->num_groups;
        const qk__moment_set set = qk__layer_view_group(view, g);
        QK_TRY(qk__check_set(&shape, &set, head, err));
        state->labels[g] = set.key;
        for (size_t p = 0; p < shape.pairs; p++)
            state->sum_abs[p] += set.sum_abs[head * shape.pairs + p];
        state->parts[g] = expand(&set, d, head);
        if (!state->parts[g])
            return qk__nomem(err);
    }
    return QK_OK;
}

static qk_status take_buckets(const qk__layer_view *view, size_t head, qk__head_state *state,
                              qk_error *err)
{
    const size_t buckets = (size_t)view->sizes.buckets, d = view->shape.dim;
    const qk__set_shape shape = {
        .num_heads = view->shape.num_heads, .dim = d, .diagonal = true};
    if (buckets == 0)
        return QK_OK;
    double *numbers = qk__calloc(buckets, 3 * d * sizeof *numbers);
    state->buckets = numbers ? qk__calloc(buckets, sizeof *state->buckets) : NULL;
    if (!state->buckets) {
        free(numbers);
        return qk__nomem(err);
    }
    state->num_buckets = buckets;
    state->buckets[0].mean = numbers; /* so that it is freed */
    for (size_t b = 0; b < buckets; b++, numbers += 3 * d) {
        const qk__moment_set set = qk__layer_view_bucket(view, b);
        qk__bucket_sums *to = &state->buckets[b];
        QK_TRY(qk__check_set(&shape, &set, head, err));
        *to = (qk__bucket_sums){.bucket = view->buckets[b],
                                .count = set.count[head],
                                .mean = numbers,
                                .sum_xt = numbers + d,
                                .sum_xx = numbers + 2 * d};
        if (to->count == 0)
            continue;
        to->mean_t = set.mean_t[head];
        to->sum_tt = set.sum_tt[head];
        memcpy(to->mean, set.mean + head * d, d * sizeof(double));
        memcpy(to->sum_xt, set.sum_xt + head * d, d * sizeof(double));
        memcpy(to->sum_xx, set.sum_xx + head * d, d * sizeof(double));
    }
    return QK_OK;
}

/* All groups together. */
static qk_status merge_groups(qk__head_state *state, size_t d, qk_error *err)
{
    qk_moments_free(&state->moments);
    state->moments = qk__moments_create(d);
    if (!state->moments)
        return qk__nomem(err);
    for (size_t g = 0; g < state->num_groups; g++) {
        qk_moments *merged;
        if (state->parts[g]->count == 0)
            continue;
        QK_TRY(qk__moments_merge(state->moments, state->parts[g], &merged, err));
        qk_moments_free(&state->moments);
        state->moments = merged;
    }
    return QK_OK;
}

/* Groups that have rows of this head. */
static qk_status join_texts(qk__head_state *state, qk_error *err)
{
    qk__text_moments_free(&state->texts);
    const qk_moments *parts[QK__MAX_GROUPS];
    uint64_t labels[QK__MAX_GROUPS];
    size_t count = 0;
    for (size_t g = 0; g < state->num_groups; g++) {
        if (state->parts[g]->count == 0)
            continue;
        parts[count] = state->parts[g];
        labels[count++] = state->labels[g];
    }
    return qk__text_moments_join(&state->texts, state->moments, parts, labels, count,
                                 state->mask, (size_t)state->num_texts, err);
}

static qk_status take_sums(const qk__layer_view *view, size_t head, qk__head_state *state,
                           qk_error *err)
{
    state->num_texts = view->texts[head];
    state->first_position = view->positions[2 * head];
    state->last_position = view->positions[2 * head + 1];
    QK_TRY(take_groups(view, head, state, err));
    return merge_groups(state, view->shape.dim, err);
}

static qk_status take_head(const qk__layer_view *view, const qk__layer_view *first, size_t head,
                           qk__head_state *state, qk_error *err)
{
    QK_TRY(take_sums(view, head, state, err));
    QK_TRY(take_buckets(view, head, state, err));
    if (state->moments->count > 0)
        QK_TRY(qk__moments_check(state->moments, err));
    if (view->shape.max_groups > 0)
        QK_TRY(join_texts(state, err));
    if (first->shape.num_heads == 0)
        return QK_OK;
    state->first = calloc(1, sizeof *state->first);
    return state->first ? take_sums(first, head, state->first, err) : qk__nomem(err);
}

/* Groups of first rows are those of all, or parts of them: where fewer texts have such rows, more bits
 * of their ids tell the groups. */
qk_status qk__head_state_leave_out_first(qk__head_state *state, qk_error *err)
{
    const qk__head_state *first = state->first;
    for (size_t f = 0; f < first->num_groups; f++) {
        qk_moments *rest;
        size_t g = 0;
        while (g < state->num_groups && state->labels[g] != (first->labels[f] & state->mask))
            g++;
        if (first->parts[f]->count == 0)
            continue;
        if (g == state->num_groups)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "moments of first positions are of other texts than those of all");
        QK_TRY(qk__moments_without(state->parts[g], first->parts[f], &rest, err));
        qk_moments_free(&state->parts[g]);
        state->parts[g] = rest;
    }
    for (size_t p = 0; p < state->pairs; p++)
        state->sum_abs[p] -= first->sum_abs[p];
    QK_TRY(merge_groups(state, state->moments->dim, err));
    return state->texts ? join_texts(state, err) : QK_OK;
}

qk_status qk__layer_file_head(const qk__layer_file *file, qk_kind kind, size_t place,
                              qk__head_state **state, qk_error *err)
{
    const qk__layer_view *view = qk__layer_file_view(file, kind);
    *state = NULL;
    if (place >= view->shape.num_heads)
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: place %zu of %zu heads",
                        qk__layer_file_path(file), place, view->shape.num_heads);
    if (view->shape.means)
        return qk__fail(err, QK_ERR_MALFORMED, "%s: these are sums of attention, not moments",
                        qk__layer_file_path(file));
    *state = calloc(1, sizeof **state);
    if (!*state)
        return qk__nomem(err);
    qk_status status =
        name_head(err,
                  take_head(view, qk__layer_file_view(file, QK__FIRST_PARTS + (int)kind), place,
                            *state, err),
                  kind, view->heads[place]);
    if (status != QK_OK)
        qk__head_state_free(state);
    return qk__context(err, status, "%s", qk__layer_file_path(file));
}
