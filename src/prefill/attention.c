/* SPDX-License-Identifier: Apache-2.0 */
/* Attention with a running softmax.
 *
 * Keys come in blocks of QK_KEY_PANELS counted from the start of the sequence, so that a query's
 * sums have the same order wherever its block of queries begins; of a block only those panels
 * are looked at that some query of the panel sees. All heads of a group and all panels of
 * queries meet a block while it is in the cache. */
#include "prefill/attention.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "prefill/rounding.h"

enum {
    SCORES = QK_KEY_PANELS * QK_LANES * QK_LANES,
    TALLY = sizeof(qk__head_tally) / sizeof(float)
};

/* One panel of queries of one head on its way through the keys. */
typedef struct walk {
    float *query; /* [head_dim][lanes], times scale / ln 2, or paired */
    qk__softmax softmax;
    qk__head_tally *tally; /* NULL: the head is not measured */
} walk;

static size_t walk_size(const qk__attention *a)
{
    size_t features = a->head_dim + qk__whole_tiles(a->head_dim);
    return (features + 2) * QK_LANES + (a->measured ? TALLY : 0);
}

size_t qk__attention_scratch(const qk__attention *a, size_t panels)
{
    return SCORES + a->group * panels * walk_size(a);
}

/* Which of the measured heads a query head is; their number: none. */
static size_t measured_number(const qk__attention *a, size_t query_head)
{
    size_t count = a->measured ? a->measured->count : 0, i = 0;
    while (i < count && (size_t)a->measured->heads[i] != query_head)
        i++;
    return i;
}

/* The i-th of the panels of all heads of a group. */
static walk walk_at(const qk__attention *a, size_t head, float *scratch, size_t i)
{
    float *at = scratch + SCORES + i * walk_size(a);
    walk w = {.query = at};
    size_t width = qk__whole_tiles(a->head_dim);
    w.softmax.sums = at + a->head_dim * QK_LANES;
    w.softmax.width = a->values ? width : 0;
    w.softmax.top = w.softmax.sums + width * QK_LANES;
    w.softmax.total = w.softmax.top + QK_LANES;
    if (a->measured && measured_number(a, head * a->group + i % a->group) < a->measured->count)
        w.tally = (qk__head_tally *)(void *)(w.softmax.total + QK_LANES);
    return w;
}

/* What makes a score of a product, in units of ln 2. */
static float in_ln2(const qk__attention *a)
{
    return a->scale * 0x1.715476p+0f;
}

static void prepare_query(const qk__attention *a, const float *query, float *to)
{
    if (a->bf16)
        a->bf16->pair_features(query, a->head_dim, to);
    else
        for (size_t i = 0; i < a->head_dim * QK_LANES; i++)
            to[i] = query[i] * in_ln2(a);
}

static void start_rows(const qk__attention *a, const walk *w, const float *query)
{
    prepare_query(a, query, w->query);
    memset(w->softmax.sums, 0, w->softmax.width * QK_LANES * sizeof(float));
    for (size_t lane = 0; lane < QK_LANES; lane++) {
        w->softmax.top[lane] = -FLT_MAX;
        w->softmax.total[lane] = 0;
    }
    if (w->tally)
        qk__tally_start(w->tally);
}

static void finish_rows(const qk__attention *a, const walk *w, float *out)
{
    for (size_t i = 0; i < a->head_dim; i++)
        for (size_t lane = 0; lane < QK_LANES; lane++)
            out[i * QK_LANES + lane] =
                w->softmax.sums[i * QK_LANES + lane] / w->softmax.total[lane];
}

/* Adds the rows of a measured head's panel to its sums. */
static void measure_rows(const qk__attention *a, const walk *w, size_t query_head, size_t panel)
{
    const qk__measured_heads *m = a->measured;
    float *sums = m->sums + measured_number(a, query_head) * m->num_buckets * QK_ATTENTION_SUMS;
    qk__tally_add_rows(&m->text, panel, &w->softmax, w->tally, m->first_bucket, sums);
}

/* First panel of keys that some query of this panel sees. */
static size_t first_seen(const qk__attention *a, size_t panel)
{
    int64_t token = (int64_t)(panel * QK_LANES) - a->window + 1;
    return a->window > 0 && token > 0 ? (size_t)token / QK_LANES : 0;
}

/* Takes scores of keys that come later, or before the window, out of one panel. */
static void mask(const qk__attention *a, size_t query_panel, size_t key_panel, float *scores)
{
    int64_t ahead = (int64_t)(query_panel - key_panel) * QK_LANES;
    bool window_ends = a->window > 0 && ahead + QK_LANES > a->window;
    if (ahead > 0 && !window_ends)
        return;
    for (int64_t key = 0; key < QK_LANES; key++)
        for (int64_t lane = 0; lane < QK_LANES; lane++) {
            int64_t back = ahead + lane - key;
            if (back < 0 || (a->window > 0 && back >= a->window))
                scores[key * QK_LANES + lane] = -INFINITY;
        }
}

/* Products of a panel of keys with a panel of queries. */
static void score(const qk__attention *a, const float *keys, size_t head, const float *query,
                  float *scores)
{
    keys += head * qk__paired(a->bf16, a->head_dim) * QK_LANES;
    for (size_t key = 0; key < QK_LANES; key += QK_TILE)
        if (a->bf16)
            a->bf16->columns(keys + key, a->head_dim, query, in_ln2(a),
                             scores + key * QK_LANES);
        else
            a->kernel->columns(keys + key, a->head_dim, query, scores + key * QK_LANES);
}

/* Adds values of a head, weighted. */
static void weigh(const qk__attention *a, const float *values, size_t head, size_t panels,
                  float *weights, float *sums)
{
    size_t width = qk__whole_tiles(a->head_dim);
    size_t length = qk__paired(a->bf16, QK_LANES); /* of a feature's tokens */
    void (*rows)(const float *, size_t, size_t, size_t, size_t, const float *, bool, float *) =
        a->kernel->rows;
    if (a->bf16) {
        a->bf16->pair_features(weights, panels * QK_LANES, weights);
        rows = a->bf16->rows;
    } else {
        qk__round_values(a->rounding, weights, panels * QK_LANES * QK_LANES);
    }
    for (size_t i = 0; i < width; i += QK_TILE)
        rows(values + (head * a->head_dim + i) * length, length, QK_LANES, panels, a->step,
             weights, true, sums + i * QK_LANES);
}

void qk__attention_scores(const qk__attention *a, size_t head, const float *query,
                          size_t query_panel, const float *keys, size_t key_panel,
                          float *scratch, float *scores)
{
    prepare_query(a, query, scratch);
    score(a, keys, head, scratch, scores);
    mask(a, query_panel, key_panel, scores);
}

static const float *keys_at(const qk__attention *a, size_t panel)
{
    if (a->changed && a->changed->keys)
        return a->changed->keys(a->changed->context, panel);
    return (panel < a->own_from ? a->keys_before : a->keys) + panel * a->step;
}

/* One panel of queries meets the panels from .. to-1 of a head's keys. */
static void meet(const qk__attention *a, const walk *w, size_t query_panel, size_t from,
                 size_t to, size_t head, float *scores)
{
    for (size_t panel = from; panel < to; panel++) {
        float *part = scores + (panel - from) * QK_LANES * QK_LANES;
        score(a, keys_at(a, panel), head, w->query, part);
        mask(a, query_panel, panel, part);
        if (a->changed && a->changed->scores)
            a->changed->scores(a->changed->context, query_panel, panel, part);
    }
    const qk__softmax *s = &w->softmax;
    if (w->tally)
        qk__tally_scores(a->kernel, &a->measured->text, query_panel, from, to, scores, s,
                         w->tally);
    else
        a->kernel->softmax(scores, (to - from) * QK_LANES, s->top, s->total, s->sums, s->width);
    if (a->values)
        weigh(a, (from < a->own_from ? a->values_before : a->values) + from * a->step, head,
              to - from, scores, s->sums);
}

static void attend_head(const qk__attention *a, size_t head, size_t first_panel,
                        const qk__panels *queries, const qk__panels *out, float *scratch)
{
    size_t walks = a->group * queries->count, features = a->head_dim * QK_LANES;
    for (size_t i = 0; i < walks; i++) {
        walk w = walk_at(a, head, scratch, i);
        size_t query_head = head * a->group + i % a->group;
        start_rows(a, &w,
                   queries->values + i / a->group * queries->step + query_head * features);
    }
    size_t end = first_panel + queries->count;
    for (size_t block = first_seen(a, first_panel) / QK_KEY_PANELS * QK_KEY_PANELS; block < end;
         block += QK_KEY_PANELS)
        for (size_t i = 0; i < walks; i++) {
            walk w = walk_at(a, head, scratch, i);
            size_t panel = first_panel + i / a->group, seen = first_seen(a, panel);
            size_t from = block > seen ? block : seen;
            size_t to = block + QK_KEY_PANELS < panel + 1 ? block + QK_KEY_PANELS : panel + 1;
            if (from < to && (a->values || w.tally))
                meet(a, &w, panel, from, to, head, scratch);
        }
    for (size_t i = 0; i < walks; i++) {
        walk w = walk_at(a, head, scratch, i);
        size_t query_head = head * a->group + i % a->group;
        if (a->values)
            finish_rows(a, &w, out->values + i / a->group * out->step + query_head * features);
        if (w.tally)
            measure_rows(a, &w, query_head, first_panel + i / a->group);
    }
}

void qk__attend(const qk__attention *a, size_t first_panel, const qk__panels *queries,
                const qk__panels *out, float *scratch)
{
    for (size_t head = 0; head < a->num_k_heads; head++)
        attend_head(a, head, first_panel, queries, out, scratch);
}
