/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of branches that are changed. Such a head attends once more, by itself, with the operations of all heads: a
 * change that changes nothing gives the same bytes. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "prefill/prefill.h"

enum { UNMADE = -1 };

/* One changed head, on its way through a block of queries. */
typedef struct changing {
    const qk__prefill_run *run;
    const qk_head_change *change;
    size_t sequence, first_panel; /* of the block */
    qk__panels queries;           /* as the head has them, [head_dim][lanes] */
    qk__attention attention;      /* of this head alone, as it is */
    const float *unrotated, *unrotated_before;
    /* Scratch. */
    float *changed, *out; /* [panels][head_dim][lanes] */
    float *keys;          /* [QK_KEY_PANELS][head_dim][lanes] */
    int64_t made[QK_KEY_PANELS];
    /* [panels][QK_PROFILE_SHARES][lanes] scores of a profile; NaN: the row keeps its own */
    float *levels;
    float *scores, *prepared; /* of keys that keep theirs */
    float *rotation;
} changing;

/* ---- queries and keys -------------------------------------------------------------------- */

static void round_features(const changing *c, float *values)
{
    qk__round_values(c->run->rounding, values, c->attention.head_dim * QK_LANES);
}

/* Rotates a panel as the change has it. */
static void turn(const changing *c, size_t panel, bool keys, float *values)
{
    const qk__prefill_run *run = c->run;
    const qk__rope *rope = run->model->layers[run->layer].rope;
    const int64_t count = run->sequences[c->sequence].count;
    int32_t positions[QK_LANES];
    if (!rope)
        return;
    for (size_t lane = 0; lane < QK_LANES; lane++) {
        const size_t at = panel * QK_LANES + lane;
        positions[lane] = keys && c->change->positions && at < (size_t)count
                              ? c->change->positions[at]
                              : (int32_t)at;
    }
    qk__panel_rotation rotation = qk__rotation_of(&run->tables[rope - run->model->ropes], count,
                                                  positions, c->change->frozen, 1, c->rotation);
    rotation.interleaved = run->model->config.interleaved_rope;
    qk__rotate(run->kernel, &rotation, 0, values);
}

/* One panel of keys of the head, kept while its block of panels is in hand. */
static const float *turned_keys(void *context, size_t panel)
{
    changing *c = context;
    const qk__attention *a = &c->attention;
    const size_t place = panel % QK_KEY_PANELS, head = a->head_dim * QK_LANES;
    float *keys = c->keys + place * head;
    if (c->made[place] == (int64_t)panel)
        return keys;
    memcpy(keys, (panel < a->own_from ? c->unrotated_before : c->unrotated) + panel * a->step,
           head * sizeof *keys);
    turn(c, panel, true, keys);
    if (a->bf16)
        a->bf16->pair_features(keys, a->head_dim, keys);
    c->made[place] = (int64_t)panel;
    return keys;
}

static void take_direction(const changing *c, float *query)
{
    const float *u = c->change->values;
    for (size_t lane = 0; lane < QK_LANES; lane++) {
        float along = 0;
        for (size_t i = 0; i < c->attention.head_dim; i++)
            along += u[i] * query[i * QK_LANES + lane];
        along *= c->change->part;
        for (size_t i = 0; i < c->attention.head_dim && along != 0; i++)
            query[i * QK_LANES + lane] -= along * u[i];
    }
    round_features(c, query);
}

/* unrotated: queries of all heads before rotation, in panels of the same step. */
static void change_queries(const changing *c, const float *unrotated)
{
    const size_t head = c->attention.head_dim * QK_LANES;
    const bool turned = c->change->kind == QK_CHANGE_ROTATION;
    for (size_t p = 0; p < c->queries.count; p++) {
        float *query = c->changed + p * head;
        memcpy(query, (turned ? unrotated : c->queries.values) + p * c->queries.step,
               head * sizeof *query);
        if (turned)
            turn(c, c->first_panel + p, false, query);
        if (turned && c->run->model->config.query_scale_beta != 0) {
            const qk__panels one = {query, head, 1};
            qk__prefill_scale_queries(c->run, c->first_panel + p, &one, c->attention.head_dim);
        }
        if (c->change->kind == QK_CHANGE_DIRECTION)
            take_direction(c, query);
    }
}

/* ---- scores ------------------------------------------------------------------------------ */

/* Keys that row i sees at distances least .. most, of keys `from` .. `to`. */
static int64_t count_keys(int64_t i, int64_t window, int64_t from, int64_t to, int64_t least,
                          int64_t most)
{
    const int64_t nearest = i - to > least ? i - to : least;
    int64_t furthest = i - from < most ? i - from : most;
    if (window > 0 && furthest > window - 1)
        furthest = window - 1;
    return furthest < nearest ? 0 : furthest - nearest + 1;
}

/* Keys that row i sees among which a share is divided. */
static int64_t count_share(int64_t i, int64_t window, int share)
{
    const int bin = share - 2;
    if (share == 0)
        return 1;
    if (share == 1)
        return count_keys(i, window, 1, QK_SINK_KEYS - 1, 0, INT64_MAX);
    if (bin == 0)
        return count_keys(i, window, QK_SINK_KEYS, i, 0, 0);
    const int64_t least = INT64_C(1) << (bin - 1);
    return count_keys(i, window, QK_SINK_KEYS, i, least,
                      bin + 1 < QK_DISTANCE_BINS ? 2 * least - 1 : INT64_MAX);
}

/* Scores that give the keys of a row the shares of a profile; a share of 0 is a very small one, for a row
 * may see no others. */
static void make_levels(const changing *c, size_t panel, float *levels)
{
    for (size_t lane = 0; lane < QK_LANES; lane++) {
        const int64_t row = (int64_t)(panel * QK_LANES + lane);
        const float *shares =
            c->change->values + (size_t)qk_distance_bin(row) * QK_PROFILE_SHARES;
        for (int k = 0; k < QK_PROFILE_SHARES; k++) {
            const int64_t n = count_share(row, c->attention.window, k);
            float *level = &levels[(size_t)k * QK_LANES + lane];
            *level = row < QK_FAR_POSITION
                         ? NAN
                         : log2f(fmaxf(shares[k], 1e-30f) / (float)(n > 0 ? n : 1));
        }
    }
}

static void score_profile(const changing *c, size_t query_panel, size_t key_panel,
                          float *scores)
{
    const float *levels =
        c->levels + (query_panel - c->first_panel) * QK_PROFILE_SHARES * QK_LANES;
    for (size_t key = 0; key < QK_LANES; key++)
        for (size_t lane = 0; lane < QK_LANES; lane++) {
            const size_t j = key_panel * QK_LANES + key, i = query_panel * QK_LANES + lane;
            float *score = &scores[key * QK_LANES + lane];
            if (j > i || *score == -INFINITY)
                continue;
            const size_t k = j == 0             ? 0
                             : j < QK_SINK_KEYS ? 1
                                                : 2 + (size_t)qk_distance_bin((int64_t)(i - j));
            if (!isnan(levels[k * QK_LANES + lane]))
                *score = levels[k * QK_LANES + lane];
        }
}

static void change_scores(void *context, size_t query_panel, size_t key_panel, float *scores)
{
    changing *c = context;
    const qk_head_change *change = c->change;
    if (change->kind == QK_CHANGE_PROFILE)
        score_profile(c, query_panel, key_panel, scores);
    for (size_t key = 0; key < QK_LANES; key++)
        for (size_t lane = 0; lane < QK_LANES; lane++) {
            const int64_t j = (int64_t)(key_panel * QK_LANES + key);
            const int64_t i = (int64_t)(query_panel * QK_LANES + lane);
            float *score = &scores[key * QK_LANES + lane];
            if ((change->kind == QK_CHANGE_WINDOW && i - j >= change->window &&
                 j >= change->kept) ||
                (change->kind == QK_CHANGE_NO_SINK && j < QK_SINK_KEYS && i != j))
                *score = -INFINITY;
            else if (change->kind == QK_CHANGE_UNIFORM && *score != -INFINITY)
                *score = 0;
        }
    if (!change->keep_first || key_panel > 0)
        return;
    const qk__attention *a = &c->attention;
    qk__attention_scores(
        a, 0, c->queries.values + (query_panel - c->first_panel) * c->queries.step, query_panel,
        a->own_from > 0 ? a->keys_before : a->keys, 0, c->prepared, c->scores);
    memcpy(scores, c->scores, QK_SINK_KEYS * QK_LANES * sizeof *scores);
}

static bool changes_scores(const qk_head_change *change)
{
    return change->keep_first || change->kind == QK_CHANGE_PROFILE ||
           change->kind == QK_CHANGE_WINDOW || change->kind == QK_CHANGE_NO_SINK ||
           change->kind == QK_CHANGE_UNIFORM;
}

/* ---- a head ------------------------------------------------------------------------------ */

static void attend_changed(changing *c, const float *unrotated, float *scratch)
{
    const qk__changed_scores changed = {
        .keys = c->change->kind == QK_CHANGE_ROTATION ? turned_keys : NULL,
        .scores = changes_scores(c->change) ? change_scores : NULL,
        .context = c,
    };
    const size_t step = c->attention.head_dim * QK_LANES;
    const qk__panels queries = {c->changed, step, c->queries.count};
    const qk__panels out = {c->out, step, c->queries.count};
    qk__attention attention = c->attention;
    attention.changed = &changed;
    change_queries(c, unrotated);
    for (size_t i = 0; i < QK_KEY_PANELS; i++)
        c->made[i] = UNMADE;
    for (size_t p = 0; c->change->kind == QK_CHANGE_PROFILE && p < c->queries.count; p++)
        make_levels(c, c->first_panel + p, c->levels + p * QK_PROFILE_SHARES * QK_LANES);
    qk__attend(&attention, c->first_panel, &queries, &out, scratch);
}

/* The mean output of the rows' bins, or none. */
static void put_out(const changing *c)
{
    const size_t width = c->attention.head_dim, rows = c->queries.count * QK_LANES;
    for (size_t i = 0; i < rows; i++) {
        const int64_t row = (int64_t)(c->first_panel * QK_LANES + i);
        const float *values =
            c->change->values ? c->change->values + (size_t)qk_distance_bin(row) * width : NULL;
        for (size_t j = 0; j < width; j++)
            c->out[(i / QK_LANES * width + j) * QK_LANES + i % QK_LANES] =
                values ? values[j] : 0;
    }
}

static void take_scratch(changing *c, const qk__prefill_scratch *scratch)
{
    const size_t head = c->attention.head_dim * QK_LANES;
    c->changed = scratch->changes;
    c->out = c->changed + QK_MAX_PANELS * head;
    c->keys = c->out + QK_MAX_PANELS * head;
    c->levels = c->keys + QK_KEY_PANELS * head;
    c->scores = c->levels + QK_MAX_PANELS * QK_PROFILE_SHARES * QK_LANES;
    c->prepared = c->scores + QK_LANES * QK_LANES;
    c->rotation = c->prepared + head;
}

/* Points the parts of an attention of all heads to one of them. */
static void choose_head(changing *c, size_t q_head)
{
    qk__attention *a = &c->attention;
    const qk__prefill_run *run = c->run;
    const size_t k_head = q_head / a->group, features = k_head * a->head_dim;
    const size_t at = k_head * qk__paired(a->bf16, a->head_dim) * QK_LANES;
    const size_t values = features * qk__paired(a->bf16, QK_LANES);
    if (run->unrotated) {
        c->unrotated = run->unrotated + (a->keys - run->keys) + features * QK_LANES;
        if (a->own_from > 0)
            c->unrotated_before =
                run->unrotated + (a->keys_before - run->keys) + features * QK_LANES;
    }
    a->keys += at;
    a->values += values;
    if (a->own_from > 0) {
        a->keys_before += at;
        a->values_before += values;
    }
    a->num_k_heads = a->group = 1;
}

/* Rows that are changed; those before them stay. */
static void put_rows(const changing *c, int64_t first_row, const qk__panels *to)
{
    const size_t head = c->attention.head_dim * QK_LANES;
    for (size_t p = 0; p < to->count; p++) {
        const int64_t row = (int64_t)((c->first_panel + p) * QK_LANES);
        for (size_t i = 0; i < head; i++)
            if (row + (int64_t)(i % QK_LANES) >= first_row)
                to->values[p * to->step + i] = c->out[p * head + i];
    }
}

void qk__prefill_change(const qk__prefill_run *run, const qk__branch *branch,
                        const qk__panel_block *block, size_t skipped, const qk__panels *q,
                        const qk__panels *attended, const qk__prefill_scratch *scratch)
{
    for (size_t i = 0; i < branch->given->num_changes; i++) {
        const qk_head_change *change = &branch->given->changes[i];
        if (change->layer != run->layer)
            continue;
        changing c = {.run = run,
                      .change = change,
                      .sequence = block->sequence,
                      .first_panel = block->first_panel};
        qk__prefill_attention_of(run, block->sequence, &c.attention);
        const size_t at = (size_t)change->q_head * c.attention.head_dim * QK_LANES;
        c.queries = (qk__panels){q->values + at, q->step, q->count};
        choose_head(&c, (size_t)change->q_head);
        take_scratch(&c, scratch);
        if (change->kind == QK_CHANGE_OUTPUT)
            put_out(&c);
        else
            attend_changed(&c, scratch->before + skipped * q->step + at, scratch->attention);
        for (size_t p = 0; p < q->count; p++)
            round_features(&c, c.out + p * c.attention.head_dim * QK_LANES);
        const qk__panels to = {attended->values + at, attended->step, attended->count};
        put_rows(&c, branch->first_row, &to);
    }
}
