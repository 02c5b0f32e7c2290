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
    double sum[2][COLUMNS], sum_t[2][COLUMNS], sum_o[2][COLUMNS];
    float x32[TILE_ROWS * COLUMNS];
    double x64[TILE_ROWS * COLUMNS];
    double t[TILE_ROWS], pilot[COLUMNS];
    uint32_t index[TILE_ROWS]; /* rows in a random order */
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    *state = f;
    if (!f)
        return -1;
    f->tile = qk__alloc_aligned(TILE_ROWS * COLUMNS, sizeof(double));
    uint64_t seed = 4;
    for (uint32_t i = 0; i < TILE_ROWS; i++) {
        uint32_t j = (uint32_t)(fabs(random_unit(&seed)) * (i + 1));
        f->index[i] = f->index[j];
        f->index[j] = i;
    }
    return f->tile ? 0 : -1;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    free(f->tile);
    free(f);
    return 0;
}

static void kernels_agree_on_gram(void **state)
{
    fixture *f = *state;
    uint64_t seed = 1;
    static const size_t rows[] = {0, 1, 2, 7, 31, 127, 128};
    qk__each_version (k, qk__gram_kernels)
        for (size_t panels = 1; panels <= MAX_PANELS; panels++)
            for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
                for (size_t i = 0; i < TILE_ROWS * COLUMNS; i++)
                    f->tile[i] = random_wild(&seed, 40);
                for (size_t i = 0; i < COLUMNS * COLUMNS; i++)
                    f->gram[0][i] = f->gram[1][i] = random_wild(&seed, 40);
                bool fresh = r % 2 == 1;
                qk__gram_portable.gram(f->tile, rows[r], panels, fresh, f->gram[0]);
                qk__gram_kernels[k]->gram(f->tile, rows[r], panels, fresh, f->gram[1]);
                assert_memory_equal(f->gram[0], f->gram[1], sizeof f->gram[0]);
            }
}

static void kernels_agree_on_packing(void **state)
{
    fixture *f = *state;
    uint64_t seed = 2;
    qk__each_version (k, qk__gram_kernels)
        for (size_t dim = 1; dim <= COLUMNS; dim += 1 + dim / 8) {
            for (size_t i = 0; i < TILE_ROWS * COLUMNS; i++) {
                f->x32[i] = (float)random_wild(&seed, 40);
                f->x64[i] = random_wild(&seed, 40);
            }
            for (size_t i = 0; i < TILE_ROWS; i++)
                f->t[i] = floor(1e6 * random_unit(&seed));
            for (size_t i = 0; i < dim; i++)
                f->pilot[i] = random_unit(&seed);
            for (size_t i = dim; i < COLUMNS; i++)
                f->pilot[i] = 0;
            memset(f->sum, 0, sizeof f->sum);
            memset(f->sum_t, 0, sizeof f->sum_t);
            memset(f->sum_o, 0, sizeof f->sum_o);
            for (int i = 0; i < 2; i++) {
                const qk__gram_kernel *kernel = qk__gram_kernels[i ? k : 0];
                memset(f->tile, 0, TILE_ROWS * COLUMNS * sizeof(double));
                kernel->pack_f32(f->x32, f->index, dim, f->pilot, f->t, NULL, 50, f->tile,
                                 f->sum[i], f->sum_t[i], NULL);
                kernel->pack_f64(f->x64, f->index, dim, f->pilot, f->t + 50, f->t, 78,
                                 f->tile + 50 * PANEL, f->sum[i], f->sum_t[i], f->sum_o[i]);
                memcpy(f->packed[i], f->tile, sizeof f->packed[i]);
            }
            assert_memory_equal(f->packed[0], f->packed[1], sizeof f->packed[0]);
            assert_memory_equal(f->sum[0], f->sum[1], sizeof f->sum[0]);
            assert_memory_equal(f->sum_t[0], f->sum_t[1], sizeof f->sum_t[0]);
            assert_memory_equal(f->sum_o[0], f->sum_o[1], sizeof f->sum_o[0]);
        }
}

static void portable_kernel_forms_products(void **state)
{
    fixture *f = *state;
    const size_t dim = 21, panels = 3, rows = 77;
    uint64_t seed = 3;
    for (size_t i = 0; i < TILE_ROWS * dim; i++)
        f->x64[i] = floor(1000 * random_unit(&seed)); /* integers: sums are exact */
    for (size_t i = 0; i <= rows; i++)
        f->t[i] = (double)i;
    memset(f->tile, 0, TILE_ROWS * COLUMNS * sizeof(double));
    memset(f->gram[0], 0, sizeof f->gram[0]);
    memset(f->pilot, 0, sizeof f->pilot);
    memset(f->sum[0], 0, sizeof f->sum[0]);
    memset(f->sum_t[0], 0, sizeof f->sum_t[0]);
    memset(f->sum_o[0], 0, sizeof f->sum_o[0]);
    qk__gram_portable.pack_f64(f->x64, f->index, dim, f->pilot, f->t, f->t + 1, rows, f->tile,
                               f->sum[0], f->sum_t[0], f->sum_o[0]);
    qk__gram_portable.gram(f->tile, rows, panels, false, f->gram[0]);
    for (size_t i = 0; i < dim; i++) {
        double sum = 0, sum_t = 0, sum_o = 0;
        for (size_t r = 0; r < rows; r++) {
            sum += f->x64[f->index[r] * dim + i];
            sum_t += f->x64[f->index[r] * dim + i] * f->t[r];
            sum_o += f->x64[f->index[r] * dim + i] * f->t[r + 1];
        }
        assert_true(f->sum[0][i] == sum && f->sum_t[0][i] == sum_t && f->sum_o[0][i] == sum_o);
        for (size_t j = i; j < dim; j++) {
            double product = 0;
            for (size_t r = 0; r < rows; r++)
                product += f->x64[f->index[r] * dim + i] * f->x64[f->index[r] * dim + j];
            assert_true(f->gram[0][qk__gram_row(panels, i) + j] == product);
        }
    }
}

/* v^T (sum of x x^T) v is the sum of (x . v)^2: with integers to the last bit; and with any numbers of one kernel as of
 * another. */
static void forms_are_sums_of_squares(void **state)
{
    fixture *f = *state;
    const size_t rows = 50;
    uint64_t seed = 5;
    for (size_t panels = 1; panels <= MAX_PANELS; panels++) {
        double v[COLUMNS], expected = 0;
        for (size_t i = 0; i < TILE_ROWS * COLUMNS; i++)
            f->tile[i] = floor(100 * random_unit(&seed));
        for (size_t i = 0; i < panels * PANEL; i++)
            v[i] = floor(10 * random_unit(&seed));
        for (size_t r = 0; r < rows; r++) {
            double y = 0;
            for (size_t i = 0; i < panels * PANEL; i++)
                y += f->tile[(i / PANEL * TILE_ROWS + r) * PANEL + i % PANEL] * v[i];
            expected += y * y;
        }
        qk__each_version (k, qk__gram_kernels) {
            const qk__gram_kernel *kernel = qk__gram_kernels[k];
            kernel->gram(f->tile, rows, panels, true, f->gram[0]);
            assert_true(kernel->form(f->gram[0], panels, v) == expected);
        }
        for (size_t i = 0; i < qk__gram_size(panels); i++)
            f->gram[0][i] = random_unit(&seed);
        double reference = qk__gram_portable.form(f->gram[0], panels, v);
        qk__each_version (k, qk__gram_kernels) {
            double other = qk__gram_kernels[k]->form(f->gram[0], panels, v);
            assert_memory_equal(&reference, &other, sizeof other);
        }
    }
}

static void kernels_add(void **state)
{
    fixture *f = *state;
    uint64_t seed = 8;
    size_t size = qk__gram_size(MAX_PANELS);
    qk__each_version (k, qk__gram_kernels) {
        for (size_t i = 0; i < size; i++) {
            f->gram[0][i] = random_unit(&seed);
            f->gram[1][i] = random_unit(&seed);
            f->x64[i] = f->gram[0][i] + f->gram[1][i];
        }
        qk__gram_kernels[k]->add(f->gram[0], f->gram[1], size);
        assert_memory_equal(f->gram[0], f->x64, size * sizeof(double));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(portable_kernel_forms_products, set_up, tear_down),
        cmocka_unit_test_setup_teardown(kernels_agree_on_gram, set_up, tear_down),
        cmocka_unit_test_setup_teardown(kernels_agree_on_packing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(forms_are_sums_of_squares, set_up, tear_down),
        cmocka_unit_test_setup_teardown(kernels_add, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("gram", tests, NULL, NULL);
}
