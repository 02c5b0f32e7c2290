/* SPDX-License-Identifier: Apache-2.0 */
/* Mean attention by bucket of rows and bin of distances, without keys 0 to 3, beside predictions. */
#include "stats/attention_profile.h"

#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"

enum { BINS = QK_DISTANCE_BINS };
static const int64_t LAST_POSITION = (int64_t)1 << 24; /* rows that are looked at one by one */
static const double SAME = 1e-9; /* profiles and logarithms that differ only by rounding */

static int64_t first_of_bin(int64_t bin)
{
    return bin > 0 ? (int64_t)1 << (bin - 1) : 0;
}

/* ---- which rows ------------------------------------------------------------------------- */

/* Positions of rows, and the most keys they see; window 0: all. */
typedef struct row_range {
    int64_t first, last, window;
} row_range;

static double mean_visible(const double *sums)
{
    return sums[QK_ATTENTION_VISIBLE] / sums[QK_ATTENTION_ROWS];
}

/* The rows of a bucket, up to the row with which the mean logarithm of the keys that they see is nearest to the
 * measured one. Where all rows see a whole window this says nothing: then they are all that may be there. */
static row_range find_rows(int64_t bucket, int64_t window, const double *sums)
{
    row_range rows = {.first = first_of_bin(bucket), .window = window};
    int64_t end = bucket < BINS - 1 ? 2 * rows.first : LAST_POSITION;
    double visible = mean_visible(sums), sum = 0, nearest = INFINITY;
    rows.last = end - 1;
    if (window > 0 && window <= rows.first)
        return rows;
    for (int64_t i = rows.first; i < end; i++) {
        sum += log((double)(window > 0 && window < i + 1 ? window : i + 1));
        double apart = fabs(sum / (double)(i - rows.first + 1) - visible);
        if (apart >= nearest) /* the mean grows */
            break;
        nearest = apart;
        rows.last = i;
    }
    return rows;
}

/* The window of a bucket whose rows see fewer keys than there are; 0: they see all. */
static int64_t find_window(int64_t bucket, const double *sums)
{
    double visible = mean_visible(sums);
    return visible < log((double)first_of_bin(bucket) + 1) - SAME ? llround(exp(visible)) : 0;
}

/* Keys from 4 on that a row sees. */
static int64_t count_far_keys(int64_t row, int64_t window)
{
    int64_t keys = row - QK_SINK_KEYS + 1;
    return window > 0 && window < keys ? window : keys;
}

/* ---- profiles --------------------------------------------------------------------------- */

/* The mean over rows of the attention that each bin gets. upto[D]: sum of the weights of distances 0 to D; NULL: all
 * weights are equal. */
static void average_rows(const row_range *rows, const double *upto, double mass[BINS])
{
    int64_t count = 0;
    for (int b = 0; b < BINS; b++)
        mass[b] = 0;
    for (int64_t i = rows->first; i <= rows->last; i++) {
        int64_t keys = count_far_keys(i, rows->window);
        double whole = upto ? upto[keys - 1] : (double)keys, before = 0;
        if (!(whole > 0))
            continue;
        count++;
        for (int b = 0; b < BINS && first_of_bin(b) < keys; b++) {
            int64_t end =
                b == BINS - 1 || first_of_bin(b + 1) > keys ? keys : first_of_bin(b + 1);
            double here = upto ? upto[end - 1] : (double)end;
            mass[b] += (here - before) / whole;
            before = here;
        }
    }
    for (int b = 0; b < BINS; b++)
        mass[b] = count > 0 ? mass[b] / (double)count : NAN;
}

static size_t add_cells(const row_range *rows, const double *sums, qk_attention_cell *cells)
{
    double uniform[BINS], far = sums[QK_ATTENTION_FAR];
    size_t count = 0;
    average_rows(rows, NULL, uniform);
    for (int b = 0; b < BINS; b++) {
        double mass = sums[QK_ATTENTION_FAR_BINS + b] / far;
        if (mass == 0 && uniform[b] == 0)
            continue;
        cells[count++] =
            (qk_attention_cell){.row_first = rows->first,
                                .row_last = rows->last,
                                .distance_first = first_of_bin(b),
                                .distance_last = b > 0 ? 2 * first_of_bin(b) - 1 : 0,
                                .mass = mass,
                                .uniform = uniform[b],
                                .predicted_rotation = NAN,
                                .predicted_means = NAN,
                                .rest = far / sums[QK_ATTENTION_FAR_ROWS],
                                .weight = far};
    }
    return count;
}

/* The member of a cell for a prediction. */
static double *predicted(qk_attention_cell *cell, qk__prediction which)
{
    return which == QK__BY_MEANS ? &cell->predicted_means : &cell->predicted_rotation;
}

/* The middle of the distances of a cell that its rows see. */
static double middle_of(const qk_attention_cell *cell)
{
    int64_t last = cell->row_last - QK_SINK_KEYS;
    last = last < cell->distance_last ? last : cell->distance_last;
    return (double)(cell->distance_first + last) / 2;
}

/* Adds `count` cells of one row bucket to the sums xy and xx about their weighted means. */
static void add_slope(const qk_attention_cell *cells, size_t count, double *xy, double *xx)
{
    double n = 0, x = 0, y = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < count; i++) {
            double weight = cells[i].weight * cells[i].mass, distance = middle_of(&cells[i]);
            if (!(weight > 0 && cells[i].uniform > 0))
                continue;
            double height = log(cells[i].mass / cells[i].uniform);
            if (pass == 0) {
                n += weight;
                x += weight * distance;
                y += weight * height;
            } else {
                *xy += weight * (distance - x / n) * (height - y / n);
                *xx += weight * (distance - x / n) * (distance - x / n);
            }
        }
}

static double find_slope(const qk_attention_cell *cells, size_t count)
{
    double xy = 0, xx = 0;
    for (size_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && cells[next].row_first == cells[i].row_first;)
            next++;
        add_slope(cells + i, next - i, &xy, &xx);
    }
    return xx > 0 ? xy / xx : NAN;
}

/* Whether a bucket has far rows, from position 8 on. */
static bool has_far_rows(const qk__attention_head *head, size_t i)
{
    const double *sums = head->by_bucket + i * QK_ATTENTION_SUMS;
    return head->bucket[i] >= 0 && head->bucket[i] < BINS &&
           first_of_bin(head->bucket[i]) >= QK_FAR_POSITION && sums[QK_ATTENTION_ROWS] > 0 &&
           sums[QK_ATTENTION_FAR_ROWS] > 0 && sums[QK_ATTENTION_FAR] > 0;
}

qk_status qk__attention_profile(const qk__attention_head *head, qk_attention *numbers,
                                qk_error *err)
{
    qk_attention_cell *cells = qk__calloc(head->num_buckets * BINS + 1, sizeof *cells);
    if (!cells)
        return qk__nomem(err);
    numbers->num_profile = 0;
    for (size_t i = 0; i < head->num_buckets; i++)
        if (has_far_rows(head, i))
            numbers->window =
                find_window(head->bucket[i], head->by_bucket + i * QK_ATTENTION_SUMS);
    for (size_t i = 0; i < head->num_buckets; i++) {
        const double *sums = head->by_bucket + i * QK_ATTENTION_SUMS;
        if (!has_far_rows(head, i))
            continue;
        const row_range rows = find_rows(head->bucket[i], numbers->window, sums);
        numbers->num_profile += add_cells(&rows, sums, cells + numbers->num_profile);
    }
    numbers->distance_slope = find_slope(cells, numbers->num_profile);
    qk_attention_cell *fitting = realloc(cells, (numbers->num_profile + 1) * sizeof *cells);
    numbers->profile = fitting ? fitting : cells;
    return QK_OK;
}

void qk__attention_free(qk_attention **numbers)
{
    if (*numbers)
        free((*numbers)->profile);
    free(*numbers);
    *numbers = NULL;
}

/* ---- predictions ------------------------------------------------------------------------ */

size_t qk__attention_reach(const qk_attention *numbers)
{
    int64_t last = QK_SINK_KEYS - 1;
    for (size_t i = 0; i < numbers->num_profile; i++)
        if (numbers->profile[i].row_last > last)
            last = numbers->profile[i].row_last;
    return (size_t)(last - QK_SINK_KEYS + 1);
}

/* R² of a prediction. */
static double compare_profiles(qk_attention *numbers, qk__prediction which)
{
    double error = 0, apart = 0, weight = 0;
    for (size_t i = 0; i < numbers->num_profile; i++) {
        qk_attention_cell *cell = &numbers->profile[i];
        double e = cell->mass - *predicted(cell, which), u = cell->mass - cell->uniform;
        error += cell->weight * e * e;
        apart += cell->weight * u * u;
        weight += cell->weight * cell->mass; /* the masses of a bucket add up to 1 */
    }
    return apart > SAME * SAME * weight ? 1 - error / apart : NAN;
}

void qk__attention_predict(qk_attention *numbers, qk__prediction which, double *scores)
{
    size_t reach = qk__attention_reach(numbers);
    double largest = -INFINITY, sum = 0, mass[BINS] = {0};
    row_range rows = {.first = -1, .window = numbers->window};
    for (size_t d = 0; d < reach; d++)
        largest = fmax(largest, scores[d]);
    for (size_t d = 0; d < reach; d++)
        scores[d] = sum += exp(scores[d] - largest);
    for (size_t i = 0; i < numbers->num_profile; i++) {
        qk_attention_cell *cell = &numbers->profile[i];
        if (cell->row_first != rows.first) {
            rows.first = cell->row_first;
            rows.last = cell->row_last;
            average_rows(&rows, scores, mass);
        }
        *predicted(cell, which) = mass[qk_distance_bin(cell->distance_first)];
    }
    *(which == QK__BY_MEANS ? &numbers->means_r2 : &numbers->rotation_r2) =
        compare_profiles(numbers, which);
}
