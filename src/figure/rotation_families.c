/* SPDX-License-Identifier: Apache-2.0 */
/* Figures with a panel per family of models: layout, legends, colours of models. */
#include "figure/rotation_families.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"

/* More models than MAX_SERIES are drawn in a ramp, of which the legend names MAX_LEGEND. */
enum { MAX_SERIES = 7, MAX_LEGEND = 8, MAX_FAMILIES = 60, MAX_COLUMNS = 4 };

/* Beside, above and below a plot, in pixels: tics and label, title, tics and label. */
enum { BESIDE = 66, ABOVE = 42, BELOW = 52, EDGE = 14 };

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

static void free_family(qk__family *family)
{
    free(family->models);
    free(family->labels);
    *family = (qk__family){0};
}

void qk__free_families(qk__family_panels *panels)
{
    for (size_t f = 0; f < panels->count; f++)
        free_family(&panels->families[f]);
    free(panels->families);
    *panels = (qk__family_panels){0};
}

static bool gather_family(const qk__results *results, size_t index, qk__pick_fn *pick,
                          qk__family *family)
{
    *family = (qk__family){.name = results->families[index]};
    family->models = qk__calloc(results->num_models, sizeof *family->models);
    family->labels = qk__calloc(results->num_models, sizeof *family->labels);
    if (!family->models || !family->labels)
        return false;
    for (size_t m = 0; m < results->num_models; m++) {
        const qk__result_model *model = &results->models[m];
        size_t pairs = (size_t)model->family_index == index ? count_pairs(model, pick) : 0;
        if (pairs == 0)
            continue;
        family->labels[family->num_models] = model->label;
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
    for (size_t f = 0; f < results->num_families && panels->count < MAX_FAMILIES; f++) {
        qk__family *family = &panels->families[panels->count];
        bool ok = gather_family(results, f, pick, family);
        if (!ok || family->num_models == 0)
            free_family(family);
        else
            panels->count++;
        if (!ok)
            return false;
    }
    return true;
}

/* ---- legends ---------------------------------------------------------------------------- */

/* Models that the legend names: all, or the first, the last and some evenly between. None where
 * the only one is called like its family. */
static size_t num_entries(const qk__family *family)
{
    if (family->num_models == 1 && strcmp(family->name, family->labels[0]) == 0)
        return 0;
    return family->num_models < MAX_LEGEND ? family->num_models : MAX_LEGEND;
}

static size_t entry_model(const qk__family *family, size_t entry)
{
    size_t count = num_entries(family);
    return count < 2 ? 0 : entry * (family->num_models - 1) / (count - 1);
}

typedef struct naming {
    qk__entry entries[MAX_LEGEND];
    char colors[MAX_LEGEND][8];
} naming;

/* names must outlive the legend. */
static qk__legend plan_legend(const qk__figure *figure, const qk__family_panels *panels,
                              size_t panel, bool points, naming *names)
{
    const qk__family *family = &panels->families[panel];
    size_t count = num_entries(family);
    for (size_t i = 0; i < count; i++) {
        size_t m = entry_model(family, i);
        qk__model_color(figure, family, m, names->colors[i]);
        names->entries[i] = (qk__entry){family->labels[m], names->colors[i],
                                        points ? qk__model_point(family, m) : QK__AREA};
    }
    return qk__plan_legend(figure, names->entries, count,
                           panels->right - EDGE * qk__em(figure));
}

void qk__model_color(const qk__figure *figure, const qk__family *family, size_t model,
                     char color[8])
{
    if (family->num_models <= MAX_SERIES) {
        snprintf(color, 8, "%s", qk__series_color(figure->theme, (int)model));
        return;
    }
    /* Of the ramp only what stands out from the page. */
    bool dark = figure->theme->background[1] < '8';
    double at = (double)model / (double)(family->num_models - 1);
    unsigned char rgb[3];
    qk__colormap_at(&qk__viridis, dark ? 0.3 + 0.7 * at : 0.88 * at, rgb);
    snprintf(color, 8, "#%02x%02x%02x", rgb[0], rgb[1], rgb[2]);
}

int qk__model_point(const qk__family *family, size_t model)
{
    return qk__series_point(family->num_models <= MAX_SERIES ? (int)model : 0);
}

/* ---- places ----------------------------------------------------------------------------- */

static size_t num_columns(size_t panels)
{
    if (panels <= 3)
        return panels;
    if (panels == 4)
        return 2;
    return panels <= 6 || panels == 9 ? 3 : MAX_COLUMNS;
}

static void arrange(qk__figure *figure, double panel_height, qk__family_panels *panels)
{
    const double em = qk__em(figure);
    panels->columns = num_columns(panels->count);
    if (panels->columns == 1)
        figure->width = figure->width * 3 / 5;
    panels->right = (figure->width - EDGE * em) / (double)panels->columns;
    panels->first = (qk__place){BESIDE * em, qk__heading_height(figure) + ABOVE * em,
                                panels->right - BESIDE * em, panel_height};
    double legends = 0;
    for (size_t f = 0; f < panels->count; f++) {
        naming names;
        legends = fmax(legends, plan_legend(figure, panels, f, false, &names).height);
    }
    panels->down = (ABOVE + BELOW + EDGE) * em + panel_height + legends;
    size_t rows = (panels->count + panels->columns - 1) / panels->columns;
    figure->height = (int)(qk__heading_height(figure) + (double)rows * panels->down);
}

bool qk__plan_families(qk__figure *figure, const qk__results *results, qk__pick_fn *pick,
                       double panel_height, qk__family_panels *panels)
{
    *panels = (qk__family_panels){0};
    if (!gather(results, pick, panels)) {
        qk__figure_nomem(figure);
        return false;
    }
    arrange(figure, panel_height, panels);
    return true;
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
    if (panel % panels->columns == 0)
        qk__label_panel(figure, &place, around->y_label);
    qk__put_text(figure, around->title, middle, place.top - (around->note ? 28 : 16) * em,
                 false);
    if (around->note)
        qk__put_text(figure, around->note, middle, place.top - 10 * em, true);
    qk__put_text(figure, around->x_label, middle, bottom + 37 * em, false);
    naming names;
    qk__legend legend = plan_legend(figure, panels, panel, around->points, &names);
    bool within = (double)legend.columns * legend.column_width <= place.width;
    qk__put_legend(figure, &legend,
                   within ? middle : place.left + place.width - panels->right / 2,
                   bottom + BELOW * em);
}
