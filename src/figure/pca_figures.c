/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of the combined QK PCA: what each component carries, and how PC0 follows position. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "figure/catalog.h"
#include "figure/panels.h"
#include "figure/pca_parts.h"

/* Characters of a family or phase in the legend; pixels beside the plot for it. */
enum { MAX_COMPONENTS = 10, MAX_GROUP = 40, LEGEND_WIDTH = 340 };

/* ---- by component ----------------------------------------------------------------------- */

static size_t count_components(const qk__results *results)
{
    size_t count = 0;
    for (size_t m = 0; m < results->num_models; m++)
        for (size_t h = 0; h < results->models[m].num_heads; h++)
            if (results->models[m].heads[h].num_pcs > count)
                count = results->models[m].heads[h].num_pcs;
    return count < MAX_COMPONENTS ? count : MAX_COMPONENTS;
}

static bool has_components(const qk__subject *subject)
{
    return count_components(subject->results) > 0;
}

static void set_component_axis(qk__figure *figure, size_t count)
{
    qk__figure_print(figure, "set xrange [-0.6:%.1f]\nset xtics scale 0 (",
                     (double)count - 0.4);
    size_t step = qk__fit_columns(figure, 2 * count, 26) < 2 * count ? 2 : 1;
    for (size_t pc = 0; pc < count; pc += step)
        qk__figure_print(figure, "%s'PC%zu' %zu", pc ? ", " : "", pc, pc);
    qk__figure_print(figure, ")\nset xlabel 'Principal component'\n");
}

/* 01: mean r_q and r_k by component. */
static void build_roles(qk__figure *figure, const qk__subject *subject)
{
    size_t count = count_components(subject->results);
    double low = 0;
    for (size_t pc = 0; pc < count; pc++) {
        qk__pc_means means = qk__mean_of_pc(subject->results, pc);
        low = fmin(low, fmin(means.r_q, means.r_k));
        qk__figure_row(figure, (double)pc, means.r_q, means.r_k);
    }
    qk__figure_end_block(figure);
    qk__start_one(figure, subject->results,
                  "Position correlation by component (combined QK PCA)");
    qk__figure_print(figure,
                     "set ylabel 'Mean Pearson r with position'\n"
                     "set yrange [%.1f:1]\nset ytics 0.2\nset grid y back\n"
                     "set xzeroaxis lt 1 lc rgb '%s'\nset boxwidth 0.38\n"
                     "set style fill solid 1 noborder\nset key top right\n",
                     low < 0 ? fmax(-1, floor(low * 10 - 0.2) / 10) : 0.0,
                     figure->theme->muted);
    set_component_axis(figure, count);
    qk__figure_print(figure,
                     "plot data using ($1-0.2):2 with boxes ls 101 title '{/:Italic r}_q', "
                     "data using ($1+0.2):3 with boxes ls 102 title '{/:Italic r}_k'\n");
    qk__end_panels(figure);
}

/* 05: mean explained variance by component, as text above the bars, too. */
static void build_variance(qk__figure *figure, const qk__subject *subject)
{
    size_t count = count_components(subject->results);
    double high = 0;
    for (size_t pc = 0; pc < count; pc++) {
        double share = qk__mean_of_pc(subject->results, pc).ev;
        high = fmax(high, share);
        qk__figure_row(figure, (double)pc, share);
    }
    qk__figure_end_block(figure);
    qk__start_one(figure, subject->results,
                  "Explained variance by component (combined QK PCA)");
    qk__figure_print(figure,
                     "set ylabel 'Mean share of variance'\nset yrange [0:%g]\n"
                     "set format y '%%g%%%%'\nset grid y back\nset boxwidth 0.78\nset style "
                     "fill solid 1 noborder\n",
                     high > 0 ? 112 * high : 100);
    set_component_axis(figure, count);
    qk__figure_print(
        figure,
        "plot data using 1:(100*$2) with boxes lt 1 lc rgb '%s', "
        "data using 1:(100*$2):(sprintf('%%.1f%%%%', 100*$2)) with labels offset 0,0.6 "
        "tc rgb '%s' font sprintf(',%%g', 0.85*size)\n",
        figure->theme->accent, figure->theme->ink);
    qk__end_panels(figure);
}

/* ---- r_q against r_k -------------------------------------------------------------------- */

/* One block: r_q, r_k, colour, point type. Models take turns, so that none covers the others.
 * */
static void add_heads(qk__figure *figure, const qk__results *results)
{
    size_t most = 0;
    for (size_t m = 0; m < results->num_models; m++)
        if (results->models[m].num_heads > most)
            most = results->models[m].num_heads;
    for (size_t turn = 0; turn < most; turn++)
        for (size_t m = 0; m < results->num_models; m++) {
            const qk__result_model *model = &results->models[m];
            size_t h = turn * model->num_heads / most;
            if ((turn + 1) * model->num_heads / most == h)
                continue;
            if (!qk__has_signal(&model->heads[h]))
                continue;
            int group = qk__color_group(results, model);
            qk__figure_values(figure, model->heads[h].v.r_q, model->heads[h].v.r_k);
            /* half transparent */
            qk__figure_words(figure, "0x80%s %d", qk__series_color(figure->theme, group) + 1,
                             qk__series_point(group));
            qk__figure_end_row(figure);
        }
    qk__figure_end_block(figure);
}

static size_t count_group(const qk__results *results, int group)
{
    size_t count = 0;
    for (size_t m = 0; m < results->num_models; m++)
        if (qk__color_group(results, &results->models[m]) == group)
            count += qk__count_heads_with(&results->models[m], qk__has_signal);
    return count;
}

/* What a legend beside the plot says: "Qwen3 (1600)" for each group that has heads. */
typedef struct naming {
    size_t count;
    qk__entry entries[QK__MAX_ENTRIES];
    char names[QK__MAX_ENTRIES][164];
} naming;

static void name_groups(const qk__figure *figure, const qk__results *results, naming *named)
{
    const char *const *names;
    size_t count = qk__color_groups(results, &names);
    named->count = 0;
    for (size_t i = 0; i < count && named->count < QK__MAX_ENTRIES; i++) {
        size_t heads = count_group(results, (int)i);
        if (heads == 0)
            continue;
        char *name = named->names[named->count];
        qk__shorten(names[i], MAX_GROUP, name, 140);
        snprintf(name + strlen(name), 24, " (%zu)", heads);
        named->entries[named->count++] = (qk__entry){
            name, qk__series_color(figure->theme, (int)i), qk__series_point((int)i)};
    }
}

/* The plot's place; sets the figure's size for it and for the legend beside it. */
static qk__place place_plane(qk__figure *figure, naming *named, qk__legend *legend)
{
    const double em = qk__em(figure), left = 74 * em, below = 58 * em;
    const double plot = figure->width - left - 218 * em, top = qk__heading_height(figure);
    *legend = qk__plan_legend(figure, named->entries, named->count, LEGEND_WIDTH * em);
    if (legend->columns > 1) /* one below the other */
        *legend =
            qk__plan_legend(figure, named->entries, named->count, legend->column_width + 1);
    if (figure->millimetres > 0 && plot < 2 * left) { /* no room beside it: above it */
        *legend =
            qk__plan_legend(figure, named->entries, named->count, figure->width - 20 * em);
        double down = top + legend->height + 26 * em, wide = figure->width - left - 12 * em;
        figure->height = (int)ceil(down + wide + below);
        return (qk__place){left, down, wide, wide};
    }
    qk__suit_width(figure, ceil(left + plot + fmax(218 * em, legend->column_width + 40 * em)));
    figure->height = (int)fmax(figure->height, ceil(top + 24 * em + legend->height + below));
    return (qk__place){left, top, plot, figure->height - top - below};
}

/* 02 */
static void build_scatter(qk__figure *figure, const qk__subject *subject)
{
    const qk__results *results = subject->results;
    const double em = qk__em(figure);
    naming named;
    qk__legend legend;
    qk__set_heading(figure, results, NULL,
                    "{/:Italic r}_q against {/:Italic r}_k on PC0, all heads");
    name_groups(figure, results, &named);
    const qk__place place = place_plane(figure, &named, &legend);
    const bool above = place.top > qk__heading_height(figure);
    const double beside = above ? place.left : place.left + place.width + 22 * em;
    const double legend_top = qk__heading_height(figure) + (above ? 16 : 18) * em;
    add_heads(figure, results);
    qk__begin_panels(figure);
    qk__put_panel(figure, &place);
    qk__set_signal_plane(figure, results);
    qk__figure_print(figure,
                     "set label '%s (heads)' at screen %.5f,%.5f left offset 0,mid "
                     "tc rgb '%s' font small\n",
                     results->checkpoints ? "Phase" : "Family", beside / figure->width,
                     1 - (legend_top - 10 * em) / figure->height, figure->theme->muted);
    qk__put_legend(figure, &legend,
                   above ? figure->width / 2.0
                         : beside + 6 * em + (legend.column_width - 24 * em) / 2,
                   legend_top);
    qk__figure_print(figure,
                     "set xlabel '%s{/:Italic r}_q'\nset ylabel '%s{/:Italic r}_k'\n"
                     "plot data using 1:2:4:3 with points pt variable ps %g lc rgb variable\n",
                     above ? "" : "Correlation of queries with position, ",
                     above ? "" : "Correlation of keys with position, ",
                     qk__point_size(qk__count_signals(results), figure->height));
    qk__end_panels(figure);
}

/* ---- by depth --------------------------------------------------------------------------- */

static void build_depth_q(qk__figure *figure, const qk__subject *subject)
{
    qk__build_depth_map(figure, subject->results, "r_q", "Mean {/:Italic r}_q on PC0 by depth");
}

static void build_depth_k(qk__figure *figure, const qk__subject *subject)
{
    qk__build_depth_map(figure, subject->results, "r_k", "Mean {/:Italic r}_k on PC0 by depth");
}

static bool has_signals(const qk__subject *subject)
{
    return qk__count_signals(subject->results) > 0;
}

static const qk__figure_kind KINDS[] = {
    {"pca-01-pc-roles", "Position correlation by component",
     "Mean Pearson correlation of each component with token position, for queries and keys, "
     "over all heads.",
     false, 800, 400, has_components, build_roles},
    {"pca-02-rq-rk-scatter", "Queries against keys on PC0",
     "Every head by how far its queries and its keys follow position along its first "
     "component. Dashed lines are the taxonomy's thresholds of 0.3 and 0.7.",
     false, 900, 590, has_signals, build_scatter},
    {"pca-03-layer-heatmap-rq", "Query signal by depth",
     "Mean correlation of queries with position on PC0 in each tenth of the depth "
     "(layer / last layer), or layer by layer where no model has ten. Orange: negative. "
     "Hatched: no layer there.",
     false, 900, 500, has_signals, build_depth_q},
    {"pca-04-layer-heatmap-rk", "Key signal by depth",
     "Mean correlation of keys with position on PC0 in each tenth of the depth, or layer by "
     "layer where no model has ten. Blue: negative. Hatched: no layer there.",
     false, 900, 500, has_signals, build_depth_k},
    {"pca-05-explained-variance", "Explained variance by component",
     "Mean share of the pooled variance of queries and keys along each component, over all "
     "heads.",
     false, 800, 400, has_components, build_variance},
};

const qk__figure_family qk__pca_figures = {"Combined QK PCA", KINDS,
                                           sizeof KINDS / sizeof *KINDS};
