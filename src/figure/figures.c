/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the table of all figures of its rows (figures.def), and the numbers of heads that are made of several
 * columns. */
#include <math.h>
#include <string.h>

#include "figure/catalog.h"

/* ---- numbers of several columns, and of no head ----------------------------------------- */

static double category_of(const qk__result_head *head)
{
    return head->category >= 0 && head->category < QK_NUM_CATEGORIES ? head->category : NAN;
}

/* Of heads that have both axes: the rest is then the complement's. */
static double share_off(const qk__result_head *head)
{
    return 1 - head->v.var_frac_a - head->v.var_frac_b;
}

static double share_a(const qk__result_head *head)
{
    return isfinite(share_off(head)) ? head->v.var_frac_a : NAN;
}

static double share_b(const qk__result_head *head)
{
    return isfinite(share_off(head)) ? head->v.var_frac_b : NAN;
}

static double slope_ratio(const qk__result_head *head)
{
    return fabs(head->v.alpha_k) / fabs(head->v.alpha_q); /* infinite or NaN: left out */
}

static double r_q_of(const qk__subject *subject, size_t pc)
{
    return qk__mean_of_pc(subject->results, pc).r_q;
}

static double abs_r_k_of(const qk__subject *subject, size_t pc)
{
    return qk__mean_of_pc(subject->results, pc).abs_r_k;
}

static double ev_of(const qk__subject *subject, size_t pc)
{
    return qk__mean_of_pc(subject->results, pc).ev;
}

static double weight_of(const qk__subject *subject, size_t dimension)
{
    return subject->model->component_weights[dimension];
}

/* ---- the table -------------------------------------------------------------------------- */

/* How a figure is drawn. */
#define OWN(name)     .applies = qk__has_##name, .build = qk__build_##name
#define CHART         OWN(chart)
#define HEAD_MAP      OWN(head_maps)
#define DEPTH_MAP     OWN(depth_maps)
#define HILLS         OWN(hills)
#define POINTS        OWN(points)
#define PORTRAITS     .applies = qk__has_points, .build = qk__build_portraits
#define LAYER_BINS    .applies = qk__has_attention_curves, .build = qk__build_attention_by_depth
#define FAMILY_POINTS .applies = qk__has_points, .build = qk__build_family_points

#define TITLE(text)                    .title = text
#define HEADING(text)                  .heading = text
#define CAPTION(text)                  .caption = text
#define FROM(tables_, rows_, numbers_) .tables = tables_, .rows = rows_, .numbers = numbers_
#define HEIGHT(pixels)                 .height = pixels
#define COLUMNS(most)                  .columns = most
#define OVER(what)                     .over = QK__##what
#define PER_MODEL                      .per_model = true
#define COMPARES                       .compares = true
#define POOLS                          .pools = true
#define TRAINING                       .training = true

/* Panels, the empty one ends them; and what is in one. */
#define PANELS(...)                                                                            \
    .panels = (const qk__panel[])                                                              \
    {                                                                                          \
        __VA_ARGS__,                                                                           \
        {                                                                                      \
            .title = NULL                                                                      \
        }                                                                                      \
    }
#define SERIES(...)    .series = {__VA_ARGS__}
#define ABOVE(text)    .title = text
#define Y_LABEL(text)  .y_label = text
#define CURVES(of)     .mark = QK__CURVES, OF(of)
#define STACK          .mark = QK__STACK
#define OF(what)       .statistic = QK__STAT_##what
#define TO_ONE         .to_one = true
#define LOOSE          .loose = true
#define PERCENT        .percent = true
#define BETWEEN(text)  .between = text
#define LINES(...)     .lines = {__VA_ARGS__}
#define OF_CATEGORIES  .by_category = true
#define NAME(text)     .name = text
#define AS(which)      .role = QK__##which
#define MAGNITUDE      .magnitude = true
#define OF_HEAD(value) .of_head = value
#define AT(value)      .at = value
#define CATEGORY(which)                                                                        \
    {                                                                                          \
        .category = QK_##which, AS(BY_CATEGORY)                                                \
    }

#define FAMILY(id, ...)                 static const qk__figure_kind id[] = {
#define FIGURE(name_, how, width_, ...) {.name = name_, how, .width = width_, __VA_ARGS__},
#define END                                                                                    \
    }                                                                                          \
    ;
#include "figure/figures.def"

#define FAMILY(id, title_) {title_, id, sizeof id / sizeof *id},
#define FIGURE(...)
#define END
const qk__figure_family qk__figure_families[] = {
#include "figure/figures.def"
};
const size_t qk__num_figure_families = sizeof qk__figure_families / sizeof *qk__figure_families;

const qk__figure_kind *qk__find_figure(const char *name)
{
    for (size_t f = 0; f < qk__num_figure_families; f++)
        for (size_t k = 0; k < qk__figure_families[f].count; k++)
            if (strcmp(qk__figure_families[f].kinds[k].name, name) == 0)
                return &qk__figure_families[f].kinds[k];
    return NULL;
}
