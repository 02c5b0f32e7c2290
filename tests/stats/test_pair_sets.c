/* SPDX-License-Identifier: Apache-2.0 */
/* Which pairs are drawn, against Floyd's algorithm written down, and that it does not matter
 * how they are then met. */
#include "plasticity_rows.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "stats/pair_sets.h"
#include "stats/pairs.h"
#include "stats/plasticity_core.h"
#include "stats/whitening.h"

/* One byte a number. */
static void floyd(uint8_t *in, size_t limit, size_t count, uint64_t seed, const uint64_t *words,
                  size_t num_words)
{
    qk__rng rng;
    qk__rng_init(&rng, seed, words, num_words);
    memset(in, 0, count);
    for (size_t last = count - limit; last < count; last++) {
        uint64_t number = qk__rng_below(&rng, last + 1);
        in[in[number] ? last : number] = 1;
    }
}

static const struct {
    size_t limit, count;
} DRAWS[] = {{1, 2},          {5, 5},           {63, 64},       {1, 64},         {257, 300},
             {700, 1500},     {3000, 3001},     {3000, 190000}, {3000, 1000000}, {65536, 66000},
             {65536, 500000}, {40000, 2500000}, {70000, 100000}};

enum { NUM_DRAWS = sizeof DRAWS / sizeof *DRAWS };

static void numbers_are_floyds(void **state)
{
    (void)state;
    const uint64_t words[] = {5, 6, 7, 8};
    for (size_t c = 0; c < NUM_DRAWS; c++) {
        size_t limit = DRAWS[c].limit, count = DRAWS[c].count, found = 0;
        uint8_t *in = test_calloc(count, 1);
        uint64_t *numbers = test_calloc(limit, sizeof *numbers);
        floyd(in, limit, count, c, words, 3 + c % 2);
        assert_int_equal(qk__draw(numbers, limit, count, c, words, 3 + c % 2, NULL), QK_OK);
        for (size_t i = 0; i < count; i++)
            if (in[i])
                assert_int_equal(numbers[found++], i);
        assert_int_equal(found, limit);
        test_free(in);
        test_free(numbers);
    }
}

/* Sets of different counts side by side, also more and fewer of them than a kernel has lanes. */
static void sets_are_floyds(void **state)
{
    (void)state;
    for (size_t num = 1; num <= 2 * LANES + 1; num += 4) {
        qk__pair_set sets[2 * LANES + 1];
        size_t limit = num % 3 ? 2000 : 700, most = 300000;
        uint8_t *in = test_calloc(most, 1);
        for (size_t i = 0; i < num; i++) {
            int64_t count = (int64_t)(i % 5 == 4 ? limit + i : limit + 1024 + i * i * 999);
            sets[i] = (qk__pair_set){count, {1, 2, i}, NULL};
            sets[i].bits = test_calloc(qk__set_words(count), sizeof(uint64_t));
        }
        assert_int_equal(qk__draw_sets(sets, num, 3, limit, 77, NULL), QK_OK);
        for (size_t i = 0; i < num; i++) {
            floyd(in, limit, (size_t)sets[i].count, 77, sets[i].words, 3);
            for (size_t n = 0; n < qk__set_words(sets[i].count) * 64; n++)
                assert_int_equal(sets[i].bits[n / 64] >> (n % 64) & 1,
                                 n < (size_t)sets[i].count && in[n]);
            test_free(sets[i].bits);
        }
        test_free(in);
    }
}

/* Every bucket by itself: what it draws is looked up pair by pair, or it counts all its pairs. */
static void look_up(const qk__pair_space *space, const qk__query_model *model,
                    const qk_plasticity_settings *settings, qk__tally *tally)
{
    qk__whitening *whitening;
    assert_int_equal(qk__whitening_create(&whitening, model, NULL), QK_OK);
    const qk__pair_sums sums = {space, whitening, model->mean_t, tally};
    qk__count_pairs(space, tally->pairs);
    for (size_t j = 0; j < space->grid->num; j++) {
        tally->limit = settings->max_pairs;
        if (tally->pairs[j] > tally->limit)
            assert_int_equal(qk__add_drawn_pairs(&sums, j, SIZE_MAX, tally->pairs[j],
                                                 settings->seed, STREAM, NULL),
                             QK_OK);
        else
            assert_int_equal(qk__add_all_pairs(&sums, &j, NULL, 1, false, NULL), QK_OK);
    }
    qk__whitening_free(&whitening);
}

static void same_tables(const qk_plasticity *p, const qk__tally *tally, int64_t limit)
{
    size_t next = 0;
    for (size_t j = 0; j < p->num_profile; j++) {
        int64_t pairs = tally->pairs[j] < limit ? tally->pairs[j] : limit;
        assert_int_equal(p->profile[j].pairs, pairs);
        if (pairs > 0)
            assert_near(p->profile[j].ap, tally->ap[j] / (double)pairs, 1e-13);
    }
    for (size_t i = 0; i < tally->bins->distances * tally->bins->lags; i++) {
        const qk__bin *bin = &tally->bins->bin[i];
        if (bin->pairs == 0)
            continue;
        assert_int_equal(p->distances[next].pairs, bin->pairs);
        assert_near(p->distances[next++].ap, bin->ap / (double)bin->pairs, 1e-12);
    }
    assert_int_equal(next, p->num_distances);
}

/* Long and short examples, one after the other and mixed. */
static void both_ways_meet_the_same_pairs(void **state)
{
    (void)state;
    static const rows shapes[] = {
        {.dim = 9, .examples = 3, .buckets = 12, .each = 30, .width = 64},
        {.dim = 16, .examples = 90, .buckets = 20, .each = 2, .width = 10},
        {.dim = 5, .examples = 40, .buckets = 70, .each = 1, .width = 16, .wide = true},
        {.dim = 3, .examples = 13, .buckets = 9, .each = 10, .width = 64},
    };
    for (size_t s = 0; s < 2 * sizeof shapes / sizeof *shapes; s++) {
        qk_block q, k;
        make(&q, &k, &shapes[s / 2]);
        int64_t *example = test_calloc(k.rows, sizeof *example);
        for (size_t i = 0; i < k.rows; i++) /* some of twice the length, some without a few */
            example[i] = k.example[i] % 4 == 2 ? 5 : k.example[i] + (i % 7 == 0);
        if (s % 2)
            k.example = example;
        qk_plasticity_settings settings = {.seed = s};
        settings.max_pairs = 2000;
        qk_plasticity *p = fit(&q, &k, &settings);
        assert_true(p->cells_sampled >= 4);
        qk__pair_source source;
        qk__query_model *model;
        qk_moments *m = moments_of(&q);
        const qk__plasticity_input in = {.queries = &q, .keys = &k, .settings = &settings};
        assert_int_equal(qk__pair_source_open(&source, &in, NULL), QK_OK);
        assert_int_equal(qk__query_model_create(&model, m, NULL, 1, NULL), QK_OK);
        qk__tally tally = {.ap = test_calloc(source.grid->num, sizeof(double)),
                           .weight = test_calloc(source.grid->num, sizeof(double)),
                           .pairs = test_calloc(source.grid->num, sizeof(int64_t))};
        assert_int_equal(
            qk__bin_table_create(&tally.bins, &source.space, p->bucket_width, NULL), QK_OK);
        look_up(&source.space, model, &settings, &tally);
        same_tables(p, &tally, settings.max_pairs);
        qk__bin_table_free(&tally.bins);
        test_free(tally.ap);
        test_free(tally.weight);
        test_free(tally.pairs);
        test_free(example);
        qk__query_model_free(&model);
        qk_moments_free(&m);
        qk__pair_source_close(&source);
        qk__plasticity_free(&p);
        if (s % 2) /* what was allocated for it goes with the other columns */
            k.example = k.position + 2 * k.rows;
        free_sample(&q);
        free_sample(&k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_floyds),
        cmocka_unit_test(sets_are_floyds),
        cmocka_unit_test(both_ways_meet_the_same_pairs),
    };
    return cmocka_run_group_tests_name("pair sets", tests, NULL, NULL);
}
