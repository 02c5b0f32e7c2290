/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of a model before and after RoPE: what each rotary pair holds, layer by layer, and
 * how heads change their category. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "figure/panels.h"
#include "figure/catalog.h"

/* ---- by layer and pair ------------------------------------------------------------------ */

static size_t count_pairs(const qk__result_model *model)
{
    size_t count = 0;
    for (size_t h = 0; h < model->num_heads; h++)
        if (model->heads[h].num_rope_pairs > count)
            count = model->heads[h].num_rope_pairs;
    return count;
}

static bool has_pairs(const qk__subject *subject)
{
    return count_pairs(subject->model) > 0;
}

/* Which numbers of the pairs of a head. */
typedef const double *pair_numbers(const qk__result_head *head);

static const double *energy_q(const qk__result_head *head)
{
    return head->rope_energy_q;
}

static const double *energy_k(const qk__result_head *head)
{
    return head->rope_energy_k;
}

static const double *score_share(const qk__result_head *head)
{
    return head->rope_score_share;
}

/* Means over the heads of each layer, in percent; NaN for a layer without any. */
static void fill_means(const qk__result_model *model, pair_numbers *of, size_t pairs,
                       double *values)
{
    size_t layers = (size_t)model->last_layer + 1;
    for (size_t i = 0; i < layers * pairs; i++)
        values[i] = NAN;
    for (size_t h = 0, first = 0; h < model->num_heads; first = h) {
        size_t layer = (size_t)model->heads[first].layer;
        while (h < model->num_heads && model->heads[h].layer == model->heads[first].layer)
            h++;
        for (size_t p = 0; p < pairs; p++) {
            double sum = 0;
            size_t count = 0;
            for (size_t i = first; i < h; i++) {
                const qk__result_head *head = &model->heads[i];
                if (p >= head->num_rope_pairs || !isfinite(of(head)[p]))
                    continue;
                sum += of(head)[p];
                count++;
            }
            if (count > 0)
                values[layer * pairs + p] = 100 * sum / (double)count;
        }
    }
}

/* Wavelengths in tokens, rounded to two digits, of every so many pairs: "6", "1.2k", "440k". */
static void label_wavelength(double wavelength, char text[16])
{
    if (!isfinite(wavelength))
        text[0] = 0;
    else if (wavelength >= 1e9)
        snprintf(text, 16, "%.0e", wavelength);
    else if (wavelength >= 1e6)
        snprintf(text, 16, "%.*fM", wavelength < 1e7, wavelength / 1e6);
    else if (wavelength >= 1e3)
        snprintf(text, 16, "%.*fk", wavelength < 1e4, wavelength / 1e3);
    else
        snprintf(text, 16, "%.0f", wavelength);
}

typedef struct pair_axis {
    size_t pairs;
    char (*text)[16];    /* [pairs] "" between labels */
    const char **labels; /* [pairs] */
    char (*number)[24];  /* of the layers, likewise: [last layer + 1] */
    const char **layers;
    double context_at; /* pair index where a turn takes the context; NaN: none does */
} pair_axis;

/* Every so many numbers, so that none touches the next. */
static bool fill_layers(const qk__result_model *model, pair_axis *axis)
{
    size_t layers = (size_t)model->last_layer + 1, step = (layers + 29) / 30;
    axis->number = qk__calloc(layers, sizeof *axis->number);
    axis->layers = qk__calloc(layers, sizeof *axis->layers);
    for (size_t l = 0; axis->number && axis->layers && l < layers; l++) {
        if (l % step == 0)
            snprintf(axis->number[l], sizeof axis->number[l], "%zu", l);
        axis->layers[l] = axis->number[l];
    }
    return axis->number && axis->layers;
}

/* The axis of the first head with all pairs: those of sliding layers may turn otherwise, which
 * the caption says. */
static bool fill_axis(const qk__result_model *model, size_t pairs, pair_axis *axis)
{
    const size_t step = (pairs + 5) / 6;
    const qk__result_head *head = NULL;
    *axis = (pair_axis){.pairs = pairs, .context_at = NAN};
    axis->text = qk__calloc(pairs, sizeof *axis->text);
    axis->labels = qk__calloc(pairs, sizeof *axis->labels);
    for (size_t h = 0; h < model->num_heads && !head; h++)
        if (model->heads[h].num_rope_pairs == pairs)
            head = &model->heads[h];
    if (!axis->text || !axis->labels || !head || !fill_layers(model, axis))
        return false;
    size_t slower = 0;
    for (size_t p = 0; p < pairs; p++) {
        if (p % step == 0)
            label_wavelength(head->rope_wavelength[p], axis->text[p]);
        axis->labels[p] = axis->text[p];
        slower += head->rope_wavelength[p] > head->v.context;
    }
    if (slower > 0 && slower < pairs)
        axis->context_at = (double)(pairs - slower) - 0.5;
    return true;
}

static void free_axis(pair_axis *axis)
{
    free(axis->text);
    free(axis->labels);
    free(axis->number);
    free(axis->layers);
}

static double largest(const double *values, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = isfinite(values[i]) ? fmax(most, values[i]) : most;
    return most;
}

static void draw_pair_map(qk__figure *figure, const qk__result_model *model,
                          const pair_axis *axis, double *values, pair_numbers *of,
                          const qk__colormap *map, const qk__place *place, const char *title)
{
    const double em = qk__em(figure), middle = place->left + place->width / 2;
    size_t layers = (size_t)model->last_layer + 1;
    fill_means(model, of, axis->pairs, values);
    double most = largest(values, layers * axis->pairs);
    qk__put_panel(figure, place);
    qk__put_text(figure, title, middle, place->top - 15 * em, false);
    qk__put_text(figure, "'Wavelength (tokens)'", middle, place->top + place->height + 40 * em,
                 false);
    if (isfinite(axis->context_at))
        qk__figure_print(figure,
                         "set arrow from first %g, graph 0 to first %g, graph 1 nohead front "
                         "dt 2 lw 1.5 lc rgb '%s'\n",
                         axis->context_at, axis->context_at, figure->theme->muted);
    qk__figure_heatmap(figure, &(qk__heatmap){.rows = layers,
                                              .columns = axis->pairs,
                                              .values = values,
                                              .row_labels = axis->layers,
                                              .column_labels = axis->labels,
                                              .map = map,
                                              .low = 0,
                                              .high = most > 0 ? most : 1});
    qk__figure_print(figure, "unset label\nunset arrow\n");
}

static void draw_pair_maps(qk__figure *figure, const qk__subject *subject,
                           const pair_axis *axis, double *values)
{
    enum { PANELS = 3, LEAST = 150, MOST = 900, ROW = 16 };
    static const char *const TITLES[PANELS] = {"'Energy of queries (%)'",
                                               "'Energy of keys (%)'",
                                               "'Score variance over distance (%)'"};
    static pair_numbers *const NUMBERS[PANELS] = {energy_q, energy_k, score_share};
    const qk__colormap *const MAPS[PANELS] = {&qk__blues, &qk__reds, &qk__ylorrd};
    const double em = qk__em(figure), left = 62 * em, gap = 88 * em, right = 62 * em;
    size_t columns = qk__fit_columns(figure, PANELS, 260);
    double width = (figure->width - left - right + gap) / (double)columns - gap;
    double height = fmin(MOST, fmax(LEAST, ROW * (subject->model->last_layer + 1.0)));
    qk__set_heading(figure, subject->results, subject->model,
                    "What each rotary pair holds, by layer");
    qk__place place = {left, qk__heading_height(figure) + 30 * em, width, height};
    size_t rows = (PANELS + columns - 1) / columns;
    double down = height + 86 * em;
    figure->height = (int)(place.top + (double)(rows - 1) * down + height + 56 * em);
    qk__begin_panels(figure);
    qk__label_panel(figure, &place, "Layer");
    for (size_t i = 0; i < PANELS; i++) {
        qk__place at = place;
        size_t row = i / columns, column = i % columns;
        at.left += (double)column * (width + gap);
        at.top += (double)row * down;
        draw_pair_map(figure, subject->model, axis, values, NUMBERS[i], MAPS[i], &at,
                      TITLES[i]);
    }
    qk__end_panels(figure);
}

static void build_pair_maps(qk__figure *figure, const qk__subject *subject)
{
    pair_axis axis;
    size_t pairs = count_pairs(subject->model);
    double *values = qk__calloc((size_t)subject->model->last_layer + 1, pairs * sizeof *values);
    if (fill_axis(subject->model, pairs, &axis) && values)
        draw_pair_maps(figure, subject, &axis, values);
    else
        qk__figure_nomem(figure);
    free_axis(&axis);
    free(values);
}

/* ---- categories ------------------------------------------------------------------------- */

static bool has_change(const qk__result_head *head)
{
    return head->category_before >= 0 && head->category_after >= 0;
}

static bool has_changes(const qk__subject *subject)
{
    return qk__count_heads_with(subject->model, has_change) > 0;
}

static void build_changes(qk__figure *figure, const qk__subject *subject)
{
    enum { N = QK_NUM_CATEGORIES };
    double counts[N * N] = {0};
    const char *names[N];
    for (size_t h = 0; h < subject->model->num_heads; h++) {
        const qk__result_head *head = &subject->model->heads[h];
        if (!has_change(head))
            continue;
        counts[head->category_before * N + head->category_after]++;
    }
    for (int i = 0; i < N; i++)
        names[i] = qk_category_name((qk_category)i);
    double most = largest(counts, (size_t)N * N);
    const bool turned = qk__fit_columns(figure, 2, 400) == 1; /* names of columns */
    const double em = qk__em(figure), left = 168 * em, below = (turned ? 160 : 64) * em;
    const double right = (turned ? 74 : 120) * em;
    figure->height += turned ? (int)(60 * em) : 0;
    qk__set_heading(figure, subject->results, subject->model,
                    "Heads by category, before and after RoPE");
    qk__place place = {left, qk__heading_height(figure), figure->width - left - right,
                       figure->height - qk__heading_height(figure) - below};
    qk__begin_panels(figure);
    qk__put_panel(figure, &place);
    qk__put_text(figure, "'After RoPE'", place.left + place.width / 2, figure->height - 20 * em,
                 false);
    qk__figure_print(figure,
                     "set label 'Before RoPE' at screen %.5f,%.5f center rotate tc rgb '%s'\n",
                     22 * em / figure->width,
                     1 - (place.top + place.height / 2) / figure->height, figure->theme->ink);
    qk__figure_heatmap(figure, &(qk__heatmap){.rows = N,
                                              .columns = N,
                                              .values = counts,
                                              .row_labels = names,
                                              .column_labels = names,
                                              .scale_label = "'heads'",
                                              .map = &qk__ylorrd,
                                              .low = 0,
                                              .high = most,
                                              .cell_format = "%.0f"});
    qk__end_panels(figure);
}

/* ---- the table -------------------------------------------------------------------------- */

static const qk__figure_kind KINDS[] = {
    {"stages-01-rotary-pairs", "What each rotary pair holds",
     "Rotary pairs from the fastest to the slowest, by layer, means over heads: their share of "
     "the squared length of queries and of keys before RoPE, and of the variance of the "
     "predicted score over distance. Pairs right of the dashed line turn less than once in the "
     "context. Wavelengths are those of the first layer; shares below 0 are shown as 0.",
     true, 1100, 420, has_pairs, build_pair_maps},
    {"stages-02-score-by-distance", "Mean score by distance",
     "The mean of q·k over all pairs of a query and an earlier key of one text (points, with "
     "the standard error over texts), and what the mean vectors before RoPE and the "
     "frequencies "
     "predict (line), shifted to the same mean. Five heads, one from each fifth of the depth, "
     "the one whose score varies most; and the head that is predicted worst.",
     true, 1000, 560, qk__has_score_curves, qk__build_score_curves},
    {"stages-03-categories", "Categories before and after RoPE",
     "How many heads of each category before RoPE (rows) have which one after it (columns).",
     true, 1100, 360, has_changes, build_changes},
};

const qk__figure_family qk__stage_figures = {"Before and after RoPE", KINDS,
                                             sizeof KINDS / sizeof *KINDS};
