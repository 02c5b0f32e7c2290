/* SPDX-License-Identifier: Apache-2.0 */
/* Places several plots in one figure, with the text and axes around them. */
#include "figure/panels.h"

#include <math.h>
#include <stdio.h>

/* A shorter part of a name says nothing. */
enum { LEAST_NAME = 4 };
#define TURN 40 /* degrees, of turned labels */

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

/* ---- places ----------------------------------------------------------------------------- */

qk__plot qk__figure_plot(qk__figure *figure, const qk__place *place)
{
    return (qk__plot){.canvas = &figure->canvas,
                      .left = place->left,
                      .top = place->top,
                      .width = place->width,
                      .height = place->height,
                      .x = {0, 1, false},
                      .y = {0, 1, false},
                      .type = qk__small_type(figure)};
}

void qk__label_panel(qk__figure *figure, const qk__place *place, const char *label)
{
    qk__put_markup(figure, label, place->left - 50 * qk__em(figure),
                   place->top + place->height / 2, QK__TURNED);
}

/* ---- axes ------------------------------------------------------------------------------- */

qk__model_axis qk__plan_model_axis(qk__figure *figure, const qk__results *results, double width)
{
    double text = qk__longest_label(figure, results);
    double step = width / ((double)results->num_models + 0.2), em = qk__em(figure);
    qk__model_axis axis = {results, width, text + 8 * em > step, 1, 42 * em, 0};
    if (axis.turned) {
        axis.step = (size_t)fmax(1, ceil(13 * em / step));
        axis.height = 0.64 * text + 36 * em; /* sine and cosine of 40 degrees */
        axis.reach = 0.77 * text - 0.6 * step;
    }
    return axis;
}

qk__axis qk__model_range(const qk__results *results)
{
    return (qk__axis){-0.6, (double)results->num_models - 0.4, false};
}

void qk__put_labels(qk__figure *figure, const qk__plot *plot, qk__edge edge,
                    const char *const *labels, size_t count, size_t step, qk__tic_style style)
{
    qk__tic *tics = qk__figure_alloc(figure, count + 1, sizeof *tics);
    size_t put = 0;
    for (size_t i = 0; tics && i < count; i += step)
        tics[put++] = (qk__tic){(double)i, labels[i], qk__whole_of(figure, labels[i])};
    if (tics)
        qk__label_tics(plot, edge, tics, put, style);
}

void qk__draw_model_axis(qk__figure *figure, const qk__model_axis *axis, const qk__plot *plot)
{
    const qk__results *results = axis->results;
    if (results->num_models > 0)
        qk__model_label(figure, results, &results->models[0]); /* of all models */
    if (figure->labels)
        qk__put_labels(figure, plot, QK__BELOW, figure->labels, results->num_models, axis->step,
                       (qk__tic_style){.turn = axis->turned ? TURN : 0});
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

/* Pixels of a line of a phase's name, and between the last line and the plot. */
enum { PHASE_LINE = 12, PHASE_GAP = 5, PHASE_LINES = 4 };

void qk__part_phases(const qk__plot *plot, const qk__results *results)
{
    const qk__pen pen = {.stroke = plot->canvas->theme->muted, .width = 0.8, .dashed = true};
    for (size_t m = 1; results->checkpoints && m < results->num_models; m++)
        if (results->models[m].phase_index != results->models[m - 1].phase_index)
            qk__line_up(plot, (double)m - 0.5, pen);
}

static double checkpoint_step(const qk__results *results, double width)
{
    return fmax(0, width) / ((double)results->num_models + 0.2);
}

/* The name of the phase of checkpoint `first` in lines as wide as the phase, which ends before *end. */
static void break_phase(const qk__figure *figure, const qk__results *results, double width,
                        size_t first, size_t *end, qk__lines *lines)
{
    const qk__result_model *models = results->models;
    for (*end = first + 1; *end < results->num_models; ++*end)
        if (models[*end].phase_index != models[first].phase_index)
            break;
    double room = (double)(*end - first) * checkpoint_step(results, width) -
                  qk__text_width(figure, 1) / 2;
    lines->count = 0;
    if (room >= qk__text_width(figure, LEAST_NAME))
        qk__break_lines(models[first].phase, false, room, qk__small_type(figure), PHASE_LINES,
                        lines);
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

void qk__name_phases(qk__figure *figure, const qk__results *results, const qk__place *place)
{
    if (!results->checkpoints || results->num_phases == 0)
        return;
    const double em = qk__em(figure);
    for (size_t first = 0, end; first < results->num_models; first = end) {
        qk__lines lines;
        break_phase(figure, results, place->width, first, &end, &lines);
        double x = place->left + ((double)(first + end - 1) / 2 + 0.6) *
                                     checkpoint_step(results, place->width);
        double y = place->top - (PHASE_GAP + PHASE_LINE * ((double)lines.count - 0.5)) * em;
        for (size_t i = 0; i < lines.count; i++, y += PHASE_LINE * em)
            qk__put_text(figure, qk__figure_escape(figure, lines.text[i]), x, y, QK__NOTE);
    }
}

/* ---- numbers ---------------------------------------------------------------------------- */

qk__axis qk__axis_between(double low, double high)
{
    if (!(high - low > 1e-9 * fmax(fabs(low), fabs(high)))) {
        double margin = low != 0 ? 0.2 * fabs(low) : 1;
        low -= margin;
        high += margin;
    }
    return (qk__axis){low, high, false};
}

void qk__draw_number_axes(const qk__figure *figure, const qk__plot *plot, double across,
                          double up)
{
    const double em = qk__em(figure);
    const qk__tic_style style = {.length = 4 * em};
    qk__number_tics(plot, QK__BELOW, across * em, 0, style);
    qk__number_tics(plot, QK__LEFT, up * em, 0, style);
    qk__draw_sides(plot, 1u << QK__BELOW | 1u << QK__LEFT);
}

qk__pen qk__guide(const qk__figure *figure)
{
    return (qk__pen){.stroke = figure->theme->muted, .width = 0.8, .dashed = true};
}

qk__pen qk__zero_line(const qk__figure *figure)
{
    return (qk__pen){.stroke = figure->theme->muted, .width = 0.8};
}

const char *qk__metric_title(qk__figure *figure, const char *column, double width,
                             const char *more)
{
    const qk__field *field = qk__find_field(column);
    const double room = width - (*more ? qk__text_width(figure, 6) : 0);
    return qk__figure_format(
        figure, "%.600s%s",
        qk__brief(figure, field && field->info.label ? field->info.label : column, room), more);
}
