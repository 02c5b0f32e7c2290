/* SPDX-License-Identifier: Apache-2.0 */
/* The Kolmogorov-Smirnov statistic from a histogram.
 *
 * The number of values below an edge between bins and Phi there are known exactly, so their
 * largest difference is a lower bound of D, and a bin can hold D only if its own upper bound
 * exceeds it: few do. Only the values of these bins are sorted and looked at. */
#include "stats/ks_statistic.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/normal_table.h"

enum {
    MIN_BINS = 64,
    MAX_BINS = 2048,
    VALUES_PER_BIN = 4, /* wanted on average */
};

static const double RANGE = 4;     /* bins are equally wide from -4 to 4, the outer two open */
static const double SLACK = 1e-13; /* more than the rounding of a bound */

struct qk__ks {
    size_t rows, bins;
    double width, share; /* of a bin; 1 / rows */
    double *phi;         /* [bins + 1] at the lower edges; 0 and 1 at the ends */
    double *difference;  /* [bins + 1] share of the values below the edge less Phi there */
    double *grouped;     /* [rows] values of the bins looked at, bin by bin */
    int32_t *below;      /* [bins + 1] number of values in the bins before */
    int32_t *next;       /* [bins] where in `grouped` the bin's next value goes */
    int32_t *kept;       /* [rows + 1] which values are grouped */
    uint16_t *bin;       /* [rows] */
    bool *wanted;        /* [bins] */
};

static inline double max(double a, double b)
{
    return a > b ? a : b;
}

/* The tail's polynomials, as in the pair kernels: right to 2 * 10^-15, and the same everywhere. */
static double normal_cdf(double z)
{
    static const double above[] = {TAIL_P}, below[] = {TAIL_Q};
    double far = fabs(z), p = 0, q = 0;
    if (far > NORMAL_TOP)
        return z > 0;
    for (size_t i = 0; i < sizeof above / sizeof *above; i++)
        p = p * far + above[i];
    for (size_t i = 0; i < sizeof below / sizeof *below; i++)
        q = q * far + below[i];
    double tail = p / q * exp(-z * z / 2) / 2;
    return z > 0 ? 1 - tail : tail;
}

qk_status qk__ks_create(qk__ks **out, size_t rows, qk_error *err)
{
    size_t bins = MIN_BINS;
    *out = NULL;
    if (rows >= INT32_MAX)
        return qk__nomem(err);
    while (bins < MAX_BINS && bins * VALUES_PER_BIN < rows)
        bins *= 2;
    qk__ks *ks = calloc(1, sizeof *ks);
    if (!ks)
        return qk__nomem(err);
    *ks = (qk__ks){.rows = rows,
                   .bins = bins,
                   .width = 2 * RANGE / (double)bins,
                   .share = 1 / (double)rows};
    qk_status status = QK__CREATE_ARRAYS(
        err, {&ks->phi, bins + 1, sizeof *ks->phi},
        {&ks->grouped, rows + 1, sizeof *ks->grouped},
        {&ks->difference, bins + 1, sizeof *ks->difference},
        {&ks->kept, rows + 1, sizeof *ks->kept}, {&ks->below, bins + 1, sizeof *ks->below},
        {&ks->next, bins, sizeof *ks->next}, {&ks->bin, rows + 1, sizeof *ks->bin},
        {&ks->wanted, bins, sizeof *ks->wanted});
    for (size_t b = 1; status == QK_OK && b < bins; b++)
        ks->phi[b] = normal_cdf((double)b * ks->width - RANGE);
    if (status == QK_OK)
        ks->phi[bins] = 1;
    else
        qk__ks_free(&ks);
    *out = ks;
    return status;
}

void qk__ks_free(qk__ks **ks)
{
    if (!*ks)
        return;
    free((*ks)->phi);
    free((*ks)->grouped);
    free((*ks)->below);
    free((*ks)->next);
    free((*ks)->kept);
    free((*ks)->difference);
    free((*ks)->bin);
    free((*ks)->wanted);
    free(*ks);
    *ks = NULL;
}

/* Which bin each value is in, and how many values lie below each bin. */
static void count_values(qk__ks *ks, const double *x, double centre, double scale)
{
    const double factor = scale / ks->width, middle = (double)ks->bins / 2;
    const double last = (double)ks->bins - 1;
    memset(ks->below, 0, (ks->bins + 1) * sizeof *ks->below);
    for (size_t i = 0; i < ks->rows; i++) {
        double at = (x[i] - centre) * factor + middle;
        size_t bin = (size_t)(int)(at < 0 ? 0 : at > last ? last : at);
        ks->bin[i] = (uint16_t)bin;
        ks->below[bin + 1]++;
    }
    for (size_t b = 0; b < ks->bins; b++)
        ks->below[b + 1] += ks->below[b];
}

/* Gathers the values of bins that can hold D: its largest lower bound is the difference at an edge. */
static void gather_bins(qk__ks *ks, const double *x)
{
    double *difference = ks->difference, least = 0;
    int32_t start = 0;
    size_t kept = 0;
    for (size_t b = 0; b <= ks->bins; b++) {
        difference[b] = (double)ks->below[b] * ks->share - ks->phi[b];
        least = max(least, fabs(difference[b]));
    }
    for (size_t b = 0; b < ks->bins; b++) {
        double mass = ks->phi[b + 1] - ks->phi[b];
        ks->wanted[b] = max(difference[b + 1] + mass, mass - difference[b]) > least - SLACK;
        ks->next[b] = start;
        start += ks->wanted[b] * (ks->below[b + 1] - ks->below[b]);
    }
    for (size_t i = 0; i < ks->rows; i++) { /* without a branch that nobody predicts */
        ks->kept[kept] = (int32_t)i;
        kept += ks->wanted[ks->bin[i]];
    }
    for (size_t i = 0; i < kept; i++)
        ks->grouped[ks->next[ks->bin[ks->kept[i]]]++] = x[ks->kept[i]];
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double qk__ks_normal(qk__ks *ks, const double *x, double centre, double scale)
{
    double best = 0, rows = (double)ks->rows;
    if (ks->rows == 0)
        return 0;
    count_values(ks, x, centre, scale);
    gather_bins(ks, x);
    double *values = ks->grouped;
    for (size_t b = 0; b < ks->bins; b++) {
        size_t below = (size_t)ks->below[b];
        size_t count = ks->wanted[b] ? (size_t)ks->below[b + 1] - below : 0;
        if (count > 1)
            qsort(values, count, sizeof *values, ascending);
        for (size_t i = 0; i < count; i++) {
            double p = normal_cdf((values[i] - centre) * scale);
            best = max(best, (double)(below + i + 1) / rows - p);
            best = max(best, p - (double)(below + i) / rows);
        }
        values += count;
    }
    return best;
}
