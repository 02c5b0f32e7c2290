/* SPDX-License-Identifier: Apache-2.0 */
/* The three themes and the colours of series and categories. */
#include "figure/theme.h"

#include <qkscope/stats.h>

/* Queries and keys keep the blue and red of the ramps they are drawn in (Blues, Reds). */
static const qk__theme THEMES[] = {
    [QK_THEME_PAPER] = {"paper", "#ffffff", "#1f2328", "#59636e", "#d8dee4", "#f6f8fa",
                        "#2171b5", "#cb181d", "#7a4fb5", "#d55e00", 13, 1.0},
    [QK_THEME_SCREEN] = {"screen", "#ffffff", "#1f2328", "#59636e", "#d8dee4", "#f6f8fa",
                         "#2171b5", "#cb181d", "#7a4fb5", "#d55e00", 16, 1.4},
    [QK_THEME_DARK] = {"dark", "#0d1117", "#e6edf3", "#9198a1", "#2f353d", "#161b22", "#6baed6",
                       "#fb6a4a", "#b392f0", "#ffa657", 13, 1.0},
};

const qk__theme *qk__theme_of(qk_figure_theme theme)
{
    return &THEMES[theme];
}

/* Okabe and Ito (2008), the pale yellow left out: it does not show as a line on white. */
static const struct {
    const char *color;
    int point;
} SERIES[] = {
    {"#0072b2", 7},  {"#d55e00", 5}, {"#009e73", 9}, {"#cc79a7", 13},
    {"#e69f00", 11}, {"#56b4e9", 6}, {"ink", 4},
};
enum { NUM_SERIES = sizeof SERIES / sizeof *SERIES };

const char *qk__series_color(const qk__theme *theme, int index)
{
    const char *color = SERIES[(index < 0 ? 0 : index) % NUM_SERIES].color;
    return color[0] == '#' ? color : theme->ink;
}

/* Shifted from round to round, so that a colour comes back with another point. */
int qk__series_point(int index)
{
    int i = index < 0 ? 0 : index;
    return SERIES[(i + i / NUM_SERIES % NUM_SERIES) % NUM_SERIES].point;
}

const char *qk__category_color(const qk__theme *theme, int category)
{
    static const char *const COLORS[QK_NUM_CATEGORIES] = {
        [QK_POSITION_DOMINATED] = "#0072b2",
        [QK_Q_POSITIONAL] = "#56b4e9",
        [QK_K_POSITIONAL] = "#d55e00",
        [QK_CONTENT_FOCUSED] = "#009e73",
        [QK_MIXED] = "#98a1ab", /* most heads, often: not what the eye should find */
    };
    bool known = category >= 0 && category < QK_NUM_CATEGORIES;
    return known ? COLORS[category] : theme->muted;
}
