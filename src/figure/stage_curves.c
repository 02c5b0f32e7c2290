/* SPDX-License-Identifier: Apache-2.0 */
/* Measured and predicted mean scores by distance, of a few heads. */
#include <math.h>
#include <stdio.h>

#include "figure/catalog.h"
#include "figure/sheet.h"

enum { DEPTHS = 5, PANELS = DEPTHS + 1, COLUMNS = 3 };

static bool has_curve(const qk__result_head *head)
{
    return head->num_curve > 0;
}

bool qk__has_score_curves(const qk__subject *subject)
{
    return qk__count_heads_with(subject->model, has_curve) > 0;
}

/* The head that varies most in each fifth of the depth, then the one predicted worst; none
 * twice. Returns how many. */
static size_t choose_curve_heads(const qk__result_model *model,
                                 const qk__result_head *chosen[PANELS])
{
    const qk__result_head *best[PANELS] = {NULL};
    size_t count = 0;
    qk__each_head (model, head) {
        if (!has_curve(head) || !isfinite(head->v.measured_sd))
            continue;
        size_t depth = (size_t)fmin(DEPTHS - 1, floor(DEPTHS * head->depth));
        if (!best[depth] || head->v.measured_sd > best[depth]->v.measured_sd)
            best[depth] = head;
    }
    qk__each_head (model, head) {
        double worst = best[DEPTHS] ? best[DEPTHS]->v.r_squared_predicted : INFINITY;
        bool shown = false;
        for (size_t d = 0; d < DEPTHS; d++)
            shown = shown || best[d] == head;
        if (has_curve(head) && !shown && head->v.r_squared_predicted < worst)
            best[DEPTHS] = head;
    }
    for (size_t i = 0; i < PANELS; i++)
        if (best[i])
            chosen[count++] = best[i];
    return count;
}

/* Mean of the predicted less that of the measured, over the bins shown. */
static double shift_of(const qk__result_head *head)
{
    double sum = 0;
    for (size_t b = 0; b < head->num_curve; b++)
        sum += head->curve_predicted[b] - head->curve_measured[b];
    return sum / (double)head->num_curve;
}

/* Distance + 1, since 0 has no place on a logarithmic axis. */
static size_t add_curve(qk__figure *figure, const qk__result_head *head, qk__range *shown)
{
    double shift = shift_of(head);
    *shown = QK__NO_RANGE;
    for (size_t b = 0; b < head->num_curve; b++) {
        double measured = head->curve_measured[b], predicted = head->curve_predicted[b] - shift;
        qk__figure_row(figure, head->curve_distance[b] + 1, measured,
                       isfinite(head->curve_error[b]) ? head->curve_error[b] : 0, predicted);
        qk__range_add(shown, measured);
        qk__range_add(shown, predicted);
    }
    return qk__figure_end_block(figure);
}

static void draw_score_curve(qk__figure *figure, const qk__result_head *head,
                             const qk__place *place, bool below)
{
    const double em = qk__em(figure), middle = place->left + place->width / 2;
    double last = head->curve_distance[head->num_curve - 1] + 1;
    qk__range shown;
    size_t block = add_curve(figure, head, &shown);
    double r_squared = head->v.r_squared_predicted;
    char title[120], text[QK__NUMBER_TEXT];
    snprintf(title, sizeof title, "'layer %d, head %d: {/:Italic R}² = %s'", head->layer,
             head->q_head, qk__number_text(text, "%.2f", r_squared));
    qk__put_panel(figure, place);
    qk__put_text(figure, title, middle, place->top - 12 * em, false);
    if (below)
        qk__put_text(figure, "'Distance + 1 (tokens)'", middle,
                     place->top + place->height + 38 * em, false);
    double margin = 0.06 * (shown.high - shown.low);
    qk__figure_print(figure, "set logscale x\n");
    qk__set_range(figure, 'y', shown.low - margin, shown.high + margin, 4);
    qk__figure_print(figure,
                     "set xrange [0.8:%.6g]\n"
                     "set xtics ('1' 1, '10' 10, '100' 100, '1k' 1000, '10k' 10000, '100k' "
                     "100000) font small\n"
                     "plot data index %zu using 1:($2-$3):(0):(2*$3) with vectors nohead lw 1 "
                     "lc rgb '%s', "
                     "data index %zu using 1:4 with lines lw 2 lc rgb '%s', "
                     "data index %zu using 1:2 with points pt 7 ps 0.5 lc rgb '%s'\n"
                     "unset label\nunset arrow\n",
                     1.3 * fmax(last, 2), block, figure->theme->ink, block,
                     figure->theme->highlight, block, figure->theme->ink);
}

void qk__build_score_curves(qk__figure *figure, const qk__subject *subject)
{
    const qk__result_head *chosen[PANELS];
    size_t count = choose_curve_heads(subject->model, chosen);
    if (count == 0) /* curves without numbers of the head: the first ones */
        qk__each_head (subject->model, head)
            if (count < PANELS && has_curve(head))
                chosen[count++] = head;
    const qk__entry entries[] = {{"measured", figure->theme->ink, 7},
                                 {"predicted", figure->theme->highlight, QK__LINE}};
    qk__sheet sheet = {.count = count,
                       .most = COLUMNS,
                       .least = 250,
                       .left = 70,
                       .gap = 62,
                       .right = 20,
                       .above = 28,
                       .height = subject->kind->height,
                       .below = 48,
                       .entries = entries,
                       .num_entries = 2};
    qk__set_heading(figure, subject->results, subject->model, subject->kind->heading);
    qk__begin_sheet(figure, &sheet);
    for (size_t i = 0; i < count; i++) {
        qk__place place = qk__panel_place(&sheet, i);
        if (qk__is_leftmost(&sheet, i))
            qk__label_panel(figure, &place, "Mean {/:Italic q}·{/:Italic k}");
        draw_score_curve(figure, chosen[i], &place, qk__is_lowest(&sheet, i));
    }
    qk__end_sheet(figure);
}
