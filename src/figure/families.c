/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the models of panels, and gives them colours and legends. */
#include "figure/families.h"

#include <math.h>
#include <string.h>

qk__found qk__rows_in(const qk__families *all, const qk__result_model *model)
{
    return qk__rows_of_model(&all->subject->all, model);
}

/* Makes a panel for each model in place of one for each family. */
static void split_families(qk__families *all)
{
    qk__family single[QK__MOST_FAMILIES] = {0};
    size_t count = 0;
    for (size_t f = 0; f < all->count; f++)
        for (size_t m = 0; m < all->panels[f].count; m++)
            single[count++] = (qk__family){all->panels[f].models[m]->label,
                                           all->panels[f].index, 1, &all->panels[f].models[m]};
    memcpy(all->panels, single, count * sizeof *single);
    all->count = count;
    all->split = true;
}

bool qk__gather_families(qk__figure *figure, const qk__subject *subject, bool split,
                         qk__families *all)
{
    const qk__results *results = subject->results;
    *all = (qk__families){
        .subject = subject, .results = results, .series = subject->kind->panels[0].series};
    all->pool = qk__figure_alloc(figure, results->num_models, sizeof *all->pool);
    size_t used = 0, most = 0;
    for (size_t f = 0; all->pool && f < results->num_families && all->count < QK__MOST_FAMILIES;
         f++) {
        qk__family *family = &all->panels[all->count];
        *family = (qk__family){results->families[f], (int)f, 0, all->pool + used};
        qk__each_model (results, model)
            if (model->family_index == (int)f && qk__rows_in(all, model).count > 0)
                family->models[family->count++] = model;
        used += family->count;
        most = family->count > most ? family->count : most;
        all->count += family->count > 0;
    }
    all->told_apart = split && most <= QK__TOGETHER;
    if (split && !all->told_apart && used <= QK__MOST_FAMILIES)
        split_families(all);
    return all->pool != NULL;
}

double qk__most_name_lines(const qk__figure *figure, const qk__families *all, double width)
{
    size_t most = 1;
    for (size_t p = 0; p < all->count; p++) {
        size_t lines = qk__name_lines(figure, all->panels[p].name, width);
        most = lines > most ? lines : most;
    }
    return (double)most;
}

/* ---- models ----------------------------------------------------------------------------- */

/* The model's rank among the models of its colour in the panel, and their number. */
static size_t rank_of(const qk__families *all, const qk__family *family, size_t model,
                      size_t *count)
{
    int group = qk__color_group(all->results, family->models[model]);
    size_t rank = 0;
    *count = 0;
    for (size_t m = 0; m < family->count; m++) {
        if (qk__color_group(all->results, family->models[m]) != group)
            continue;
        rank += m < model;
        ++*count;
    }
    return rank;
}

/* Shades from light to dark where models differ in colour, else the hue. */
void qk__model_color(const qk__figure *figure, const qk__families *all,
                     const qk__family *family, size_t model, char color[8])
{
    const qk__theme *theme = figure->theme;
    size_t count, rank = rank_of(all, family, model, &count);
    const char *hue =
        qk__series_color(theme, qk__color_group(all->results, family->models[model]));
    double at = count > 1 && all->told_apart ? (double)rank / (double)(count - 1) : 0.5;
    qk__mixed_color(hue, at < 0.5 ? theme->background : theme->ink, 1 - 0.9 * fabs(at - 0.5),
                    color);
}

qk__sign qk__model_sign(const qk__families *all, const qk__family *family, size_t model)
{
    return qk__series_sign(
        all->told_apart ? (int)model : qk__color_group(all->results, family->models[model]));
}

void qk__name_models(const qk__figure *figure, const qk__families *all, size_t panel,
                     double width, qk__shades *shades)
{
    const qk__family *family = &all->panels[panel];
    bool named = family->count == 1 && strcmp(family->name, family->models[0]->label) == 0;
    size_t count = all->told_apart && !named ? family->count : 0;
    for (size_t m = 0; m < count; m++) {
        qk__model_color(figure, all, family, m, shades->colors[m]);
        shades->entries[m] = (qk__entry){family->models[m]->label, shades->colors[m],
                                         qk__model_sign(all, family, m), 0};
    }
    shades->legend = qk__plan_legend(figure, shades->entries, count, false, width);
}
