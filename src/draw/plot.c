/* SPDX-License-Identifier: Apache-2.0 */
/* Draws axes and marks of a plot. */
#include "draw/plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "draw/text.h"

static double share_of(const qk__axis *axis, double value)
{
    double low = axis->low, high = axis->high;
    if (axis->logarithmic) {
        value = value > 0 ? log(value) : NAN;
        low = log(low);
        high = log(high);
    }
    return (value - low) / (high - low);
}

static bool is_between(double share)
{
    return share > -1e-9 && share < 1 + 1e-9;
}

double qk__at_x(const qk__plot *plot, double x)
{
    return plot->left + plot->width * share_of(&plot->x, x);
}

double qk__at_y(const qk__plot *plot, double y)
{
    return plot->top + plot->height * (1 - share_of(&plot->y, y));
}

static qk__pen line_pen(const char *color, double width)
{
    return (qk__pen){.stroke = color, .width = width};
}

/* Room for places on the canvas. */
static double (*places(const qk__plot *plot, size_t count))[2]
{
    double(*points)[2] = qk__calloc(count + 1, sizeof *points);
    if (!points && plot->canvas->status == QK_OK)
        plot->canvas->status = qk__nomem(&plot->canvas->err);
    return points;
}

/* ---- numbers ---------------------------------------------------------------------------- */

double qk__round_step(double step)
{
    double unit = pow(10, floor(log10(step))), times = step / unit;
    return unit * (times < 1.5 ? 1 : times < 3.5 ? 2 : times < 7.5 ? 5 : 10);
}

const char *qk__number_text(char out[QK__NUMBER_TEXT], const char *format, double value)
{
    char text[QK__NUMBER_TEXT];
    snprintf(text, sizeof text, format, value);
    for (char *c = text; *c; c++) /* of the user's locale */
        *c = *c == ',' ? '.' : *c;
    size_t length = 0;
    const bool zero = text[strcspn(text, "123456789in")] == '\0'; /* not infinite, not NaN */
    for (const char *c = zero && text[0] == '-' ? text + 1 : text;
         *c && length + 4 < QK__NUMBER_TEXT; c++) {
        const char *put = *c == '-' ? "\xe2\x88\x92" : (const char[]){*c, '\0'};
        memcpy(out + length, put, strlen(put));
        length += strlen(put);
    }
    out[length] = '\0';
    return out;
}

/* As many digits behind the point as the step has; of what is very large or small as %g has it. */
static void spell_tic(char out[QK__NUMBER_TEXT], const qk__tic_style *style, double value,
                      double step, double largest)
{
    const char *format = style->format;
    char own[16];
    if (!format) {
        int digits = (int)fmax(0, -floor(log10(step) + 1e-9));
        if (fabs(step * pow(10, digits) - round(step * pow(10, digits))) > 1e-6)
            digits++;                     /* 2.5 */
        if (largest >= 1e6 || digits > 5) /* as many as tell neighbours apart */
            snprintf(own, sizeof own, "%%.%dg",
                     (int)fmin(17, fmax(6, 1 + floor(log10(largest / step) + 1e-9))));
        else
            snprintf(own, sizeof own, "%%.%df", digits);
        format = own;
    }
    qk__number_text(out, format, fabs(value) < 1e-9 * step ? 0 : value);
    size_t length = strlen(out);
    if (style->after && length + strlen(style->after) < QK__NUMBER_TEXT)
        memcpy(out + length, style->after, strlen(style->after) + 1);
}

/* ---- tics ------------------------------------------------------------------------------- */

static bool is_across(qk__edge side)
{
    return side == QK__BELOW || side == QK__ABOVE;
}

/* Along its side, pixels. */
static double place_of(const qk__plot *plot, qk__edge side, double at)
{
    return is_across(side) ? qk__at_x(plot, at) : qk__at_y(plot, at);
}

static void put_tic(const qk__plot *plot, qk__edge side, double at, const qk__tic *tic,
                    const qk__tic_style *style)
{
    const double right = plot->left + plot->width, below = plot->top + plot->height;
    const double out = style->length + 0.35 * plot->type;
    qk__type type = {
        .size = plot->type, .color = plot->canvas->theme->ink, .whole = tic->whole};
    double x = at, y = at;
    if (is_across(side)) {
        const double far = out + (style->turn != 0 ? 0.25 : 0.5) * plot->type;
        y = side == QK__BELOW ? below + far : plot->top - out - 0.5 * plot->type;
        type.anchor = style->turn != 0 ? QK__END : QK__MIDDLE;
        type.turn = -style->turn;
    } else {
        x = side == QK__LEFT ? plot->left - out : right + out;
        type.anchor = side == QK__LEFT ? QK__END : QK__START;
    }
    qk__draw_text(plot->canvas, tic->text, x, y, type);
}

/* A line for each tic: from the edge outward, or across the plot; all are one shape. */
static void put_tic_lines(const qk__plot *plot, qk__edge side, const qk__tic *tics,
                          size_t count, double length, bool grid)
{
    const bool across = is_across(side);
    const double begin = across ? plot->top : plot->left,
                 end = begin + (across ? plot->height : plot->width);
    const bool outer = side == QK__BELOW || side == QK__RIGHT;
    const double edge = outer ? end : begin, out = outer ? edge + length : edge - length;
    double(*points)[2] = places(plot, 3 * count);
    for (size_t i = 0; points && i < 3 * count; i++) {
        const double share = share_of(across ? &plot->x : &plot->y, tics[i / 3].at);
        const double at = i % 3 == 2 || (grid && !is_between(share))
                              ? NAN
                              : place_of(plot, side, tics[i / 3].at);
        const double along = i % 3 == 0 ? grid ? begin : edge : grid ? end : out;
        points[i][0] = across ? at : along;
        points[i][1] = across ? along : at;
    }
    if (points)
        qk__draw_path(plot->canvas, (const double(*)[2])points, 3 * count, false,
                      grid ? line_pen(plot->canvas->theme->grid, 0.5)
                           : line_pen(plot->canvas->theme->muted, 0.8));
    free(points);
}

/* Pixels of a label along its side. */
static double extent_of(const qk__plot *plot, qk__edge side, const char *text,
                        const qk__tic_style *style)
{
    if (!is_across(side) || style->turn != 0)
        return 1.1 * plot->type;
    return qk__measure(text, plot->type) + 0.5 * plot->type;
}

void qk__label_tics(const qk__plot *plot, qk__edge side, const qk__tic *tics, size_t count,
                    qk__tic_style style)
{
    double last = NAN, reach = 0;
    if (style.grid)
        put_tic_lines(plot, side, tics, count, 0, true);
    if (style.length > 0)
        put_tic_lines(plot, side, tics, count, style.length, false);
    for (size_t i = 0; i < count; i++) {
        double at = place_of(plot, side, tics[i].at);
        double half = extent_of(plot, side, tics[i].text, &style) / 2;
        if (!isfinite(at))
            continue;
        qk__tic tic = tics[i];
        if (isfinite(last) && fabs(at - last) < (style.turn != 0 ? 2 * half : half + reach))
            tic.text = "";
        put_tic(plot, side, at, &tic, &style);
        if (*tic.text) {
            last = at;
            reach = half;
        }
    }
}

static const qk__axis *axis_of(const qk__plot *plot, qk__edge side)
{
    return is_across(side) ? &plot->x : &plot->y;
}

/* Whether labels at that step stand apart. */
static bool fits(const qk__plot *plot, qk__edge side, double step, const qk__tic_style *style,
                 double factor)
{
    const qk__axis *axis = axis_of(plot, side);
    double low = factor * fmin(axis->low, axis->high),
           high = factor * fmax(axis->low, axis->high);
    double room = (is_across(side) ? plot->width : plot->height) * step / (high - low),
           most = 0;
    double largest = fmax(fabs(low), fabs(high));
    if ((high - low) / step > QK__MOST_TICS - 2)
        return false;
    for (double k = ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) {
        char text[QK__NUMBER_TEXT];
        spell_tic(text, style, k * step, step, largest);
        most = fmax(most, extent_of(plot, side, text, style));
    }
    return room >= most;
}

static void decade_tics(const qk__plot *plot, qk__edge side, const qk__tic_style *style)
{
    const qk__axis *axis = axis_of(plot, side);
    qk__tic tics[QK__MOST_TICS];
    char texts[QK__MOST_TICS][QK__NUMBER_TEXT];
    int first = (int)ceil(log10(axis->low) - 1e-9), last = (int)floor(log10(axis->high) + 1e-9);
    static const int PARTS[] = {1, 2, 5};
    const int parts = last - first < 1 ? 3 : 1; /* less than two powers */
    size_t count = 0;
    for (int e = first - (parts > 1); e <= last && count < QK__MOST_TICS; e++)
        for (int p = 0; p < parts && count < QK__MOST_TICS; p++) {
            double at = PARTS[p] * pow(10, e);
            if (at < axis->low * (1 - 1e-9) || at > axis->high * (1 + 1e-9))
                continue;
            if (e >= 3 && e < 6 && is_across(side))
                snprintf(texts[count], QK__NUMBER_TEXT, "%.0fk", at / 1000);
            else if (e > 5 || e < -4)
                snprintf(texts[count], QK__NUMBER_TEXT, "%s10<sup>%s%d</sup>",
                         PARTS[p] == 1   ? ""
                         : PARTS[p] == 2 ? "2·"
                                         : "5·",
                         e < 0 ? "\xe2\x88\x92" : "", abs(e));
            else
                qk__number_text(texts[count], "%g", at);
            tics[count] = (qk__tic){.at = at, .text = texts[count]};
            count++;
        }
    qk__label_tics(plot, side, tics, count, *style);
}

void qk__number_tics(const qk__plot *plot, qk__edge side, double least, double step,
                     qk__tic_style style)
{
    const qk__axis *axis = axis_of(plot, side);
    const double factor = style.factor > 0 ? style.factor : 1;
    double low = factor * fmin(axis->low, axis->high),
           high = factor * fmax(axis->low, axis->high);
    double length = is_across(side) ? plot->width : plot->height;
    if (axis->logarithmic) {
        decade_tics(plot, side, &style);
        return;
    }
    /* a range of less has no numbers to put on it */
    if (!(high - low > 1e-12 * fmax(fabs(low), fabs(high))) || !isfinite(high - low))
        return;
    if (!(step > 0))
        step = qk__round_step((high - low) / fmax(1, floor(length / least)));
    for (int i = 0; i < 60 && !fits(plot, side, step, &style, factor); i++)
        step = qk__round_step(2.01 * step);
    qk__tic tics[QK__MOST_TICS];
    char texts[QK__MOST_TICS][QK__NUMBER_TEXT];
    size_t count = 0;
    for (double k = ceil(low / step - 1e-9);
         k * step <= high + 1e-9 * step && count < QK__MOST_TICS; k++) {
        spell_tic(texts[count], &style, k * step, step, fmax(fabs(low), fabs(high)));
        tics[count] =
            (qk__tic){.at = k * step / factor, .text = style.plain ? "" : texts[count]};
        count++;
    }
    qk__label_tics(plot, side, tics, count, style);
}

void qk__draw_sides(const qk__plot *plot, unsigned sides)
{
    const qk__pen pen = line_pen(plot->canvas->theme->muted, 0.8);
    const double right = plot->left + plot->width, below = plot->top + plot->height;
    if (sides & 1u << QK__BELOW)
        qk__draw_line(plot->canvas, plot->left, below, right, below, pen);
    if (sides & 1u << QK__ABOVE)
        qk__draw_line(plot->canvas, plot->left, plot->top, right, plot->top, pen);
    if (sides & 1u << QK__LEFT)
        qk__draw_line(plot->canvas, plot->left, plot->top, plot->left, below, pen);
    if (sides & 1u << QK__RIGHT)
        qk__draw_line(plot->canvas, right, plot->top, right, below, pen);
}

void qk__line_across(const qk__plot *plot, double y, qk__pen pen)
{
    double at = qk__at_y(plot, y);
    if (is_between(share_of(&plot->y, y)))
        qk__draw_line(plot->canvas, plot->left, at, plot->left + plot->width, at, pen);
}

void qk__line_up(const qk__plot *plot, double x, qk__pen pen)
{
    double at = qk__at_x(plot, x);
    if (is_between(share_of(&plot->x, x)))
        qk__draw_line(plot->canvas, at, plot->top, at, plot->top + plot->height, pen);
}

/* ---- marks ------------------------------------------------------------------------------ */

void qk__begin_marks(const qk__plot *plot)
{
    qk__begin_clip(plot->canvas, plot->left, plot->top, plot->width, plot->height);
}

void qk__end_marks(const qk__plot *plot)
{
    qk__end_clip(plot->canvas);
}

void qk__draw_bar(const qk__plot *plot, double x0, double x1, double y0, double y1, qk__pen pen)
{
    const double a = qk__at_x(plot, x0), b = qk__at_x(plot, x1);
    const double c = qk__at_y(plot, y0), d = qk__at_y(plot, y1);
    if (isfinite(a) && isfinite(b) && isfinite(c) && isfinite(d))
        qk__draw_rect(plot->canvas, fmin(a, b), fmin(c, d), fabs(b - a), fabs(d - c), pen);
}

void qk__draw_points(const qk__plot *plot, const double *x, const double *y, size_t count,
                     qk__sign sign, double radius, const char *color, double opacity)
{
    double(*points)[2] = places(plot, count);
    for (size_t i = 0; points && i < count; i++) {
        const bool inside =
            is_between(share_of(&plot->x, x[i])) && is_between(share_of(&plot->y, y[i]));
        points[i][0] = inside ? qk__at_x(plot, x[i]) : NAN;
        points[i][1] = qk__at_y(plot, y[i]);
    }
    if (points)
        qk__draw_signs(plot->canvas, sign, (const double(*)[2])points, count, radius, color,
                       opacity);
    free(points);
}

void qk__draw_curve(const qk__plot *plot, const double *x, const double *y, size_t count,
                    qk__pen pen)
{
    double(*points)[2] = places(plot, count);
    for (size_t i = 0; points && i < count; i++) {
        points[i][0] = qk__at_x(plot, x[i]);
        points[i][1] = qk__at_y(plot, y[i]);
    }
    if (points)
        qk__draw_path(plot->canvas, (const double(*)[2])points, count, false, pen);
    free(points);
}

void qk__draw_band(const qk__plot *plot, const double *x, const double *low, const double *high,
                   size_t count, qk__pen pen)
{
    double(*points)[2] = places(plot, 2 * count);
    for (size_t first = 0, n; points && first < count; first += n + 1) {
        for (n = 0; first + n < count && isfinite(low[first + n]) && isfinite(high[first + n]);)
            n++;
        for (size_t i = 0; i < n; i++) {
            points[i][0] = points[2 * n - 1 - i][0] = qk__at_x(plot, x[first + i]);
            points[i][1] = qk__at_y(plot, low[first + i]);
            points[2 * n - 1 - i][1] = qk__at_y(plot, high[first + i]);
        }
        qk__draw_path(plot->canvas, (const double(*)[2])points, 2 * n, true, pen);
    }
    free(points);
}

void qk__draw_whiskers(const qk__plot *plot, const double *x, const double *low,
                       const double *high, size_t count, qk__pen pen)
{
    for (size_t i = 0; i < count; i++)
        if (isfinite(low[i]) && isfinite(high[i]))
            qk__draw_line(plot->canvas, qk__at_x(plot, x[i]), qk__at_y(plot, low[i]),
                          qk__at_x(plot, x[i]), qk__at_y(plot, high[i]), pen);
}
