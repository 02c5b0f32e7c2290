/* SPDX-License-Identifier: Apache-2.0 */
/* Plasticity along the context by query bucket, a line for each head and one for their mean. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "figure/catalog.h"
#include "figure/sheet.h"

/* ---- the mean --------------------------------------------------------------------------- */

/* One head in one bucket; and the sums over heads. */
typedef struct bucket_mean {
    int64_t index;
    double position, ap;
    size_t heads;
} bucket_mean;

static int compare_buckets(const void *a, const void *b)
{
    const bucket_mean *x = a, *y = b;
    return (x->index > y->index) - (x->index < y->index);
}

static int compare_positions(const void *a, const void *b)
{
    const bucket_mean *x = a, *y = b;
    return (x->position > y->position) - (x->position < y->position);
}

/* Means of each bucket, in place; returns how many there are. */
static size_t find_means(bucket_mean *buckets, size_t count)
{
    size_t means = 0;
    qsort(buckets, count, sizeof *buckets, compare_buckets);
    for (size_t i = 0; i < count; i++) {
        if (means > 0 && buckets[means - 1].index == buckets[i].index) {
            buckets[means - 1].position += buckets[i].position;
            buckets[means - 1].ap += buckets[i].ap;
            buckets[means - 1].heads++;
        } else {
            buckets[means++] = buckets[i];
        }
    }
    for (size_t i = 0; i < means; i++) {
        buckets[i].position /= (double)buckets[i].heads;
        buckets[i].ap /= (double)buckets[i].heads;
    }
    qsort(buckets, means, sizeof *buckets, compare_positions);
    return means;
}

/* ---- along the context ------------------------------------------------------------------ */

/* Heads drawn at most, and fewer of them (but not below MIN_CURVES) where they have many
 * buckets: a picture of more points weighs megabytes and shows nothing else. */
enum { MAX_CURVES = 400, MIN_CURVES = 100, MAX_CURVE_POINTS = 24000, FEW_BUCKETS = 20 };

static bool has_plasticity(const qk__result_head *head)
{
    for (size_t i = 0; i < head->num_profile; i++)
        if (isfinite(head->profile_ap[i]) && isfinite(head->profile_position[i]))
            return true;
    return false;
}

bool qk__has_profiles(const qk__subject *subject)
{
    return qk__count_heads_with(subject->model, has_plasticity) > 0;
}

/* How many heads are drawn of all that have a curve. */
static size_t count_curves(const qk__result_model *model, size_t *all)
{
    size_t longest = 1;
    *all = qk__count_heads_with(model, has_plasticity);
    qk__each_head (model, head)
        longest = head->num_profile > longest ? head->num_profile : longest;
    size_t most = MAX_CURVE_POINTS / longest;
    most = most < MIN_CURVES ? MIN_CURVES : most > MAX_CURVES ? MAX_CURVES : most;
    return *all < most ? *all : most;
}

/* Heads evenly chosen where there are too many. */
static void put_curves(qk__figure *figure, const qk__result_model *model, size_t wanted,
                       size_t all, const qk__plot *plot, double opacity)
{
    size_t drawn = 0, seen = 0;
    qk__each_head (model, head) {
        if (!has_plasticity(head) || drawn == wanted || seen++ < drawn * all / wanted)
            continue;
        const char *name =
            qk__figure_format(figure, "layer %d, head %d", head->layer, head->q_head);
        for (size_t i = 0; i < head->num_profile; i++)
            qk__tell_point(figure, NULL, name, head->profile_position[i], head->profile_ap[i]);
        qk__draw_curve(
            plot, head->profile_position, head->profile_ap, head->num_profile,
            (qk__pen){.stroke = figure->theme->muted, .width = 0.7, .opacity = opacity});
        drawn++;
    }
}

static void put_mean(qk__figure *figure, const qk__result_model *model, const qk__plot *plot)
{
    size_t count = 0;
    qk__each_head (model, head)
        count += head->num_profile;
    bucket_mean *buckets = qk__figure_alloc(figure, count, sizeof *buckets);
    double *x = qk__figure_alloc(figure, 2 * count + 1, sizeof *x), *y = x + count;
    if (!buckets || !x)
        return;
    count = 0;
    qk__each_head (model, head)
        for (size_t i = 0; i < head->num_profile; i++) {
            buckets[count] = (bucket_mean){head->profile_bucket[i], head->profile_position[i],
                                           head->profile_ap[i], 1};
            count += isfinite(buckets[count].ap) && isfinite(buckets[count].position);
        }
    const size_t means = find_means(buckets, count);
    for (size_t i = 0; i < means; i++) {
        x[i] = buckets[i].position;
        y[i] = buckets[i].ap;
        qk__tell_point(figure, NULL, "mean", x[i], y[i]);
    }
    qk__draw_curve(plot, x, y, means, (qk__pen){.stroke = figure->theme->k, .width = 2.5});
    if (means <= FEW_BUCKETS)
        qk__draw_points(plot, x, y, means, QK__DISC, 2.4 * qk__em(figure), figure->theme->k, 0);
}

/* From 0, unless there are positions on its other side. */
static qk__axis position_range(const qk__result_model *model)
{
    qk__range shown = {0, 0};
    qk__each_head (model, head)
        for (size_t i = 0; i < head->num_profile; i++)
            qk__range_add(&shown, head->profile_position[i]);
    return qk__axis_between(shown.low, shown.high);
}

void qk__build_profiles(qk__figure *figure, const qk__subject *subject)
{
    const qk__theme *theme = figure->theme;
    size_t all, drawn = count_curves(subject->model, &all);
    double opacity = fmin(0.7, fmax(0.2, 3 / sqrt((double)drawn)));
    char heads[64];
    if (drawn < all)
        snprintf(heads, sizeof heads, "%zu of %zu heads", drawn, all);
    else
        snprintf(heads, sizeof heads, "single heads (%zu)", all);
    const qk__entry entries[] = {{heads, theme->muted, QK__LINE, opacity},
                                 {"mean over all heads", theme->k, QK__LINE, 0}};
    qk__sheet sheet = {.count = 1,
                       .left = 84,
                       .right = 24,
                       .above = 8,
                       .height = subject->kind->height,
                       .square = true,
                       .below = 54,
                       .entries = entries,
                       .num_entries = 2};
    qk__set_heading(figure, subject->results, subject->model, subject->kind->heading);
    qk__begin_sheet(figure, &sheet);
    const double em = qk__em(figure);
    qk__plot plot = qk__figure_plot(figure, &sheet.first);
    qk__put_axis_names(figure, "Position of the query (tokens)", "Attention plasticity",
                       &sheet);
    plot.x = position_range(subject->model);
    qk__number_tics(&plot, QK__BELOW, 70 * em, 0,
                    (qk__tic_style){.length = 4 * em, .grid = true, .format = "%.0f"});
    qk__number_tics(&plot, QK__LEFT, 40 * em, 0.2,
                    (qk__tic_style){.length = 4 * em, .grid = true});
    qk__begin_marks(&plot);
    put_curves(figure, subject->model, drawn, all, &plot, opacity);
    put_mean(figure, subject->model, &plot);
    qk__end_marks(&plot);
    qk__draw_sides(&plot, 1u << QK__BELOW | 1u << QK__LEFT);
}
