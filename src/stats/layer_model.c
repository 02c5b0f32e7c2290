/* SPDX-License-Identifier: Apache-2.0 */
/* Mixed model of layers, its unknowns integrated out.
 *
 * Layer means are X b + a + e: e has variance s^2 noise, a the variance s^2 ratio noise (of a typical layer) and
 * the correlation keep^|i - j|. For given ratio and keep a Kalman filter whitens means and regressors
 * in one pass, least squares follow, and with flat priors of b and log s each b has Student's t about its
 * estimate. ratio and keep are taken over a grid, weighted by prior times restricted likelihood. */
#include "stats/layer_model.h"

#include <float.h>
#include <math.h>

#include "stats/student.h"

/* No layer effects at all have a tenth of the prior; a larger share finds more where there are none, and claims too
 * often where there are (bench/null_pages.py). Up to 0.97, since 0.9 is seen. */
static const double RATIOS[] = {0.5, 2, 8, 32, 128, 512, 4096, 32768};
static const double KEEPS[] = {0, 0.3, 0.5, 0.7, 0.82, 0.91, 0.97};
enum {
    NUM_RATIOS = sizeof RATIOS / sizeof *RATIOS,
    NUM_KEEPS = sizeof KEEPS / sizeof *KEEPS,
    ENOUGH_LAYERS = 3,
};
static const double PRIOR_OF_NONE = 0.1;
_Static_assert(QK__LAYER_FITS == NUM_RATIOS * NUM_KEEPS + 1, "one for each, and one without");

/* ---- layers ----------------------------------------------------------------------------- */

void qk__layers_add(qk__layers *layers, size_t series, int index, double value)
{
    size_t count = layers->count;
    if (count == 0 || layers->items[count - 1].series != series ||
        layers->items[count - 1].index != index) {
        layers->items[count] = (qk__layer_mean){series, index, value, 1, 0};
        layers->count++;
        return;
    }
    qk__layer_mean *last = &layers->items[count - 1];
    double groups = round(1 / last->noise) + 1, off = value - last->mean;
    last->noise = 1 / groups;
    last->mean += off / groups;
    layers->within += off * (value - last->mean);
    layers->degrees++;
}

static bool comes_before(const qk__layer_mean *a, const qk__layer_mean *b)
{
    return a->series < b->series || (a->series == b->series && a->index < b->index);
}

void qk__layers_subtract(qk__layers *a, const qk__layers *b)
{
    size_t kept = 0;
    for (size_t i = 0, j = 0; i < a->count; i++) {
        while (j < b->count && comes_before(&b->items[j], &a->items[i]))
            j++;
        if (j == b->count || comes_before(&a->items[i], &b->items[j]))
            continue;
        qk__layer_mean both = a->items[i];
        both.mean -= b->items[j].mean;
        both.noise += b->items[j].noise;
        a->items[kept++] = both;
    }
    a->count = kept;
    a->within += b->within;
    a->degrees += b->degrees;
}

double qk__layers_mean(const qk__layers *layers)
{
    double sum = 0, groups = 0;
    for (size_t i = 0; i < layers->count; i++) {
        sum += layers->items[i].mean / layers->items[i].noise;
        groups += 1 / layers->items[i].noise;
    }
    return sum / groups;
}

/* ---- one answer ------------------------------------------------------------------------- */

/* Columns: the asked number, another fitted number (if any), the layer means. */
enum { ASKED, OTHER, MEANS, NUM_COLUMNS };

typedef struct setting {
    bool slope, two;
    double mean;  /* of all, subtracted beforehand so that squares do not cancel */
    double noise; /* of a typical layer */
    double other; /* mean x of a slope; the share of the second series among the groups */
} setting;

static setting settle(const qk__layers *layers, bool slope)
{
    setting out = {.slope = slope, .mean = qk__layers_mean(layers)};
    size_t first = layers->items[0].series;
    double groups = 0, later = 0;
    for (size_t i = 0; i < layers->count; i++) {
        const qk__layer_mean *layer = &layers->items[i];
        out.noise += layer->noise / (double)layers->count;
        out.other += slope ? layer->x / (double)layers->count : 0;
        groups += 1 / layer->noise;
        later += layer->series != first ? 1 / layer->noise : 0;
    }
    if (!slope)
        out.other = later / groups;
    out.two = slope || later > 0;
    return out;
}

typedef struct products {
    double of[NUM_COLUMNS][NUM_COLUMNS], log_variances;
} products;

/* Sums of products of the whitened columns. */
static products whiten(const qk__layers *layers, const setting *set, double ratio, double keep)
{
    products out = {0};
    double effect = ratio * set->noise, known[NUM_COLUMNS] = {0}, variance = effect;
    double volume = 1; /* a logarithm of each would be most of the work */
    for (size_t i = 0; i < layers->count; i++) {
        const qk__layer_mean *now = &layers->items[i], *before = i > 0 ? now - 1 : now;
        bool goes_on = i > 0 && now->series == before->series;
        int gap = goes_on ? now->index - before->index : 0;
        double kept = gap == 1 ? keep : gap > 1 ? pow(keep, gap) : 0;
        bool later = now->series != layers->items[0].series;
        double left[NUM_COLUMNS] = {set->slope ? now->x - set->other : 1,
                                    set->slope ? 1 : (double)later - set->other,
                                    now->mean - set->mean};
        variance = kept * kept * variance + (1 - kept * kept) * effect;
        double total = variance + now->noise, gain = variance / total;
        volume *= total;
        if (!(volume > 1e-100 && volume < 1e100)) {
            out.log_variances += log(volume);
            volume = 1;
        }
        for (size_t c = 0; c < NUM_COLUMNS; c++) {
            known[c] *= kept;
            left[c] -= known[c];
            known[c] += gain * left[c];
        }
        variance -= gain * variance;
        for (size_t c = 0; c < NUM_COLUMNS; c++)
            for (size_t d = 0; d <= c; d++)
                out.of[c][d] += left[c] * left[d] / total;
    }
    out.log_variances += log(volume);
    return out;
}

/* Adds an answer; its weight is the logarithm for now. */
static void add_answer(qk__layer_fit *fit, const qk__layers *layers, const setting *set,
                       double ratio, double keep, double prior)
{
    products sums = whiten(layers, set, ratio, keep);
    double asked = sums.of[ASKED][ASKED], with = sums.of[MEANS][ASKED];
    double rest = sums.of[MEANS][MEANS], fixed = log(asked);
    if (set->two) {
        double other = sums.of[OTHER][OTHER], share = sums.of[OTHER][ASKED] / other;
        asked -= share * sums.of[OTHER][ASKED];
        with -= share * sums.of[MEANS][OTHER];
        rest -= sums.of[MEANS][OTHER] * sums.of[MEANS][OTHER] / other;
        fixed = log(asked) + log(other);
    }
    rest = fmax(DBL_MIN, rest - with * with / asked + layers->within);
    size_t at = fit->count++;
    fit->value[at] = with / asked + (set->slope ? 0 : set->mean);
    fit->error[at] = sqrt(rest / fit->degrees / asked);
    fit->weight[at] = log(prior) - (sums.log_variances + fixed + fit->degrees * log(rest)) / 2;
}

/* ---- all of them ------------------------------------------------------------------------ */

static void weigh_answers(qk__layer_fit *fit)
{
    double most = -HUGE_VAL, sum = 0;
    for (size_t i = 0; i < fit->count; i++)
        most = fmax(most, fit->weight[i]);
    for (size_t i = 0; i < fit->count; i++)
        sum += fit->weight[i] = exp(fit->weight[i] - most);
    for (size_t i = 0; i < fit->count; i++)
        fit->weight[i] /= sum;
}

/* Whether layers differ by more than rounding. */
static bool varies(const qk__layers *layers, double mean)
{
    const double rounding = 1e-12;
    double squares = layers->within;
    for (size_t i = 0; i < layers->count; i++)
        squares += (layers->items[i].mean - mean) * (layers->items[i].mean - mean);
    return sqrt(squares) > rounding * fabs(mean);
}

qk__layer_fit qk__fit_layers(const qk__layers *layers, bool slope)
{
    qk__layer_fit fit = {0};
    if (layers->count < ENOUGH_LAYERS || !varies(layers, qk__layers_mean(layers)))
        return fit;
    setting set = settle(layers, slope);
    fit.degrees = layers->degrees + (double)layers->count - 1 - set.two;
    add_answer(&fit, layers, &set, 0, 0, PRIOR_OF_NONE);
    for (size_t r = 0; r < NUM_RATIOS; r++)
        for (size_t k = 0; k < NUM_KEEPS; k++)
            add_answer(&fit, layers, &set, RATIOS[r], KEEPS[k],
                       (1 - PRIOR_OF_NONE) / (NUM_RATIOS * NUM_KEEPS));
    weigh_answers(&fit);
    return fit;
}

double qk__layer_tail(const qk__layer_fit *fit, double number, int side)
{
    double sum = 0;
    for (size_t i = 0; i < fit->count; i++) {
        double t = (fit->value[i] - number) / fit->error[i] * side;
        sum += fit->weight[i] * qk__student_below(t, fit->degrees);
    }
    return fit->count > 0 ? sum : NAN;
}

double qk__layer_quantile(const qk__layer_fit *fit, double probability)
{
    double low = HUGE_VAL, high = -HUGE_VAL;
    if (fit->count == 0)
        return NAN;
    double widest = qk__student_quantile(fmax(probability, 1 - probability), fit->degrees);
    for (size_t i = 0; i < fit->count; i++) {
        low = fmin(low, fit->value[i] - widest * fit->error[i]);
        high = fmax(high, fit->value[i] + widest * fit->error[i]);
    }
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        *(qk__layer_tail(fit, middle, -1) < probability ? &low : &high) = middle;
    }
    return (low + high) / 2;
}
