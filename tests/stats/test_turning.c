/* SPDX-License-Identifier: Apache-2.0 */
/* The frequency of turning angles against a search of every frequency, and its parts against
 * their definitions; every kernel against the portable one, bit for bit. */
#include "unit.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "stats/turn_cells.h"
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

static double climb(const turning_rows *r, double from, double to, double *best)
{
    const double golden = 0.61803398874989484820;
    for (int i = 0; i < 80; i++) {
        double a = to - golden * (to - from), b = from + golden * (to - from);
        if (resultant(r, a) > resultant(r, b))
            to = b;
        else
            from = a;
    }
    *best = resultant(r, (from + to) / 2);
    return (from + to) / 2;
}

/* Every frequency a sixteenth of a turn over the range apart, and tops where they are high. */
static double search_all(const turning_rows *r, double *top)
{
    double slowest = TURN / (8 * r->positions->range),
           half_turn = TURN / 2 / r->positions->step;
    size_t steps = 16 * (r->positions->last_place + 1);
    double *at = calloc(2 * (steps + 1), sizeof *at), highest = 0, found = NAN;
    assert_non_null(at);
    double gap = (half_turn - slowest) / (double)steps;
    for (size_t i = 0; i <= 2 * steps + 1; i++) {
        double omega =
            i <= steps ? -half_turn + gap * (double)i : slowest + gap * (double)(i - steps - 1);
        at[i] = resultant(r, omega);
        highest = fmax(highest, at[i]);
    }
    *top = 0;
    for (size_t i = 0; i <= 2 * steps + 1; i++) {
        double omega =
            i <= steps ? -half_turn + gap * (double)i : slowest + gap * (double)(i - steps - 1);
        if (at[i] < 0.985 * highest)
            continue;
        double from = i == steps + 1 ? omega : omega - gap, height;
        double here = climb(r, from, i == steps ? omega : omega + gap, &height);
        if (height > *top) {
            *top = height;
            found = here;
        }
    }
    free(at);
    return found;
}

static qk__turning find(const turning_rows *r)
{
    qk__turn_finder *finder;
    qk_error err;
    assert_int_equal(qk__turn_finder_create(&finder, r->positions, r->n_q, &err), QK_OK);
    qk__turning turning = qk__find_turning(finder, r->angle);
    qk__turn_finder_free(&finder);
    return turning;
}

static void assert_highest(const turning_rows *r)
{
    double top, omega = search_all(r, &top);
    qk__turning found = find(r);
    assert_true(fabs(found.resultant - top) < 1e-12);
    assert_true(fabs(found.resultant - resultant(r, found.omega)) < 1e-12);
    double apart = (found.omega - omega) * r->positions->step / TURN;
    assert_true(fabs(apart - nearbyint(apart)) * (double)r->positions->last_place < 1e-5);
    assert_true(fabs(found.omega) >= TURN / (8 * r->positions->range));
    assert_true(fabs(found.omega) <= TURN / 2 / r->positions->step);
}

/* ---- the highest top -------------------------------------------------------------------- */

/* Another frequency is high, too: 1 in 7 rows more makes the difference. */
static void a_high_top_is_not_the_highest(void **state)
{
    (void)state;
    static const double omegas[][2] = {{1, 0.5623}, {0.31, -0.31}, {0.0562, 1.0}, {2.9, 0.07}};
    for (size_t i = 0; i < sizeof omegas / sizeof omegas[0]; i += tier_is("test") ? 3 : 1)
        for (size_t higher = 0; higher < 2; higher++) {
            turning_rows r = make_rows(i + 1, 160, 150, tier_is("test") ? 211 : 611, 1);
            plant(&r, 0, 1, omegas[i][higher], 0.3, 5);
            for (size_t k = 0; k < 3; k++)
                plant(&r, 2 * k, 7, omegas[i][1 - higher], 0.3, k + 6);
            assert_highest(&r);
            double omega = find(&r).omega;
            assert_true(fabs(omega - omegas[i][higher]) < 0.6 / r.positions->range);
            free_rows(&r);
        }
}

/* From one to three turns over the range apart, where tops begin to be two. */
static void close_tops_are_told_apart(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i += tier_is("test") ? 5 : 1) {
        turning_rows r = make_rows((uint64_t)i + 20, 130, 140, 420, 1);
        double apart = TURN / 420 * (1 + i / 6.0);
        plant(&r, 0, 2, 0.377, 0.2, 3);
        plant(&r, 1, 2, 0.377 + (i % 2 ? apart : -apart), 0.2, 4);
        assert_highest(&r);
        free_rows(&r);
    }
}

/* On a bin, halfway between two and at a third; at both ends of what is searched. */
static void tops_lie_between_bins(void **state)
{
    (void)state;
    const int64_t last = tier_is("test") ? 127 : 511;
    const double bin = TURN / (4 * (double)(last + 1)), slowest = TURN / (8 * (double)last);
    const double omegas[] = {300 * bin,          300.5 * bin,
                             -300.3333 * bin,    2 * bin,
                             1.5 * bin,          -bin,
                             1.02 * slowest,     slowest,
                             0.5 * slowest,      0,
                             -0.3 * slowest,     TURN / 2,
                             TURN / 2 - bin / 2, -TURN / 2 + 0.3 * bin};
    for (size_t i = 0; i < sizeof omegas / sizeof omegas[0]; i++)
        for (size_t noise = tier_is("test") ? i % 3 : 0; noise < 3;
             noise += tier_is("test") ? 3 : 1) {
            turning_rows r = make_rows(i + 40, 90, 110, last, 1);
            plant(&r, 0, noise == 2 ? 2 : 1, omegas[i], 0.5 * (double)noise, 9);
            assert_highest(&r);
            free_rows(&r);
        }
}

/* Angles that do not turn at all: many tops of about the same height; all kinds of lattices. */
static void noise_has_its_highest_top(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i += tier_is("test") ? 7 : 1) {
        static const int64_t lasts[] = {3, 4, 7, 40, 130, 500}, steps[] = {1, 16, 1000003};
        int64_t last = lasts[i % 6];
        turning_rows r = make_rows((uint64_t)i + 70, 5 + (size_t)i, 30, last, steps[i / 6 % 3]);
        if (r.positions->count >= 4)
            assert_highest(&r);
        free_rows(&r);
    }
}

/* Many passes of the transform; a dense text's first positions and a few far ones. */
static void long_lattices_keep_their_tops(void **state)
{
    (void)state;
    static const int64_t lasts[] = {8191, 8192, 131071, 1048575};
    for (size_t i = 0; i < 4; i++) {
        turning_rows r = make_rows(i + 140, 700, 600, lasts[i], 1);
        plant(&r, 0, 1, 0.4567, 0.4, 1);
        for (size_t k = 0; k < 2; k++)
            plant(&r, k, 5, -1.234, 0.4, 2);
        qk__turning found = find(&r);
        double top, omega = climb(&r, 0.4567 - 1.0 / (double)lasts[i],
                                  0.4567 + 1.0 / (double)lasts[i], &top);
        assert_true(fabs(found.resultant - top) < 1e-11);
        assert_true(fabs(found.omega - omega) * (double)lasts[i] < 1e-4);
        free_rows(&r);
    }
}

/* ---- parts by definition ---------------------------------------------------------------- */

static void series_hold_an_eighth_of_a_turn_away(void **state)
{
    (void)state;
    static const int64_t lasts[] = {3, 90, 2000, 131071};
    for (size_t i = 0; i < 4; i++) {
        turning_rows r = make_rows(i + 300, 60, 50, lasts[i], 2);
        qk__turn_cells *cells;
        qk__turn_series series;
        qk_error err;
        assert_int_equal(qk__turn_cells_create(&cells, r.positions, &err), QK_OK);
        qk__turn_cells_add_up(cells, r.angle, r.n_q, r.rows);
        static const double middles[] = {0, 0.0021, 0.7, -1.5};
        for (size_t m = 0; m < 4; m++) {
            qk__turn_series_set(&series, cells, middles[m]);
            for (int k = -4; k <= 4; k++) {
                double away = TURN / 8 / (r.positions->range / 2) * k / 4;
                double omega = middles[m] + away, small = 1e-4 / r.positions->range;
                qk__resultant at = qk__turn_series_at(&series, omega);
                double rounding = 1e-16 * (1000 + r.positions->range * fabs(omega));
                assert_true(fabs(at.length / (double)r.rows - resultant(&r, omega)) < rounding);
                double change = (resultant(&r, omega + small) - resultant(&r, omega - small)) /
                                (2 * small) * (double)r.rows;
                assert_true(fabs(at.slope * r.positions->range / 2 - change) <
                            1e-6 * r.positions->range * (double)r.rows);
            }
        }
        qk__turn_cells_free(&cells);
        free_rows(&r);
    }
}

static void angles_and_waves_are_right(void **state)
{
    (void)state;
    const qk__turn_kernel *kernel = qk__turn_kernels[0];
    double x[8], y[8], angle[8], at[8], c[8], s[8];
    uint64_t seed = 4;
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
            assert_true(fabsl((long double)c[i] - cosl(turn)) < 4e-16L);
            assert_true(fabsl((long double)s[i] - sinl(turn)) < 4e-16L);
        }
    }
    memset(x, 0, sizeof x);
    kernel->angles(x, x, 8, angle);
    for (size_t i = 0; i < 8; i++)
        assert_true(angle[i] == 0);
}

/* ---- kernels ---------------------------------------------------------------------------- */

enum { POINTS = 32, SLOTS = 40, DIM = 13, COLUMNS = 24 };

typedef struct outcome {
    double projected[TURN_ROWS * COLUMNS], angle[SLOTS], c[SLOTS], s[SLOTS];
    double re[TURN_TERMS], im[TURN_TERMS];
    qk__turn_point spectrum[POINTS];
    float length[POINTS * TURN_BINS], highest;
} outcome;

static void run(const qk__turn_kernel *kernel, outcome *out)
{
    static double x[DIM * COLUMNS], y[DIM * COLUMNS], at[SLOTS];
    static qk__turn_point turn[POINTS];
    uint32_t point[SLOTS], part[SLOTS], order[POINTS];
    float root[2 * POINTS];
    uint64_t seed = 3;
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < DIM * COLUMNS; i++) {
        x[i] = random_unit(&seed);
        y[i] = random_unit(&seed);
    }
    for (size_t i = 0; i < SLOTS; i++) {
        at[i] = (double)i - 20.5;
        point[i] = (uint32_t)(7 * i % POINTS);
        part[i] = (uint32_t)(i % 5);
    }
    for (size_t i = 0; i < POINTS; i++) {
        order[i] = (uint32_t)(5 * i % POINTS);
        root[2 * i] = (float)random_unit(&seed);
        root[2 * i + 1] = (float)random_unit(&seed);
        for (size_t k = 0; k < TURN_BINS; k++) {
            turn[i].re[k] = (float)random_unit(&seed);
            turn[i].im[k] = (float)random_unit(&seed);
        }
    }
    kernel->project(x, DIM, y, DIM, COLUMNS, out->projected);
    kernel->angles(x, y, SLOTS, out->angle);
    kernel->wave(at, SLOTS, 0.3777, out->c, out->s);
    kernel->moments(x, y, out->c, out->s, at, SLOTS, out->re, out->im);
    qk__turn_signal signal = {SLOTS, x, y, point, part, POINTS, turn, turn, root, order};
    kernel->transform(&signal, out->spectrum);
    kernel->lengths(out->spectrum, order, POINTS, TURN_BINS, 0, out->length);
    kernel->lengths(out->spectrum, order, POINTS, TURN_BINS, 1, out->length);
    out->highest = kernel->highest(out->length, POINTS * TURN_BINS);
}

static void kernels_agree_to_the_last_bit(void **state)
{
    (void)state;
    static outcome portable, other;
    run(qk__turn_kernels[0], &portable);
    assert_true(portable.highest > 0);
    qk__each_version (k, qk__turn_kernels) {
        run(qk__turn_kernels[k], &other);
        assert_memory_equal(&portable, &other, sizeof portable);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_high_top_is_not_the_highest),
        cmocka_unit_test(close_tops_are_told_apart),
        cmocka_unit_test(tops_lie_between_bins),
        cmocka_unit_test(noise_has_its_highest_top),
        cmocka_unit_test(long_lattices_keep_their_tops),
        cmocka_unit_test(series_hold_an_eighth_of_a_turn_away),
        cmocka_unit_test(angles_and_waves_are_right),
        cmocka_unit_test(kernels_agree_to_the_last_bit),
    };
    return cmocka_run_group_tests_name("turning", tests, NULL, NULL);
}
