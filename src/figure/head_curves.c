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
                                 .y_label = "Mean <i>q</i>·<i>k</i>",
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

/* A curve as it is drawn: distance + 1, since 0 has no place on a logarithmic axis. */
typedef struct drawn_curve {
    size_t count;
    double *x, *measured, *low, *high, *predicted[PREDICTIONS]; /* NULL: there is none */
    qk__range shown;
} drawn_curve;

static bool take_memory(qk__figure *figure, const qk__head_curve *of, drawn_curve *c)
{
    const size_t n = of->count;
    double *all = qk__figure_alloc(figure, (4 + PREDICTIONS) * (n + 1), sizeof *all);
    *c = (drawn_curve){.count = n, .shown = QK__NO_RANGE};
    if (!all)
        return false;
    c->x = all;
    c->measured = all + n;
    c->low = of->error ? all + 2 * n : NULL;
    c->high = all + 3 * n;
    for (size_t p = 0; p < PREDICTIONS && of->predicted[p]; p++)
        c->predicted[p] = all + (4 + p) * n;
    return true;
}

/* Of predicted ratios the axis holds those at most REACH times beyond the measured ones. */
static void find_range(const curve_set *set, const drawn_curve *c, qk__range *shown)
{
    for (size_t b = 0; b < c->count; b++)
        if (!set->ratio || c->measured[b] > 0)
            qk__range_add(shown, c->measured[b]);
    if (set->ratio && shown->low > shown->high) /* none has a place on the axis */
        *shown = (qk__range){1, 1};
    const double low = set->ratio ? shown->low / REACH : -INFINITY;
    const double high = set->ratio ? shown->high * REACH : INFINITY;
    for (size_t b = 0; b < c->count; b++)
        for (size_t p = 0; p < PREDICTIONS && c->predicted[p]; p++) {
            double value = c->predicted[p][b];
            qk__range_add(shown, isfinite(value) ? fmin(fmax(value, low), high) : NAN);
        }
}

static bool find_curve(qk__figure *figure, const curve_set *set, const qk__head_curve *of,
                       drawn_curve *c)
{
    if (!take_memory(figure, of, c))
        return false;
    for (size_t b = 0; b < of->count; b++) {
        const double error = of->error && isfinite(of->error[b]) ? of->error[b] : 0;
        c->x[b] = of->distance[b] + 1;
        c->measured[b] = of->measured[b];
        c->high[b] = of->measured[b] + error;
        if (c->low)
            c->low[b] = of->measured[b] - error;
    }
    for (size_t p = 0; p < PREDICTIONS && of->predicted[p]; p++) {
        const double shift = shift_of(set, of, p);
        for (size_t b = 0; b < of->count; b++)
            c->predicted[p][b] = of->predicted[p][b] - shift;
    }
    find_range(set, c, &c->shown);
    return true;
}

static void tell_curve(qk__figure *figure, const curve_set *set, const drawn_curve *c,
                       const char *panel)
{
    for (size_t b = 0; b < c->count; b++)
        qk__tell_range(figure, panel, "measured", c->x[b], c->measured[b],
                       c->low ? c->low[b] : NAN, c->low ? c->high[b] : NAN);
    for (size_t p = 0; p < PREDICTIONS && c->predicted[p]; p++)
        for (size_t b = 0; b < c->count; b++)
            qk__tell_point(figure, panel, set->names[p], c->x[b], c->predicted[p][b]);
}

static void draw_curve_axes(qk__figure *figure, const curve_set *set, const drawn_curve *c,
                            qk__plot *plot)
{
    const double margin = 0.06 * (c->shown.high - c->shown.low);
    plot->x = (qk__axis){0.8, 1.3 * fmax(c->x[c->count - 1], 2), true};
    plot->y = set->ratio ? (qk__axis){c->shown.low / 1.4, c->shown.high * 1.4, true}
                         : qk__axis_between(c->shown.low - margin, c->shown.high + margin);
    qk__draw_number_axes(figure, plot, 40, 36);
    if (set->ratio)
        qk__line_across(plot, 1, qk__guide(figure));
}

static const char *prediction_color(const qk__figure *figure, size_t p)
{
    return p == 0 ? figure->theme->highlight : figure->theme->accent;
}

static void put_curve(qk__figure *figure, const drawn_curve *c, const qk__plot *plot)
{
    qk__begin_marks(plot);
    if (c->low)
        qk__draw_whiskers(plot, c->x, c->low, c->high, c->count,
                          (qk__pen){.stroke = figure->theme->ink, .width = 1});
    for (size_t p = 0; p < PREDICTIONS && c->predicted[p]; p++)
        qk__draw_curve(plot, c->x, c->predicted[p], c->count,
                       (qk__pen){.stroke = prediction_color(figure, p), .width = 2});
    qk__end_marks(plot);
    qk__draw_points(plot, c->x, c->measured, c->count, QK__DISC, 2.3 * qk__em(figure),
                    figure->theme->ink, 0);
}

static void draw_head(qk__figure *figure, const curve_set *set, const qk__result_head *head,
                      const qk__place *place, bool below)
{
    const double em = qk__em(figure), middle = place->left + place->width / 2;
    double fit = number_of(head, set->fit);
    drawn_curve c;
    char text[QK__NUMBER_TEXT];
    if (!find_curve(figure, set, curve_of(set, head), &c))
        return;
    const char *name =
        qk__figure_format(figure, "layer %d, head %d", head->layer, head->q_head);
    qk__put_text(figure,
                 qk__figure_format(figure, "%s%s%s", name,
                                   isfinite(fit) ? ": <i>R</i>² = " : "",
                                   isfinite(fit) ? qk__number_text(text, "%.2f", fit) : ""),
                 middle, place->top - 12 * em, QK__CENTRED);
    if (below)
        qk__put_text(figure, "Distance + 1 (tokens)", middle,
                     place->top + place->height + 38 * em, QK__CENTRED);
    qk__plot plot = qk__figure_plot(figure, place);
    tell_curve(figure, set, &c, name);
    draw_curve_axes(figure, set, &c, &plot);
    put_curve(figure, &c, &plot);
}

static void build_curves(qk__figure *figure, const qk__subject *subject, const curve_set *set)
{
    const qk__result_head *chosen[PANELS];
    size_t count = choose_heads(set, subject->model, chosen);
    qk__entry entries[1 + PREDICTIONS] = {{"measured", figure->theme->ink, QK__DISC, 0}};
    size_t named = 1;
    for (size_t p = 0; p < PREDICTIONS && set->names[p]; p++) {
        bool known = false;
        for (size_t i = 0; i < count; i++)
            known |= isfinite(curve_of(set, chosen[i])->predicted[p][0]);
        entries[named] = (qk__entry){set->names[p], prediction_color(figure, p), QK__LINE, 0};
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
        draw_head(figure, set, chosen[i], &place, qk__is_lowest(&sheet, i));
    }
}

void qk__build_score_curves(qk__figure *figure, const qk__subject *subject)
{
    build_curves(figure, subject, &SCORES);
}

void qk__build_attention_curves(qk__figure *figure, const qk__subject *subject)
{
    build_curves(figure, subject, &ATTENTION);
}
