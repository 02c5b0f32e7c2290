/* SPDX-License-Identifier: Apache-2.0 */
/* The three themes and the colours of series and categories. */
#include "draw/theme.h"

#include <math.h>
#include <stdio.h>

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

/* Okabe and Ito (2008), the pale yellow left out: it does not show as a line on white. What
 * follows is for studies of many families: each the colour that is farthest from those before
 * it, also without red or without green, and shows on a white and on a dark page. */
static const char *const SERIES[] = {
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "ink",     "#991122",
    "#664466", "#556655", "#4411dd", "#8877ff", "#99bb77", "#ccaaaa", "#448888", "#224499",
    "#cc6655", "#cc1155", "#666688", "#cc1100", "#9922ff", "#33aabb", "#996677", "#cc22bb",
    "#005544", "#cc8844", "#ff77dd", "#cc8888", "#006633", "#776622", "#777766", "#ff4499",
};
static const qk__sign SIGNS[] = {QK__DISC, QK__SQUARE, QK__UP,   QK__DIAMOND,
                                 QK__DOWN, QK__RING,   QK__FRAME};
enum { NUM_SERIES = sizeof SERIES / sizeof *SERIES, NUM_SIGNS = sizeof SIGNS / sizeof *SIGNS };

const char *qk__series_color(const qk__theme *theme, int index)
{
    const char *color = SERIES[(index < 0 ? 0 : index) % NUM_SERIES];
    return color[0] == '#' ? color : theme->ink;
}

/* Shifted from round to round, so that a colour comes back with another point. */
qk__sign qk__series_sign(int index)
{
    int i = index < 0 ? 0 : index;
    return SIGNS[(i + i / NUM_SERIES) % NUM_SIGNS];
}

const char *qk__mixed_color(const char *color, const char *with, double share, char out[8])
{
    unsigned a[3] = {0, 0, 0}, b[3] = {0, 0, 0};
    sscanf(color, "#%2x%2x%2x", &a[0], &a[1], &a[2]);
    sscanf(with, "#%2x%2x%2x", &b[0], &b[1], &b[2]);
    for (int i = 0; i < 3; i++)
        a[i] = (unsigned)lround(share * a[i] + (1 - share) * b[i]) & 0xff;
    snprintf(out, 8, "#%02x%02x%02x", a[0], a[1], a[2]);
    return out;
}

bool qk__is_dark_page(const qk__theme *theme)
{
    unsigned r = 255, g = 255, b = 255;
    sscanf(theme->background, "#%2x%2x%2x", &r, &g, &b);
    const unsigned char rgb[3] = {(unsigned char)r, (unsigned char)g, (unsigned char)b};
    return qk__is_dark(rgb);
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
