/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of the combined QK PCA over training checkpoints: the same numbers as for models, in
 * order of training. */
#include <math.h>

#include "figure/catalog.h"
#include "figure/panels.h"
#include "figure/pca_parts.h"

static bool is_training(const qk__results *results)
{
    return results->checkpoints && results->num_models >= 2;
}

static bool has_signals(const qk__subject *subject)
{
    return is_training(subject->results) && qk__count_signals(subject->results) > 0;
}

/* Height of a plot without its axes, and what lies around it, in pixels at type of 13. */
enum { PLOT_HEIGHT = 270, LEFT = 80, RIGHT = 16, KEY = 28, ABOVE = 6 };

/* Heading, place and checkpoint axis of the one plot of a figure, with the phases on top; right
 * and below are what it leaves free there. Sets the figure's height. */
static qk__place start_plot(qk__figure *figure, const qk__results *results, const char *title,
                            double right, double below)
{
    const double em = qk__em(figure);
    double left = LEFT * em;
    qk__set_heading(figure, results, NULL, title);
    qk__model_axis axis = qk__plan_model_axis(figure, results, figure->width - left - right);
    left = fmax(left, axis.reach + 8 * em);
    axis = qk__plan_model_axis(figure, results, figure->width - left - right);
    qk__place place = {left, qk__heading_height(figure) + ABOVE * em,
                       figure->width - left - right, PLOT_HEIGHT * em};
    place.top += qk__phases_height(figure, results, place.width);
    figure->height = (int)ceil(place.top + place.height + axis.height + below);
    qk__begin_panels(figure);
    qk__put_panel(figure, &place);
    qk__set_model_axis(figure, &axis);
    qk__label_model_axis(figure, &axis, &place);
    qk__figure_panel_phases(figure, results, &place);
    return place;
}

/* Of a legend at the bottom, in one line where there is room. */
static double key_height(const qk__figure *figure)
{
    return (qk__fit_columns(figure, 2, 220) == 1 ? 2 * KEY : KEY) * qk__em(figure);
}

/* Such a legend. */
static void set_bottom_key(qk__figure *figure, const qk__place *place)
{
    qk__figure_print(figure, "set key at screen %.5f,%.5f center bottom horizontal\n",
                     (place->left + place->width / 2) / figure->width,
                     6 * qk__em(figure) / figure->height);
}

/* ---- means with bands ------------------------------------------------------------------- */

/* Adds mean, mean - sd and mean + sd within [low, high] to a row, and widens range to them. */
static void add_band(qk__figure *figure, const qk__result_model *model, const char *field,
                     double low, double high, double range[2])
{
    qk__spread spread = qk__figure_spread(figure, model, field, false);
    double ends[2] = {fmax(low, spread.mean - spread.sd), fmin(high, spread.mean + spread.sd)};
    if (!isfinite(spread.sd)) /* one head: a band without width */
        ends[0] = ends[1] = isfinite(spread.mean) ? fmax(low, fmin(high, spread.mean)) : NAN;
    qk__figure_values(figure, spread.mean, ends[0], ends[1]);
    range[0] = fmin(range[0], ends[0]);
    range[1] = fmax(range[1], ends[1]);
}

/* 07: mean r_q and r_k on PC0. Columns: checkpoint, and mean, low, high of each. */
static void build_signal(qk__figure *figure, const qk__subject *subject)
{
    const qk__results *results = subject->results;
    double range[2] = {0, 0};
    for (size_t m = 0; m < results->num_models; m++) {
        qk__figure_words(figure, "%zu ", m);
        add_band(figure, &results->models[m], "r_q", -1, 1, range);
        add_band(figure, &results->models[m], "r_k", -1, 1, range);
        qk__figure_end_row(figure);
    }
    qk__figure_end_block(figure);
    qk__place place = start_plot(figure, results, "Position correlation on PC0 during training",
                                 RIGHT * qk__em(figure), key_height(figure));
    set_bottom_key(figure, &place);
    qk__figure_print(figure,
                     "set ylabel 'Pearson r with position'\n"
                     "set yrange [%.1f:1]\nset ytics 0.2\nset grid y back\n"
                     "set xzeroaxis lt 1 lc rgb '%s'\n"
                     "plot data using 1:3:4 with filledcurves fs transparent solid 0.15 "
                     "noborder ls 101, "
                     "data using 1:6:7 with filledcurves fs transparent solid 0.15 "
                     "noborder ls 102, "
                     "data using 1:2 with linespoints ls 101 ps 0.8 title "
                     "'{/:Italic r}_q, mean \302\261 1 sd', "
                     "data using 1:5 with linespoints ls 102 ps 0.8 title "
                     "'{/:Italic r}_k, mean \302\261 1 sd'\n",
                     floor(range[0] * 5) / 5, figure->theme->muted);
    qk__end_panels(figure);
}

/* 09: mean share of variance of PC0. */
static void build_variance(qk__figure *figure, const qk__subject *subject)
{
    const qk__results *results = subject->results;
    double range[2] = {INFINITY, -INFINITY};
    for (size_t m = 0; m < results->num_models; m++) {
        qk__figure_words(figure, "%zu ", m);
        add_band(figure, &results->models[m], "ev0", 0, 1, range);
        qk__figure_end_row(figure);
    }
    qk__figure_end_block(figure);
    double room = fmax(0.01, 0.05 * (range[1] - range[0]));
    qk__place place = start_plot(figure, results, "Explained variance of PC0 during training",
                                 RIGHT * qk__em(figure), key_height(figure));
    set_bottom_key(figure, &place);
    const char *accent = figure->theme->accent;
    qk__figure_print(figure,
                     "set ylabel 'Share of variance'\nset yrange [%g:%g]\n"
                     "set grid y back\n"
                     "plot data using 1:3:4 with filledcurves fs transparent solid 0.15 "
                     "noborder lt 1 lc rgb '%s', "
                     "data using 1:2 with linespoints lt 1 lw 1.8 pt 7 ps 0.8 lc rgb '%s' "
                     "title 'mean \302\261 1 sd'\n",
                     fmax(0, range[0] - room), fmin(1, range[1] + room), accent, accent);
    qk__end_panels(figure);
}

static bool has_variance(const qk__subject *subject)
{
    return is_training(subject->results) && qk__has_field(subject->results, "ev0");
}

/* ---- taxonomy --------------------------------------------------------------------------- */

/* Heads of each category; their sum. */
static size_t count_categories(const qk__result_model *model, size_t counts[QK_NUM_CATEGORIES])
{
    size_t sum = 0;
    for (int c = 0; c < QK_NUM_CATEGORIES; c++)
        counts[c] = 0;
    for (size_t h = 0; h < model->num_heads; h++) {
        int category = model->heads[h].category;
        if (category < 0 || category >= QK_NUM_CATEGORIES)
            continue;
        counts[category]++;
        sum++;
    }
    return sum;
}

static bool has_categories(const qk__subject *subject)
{
    size_t counts[QK_NUM_CATEGORIES], sum = 0;
    for (size_t m = 0; m < subject->results->num_models; m++)
        sum += count_categories(&subject->results->models[m], counts);
    return is_training(subject->results) && sum > 0;
}

/* 08: stacked shares. Columns: checkpoint, share of each category. Each box reaches from zero
 * to the top of its share, the highest drawn first. */
static void build_taxonomy(qk__figure *figure, const qk__subject *subject)
{
    const qk__results *results = subject->results;
    for (size_t m = 0; m < results->num_models; m++) {
        size_t counts[QK_NUM_CATEGORIES];
        size_t sum = count_categories(&results->models[m], counts);
        qk__figure_words(figure, "%zu ", m);
        for (int c = 0; c < QK_NUM_CATEGORIES; c++)
            qk__figure_value(figure, sum > 0 ? (double)counts[c] / (double)sum : NAN);
        qk__figure_end_row(figure);
    }
    qk__figure_end_block(figure);
    const bool below = qk__fit_columns(figure, 2, 220) == 1; /* the legend, else beside it */
    const double em = qk__em(figure), key = 162 * em, rows = 17 * em * QK_NUM_CATEGORIES;
    qk__place place = start_plot(figure, results, "Head taxonomy during training",
                                 below ? RIGHT * em : key, 6 * em + (below ? rows : 0));
    qk__figure_print(figure,
                     "set ylabel 'Share of heads'\nset yrange [0:1]\nset ytics 0.2\n"
                     "set boxwidth 0.72\nset style fill solid 1 noborder\n"

                     "set key at screen %.5f,%.5f left top samplen 1 font small\nplot ",
                     (below ? place.left : figure->width - key + 10 * em) / figure->width,
                     below ? (rows + 2 * em) / figure->height : 1 - place.top / figure->height);
    for (int top = QK_NUM_CATEGORIES - 1; top >= 0; top--) {
        qk__figure_print(figure, "data using 1:($2");
        for (int c = 1; c <= top; c++)
            qk__figure_print(figure, "+$%d", c + 2);
        qk__figure_print(figure, ") with boxes lt 1 lc rgb '%s' title '%s'%s",
                         qk__category_color(figure->theme, top),
                         qk_category_name((qk_category)top), top > 0 ? ", " : "\n");
    }
    qk__end_panels(figure);
}

/* ---- phase portraits -------------------------------------------------------------------- */

/* Pixels of a panel, and of a line of its name at type of 13. */
enum {
    MAX_PORTRAITS = 6,
    PANEL_WIDTH = 270,
    NARROW_PANEL = 115,
    PANEL_HEIGHT = 250,
    NAME_LINE = 13
};

/* The first checkpoint at or after `from` that has heads to show; num_models: none. */
static size_t next_shown(const qk__results *results, size_t from)
{
    while (from < results->num_models &&
           qk__count_heads_with(&results->models[from], qk__has_signal) == 0)
        from++;
    return from;
}

/* How many milestones there are: the first checkpoint and the last of each phase. *found is the
 * one of number `wanted`. */
static size_t find_milestone(const qk__results *results, size_t wanted, size_t *found)
{
    size_t count = 0, next;
    for (size_t m = next_shown(results, 0); m < results->num_models; m = next) {
        next = next_shown(results, m + 1);
        if (count > 0 && next < results->num_models &&
            results->models[next].phase_index == results->models[m].phase_index)
            continue;
        if (count++ == wanted)
            *found = m;
    }
    return count;
}

/* The checkpoint in the middle of the widest gap between those chosen, which are in order and
 * include the first and the last; num_models: there is no gap. */
static size_t find_between(const qk__results *results, const size_t *chosen, size_t count)
{
    size_t best = results->num_models, best_room = 0;
    for (size_t i = 1; i < count; i++)
        for (size_t m = next_shown(results, chosen[i - 1] + 1); m < chosen[i];
             m = next_shown(results, m + 1)) {
            size_t room = (m - chosen[i - 1]) * (chosen[i] - m);
            if (room > best_room) {
                best = m;
                best_room = room;
            }
        }
    return best;
}

/* In order of training; at least one, since the figure applies. */
static size_t choose_portraits(const qk__results *results, size_t chosen[MAX_PORTRAITS])
{
    size_t milestones = find_milestone(results, 0, &chosen[0]), count = 0;
    if (milestones > MAX_PORTRAITS) {
        for (; count < MAX_PORTRAITS; count++)
            find_milestone(results, (2 * count * (milestones - 1) + 5) / 10, &chosen[count]);
        return count;
    }
    for (; count < milestones; count++)
        find_milestone(results, count, &chosen[count]);
    while (count < MAX_PORTRAITS) {
        size_t more = find_between(results, chosen, count), at = count;
        if (more == results->num_models)
            break;
        for (; at > 0 && chosen[at - 1] > more; at--)
            chosen[at] = chosen[at - 1];
        chosen[at] = more;
        count++;
    }
    return count;
}

/* Panels of the grid, in pixels, and what stands around it. */
typedef struct grid {
    size_t count, columns, rows;
    double left, top, gap_x, gap_y, panel;
    double point_size;
    qk__legend legend; /* of the phases */
} grid;

/* The name of a checkpoint, in as many lines as it needs above a panel. */
static void break_name(const qk__figure *figure, const qk__result_model *model,
                       qk__lines *lines)
{
    double panel = figure->millimetres > 0 ? NARROW_PANEL : PANEL_WIDTH;
    qk__break_lines(model->label, false, (size_t)(panel / qk__text_width(figure, 1)), 3, lines);
}

static grid lay_out(qk__figure *figure, const qk__results *results, const size_t *chosen,
                    size_t count, const qk__entry *phases, size_t num_phases)
{
    const double em = qk__em(figure);
    size_t lines = 1;
    for (size_t i = 0; i < count; i++) {
        qk__lines name;
        break_name(figure, &results->models[chosen[i]], &name);
        lines = name.count > lines ? name.count : lines;
    }
    grid g = {.count = count, .left = 74 * em, .gap_x = 14 * em};
    g.gap_y = (20 + NAME_LINE * (double)lines) * em;
    g.columns = count == 4 ? 2 : count > 3 ? 3 : count > 0 ? count : 1;
    g.columns = qk__fit_columns(figure, g.columns, NARROW_PANEL + 45);
    g.rows = (count + g.columns - 1) / g.columns;
    g.panel = PANEL_WIDTH;
    if (figure->millimetres > 0)
        g.panel = (figure->width - g.left) / (double)g.columns - g.gap_x;
    qk__suit_width(figure, g.left + (double)g.columns * (g.panel + g.gap_x));
    g.legend = qk__plan_legend(figure, phases, num_phases, figure->width - 20 * em);
    g.top = qk__heading_height(figure) + g.legend.height + g.gap_y - 8 * em;
    figure->height = (int)(g.top + (double)g.rows * (PANEL_HEIGHT + g.gap_y) + 22 * em);
    return g;
}

static size_t add_heads(qk__figure *figure, const qk__result_model *model)
{
    for (size_t h = 0; h < model->num_heads; h++) {
        if (!qk__has_signal(&model->heads[h]))
            continue;
        qk__figure_row(figure, model->heads[h].v.r_q, model->heads[h].v.r_k);
    }
    return qk__figure_end_block(figure);
}

/* Numbers stand along the left and the lower edge of the grid alone: ranges are shared. */
static void draw_portrait(qk__figure *figure, const grid *g, size_t i,
                          const qk__result_model *model)
{
    const double em = qk__em(figure);
    size_t row = i / g->columns, column = i % g->columns;
    bool lowest = i + g->columns >= g->count, first = column == 0;
    const qk__place place = {g->left + (double)column * (g->panel + g->gap_x),
                             g->top + (double)row * (PANEL_HEIGHT + g->gap_y), g->panel,
                             PANEL_HEIGHT};
    size_t block = add_heads(figure, model);
    qk__lines name;
    break_name(figure, model, &name);
    for (size_t l = 0; l < name.count; l++)
        qk__put_text(
            figure,
            qk__brief(figure, name.text[l], (int)(g->panel / qk__text_width(figure, 1))),
            place.left + place.width / 2,
            place.top - (NAME_LINE * (double)(name.count - l) - 3) * em, true);
    qk__put_panel(figure, &place);
    qk__figure_print(figure,
                     "set xlabel '%s'\nset ylabel '%s'\n"
                     "set format x '%s'\nset format y '%s'\n"
                     "plot data index %zu using 1:2 with points pt %d ps %g lc rgb '#80%s'\n"
                     "unset label\n",
                     lowest ? "{/:Italic r}_q" : "", first ? "{/:Italic r}_k" : "",
                     lowest ? "%g" : "", first ? "%g" : "", block,
                     qk__series_point(model->phase_index), g->point_size,
                     qk__series_color(figure->theme, model->phase_index) + 1);
}

/* 12 */
static void build_portraits(qk__figure *figure, const qk__subject *subject)
{
    const qk__results *results = subject->results;
    size_t chosen[MAX_PORTRAITS] = {0}, count = choose_portraits(results, chosen), most = 1;
    qk__entry phases[QK__MAX_ENTRIES];
    size_t num_phases =
        qk__series_entries(figure, results->phases, results->num_phases, phases);
    for (size_t p = 0; p < num_phases; p++)
        phases[p].point = qk__series_point((int)p);
    qk__set_heading(figure, results, NULL,
                    "{/:Italic r}_q against {/:Italic r}_k on PC0 during training");
    grid g = lay_out(figure, results, chosen, count, phases, num_phases);
    for (size_t i = 0; i < g.count; i++) {
        size_t heads = qk__count_heads_with(&results->models[chosen[i]], qk__has_signal);
        most = heads > most ? heads : most;
    }
    g.point_size = qk__point_size(most, PANEL_HEIGHT);
    qk__begin_panels(figure);
    qk__put_legend(figure, &g.legend, figure->width / 2.0, qk__heading_height(figure));
    qk__set_signal_plane(figure, results);
    for (size_t i = 0; i < g.count; i++)
        draw_portrait(figure, &g, i, &results->models[chosen[i]]);
    qk__end_panels(figure);
}

static const qk__figure_kind KINDS[] = {
    {"pca-07-position-signal", "Position signal during training",
     "Mean correlation of queries and keys with position on PC0 over all heads; bands are one "
     "standard deviation over heads, within [-1, 1].",
     false, 900, 430, has_signals, build_signal},
    {"pca-08-taxonomy", "Head taxonomy during training",
     "Share of the heads in each category of the taxonomy on PC0.", false, 900, 450,
     has_categories, build_taxonomy},
    {"pca-09-pc0-variance", "Explained variance of PC0 during training",
     "Mean share of the pooled variance along the first component; the band is one standard "
     "deviation over heads.",
     false, 900, 400, has_variance, build_variance},
    {"pca-12-phase-portraits", "Phase portraits",
     "Every head at up to six checkpoints, coloured by phase: the first and the last of each "
     "phase (evenly spread "
     "ones of them if there are more than six), then the middles of the widest gaps.",
     false, 900, 640, has_signals, build_portraits},
};

const qk__figure_family qk__pca_training = {"Combined QK PCA during training", KINDS,
                                            sizeof KINDS / sizeof *KINDS};
