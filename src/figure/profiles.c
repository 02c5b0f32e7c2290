/* SPDX-License-Identifier: Apache-2.0 */
/* Attention plasticity of a model along the context: a line for each head, and their mean. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "figure/catalog.h"
#include "figure/sheet.h"

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
    for (size_t h = 0; h < model->num_heads; h++)
        longest = model->heads[h].num_profile > longest ? model->heads[h].num_profile : longest;
    size_t most = MAX_CURVE_POINTS / longest;
    most = most < MIN_CURVES ? MIN_CURVES : most > MAX_CURVES ? MAX_CURVES : most;
    size_t wanted = count < most ? count : most;
    for (size_t h = 0; h < model->num_heads; h++) {
        const qk__result_head *head = &model->heads[h];
        if (!has_plasticity(head) || wanted == 0 || seen++ < drawn * count / wanted)
            continue;
        for (size_t i = 0; i < head->num_profile; i++) {
            qk__figure_row(figure, head->profile_position[i], head->profile_ap[i]);
        }
        if (++drawn < wanted)
            qk__figure_end_row(figure);
        else
            break;
    }
    qk__figure_end_block(figure);
    *all = count;
    return drawn;
}

/* One head in one bucket; and the sums over heads. */
typedef struct bucket {
    int64_t index;
    double position, ap;
    size_t heads;
} bucket;

static int compare_buckets(const void *a, const void *b)
{
    const bucket *x = a, *y = b;
    return (x->index > y->index) - (x->index < y->index);
}

static int compare_positions(const void *a, const void *b)
{
    const bucket *x = a, *y = b;
    return (x->position > y->position) - (x->position < y->position);
}

/* Gathers what heads have in a bucket; the first returned number of buckets are the means. */
static size_t mean_of_buckets(const qk__result_model *model, bucket *buckets)
{
    size_t count = 0, means = 0;
    for (size_t h = 0; h < model->num_heads; h++) {
        const qk__result_head *head = &model->heads[h];
        for (size_t i = 0; i < head->num_profile; i++)
            if (isfinite(head->profile_ap[i]) && isfinite(head->profile_position[i]))
                buckets[count++] = (bucket){head->profile_bucket[i], head->profile_position[i],
                                            head->profile_ap[i], 1};
    }
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

/* position, plasticity, heads; returns how many positions. */
static size_t add_mean_curve(qk__figure *figure, const qk__result_model *model)
{
    size_t rows = 0;
    for (size_t h = 0; h < model->num_heads; h++)
        rows += model->heads[h].num_profile;
    bucket *buckets = qk__figure_alloc(figure, rows, sizeof *buckets);
    if (!buckets)
        return 0;
    size_t means = mean_of_buckets(model, buckets);
    for (size_t i = 0; i < means; i++) {
        qk__figure_row(figure, buckets[i].position, buckets[i].ap, (double)buckets[i].heads);
    }
    qk__figure_end_block(figure);
    free(buckets);
    return means;
}

/* From 0, unless there are positions on its other side. */
static const char *position_range(const qk__result_model *model)
{
    double low = 0, high = 0;
    for (size_t h = 0; h < model->num_heads; h++) {
        const qk__result_head *head = &model->heads[h];
        for (size_t i = 0; i < head->num_profile; i++) {
            low = fmin(low, head->profile_position[i]);
            high = fmax(high, head->profile_position[i]);
        }
    }
    return low >= 0 ? "0:*" : high > 0 ? "*:*" : "*:0";
}

void qk__build_profiles(qk__figure *figure, const qk__subject *subject)
{
    const qk__theme *theme = figure->theme;
    size_t all, drawn = add_curves(figure, subject->model, &all);
    size_t means = add_mean_curve(figure, subject->model);
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
                       .below = narrow ? 84 : 54,
                       .entries = entries,
                       .num_entries = 2};
    qk__set_heading(figure, subject->results, subject->model, subject->kind->heading);
    qk__lay_out(figure, &sheet);
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
    qk__end_panels(figure);
}
