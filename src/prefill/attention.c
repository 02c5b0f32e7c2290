/* SPDX-License-Identifier: Apache-2.0 */
/* Attention with a running softmax.
 *
 * Keys come in blocks of BLOCK panels counted from the start of the sequence, so that a query's
 * sums have the same order wherever its block of queries begins; of a block only those panels
 * are looked at that some query of the panel sees. All heads of a group and all panels of
 * queries meet a block while it is in the cache. */
#include "prefill/attention.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "prefill/rounding.h"

enum { BLOCK = 4 };

/* One panel of queries of one head on its way through the keys. */
typedef struct walk {
    float *query;       /* [head_dim][lanes], times scale / ln 2, or paired */
    float *sums;        /* [head_dim in whole tiles][lanes] */
    float *top, *total; /* [lanes] */
} walk;

static size_t walk_size(const qk__attention *a)
{
    return (a->head_dim + qk__whole_tiles(a->head_dim) + 2) * QK_LANES;
}

size_t qk__attention_scratch(const qk__attention *a, size_t panels)
{
    return BLOCK * QK_LANES * QK_LANES + a->group * panels * walk_size(a);
}

static walk walk_at(const qk__attention *a, float *scratch, size_t i)
{
    float *at = scratch + BLOCK * QK_LANES * QK_LANES + i * walk_size(a);
    walk w = {.query = at};
    w.sums = at + a->head_dim * QK_LANES;
    w.top = w.sums + qk__whole_tiles(a->head_dim) * QK_LANES;
    w.total = w.top + QK_LANES;
    return w;
}

/* What makes a score of a product, in units of ln 2. */
static float in_ln2(const qk__attention *a)
{
    return a->scale * 0x1.715476p+0f;
}

static void start_rows(const qk__attention *a, const walk *w, const float *query)
{
    if (a->bf16)
        a->bf16->pair_features(query, a->head_dim, w->query);
    else
        for (size_t i = 0; i < a->head_dim * QK_LANES; i++)
            w->query[i] = query[i] * in_ln2(a);
    memset(w->sums, 0, qk__whole_tiles(a->head_dim) * QK_LANES * sizeof(float));
    for (size_t lane = 0; lane < QK_LANES; lane++) {
        w->top[lane] = -FLT_MAX;
        w->total[lane] = 0;
    }
}

static void finish_rows(const qk__attention *a, const walk *w, float *out)
{
    for (size_t i = 0; i < a->head_dim; i++)
        for (size_t lane = 0; lane < QK_LANES; lane++)
            out[i * QK_LANES + lane] = w->sums[i * QK_LANES + lane] / w->total[lane];
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

/* One panel of queries meets the panels from .. to-1 of a head's keys. */
static void meet(const qk__attention *a, const walk *w, size_t query_panel, size_t from,
                 size_t to, size_t head, float *scores)
{
    for (size_t panel = from; panel < to; panel++) {
        float *part = scores + (panel - from) * QK_LANES * QK_LANES;
        score(a, a->keys + panel * a->step, head, w->query, part);
        mask(a, query_panel, panel, part);
    }
    size_t width = qk__whole_tiles(a->head_dim);
    a->kernel->softmax(scores, (to - from) * QK_LANES, w->top, w->total, w->sums, width);
    weigh(a, a->values + from * a->step, head, to - from, scores, w->sums);
}

static void attend_head(const qk__attention *a, size_t head, size_t first_panel,
                        const qk__panels *queries, const qk__panels *out, float *scratch)
{
    size_t walks = a->group * queries->count, features = a->head_dim * QK_LANES;
    for (size_t i = 0; i < walks; i++) {
        walk w = walk_at(a, scratch, i);
        size_t query_head = head * a->group + i % a->group;
        start_rows(a, &w,
                   queries->values + i / a->group * queries->step + query_head * features);
    }
    size_t end = first_panel + queries->count;
    for (size_t block = first_seen(a, first_panel) / BLOCK * BLOCK; block < end; block += BLOCK)
        for (size_t i = 0; i < walks; i++) {
            walk w = walk_at(a, scratch, i);
            size_t panel = first_panel + i / a->group, seen = first_seen(a, panel);
            size_t from = block > seen ? block : seen;
            size_t to = block + BLOCK < panel + 1 ? block + BLOCK : panel + 1;
            if (from < to)
                meet(a, &w, panel, from, to, head, scratch);
        }
    for (size_t i = 0; i < walks; i++) {
        walk w = walk_at(a, scratch, i);
        size_t query_head = head * a->group + i % a->group;
        finish_rows(a, &w, out->values + i / a->group * out->step + query_head * features);
    }
}

void qk__attend(const qk__attention *a, size_t first_panel, const qk__panels *queries,
                const qk__panels *out, float *scratch)
{
    for (size_t head = 0; head < a->num_k_heads; head++)
        attend_head(a, head, first_panel, queries, out, scratch);
}
