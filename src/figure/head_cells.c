/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the cells of head maps, and finds their colours. */
#include "figure/head_cells.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_CELLS = 1 << 16 }; /* of a model */

/* ---- values ----------------------------------------------------------------------------- */

static double value_of(const qk__map_kind *kind, const qk__result_head *head)
{
    if (kind->field)
        return qk__field_value(qk__find_field(kind->field), &head->v);
    return head->category >= 0 && head->category < QK_NUM_CATEGORIES ? head->category : NAN;
}

static size_t place_of(const qk__head_grid *g, const qk__result_head *head)
{
    return (size_t)head->layer * g->heads + (size_t)head->q_head;
}

static void fill_grid(qk__figure *figure, const qk__map_kind *kind, qk__head_grid *g)
{
    const qk__result_model *model = g->model;
    for (size_t h = 0; h < model->num_heads; h++) {
        const qk__result_head *head = &model->heads[h];
        g->layers = (size_t)fmax((double)g->layers, head->layer + 1);
        g->heads = (size_t)fmax((double)g->heads, head->q_head + 1);
    }
    g->layers = (size_t)fmax((double)g->layers, model->last_layer + 1);
    const size_t count = g->layers * g->heads;
    qk__mean *means = qk__figure_alloc(figure, count + 1, sizeof *means);
    g->values = qk__figure_alloc(figure, count + 1, sizeof *g->values);
    for (size_t h = 0; means && h < model->num_heads; h++)
        qk__mean_add(&means[place_of(g, &model->heads[h])], value_of(kind, &model->heads[h]));
    for (size_t i = 0; means && g->values && i < count; i++) {
        g->values[i] = qk__mean_of(&means[i]);
        g->missing += !isfinite(g->values[i]);
    }
    free(means);
}

/* A table may name any head: one far out must not take all memory. */
static bool fits(const qk__result_model *model)
{
    int layers = model->last_layer + 1, heads = 1;
    for (size_t h = 0; h < model->num_heads; h++) {
        const qk__result_head *head = &model->heads[h];
        layers = head->layer >= layers ? head->layer + 1 : layers;
        heads = head->q_head >= heads ? head->q_head + 1 : heads;
    }
    return (double)layers * heads <= MOST_CELLS;
}

bool qk__map_has_values(const qk__map_kind *kind, const qk__result_model *model)
{
    if (!fits(model))
        return false;
    for (size_t h = 0; h < model->num_heads; h++)
        if (isfinite(value_of(kind, &model->heads[h])))
            return true;
    return false;
}

/* All models with values, or the first, the last, and others evenly between them. */
void qk__choose_models(qk__figure *figure, const qk__results *results, qk__map_cells *all)
{
    size_t seen = 0;
    for (size_t m = 0; m < results->num_models; m++)
        all->of += qk__map_has_values(all->kind, &results->models[m]);
    size_t panels = all->of < QK__MAX_PANELS ? all->of : QK__MAX_PANELS;
    for (size_t m = 0; m < results->num_models && all->count < panels; m++) {
        size_t wanted =
            panels > 1 ? (all->count * (all->of - 1) + (panels - 1) / 2) / (panels - 1) : 0;
        if (!qk__map_has_values(all->kind, &results->models[m]) || seen++ != wanted)
            continue;
        qk__head_grid *g = &all->grids[all->count++];
        g->model = &results->models[m];
        fill_grid(figure, all->kind, g);
        all->layers = g->layers > all->layers ? g->layers : all->layers;
        all->heads = g->heads > all->heads ? g->heads : all->heads;
        all->missing += g->missing;
    }
}

/* ---- colours ---------------------------------------------------------------------------- */

/* Without the outermost hundredth at each end, so that one head does not take all colours. */
static void find_ends(const double *sorted, size_t count, qk__map_scale *s)
{
    size_t cut = count / 100;
    s->low = sorted[cut];
    s->high = sorted[count - 1 - cut];
    s->cut_low = s->low > sorted[0];
    s->cut_high = s->high < sorted[count - 1];
}

qk__map_scale qk__find_map_scale(qk__figure *figure, const qk__map_cells *all)
{
    qk__map_scale s = {0, 1, false, false, {0, 1, ""}};
    size_t count = 0, most = 1;
    for (size_t i = 0; i < all->count; i++)
        most += all->grids[i].layers * all->grids[i].heads;
    double *values = all->kind->field ? qk__figure_alloc(figure, most, sizeof *values) : NULL;
    if (!values)
        return s;
    for (size_t i = 0; i < all->count; i++) {
        const qk__head_grid *g = &all->grids[i];
        for (size_t c = 0; g->values && c < g->layers * g->heads; c++)
            if (isfinite(g->values[c]))
                values[count++] = g->values[c];
    }
    qk__sort(values, count);
    if (count > 0 && all->kind->correlation) {
        s.low = values[0] < -0.005 ? fmax(-1, floor(10 * values[0]) / 10) : 0;
    } else if (count > 0) {
        find_ends(values, count, &s);
        if (all->kind->from_zero) {
            s.low = fmin(0, s.low);
            s.high = fmax(0, s.high);
        }
        s.power = qk__power_of(fmax(-s.low, s.high));
    }
    if (!(s.high > s.low)) { /* one value, or none: any range that holds it */
        s.low -= s.low != 0 ? 0.1 * fabs(s.low) : 0;
        s.high += s.high != 0 ? 0.1 * fabs(s.high) : 1;
    }
    free(values);
    return s;
}

/* Negative values have a side of their own, where colours begin at a depth that shows: what is
 * just below 0 does not look as what is just above. */
static void color_of(const qk__map_kind *kind, const qk__map_scale *s, double value,
                     unsigned char rgb[3])
{
    if (!kind->from_zero) {
        qk__colormap_at(kind->above, (value - s->low) / (s->high - s->low), rgb);
        return;
    }
    double size = fabs(value) / fmax(-s->low, s->high);
    if (value < 0 && kind->below != kind->above)
        qk__colormap_at(kind->below, 0.2 + 0.8 * size, rgb);
    else
        qk__colormap_at(kind->above, value < 0 ? 0 : size, rgb);
}

/* The colour of a cell, and one for a text in it. */
unsigned qk__map_color(const qk__figure *figure, const qk__map_kind *kind,
                       const qk__map_scale *s, double value, bool *dark)
{
    unsigned char rgb[3];
    if (!kind->field) {
        unsigned code;
        *dark = false;
        return sscanf(qk__category_color(figure->theme, (int)value), "#%6x", &code) == 1 ? code
                                                                                         : 0;
    }
    color_of(kind, s, value, rgb);
    *dark = qk__is_dark(rgb);
    return (unsigned)rgb[0] << 16 | (unsigned)rgb[1] << 8 | rgb[2];
}
