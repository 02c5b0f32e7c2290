/* SPDX-License-Identifier: Apache-2.0 */
/* Every Gram kernel against the portable one, bit for bit, and that one against plain sums. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "stats/gram.h"

enum { MAX_PANELS = 9, COLUMNS = MAX_PANELS * PANEL };

typedef struct fixture {
    double *tile;
    double packed[2][TILE_ROWS * COLUMNS];
    double gram[2][COLUMNS * COLUMNS];
    double sum[2][COLUMNS], sum_t[2][COLUMNS];
    float x32[TILE_ROWS * COLUMNS];
    double x64[TILE_ROWS * COLUMNS];
    double t[TILE_ROWS], pilot[COLUMNS];
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    *state = f;
    if (!f)
        return -1;
    f->tile = qk__alloc_aligned(TILE_ROWS * COLUMNS, sizeof(double));
    return f->tile ? 0 : -1;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    free(f->tile);
    free(f);
    return 0;
}

/* Ordinary values with a few enormous, tiny and zero ones among them. */
static double sample(uint64_t *seed)
{
    double u = random_unit(seed);
    switch ((int)(fabs(random_unit(seed)) * 40)) {
    case 0:
        return u * 1e30;
    case 1:
        return u * 1e-30;
    case 2:
        return 0;
    default:
        return u;
    }
}

static void kernels_agree_on_gram(void **state)
{
    fixture *f = *state;
    uint64_t seed = 1;
    static const size_t rows[] = {0, 1, 2, 7, 31, 127, 128};
    for (size_t k = 1; k < qk__simd_count(); k++)
        for (size_t panels = 1; panels <= MAX_PANELS; panels++)
            for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
                for (size_t i = 0; i < TILE_ROWS * COLUMNS; i++)
                    f->tile[i] = sample(&seed);
                for (size_t i = 0; i < COLUMNS * COLUMNS; i++)
                    f->gram[0][i] = f->gram[1][i] = sample(&seed);
                qk__gram_portable.gram(f->tile, rows[r], panels, f->gram[0]);
                qk__gram_kernel_at(k)->gram(f->tile, rows[r], panels, f->gram[1]);
                assert_memory_equal(f->gram[0], f->gram[1], sizeof f->gram[0]);
            }
}

static void kernels_agree_on_packing(void **state)
{
    fixture *f = *state;
    uint64_t seed = 2;
    for (size_t k = 1; k < qk__simd_count(); k++)
        for (size_t dim = 1; dim <= COLUMNS; dim += 1 + dim / 8) {
            for (size_t i = 0; i < TILE_ROWS * COLUMNS; i++) {
                f->x32[i] = (float)sample(&seed);
                f->x64[i] = sample(&seed);
            }
            for (size_t i = 0; i < TILE_ROWS; i++)
                f->t[i] = floor(1e6 * random_unit(&seed));
            for (size_t i = 0; i < dim; i++)
                f->pilot[i] = random_unit(&seed);
            for (size_t i = dim; i < COLUMNS; i++)
                f->pilot[i] = 0;
            memset(f->sum, 0, sizeof f->sum);
            memset(f->sum_t, 0, sizeof f->sum_t);
            for (int i = 0; i < 2; i++) {
                const qk_gram_kernel *kernel = qk__gram_kernel_at(i ? k : 0);
                memset(f->tile, 0, TILE_ROWS * COLUMNS * sizeof(double));
                kernel->pack_f32(f->x32, dim, f->pilot, f->t, 50, f->tile, f->sum[i],
                                 f->sum_t[i]);
                kernel->pack_f64(f->x64, dim, f->pilot, f->t + 50, 78, f->tile + 50 * PANEL,
                                 f->sum[i], f->sum_t[i]);
                memcpy(f->packed[i], f->tile, sizeof f->packed[i]);
            }
            assert_memory_equal(f->packed[0], f->packed[1], sizeof f->packed[0]);
            assert_memory_equal(f->sum[0], f->sum[1], sizeof f->sum[0]);
            assert_memory_equal(f->sum_t[0], f->sum_t[1], sizeof f->sum_t[0]);
        }
}

static void portable_kernel_forms_products(void **state)
{
    fixture *f = *state;
    const size_t dim = 21, panels = 3, rows = 77;
    uint64_t seed = 3;
    for (size_t i = 0; i < rows * dim; i++)
        f->x64[i] = floor(1000 * random_unit(&seed)); /* integers: sums are exact */
    for (size_t i = 0; i < rows; i++)
        f->t[i] = (double)i;
    memset(f->tile, 0, TILE_ROWS * COLUMNS * sizeof(double));
    memset(f->gram[0], 0, sizeof f->gram[0]);
    memset(f->pilot, 0, sizeof f->pilot);
    memset(f->sum[0], 0, sizeof f->sum[0]);
    memset(f->sum_t[0], 0, sizeof f->sum_t[0]);
    qk__gram_portable.pack_f64(f->x64, dim, f->pilot, f->t, rows, f->tile, f->sum[0],
                               f->sum_t[0]);
    qk__gram_portable.gram(f->tile, rows, panels, f->gram[0]);
    for (size_t i = 0; i < dim; i++) {
        double sum = 0, sum_t = 0;
        for (size_t r = 0; r < rows; r++) {
            sum += f->x64[r * dim + i];
            sum_t += f->x64[r * dim + i] * f->t[r];
        }
        assert_true(f->sum[0][i] == sum && f->sum_t[0][i] == sum_t);
        for (size_t j = i; j < dim; j++) {
            double product = 0;
            for (size_t r = 0; r < rows; r++)
                product += f->x64[r * dim + i] * f->x64[r * dim + j];
            assert_true(f->gram[0][i * panels * PANEL + j] == product);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(portable_kernel_forms_products, set_up, tear_down),
        cmocka_unit_test_setup_teardown(kernels_agree_on_gram, set_up, tear_down),
        cmocka_unit_test_setup_teardown(kernels_agree_on_packing, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("gram", tests, NULL, NULL);
}
