/* SPDX-License-Identifier: Apache-2.0 */
/* Turns token positions into colours, and into the tics of a colour bar. */
#include "figure/position_scale.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

/* ---- spans ------------------------------------------------------------------------------ */

bool qk__span_shows(qk__position_span span)
{
    return span.low <= span.high;
}

/* Tics are multiples of a power of two; three to six of them. */
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

/* Differences are unsigned: positions may be any 64-bit numbers. */
void qk__draw_span_tics(const qk__plot *plot, qk__position_span span)
{
    enum { MOST = 8 };
    char texts[MOST][32];
    qk__tic tics[MOST];
    size_t count = 0;
    int64_t unit = tic_step(span), at = span.low / unit * unit;
    if (at < span.low && (uint64_t)span.high - (uint64_t)at >= (uint64_t)unit)
        at += unit;
    bool two = at >= span.low && (uint64_t)span.high - (uint64_t)at >= (uint64_t)unit;
    int64_t places[MOST] = {two ? at : span.low};
    count = 1;
    if (!two && span.high > span.low)
        places[count++] = span.high;
    while (two && (uint64_t)span.high - (uint64_t)at >= (uint64_t)unit && count < MOST)
        places[count++] = at += unit;
    for (size_t i = 0; i < count; i++) {
        qk__group_digits(places[i], texts[i]);
        tics[i] = (qk__tic){(double)places[i], texts[i], NULL};
    }
    qk__label_tics(plot, QK__RIGHT, tics, count, (qk__tic_style){.length = 3});
}

/* ---- colours ---------------------------------------------------------------------------- */

/* The part of a ramp that shows on the background, from early to late. */
static void add_ramp(qk__tints *tints, const qk__colormap *map, double early, double late)
{
    for (int i = 0; i < tints->steps; i++)
        qk__colormap_at(map, early + (i + 0.5) / tints->steps * (late - early),
                        tints->colors[tints->count++]);
}

static void parse_color(const char *color, uint8_t rgb[3])
{
    unsigned c[3] = {0, 0, 0};
    sscanf(color, "#%2x%2x%2x", &c[0], &c[1], &c[2]);
    for (int i = 0; i < 3; i++)
        rgb[i] = (uint8_t)c[i];
}

void qk__make_tints(const qk__theme *theme, qk__position_span q, qk__position_span k,
                    bool one_text, int steps, qk__tints *tints)
{
    bool dark = qk__is_dark_page(theme);
    *tints = (qk__tints){.q = q, .k = one_text ? q : k, .steps = steps, .one_text = one_text};
    parse_color(theme->background, tints->colors[tints->count++]);
    parse_color(theme->grid, tints->colors[tints->count++]);
    if (one_text) {
        add_ramp(tints, &qk__viridis, dark ? 0.2 : 0, dark ? 1 : 0.93);
        return;
    }
    add_ramp(tints, &qk__blues, dark ? 0.85 : 0.3, dark ? 0.3 : 1);
    add_ramp(tints, &qk__reds, dark ? 0.75 : 0.3, dark ? 0.3 : 1);
}

uint8_t qk__tint_at(const qk__tints *tints, double share, bool is_key)
{
    int step = (int)fmin(tints->steps - 1, fmax(0, floor(share * tints->steps)));
    return (uint8_t)(QK__TINT_GREY + 1 + step +
                     (is_key && !tints->one_text ? tints->steps : 0));
}

/* One position, or none: the middle. */
uint8_t qk__tint_of(const qk__tints *tints, int64_t position, bool is_key)
{
    const qk__position_span span = is_key ? tints->k : tints->q;
    double range = (double)span.high - (double)span.low;
    return qk__tint_at(tints, range > 0 ? ((double)position - (double)span.low) / range : 0.5,
                       is_key);
}
