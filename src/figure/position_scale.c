/* SPDX-License-Identifier: Apache-2.0 */
/* Turns token positions into colours, and into the tics of a colour bar. */
#include "figure/position_scale.h"

#include <stdio.h>

#include "base/number.h"

enum { RAMP_KNOTS = 17 };

/* ---- spans ------------------------------------------------------------------------------ */

bool qk__span_shows(qk__position_span span)
{
    return span.low <= span.high;
}

/* Tics are multiples of this: a power of two, three to six of them. */
static int64_t tic_step(qk__position_span span)
{
    uint64_t range = (uint64_t)span.high - (uint64_t)span.low, step = 1;
    while (range / step > 6)
        step *= 2;
    return (int64_t)step;
}

qk__position_span qk__round_span(qk__position_span span)
{
    enum { NEAR = 50 }; /* parts of the range */
    if (!qk__span_shows(span) || span.low < 0 || span.high > INT64_MAX / 2)
        return span;
    int64_t step = tic_step(span), near = (span.high - span.low) / NEAR;
    int64_t below = span.low % step, above = (step - span.high % step) % step;
    span.low -= below <= near ? below : 0;
    span.high += above <= near ? above : 0;
    return span;
}

static void print_tic(qk__figure *figure, int64_t position, bool first)
{
    char text[32];
    qk__group_digits(position, text);
    qk__figure_print(figure, "%s'{/*0.9 %s}' %lld", first ? "" : ", ", text,
                     (long long)position);
}

/* Differences are unsigned: positions may be any 64-bit numbers. */
void qk__print_span_tics(qk__figure *figure, qk__position_span span)
{
    int64_t unit = tic_step(span), at = span.low / unit * unit;
    if (at < span.low && (uint64_t)span.high - (uint64_t)at >= (uint64_t)unit)
        at += unit;
    bool two = at >= span.low && (uint64_t)span.high - (uint64_t)at >= (uint64_t)unit;
    qk__figure_print(figure, "set y2tics (");
    print_tic(figure, two ? at : span.low, true);
    if (!two && span.high > span.low)
        print_tic(figure, span.high, false);
    while (two && (uint64_t)span.high - (uint64_t)at >= (uint64_t)unit)
        print_tic(figure, at += unit, false);
    qk__figure_print(figure, ")\n");
}

/* ---- colours ---------------------------------------------------------------------------- */

/* The part of a ramp that shows on the background, from early to late. */
typedef struct ramp {
    const qk__colormap *map;
    double early, late;
} ramp;

static void add_ramp(qk__figure *figure, ramp r, double from, bool last)
{
    for (int i = 0; i < RAMP_KNOTS; i++) {
        double t = (double)i / (RAMP_KNOTS - 1);
        unsigned char rgb[3];
        qk__colormap_at(r.map, r.early + t * (r.late - r.early), rgb);
        qk__figure_print(figure, "%s%.4f '#%02x%02x%02x'%s", i % 6 == 0 ? " \\\n  " : " ",
                         from + t, rgb[0], rgb[1], rgb[2],
                         last && i == RAMP_KNOTS - 1 ? ")\n" : ",");
    }
}

/* Early rows keep off the page's colour, so that late ones stand out most on any theme. */
static void set_palette(qk__figure *figure, bool one_text)
{
    bool dark = qk__is_dark_page(figure->theme);
    qk__figure_print(figure, "set palette model RGB defined (");
    if (one_text) {
        const ramp viridis = {&qk__viridis, dark ? 0.2 : 0, dark ? 1 : 0.93};
        add_ramp(figure, viridis, 0, true);
        qk__figure_print(figure, "set cbrange [0:1]\n");
    } else {
        const ramp blues = {&qk__blues, dark ? 0.85 : 0.3, dark ? 0.3 : 1};
        const ramp reds = {&qk__reds, dark ? 0.75 : 0.3, dark ? 0.3 : 1};
        add_ramp(figure, blues, 0, false);
        add_ramp(figure, reds, QK__KEY_COLORS, true);
        qk__figure_print(figure, "set cbrange [0:%.6g]\n", QK__KEY_COLORS + 1);
    }
    qk__figure_print(figure, "unset colorbox\n");
}

/* The script's function of position and kind that says which colour of the palette a row has.
 * */
static void define_tint(qk__figure *figure, qk__position_span q, qk__position_span k,
                        bool one_text)
{
    const qk__position_span spans[2] = {q, one_text ? q : k};
    for (int i = 0; i < 2; i++) {
        bool point = spans[i].low >= spans[i].high; /* one position, or none: mid-ramp */
        double low = point ? (double)spans[i].low - 1 : (double)spans[i].low;
        double range = point ? 2 : (double)spans[i].high - (double)spans[i].low;
        qk__figure_print(figure, "tint_%c(position) = (position - %.17g) / %.17g\n", "qk"[i],
                         low, range);
    }
    qk__figure_print(figure,
                     "tint(position, key) = key > 0 ? %.6g + tint_k(position) : "
                     "tint_q(position)\n",
                     one_text ? 0 : QK__KEY_COLORS);
}

void qk__print_position_colors(qk__figure *figure, qk__position_span q, qk__position_span k,
                               bool one_text)
{
    set_palette(figure, one_text);
    define_tint(figure, q, k, one_text);
}
