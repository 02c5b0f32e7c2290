/* SPDX-License-Identifier: Apache-2.0 */
/* Two models beside each other: each head in a and in b, where in the model heads changed, and how
 * their leading components lie to each other. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "figure/catalog.h"
#include "figure/panels.h"
#include "results/comparison.h"

enum { MOST = 6, COLUMNS = 3 };

/* Metrics that are shown, if both have them. */
static const char *const METRICS[] = {"r_q",           "r_k",        "ev0",
                                      "bias_strength", "ap_overall", "plane_var_fraction",
                                      "lin_var_q",     "lin_var_k"};
enum { NUM_METRICS = sizeof METRICS / sizeof *METRICS };

static size_t choose_metrics(const qk__comparison *c, const qk__compared_metric *chosen[MOST])
{
    size_t count = 0;
    for (size_t i = 0; i < NUM_METRICS; i++)
        for (size_t m = 0; m < c->num_metrics && count < MOST; m++)
            if (strcmp(c->metrics[m].field->info.name, METRICS[i]) == 0)
                chosen[count++] = &c->metrics[m];
    if (count == 0) /* of a table with none of these */
        chosen[count++] = &c->metrics[0];
    return count;
}

static bool has_comparison(const qk__subject *subject)
{
    return subject->comparison != NULL;
}

/* ---- places ----------------------------------------------------------------------------- */

/* Panels in rows of COLUMNS, fewer on a narrow page; the figure gets the height that they take. */
typedef struct grid {
    qk__place first;
    double across, down;
    size_t columns;
} grid;

static grid plan_grid(qk__figure *figure, size_t count, double left, double gap, double right,
                      double above, double height, double below)
{
    size_t most = qk__fit_columns(figure, COLUMNS, 260);
    grid g = {.columns = count == 0 ? 1 : count < most ? count : most};
    double width = (figure->width - left - right - gap * ((double)most - 1)) / (double)most;
    g.first = (qk__place){left, qk__heading_height(figure) + above, width, height};
    g.across = width + gap;
    g.down = above + height + below;
    size_t rows = (count + g.columns - 1) / g.columns;
    figure->height =
        (int)(qk__heading_height(figure) + (double)rows * g.down + 6 * qk__em(figure));
    qk__suit_width(figure, left + (double)g.columns * g.across - gap + right);
    return g;
}

static qk__place place_of(const grid *g, size_t i)
{
    qk__place place = g->first;
    size_t row = i / g->columns, column = i % g->columns;
    place.left += (double)column * g->across;
    place.top += (double)row * g->down;
    return place;
}

/* The label of a metric; it may reach into the gaps beside its panel. */
static void put_title(qk__figure *figure, const qk__compared_metric *metric,
                      const qk__place *place, double across, const char *more)
{
    const char *label = metric->field->info.label;
    int room = (int)(0.97 * across / qk__text_width(figure, 1)) - (*more ? 6 : 0);
    char title[256];
    snprintf(title, sizeof title, "%s.'%s'",
             qk__brief(figure, label ? label : metric->field->info.name, room), more);
    qk__figure_print(figure, "set label %s at screen %.5f,%.5f center tc rgb '%s' font small\n",
                     title, (place->left + place->width / 2) / figure->width,
                     1 - (place->top - 12 * qk__em(figure)) / figure->height,
                     figure->theme->ink);
}

/* ---- each head in a and in b ------------------------------------------------------------ */

typedef struct range {
    double low, high;
} range;

static void widen(range *r, double value)
{
    r->low = fmin(r->low, value);
    r->high = fmax(r->high, value);
}

/* Two blocks: heads whose change is supported, and the others. */
static void add_heads(qk__figure *figure, const qk__comparison *c,
                      const qk__compared_metric *metric, double factor, size_t blocks[2],
                      range *of_a, range *of_b)
{
    *of_a = *of_b = (range){INFINITY, -INFINITY};
    for (int supported = 0; supported < 2; supported++) {
        for (size_t i = 0; i < c->num_paired; i++) {
            const qk__change *x = &c->changes[metric->first + i];
            if (!isfinite(x->difference) || (x->p_corrected < QK__CHANGE_LEVEL) != supported)
                continue;
            qk__figure_row(figure, x->a * factor, x->b * factor);
            widen(of_a, x->a * factor);
            widen(of_b, x->b * factor);
        }
        blocks[supported] = qk__figure_end_block(figure);
    }
}

/* One for both axes, so that distances compare; but where one is far longer, the points of the other
 * would be a line. */
static void settle_ranges(range *a, range *b)
{
    enum { MOST_TIMES = 5 };
    double of_a = a->high - a->low, of_b = b->high - b->low;
    bool apart = fmin(of_a, of_b) > 0 && fmax(of_a, of_b) > MOST_TIMES * fmin(of_a, of_b);
    if (!apart) {
        widen(a, b->low);
        widen(a, b->high);
        *b = *a;
    }
    for (int i = 0; i < 2; i++) {
        range *r = i == 0 ? a : b;
        double margin = r->high > r->low ? 0.06 * (r->high - r->low) : 0.5;
        r->low -= margin;
        r->high += margin;
    }
}

/* Where nothing changed, as far as it lies in the panel. */
static void draw_identity(qk__figure *figure, const range *a, const range *b)
{
    double low = fmax(a->low, b->low), high = fmin(a->high, b->high);
    if (low < high)
        qk__figure_print(
            figure, "set arrow from first %.9g,%.9g to first %.9g,%.9g nohead back ls 103\n",
            low, low, high, high);
}

/* Shares and correlations are read as they are. */
static qk__power power_of(const qk__compared_metric *metric, double largest)
{
    const char *unit = metric->field->info.unit;
    bool plain = unit && (strcmp(unit, "share") == 0 || strcmp(unit, "correlation") == 0);
    return plain ? (qk__power){0, 1, ""} : qk__power_of(largest);
}

static double largest_of(const qk__comparison *c, const qk__compared_metric *metric)
{
    double most = 0;
    for (size_t i = 0; i < c->num_paired; i++) {
        const qk__change *x = &c->changes[metric->first + i];
        if (isfinite(x->difference))
            most = fmax(most, fmax(fabs(x->a), fabs(x->b)));
    }
    return most;
}

static void draw_scatter(qk__figure *figure, const qk__comparison *c,
                         const qk__compared_metric *metric, const qk__place *place,
                         double across)
{
    const double em = qk__em(figure);
    qk__power power = power_of(metric, largest_of(c, metric));
    size_t blocks[2];
    range of_a, of_b;
    add_heads(figure, c, metric, power.factor, blocks, &of_a, &of_b);
    settle_ranges(&of_a, &of_b);
    qk__put_panel(figure, place);
    put_title(figure, metric, place, across, power.text);
    int room = (int)(place->width / qk__text_width(figure, 1));
    qk__put_text(figure, qk__brief(figure, c->sides[0].label, room),
                 place->left + place->width / 2, place->top + place->height + 36 * em, true);
    qk__set_range(figure, 'x', of_a.low, of_a.high, 4);
    qk__set_range(figure, 'y', of_b.low, of_b.high, 4);
    draw_identity(figure, &of_a, &of_b);
    qk__figure_print(figure,
                     "plot data index %zu using 1:2 with points pt 6 ps 0.6 lc rgb '%s', "
                     "data index %zu using 1:2 with points pt 7 ps 0.6 lc rgb '%s'\n"
                     "unset label\nunset arrow\n",
                     blocks[0], figure->theme->muted, blocks[1], figure->theme->highlight);
}

static void label_left(qk__figure *figure, const qk__place *place, const char *label)
{
    int room = (int)(place->height / qk__text_width(figure, 1));
    qk__figure_print(
        figure, "set label %s at screen %.5f,%.5f center rotate tc rgb '%s' font small\n",
        qk__brief(figure, label, room), (place->left - 52 * qk__em(figure)) / figure->width,
        1 - (place->top + place->height / 2) / figure->height, figure->theme->muted);
}

static void build_scatter(qk__figure *figure, const qk__subject *subject)
{
    static const char TITLE[] = "Each head in a (across) and in b (up)";
    const qk__comparison *c = subject->comparison;
    const qk__compared_metric *chosen[MOST];
    const double em = qk__em(figure);
    size_t count = choose_metrics(c, chosen), tested = 0;
    for (size_t i = 0; i < count; i++)
        tested += chosen[i]->tested;
    const qk__entry entries[] = {{"changed (corrected p < 0.05)", figure->theme->highlight, 7},
                                 {"no change shown, or not tested", figure->theme->muted, 6}};
    qk__legend legend = qk__plan_legend(figure, entries, 2, figure->width - 80 * em);
    double above = tested > 0 ? legend.height + 36 * em : 30 * em;
    qk__set_heading(figure, subject->results, NULL, TITLE);
    grid g = plan_grid(figure, count, 70 * em, 66 * em, 24 * em, above, 210, 48 * em);
    qk__start_panels(figure, subject->results, TITLE);
    if (tested > 0)
        qk__put_legend(figure, &legend, figure->width / 2.0, qk__heading_height(figure));
    for (size_t i = 0; i < count; i++) {
        qk__place place = place_of(&g, i);
        if (i % g.columns == 0)
            label_left(figure, &place, c->sides[1].label);
        draw_scatter(figure, c, chosen[i], &place, g.across);
    }
    qk__end_panels(figure);
}

/* ---- where in the model ----------------------------------------------------------------- */

typedef struct head_grid {
    size_t layers, heads;
    double *values; /* [layers][heads] */
} head_grid;

static void fill_grid(const qk__comparison *c, const qk__compared_metric *metric, head_grid *g,
                      double factor, double *most)
{
    *most = 0;
    for (size_t i = 0; i < g->layers * g->heads; i++)
        g->values[i] = NAN;
    for (size_t i = 0; i < c->num_paired; i++) {
        const qk__change *x = &c->changes[metric->first + i];
        double value = x->difference * factor;
        if (!isfinite(value))
            continue;
        g->values[(size_t)x->layer * g->heads + (size_t)x->q_head] = value;
        *most = fmax(*most, fabs(value));
    }
}

static void draw_map(qk__figure *figure, const qk__comparison *c,
                     const qk__compared_metric *metric, head_grid *g, const qk__place *place,
                     double across, bool below)
{
    const double em = qk__em(figure);
    double largest = 0, most;
    for (size_t i = 0; i < c->num_paired; i++)
        if (isfinite(c->changes[metric->first + i].difference))
            largest = fmax(largest, fabs(c->changes[metric->first + i].difference));
    qk__power power = power_of(metric, largest);
    fill_grid(c, metric, g, power.factor, &most);
    most = most > 0 ? most : 1;
    qk__put_panel(figure, place);
    put_title(figure, metric, place, across, power.text);
    if (below)
        qk__put_text(figure, "'Head'", place->left + place->width / 2,
                     place->top + place->height + 34 * em, true);
    qk__figure_heatmap(figure, &(qk__heatmap){.rows = g->layers,
                                              .columns = g->heads,
                                              .values = g->values,
                                              .map = &qk__reds,
                                              .negative = &qk__blues,
                                              .low = -most,
                                              .high = most});
    qk__figure_print(figure, "unset label\n");
}

static head_grid plan_heads(const qk__comparison *c)
{
    head_grid g = {0};
    for (size_t i = 0; i < c->num_paired; i++) {
        const qk__result_head *head = c->pairs[0][i];
        g.layers = (size_t)head->layer >= g.layers ? (size_t)head->layer + 1 : g.layers;
        g.heads = (size_t)head->q_head >= g.heads ? (size_t)head->q_head + 1 : g.heads;
    }
    return g;
}

/* Numbers of layers and heads come from files: beyond this a map says nothing any more. */
static bool has_map(const qk__subject *subject)
{
    enum { MOST_LAYERS = 1024, MOST_HEADS = 512 };
    if (!subject->comparison)
        return false;
    head_grid g = plan_heads(subject->comparison);
    return g.layers <= MOST_LAYERS && g.heads <= MOST_HEADS;
}

static void build_maps(qk__figure *figure, const qk__subject *subject)
{
    static const char TITLE[] = "What changed from a to b (b − a), by layer";
    const qk__comparison *c = subject->comparison;
    const qk__compared_metric *chosen[MOST];
    const double em = qk__em(figure);
    size_t count = choose_metrics(c, chosen);
    head_grid g = plan_heads(c);
    double height = fmin(600, fmax(120, 11.0 * (double)g.layers));
    qk__set_heading(figure, subject->results, NULL, TITLE);
    grid places =
        plan_grid(figure, count, 60 * em, 104 * em, 84 * em, 30 * em, height, 44 * em);
    g.values = qk__figure_alloc(figure, g.layers, g.heads * sizeof *g.values);
    if (!g.values)
        return;
    qk__start_panels(figure, subject->results, TITLE);
    for (size_t i = 0; i < count; i++) {
        qk__place place = place_of(&places, i);
        if (i % places.columns == 0)
            label_left(figure, &place, "Layer");
        draw_map(figure, c, chosen[i], &g, &place, places.across, i + places.columns >= count);
    }
    qk__end_panels(figure);
    free(g.values);
}

/* ---- angles ----------------------------------------------------------------------------- */

static bool has_spaces(const qk__subject *subject)
{
    return subject->comparison && subject->comparison->num_spaces > 0;
}

/* Blocks: a point for each head; by layer the mean overlap and the mean of the smaller of the two
 * halves. */
static void add_space(qk__figure *figure, const qk__comparison *c, const char *space,
                      size_t blocks[2], int *last)
{
    for (size_t i = 0; i < c->num_spaces; i++) {
        const qk__compared_space *s = &c->spaces[i];
        *last = s->layer > *last ? s->layer : *last;
        if (strcmp(s->space, space) == 0)
            qk__figure_row(figure, s->layer, s->overlap);
    }
    blocks[0] = qk__figure_end_block(figure);
    for (size_t i = 0, next; i < c->num_spaces; i = next) {
        qk__mean overlap = {0}, halves = {0};
        for (next = i; next < c->num_spaces && c->spaces[next].layer == c->spaces[i].layer;
             next++) {
            const qk__compared_space *s = &c->spaces[next];
            if (strcmp(s->space, space) != 0)
                continue;
            qk__mean_add(&overlap, s->overlap);
            qk__mean_add(&halves, fmin(s->overlap_halves_a, s->overlap_halves_b));
        }
        qk__figure_row(figure, c->spaces[i].layer, qk__mean_of(&overlap), qk__mean_of(&halves));
    }
    blocks[1] = qk__figure_end_block(figure);
}

static double chance_of(const qk__comparison *c, const char *space)
{
    for (size_t i = 0; i < c->num_spaces; i++)
        if (strcmp(c->spaces[i].space, space) == 0)
            return c->spaces[i].overlap_chance;
    return NAN;
}

static void draw_space(qk__figure *figure, const qk__comparison *c, const char *space,
                       const char *title, const qk__place *place)
{
    const double em = qk__em(figure), middle = place->left + place->width / 2;
    size_t blocks[2];
    int last = 0;
    add_space(figure, c, space, blocks, &last);
    qk__put_panel(figure, place);
    qk__put_text(figure, title, middle, place->top - 12 * em, false);
    qk__put_text(figure, "'Layer'", middle, place->top + place->height + 36 * em, false);
    qk__set_range(figure, 'x', -0.5, last + 0.5, last < 6 ? last + 2 : 6);
    qk__set_range(figure, 'y', 0, 1.02, 5);
    double chance = chance_of(c, space);
    if (isfinite(chance))
        qk__figure_horizontal(figure, chance);
    qk__figure_print(figure,
                     "plot data index %zu using 1:2 with points pt 6 ps 0.5 lc rgb '%s', "
                     "data index %zu using 1:3 with lines lw 1 lc rgb '%s', "
                     "data index %zu using 1:2 with lines lw 2 lc rgb '%s'\n"
                     "unset label\nunset arrow\n",
                     blocks[0], figure->theme->muted, blocks[1], figure->theme->ink, blocks[1],
                     figure->theme->highlight);
}

static void build_angles(qk__figure *figure, const qk__subject *subject)
{
    static const char *const TITLES[QK__NUM_SPACES] = {"'Queries and keys'", "'Queries'",
                                                       "'Keys'"};
    const qk__comparison *c = subject->comparison;
    const double em = qk__em(figure);
    char heading[96];
    snprintf(heading, sizeof heading,
             "Overlap of the first %zu component%s of a and b, by layer", c->components,
             c->components == 1 ? "" : "s");
    const qk__entry entries[] = {{"head", figure->theme->muted, 6},
                                 {"mean of the layer", figure->theme->highlight, QK__LINE},
                                 {"halves of the texts", figure->theme->ink, QK__LINE}};
    qk__legend legend = qk__plan_legend(figure, entries, 3, figure->width - 80 * em);
    qk__set_heading(figure, subject->results, NULL, heading);
    grid g = plan_grid(figure, QK__NUM_SPACES, 70 * em, 56 * em, 24 * em,
                       legend.height + 44 * em, 220, 48 * em);
    qk__start_panels(figure, subject->results, heading);
    qk__put_legend(figure, &legend, figure->width / 2.0, qk__heading_height(figure));
    for (size_t s = 0; s < QK__NUM_SPACES; s++) {
        qk__place place = place_of(&g, s);
        if (s == 0)
            qk__label_panel(figure, &place, "Overlap");
        draw_space(figure, c, qk__space_names[s], TITLES[s], &place);
    }
    qk__end_panels(figure);
}

/* ---- the table -------------------------------------------------------------------------- */

static const qk__figure_kind KINDS[] = {
    {"compare-01-heads", "Each head in a and in b",
     "A point for each head that both have: its number in a across, in b up. On the dashed "
     "line "
     "nothing changed. Where the numbers of one span more than five times the range of the "
     "other's, each axis has a range of its own. Filled points changed by more than texts "
     "explain (corrected p below "
     "0.05).",
     false, 1000, 560, has_comparison, build_scatter},
    {"compare-02-map", "Where in the model heads changed",
     "b - a of each head, by layer (down) and head (across): red grew, blue fell.", false, 1000,
     560, has_map, build_maps},
    {"compare-03-overlap", "Overlap of the leading components",
     "How much of the space of the leading components in a lies in that in b: 1 is the same "
     "space. A point for each head, and the mean of each layer. The dark curve is the overlap "
     "of the spaces that two halves of the texts give, the smaller of a and b: what lies far "
     "below "
     "it moved by more than texts explain. The dashed line across is the overlap of unrelated "
     "spaces.",
     false, 1000, 360, has_spaces, build_angles},
};

const qk__figure_family qk__compare_figures = {"Two models", KINDS,
                                               sizeof KINDS / sizeof *KINDS};
