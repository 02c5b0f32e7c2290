/* SPDX-License-Identifier: Apache-2.0 */
/* Eigenpairs by what defines them: A v = lambda v, orthonormal v, and as many eigenvalues above
 * each as there should be; matrices with known spectra, with close and equal eigenvalues, and
 * of extreme scale; every kernel against the portable one, bit for bit. */
#include "unit.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "stats/eigen.h"
#include "stats/matrix_kernel.h"

enum { MAX = 150 };

typedef struct solution {
    size_t d, count;
    double values[MAX], vectors[MAX * MAX];
} solution;

static solution found;

static double entry(const double *a, size_t i, size_t j)
{
    return a[i * found.d + j];
}

/* The largest entry of A v - lambda v and of V V^T - I, the first relative to the matrix. */
static double worst_error(const double *a)
{
    double worst = 0, scale = 0;
    for (size_t i = 0; i < found.d * found.d; i++)
        scale = fmax(scale, fabs(a[i]));
    for (size_t i = 0; i < found.count; i++) {
        const double *v = found.vectors + i * found.d;
        for (size_t r = 0; r < found.d && scale > 0; r++) {
            double sum = 0;
            for (size_t c = 0; c < found.d; c++)
                sum += entry(a, r, c) / scale * v[c];
            worst = fmax(worst, fabs(sum - found.values[i] / scale * v[r]));
        }
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t c = 0; c < found.d; c++)
                sum += v[c] * found.vectors[j * found.d + c];
            worst = fmax(worst, fabs(sum - (i == j)));
        }
        if (i > 0)
            assert_true(found.values[i] <= found.values[i - 1]);
    }
    return worst;
}

static void solve(const double *a, size_t d, size_t count)
{
    found.d = d;
    found.count = count;
    assert_int_equal(qk__eigen_largest(a, d, count, found.values, found.vectors, NULL), QK_OK);
    assert_true(worst_error(a) < 1e-14 * (double)(d + 10));
}

/* Q diag(values) Q^T with a Q of two random mirrors: any spectrum, no zeros. */
static void make(const double *values, size_t d, uint64_t *seed, double *a)
{
    memset(a, 0, d * d * sizeof *a);
    for (size_t i = 0; i < d; i++)
        a[i * d + i] = values[i];
    for (int twice = 0; twice < 2; twice++) {
        double u[MAX], p[MAX], squared = 0, form = 0;
        for (size_t i = 0; i < d; i++) {
            u[i] = random_unit(seed);
            squared += u[i] * u[i];
        }
        for (size_t i = 0; i < d; i++) {
            p[i] = 0;
            for (size_t j = 0; j < d; j++)
                p[i] += a[i * d + j] * u[j];
            form += p[i] * u[i];
        }
        for (size_t i = 0; i < d; i++)
            for (size_t j = 0; j < d; j++)
                a[i * d + j] -= 2 / squared * (p[i] * u[j] + u[i] * p[j]) -
                                4 * form / (squared * squared) * u[i] * u[j];
    }
    for (size_t i = 0; i < d; i++) /* to the last bit */
        for (size_t j = 0; j < i; j++)
            a[i * d + j] = a[j * d + i];
}

/* The i-th eigenvalue of d, descending from 1, of spectra that are hard in different ways. */
static double spectrum(int kind, size_t i, size_t d)
{
    double at = (double)i / (double)d;
    switch (kind) {
    case 0: /* even */
        return 1 - at;
    case 1: /* graded over 16 decades */
        return pow(10, -16 * at);
    case 2: /* pairs one rounding apart */
        return 1 - floor((double)i / 2) / (double)d - (double)(i % 2) * 0x1p-53;
    case 3: /* all equal but one */
        return i == 0 ? 1 : 0.25;
    case 4: /* clusters, gaps of 1e-10 in them */
        return 1 - floor(4 * at) / 4 - 1e-10 * (double)i;
    case 5: /* rank one */
        return i == 0;
    case 6: /* negative ones, too */
        return 1 - 2 * at;
    default:
        return 1;
    }
}

static void spectra_come_back(void **state)
{
    (void)state;
    static double a[MAX * MAX];
    const size_t sizes[] = {1, 2, 3, 7, 8, 9, 16, 33, 64, 80, 127, 128, 150};
    const size_t num = tier_is("test") ? 9 : sizeof sizes / sizeof *sizes;
    uint64_t seed = 1;
    for (int kind = 0; kind < 8; kind++)
        for (size_t s = 0; s < num; s++) {
            size_t d = sizes[s];
            double values[MAX];
            for (size_t i = 0; i < d; i++)
                values[i] = spectrum(kind, i, d);
            make(values, d, &seed, a);
            const size_t counts[] = {1, d < 10 ? d : 10, d};
            for (int c = 0; c < 3; c++) {
                solve(a, d, counts[c]);
                for (size_t i = 0; i < counts[c]; i++)
                    assert_true(fabs(found.values[i] - values[i]) < 1e-14 * (double)(d + 1));
            }
        }
}

static void tridiagonal(double *a, size_t d, double (*diagonal)(size_t), double off)
{
    memset(a, 0, d * d * sizeof *a);
    for (size_t i = 0; i < d; i++) {
        a[i * d + i] = diagonal(i);
        if (i > 0)
            a[i * d + i - 1] = a[(i - 1) * d + i] = off;
    }
}

static double two(size_t i)
{
    (void)i;
    return 2;
}

/* Wilkinson's W21+: its largest eigenvalues agree in pairs to the last digits. Glued. */
static double wilkinson(size_t i)
{
    return fabs((double)(i % 21) - 10);
}

static void known_matrices(void **state)
{
    (void)state;
    static double a[MAX * MAX];
    enum { D = 100, GLUED = 147 };
    tridiagonal(a, D, two, -1);
    solve(a, D, D);
    for (size_t i = 0; i < D; i++)
        assert_true(fabs(found.values[i] -
                         (2 - 2 * cos(acos(-1) * (double)(D - i) / (D + 1)))) < 1e-14);
    tridiagonal(a, GLUED, wilkinson, 1);
    for (size_t i = 21; i < GLUED; i += 21)
        a[i * GLUED + i - 1] = a[(i - 1) * GLUED + i] = 1e-12;
    solve(a, GLUED, GLUED);
    assert_true(fabs(found.values[0] - 10.746194182903393) < 1e-11);
    memset(a, 0, sizeof a);
    solve(a, D, D);
    assert_true(fabs(found.values[0]) < 1e-100 && fabs(found.values[D - 1]) < 1e-100);
    for (size_t i = 0; i < D; i++)
        a[i * D + i] = (double)(i % 3);
    solve(a, D, D);
    const size_t last[] = {32, 65, 98}; /* of each of three values */
    for (size_t i = 0; i < 3; i++)
        assert_true(fabs(found.values[last[i]] - 2 + (double)i) < 1e-15);
}

/* What rounding leaves of dimensions without variance. */
static void tiny_rows(void **state)
{
    (void)state;
    static double a[64 * 64];
    double values[64];
    uint64_t seed = 5;
    for (int power = -320; power < 0; power += tier_is("test") ? 25 : 5) {
        for (size_t i = 0; i < 64; i++)
            values[i] = 1 / (double)(i + 1);
        make(values, 64, &seed, a);
        for (size_t i = 0; i < 64; i++)
            for (size_t j = 0; j < 64; j++)
                a[i * 64 + j] *= (i % 3 ? 1 : pow(10, power)) * (j % 3 ? 1 : pow(10, power));
        solve(a, 64, 60);
    }
}

static void scale_does_not_matter(void **state)
{
    (void)state;
    static double a[64 * 64], scaled[64 * 64];
    double values[64];
    uint64_t seed = 3;
    for (size_t i = 0; i < 64; i++)
        values[i] = 1 / (double)(i + 1);
    make(values, 64, &seed, a);
    solve(a, 64, 10);
    static solution first;
    first = found;
    for (int power = -1000; power <= 1000; power += 500) {
        for (size_t i = 0; i < 64 * 64; i++)
            scaled[i] = ldexp(a[i], power);
        solve(scaled, 64, 10);
        for (size_t i = 0; i < 10 && power > -1000; i++)
            assert_true(found.values[i] == ldexp(first.values[i], power));
        if (power > -1000) /* there small entries lose bits */
            assert_memory_equal(found.vectors, first.vectors, sizeof(double) * 64 * 10);
    }
    a[65] = NAN;
    assert_int_equal(qk__eigen_largest(a, 64, 1, found.values, found.vectors, NULL),
                     QK_ERR_INCONSISTENT);
    a[65] = INFINITY;
    assert_int_equal(qk__eigen_largest(a, 64, 1, found.values, found.vectors, NULL),
                     QK_ERR_INCONSISTENT);
}

/* How many eigenvalues are below x, known for the matrix (-1, 2, -1). */
static void sturm_counts(void **state)
{
    (void)state;
    enum { D = 50 };
    double diagonal[D], off_squared[D], x[STURM_POINTS], below[STURM_POINTS];
    for (size_t i = 0; i < D; i++) {
        diagonal[i] = 2;
        off_squared[i] = 1;
    }
    for (size_t i = 0; i < STURM_POINTS; i++)
        x[i] = i == 5 ? 2 : 4.2 * (double)i / STURM_POINTS; /* 2: the first pivot is 0 */
    qk__best_matrix_kernel()->sturm(diagonal, off_squared, D, x, below);
    for (size_t i = 0; i < STURM_POINTS; i++) {
        double expected = 0;
        for (size_t j = 1; j <= D; j++)
            expected += 2 - 2 * cos(acos(-1) * (double)j / (D + 1)) < x[i];
        assert_true(below[i] == expected);
    }
}

typedef struct outcome {
    double dot[40], matrix[40 * 40], product[40], below[STURM_POINTS];
} outcome;

static void run(const qk__matrix_kernel *kernel, outcome *out)
{
    enum { N = 37, LD = 40, FIRST = 11 };
    double v[LD] = {0}, w[LD] = {0}, next[LD] = {0}, x[STURM_POINTS];
    uint64_t seed = 7;
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < N * LD; i++)
        out->matrix[i] = i % LD < N ? random_unit(&seed) : 0;
    for (size_t i = FIRST - 1; i < N; i++) {
        v[i] = random_unit(&seed);
        w[i] = random_unit(&seed) * 1e10;
        next[i] = i < FIRST ? 0 : random_unit(&seed);
    }
    for (size_t i = 0; i < N; i++)
        out->dot[i] = kernel->dot(out->matrix, out->matrix + LD, i);
    kernel->sweep(out->matrix, LD, FIRST, N, v, w, next, out->product);
    kernel->add(0.3, v, out->product, N);
    for (size_t i = 0; i < STURM_POINTS; i++)
        x[i] = random_unit(&seed);
    for (size_t i = 0; i < N; i++)
        w[i] = random_unit(&seed) * random_unit(&seed) + 1e-3;
    kernel->sturm(out->matrix, w, N, x, out->below);
}

static void kernels_agree_to_the_last_bit(void **state)
{
    (void)state;
    static outcome portable, other;
    run(qk__matrix_kernels[0], &portable);
    qk__each_version (k, qk__matrix_kernels) {
        run(qk__matrix_kernels[k], &other);
        assert_memory_equal(&portable, &other, sizeof portable);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spectra_come_back),
        cmocka_unit_test(known_matrices),
        cmocka_unit_test(scale_does_not_matter),
        cmocka_unit_test(sturm_counts),
        cmocka_unit_test(tiny_rows),
        cmocka_unit_test(kernels_agree_to_the_last_bit),
    };
    return cmocka_run_group_tests_name("eigen", tests, NULL, NULL);
}
