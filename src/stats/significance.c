/* SPDX-License-Identifier: Apache-2.0 */
/* Intervals and tests of means, shares and correlations. */
#include "stats/significance.h"

#include <math.h>

#include "stats/means.h"
#include "stats/student.h"

enum { ENOUGH = 3 };
static const qk__test NONE = {NAN, 0};

static int sign_of(double value)
{
    return value > 0 ? 1 : value < 0 ? -1 : 0;
}

/* Mean and the square of its standard error. */
typedef struct moments {
    size_t count;
    double mean, error_squared;
} moments;

static moments moments_of(const double *values, size_t count)
{
    qk__mean mean = {0};
    for (size_t i = 0; i < count; i++)
        qk__mean_add(&mean, values[i]);
    moments out = {mean.count, qk__mean_of(&mean), 0};
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i]))
            out.error_squared += (values[i] - out.mean) * (values[i] - out.mean);
    out.error_squared /= ((double)out.count - 1) * (double)out.count;
    return out;
}

/* ---- intervals -------------------------------------------------------------------------- */

static const double NORMAL_975 = 1.959963984540054;

qk__estimate qk__estimate_mean(const double *values, size_t count, double level)
{
    moments m = moments_of(values, count);
    qk__estimate e = {m.count, m.mean, NAN, NAN};
    if (m.count >= ENOUGH) {
        double half =
            qk__student_quantile((1 + level) / 2, (double)m.count - 1) * sqrt(m.error_squared);
        e.low = m.mean - half;
        e.high = m.mean + half;
    }
    return e;
}

/* About a share of `count` independent things, not necessarily a whole number of them. */
static void wilson(qk__estimate *e, double count)
{
    const double zz = NORMAL_975 * NORMAL_975, share = e->value;
    const double center = (count * share + zz / 2) / (count + zz);
    const double half = NORMAL_975 * sqrt(count * share * (1 - share) + zz / 4) / (count + zz);
    e->low = share == 0 ? 0 : center - half;
    e->high = share == 1 ? 1 : center + half;
}

qk__estimate qk__estimate_share(const double *shares, size_t count)
{
    qk__estimate e = qk__estimate_mean(shares, count, QK__SURE);
    if (!isfinite(e.low))
        return e;
    if (e.low == e.high)
        wilson(&e, (double)e.count);
    e.low = fmax(0, e.low);
    e.high = fmin(1, e.high);
    return e;
}

qk__estimate qk__widen_to_test(qk__estimate share, const qk__test *test)
{
    const double as_normal = 1e8; /* degrees of freedom */
    const double z = qk__student_quantile(1 - test->p / 2, as_normal);
    const double errors = z / (2 * (share.value - 0.5));
    qk__estimate careful = share;
    if (!isfinite(errors) || !isfinite(share.low))
        return share;
    wilson(&careful, errors * errors);
    share.low = fmin(share.low, careful.low);
    share.high = fmax(share.high, careful.high);
    return share;
}

/* z is infinite at 1 and -1. */
double qk__fisher_z(double r)
{
    return atanh(fmin(fmax(r, -1 + 1e-12), 1 - 1e-12));
}

qk__estimate qk__estimate_correlation(double r, double pairs)
{
    qk__estimate e = {pairs > 0 ? (size_t)pairs : 0, r, NAN, NAN};
    if (!(pairs >= 4) || !isfinite(r))
        return e;
    double z = qk__fisher_z(r), half = NORMAL_975 / sqrt(pairs - 3);
    e.low = tanh(z - half);
    e.high = tanh(z + half);
    return e;
}

qk__estimate qk__estimate_correlations(const double *z, size_t count)
{
    qk__estimate e = qk__estimate_mean(z, count, QK__SURE);
    return (qk__estimate){e.count, tanh(e.value), tanh(e.low), tanh(e.high)};
}

/* ---- tests ------------------------------------------------------------------------------ */

qk__test qk__test_mean(const double *values, size_t count, double against)
{
    const double rounding = 1e-12; /* of a spread, as a share of the numbers it is of */
    moments m = moments_of(values, count);
    if (m.count < ENOUGH)
        return NONE;
    double off = m.mean - against, error = sqrt(m.error_squared);
    if (error <= rounding * fmax(fabs(m.mean), fabs(against)))
        return fabs(off) <= rounding * fabs(against) ? (qk__test){1, 0}
                                                     : qk__test_signs(values, count, against);
    return (qk__test){qk__student_p_value(off / error, (double)m.count - 1), sign_of(off)};
}

/* Probability of `extreme` or more of n tosses of a coin, n / 2 <= extreme <= n. */
static double upper_tail(size_t extreme, size_t n)
{
    double log_first = -(double)n * log(2), sum = 0, term = 1;
    for (size_t i = 0; i < n - extreme; i++)
        log_first += log((double)(n - i) / (double)(i + 1));
    for (size_t k = extreme; k <= n; k++) {
        sum += term;
        term *= (double)(n - k) / (double)(k + 1);
    }
    return exp(log_first) * sum;
}

qk__test qk__test_signs(const double *values, size_t count, double against)
{
    const double rounding = 1e-12;
    size_t above = 0, below = 0, known = 0;
    for (size_t i = 0; i < count; i++) {
        double off = values[i] - against;
        known += isfinite(off);
        if (isfinite(off) && fabs(off) > rounding * fabs(against)) {
            above += off > 0;
            below += off < 0;
        }
    }
    if (known < ENOUGH)
        return NONE;
    if (above == below)
        return (qk__test){1, 0};
    size_t most = above > below ? above : below;
    return (qk__test){fmin(1, 2 * upper_tail(most, above + below)), above > below ? 1 : -1};
}

qk__test qk__test_correlation(double r, double pairs)
{
    if (!isfinite(r) || !(pairs >= ENOUGH))
        return NONE;
    double rest = (1 - r) * (1 + r);
    double t = rest > 0 ? r * sqrt((pairs - 2) / rest) : HUGE_VAL;
    return (qk__test){qk__student_p_value(t, pairs - 2), sign_of(r)};
}

/* ---- layers ----------------------------------------------------------------------------- */

qk__test qk__test_layers(const qk__layer_fit *fit, double against)
{
    return qk__test_of_sides(qk__layer_tail(fit, against, -1), qk__layer_tail(fit, against, 1));
}

qk__estimate qk__estimate_within_layers(const qk__layers *differences)
{
    qk__estimate e = {differences->count, qk__layers_mean(differences), NAN, NAN};
    double known = 0, spread = differences->within / differences->degrees;
    for (size_t i = 0; i < differences->count; i++)
        known += 1 / differences->items[i].noise;
    if (known > 0 && differences->degrees >= ENOUGH) {
        double half = qk__student_quantile(0.975, differences->degrees) * sqrt(spread / known);
        e.low = e.value - half;
        e.high = e.value + half;
    }
    return e;
}

qk__test qk__test_within_layers(const qk__layers *differences)
{
    double sum = 0, known = 0, spread = differences->within / differences->degrees;
    for (size_t i = 0; i < differences->count; i++) {
        sum += differences->items[i].mean / differences->items[i].noise;
        known += 1 / differences->items[i].noise;
    }
    if (!(known > 0) || differences->degrees < ENOUGH)
        return NONE;
    if (!(spread > 0))
        return (qk__test){sum == 0, sign_of(sum)};
    return (qk__test){qk__student_p_value(sum / sqrt(known * spread), differences->degrees),
                      sign_of(sum)};
}

qk__estimate qk__estimate_layers(const qk__layer_fit *fit, double level)
{
    return (qk__estimate){fit->count, qk__layer_quantile(fit, 0.5),
                          qk__layer_quantile(fit, (1 - level) / 2),
                          qk__layer_quantile(fit, (1 + level) / 2)};
}

qk__estimate qk__widen_to_layers(qk__estimate groups, const qk__layers *layers, double level)
{
    qk__layer_fit fit = qk__fit_layers(layers, false);
    qk__estimate careful = qk__estimate_layers(&fit, level);
    if (layers->count < ENOUGH || careful.high - careful.low > groups.high - groups.low) {
        groups.low = careful.low;
        groups.high = careful.high;
    }
    return groups;
}

qk__test qk__test_groups(const double *groups, size_t count, const qk__layers *layers,
                         double against, bool counts)
{
    qk__test plain =
        counts ? qk__test_signs(groups, count, against) : qk__test_mean(groups, count, against);
    qk__layer_fit fit = qk__fit_layers(layers, false);
    qk__test careful = fit.count > 0 ? qk__test_layers(&fit, against) : plain;
    if (layers->count < ENOUGH || isnan(plain.p))
        return NONE;
    careful.p = careful.side == plain.side ? fmax(careful.p, plain.p) : 1;
    return careful;
}

/* ---- several tests ---------------------------------------------------------------------- */

static double one_sided(const qk__test *test, int side)
{
    return test->side == side ? test->p / 2 : 1 - test->p / 2;
}

double qk__one_sided_all(const qk__test *tests, size_t count, int side)
{
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        if (isnan(tests[i].p))
            return NAN;
        most = fmax(most, one_sided(&tests[i], side));
    }
    return count > 0 ? most : NAN;
}

double qk__one_sided_any(const qk__test *tests, size_t count, int side)
{
    double least = 1;
    for (size_t i = 0; i < count; i++) {
        if (isnan(tests[i].p))
            return NAN;
        least = fmin(least, one_sided(&tests[i], side));
    }
    return count > 0 ? fmin(1, least * (double)count) : NAN;
}

qk__test qk__test_of_sides(double above, double below)
{
    if (isnan(above) || isnan(below))
        return NONE;
    return (qk__test){fmin(1, 2 * fmin(above, below)), sign_of(below - above)};
}
