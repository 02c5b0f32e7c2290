/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the table of all figures from its rows (figures.def). */
#include <string.h>

#include "figure/catalog.h"

/* ---- the table -------------------------------------------------------------------------- */

/* How a figure is drawn. */
#define OWN(name)           .applies = qk__has_##name, .build = qk__build_##name
#define CHART               .compose = qk__ask_places, OWN(chart)
#define HEAD_MAP            .compose = qk__ask_heads, OWN(head_maps)
#define DEPTH_MAP           .compose = qk__ask_heads, OWN(depth_maps)
#define LAYER_MAP           .compose = qk__ask_heads, OWN(layer_map)
#define HILLS               .compose = qk__ask_full_heads, .build = qk__build_hills
#define POINTS              .compose = qk__ask_full_heads, .build = qk__build_points
#define PORTRAITS           .compose = qk__ask_full_heads, .build = qk__build_portraits
#define DISTANCES           OWN(distances)
#define PAIR_MAPS           .build = qk__build_rotary_pairs
#define LAYER_BINS          .build = qk__build_attention_by_depth
#define CATEGORY_MAP        .build = qk__build_category_changes
#define CURVES_OVER(number) .build = qk__build_curves, .over = QK__##number
#define BOTH_SIDES          CURVES_OVER(SIDES), .applies = qk__has_sides
#define SCORES              .compose = qk__ask_scored, OWN(scores)
#define FAMILY_POINTS       .compose = qk__ask_full_heads, .build = qk__build_family_points

#define TITLE(text)                    .title = text
#define HEADING(text)                  .heading = text
#define CAPTION(text)                  .caption = text
#define FROM(tables_, rows_, numbers_) .tables = tables_, .rows = rows_, .numbers = numbers_
#define SELECT(...)                    .select = __VA_ARGS__
#define HEIGHT(pixels)                 .height = pixels
#define COLUMNS(most)                  .columns = most
#define OVER(what)                     .over = QK__##what
#define PER_MODEL                      .per_model = true
#define ALONE                          .alone = true
#define COMPARES                       .compares = true
#define POOLS                          .pools = true
#define TRAINING                       .training = true
#define APART                          .apart = true

/* Panels, ended by an empty one; and what is in a panel. */
#define PANELS(...)                                                                            \
    .panels = (const qk__panel[])                                                              \
    {                                                                                          \
        __VA_ARGS__,                                                                           \
        {                                                                                      \
            .title = NULL                                                                      \
        }                                                                                      \
    }
#define SERIES(...)   .series = {__VA_ARGS__}
#define ABOVE(text)   .title = text
#define Y_LABEL(text) .y_label = text
#define CURVES(of)    .mark = QK__CURVES, OF(of)
#define STACK         .mark = QK__STACK
#define OF(what)      .statistic = QK__STAT_##what
#define TO_ONE        .to_one = true
#define LOOSE         .loose = true
#define PERCENT       .percent = true
#define RATIO         .ratio = true
#define BETWEEN(text) .between = text
#define LINES(...)    .lines = {__VA_ARGS__}
#define OF_CATEGORIES .by_category = true
#define NAME(text)    .name = text
#define AS(which)     .role = QK__##which
#define MAGNITUDE     .magnitude = true
#define SQL(number)   .sql = number
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
