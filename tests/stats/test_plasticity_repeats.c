/* SPDX-License-Identifier: Apache-2.0 */
/* Plasticity without a group of texts: the formula of stats/plasticity_repeats.h by plain loops over the
 * pairs that were drawn and over those of the keys that are looked at. */
#include "plasticity_loops.h"
#include "plasticity_rows.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "stats/pair_sets.h"
#include "stats/plasticity_core.h"
#include "stats/plasticity_repeats.h"

enum { GROUPS = 5, MOST = 2000, LEAST_KEYS = 16 };

typedef struct head {
    qk_block q, k;
    uint32_t *group;                   /* of queries, then of keys */
    size_t *order;                     /* keys by example, bucket, position */
    double mean[GROUPS][LOOP_BUCKETS]; /* of what was drawn, without each group */
    int64_t drawn_from;                /* buckets */
    bool *some;                        /* keys that are looked at */
} head;

static const qk_block *sorted;

static int by_place(const void *a, const void *b)
{
    size_t i = *(const size_t *)a, j = *(const size_t *)b;
    const int64_t *columns[] = {sorted->example, sorted->bucket, sorted->position};
    for (size_t c = 0; c < 3; c++)
        if (columns[c][i] != columns[c][j])
            return columns[c][i] < columns[c][j] ? -1 : 1;
    return i < j ? -1 : 1;
}

static void make_head(head *h, const rows *shape)
{
    *h = (head){0};
    make(&h->q, &h->k, shape);
    h->group = test_calloc(h->q.rows + h->k.rows, sizeof *h->group);
    for (size_t i = 0; i < h->q.rows; i++)
        h->group[i] = (uint32_t)(h->q.example[i] + 4) / 3 % GROUPS;
    for (size_t i = 0; i < h->k.rows; i++)
        h->group[h->q.rows + i] = (uint32_t)(h->k.example[i] + 4) / 3 % GROUPS;
    h->order = test_calloc(h->k.rows, sizeof *h->order);
    for (size_t i = 0; i < h->k.rows; i++)
        h->order[i] = i;
    sorted = &h->k;
    qsort(h->order, h->k.rows, sizeof *h->order, by_place);
}

static void free_head(head *h)
{
    test_free(h->group);
    test_free(h->order);
    test_free(h->some);
    free_sample(&h->q);
    free_sample(&h->k);
}

/* Calls for all pairs (late, early) of keys that bucket j sees, in the order of their numbers. */
static size_t list_pairs(const head *h, const loops *l, size_t j, size_t (*pair)[2])
{
    const int64_t window = h->k.window ? h->k.window[0] : 0;
    size_t n = 0;
    for (size_t a = 0; a < h->k.rows; a++)
        for (size_t b = 0; b < a; b++) {
            size_t late = h->order[a], early = h->order[b];
            if (h->k.example[late] != h->k.example[early] ||
                !loop_eligible(l, &h->k, late, j, window) ||
                !loop_eligible(l, &h->k, early, j, window))
                continue;
            if (pair) {
                pair[n][0] = late;
                pair[n][1] = early;
            }
            n++;
        }
    return n;
}

/* The means of what bucket j draws, or has. */
static void find_means(head *h, const loops *l, size_t j, uint64_t seed)
{
    double sum[GROUPS] = {0}, count[GROUPS] = {0}, mu[LOOP_DIM], sigma[LOOP_DIM][LOOP_DIM];
    size_t n = list_pairs(h, l, j, NULL), met = n < MOST ? n : MOST;
    size_t(*pair)[2] = test_calloc(n + 1, sizeof *pair);
    uint64_t *number = test_calloc(met + 1, sizeof *number);
    const uint64_t words[] = {STREAM[0], STREAM[1], j};
    list_pairs(h, l, j, pair);
    for (size_t i = 0; i < met; i++)
        number[i] = i;
    if (n > MOST) {
        assert_int_equal(qk__draw(number, MOST, n, seed, words, 3, NULL), QK_OK);
        h->drawn_from++;
    }
    loop_bucket_model(l, h->q.dim, j, mu, sigma);
    for (size_t i = 0; i < met; i++) {
        const size_t *p = pair[number[i]];
        uint32_t g = h->group[h->q.rows + p[0]];
        sum[g] += loop_undecided(l, &h->k, p[0], p[1], mu, sigma);
        count[g]++;
    }
    for (size_t g = 0; g < GROUPS; g++) {
        double rest = 0, of = 0;
        for (size_t other = 0; other < GROUPS; other++) {
            rest += other == g ? 0 : sum[other];
            of += other == g ? 0 : count[other];
        }
        h->mean[g][j] = rest / of;
    }
    test_free(pair);
    test_free(number);
}

/* Marks every so many keys of every so many texts of a group. */
static void choose(head *h, double most)
{
    size_t texts = 0, seen[GROUPS] = {0};
    for (size_t i = 0; i < h->k.rows; i++)
        texts += i == 0 || h->k.example[h->order[i]] != h->k.example[h->order[i - 1]];
    double step = fmin(ceil(sqrt(most / MOST)),
                       fmax(floor((double)h->k.rows / (double)texts / LEAST_KEYS), 1));
    size_t stride = (size_t)fmax(ceil(most / MOST / (step * step)), 1);
    h->some = test_calloc(h->k.rows, sizeof *h->some);
    for (size_t i = 0, text = SIZE_MAX, within = 0, number = 0; i < h->k.rows; i++, within++) {
        size_t row = h->order[i];
        if (i == 0 || h->k.example[row] != h->k.example[h->order[i - 1]]) {
            number = seen[h->group[h->q.rows + row]]++;
            within = 0;
            text++;
        }
        h->some[row] = number % stride == 0 && within % (size_t)step == text % (size_t)step;
    }
}

/* The keys that are looked at, but those of a group. */
static qk_block some_without(const head *h, uint32_t g, uint32_t *absent)
{
    qk_block k = h->k;
    for (size_t i = 0; i < k.rows; i++)
        absent[i] = !h->some[i] || h->group[h->q.rows + i] == g;
    k.group = absent;
    k.left_out = 1;
    return k;
}

/* What is expected without group g goes to l->profile of the loops over the rest. */
static loops *expect(const head *h, uint32_t g, double width)
{
    uint32_t *absent = test_calloc(h->k.rows, sizeof *absent);
    qk_block q = h->q, k = some_without(h, g, absent);
    loops *before = loop_over(&q, &k, width);
    q.group = h->group;
    q.left_out = g;
    loops *after = loop_over(&q, &k, width);
    for (size_t j = 1; j < LOOP_BUCKETS; j++) {
        double change = after->profile[j].ap - before->profile[j].ap;
        after->profile[j].ap = h->mean[g][j] + (isnan(change) ? 0 : change);
        after->profile[j].pairs = after->queries[j] > 0 && !isnan(h->mean[g][j]);
    }
    after->overall = loop_part(after, &q, 0, 1);
    for (int i = 0; i < QK_FIFTHS; i++)
        after->fifths[i] = loop_part(after, &q, i, QK_FIFTHS);
    free(before);
    test_free(absent);
    return after;
}

static void check_head(head *h)
{
    qk_plasticity_settings settings = exactly();
    qk__plasticity_repeats repeats = {
        .drawn = {.group = h->group + h->q.rows, .groups = GROUPS}};
    qk_plasticity *p;
    qk__key_index *index;
    qk_moments *all = moments_of(&h->q);
    settings.max_pairs = MOST;
    settings.seed = 5;
    assert_int_equal(qk__key_index_create(&index, &h->k, NULL), QK_OK);
    qk__plasticity_input in = {.queries = &h->q,
                               .keys = &h->k,
                               .index = index,
                               .settings = &settings,
                               .stream = STREAM,
                               .parts = &repeats.drawn};
    assert_int_equal(qk__plasticity_fit(all, &in, 1, &p, NULL), QK_OK);
    qk_block q = h->q, k = h->k;
    q.group = h->group;
    k.group = h->group + h->q.rows;
    in.queries = &q;
    in.keys = &k;
    in.parts = NULL;
    assert_int_equal(qk__plasticity_repeats_open(&repeats, all, &in, 1, NULL), QK_OK);

    loops *l = loop_over(&h->q, &h->k, p->bucket_width);
    size_t most = 0;
    for (size_t j = 1; j < LOOP_BUCKETS; j++) {
        size_t pairs = l->queries[j] > 0 ? list_pairs(h, l, j, NULL) : 0;
        most = pairs > most ? pairs : most;
        if (pairs > 0)
            find_means(h, l, j, settings.seed);
        for (size_t g = 0; g < GROUPS; g++)
            h->mean[g][j] = pairs > 0 ? h->mean[g][j] : NAN;
    }
    assert_true(h->drawn_from >= 3 && repeats.keys && repeats.keys->rows < index->rows);
    choose(h, (double)most);
    for (uint32_t g = 0; g < GROUPS; g++) {
        double overall, fifths[QK_FIFTHS];
        qk__query_model *model;
        q.left_out = k.left_out = g;
        qk_moments *rest = moments_of(&q);
        assert_int_equal(qk__query_model_create(&model, rest, NULL, 1, NULL), QK_OK);
        assert_int_equal(qk__plasticity_without(&repeats, model, &in, &overall, fifths, NULL),
                         QK_OK);
        loops *want = expect(h, g, p->bucket_width);
        assert_near(overall, want->overall, 1e-11);
        for (int i = 0; i < QK_FIFTHS; i++)
            assert_near(fifths[i], want->fifths[i], 1e-11);
        free(want);
        qk__query_model_free(&model);
        qk_moments_free(&rest);
    }
    free(l);
    qk__plasticity_repeats_free(&repeats);
    qk__key_index_free(&index);
    qk__plasticity_free(&p);
    qk_moments_free(&all);
}

/* Long texts, texts of which several share a block, and many that are thinned by texts; with and without a
 * window. */
static void they_are_the_formula(void **state)
{
    (void)state;
    static const rows shapes[] = {
        {.dim = 6, .examples = 5, .buckets = 12, .each = 14, .width = 64},
        {.dim = 5, .examples = 20, .buckets = 8, .each = 5, .width = 16, .wide = true},
        {.dim = 4, .examples = 60, .buckets = 10, .each = 2, .width = 10},
        {.dim = 5, .examples = 10, .buckets = 12, .each = 10, .width = 64, .window = 300},
    };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        head h;
        make_head(&h, &shapes[s]);
        check_head(&h);
        free_head(&h);
    }
}

/* Where nothing is drawn, every number is computed again from the pairs that are left. */
static void few_pairs_are_all_met_again(void **state)
{
    (void)state;
    const rows shape = {.dim = 6, .examples = 10, .buckets = 8, .each = 2, .width = 64};
    head h;
    make_head(&h, &shape);
    qk_plasticity_settings settings = exactly();
    qk__plasticity_repeats repeats = {.drawn = {.group = h.group + h.q.rows, .groups = GROUPS}};
    h.q.group = h.group;
    h.k.group = h.group + h.q.rows;
    qk_moments *all = moments_of(&h.q);
    settings.max_pairs = MOST;
    const qk__plasticity_input in = {
        .queries = &h.q, .keys = &h.k, .settings = &settings, .stream = STREAM};
    assert_int_equal(qk__plasticity_repeats_open(&repeats, all, &in, 1, NULL), QK_OK);
    assert_null(repeats.keys);
    for (uint32_t g = 0; g < GROUPS; g++) {
        double overall, fifths[QK_FIFTHS];
        qk__query_model *model;
        h.q.left_out = h.k.left_out = g;
        qk_moments *rest = moments_of(&h.q);
        assert_int_equal(qk__query_model_create(&model, rest, NULL, 1, NULL), QK_OK);
        assert_int_equal(qk__plasticity_without(&repeats, model, &in, &overall, fifths, NULL),
                         QK_OK);
        loops *want = loop_over(&h.q, &h.k, 64);
        assert_near(overall, want->overall, 1e-12);
        free(want);
        qk__query_model_free(&model);
        qk_moments_free(&rest);
    }
    qk__plasticity_repeats_free(&repeats);
    qk_moments_free(&all);
    free_head(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_the_formula),
        cmocka_unit_test(few_pairs_are_all_met_again),
    };
    return cmocka_run_group_tests_name("plasticity without a group", tests, NULL, NULL);
}
