/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring the mean score by distance. */
#include "stats/score_curve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/matrix_kernel.h"
#include "stats/row_order.h"
#include "stats/block_rows.h"

/* 2 bins for each power of two below QK__MAX_POSITION, and one bin behind the last. */
enum { MAX_BINS = 2 * 40 + 1 };

int64_t qk__score_bin_first(size_t bin)
{
    if (bin < 2)
        return (int64_t)bin;
    return (int64_t)(2 + (bin & 1)) << (bin / 2 - 1);
}

/* The rows by text and position; those alike in both as they came. */
static qk_status order_rows(const qk_block *sample, uint32_t **order, qk_error *err)
{
    const int64_t *const keys[] = {sample->example, sample->position};
    *order = NULL;
    if (sample->rows >= UINT32_MAX)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "%zu rows in one head", sample->rows);
    return qk__rows_in_order(order, sample->rows, keys, 2, err);
}

/* ---- keys ------------------------------------------------------------------------------- */

static void add_before(double *sums, size_t width)
{
    for (size_t i = 0; i < width; i++)
        sums[i] += sums[i - width];
}

static void fill_key(qk__key_sums *sums, const qk_block *keys, const qk__phasors *phasors,
                     size_t i, size_t row, int64_t first_position)
{
    size_t width = 2 * sums->pairs;
    int64_t position = keys->position[row];
    bool first = i == 0 || sums->text[i - 1] != keys->example[row];
    sums->text[i] = keys->example[row];
    sums->position[i] = position;
    sums->positions[i] = (double)(position - first_position);
    qk__row_of(keys, row, sums->vectors + i * sums->dim);
    qk__phasors_at(phasors, position, sums->angles + i * width);
    if (first)
        return;
    sums->positions[i] += sums->positions[i - 1];
    add_before(sums->vectors + i * sums->dim, sums->dim);
    add_before(sums->angles + i * width, width);
}

qk_status qk__key_sums_init(qk__key_sums *sums, const qk_block *keys,
                            const qk__phasors *phasors, qk_error *err)
{
    size_t n = keys->rows;
    *sums = (qk__key_sums){.rows = n, .dim = keys->dim, .pairs = phasors->pairing->pairs};
    uint32_t *order;
    qk_status status = order_rows(keys, &order, err);
    if (status == QK_OK)
        status = QK__CREATE_ARRAYS(err, {&sums->text, n, sizeof *sums->text},
                                   {&sums->position, n, sizeof *sums->position},
                                   {&sums->positions, n, sizeof *sums->positions},
                                   {&sums->vectors, n, sums->dim * sizeof *sums->vectors},
                                   {&sums->angles, n, 2 * sums->pairs * sizeof *sums->angles});
    int64_t first_position = 0;
    for (size_t i = 0; status == QK_OK && i < n; i++) {
        if (i == 0 || keys->example[order[i]] != keys->example[order[i - 1]])
            first_position = keys->position[order[i]];
        fill_key(sums, keys, phasors, i, order[i], first_position);
    }
    free(order);
    if (status != QK_OK)
        qk__key_sums_free(sums);
    return status;
}

void qk__key_sums_free(qk__key_sums *sums)
{
    free(sums->text);
    free(sums->position);
    free(sums->positions);
    free(sums->vectors);
    free(sums->angles);
    *sums = (qk__key_sums){0};
}

/* ---- pairs ------------------------------------------------------------------------------ */

/* Sums over the pairs of one text in a bin, over all its windows. */
typedef struct text_bin {
    double score, distance;
    int64_t pairs;
} text_bin;

typedef struct measuring {
    const qk__key_sums *keys;
    const qk__phasors *phasors;
    const qk__matrix_kernel *kernel;
    size_t num_bins; /* that the positions allow */
    double *turns;   /* [num_bins][2 pairs] sums over all pairs */
    text_bin *texts; /* [num_texts][num_bins] */
    int64_t *ids;    /* [num_texts] of texts, in order */
    size_t num_texts;
    double *query, *angles, *between; /* of the current query */
} measuring;

/* Keys in [first, end) at position or before it: the end of their range. */
static size_t end_of_keys(const int64_t *positions, size_t first, size_t end, int64_t position)
{
    return first + qk__count_below(positions + first, end - first, position + 1);
}

/* The first key of the text that a query with this window sees: it sees itself and window - 1
 * tokens before it. */
static size_t first_seen(const qk__key_sums *keys, size_t first, size_t end, int64_t position,
                         int64_t window)
{
    if (window <= 0 || window > position)
        return first;
    return end_of_keys(keys->position, first, end, position - window);
}

/* turns += e^(i w t) times the conjugate of the keys' sum. */
static void add_turns(double *turns, const double *query, const double *keys, size_t pairs)
{
    const double *c = query, *s = query + pairs, *re = keys, *im = keys + pairs;
    for (size_t p = 0; p < pairs; p++) {
        turns[p] += c[p] * re[p] + s[p] * im[p];
        turns[pairs + p] += s[p] * re[p] - c[p] * im[p];
    }
}

/* Adds the keys [low, high) of a text whose first is first; scores are the products with the
 * sums up to them. */
static void add_bin(measuring *m, size_t bin, int64_t position, size_t first, size_t low,
                    size_t high, double score, text_bin *text)
{
    const qk__key_sums *k = m->keys;
    size_t width = 2 * k->pairs;
    const double *upper = k->angles + (high - 1) * width;
    const double *lower = low > first ? k->angles + (low - 1) * width : NULL;
    double positions = k->positions[high - 1] - (lower ? k->positions[low - 1] : 0);
    for (size_t i = 0; i < width; i++)
        m->between[i] = lower ? upper[i] - lower[i] : upper[i];
    add_turns(m->turns + bin * width, m->angles, m->between, k->pairs);
    text->score += score;
    text->distance +=
        (double)(position - k->position[first]) * (double)(high - low) - positions;
    text->pairs += (int64_t)(high - low);
}

/* One query against the keys [first, end) of its text. */
static void add_query(measuring *m, int64_t position, int64_t window, size_t first, size_t end,
                      text_bin *bins)
{
    const qk__key_sums *k = m->keys;
    size_t low = first_seen(k, first, end, position, window);
    size_t high = end_of_keys(k->position, low, end, position);
    double above = 0;
    bool known = false; /* above is the product with the sum up to high */
    for (size_t b = 0; high > low && b < m->num_bins; b++) {
        int64_t next = position - qk__score_bin_first(b + 1);
        size_t at = end_of_keys(k->position, low, high, next);
        if (at == high)
            continue;
        if (!known)
            above = m->kernel->dot(m->query, k->vectors + (high - 1) * k->dim, k->dim);
        double below =
            at > first ? m->kernel->dot(m->query, k->vectors + (at - 1) * k->dim, k->dim) : 0;
        add_bin(m, b, position, first, at, high, above - below, &bins[b]);
        above = below;
        known = true;
        high = at;
    }
}

static void add_queries(measuring *m, const qk_block *queries, const int64_t *texts,
                        const uint32_t *order)
{
    const qk__key_sums *k = m->keys;
    size_t first = 0, end = 0; /* keys of the example */
    text_bin *bins = NULL;
    for (size_t i = 0; i < queries->rows; i++) {
        size_t row = order[i];
        int64_t example = queries->example[row], position = queries->position[row];
        if (i == 0 || example != queries->example[order[i - 1]]) {
            for (first = end; first < k->rows && k->text[first] < example;)
                first++;
            for (end = first; end < k->rows && k->text[end] == example;)
                end++;
            bins = m->texts + qk__count_below(m->ids, m->num_texts, texts[row]) * m->num_bins;
        }
        if (first == end)
            continue;
        qk__row_of(queries, row, m->query);
        qk__phasors_at(m->phasors, position, m->angles);
        add_query(m, position, queries->window ? queries->window[row] : 0, first, end, bins);
    }
}

/* ---- the curve -------------------------------------------------------------------------- */

/* The standard error of a mean over pairs of several texts, which differ: that of a ratio of sums. */
static double standard_error(const text_bin *texts, size_t stride, size_t count, double mean,
                             double pairs)
{
    double sum = 0;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const text_bin *text = &texts[i * stride];
        double off = text->score - mean * (double)text->pairs;
        sum += off * off;
        used += text->pairs > 0;
    }
    return used > 1 ? sqrt((double)used / (double)(used - 1) * sum) / pairs : NAN;
}

/* Returns false for a bin without pairs. */
static bool fill_bin(const measuring *m, size_t b, qk_score_bin *bin)
{
    double score = 0, distance = 0;
    *bin = (qk_score_bin){.number = (int)b,
                          .first = qk__score_bin_first(b),
                          .last = qk__score_bin_first(b + 1) - 1};
    for (size_t t = 0; t < m->num_texts; t++) {
        const text_bin *text = &m->texts[t * m->num_bins + b];
        score += text->score;
        distance += text->distance;
        bin->pairs += text->pairs;
        bin->texts += text->pairs > 0;
    }
    if (bin->pairs == 0)
        return false;
    bin->measured = score / (double)bin->pairs;
    bin->distance = distance / (double)bin->pairs;
    bin->standard_error = standard_error(m->texts + b, m->num_bins, m->num_texts, bin->measured,
                                         (double)bin->pairs);
    return true;
}

static qk_status make_curve(const measuring *m, qk__score_curve *curve, qk_error *err)
{
    size_t width = 2 * m->keys->pairs;
    *curve = (qk__score_curve){0};
    QK_TRY(QK__CREATE_ARRAYS(err, {&curve->bins, m->num_bins, sizeof *curve->bins},
                             {&curve->turns, m->num_bins, width * sizeof *curve->turns}));
    for (size_t t = 0; t < m->num_texts; t++) {
        bool any = false;
        for (size_t b = 0; b < m->num_bins; b++)
            any = any || m->texts[t * m->num_bins + b].pairs > 0;
        curve->texts += any;
    }
    for (size_t b = 0; b < m->num_bins; b++) {
        qk_score_bin *bin = &curve->bins[curve->num_bins];
        if (!fill_bin(m, b, bin))
            continue;
        for (size_t i = 0; i < width; i++)
            curve->turns[curve->num_bins * width + i] =
                m->turns[b * width + i] / (double)bin->pairs;
        curve->pairs += bin->pairs;
        curve->num_bins++;
    }
    return QK_OK;
}

/* Bins that distances up to the largest position reach. */
static size_t count_bins(const qk_block *queries)
{
    int64_t last = 0;
    size_t count = 1;
    for (size_t r = 0; r < queries->rows; r++)
        last = queries->position[r] > last ? queries->position[r] : last;
    while (count < MAX_BINS && qk__score_bin_first(count) <= last)
        count++;
    return count;
}

static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static qk_status find_texts(measuring *m, const int64_t *texts, size_t rows, qk_error *err)
{
    m->ids = qk__calloc(rows + 1, sizeof *m->ids);
    if (!m->ids)
        return qk__nomem(err);
    for (size_t i = 0; i < rows; i++)
        m->ids[i] = texts[i];
    qsort(m->ids, rows, sizeof *m->ids, compare_ids);
    for (size_t i = 0; i < rows; i++)
        if (i == 0 || m->ids[i] != m->ids[m->num_texts - 1])
            m->ids[m->num_texts++] = m->ids[i];
    return QK_OK;
}

qk_status qk__score_curve_measure(const qk_block *queries, const int64_t *texts,
                                  const qk__key_sums *keys, const qk__phasors *phasors,
                                  qk__score_curve *curve, qk_error *err)
{
    size_t width = 2 * keys->pairs;
    measuring m = {.keys = keys,
                   .phasors = phasors,
                   .kernel = qk__best_matrix_kernel(),
                   .num_bins = count_bins(queries)};
    uint32_t *order;
    *curve = (qk__score_curve){0};
    QK_TRY(order_rows(queries, &order, err));
    qk_status status = find_texts(&m, texts, queries->rows, err);
    if (status == QK_OK)
        status = QK__CREATE_ARRAYS(err, {&m.turns, m.num_bins, width * sizeof *m.turns},
                                   {&m.texts, m.num_texts, m.num_bins * sizeof *m.texts},
                                   {&m.query, keys->dim + 2 * width, sizeof *m.query});
    if (status == QK_OK) {
        m.angles = m.query + keys->dim;
        m.between = m.angles + width;
        add_queries(&m, queries, texts, order);
        status = make_curve(&m, curve, err);
    }
    free(order);
    free(m.turns);
    free(m.texts);
    free(m.ids);
    free(m.query);
    return status;
}

void qk__score_curve_free(qk__score_curve *curve)
{
    free(curve->bins);
    free(curve->turns);
    *curve = (qk__score_curve){0};
}
