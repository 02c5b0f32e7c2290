/* SPDX-License-Identifier: Apache-2.0 */
/* Places several plots in one figure, with the text and axes around them. */
#include "figure/panels.h"

#include <math.h>
#include <stdio.h>

/* Characters of a model's label; below which a part of a name says nothing. */
enum { MAX_LABEL = 32, LEAST_NAME = 4 };

size_t qk__fit_columns(const qk__figure *figure, size_t columns, double least)
{
    while (figure->millimetres > 0 && columns > 1 &&
           figure->width / (double)columns < least * qk__em(figure))
        columns--;
    return columns;
}

void qk__suit_width(qk__figure *figure, double width)
{
    if (figure->millimetres <= 0)
        figure->width = (int)width;
}

size_t qk__longest_label(const qk__results *results)
{
    size_t longest = 0;
    qk__each_model (results, model) {
        size_t count = qk__count_columns(model->label);
        longest = count > longest ? count : longest;
    }
    return longest < MAX_LABEL ? longest : MAX_LABEL;
}

/* ---- places ----------------------------------------------------------------------------- */

void qk__put_panel(qk__figure *figure, const qk__place *place)
{
    qk__figure_print(figure,
                     "set lmargin at screen %.5f\nset rmargin at screen %.5f\n"
                     "set tmargin at screen %.5f\nset bmargin at screen %.5f\n",
                     place->left / figure->width, (place->left + place->width) / figure->width,
                     1 - place->top / figure->height,
                     1 - (place->top + place->height) / figure->height);
    figure->panel_height = place->height;
    figure->panel_width = place->width;
}

void qk__label_panel(qk__figure *figure, const qk__place *place, const char *label)
{
    qk__put_markup(figure, label, place->left - 50 * qk__em(figure),
                   place->top + place->height / 2, QK__TURNED);
}

/* ---- axes ------------------------------------------------------------------------------- */

qk__model_axis qk__plan_model_axis(const qk__figure *figure, const qk__results *results,
                                   double width)
{
    double text = qk__text_width(figure, qk__longest_label(results));
    double step = width / ((double)results->num_models + 0.2), em = qk__em(figure);
    qk__model_axis axis = {results, width, text + 8 * em > step, 1, 42 * em, 0};
    if (axis.turned) {
        axis.step = (size_t)fmax(1, ceil(13 * em / step));
        axis.height = 0.64 * text + 36 * em; /* sine and cosine of 40 degrees */
        axis.reach = 0.77 * text - 0.6 * step;
    }
    return axis;
}

void qk__set_model_axis(qk__figure *figure, const qk__model_axis *axis)
{
    const qk__results *results = axis->results;
    qk__figure_print(figure, "set xrange [-0.6:%.1f]\nset xtics scale 0 %s (",
                     (double)results->num_models - 0.4,
                     axis->turned ? "rotate by 40 right" : "norotate");
    for (size_t m = 0; m < results->num_models; m += axis->step)
        qk__figure_print(figure, "%s%s %zu", m ? ", " : "",
                         qk__figure_tic(figure, results->models[m].label), m);
    qk__figure_print(figure, ") font small tc rgb '%s'\n", figure->theme->ink);
}

const char *qk__model_word(const qk__results *results)
{
    return results->checkpoints ? "Training checkpoint" : "Model";
}

void qk__label_model_axis(qk__figure *figure, const qk__model_axis *axis,
                          const qk__place *place)
{
    qk__put_markup(figure, qk__model_word(axis->results), place->left + place->width / 2,
                   place->top + place->height + axis->height - 8 * qk__em(figure), QK__CENTRED);
}

size_t qk__tic_step(size_t count, double length, double least)
{
    static const size_t STEPS[] = {1, 2, 4, 5, 8, 10, 16, 20, 32, 40, 64, 100, 128};
    for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++)
        if (length / (double)count * (double)STEPS[i] >= least)
            return STEPS[i];
    return count;
}

/* ---- phases of training ----------------------------------------------------------------- */

/* Pixels of a line of a phase's name, and between the last and the plot. */
enum { PHASE_LINE = 12, PHASE_GAP = 5, PHASE_LINES = 4 };

void qk__part_phases(qk__figure *figure, const qk__results *results)
{
    for (size_t m = 1; m < results->num_models; m++)
        if (results->models[m].phase_index != results->models[m - 1].phase_index)
            qk__figure_vertical(figure, (double)m - 0.5);
}

static double checkpoint_step(const qk__results *results, double width)
{
    return fmax(0, width) / ((double)results->num_models + 0.2);
}

/* The name of the phase of checkpoint `first` in lines as wide as the phase, which ends before
 * *end. */
static void break_phase(const qk__figure *figure, const qk__results *results, double width,
                        size_t first, size_t *end, qk__lines *lines)
{
    const qk__result_model *models = results->models;
    for (*end = first + 1; *end < results->num_models; ++*end)
        if (models[*end].phase_index != models[first].phase_index)
            break;
    double room = floor((double)(*end - first) * checkpoint_step(results, width) /
                            qk__text_width(figure, 1) -
                        0.5);
    lines->count = 0;
    if (room >= LEAST_NAME)
        qk__break_lines(models[first].phase, false, (size_t)room, PHASE_LINES, lines);
}

double qk__phases_height(const qk__figure *figure, const qk__results *results, double width)
{
    size_t most = 0;
    for (size_t first = 0, end; results->checkpoints && first < results->num_models;
         first = end) {
        qk__lines lines;
        break_phase(figure, results, width, first, &end, &lines);
        most = lines.count > most ? lines.count : most;
    }
    return most > 0 ? (PHASE_GAP + PHASE_LINE * (double)most) * qk__em(figure) : 0;
}

void qk__figure_panel_phases(qk__figure *figure, const qk__results *results,
                             const qk__place *place)
{
    if (!results->checkpoints || results->num_phases == 0)
        return;
    const double em = qk__em(figure);
    qk__part_phases(figure, results);
    for (size_t first = 0, end; first < results->num_models; first = end) {
        qk__lines lines;
        break_phase(figure, results, place->width, first, &end, &lines);
        double x = place->left + ((double)(first + end - 1) / 2 + 0.6) *
                                     checkpoint_step(results, place->width);
        double y = place->top - (PHASE_GAP + PHASE_LINE * ((double)lines.count - 0.5)) * em;
        for (size_t i = 0; i < lines.count; i++, y += PHASE_LINE * em)
            qk__put_text(figure, qk__figure_quote(figure, lines.text[i]), x, y, true);
    }
}

/* ---- numbers ---------------------------------------------------------------------------- */

void qk__set_range(qk__figure *figure, char axis, double low, double high, int count)
{
    if (!(high - low > 1e-9 * fmax(fabs(low), fabs(high)))) {
        double margin = low != 0 ? 0.2 * fabs(low) : 1;
        low -= margin;
        high += margin;
    }
    qk__figure_print(figure, "set %crange [%.9g:%.9g]\nset %ctics %.9g font small\n", axis, low,
                     high, axis, qk__round_step((high - low) / count));
}

qk__scale qk__figure_scale(qk__figure *figure, const qk__results *results, const char *field,
                           bool magnitude)
{
    qk__scale scale = qk__scale_between(QK__HUE_NONE, 0, 1);
    if (figure->status == QK_OK)
        figure->status =
            qk__scale_of(results, qk__find_field(field), magnitude, &scale, &figure->err);
    return scale;
}

bool qk__has_field(const qk__results *results, const char *name)
{
    const qk__field *field = qk__find_field(name);
    qk__each_model (results, model)
        qk__each_head (model, head)
            if (field && isfinite(qk__field_value(field, &head->v)))
                return true;
    return false;
}
