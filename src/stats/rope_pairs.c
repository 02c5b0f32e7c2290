/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary pairs: angles, means over rows before RoPE, and the comparison with rows after it. */
#include "stats/rope_pairs.h"

#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/block_rows.h"

/* Positions that tables are made for: 2 pairs numbers for each QK__PHASOR_STEP of them. */
static const int64_t MAX_TABLE = (int64_t)1 << 22;

/* ---- angles ----------------------------------------------------------------------------- */

static void angles_at(const qk__pairing *pairing, int64_t position, double *out)
{
    for (size_t p = 0; p < pairing->pairs; p++) {
        double angle = pairing->frequencies[p] * (double)position;
        out[p] = cos(angle);
        out[pairing->pairs + p] = sin(angle);
    }
}

qk_status qk__phasors_init(qk__phasors *phasors, const qk__pairing *pairing,
                           int64_t last_position, qk_error *err)
{
    int64_t last = last_position < MAX_TABLE ? last_position : MAX_TABLE - 1;
    int64_t steps = (last > 0 ? last : 0) / QK__PHASOR_STEP + 1;
    size_t width = 2 * pairing->pairs;
    *phasors = (qk__phasors){.pairing = pairing, .end = steps * QK__PHASOR_STEP};
    QK_TRY(
        QK__CREATE_ARRAYS(err, {&phasors->fine, QK__PHASOR_STEP, width * sizeof *phasors->fine},
                          {&phasors->coarse, (size_t)steps, width * sizeof *phasors->coarse}));
    for (int64_t i = 0; i < QK__PHASOR_STEP; i++)
        angles_at(pairing, i, phasors->fine + (size_t)i * width);
    for (int64_t i = 0; i < steps; i++)
        angles_at(pairing, i * QK__PHASOR_STEP, phasors->coarse + (size_t)i * width);
    return QK_OK;
}

void qk__phasors_free(qk__phasors *phasors)
{
    free(phasors->fine);
    free(phasors->coarse);
    *phasors = (qk__phasors){0};
}

void qk__phasors_at(const qk__phasors *phasors, int64_t position, double *out)
{
    size_t pairs = phasors->pairing->pairs;
    if (position < 0 || position >= phasors->end) {
        angles_at(phasors->pairing, position, out);
        return;
    }
    const double *a = phasors->coarse + (size_t)(position / QK__PHASOR_STEP) * 2 * pairs;
    const double *b = phasors->fine + (size_t)(position % QK__PHASOR_STEP) * 2 * pairs;
    for (size_t p = 0; p < pairs; p++) {
        out[p] = a[p] * b[p] - a[pairs + p] * b[pairs + p];
        out[pairs + p] = a[p] * b[pairs + p] + a[pairs + p] * b[p];
    }
}

/* ---- means ------------------------------------------------------------------------------ */

/* Turns a row in place. */
static void turn(double *row, const qk__pairing *pairing, const double *angles, bool back)
{
    for (size_t p = 0; p < pairing->pairs; p++) {
        size_t first = qk__pair_first(pairing, p), second = qk__pair_second(pairing, p);
        double c = angles[p],
               s = back ? -angles[pairing->pairs + p] : angles[pairing->pairs + p];
        double x = row[first], y = row[second];
        row[first] = x * c - y * s;
        row[second] = x * s + y * c;
    }
}

static void add_row(const double *row, size_t dim, const qk__pairing *pairing,
                    qk__pair_means *means)
{
    for (size_t p = 0; p < pairing->pairs; p++) {
        double x = row[qk__pair_first(pairing, p)], y = row[qk__pair_second(pairing, p)];
        means->re[p] += x;
        means->im[p] += y;
        means->energy[p] += x * x + y * y;
    }
    for (size_t i = 0; i < dim; i++)
        means->total += row[i] * row[i];
}

qk_status qk__pair_means_of(const qk_block *rows, const qk__pairing *pairing,
                            const qk__phasors *back, int64_t from, qk__pair_means *means,
                            qk_error *err)
{
    size_t pairs = pairing->pairs, count = 0;
    double *row, *angles;
    *means = (qk__pair_means){0};
    QK_TRY(QK__CREATE_ARRAYS(err, {&means->re, 3 * pairs, sizeof *means->re},
                             {&row, rows->dim, sizeof *row},
                             {&angles, 2 * pairs, sizeof *angles}));
    means->im = means->re + pairs;
    means->energy = means->re + 2 * pairs;
    for (size_t r = 0; r < rows->rows; r++) {
        if (from > 0 && rows->position[r] < from)
            continue;
        qk__row_of(rows, r, row);
        if (back) {
            qk__phasors_at(back, rows->position[r], angles);
            turn(row, pairing, angles, true);
        }
        add_row(row, rows->dim, pairing, means);
        count++;
    }
    for (size_t i = 0; i < 3 * pairs; i++)
        means->re[i] /= (double)count;
    means->total /= (double)count;
    free(row);
    free(angles);
    return QK_OK;
}

void qk__pair_means_free(qk__pair_means *means)
{
    free(means->re);
    *means = (qk__pair_means){0};
}

/* ---- rotation --------------------------------------------------------------------------- */

/* The factor on x that brings it nearest to y; NaN for x = 0. */
static double factor_of(const double *x, const double *y, size_t count)
{
    double xx = 0, xy = 0;
    for (size_t i = 0; i < count; i++) {
        xx += x[i] * x[i];
        xy += x[i] * y[i];
    }
    return xx > 0 ? xy / xx : NAN;
}

/* Largest difference of y from x times the factor, or times 0 where there is none. */
static double largest_difference(const double *x, const double *y, size_t count, double factor)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(y[i] - (isnan(factor) ? 0 : factor * x[i])));
    return largest;
}

/* Returns the row's deviation; *factor is that on what is turned. */
static double compare_row(const double *turned, const double *after, size_t dim,
                          const qk__pairing *pairing, double *factor)
{
    size_t width = 2 * pairing->pairs;
    double length = 0;
    for (size_t i = 0; i < dim; i++)
        length += after[i] * after[i];
    length = sqrt(length);
    *factor = factor_of(turned, after, width);
    double rest = factor_of(turned + width, after + width, dim - width);
    double largest = fmax(largest_difference(turned, after, width, *factor),
                          largest_difference(turned + width, after + width, dim - width, rest));
    if (length > 0 && !(*factor <= 0))
        return largest / length;
    /* turned about, or gone; a row that is 0 after RoPE was 0 before */
    for (size_t i = 0; i < dim; i++)
        if (turned[i] != 0)
            return 1;
    return 0;
}

qk_status qk__compare_turned(const qk_block *before, const qk_block *after,
                             const qk__phasors *phasors, bool back, qk__turned *turned,
                             qk_error *err)
{
    const qk__pairing *pairing = phasors->pairing;
    size_t dim = before->dim, scaled = 0;
    double *x = qk__calloc(2 * dim + 2 * pairing->pairs, sizeof *x);
    if (!x)
        return qk__nomem(err);
    double *y = x + dim, *angles = y + dim, sum = 0;
    *turned = (qk__turned){.scale = NAN};
    for (size_t r = 0; r < before->rows; r++) {
        double factor;
        qk__row_of(before, r, x);
        qk__row_of(after, r, y);
        qk__phasors_at(phasors, before->position[r], angles);
        turn(x, pairing, angles, back);
        double deviation = compare_row(x, y, dim, pairing, &factor);
        if (deviation > turned->deviation) {
            turned->deviation = deviation;
            turned->row = r;
        }
        if (!isnan(factor)) {
            sum += factor;
            scaled++;
        }
    }
    if (scaled > 0)
        turned->scale = sum / (double)scaled;
    free(x);
    return QK_OK;
}
