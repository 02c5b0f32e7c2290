/* SPDX-License-Identifier: Apache-2.0 */
/* Token positions as colours, and as the tics of a colour bar. */
#ifndef QK_FIGURE_POSITION_SCALE_H
#define QK_FIGURE_POSITION_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#include "draw/png.h"
#include "figure/figure.h"

/* Token positions that a colour bar stands for; none where high < low. */
typedef struct qk__position_span {
    int64_t low, high;
} qk__position_span;

bool qk__span_shows(qk__position_span span);
/* Contexts end at 1,023, the bar at 1,024: ends that nearly are tics become tics. */
qk__position_span qk__round_span(qk__position_span span);

/* The tics of a bar on the right of a plot: multiples of a power of two, or the ends of a span that has fewer than
 * two of them. */
void qk__draw_span_tics(const qk__plot *plot, qk__position_span span);

/* Colours of rows: of queries from early to late in Blues, of keys in Reds; of one text all in viridis over q. Early
 * rows keep off the page's colour, so that late ones stand out most on any theme. Colour 0 is none, as in a
 * bitmap; GREY is that of other texts. */
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
/* Which colour a row has. */
uint8_t qk__tint_of(const qk__tints *tints, int64_t position, bool is_key);
/* And at a share of the span. */
uint8_t qk__tint_at(const qk__tints *tints, double share, bool is_key);

#endif
