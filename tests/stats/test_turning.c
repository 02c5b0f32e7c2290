/* SPDX-License-Identifier: Apache-2.0 */
/* The frequency of turning angles against the definition, and its parts; every kernel against the portable one, bit for bit. */
#include "unit.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "stats/turn_kernel.h"
#include "stats/turning.h"

/* ---- rows that turn --------------------------------------------------------------------- */

typedef struct turning_rows {
    size_t n_q, rows;
    int64_t *t;
    double *angle;
    qk__positions *positions;
} turning_rows;

static double unit_share(uint64_t *seed)
{
    return (random_unit(seed) + 1) / 2;
}

/* At places 0 .. last, the two ends among them, times step. Angles are random. */
static turning_rows make_rows(uint64_t seed, size_t n_q, size_t n_k, int64_t last, int64_t step)
{
    turning_rows r = {.n_q = n_q, .rows = n_q + n_k};
    qk_error err;
    r.t = calloc(r.rows, sizeof *r.t);
    r.angle = calloc(r.rows, sizeof *r.angle);
    assert_true(r.t && r.angle);
    for (size_t i = 0; i < r.rows; i++) {
        r.t[i] = i < 2 ? (int64_t)i * last : (int64_t)(unit_share(&seed) * (double)(last + 1));
        r.t[i] = r.t[i] > last ? last : r.t[i];
        r.t[i] *= step;
        r.angle[i] = TURN / 2 * random_unit(&seed);
    }
    assert_int_equal(qk__positions_create(&r.positions, r.t, r.rows, &err), QK_OK);
    return r;
}

static void free_rows(turning_rows *r)
{
    qk__positions_free(&r->positions);
    free(r->t);
    free(r->angle);
}

static double within_half_a_turn(double angle)
{
    return angle - TURN * nearbyint(angle / TURN);
}

/* Rows first, first + every, ... turn by omega, with some noise. */
static void plant(turning_rows *r, size_t first, size_t every, double omega, double noise,
                  uint64_t seed)
{
    for (size_t i = first; i < r->rows; i += every)
        r->angle[i] = within_half_a_turn(omega * (double)r->t[i] + (i < r->n_q ? 0.4 : 2.2) +
                                         noise * random_unit(&seed));
}

/* By definition, from the rows. */
static double resultant(const turning_rows *r, double omega)
{
    double re[2] = {0}, im[2] = {0}, middle = r->positions->range / 2;
    for (size_t i = 0; i < r->rows; i++) {
        double angle = r->angle[i] - omega * ((double)(r->t[i] - r->t[0]) - middle);
        re[i < r->n_q] += cos(angle);
        im[i < r->n_q] += sin(angle);
    }
    return (hypot(re[0], im[0]) + hypot(re[1], im[1])) / (double)r->rows;
}

static qk__turning find(const turning_rows *r, const double *known, size_t count)
{
    qk__turn_finder *finder;
    qk_error err;
    assert_int_equal(qk__turn_finder_create(&finder, r->positions, r->n_q, known, count, &err),
                     QK_OK);
    qk__turning turning = qk__find_turning(finder, r->angle);
    qk__turn_finder_free(&finder);
    return turning;
}

static bool is_in_range(const turning_rows *r, double omega)
{
    return omega >= TURN / (8 * r->positions->range) && omega <= TURN / 2 / r->positions->step;
}

/* The highest of the grid's frequencies, by definition. */
static double top_of_grid(const turning_rows *r, double *omega)
{
    size_t bins = 16;
    double top = 0;
    while (bins < 4 * (r->positions->last_place + 1))
        bins *= 2;
    for (size_t i = 1; i <= bins / 2; i++) {
        double at = TURN * (double)i / ((double)bins * r->positions->step);
        for (int back = 0; is_in_range(r, at) && back < 2; back++) {
            double here = resultant(r, back ? -at : at);
            *omega = here > top ? (back ? -at : at) : *omega;
            top = fmax(top, here);
        }
    }
    return top;
}

/* ---- known frequencies ------------------------------------------------------------------ */

/* In any order; those that do not turn, or too slowly or fast for these positions, and what
 * lies between them do not count. */
static void the_best_of_known_frequencies(void **state)
{
    (void)state;
    static const double known[] = {1, 0.1, 0, 1e-6, 0.01, 0.5623, 4, 0.0562, 0.003};
    static const double turns[] = {1, -0.1, 0.01, -0.5623, 0.0562, 0.3, -0.2};
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        turning_rows r = make_rows(i + 1, 160, 150, 611, 1);
        plant(&r, 0, 1, turns[i], 0.4, 5);
        qk__turning found = find(&r, known, sizeof known / sizeof *known);
        double top = 0, omega = NAN;
        for (size_t k = 0; k < 2 * sizeof known / sizeof *known; k++) {
            double at = known[k / 2] * (k % 2 ? -1 : 1), here = resultant(&r, at);
            if (is_in_range(&r, fabs(at)) && here > top) {
                top = here;
                omega = at;
            }
        }
        assert_true(found.known && found.omega == omega);
        assert_true(i > 4 || omega == turns[i]);
        assert_true(fabs(found.resultant - top) < 1e-12);
        assert_true(i > 4 || fabs(sin(found.phase_k - found.phase_q - 1.8)) < 0.2);
        free_rows(&r);
    }
}

/* ---- the grid --------------------------------------------------------------------------- */

/* All kinds of lattices, with angles that turn and angles that do not; nothing known, or only
 * what is outside. */
static void without_them_the_best_of_a_grid(void **state)
{
    (void)state;
    static const double outside[] = {0, 1e-9, 3.5};
    for (size_t i = 0; i < 36; i++) {
        static const int64_t lasts[] = {3, 4, 7, 40, 130, 500}, steps[] = {1, 16, 1000003};
        turning_rows r = make_rows(i + 70, 25 + i, 60, lasts[i % 6], steps[i / 6 % 3]);
        double step = r.positions->step, omega = NAN;
        if (i % 2)
            plant(&r, 0, 1, 0.7 / step, 0.3, i);
        double top = top_of_grid(&r, &omega);
        qk__turning found = find(&r, outside, i % 3 ? 0 : 3);
        assert_true(!found.known && fabs(found.resultant - top) < 1e-12);
        assert_true(fabs(resultant(&r, found.omega) - top) < 1e-12);
        assert_true(is_in_range(&r, fabs(found.omega)));
        if (i % 2 && lasts[i % 6] > 100)
            assert_true(fabs(found.omega - 0.7 / step) < 1.2 * TURN / 8 / r.positions->range);
        free_rows(&r);
    }
}

/* A dense text's first positions and a few far ones. */
static void long_lattices(void **state)
{
    (void)state;
    static const int64_t lasts[] = {8191, 8192, 131071, 1048575};
    for (size_t i = 0; i < 4; i++) {
        turning_rows r = make_rows(i + 140, 700, 600, lasts[i], 1);
        plant(&r, 0, 1, 0.4567, 0.4, 1);
        for (size_t k = 0; k < 2; k++)
            plant(&r, k, 5, -1.234, 0.4, 2);
        qk__turning found = find(&r, NULL, 0);
        assert_true(fabs(found.omega - 0.4567) < 1.2 * TURN / 8 / (double)lasts[i]);
        assert_true(found.resultant > 0.9 * resultant(&r, 0.4567));
        assert_true(fabs(found.resultant - resultant(&r, found.omega)) < 1e-9);
        free_rows(&r);
    }
    turning_rows r = make_rows(9, 20, 20, 1048576, 1);
    assert_true(isnan(find(&r, NULL, 0).omega));
    free_rows(&r);
}

/* ---- parts by definition ---------------------------------------------------------------- */

static void angles_and_waves_are_right(void **state)
{
    (void)state;
    const qk__turn_kernel *kernel = qk__turn_kernels[0];
    double x[8], y[8], angle[8], at[8], c[8], s[8];
    uint64_t seed = 4;
    const long double most = under_valgrind() ? 8e-16L : 4e-16L;
    for (int round = 0; round < 4000; round++) {
        double scale = pow(10, 200 * random_unit(&seed)), turns = random_unit(&seed) / 2;
        for (size_t i = 0; i < 8; i++) {
            x[i] = scale * random_unit(&seed);
            y[i] = scale * random_unit(&seed) * pow(10, -8 * unit_share(&seed) * (round % 2));
            at[i] = nearbyint(1e6 * random_unit(&seed)) + (i % 2) * 0.5;
        }
        x[0] = round % 3 ? x[0] : 0;
        y[1] = round % 5 ? y[1] : 0;
        x[2] = round % 7 ? x[2] : y[2];
        kernel->angles(x, y, 8, angle);
        kernel->wave(at, 8, turns, c, s);
        for (size_t i = 0; i < 8; i++) {
            double want = atan2(y[i], x[i]);
            assert_true(fabs(angle[i] - want) <= 4e-16 * fabs(want));
            double product = turns * at[i];
            long double turn = (long double)(product - nearbyint(product));
            turn = 6.283185307179586476925L * (turn + (long double)fma(turns, at[i], -product));
            assert_true(fabsl((long double)c[i] - cosl(turn)) < most);
            assert_true(fabsl((long double)s[i] - sinl(turn)) < most);
        }
    }
    memset(x, 0, sizeof x);
    kernel->angles(x, x, 8, angle);
    for (size_t i = 0; i < 8; i++)
        assert_true(angle[i] == 0);
}

/* ---- kernels ---------------------------------------------------------------------------- */

enum { SLOTS = 40, DIM = 13, COLUMNS = 24 };

typedef struct outcome {
    double projected[TURN_ROWS * COLUMNS], angle[SLOTS], c[SLOTS], s[SLOTS];
} outcome;

static void run(const qk__turn_kernel *kernel, outcome *out)
{
    static double x[DIM * COLUMNS], y[DIM * COLUMNS], at[SLOTS];
    uint64_t seed = 3;
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < DIM * COLUMNS; i++) {
        x[i] = random_unit(&seed);
        y[i] = random_unit(&seed);
    }
    for (size_t i = 0; i < SLOTS; i++)
        at[i] = (double)i - 20.5;
    kernel->project(x, DIM, y, DIM, COLUMNS, out->projected);
    kernel->angles(x, y, SLOTS, out->angle);
    kernel->wave(at, SLOTS, 0.3777, out->c, out->s);
}

static void kernels_agree_to_the_last_bit(void **state)
{
    (void)state;
    static outcome portable, other;
    run(qk__turn_kernels[0], &portable);
    assert_true(portable.angle[0] != 0);
    qk__each_version (k, qk__turn_kernels) {
        run(qk__turn_kernels[k], &other);
        assert_memory_equal(&portable, &other, sizeof portable);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_of_known_frequencies),
        cmocka_unit_test(without_them_the_best_of_a_grid),
        cmocka_unit_test(long_lattices),
        cmocka_unit_test(angles_and_waves_are_right),
        cmocka_unit_test(kernels_agree_to_the_last_bit),
    };
    return cmocka_run_group_tests_name("turning", tests, NULL, NULL);
}
