/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of chosen keys: over all choices that there are, what they sum to is what all keys do. */
#include "unit.h"

#include <math.h>
#include <string.h>

#include "stats/key_index.h"
#include "stats/key_weights.h"

/* Two texts of two buckets of K keys each, one more bucket of fewer than N. */
enum { K = 4, N = 2, FEWER = 1, STRATA = 4, MOST = STRATA * K + FEWER };

typedef struct keys {
    qk_block block;
    float x[MOST];
    int64_t example[MOST], bucket[MOST], position[MOST];
} keys;

static void add(keys *k, int64_t example, int64_t bucket, int64_t position)
{
    size_t i = k->block.rows++;
    k->x[i] = 1;
    k->example[i] = example;
    k->bucket[i] = bucket;
    k->position[i] = position;
}

static void start(keys *k)
{
    k->block = (qk_block){.dim = 1,
                          .f32 = k->x,
                          .example = k->example,
                          .bucket = k->bucket,
                          .position = k->position};
}

/* Any function of two keys that no others have the same of. */
static double value(double a, double b)
{
    return sin(a + 2 * b) + 2;
}

/* Sum over the pairs of each text of value times weight; of the weights themselves in *weights. */
static double sum(const qk__key_index *index, double *weights)
{
    double total = 0;
    *weights = 0;
    for (size_t e = 0; e < index->num_examples; e++)
        for (size_t a = index->start[e]; a < index->start[e + 1]; a++)
            for (size_t b = index->start[e]; b < a; b++) {
                double w = index->weight ? qk__pair_weight(index, a, b) : 1;
                total += w * value(index->position[a], index->position[b]);
                *weights += w;
            }
    return total;
}

static const uint64_t LABELS[] = {0, 1};
static const int64_t COUNTS[] = {2 * K + FEWER, 2 * K};

static qk__reservoir of_texts(void)
{
    return (qk__reservoir){
        .most = N, .mask = 1, .num_groups = 2, .label = LABELS, .count = COUNTS};
}

static qk__key_index *index_of(keys *k)
{
    qk__key_index *index;
    const qk__reservoir reservoir = of_texts();
    assert_int_equal(qk__key_index_create(&index, &k->block, NULL), QK_OK);
    assert_int_equal(qk__reservoir_weigh(index, &k->block, &reservoir, NULL), QK_OK);
    return index;
}

/* Positions of key i of stratum s, whichever are chosen. */
static int64_t position_of(int s, int i)
{
    return s * 10 + i;
}

static void on_average_all_pairs(void **state)
{
    (void)state;
    keys all = {0}, some;
    double weights, expected_weights, expected, mean = 0, choices = 0;
    start(&all);
    for (int s = 0; s < STRATA; s++)
        for (int i = 0; i < K; i++)
            add(&all, s / 2, s % 2, position_of(s, i));
    add(&all, 0, 7, 99);
    qk__key_index *index;
    assert_int_equal(qk__key_index_create(&index, &all.block, NULL), QK_OK);
    expected = sum(index, &expected_weights);
    qk__key_index_free(&index);
    for (int choice = 0; choice < 1 << (STRATA * K); choice++) {
        bool whole = true;
        for (int s = 0; s < STRATA; s++)
            whole = whole && __builtin_popcount((choice >> s * K) & ((1 << K) - 1)) == N;
        if (!whole)
            continue;
        memset(&some, 0, sizeof some);
        start(&some);
        for (int s = 0; s < STRATA; s++)
            for (int i = 0; i < K; i++)
                if (choice >> (s * K + i) & 1)
                    add(&some, s / 2, s % 2, position_of(s, i));
        add(&some, 0, 7, 99);
        index = index_of(&some);
        mean += sum(index, &weights);
        choices++;
        assert_float_equal(weights, expected_weights, 1e-9);
        qk__key_index_free(&index);
    }
    assert_true(choices == 6 * 6 * 6 * 6);
    assert_float_equal(mean / choices, expected, 1e-9 * expected);
}

/* One of a text and bucket is left out: the others stand for it. */
static void without_some(void **state)
{
    (void)state;
    keys k = {0};
    uint32_t group[MOST] = {1};
    qk__key_index *selected;
    start(&k);
    for (int s = 0; s < STRATA; s++)
        for (int i = 0; i < N; i++)
            add(&k, s / 2, s % 2, position_of(s, i));
    qk__key_index *index = index_of(&k);
    k.block.group = group;
    k.block.left_out = 1;
    assert_int_equal(qk__key_index_select(&selected, index, &k.block, NULL), QK_OK);
    assert_int_equal(selected->rows, STRATA * N - 1);
    assert_float_equal(selected->weight[0], 4.5, 0); /* 9 of the text's keys in two buckets */
    assert_float_equal(selected->alike[0], 1, 0);
    assert_float_equal(selected->weight[1], 2.25, 0);
    assert_float_equal(selected->weight[3], 2, 0);
    assert_float_equal(selected->alike[3], 3.0 / 4 * 2, 1e-15);
    qk__key_index_free(&selected);
    qk__key_index_free(&index);
}

static void all_there(void **state)
{
    (void)state;
    keys k = {0};
    qk__key_index *index;
    const int64_t counts[] = {3, 1};
    qk__reservoir reservoir = of_texts();
    start(&k);
    add(&k, 0, 0, 1);
    add(&k, 0, 0, 2);
    add(&k, 0, 1, 3);
    add(&k, 1, 0, 1);
    reservoir.count = counts;
    assert_int_equal(qk__key_index_create(&index, &k.block, NULL), QK_OK);
    assert_int_equal(qk__reservoir_weigh(index, &k.block, &reservoir, NULL), QK_OK);
    assert_null(index->weight);
    qk__key_index_free(&index);
}

static void contradictions(void **state)
{
    (void)state;
    const struct {
        int64_t example, count;
        int rows;
        const char *message;
    } cases[] = {{0, 9, 3, NULL}, /* of two texts of one id */
                 {0, 2, 3, "more rows of text 0"},
                 {0, 1, 2, "more rows of text 0"},
                 {2, 9, 2, NULL},
                 {5, 9, 2, "that the moments have no rows of"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        keys k = {0};
        qk_error err = {0};
        qk__key_index *index;
        const uint64_t label = 0;
        qk__reservoir reservoir = {
            .most = N, .mask = 1, .num_groups = 1, .label = &label, .count = &cases[c].count};
        start(&k);
        for (int i = 0; i < cases[c].rows; i++)
            add(&k, cases[c].example, 0, i);
        assert_int_equal(qk__key_index_create(&index, &k.block, NULL), QK_OK);
        assert_int_equal(qk__reservoir_weigh(index, &k.block, &reservoir, &err),
                         cases[c].message ? QK_ERR_INCONSISTENT : QK_OK);
        if (cases[c].message) {
            assert_non_null(strstr(err.message, cases[c].message));
            assert_null(index->weight);
        }
        qk__key_index_free(&index);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_average_all_pairs), cmocka_unit_test(without_some),
        cmocka_unit_test(all_there), cmocka_unit_test(contradictions)};
    return cmocka_run_group_tests_name("key_weights", tests, NULL, NULL);
}
