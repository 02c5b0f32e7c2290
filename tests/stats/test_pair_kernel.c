/* SPDX-License-Identifier: Apache-2.0 */
/* Every pair kernel against the portable one, bit for bit, and 4 p (1 - p) against erfc. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "stats/whitening.h"
#include "stats/pair_kernel.h"

enum { MAX = 75, ROOM = MAX + LANES };

static void fill(double *x, size_t n, uint64_t *seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = random_wild(seed, 30);
}

/* 4 p (1 - p) with the C library's erfc. x is z / sqrt 2 rounded, and an error of x is one of
 * erfc times 2 x^2: what rounding took is put back by the slope. */
static double undecided_by_erfc(double z)
{
    const double root = 0x1.6a09e667f3bcdp+0, rest = -0x1.bdd3413b26456p-54; /* sqrt 2 */
    double x = z / root, dx = (fma(-x, root, z) - x * rest) / root;
    double e = erfc(x) - 2 / sqrt(acos(-1)) * exp(-x * x) * dx;
    return e * (2 - e);
}

static void undecided_matches_erfc(void **state)
{
    (void)state;
    uint64_t seed = 1;
    double worst = 0, u[LANES] = {0}, w[LANES] = {0}, pp[LANES];
    qk__each_version (k, qk__pair_kernels)
        for (size_t i = 0; i < 80000; i++) {
            double z = i <= 40000 ? (double)i / 1000 : 40 * fabs(random_unit(&seed));
            u[0] = i % 2 ? z : -z;
            qk__pair_kernels[k]->undecided(u, w, 3, 1, pp);
            double expected = z < 37 ? undecided_by_erfc(z) : 0;
            double error = expected > 0 ? fabs(pp[0] / expected - 1) : fabs(pp[0]);
            worst = error > worst ? error : worst;
        }
    print_message("# largest relative error of 4 p (1 - p): %.2g\n", worst);
    assert_true(worst < 1e-14);
}

static void undecided_takes_anything(void **state)
{
    (void)state;
    const double u[LANES] = {0, INFINITY, -INFINITY, NAN, 1e308, -1e308, 5e-324, 1};
    const double w[LANES] = {0, -INFINITY, 1, 0, 1e308, 0, 0, 1};
    const double expected[LANES] = {1, 0, 0, 0, 0, 0, 1, 0};
    double pp[LANES];
    qk__each_version (k, qk__pair_kernels) {
        qk__pair_kernels[k]->undecided(u, w, 1e6, LANES, pp);
        assert_memory_equal(pp, expected, sizeof pp);
    }
}

/* No variance: equal scores are a coin toss, any others decided. */
static void nothing_is_divided_by_zero(void **state)
{
    (void)state;
    qk__each_version (k, qk__pair_kernels) {
        const qk__pair_kernel *kernel = qk__pair_kernels[k];
        const double v[LANES] = {0, 0, 0, 0, -1, 5e-324, 1, 4};
        const double expected[LANES] = {1, 0, 0, 0, 0, 0, 1, 1};
        double u[LANES] = {0, 1e-9, -1e9, 0, 1, 1, 0, 1};
        double w[LANES] = {0, 0, 0, 1e-12, 0, 0, 0, -0.01}, pp[LANES];
        kernel->normalise(v, u, w, LANES);
        for (size_t i = 0; i < LANES; i++)
            assert_true(isfinite(u[i]) && isfinite(w[i]));
        assert_true(u[7] == 0.5);
        kernel->undecided(u, w, 100, LANES, pp);
        assert_memory_equal(pp, expected, sizeof pp);
    }
}

static void kernels_agree_on_whitening(void **state)
{
    (void)state;
    uint64_t seed = 2;
    static double vectors[4][ROOM], wide[2][MAX];
    static float narrow[2][MAX];
    for (size_t d = 1; d <= MAX; d++) {
        size_t ld = (d + LANES - 1) / LANES * LANES;
        memset(vectors, 0, sizeof vectors);
        for (size_t i = 0; i < 4; i++)
            fill(vectors[i], d, &seed);
        for (size_t i = 0; i < 2; i++)
            for (size_t c = 0; c < d; c++)
                wide[i][c] = narrow[i][c] = (float)random_wild(&seed, 30);
        qk__whitening p = {NULL, d, ld, vectors[0], vectors[1], vectors[2], vectors[3]};
        double first[ROOM] = {0}, first_dots[2];
        qk__pair_portable.whiten_f32(&p, narrow[0], narrow[1], first, first_dots);
        qk__each_version (k, qk__pair_kernels)
            for (int i = 0; i < 2; i++) {
                double out[ROOM] = {0}, dots[2];
                if (i)
                    qk__pair_kernels[k]->whiten_f64(&p, wide[0], wide[1], out, dots);
                else
                    qk__pair_kernels[k]->whiten_f32(&p, narrow[0], narrow[1], out, dots);
                assert_memory_equal(out, first, sizeof out);
                assert_memory_equal(dots, first_dots, sizeof dots);
            }
    }
}

static void kernels_agree_on_lists(void **state)
{
    (void)state;
    uint64_t seed = 4;
    static double in[4][ROOM], out[2][5][ROOM];
    static int32_t bins[2][2][ROOM];
    qk__each_version (k, qk__pair_kernels)
        for (size_t n = 0; n <= MAX; n++) {
            for (size_t i = 0; i < 4; i++)
                fill(in[i], ROOM, &seed);
            for (size_t i = 0; i < ROOM; i++)
                in[2][i] = floor(1e4 * random_unit(&seed));
            double results[2][2];
            for (int i = 0; i < 2; i++) {
                const qk__pair_kernel *kernel = qk__pair_kernels[i ? k : 0];
                const qk__key_scores scores = {in[0], in[1], in[2]};
                const qk__pair_list list = {out[i][0],  out[i][1], out[i][2],
                                            bins[i][0], NULL,      NULL};
                kernel->differences(&scores, 3, 0, NULL, n, 512, 40, &list, 0);
                kernel->normalise(in[3], out[i][0], out[i][1], n);
                kernel->undecided(out[i][0], out[i][1], 123.25, n, out[i][3]);
                kernel->lags(out[i][2], bins[i][0], 9000.5, 512, -3, n, bins[i][1]);
                results[i][0] = kernel->sum(in[0], n);
                results[i][1] = kernel->dot(in[0], in[1], n);
            }
            for (size_t i = 0; i < 4; i++)
                assert_memory_equal(out[0][i], out[1][i], n * sizeof(double));
            for (size_t i = 0; i < 2; i++)
                assert_memory_equal(bins[0][i], bins[1][i], n * sizeof(int32_t));
            assert_memory_equal(results[0], results[1], sizeof results[0]);
        }
}

/* Against the generator itself, at bounds of both widths, and with numbers that are too small. */
static void draws_are_the_generators(void **state)
{
    (void)state;
    enum { STEPS = 40 };
    static const uint32_t bounds[] = {1024, 65537, (1 << 21) - STEPS, 1 << 21, 2147483000};
    static uint32_t out[STEPS * LANES];
    qk__each_version (k, qk__pair_kernels)
        for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
            qk__rng rng[LANES];
            uint64_t sides[4][LANES];
            uint32_t n[LANES];
            for (uint64_t l = 0; l < LANES; l++) {
                qk__rng_init(&rng[l], k + b, &l, 1);
                n[l] = bounds[b] + (b < 2 ? (uint32_t)l * 1000 : 0);
                for (size_t i = 0; i < 4; i++)
                    sides[i][l] = rng[l].state[i];
            }
            assert_true(qk__pair_kernels[k]->draw(sides, n, STEPS, out));
            for (size_t l = 0; l < LANES; l++) {
                for (size_t i = 0; i < STEPS; i++)
                    assert_int_equal(out[i * LANES + l], qk__rng_below(&rng[l], n[l] + i));
                for (size_t i = 0; i < 4; i++)
                    assert_true(sides[i][l] == rng[l].state[i]);
            }
            for (size_t l = 0; l < LANES; l++) {
                uint64_t zeros[4][LANES] = {{0}};
                for (size_t other = 0; other < LANES; other++)
                    zeros[0][other] = zeros[1][other] = UINT64_MAX / 3;
                zeros[1][l] = 0; /* the first number is 0 */
                assert_false(qk__pair_kernels[k]->draw(zeros, n, STEPS, out));
            }
        }
}

static uint64_t random_word(double share, uint64_t *seed)
{
    uint64_t word = 0;
    for (int b = 0; b < 64; b++)
        word |= (uint64_t)(fabs(random_unit(seed)) < share) << b;
    return word;
}

/* Bits of a part of a word, by their numbers among those of the whole. */
static void members_are_found(void **state)
{
    (void)state;
    enum { WORDS = 30 };
    uint64_t seed = 6, in[WORDS], among[WORDS];
    static uint32_t at[WORDS], out[WORDS * 64 + 15];
    static double values[3][WORDS * 64], picked[3][WORDS * 64];
    static int32_t bins[WORDS * 64], picked_bins[WORDS * 64];
    for (uint32_t i = 0; i < WORDS * 64; i++) {
        values[0][i] = i + 0.25;
        values[1][i] = i + 0.5;
        values[2][i] = i + 0.75;
        bins[i] = (int32_t)i * 3;
    }
    qk__each_version (k, qk__pair_kernels)
        for (int density = 0; density < 25; density++) {
            uint32_t next = 0;
            size_t found = 0;
            for (size_t i = 0; i < WORDS; i++) {
                among[i] = random_word(0.02 * pow(3, density % 5), &seed);
                in[i] = among[i] & random_word(0.02 * pow(3, density / 5), &seed);
                at[i] = next;
                next += (uint32_t)__builtin_popcountll(among[i]);
            }
            size_t n = qk__pair_kernels[k]->members(in, among, at, WORDS, out);
            for (size_t i = 0; i < WORDS; i++)
                for (uint32_t b = 0, place = at[i]; b < 64; b++) {
                    if (in[i] >> b & 1)
                        assert_int_equal(out[found++], place);
                    place += among[i] >> b & 1;
                }
            assert_int_equal(found, n);
            const qk__pair_list from = {values[0], values[1], values[2], bins, NULL, NULL};
            const qk__pair_list to = {picked[0], picked[1], picked[2], picked_bins, NULL, NULL};
            qk__pair_kernels[k]->pick(&from, out, n, &to);
            for (size_t i = 0; i < n; i++)
                assert_true(picked[0][i] == out[i] + 0.25 && picked[1][i] == out[i] + 0.5 &&
                            picked[2][i] == out[i] + 0.75 &&
                            picked_bins[i] == (int32_t)out[i] * 3);
        }
}

/* Some keys, named by their numbers, as the same keys side by side. */
static void chosen_keys_are_those_keys(void **state)
{
    (void)state;
    enum { LD = 24, SIDE = 19 };
    uint64_t seed = 8;
    static double rows[ROOM * LD], side[SIDE * LD], in[3][ROOM], beside[3][ROOM],
        v[2][SIDE + 1];
    static double out[2][3][ROOM];
    static int32_t bins[2][ROOM];
    uint32_t which[SIDE + LANES] = {0};
    fill(rows, ROOM * LD, &seed);
    for (size_t i = 0; i < 3; i++)
        fill(in[i], ROOM, &seed);
    for (size_t i = 0; i < SIDE; i++) {
        which[i] = (uint32_t)(fabs(random_unit(&seed)) * (MAX - 10));
        memcpy(side + i * LD, rows + (which[i] + 4) * LD, LD * sizeof *side);
    }
    for (size_t i = 0; i < SIDE * 3; i++)
        beside[i % 3][i / 3 + 1] = in[i % 3][which[i / 3] + 4];
    for (size_t i = 0; i < 3; i++)
        beside[i][0] = in[i][2];
    qk__each_version (k, qk__pair_kernels)
        for (size_t n = 0; n <= SIDE; n++) {
            const qk__pair_kernel *kernel = qk__pair_kernels[k];
            const qk__key_scores scores = {in[0], in[1], in[2]};
            const qk__key_scores near = {beside[0], beside[1], beside[2]};
            const qk__pair_list one = {out[0][0], out[0][1], out[0][2], bins[0], NULL, NULL};
            const qk__pair_list other = {out[1][0], out[1][1], out[1][2], bins[1], NULL, NULL};
            kernel->differences(&scores, 2, 4, which, n, 0.5, 40, &one, 0);
            kernel->differences(&near, 0, 1, NULL, n, 0.5, 40, &other, 0);
            for (size_t i = 0; i < 3; i++)
                assert_memory_equal(out[0][i], out[1][i], n * sizeof(double));
            assert_memory_equal(bins[0], bins[1], n * sizeof(int32_t));
            v[0][n] = v[1][n] = 17; /* not written */
            kernel->distances(rows, rows + 4 * LD, which, n, LD, v[0]);
            kernel->distances(rows, side, NULL, n, LD, v[1]);
            assert_memory_equal(v[0], v[1], (n + 1) * sizeof(double));
        }
}

static void lists_are_what_they_say(void **state)
{
    (void)state;
    const double mean[ROOM] = {5, 1, 2}, slope[ROOM] = {1, 1, 0.5};
    const double position[ROOM] = {1000, 488, 489};
    const qk__key_scores scores = {(double *)(uintptr_t)mean, (double *)(uintptr_t)slope,
                                   (double *)(uintptr_t)position};
    double u[ROOM] = {0}, w[ROOM] = {0}, mid[ROOM] = {0};
    int32_t bin[ROOM] = {0}, cell[ROOM] = {0};
    qk__each_version (k, qk__pair_kernels) {
        const qk__pair_kernel *kernel = qk__pair_kernels[k];
        const qk__pair_list list = {u, w, mid, bin, NULL, NULL};
        kernel->differences(&scores, 0, 1, NULL, 2, 512, 10, &list, 0);
        assert_true(u[0] == 4 && u[1] == 3 && w[0] == 0 && w[1] == 0.5);
        assert_true(mid[0] == 744 && mid[1] == 744.5);
        assert_true(bin[0] == 10 && bin[1] == 0);
        kernel->lags(mid, bin, 232, 512, -3, 2, cell); /* lags -512 and -512.5 */
        assert_true(cell[0] == 10 - 1 + 3 && cell[1] == -2 + 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(undecided_matches_erfc),
        cmocka_unit_test(undecided_takes_anything),
        cmocka_unit_test(nothing_is_divided_by_zero),
        cmocka_unit_test(kernels_agree_on_whitening),
        cmocka_unit_test(kernels_agree_on_lists),
        cmocka_unit_test(draws_are_the_generators),
        cmocka_unit_test(members_are_found),
        cmocka_unit_test(chosen_keys_are_those_keys),
        cmocka_unit_test(lists_are_what_they_say),
    };
    return cmocka_run_group_tests_name("pair kernels", tests, NULL, NULL);
}
