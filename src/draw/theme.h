/* SPDX-License-Identifier: Apache-2.0 */
/* Colours and type of a figure (theme.c). All colours are "#rrggbb". */
#ifndef QK_DRAW_THEME_H
#define QK_DRAW_THEME_H

#include <stdbool.h>
#include <stddef.h>

#include <qkscope/report.h>

/* Signs of points; all have about the area of a disc. */
typedef enum qk__sign {
    QK__DISC,
    QK__RING,
    QK__SQUARE,
    QK__FRAME, /* an open square */
    QK__UP,
    QK__DOWN,
    QK__DIAMOND,
} qk__sign;

typedef struct qk__theme {
    const char *name;
    const char *background, *ink, *muted, *grid; /* page, text, secondary text, grid lines */
    const char *box;                             /* fill behind text boxes */
    const char *q, *k;                           /* queries blue, keys red */
    /* Of what is neither: alone in its figure, since some eyes see it as the blue. What the eye
     * should find. */
    const char *accent, *highlight;
    double font_size; /* points at nominal size */
    double line_width;
} qk__theme;

const qk__theme *qk__theme_of(qk_figure_theme theme);

/* Families (and phases of training) by index, round and round after 32: first Okabe and Ito's
 * colours, told apart with any colour vision. The black of the set is the theme's ink. */
const char *qk__series_color(const qk__theme *theme, int index);
/* Signs that go with them, so that colour is never alone. */
qk__sign qk__series_sign(int index);
/* `share` of a colour and the rest of another, as if the first were so opaque on the second.
 * Returns out. */
const char *qk__mixed_color(const char *color, const char *with, double share, char out[8]);
bool qk__is_dark_page(const qk__theme *theme);
/* Of a qk_category; index -1 is "none". */
const char *qk__category_color(const qk__theme *theme, int category);

/* ---- colour ramps (colormap.c): matplotlib's, as tables of equidistant colours ---------- */

typedef struct qk__colormap {
    const char *name;
    size_t count;
    const unsigned char (*rgb)[3];
} qk__colormap;
extern const qk__colormap qk__blues, qk__reds, qk__magma, qk__viridis, qk__oranges;

/* Linear between the table's colours; x is clamped to 0..1. */
void qk__colormap_at(const qk__colormap *map, double x, unsigned char rgb[3]);
/* White text is easier to read on this colour than black. */
int qk__is_dark(const unsigned char rgb[3]);

#endif
