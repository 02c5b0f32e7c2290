/* SPDX-License-Identifier: Apache-2.0 */
/* The generator against published values, and its distributions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "base/rng.h"

enum { DRAWS = 200000 };

/* First numbers of xoshiro256** from the state 1, 2, 3, 4. */
static void test_known_sequence(void **state)
{
    static const uint64_t known[] = {11520,
                                     0,
                                     1509978240,
                                     UINT64_C(1215971899390074240),
                                     UINT64_C(1216172134540287360),
                                     UINT64_C(607988272756665600)};
    (void)state;
    qk__rng rng = {.state = {1, 2, 3, 4}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_true(qk__rng_next(&rng) == known[i]);
}

/* First numbers of SplitMix64 from 0 are the state of the stream named by seed 0 alone. */
static void test_seeding(void **state)
{
    (void)state;
    qk__rng rng;
    qk__rng_init(&rng, 0, NULL, 0);
    assert_true(rng.state[0] == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(rng.state[1] == UINT64_C(0x6e789e6aa1b965f4));
}

static void test_streams_differ_in_every_word(void **state)
{
    (void)state;
    const uint64_t names[][3] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {1, 1, 0}};
    uint64_t first[5];
    for (size_t i = 0; i < 5; i++) {
        qk__rng rng;
        qk__rng_init(&rng, names[i][0], names[i] + 1, 2);
        first[i] = qk__rng_next(&rng);
        for (size_t j = 0; j < i; j++)
            assert_true(first[i] != first[j]);
    }
}

static void test_below_is_even(void **state)
{
    (void)state;
    qk__rng rng;
    double counts[7] = {0}, chi = 0;
    qk__rng_init(&rng, 1, NULL, 0);
    for (int i = 0; i < DRAWS; i++)
        counts[qk__rng_below(&rng, 7)]++;
    for (int i = 0; i < 7; i++)
        chi += pow(counts[i] - DRAWS / 7.0, 2) / (DRAWS / 7.0);
    assert_true(chi < 22.5); /* 6 degrees of freedom, p = 0.001 */
    assert_int_equal(qk__rng_below(&rng, 1), 0);
}

static void test_gaussian_moments(void **state)
{
    (void)state;
    qk__rng rng;
    double sums[5] = {0};
    qk__rng_init(&rng, 2, NULL, 0);
    for (int i = 0; i < DRAWS; i++) {
        double x = qk__rng_gaussian(&rng);
        for (int k = 1; k <= 4; k++)
            sums[k] += pow(x, k) / DRAWS;
    }
    double se = 1 / sqrt(DRAWS);
    assert_true(fabs(sums[1]) < 4 * se);
    assert_true(fabs(sums[2] - 1) < 4 * sqrt(2) * se);
    assert_true(fabs(sums[3]) < 4 * sqrt(15) * se);
    assert_true(fabs(sums[4] - 3) < 4 * sqrt(96) * se);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_sequence),
        cmocka_unit_test(test_seeding),
        cmocka_unit_test(test_streams_differ_in_every_word),
        cmocka_unit_test(test_below_is_even),
        cmocka_unit_test(test_gaussian_moments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
