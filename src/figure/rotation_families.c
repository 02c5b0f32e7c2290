/* SPDX-License-Identifier: Apache-2.0 */
/* Figures with a panel per family of models, or per model: layout, legends, colours of models. */
#include "figure/rotation_families.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"

/* More models than TOGETHER in one panel cannot be told apart. */
enum { TOGETHER = 4, MAX_PANELS = 60, MAX_COLUMNS = 4 };

/* Above and below a plot, in pixels: a line of its name, its note; tics and label; around it. */
enum { NAME_LINE = 16, NOTE = 22, BELOW = 52, EDGE = 14 };

static size_t count_pairs(const qk__result_model *model, qk__pick_fn *pick)
{
    size_t count = 0;
    for (size_t h = 0; h < model->num_heads; h++)
        count += !isnan(pick(&model->heads[h]).y);
    return count;
}

bool qk__has_pairs(const qk__results *results, qk__pick_fn *pick)
{
    for (size_t m = 0; m < results->num_models; m++)
        if (count_pairs(&results->models[m], pick) > 0)
            return true;
    return false;
}

/* ---- families --------------------------------------------------------------------------- */

void qk__free_families(qk__family_panels *panels)
{
    for (size_t f = 0; f < panels->count; f++)
        free(panels->families[f].models);
    free(panels->families);
    *panels = (qk__family_panels){0};
}

static bool gather_family(const qk__results *results, size_t index, qk__pick_fn *pick,
                          qk__family *family)
{
    *family = (qk__family){.name = results->families[index], .index = (int)index};
    family->models = qk__calloc(results->num_models, sizeof *family->models);
    if (!family->models)
        return false;
    for (size_t m = 0; m < results->num_models; m++) {
        const qk__result_model *model = &results->models[m];
        size_t pairs = (size_t)model->family_index == index ? count_pairs(model, pick) : 0;
        if (pairs == 0)
            continue;
        family->models[family->num_models++] = model;
        family->num_heads += pairs;
    }
    return true;
}

static bool gather(const qk__results *results, qk__pick_fn *pick, qk__family_panels *panels)
{
    panels->families = qk__calloc(results->num_families, sizeof *panels->families);
    if (!panels->families)
        return false;
    for (size_t f = 0; f < results->num_families && panels->count < MAX_PANELS; f++) {
        qk__family *family = &panels->families[panels->count];
        bool ok = gather_family(results, f, pick, family);
        if (!ok || family->num_models == 0) {
            free(family->models);
            family->models = NULL;
        } else {
            panels->count++;
        }
        if (!ok)
            return false;
    }
    return true;
}

/* A panel for each model in place of one for each family. */
static bool split_families(qk__pick_fn *pick, qk__family_panels *panels)
{
    qk__family_panels single = {.results = panels->results, .split = true};
    single.families = qk__calloc(MAX_PANELS, sizeof *single.families);
    bool ok = single.families;
    for (size_t f = 0; ok && f < panels->count; f++) {
        const qk__family *family = &panels->families[f];
        for (size_t m = 0; ok && m < family->num_models && single.count < MAX_PANELS; m++) {
            const qk__result_model **model = qk__calloc(1, sizeof *model);
            if ((ok = model)) {
                *model = family->models[m];
                single.families[single.count++] = (qk__family){
                    (*model)->label, family->index, 1, count_pairs(*model, pick), model};
            }
        }
    }
    qk__free_families(panels);
    *panels = single;
    return ok;
}

size_t qk__most_models(const qk__family_panels *panels)
{
    size_t most = 0;
    for (size_t f = 0; f < panels->count; f++)
        if (panels->families[f].num_models > most)
            most = panels->families[f].num_models;
    return most;
}

static size_t count_models(const qk__family_panels *panels)
{
    size_t count = 0;
    for (size_t f = 0; f < panels->count; f++)
        count += panels->families[f].num_models;
    return count;
}

bool qk__gather_families(qk__figure *figure, const qk__results *results, qk__pick_fn *pick,
                         bool split, qk__family_panels *panels)
{
    *panels = (qk__family_panels){.results = results};
    bool ok = gather(results, pick, panels);
    panels->has_legends = split && qk__most_models(panels) <= TOGETHER;
    if (ok && split && !panels->has_legends && count_models(panels) <= MAX_PANELS)
        ok = split_families(pick, panels);
    if (!ok)
        qk__figure_nomem(figure);
    return ok;
}

/* ---- legends ---------------------------------------------------------------------------- */

/* None where the only model is called like its family. */
static size_t num_entries(const qk__family_panels *panels, const qk__family *family)
{
    bool named = family->num_models == 1 && strcmp(family->name, family->models[0]->label) == 0;
    return panels->has_legends && !named ? family->num_models : 0;
}

typedef struct naming {
    qk__entry entries[TOGETHER];
    char colors[TOGETHER][8];
} naming;

/* names must outlive the legend. */
static qk__legend plan_legend(const qk__figure *figure, const qk__family_panels *panels,
                              size_t panel, naming *names)
{
    const qk__family *family = &panels->families[panel];
    size_t count = num_entries(panels, family);
    for (size_t m = 0; m < count; m++) {
        qk__model_color(figure, panels, family, m, names->colors[m]);
        names->entries[m] = (qk__entry){family->models[m]->label, names->colors[m],
                                        qk__model_point(panels, family, m)};
    }
    return qk__plan_legend(figure, names->entries, count,
                           panels->right - EDGE * qk__em(figure));
}

/* Which of the models of its colour in the panel it is, and of how many. */
static size_t rank_of(const qk__family_panels *panels, const qk__family *family, size_t model,
                      size_t *count)
{
    int group = qk__color_group(panels->results, family->models[model]);
    size_t rank = 0;
    *count = 0;
    for (size_t m = 0; m < family->num_models; m++) {
        if (qk__color_group(panels->results, family->models[m]) != group)
            continue;
        rank += m < model;
        ++*count;
    }
    return rank;
}

/* Shades from light to dark where models are told apart, else the hue. */
void qk__model_color(const qk__figure *figure, const qk__family_panels *panels,
                     const qk__family *family, size_t model, char color[8])
{
    const qk__theme *theme = figure->theme;
    size_t count, rank = rank_of(panels, family, model, &count);
    const char *hue =
        qk__series_color(theme, qk__color_group(panels->results, family->models[model]));
    double at = count > 1 && panels->has_legends ? (double)rank / (double)(count - 1) : 0.5;
    qk__mixed_color(hue, at < 0.5 ? theme->background : theme->ink, 1 - 0.9 * fabs(at - 0.5),
                    color);
}

int qk__model_point(const qk__family_panels *panels, const qk__family *family, size_t model)
{
    return panels->has_legends
               ? qk__series_point((int)model)
               : qk__series_point(qk__color_group(panels->results, family->models[model]));
}

/* ---- places ----------------------------------------------------------------------------- */

static size_t num_columns(size_t panels)
{
    if (panels <= 3)
        return panels > 0 ? panels : 1;
    if (panels == 4)
        return 2;
    return panels <= 6 || panels == 9 ? 3 : MAX_COLUMNS;
}

/* The name of a panel, in as many lines as it needs. Returns whether it is to be small. */
static bool break_name(const qk__figure *figure, const qk__family_panels *panels, size_t panel,
                       qk__lines *lines)
{
    double room = panels->first.width / qk__text_width(figure, 1);
    const char *name = panels->families[panel].name;
    qk__break_lines(name, false, (size_t)fmax(room, 2), 3, lines);
    return (double)qk__count_columns(name) > QK__SMALL * room;
}

void qk__arrange_families(qk__figure *figure, double beside, double above, double panel_height,
                          qk__family_panels *panels)
{
    const double em = qk__em(figure);
    panels->columns = qk__fit_columns(figure, num_columns(panels->count), 200);
    panels->right = (figure->width - EDGE * em) / (double)panels->columns;
    panels->first =
        (qk__place){beside, 0, panels->right - beside - EDGE / 2.0 * em, panel_height};
    double legends = 0;
    size_t lines = 1;
    for (size_t f = 0; f < panels->count; f++) {
        naming names;
        qk__lines name;
        break_name(figure, panels, f, &name);
        lines = name.count > lines ? name.count : lines;
        legends = fmax(legends, plan_legend(figure, panels, f, &names).height);
    }
    double names = (NAME_LINE * (double)lines + NOTE) * em;
    above += above > 0 ? 6 * em : 0;
    panels->first.top = qk__heading_height(figure) + above + names;
    panels->down = names + (BELOW + EDGE) * em + panel_height + legends;
    size_t rows = (panels->count + panels->columns - 1) / panels->columns;
    figure->height = (int)(panels->first.top - names + (double)rows * panels->down);
}

void qk__put_family(qk__figure *figure, const qk__family_panels *panels, size_t panel,
                    const qk__around *around)
{
    const double em = qk__em(figure);
    qk__place place = panels->first;
    size_t row = panel / panels->columns, column = panel % panels->columns;
    place.left += (double)column * panels->right;
    place.top += (double)row * panels->down;
    double middle = place.left + place.width / 2, bottom = place.top + place.height;
    qk__put_panel(figure, &place);
    if (column == 0)
        qk__put_side_text(figure, around->y_label, 14 * em, &place);
    qk__lines name;
    bool small = break_name(figure, panels, panel, &name);
    for (size_t i = 0; i < name.count; i++)
        qk__put_text(figure, qk__figure_quote(figure, name.text[i]), middle,
                     place.top - (NOTE + NAME_LINE * ((double)(name.count - i) - 0.5)) * em,
                     small);
    qk__put_text(figure, around->note, middle, place.top - (NOTE - 9) * em, true);
    qk__put_text(figure, around->x_label, middle, bottom + 37 * em, false);
    naming names;
    qk__legend legend = plan_legend(figure, panels, panel, &names);
    bool within = (double)legend.columns * legend.column_width <= place.width;
    qk__put_legend(figure, &legend,
                   within ? middle : place.left + place.width - panels->right / 2,
                   bottom + BELOW * em);
}
