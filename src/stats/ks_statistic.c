/* SPDX-License-Identifier: Apache-2.0 */
/* The Kolmogorov-Smirnov statistic from a histogram.
 *
 * The number of values below an edge between bins and Phi there are known exactly, so their
 * largest difference is a lower bound of D, and a bin can hold D only if its own upper bound
 * exceeds it: few do. Only the values of these bins are looked at, with Phi by Taylor's series
 * about the edge; Phi is computed where the error of the series could hide a new best. */
#include "stats/ks_statistic.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "stats/normal_table.h"

enum {
    MIN_BINS = 64,
    MAX_BINS = 2048,
    VALUES_PER_BIN = 4, /* wanted on average */
    SMALL = 24,         /* values sorted by insertion */
    BLOCK = 32,
    LANES = 4,
};

static const double RANGE = 4;     /* bins are equally wide from -4 to 4, the outer two open */
static const double SLACK = 1e-13; /* more than the rounding of a bound */

struct qk__ks {
    size_t rows, bins;
    double width;
    double *phi;        /* [bins + 1] at the lower edges; 0 and 1 at the ends */
    double *density;    /* [bins] at the lower edges */
    double *mass;       /* [bins] Phi from edge to edge */
    double *difference; /* [bins + 1] share of the values below the edge less Phi there */
    double *grouped;    /* [rows] values of the bins looked at, bin by bin */
    int32_t *below;     /* [bins + 1] number of values in the bins before */
    int32_t *next;      /* [bins] where in `grouped` the bin's next value goes */
    int32_t *kept;      /* [rows] which values these are, in the order of the rows */
    uint16_t *bin;      /* [rows] */
    uint16_t *wanted;   /* [bins] 1 if the bin is looked at */
};

/* How values are compared, and the best difference met so far. */
typedef struct search {
    double rows, inverse, centre, scale;
    double best;  /* of the values themselves */
    double least; /* a smaller difference cannot be D */
    /* Taylor's series of Phi in this bin; error infinite where it must not be used. */
    double edge, phi, density, error;
} search;

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
    *out = NULL;
    if (rows > INT32_MAX)
        return qk__nomem(err);
    size_t bins = MIN_BINS;
    while (bins < MAX_BINS && bins * VALUES_PER_BIN < rows)
        bins *= 2;
    size_t bytes = sizeof(qk__ks) + (4 * bins + 2 + rows) * sizeof(double) +
                   (2 * bins + 1 + rows) * sizeof(int32_t) + (bins + rows) * sizeof(uint16_t);
    qk__ks *ks = malloc(bytes);
    if (!ks)
        return qk__nomem(err);
    ks->rows = rows;
    ks->bins = bins;
    ks->width = 2 * RANGE / (double)bins;
    ks->phi = (double *)(ks + 1);
    ks->density = ks->phi + bins + 1;
    ks->mass = ks->density + bins;
    ks->difference = ks->mass + bins;
    ks->grouped = ks->difference + bins + 1;
    ks->below = (void *)(ks->grouped + rows);
    ks->next = ks->below + bins + 1;
    ks->kept = ks->next + bins;
    ks->bin = (void *)(ks->kept + rows);
    ks->wanted = ks->bin + rows;
    for (size_t b = 0; b < bins; b++) {
        double z = (double)b * ks->width - RANGE;
        ks->phi[b] = normal_cdf(z);
        ks->density[b] = exp(-z * z / 2) * 0.39894228040143267794;
    }
    ks->phi[0] = 0;
    ks->phi[bins] = 1;
    for (size_t b = 0; b < bins; b++)
        ks->mass[b] = ks->phi[b + 1] - ks->phi[b];
    *out = ks;
    return QK_OK;
}

void qk__ks_free(qk__ks **ks)
{
    free(*ks);
    *ks = NULL;
}

static void meet(search *s, double difference)
{
    if (difference > s->best)
        s->best = difference;
    if (difference > s->least)
        s->least = difference;
}

/* Equal values x of ranks below + 1 .. below + count. */
static void examine(search *s, double x, size_t below, size_t count)
{
    double p = normal_cdf((x - s->centre) * s->scale);
    meet(s, (double)(below + count) / s->rows - p);
    meet(s, p - (double)below / s->rows);
}

static void examine_few(search *s, double *x, size_t count, size_t below)
{
    for (size_t i = 1; i < count; i++) {
        double value = x[i];
        size_t j = i;
        for (; j > 0 && x[j - 1] > value; j--)
            x[j] = x[j - 1];
        x[j] = value;
    }
    for (size_t i = 0; i < count; i++) {
        double e = s->edge, h = (x[i] - s->centre) * s->scale - e;
        double p = s->phi + s->density * h * (1 - h * (e / 2 - h * ((e * e - 1) / 6)));
        double under = p - (double)(below + i) * s->inverse;
        /* the two differences are about under and 1 / rows - under */
        if (!(max(under, s->inverse - under) + s->error <= s->least))
            examine(s, x[i], below + i, 1);
    }
}

/* Puts x in the order less than, equal to, more than the pivot; where the two borders are. */
static void partition(double *x, size_t count, double pivot, size_t *less, size_t *more)
{
    size_t i = 0;
    *less = 0;
    *more = count;
    while (i < *more) {
        double value = x[i];
        if (value < pivot) {
            x[i++] = x[*less];
            x[(*less)++] = value;
        } else if (value > pivot) {
            x[i] = x[--*more];
            x[*more] = value;
        } else {
            i++;
        }
    }
}

/* Quicksort that leaves out the parts which cannot hold the largest difference. The values
 * have ranks below + 1 .. below + count, and Phi from `low` to `high`. */
static void examine_many(search *s, double *x, size_t count, size_t below, double low,
                         double high)
{
    for (;;) {
        if ((double)(below + count) * s->inverse - low <= s->least - SLACK &&
            high - (double)below * s->inverse <= s->least - SLACK)
            return;
        if (count <= SMALL)
            break;
        double a = x[0], b = x[count / 2], c = x[count - 1];
        double pivot = a < b ? (b < c ? b : max(a, c)) : (a < c ? a : max(b, c));
        size_t less, more;
        partition(x, count, pivot, &less, &more);
        examine(s, pivot, below + less, more - less);
        double middle = normal_cdf((pivot - s->centre) * s->scale);
        if (less < count - more) { /* the smaller part by recursion: a shallow stack */
            examine_many(s, x, less, below, low, middle);
            x += more;
            below += more;
            count -= more;
            low = middle;
        } else {
            examine_many(s, x + more, count - more, below + more, middle, high);
            count = less;
            high = middle;
        }
    }
    examine_few(s, x, count, below);
}

/* x to its bin, in units of bins. */
typedef struct binning {
    double centre, factor, middle, last;
} binning;

/* The bins of BLOCK values. Adding 2^52 leaves the nearest whole number in the lowest bits of a
 * double. */
static inline void find_bins(const binning *to, const double *x, uint64_t *bins)
{
    double at[BLOCK];
    for (size_t j = 0; j < BLOCK; j++) {
        double v = (x[j] - to->centre) * to->factor + to->middle;
        v = v > 0 ? v : 0;
        at[j] = (v < to->last ? v : to->last) + 0x1p52;
    }
    memcpy(bins, at, sizeof at);
}

/* Which bin each value is in, and how many values lie below each bin. */
static void count_values(qk__ks *ks, const double *x, double centre, double scale)
{
    const binning to = {centre, scale / ks->width, (double)ks->bins / 2 - 0.5,
                        (double)ks->bins - 1};
    int32_t *counts = ks->below + 1, sum = 0;
    uint64_t bins[BLOCK];
    memset(ks->below, 0, (ks->bins + 1) * sizeof *ks->below);
    size_t i = 0;
    for (; i + BLOCK <= ks->rows; i += BLOCK) {
        find_bins(&to, x + i, bins);
        for (size_t j = 0; j < BLOCK; j++) {
            ks->bin[i + j] = (uint16_t)bins[j];
            counts[(uint16_t)bins[j]]++;
        }
    }
    double rest[BLOCK] = {0};
    memcpy(rest, x + i, (ks->rows - i) * sizeof *x);
    find_bins(&to, rest, bins);
    for (size_t j = 0; i + j < ks->rows; j++) {
        ks->bin[i + j] = (uint16_t)bins[j];
        counts[(uint16_t)bins[j]]++;
    }
    for (size_t b = 0; b < ks->bins; b++) {
        sum += counts[b];
        counts[b] = sum;
    }
}

/* The largest difference at an edge between bins. */
static double measure_edges(qk__ks *ks, double inverse)
{
    double lane[LANES] = {0};
    for (size_t b = 0; b < ks->bins; b += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            double difference = (double)ks->below[b + l] * inverse - ks->phi[b + l];
            ks->difference[b + l] = difference;
            lane[l] = max(lane[l], fabs(difference));
        }
    }
    ks->difference[ks->bins] = 0;
    return max(max(lane[0], lane[1]), max(lane[2], lane[3]));
}

/* Chooses the bins to look at and gathers their values. */
static void gather_bins(qk__ks *ks, const double *x, double least)
{
    for (size_t b = 0; b < ks->bins; b++) {
        double over = ks->difference[b + 1] + ks->mass[b];
        double under = ks->mass[b] - ks->difference[b];
        ks->wanted[b] = max(over, under) > least;
    }
    int32_t start = 0;
    for (size_t b = 0; b < ks->bins; b++) {
        ks->next[b] = start;
        start += ks->wanted[b] ? ks->below[b + 1] - ks->below[b] : 0;
    }
    size_t kept = 0;
    for (size_t i = 0; i < ks->rows; i++) {
        ks->kept[kept] = (int32_t)i;
        kept += ks->wanted[ks->bin[i]];
    }
    for (size_t i = 0; i < kept; i++) {
        size_t from = (size_t)ks->kept[i];
        ks->grouped[ks->next[ks->bin[from]]++] = x[from];
    }
}

double qk__ks_normal(qk__ks *ks, const double *x, double centre, double scale)
{
    if (ks->rows == 0)
        return 0;
    search s = {.rows = (double)ks->rows, .centre = centre, .scale = scale};
    s.inverse = 1 / s.rows;
    count_values(ks, x, centre, scale);
    s.least = measure_edges(ks, s.inverse) - SLACK;
    gather_bins(ks, x, s.least);
    double *values = ks->grouped;
    for (size_t b = 0; b < ks->bins; b++) {
        if (!ks->wanted[b])
            continue;
        size_t below = (size_t)ks->below[b], count = (size_t)ks->below[b + 1] - below;
        double width = ks->width;
        s.edge = (double)b * width - RANGE;
        s.phi = ks->phi[b];
        s.density = ks->density[b];
        /* the fourth derivative of Phi is below 0.6 */
        s.error =
            b > 0 && b + 1 < ks->bins ? width * width * width * width / 40 + SLACK : HUGE_VAL;
        examine_many(&s, values, count, below, s.phi, ks->phi[b + 1]);
        values += count;
    }
    return s.best;
}
