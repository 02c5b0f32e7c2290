/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of a head, with intervals over groups of texts, from sums over rows of its attention. */
#include "stats/attention_numbers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <qkscope/analysis.h>

#include "base/error.h"
#include "stats/attention_profile.h"
#include "stats/distance_share.h"
#include "stats/jackknife.h"
#include "stats/student.h"

/* With less information (nats) its parts are rounding and chance. */
static const double LEAST_INFORMATION = 0.05;
enum { BINS = QK_DISTANCE_BINS, NEAR = 4, FAR = 7 }; /* first bins beyond distances 7, 63 */
enum { LAST_BINS_END = QK_ATTENTION_LAST_BINS + BINS };

void qk__attention_add(double *to, const double *more)
{
    const double most = to[QK_ATTENTION_LOGIT_MAX], other = more[QK_ATTENTION_LOGIT_MAX];
    const bool first = to[QK_ATTENTION_ROWS] == 0, none = more[QK_ATTENTION_ROWS] == 0;
    for (int i = 0; i < QK_ATTENTION_SUMS; i++)
        to[i] += more[i];
    to[QK_ATTENTION_LOGIT_MAX] = none || (!first && most > other) ? most : other;
}

/* ---- ratios ----------------------------------------------------------------------------- */

static const struct {
    qk_attention_number number;
    qk_attention_sum sum, over;
} RATIOS[] = {
    {QK_HEAD_SINK_MASS, QK_ATTENTION_SINK, QK_ATTENTION_ROWS},
    {QK_HEAD_SELF_MASS, QK_ATTENTION_SELF, QK_ATTENTION_ROWS},
    {QK_HEAD_PREVIOUS_MASS, QK_ATTENTION_PREVIOUS, QK_ATTENTION_ROWS},
    {QK_HEAD_NO_KEY_MASS, QK_ATTENTION_NO_KEY, QK_ATTENTION_ROWS},
    {QK_HEAD_DUPLICATE_MASS, QK_ATTENTION_DUPLICATE, QK_ATTENTION_DUPLICATE_ROWS},
    {QK_HEAD_DUPLICATE_UNIFORM, QK_ATTENTION_DUPLICATE_UNIFORM, QK_ATTENTION_DUPLICATE_ROWS},
    {QK_HEAD_INDUCTION_MASS, QK_ATTENTION_INDUCTION, QK_ATTENTION_INDUCTION_ROWS},
    {QK_HEAD_INDUCTION_UNIFORM, QK_ATTENTION_INDUCTION_UNIFORM, QK_ATTENTION_INDUCTION_ROWS},
    {QK_HEAD_MEAN_DISTANCE, QK_ATTENTION_FAR_DISTANCE, QK_ATTENTION_FAR},
    {QK_HEAD_LOGIT, QK_ATTENTION_LOGIT, QK_ATTENTION_ROWS},
};

static double ratio(double sum, double over)
{
    return over > 0 ? sum / over : NAN;
}

static double add_bins(const double *bins, int first, int end)
{
    double sum = 0;
    for (int b = first; b < end; b++)
        sum += bins[b];
    return sum;
}

/* The share of attention at distances below 2^bin: what a window of so many keys holds. */
static double window_share(const double *bins, int bin)
{
    return ratio(add_bins(bins, 0, bin + 1), add_bins(bins, 0, BINS));
}

/* The first window whose share is enough. NaN: there is none, or a share is not known. */
static double find_window(const double share[BINS])
{
    for (int b = 0; b < BINS - 1; b++)
        if (share[b] >= QK_WINDOW_SHARE)
            return exp2(b);
    return NAN;
}

static void divide_sums(const double *sums, double value[QK_NUM_HEAD_NUMBERS])
{
    const double *bins = sums + QK_ATTENTION_FAR_BINS;
    double rows = sums[QK_ATTENTION_ROWS], far_rows = sums[QK_ATTENTION_FAR_ROWS];
    double share[BINS];
    for (size_t i = 0; i < sizeof RATIOS / sizeof *RATIOS; i++)
        value[RATIOS[i].number] = ratio(sums[RATIOS[i].sum], sums[RATIOS[i].over]);
    value[QK_HEAD_NEAR_MASS] = ratio(add_bins(bins, 0, NEAR), far_rows);
    value[QK_HEAD_FAR_MASS] = ratio(add_bins(bins, FAR, BINS), far_rows);
    value[QK_HEAD_INFORMATION] =
        ratio(sums[QK_ATTENTION_VISIBLE] - sums[QK_ATTENTION_ENTROPY], rows);
    value[QK_HEAD_FAR_INFORMATION] =
        ratio(sums[QK_ATTENTION_FAR_VISIBLE] - sums[QK_ATTENTION_FAR_ENTROPY],
              sums[QK_ATTENTION_FAR]);
    for (int b = 0; b < BINS; b++)
        share[b] = window_share(bins, b);
    value[QK_HEAD_WINDOW_99] = find_window(share);
    value[QK_HEAD_DUPLICATE_EXCESS] =
        value[QK_HEAD_DUPLICATE_MASS] - value[QK_HEAD_DUPLICATE_UNIFORM];
    value[QK_HEAD_INDUCTION_EXCESS] =
        value[QK_HEAD_INDUCTION_MASS] - value[QK_HEAD_INDUCTION_UNIFORM];
}

/* ---- groups ----------------------------------------------------------------------------- */

enum { NONE = QK_MOST_GROUPS };

/* Groups of texts that have rows. */
typedef struct groups {
    const double *sums[QK_MOST_GROUPS];
    uint32_t count;
    qk__far_rows rows;
    double profile[BINS]; /* of all groups: where the search for those of fewer begins */
} groups;

/* Adds the sums of all groups but two, each of which may be NONE. */
static void add_groups(const groups *all, uint32_t out, uint32_t other, int first, int end,
                       double *sums)
{
    for (int i = first; i < end; i++)
        sums[i] = 0;
    for (uint32_t g = 0; g < all->count; g++)
        if (g != out && g != other)
            for (int i = first; i < end; i++)
                sums[i] += all->sums[g][i];
}

/* Of the groups but `out`, each told by the others. NaN where there are not two. */
static double find_distance_share(const groups *all, uint32_t out)
{
    double rest[QK_ATTENTION_SUMS], cross = 0;
    if (all->count - (out == NONE ? 0 : 1) < 2)
        return NAN;
    for (uint32_t g = 0; g < all->count; g++) {
        if (g == out)
            continue;
        double profile[BINS];
        add_groups(all, out, g, QK_ATTENTION_FAR_BINS, LAST_BINS_END, rest);
        memcpy(profile, all->profile, sizeof profile);
        qk__distance_fit(&all->rows, rest, profile);
        cross += qk__distance_cross_entropy(&all->rows, all->sums[g], profile);
    }
    add_groups(all, out, NONE, 0, QK_ATTENTION_FAR_BINS, rest);
    double share = (rest[QK_ATTENTION_FAR_VISIBLE] - cross) /
                   (rest[QK_ATTENTION_FAR_VISIBLE] - rest[QK_ATTENTION_FAR_ENTROPY]);
    return isfinite(share) ? share : NAN;
}

static void prepare_distance_share(groups *all, const qk_attention *numbers)
{
    double sums[QK_ATTENTION_SUMS], window = (double)numbers->window;
    double reach = (double)qk__attention_reach(numbers);
    const bool windowed = window > 0 && reach >= window;
    all->rows = qk__far_rows_up_to(windowed ? window : reach > 0 ? reach : INFINITY, windowed);
    add_groups(all, NONE, NONE, 0, QK_ATTENTION_SUMS, sums);
    qk__distance_fit(&all->rows, sums, all->profile);
}

static void find_numbers(const groups *all, uint32_t out, double value[QK_NUM_HEAD_NUMBERS])
{
    double sums[QK_ATTENTION_SUMS];
    add_groups(all, out, NONE, 0, QK_ATTENTION_SUMS, sums);
    divide_sums(sums, value);
    value[QK_HEAD_DISTANCE_SHARE] = find_distance_share(all, out);
}

/* ---- names ------------------------------------------------------------------------------ */

/* A head has a name where the number is beyond the threshold. */
static const struct {
    const char *name;
    double threshold;
    qk_attention_number number;
    bool below;
} NAMES[QK_NUM_HEAD_NAMES] = {
    [QK_SINK_HEAD] = {"sink", 0.3, QK_HEAD_SINK_MASS, false},
    [QK_PREVIOUS_TOKEN_HEAD] = {"previous-token", 0.4, QK_HEAD_PREVIOUS_MASS, false},
    [QK_LOCAL_HEAD] = {"local", 0.5, QK_HEAD_NEAR_MASS, false},
    [QK_INDUCTION_HEAD] = {"induction", 0.3, QK_HEAD_INDUCTION_EXCESS, false},
    [QK_DUPLICATE_TOKEN_HEAD] = {"duplicate-token", 0.3, QK_HEAD_DUPLICATE_EXCESS, false},
    [QK_UNIFORM_HEAD] = {"uniform", 0.1, QK_HEAD_INFORMATION, true},
};

const char *qk_attention_name_text(qk_attention_name name)
{
    return (unsigned)name < QK_NUM_HEAD_NAMES ? NAMES[name].name : "unknown";
}

/* The share of the number's t distribution beyond the threshold. */
static double find_probability(double value, double error, double threshold, bool below,
                               double degrees)
{
    double over = below ? threshold - value : value - threshold;
    if (degrees < QK_FEW_TEXTS - 1 || isnan(over) || isnan(error))
        return NAN;
    if (error == 0)
        return over > 0 ? 1 : 0;
    return qk__student_below(over / error, degrees);
}

static void find_names(const double error[QK_NUM_HEAD_NUMBERS], double degrees,
                       qk_attention *numbers)
{
    size_t length = 0;
    for (int i = 0; i < QK_NUM_HEAD_NAMES; i++) {
        qk_attention_number number = NAMES[i].number;
        double probability = find_probability(numbers->value[number], error[number],
                                              NAMES[i].threshold, NAMES[i].below, degrees);
        numbers->probability[i] = probability;
        if (probability >= QK_CERTAIN)
            length += (size_t)snprintf(numbers->names + length, sizeof numbers->names - length,
                                       "%s%s", length ? " " : "", NAMES[i].name);
    }
}

/* ---- all of them ------------------------------------------------------------------------ */

static qk_status check_sums(const double *sums, size_t rows, qk_error *err)
{
    for (size_t i = 0; i < rows * QK_ATTENTION_SUMS; i++)
        if (!isfinite(sums[i]))
            return qk__fail(err, QK_ERR_MALFORMED,
                            "sums of attention: number %zu of row %zu is not finite",
                            i % QK_ATTENTION_SUMS, i / QK_ATTENTION_SUMS);
    return QK_OK;
}

/* There are few windows, so a jackknife of them says little. Their shares have intervals: the low end is the first
 * window whose share may be enough, by the upper end of its interval; the high end is the first whose share is enough,
 * by the lower end. */
static void find_window_ends(const groups *all, double degrees, double level, double *lo,
                             double *hi)
{
    double sums[QK_ATTENTION_SUMS], without[BINS][QK_MOST_GROUPS], lower[BINS], upper[BINS];
    for (uint32_t g = 0; g < all->count; g++) {
        add_groups(all, g, NONE, QK_ATTENTION_FAR_BINS, QK_ATTENTION_LAST_BINS, sums);
        for (int b = 0; b < BINS; b++)
            without[b][g] = window_share(sums + QK_ATTENTION_FAR_BINS, b);
    }
    add_groups(all, NONE, NONE, QK_ATTENTION_FAR_BINS, QK_ATTENTION_LAST_BINS, sums);
    for (int b = 0; b < BINS; b++)
        qk__jackknife_interval(window_share(sums + QK_ATTENTION_FAR_BINS, b), without[b],
                               all->count, degrees, level, false, &lower[b], &upper[b]);
    *lo = find_window(upper);
    *hi = find_window(lower);
}

static void find_intervals(const groups *all, double level, qk_attention *numbers)
{
    double without[QK_NUM_HEAD_NUMBERS][QK_MOST_GROUPS], error[QK_NUM_HEAD_NUMBERS];
    double own[QK_NUM_HEAD_NUMBERS], rows[QK_MOST_GROUPS];
    for (uint32_t g = 0; g < all->count; g++) {
        rows[g] = all->sums[g][QK_ATTENTION_ROWS];
        find_numbers(all, g, own);
        for (int i = 0; i < QK_NUM_HEAD_NUMBERS; i++)
            without[i][g] = own[i];
    }
    const double degrees = qk__degrees_per_token(rows, all->count);
    for (int i = 0; i < QK_NUM_HEAD_NUMBERS; i++) {
        error[i] = qk__jackknife_error(without[i], all->count, false);
        qk__interval_about(numbers->value[i], level > 0 ? error[i] : NAN, degrees, level, false,
                           &numbers->lo[i], &numbers->hi[i]);
        if (i < QK_HEAD_NUM_SHARES && numbers->lo[i] < 0)
            numbers->lo[i] = 0;
        if (i < QK_HEAD_NUM_SHARES && numbers->hi[i] > 1)
            numbers->hi[i] = 1;
    }
    if (level > 0)
        find_window_ends(all, degrees, level, &numbers->lo[QK_HEAD_WINDOW_99],
                         &numbers->hi[QK_HEAD_WINDOW_99]);
    find_names(error, degrees, numbers);
}

qk_status qk__attention_numbers(const qk__attention_head *head, double level,
                                qk_attention *numbers, qk_error *err)
{
    groups all = {.count = 0};
    *numbers = (qk_attention){.texts = head->texts,
                              .rows = head->rows,
                              .logit_max = NAN,
                              .distance_slope = NAN,
                              .rotation_r2 = NAN,
                              .means_r2 = NAN};
    QK_TRY(check_sums(head->group, head->num_groups, err));
    QK_TRY(check_sums(head->by_bucket, head->num_buckets, err));
    if (head->num_groups > QK_MOST_GROUPS)
        return qk__fail(err, QK_ERR_MALFORMED, "sums of attention: %zu groups of texts",
                        head->num_groups);
    for (size_t g = 0; g < head->num_groups; g++) {
        const double *sums = head->group + g * QK_ATTENTION_SUMS;
        if (!(sums[QK_ATTENTION_ROWS] > 0))
            continue;
        all.sums[all.count++] = sums;
        numbers->logit_max = fmax(numbers->logit_max, sums[QK_ATTENTION_LOGIT_MAX]);
    }
    numbers->groups = all.count;
    QK_TRY(qk__attention_profile(head, numbers, err));
    prepare_distance_share(&all, numbers);
    find_numbers(&all, NONE, numbers->value);
    if (!(numbers->value[QK_HEAD_FAR_INFORMATION] >= LEAST_INFORMATION))
        numbers->value[QK_HEAD_DISTANCE_SHARE] = NAN;
    find_intervals(&all, level, numbers);
    return QK_OK;
}
