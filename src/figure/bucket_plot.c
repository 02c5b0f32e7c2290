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

/* A block of position, plasticity and heads of each bucket; returns how many there are. */
static size_t add_mean_curve(qk__figure *figure, bucket_mean *buckets, size_t count)
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
    for (size_t i = 0; i < means; i++)
        qk__figure_row(figure, buckets[i].position, buckets[i].ap, (double)buckets[i].heads);
    qk__figure_end_block(figure);
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

/* Heads between blank lines, evenly chosen where there are too many; returns how many. */
static size_t add_curves(qk__figure *figure, const qk__result_model *model, size_t *all)
{
    size_t count = qk__count_heads_with(model, has_plasticity);
    size_t longest = 1, drawn = 0, seen = 0;
    qk__each_head (model, head)
        longest = head->num_profile > longest ? head->num_profile : longest;
    size_t most = MAX_CURVE_POINTS / longest;
    most = most < MIN_CURVES ? MIN_CURVES : most > MAX_CURVES ? MAX_CURVES : most;
    size_t wanted = count < most ? count : most;
    qk__each_head (model, head) {
        if (!has_plasticity(head) || wanted == 0 || seen++ < drawn * count / wanted)
            continue;
        for (size_t i = 0; i < head->num_profile; i++)
            qk__figure_row(figure, head->profile_position[i], head->profile_ap[i]);
        if (++drawn < wanted)
            qk__figure_end_row(figure);
        else
            break;
    }
    qk__figure_end_block(figure);
    *all = count;
    return drawn;
}

static size_t add_mean_profile(qk__figure *figure, const qk__result_model *model)
{
    size_t count = 0;
    qk__each_head (model, head)
        count += head->num_profile;
    bucket_mean *buckets = qk__figure_alloc(figure, count, sizeof *buckets);
    if (!buckets)
        return 0;
    count = 0;
    qk__each_head (model, head)
        for (size_t i = 0; i < head->num_profile; i++) {
            buckets[count] = (bucket_mean){head->profile_bucket[i], head->profile_position[i],
                                           head->profile_ap[i], 1};
            count += isfinite(buckets[count].ap) && isfinite(buckets[count].position);
        }
    return add_mean_curve(figure, buckets, count);
}

/* From 0, unless there are positions on its other side. */
static const char *position_range(const qk__result_model *model)
{
    qk__range shown = {0, 0};
    qk__each_head (model, head)
        for (size_t i = 0; i < head->num_profile; i++)
            qk__range_add(&shown, head->profile_position[i]);
    return shown.low >= 0 ? "0:*" : shown.high > 0 ? "*:*" : "*:0";
}

void qk__build_profiles(qk__figure *figure, const qk__subject *subject)
{
    const qk__theme *theme = figure->theme;
    size_t all, drawn = add_curves(figure, subject->model, &all);
    size_t means = add_mean_profile(figure, subject->model);
    double opacity = fmin(0.7, fmax(0.2, 3 / sqrt((double)drawn)));
    char heads[64], faint[8];
    if (drawn < all)
        snprintf(heads, sizeof heads, "%zu of %zu heads", drawn, all);
    else
        snprintf(heads, sizeof heads, "single heads (%zu)", all);
    qk__mixed_color(theme->muted, theme->background, opacity, faint);
    const qk__entry entries[] = {{heads, faint, QK__LINE},
                                 {"mean over all heads", theme->k, QK__LINE}};
    const bool narrow = qk__fit_columns(figure, 2, 220) == 1;
    qk__sheet sheet = {.count = 1,
                       .left = 84,
                       .right = 24,
                       .above = 8,
                       .height = subject->kind->height,
                       .square = true,
                       .below = narrow ? 84 : 54,
                       .entries = entries,
                       .num_entries = 2};
    qk__set_heading(figure, subject->results, subject->model, subject->kind->heading);
    qk__begin_sheet(figure, &sheet);
    qk__put_panel(figure, &sheet.first);
    qk__put_axis_names(figure, "Position of the query (tokens)", "Attention plasticity",
                       &sheet);
    qk__figure_print(figure,
                     "set xtics font small%s\nset xrange [%s] noextend\n"
                     "set yrange [0:1]\nset ytics 0.2 font small\nset grid x y back\n"
                     "set format x '%%.0f'\n"
                     "plot data index 0 using 1:2 with lines lw 0.7 lc rgb '#%02x%s', "
                     "data index 1 using 1:2 with %s lw 2.5 lc rgb '%s'\n",
                     narrow ? " rotate by 40 right" : "", position_range(subject->model),
                     (unsigned)lround(255 * (1 - opacity)), theme->muted + 1,
                     means <= FEW_BUCKETS ? "linespoints pt 7 ps 0.5" : "lines", theme->k);
    qk__end_sheet(figure);
}
