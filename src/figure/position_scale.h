/* SPDX-License-Identifier: Apache-2.0 */
/* Token positions as colours, and as the tics of a colour bar. */
#ifndef QK_FIGURE_POSITION_SCALE_H
#define QK_FIGURE_POSITION_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#include "figure/figure.h"

/* Token positions that a colour bar stands for; none where high < low. */
typedef struct qk__position_span {
    int64_t low, high;
} qk__position_span;

bool qk__span_shows(qk__position_span span);
/* Contexts end at 1,023, the bar at 1,024: ends that nearly are tics become tics. */
qk__position_span qk__round_span(qk__position_span span);

/* Sets the tics of the second y axis: multiples of a power of two, or the ends of a span that
 * has fewer than two of them. */
void qk__print_span_tics(qk__figure *figure, qk__position_span span);

/* Where the colours of keys begin in the palette; those of queries take 0 to 1. The gap is a
 * seam that no row falls on. */
#define QK__KEY_COLORS 1.1

/* Sets the palette (queries in Blues, keys in Reds; with one_text all in viridis over q) and
 * the script's function tint(position, key), which says where in it a row is. Early rows keep
 * off the page's colour, so that late ones stand out most on any theme. */
void qk__print_position_colors(qk__figure *figure, qk__position_span q, qk__position_span k,
                               bool one_text);

#endif
