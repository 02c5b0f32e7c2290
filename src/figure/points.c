/* SPDX-License-Identifier: Apache-2.0 */
/* A point for each head: the second number of the figure's row over the first. In one panel, coloured by family, phase
 * or category; in a panel for each of some checkpoints; or in a panel for each family. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "draw/text.h"
#include "figure/cloud.h"
#include "figure/milestones.h"

/* Width of a family in the legend, in its type; pixels of notes, and of panels. */
enum { MAX_GROUP = 22, NOTE = 20, PLANE = 600, PANEL = 270 };

/* "r = −0.65", or that there is none. */
static void describe_r(double r, char out[64])
{
    char value[QK__NUMBER_TEXT];
    if (isfinite(r))
        snprintf(out, 64, "<i>r</i> = %s", qk__number_text(value, "%.2f", r));
    else
        snprintf(out, 64, "no <i>r</i>");
}

/* ---- axes ------------------------------------------------------------------------------- */

/* The range from 0 or a little below. Signs are chosen so that r_q is above -0.05, but tables from elsewhere may
 * differ; then it begins a tenth below the lowest number, since half of the plot would be empty from -1 on. Guides
 * stand at the thresholds of the taxonomy. */
static double lowest_shown(qk__range r)
{
    return r.low < -0.1 ? fmax(-1.05, floor(10 * r.low - 0.5) / 10) : -0.1;
}

static void draw_correlation_axes(qk__figure *figure, const qk__cloud *c, qk__plot *plot,
                                  bool labelled[2])
{
    static const double GUIDES[] = {0.3, 0.7, -0.3, -0.7};
    const double em = qk__em(figure);
    qk__range r[2] = {QK__NO_RANGE, QK__NO_RANGE};
    for (size_t p = 0; p < c->families.count; p++)
        qk__widen_to_family(&c->families, &c->families.panels[p], r);
    plot->x = (qk__axis){lowest_shown(r[0]), 1.05, false};
    plot->y = (qk__axis){lowest_shown(r[1]), 1.05, false};
    const bool coarse = plot->x.low < -0.1 || plot->width < 220 * em;
    qk__tic_style style = {.length = 4 * em, .plain = !labelled[0]};
    qk__number_tics(plot, QK__BELOW, 30 * em, coarse ? 0.5 : 0.2, style);
    style.plain = !labelled[1];
    qk__number_tics(plot, QK__LEFT, 20 * em, 0.5, style);
    qk__line_across(plot, 0, qk__zero_line(figure));
    qk__line_up(plot, 0, qk__zero_line(figure));
    for (int i = 0; i < 4; i++) {
        qk__line_across(plot, GUIDES[i], qk__guide(figure));
        qk__line_up(plot, GUIDES[i], qk__guide(figure));
    }
}

/* The powers of ten of both numbers. */
static void set_powers(qk__cloud *c)
{
    const qk__families *all = &c->families;
    qk__range r[2] = {QK__NO_RANGE, QK__NO_RANGE};
    for (size_t p = 0; p < all->count; p++)
        qk__widen_to_family(all, &all->panels[p], r);
    for (int i = 0; i < 2; i++)
        c->power[i] = qk__power_for(qk__find_field(all->series[i].field),
                                    fmax(fabs(r[i].low), fabs(r[i].high)));
}

/* The axes of a family, for its panels. */
static void draw_own_axes(qk__figure *figure, const qk__cloud *c, size_t panel, qk__plot *plot,
                          bool labelled[2])
{
    const double em = qk__em(figure);
    qk__range r[2] = {QK__NO_RANGE, QK__NO_RANGE};
    for (size_t p = 0; p < c->families.count; p++)
        if (c->families.panels[p].index == c->families.panels[panel].index)
            qk__widen_to_family(&c->families, &c->families.panels[p], r);
    for (int i = 0; i < 2; i++) {
        double margin = 0.05 * (r[i].high - r[i].low);
        *(i == 0 ? &plot->x : &plot->y) =
            qk__axis_between(r[i].low - margin, r[i].high + margin);
        qk__number_tics(plot, i == 0 ? QK__BELOW : QK__LEFT, (i == 0 ? 40 : 34) * em, 0,
                        (qk__tic_style){.length = 4 * em,
                                        .plain = !labelled[i],
                                        .factor = c->power[i].factor});
    }
    qk__line_across(plot, 0, qk__guide(figure));
}

/* Decides which axes have numbers. */
static void name_cloud_axes(qk__figure *figure, const qk__cloud *c, size_t i,
                            const qk__place *place, bool labelled[2])
{
    const double em = qk__em(figure), middle = place->left + place->width / 2;
    char text[QK__LINE_SIZE];
    labelled[0] = !c->one_axis || qk__is_lowest(&c->sheet, i);
    labelled[1] = !c->one_axis || qk__is_leftmost(&c->sheet, i);
    snprintf(text, sizeof text, "%s%s", qk__series_name(&c->families.series[0]),
             c->power[0].text);
    if (labelled[0])
        qk__put_markup(figure, text, middle, place->top + place->height + 37 * em, QK__CENTRED);
    snprintf(text, sizeof text, "%s%s", qk__series_name(&c->families.series[1]),
             c->power[1].text);
    if (qk__is_leftmost(&c->sheet, i))
        qk__put_markup(figure, text, 16 * em, place->top + place->height / 2, QK__TURNED);
}

/* ---- panels ----------------------------------------------------------------------------- */

/* Each model of a panel has its own r: one r over all models may describe none of them. */
typedef struct model_names {
    qk__shades shades;
    char names[QK__TOGETHER][200];
} model_names;

static void name_models_with_r(qk__figure *figure, const qk__cloud *c, size_t panel,
                               model_names *names)
{
    const qk__family *family = &c->families.panels[panel];
    qk__entry *entries = names->shades.entries;
    qk__name_models(figure, &c->families, panel, c->sheet.across, &names->shades);
    const size_t count = names->shades.legend.count;
    for (size_t m = 0; m < count; m++) {
        char value[QK__NUMBER_TEXT];
        double r = qk__cloud_r(figure, &c->families, &family->models[m], 1);
        char *text = names->names[m];
        qk__cut_in_middle(entries[m].name, MAX_GROUP, 0.5, text, 150);
        snprintf(text + strlen(text), 40, " (r = %.12s)",
                 isfinite(r) ? qk__number_text(value, "%.2f", r) : "–");
        entries[m].name = text;
    }
    names->shades.legend = qk__plan_legend(figure, entries, count, false, c->sheet.across);
}

/* Few points are drawn large. */
static double cloud_point_size(size_t heads, double height)
{
    return fmax(0.45, fmin(1, 0.025 * height / sqrt((double)(heads ? heads : 1))));
}

static void draw_cloud(qk__figure *figure, const qk__cloud *c, size_t i, bool named,
                       const char *note)
{
    const double em = qk__em(figure);
    const qk__family *family = &c->families.panels[i];
    const qk__place place = qk__panel_place(&c->sheet, i);
    qk__plot plot = qk__figure_plot(figure, &place);
    bool labelled[2];
    name_cloud_axes(figure, c, i, &place, labelled);
    if (c->plane)
        draw_correlation_axes(figure, c, &plot, labelled);
    else
        draw_own_axes(figure, c, i, &plot, labelled);
    qk__draw_sides(&plot, 1u << QK__BELOW | 1u << QK__LEFT);
    qk__put_cloud(figure, c, &plot, family);
    if (named)
        qk__put_name(figure, family->name, &place, note ? NOTE * em : 6 * em);
    if (note)
        qk__put_markup(figure, note, place.left + place.width / 2, place.top - 10 * em,
                       QK__NOTE);
    model_names names;
    name_models_with_r(figure, c, i, &names);
    qk__put_legend(figure, &names.shades.legend, place.left + place.width / 2 - 10 * em,
                   place.top + place.height + 52 * em);
}

/* The meaning of hues: "Qwen3 (1600)" for each group that has heads, or "Qwen3 (r = 0.31)". */
typedef struct naming {
    size_t count;
    qk__entry entries[QK__MAX_ENTRIES];
    char names[QK__MAX_ENTRIES][200];
} naming;

static void add_name(const qk__figure *figure, const char *name, const char *more, int group,
                     naming *named)
{
    if (named->count == QK__MAX_ENTRIES)
        return;
    char *text = named->names[named->count];
    qk__cut_in_middle(name, MAX_GROUP, 0.5, text, 150);
    snprintf(text + strlen(text), 40, "%s", more);
    named->entries[named->count++] =
        (qk__entry){text, qk__series_color(figure->theme, group), qk__series_sign(group), 0};
}

/* "content-focused (3)" for each category that has heads. */
static void name_categories(const qk__figure *figure, const qk__cloud *c, naming *named)
{
    for (int category = 0; category <= QK_NUM_CATEGORIES; category++) {
        size_t heads = 0;
        const qk__found *rows = &c->families.subject->all;
        for (size_t i = 0; i < rows->count; i++)
            heads += qk__category_or_none(rows, i) == category;
        if (heads == 0)
            continue;
        char *text = named->names[named->count];
        snprintf(text, sizeof named->names[0], "%s (%zu)",
                 category < QK_NUM_CATEGORIES ? qk_category_name((qk_category)category)
                                              : "no category",
                 heads);
        named->entries[named->count++] = (qk__entry){
            text, qk__color_of_category(figure, category), qk__series_sign(category), 0};
    }
}

static void name_groups(const qk__figure *figure, const qk__cloud *c, bool counts,
                        naming *named)
{
    const qk__results *results = c->families.results;
    const char *const *names;
    size_t groups = qk__color_groups(results, &names);
    for (size_t g = 0; g < groups; g++) {
        char more[40] = "";
        size_t heads = 0;
        qk__each_model (results, model)
            if (qk__color_group(results, model) == (int)g)
                heads += qk__rows_in(&c->families, model).count;
        if (counts)
            snprintf(more, sizeof more, " (%zu)", heads);
        if (heads > 0 || !counts)
            add_name(figure, names[g], more, (int)g, named);
    }
}

static void begin_cloud(qk__figure *figure, qk__cloud *c, const naming *named)
{
    c->sheet.count = c->families.count;
    c->sheet.entries = named->entries;
    c->sheet.num_entries = named->count;
    for (int i = 0; i < 2; i++)
        c->plane =
            qk__find_field(c->families.series[i].field)->hue != QK__HUE_NONE &&
            strcmp(qk__find_field(c->families.series[i].field)->info.unit, "correlation") == 0;
    size_t most = 0;
    for (size_t p = 0; p < c->families.count; p++) {
        size_t heads = 0;
        for (size_t m = 0; m < c->families.panels[p].count; m++)
            heads += qk__rows_in(&c->families, c->families.panels[p].models[m]).count;
        most = heads > most ? heads : most;
    }
    c->size = cloud_point_size(most, c->sheet.height);
    qk__begin_sheet(figure, &c->sheet);
}

/* ---- one panel -------------------------------------------------------------------------- */

/* A single panel of all models with heads to show. */
static void put_together(qk__families *all)
{
    size_t count = 0;
    qk__each_model (all->results, model)
        if (qk__rows_in(all, model).count > 0)
            all->pool[count++] = model;
    all->panels[0] = (qk__family){"", 0, count, all->pool};
    all->count = 1;
}

void qk__build_points(qk__figure *figure, const qk__subject *subject)
{
    qk__cloud c = {.by_category = subject->kind->panels[0].by_category};
    naming named = {0};
    if (!qk__gather_families(figure, subject, false, &c.families))
        return;
    qk__set_heading(figure, subject->results, NULL, subject->kind->heading);
    put_together(&c.families);
    if (subject->kind->pools)
        qk__tell_pooled(figure, subject->results, c.families.panels[0].count);
    set_powers(&c);
    if (c.by_category)
        name_categories(figure, &c, &named);
    else
        name_groups(figure, &c, true, &named);
    c.sheet = (qk__sheet){.most = 1,
                          .left = 68,
                          .right = 20,
                          .above = 8,
                          .below = 54,
                          .width = PLANE,
                          .square = true,
                          .height = subject->kind->height};
    begin_cloud(figure, &c, &named);
    draw_cloud(figure, &c, 0, false, NULL);
}

/* ---- some checkpoints ------------------------------------------------------------------- */

void qk__build_portraits(qk__figure *figure, const qk__subject *subject)
{
    qk__cloud c = {.power = {{0, 1, ""}, {0, 1, ""}}, .one_axis = true};
    naming named = {0};
    if (!qk__gather_families(figure, subject, false, &c.families))
        return;
    put_together(&c.families);
    c.families.count = qk__keep_milestones(c.families.pool, c.families.panels[0].count);
    for (size_t i = 0; i < c.families.count; i++)
        c.families.panels[i] =
            (qk__family){c.families.pool[i]->label, c.families.pool[i]->family_index, 1,
                         &c.families.pool[i]};
    double width = figure->millimetres > 0 ? 115 : PANEL;
    qk__set_heading(figure, subject->results, NULL, subject->kind->heading);
    name_groups(figure, &c, false, &named);
    c.sheet = (qk__sheet){.most = c.families.count == 4 ? 2 : 3,
                          .least = 160,
                          .left = 68,
                          .gap = 14,
                          .right = 14,
                          .above = 8 + QK__NAME_LINE *
                                           qk__most_name_lines(figure, &c.families, width),
                          .below = 20,
                          .width = PANEL,
                          .square = true,
                          .height = subject->kind->height,
                          .foot = 34};
    begin_cloud(figure, &c, &named);
    for (size_t i = 0; i < c.families.count; i++)
        draw_cloud(figure, &c, i, true, NULL);
}

/* ---- a panel for each family ------------------------------------------------------------ */

/* With a panel per model: the meaning of hues, and r within each family. */
static void name_hues(qk__figure *figure, const qk__cloud *c, naming *named)
{
    const qk__families *all = &c->families;
    if (!all->split)
        return;
    if (all->results->checkpoints) {
        name_groups(figure, c, false, named);
        return;
    }
    for (size_t p = 0; p < all->count; p++) {
        char value[QK__NUMBER_TEXT], more[40];
        if (p > 0 && all->panels[p].index == all->panels[p - 1].index)
            continue;
        size_t models = 0; /* which stand one behind the other */
        for (size_t q = p; q < all->count && all->panels[q].index == all->panels[p].index; q++)
            models += all->panels[q].count;
        double r = qk__cloud_r(figure, all, all->panels[p].models, models);
        snprintf(more, sizeof more, " (r = %.12s)", qk__number_text(value, "%.2f", r));
        add_name(figure, all->results->families[all->panels[p].index], more,
                 all->panels[p].index, named);
    }
}

/* Plans heading, powers of ten, and the room for the tallest name and legend. */
static void plan_families(qk__figure *figure, const qk__subject *subject, qk__cloud *c)
{
    const qk__families *all = &c->families;
    double legends = 0;
    set_powers(c);
    qk__set_heading(figure, subject->results, NULL, subject->kind->heading);
    c->sheet = (qk__sheet){.least = 200,
                           .left = 66,
                           .gap = 70,
                           .right = 16,
                           .below = 62,
                           .width = 500,
                           .height = subject->kind->height};
    c->sheet.count = all->count;
    qk__lay_out(figure, &c->sheet); /* once for the width of panels */
    for (size_t p = 0; p < all->count; p++) {
        model_names names;
        name_models_with_r(figure, c, p, &names);
        legends = fmax(legends, names.shades.legend.height);
    }
    c->sheet.above =
        NOTE + QK__NAME_LINE * qk__most_name_lines(figure, all, c->sheet.first.width) + 4;
    c->sheet.below += legends / qk__em(figure);
}

void qk__build_family_points(qk__figure *figure, const qk__subject *subject)
{
    qk__cloud c = {0};
    naming named = {0};
    if (!qk__gather_families(figure, subject, true, &c.families))
        return;
    plan_families(figure, subject, &c);
    name_hues(figure, &c, &named);
    begin_cloud(figure, &c, &named);
    for (size_t p = 0; p < c.families.count; p++) {
        const qk__family *family = &c.families.panels[p];
        char note[64] = "";
        if (!subject->results->checkpoints || family->count == 1)
            describe_r(qk__cloud_r(figure, &c.families, family->models, family->count), note);
        draw_cloud(figure, &c, p, true, note);
    }
}
