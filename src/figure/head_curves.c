/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers by distance of a few heads, and what predicts them: mean scores, measured attention. */
#include <math.h>
#include <stdio.h>

#include "figure/catalog.h"
#include "figure/sheet.h"

enum { DEPTHS = 5, PANELS = DEPTHS + 1, COLUMNS = 3, PREDICTIONS = 2, REACH = 10 };

/* What a figure shows. Numbers of a head are said by where in qk__head_numbers they are. */
typedef struct curve_set {
    size_t curve;  /* where in a head */
    size_t choice; /* of the heads of a depth the one that has most of it is shown, or */
    bool middle;   /* the one in the middle */
    size_t fit;    /* R² of a prediction */
    const char *y_label, *names[PREDICTIONS];
    bool ratio; /* on a logarithmic axis; else predictions get the mean of what was measured */
} curve_set;

static const curve_set SCORES = {.curve = offsetof(qk__result_head, scores),
                                 .choice = offsetof(qk__head_numbers, measured_sd),
                                 .fit = offsetof(qk__head_numbers, r_squared_predicted),
                                 .y_label = "Mean {/:Italic q}·{/:Italic k}",
                                 .names = {"predicted"}};
static const curve_set ATTENTION = {
    .curve = offsetof(qk__result_head, attention),
    .choice = offsetof(qk__head_numbers, distance_share),
    .middle = true,
    .fit = offsetof(qk__head_numbers, means_r2),
    .y_label = "Attention / uniform",
    .names = {"predicted by mean vectors", "predicted by the drift of keys"},
    .ratio = true};

static const qk__head_curve *curve_of(const curve_set *set, const qk__result_head *head)
{
    return (const void *)((const char *)head + set->curve);
}

static double number_of(const qk__result_head *head, size_t offset)
{
    return *(const double *)(const void *)((const char *)&head->v + offset);
}

static size_t depth_of(const qk__result_head *head)
{
    return (size_t)fmin(DEPTHS - 1, floor(DEPTHS * head->depth));
}

/* Of a depth the largest is shown. In the middle as many have a larger number as have a smaller. */
static double rank_of(const curve_set *set, const qk__result_model *model,
                      const qk__result_head *head)
{
    double own = number_of(head, set->choice), balance = 0;
    if (!set->middle || !isfinite(own))
        return isfinite(own) ? own : -INFINITY;
    qk__each_head (model, other) {
        double value = number_of(other, set->choice);
        if (curve_of(set, other)->count > 0 && depth_of(other) == depth_of(head))
            balance += (value > own) - (value < own);
    }
    return -fabs(balance);
}

/* One of each fifth of the depth, then the one predicted worst; none twice. Returns how many. */
static size_t choose_heads(const curve_set *set, const qk__result_model *model,
                           const qk__result_head *chosen[PANELS])
{
    const qk__result_head *best[PANELS] = {NULL};
    double most[DEPTHS], worst = INFINITY;
    size_t count = 0;
    qk__each_head (model, head) {
        double rank = rank_of(set, model, head);
        size_t depth = depth_of(head);
        if (curve_of(set, head)->count > 0 && (!best[depth] || rank > most[depth])) {
            best[depth] = head;
            most[depth] = rank;
        }
    }
    qk__each_head (model, head)
        if (curve_of(set, head)->count > 0 && head != best[depth_of(head)] &&
            number_of(head, set->fit) < worst) {
            best[DEPTHS] = head;
            worst = number_of(head, set->fit);
        }
    for (size_t i = 0; i < PANELS; i++)
        if (best[i])
            chosen[count++] = best[i];
    return count;
}

bool qk__has_score_curves(const qk__subject *subject)
{
    const qk__result_head *chosen[PANELS];
    return choose_heads(&SCORES, subject->model, chosen) > 0;
}

bool qk__has_attention_curves(const qk__subject *subject)
{
    const qk__result_head *chosen[PANELS];
    return choose_heads(&ATTENTION, subject->model, chosen) > 0;
}

/* Mean of the predicted less that of the measured, over the bins shown. */
static double shift_of(const curve_set *set, const qk__head_curve *of, size_t p)
{
    double sum = 0;
    for (size_t b = 0; !set->ratio && b < of->count; b++)
        sum += of->predicted[p][b] - of->measured[b];
    return sum / (double)of->count;
}

/* Distance + 1, since 0 has no place on a logarithmic axis. Of predicted ratios are shown those
 * at most REACH times beyond the measured ones. */
static size_t add_curve(qk__figure *figure, const curve_set *set, const qk__head_curve *of,
                        qk__range *shown)
{
    double shift[PREDICTIONS];
    for (size_t p = 0; p < PREDICTIONS && of->predicted[p]; p++)
        shift[p] = shift_of(set, of, p);
    *shown = QK__NO_RANGE;
    for (size_t b = 0; b < of->count; b++)
        if (!set->ratio || of->measured[b] > 0)
            qk__range_add(shown, of->measured[b]);
    if (set->ratio && shown->low > shown->high) /* none has a place on the axis */
        *shown = (qk__range){1, 1};
    const double low = set->ratio ? shown->low / REACH : -INFINITY;
    const double high = set->ratio ? shown->high * REACH : INFINITY;
    for (size_t b = 0; b < of->count; b++) {
        qk__figure_values(figure, of->distance[b] + 1, of->measured[b]);
        if (of->error)
            qk__figure_value(figure, isfinite(of->error[b]) ? of->error[b] : 0);
        for (size_t p = 0; p < PREDICTIONS && of->predicted[p]; p++) {
            double value = of->predicted[p][b] - shift[p];
            qk__figure_value(figure, value);
            qk__range_add(shown, isfinite(value) ? fmin(fmax(value, low), high) : NAN);
        }
        qk__figure_end_row(figure);
    }
    return qk__figure_end_block(figure);
}

static void set_curve_axes(qk__figure *figure, const curve_set *set, const qk__range *shown,
                           double last)
{
    double margin = 0.06 * (shown->high - shown->low);
    if (set->ratio) {
        qk__figure_print(figure,
                         "set logscale y\nset yrange [%.6g:%.6g]\nset format y '%%g'\n"
                         "set ytics font small\n",
                         shown->low / 1.4, shown->high * 1.4);
        qk__figure_horizontal(figure, 1);
    } else {
        qk__set_range(figure, 'y', shown->low - margin, shown->high + margin, 4);
    }
    qk__figure_print(figure,
                     "set logscale x\nset xrange [0.8:%.6g]\n"
                     "set xtics ('1' 1, '10' 10, '100' 100, '1k' 1000, '10k' 10000, '100k' "
                     "100000) font small\n",
                     1.3 * fmax(last, 2));
}

static const char *prediction_color(const qk__figure *figure, size_t p)
{
    return p == 0 ? figure->theme->highlight : figure->theme->accent;
}

static void plot_curve(qk__figure *figure, const qk__head_curve *of, size_t block)
{
    qk__figure_print(figure, "plot ");
    if (of->error)
        qk__figure_print(figure,
                         "data index %zu using 1:($2-$3):(0):(2*$3) with vectors nohead lw 1 "
                         "lc rgb '%s', ",
                         block, figure->theme->ink);
    for (size_t p = 0; p < PREDICTIONS && of->predicted[p]; p++)
        qk__figure_print(figure, "data index %zu using 1:%zu with lines lw 2 lc rgb '%s', ",
                         block, p + (of->error ? 4 : 3), prediction_color(figure, p));
    qk__figure_print(figure,
                     "data index %zu using 1:2 with points pt 7 ps 0.5 lc rgb '%s'\n"
                     "unset label\nunset arrow\n",
                     block, figure->theme->ink);
}

static void draw_curve(qk__figure *figure, const curve_set *set, const qk__result_head *head,
                       const qk__place *place, bool below)
{
    const double em = qk__em(figure), middle = place->left + place->width / 2;
    const qk__head_curve *of = curve_of(set, head);
    double fit = number_of(head, set->fit);
    qk__range shown;
    size_t block = add_curve(figure, set, of, &shown);
    char title[120], text[QK__NUMBER_TEXT];
    snprintf(title, sizeof title, "'layer %d, head %d%s%s'", head->layer, head->q_head,
             isfinite(fit) ? ": {/:Italic R}² = " : "",
             isfinite(fit) ? qk__number_text(text, "%.2f", fit) : "");
    qk__put_panel(figure, place);
    qk__put_text(figure, title, middle, place->top - 12 * em, false);
    if (below)
        qk__put_text(figure, "'Distance + 1 (tokens)'", middle,
                     place->top + place->height + 38 * em, false);
    set_curve_axes(figure, set, &shown, of->distance[of->count - 1] + 1);
    plot_curve(figure, of, block);
}

static void build_curves(qk__figure *figure, const qk__subject *subject, const curve_set *set)
{
    const qk__result_head *chosen[PANELS];
    size_t count = choose_heads(set, subject->model, chosen);
    qk__entry entries[1 + PREDICTIONS] = {{"measured", figure->theme->ink, 7}};
    size_t named = 1;
    for (size_t p = 0; p < PREDICTIONS && set->names[p]; p++) {
        bool known = false;
        for (size_t i = 0; i < count; i++)
            known |= isfinite(curve_of(set, chosen[i])->predicted[p][0]);
        entries[named] = (qk__entry){set->names[p], prediction_color(figure, p), QK__LINE};
        named += known;
    }
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
                       .num_entries = named};
    qk__set_heading(figure, subject->results, subject->model, subject->kind->heading);
    qk__begin_sheet(figure, &sheet);
    for (size_t i = 0; i < count; i++) {
        qk__place place = qk__panel_place(&sheet, i);
        if (qk__is_leftmost(&sheet, i))
            qk__label_panel(figure, &place, set->y_label);
        draw_curve(figure, set, chosen[i], &place, qk__is_lowest(&sheet, i));
    }
    qk__end_sheet(figure);
}

void qk__build_score_curves(qk__figure *figure, const qk__subject *subject)
{
    build_curves(figure, subject, &SCORES);
}

void qk__build_attention_curves(qk__figure *figure, const qk__subject *subject)
{
    build_curves(figure, subject, &ATTENTION);
}
