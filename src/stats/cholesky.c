/* SPDX-License-Identifier: Apache-2.0 */
/* Cholesky factor, row by row. */
#include "stats/cholesky.h"

#include <math.h>

#include "stats/pair_kernel.h"

void qk__cholesky(double *matrix, size_t n, size_t ld, double least)
{
    const qk__pair_kernel *kernel = qk__best_pair_kernel();
    for (size_t i = 0; i < n; i++) {
        double *row = matrix + i * ld;
        for (size_t j = 0; j < i; j++) {
            const double *above = matrix + j * ld;
            double rest = row[j] - kernel->dot(row, above, j);
            row[j] = above[j] > 0 ? rest / above[j] : 0;
        }
        double rest = row[i] - kernel->dot(row, row, i);
        row[i] = rest > least ? sqrt(rest) : 0;
        for (size_t j = i + 1; j < n; j++)
            row[j] = 0;
    }
}
