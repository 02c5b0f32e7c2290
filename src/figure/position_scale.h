/* SPDX-License-Identifier: Apache-2.0 */
/* Token positions as colours, and as the tics of a colour bar. */
#ifndef QK_FIGURE_POSITION_SCALE_H
#define QK_FIGURE_POSITION_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#include "draw/png.h"
#include "figure/figure.h"

/* The token positions of a colour bar; none where high < low. */
typedef struct qk__position_span {
    int64_t low, high;
} qk__position_span;

bool qk__span_shows(qk__position_span span);
/* Contexts end at 1,023, the bar at 1,024: an end that is nearly a tic becomes one. */
qk__position_span qk__round_span(qk__position_span span);

/* The tics of a bar on the right of a plot: multiples of a power of two, or the ends of a span with fewer than two of
 * them. */
void qk__draw_span_tics(const qk__plot *plot, qk__position_span span);

/* Colours of rows: queries from early to late in Blues, keys in Reds; one text in viridis over q. Early rows keep off
 * the page's colour, so that late ones stand out most in any theme. Colour 0 is none, as in a bitmap; GREY is for
 * other texts. */
typedef struct qk__tints {
    qk__position_span q, k;
    int steps; /* of a kind */
    bool one_text;
    size_t count;
    uint8_t colors[QK__COLORS][3];
} qk__tints;
enum { QK__TINT_GREY = 1, QK__TINT_STEPS = 120 };
void qk__make_tints(const qk__theme *theme, qk__position_span q, qk__position_span k,
                    bool one_text, int steps, qk__tints *tints);
/* The colour of a row. */
uint8_t qk__tint_of(const qk__tints *tints, int64_t position, bool is_key);
/* The colour at a share of the span. */
uint8_t qk__tint_at(const qk__tints *tints, double share, bool is_key);

#endif
