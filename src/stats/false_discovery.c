/* SPDX-License-Identifier: Apache-2.0 */
/* p-values of many tests, corrected together. */
#include "stats/false_discovery.h"

#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"

typedef struct ranked {
    double p;
    size_t index;
} ranked;

static int compare_p_values(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->p != y->p)
        return x->p < y->p ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

qk_status qk__correct_p_values(const double *p, size_t count, double *corrected, qk_error *err)
{
    ranked *tests = qk__calloc(count + 1, sizeof *tests);
    size_t num_tests = 0;
    if (!tests)
        return qk__nomem(err);
    for (size_t i = 0; i < count; i++) {
        corrected[i] = NAN;
        if (!isnan(p[i]))
            tests[num_tests++] = (ranked){p[i], i};
    }
    qsort(tests, num_tests, sizeof *tests, compare_p_values);
    double least = 1;
    for (size_t rank = num_tests; rank-- > 0;) {
        least = fmin(least, tests[rank].p * (double)num_tests / (double)(rank + 1));
        corrected[tests[rank].index] = least;
    }
    free(tests);
    return QK_OK;
}
