/* SPDX-License-Identifier: Apache-2.0 */
/* Writes shapes and texts as elements of SVG. A colour of the theme is kept as one byte, which a file gets as that
 * colour and a page as a variable of its style sheet. */
#include "draw/canvas.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/error.h"
#include "draw/text.h"

/* Bytes that stand for colours of the theme; no text of XML has them. */
enum { BACKGROUND = 1, INK, MUTED, GRID, BOX, NUM_ROLES };

void qk__canvas_init(qk__canvas *canvas, const qk__theme *theme)
{
    *canvas = (qk__canvas){.theme = theme, .status = QK_OK};
}

void qk__canvas_free(qk__canvas *canvas)
{
    qk__buffer_free(&canvas->body);
}

/* ---- pieces of text --------------------------------------------------------------------- */

static void put_bytes(qk__canvas *canvas, const void *bytes, size_t size)
{
    if (canvas->status == QK_OK)
        canvas->status = qk__buffer_append(&canvas->body, bytes, size, &canvas->err);
}

static void put(qk__canvas *canvas, const char *text)
{
    put_bytes(canvas, text, strlen(text));
}

static long long hundredths_of(double value)
{
    const double most = 1e7;
    return isfinite(value) ? llround(100 * fmin(fmax(value, -most), most)) : 0;
}

/* Two digits behind the point, those that are 0 left out. */
static size_t spell(long long hundredths, char out[32])
{
    unsigned long long size =
        hundredths < 0 ? 0ULL - (unsigned long long)hundredths : (unsigned long long)hundredths;
    char *end = out + 31, *p = end;
    unsigned part = (unsigned)(size % 100);
    if (part > 0) {
        if (part % 10 > 0)
            *--p = (char)('0' + part % 10);
        *--p = (char)('0' + part / 10);
        *--p = '.';
    }
    size /= 100;
    do
        *--p = (char)('0' + size % 10);
    while (size /= 10);
    if (hundredths < 0)
        *--p = '-';
    memmove(out, p, (size_t)(end - p));
    return (size_t)(end - p);
}

static void put_number(qk__canvas *canvas, double value)
{
    char text[32];
    put_bytes(canvas, text, spell(hundredths_of(value), text));
}

static const char *role_color(const qk__theme *t, int role)
{
    return (const char *const[]){NULL, t->background, t->ink, t->muted, t->grid, t->box}[role];
}

static void put_color(qk__canvas *canvas, const char *color)
{
    for (int i = 1; i < NUM_ROLES; i++)
        if (strcmp(color, role_color(canvas->theme, i)) == 0) {
            char mark = (char)i;
            put_bytes(canvas, &mark, 1);
            return;
        }
    put(canvas, color);
}

/* printf of its own: %n a number (double), %s text of ours, %c a colour. */
static void emit(qk__canvas *canvas, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    for (const char *p = format; *p;) {
        size_t plain = strcspn(p, "%");
        put_bytes(canvas, p, plain);
        p += plain;
        if (!*p)
            break;
        if (p[1] == 'n')
            put_number(canvas, va_arg(args, double));
        else if (p[1] == 'c')
            put_color(canvas, va_arg(args, const char *));
        else
            put(canvas, va_arg(args, const char *));
        p += 2;
    }
    va_end(args);
}

/* ---- shapes ----------------------------------------------------------------------------- */

static void put_paint(qk__canvas *canvas, qk__pen pen)
{
    if (pen.fill)
        emit(canvas, " fill=\"%c\"", pen.fill);
    else
        put(canvas, " fill=\"none\"");
    if (pen.stroke)
        emit(canvas, " stroke=\"%c\" stroke-width=\"%n\"", pen.stroke,
             pen.width * canvas->theme->line_width);
    if (pen.dashed)
        put(canvas, " stroke-dasharray=\"5 4\"");
}

static void put_pen(qk__canvas *canvas, qk__pen pen)
{
    if (!canvas->one_pen) {
        put_paint(canvas, pen);
        if (pen.opacity > 0 && pen.opacity < 1)
            emit(canvas, " opacity=\"%n\"", pen.opacity);
    }
    put(canvas, "/>\n");
}

void qk__begin_pen(qk__canvas *canvas, qk__pen pen)
{
    put(canvas, "<g stroke-linejoin=\"round\"");
    put_paint(canvas, pen);
    if (pen.opacity > 0 && pen.opacity < 1) /* of each shape, not of all together */
        emit(canvas, " fill-opacity=\"%n\" stroke-opacity=\"%n\"", pen.opacity, pen.opacity);
    put(canvas, ">\n");
    canvas->one_pen = true;
}

void qk__end_pen(qk__canvas *canvas)
{
    canvas->one_pen = false;
    put(canvas, "</g>\n");
}

void qk__draw_rect(qk__canvas *canvas, double left, double top, double width, double height,
                   qk__pen pen)
{
    if (!(width > 0) || !(height > 0))
        return;
    emit(canvas, "<rect x=\"%n\" y=\"%n\" width=\"%n\" height=\"%n\"", left, top, width,
         height);
    put_pen(canvas, pen);
}

void qk__draw_place(qk__canvas *canvas, const char *class, double left, double top,
                    double width, double height)
{
    emit(canvas,
         "<rect class=\"%s\" x=\"%n\" y=\"%n\" width=\"%n\" height=\"%n\" fill=\"none\"/>\n",
         class, left, top, width, height);
}

void qk__draw_line(qk__canvas *canvas, double x0, double y0, double x1, double y1, qk__pen pen)
{
    emit(canvas, "<path d=\"M%n %nL%n %n\"", x0, y0, x1, y1);
    put_pen(canvas, pen);
}

/* How far it is to a place from the last one, in whole hundredths, so that nothing adds up; first: of a row of such steps. */
static void put_step(qk__canvas *canvas, const long long step[2], bool first)
{
    for (int i = 0; i < 2; i++) {
        char text[32];
        const char *before = i == 0 && first ? "l" : step[i] < 0 ? "" : " ";
        put(canvas, before);
        put_bytes(canvas, text, spell(step[i], text));
    }
}

void qk__draw_path(qk__canvas *canvas, const double (*points)[2], size_t count, bool closed,
                   qk__pen pen)
{
    long long last[2] = {0, 0};
    size_t open = 0; /* points since the last gap */
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        const double *at = points[i];
        if (!isfinite(at[0]) || !isfinite(at[1])) {
            open = closed ? open : 0;
            continue;
        }
        const long long now[2] = {hundredths_of(at[0]), hundredths_of(at[1])};
        if (open == 0)
            emit(canvas, any ? "M%n %n" : "<path d=\"M%n %n", at[0], at[1]);
        else
            put_step(canvas, (const long long[2]){now[0] - last[0], now[1] - last[1]},
                     open == 1);
        memcpy(last, now, sizeof last);
        open++;
        any = true;
    }
    if (!any)
        return;
    put(canvas, closed ? "z\"" : canvas->one_pen ? "\"" : "\" stroke-linejoin=\"round\"");
    put_pen(canvas, pen);
}

/* Beside the radius of a disc of about the same area. */
#define SIDE 0.886 /* half of a square's side */
#define UP   1.15  /* of a triangle */
#define TIP  1.25  /* of a diamond */

/* A part of a path about a place, which is filled or, of rings and frames, drawn as a line. A disc is the round ends of a
 * line without length and a square a line as wide as long: few bytes. */
static void put_sign(qk__canvas *canvas, qk__sign sign, double x, double y, double r)
{
    const double side = SIDE * r, tip = TIP * r, up = UP * r, way = sign == QK__DOWN ? -1 : 1;
    switch (sign) {
    case QK__SQUARE:
        emit(canvas, "M%n %nh%n", x - side, y, 2 * side);
        break;
    case QK__FRAME:
        emit(canvas, "M%n %nh%nv%nh%nz", x - side, y - side, 2 * side, 2 * side, -2 * side);
        break;
    case QK__UP:
    case QK__DOWN:
        emit(canvas, "M%n %nl%n %nh%nz", x, y - way * up, 1.17 * up, way * 1.675 * up,
             -2.34 * up);
        break;
    case QK__DIAMOND:
        emit(canvas, "M%n %nl%n %n %n %n %n %nz", x, y - tip, tip, tip, -tip, tip, -tip, -tip);
        break;
    case QK__RING:
        emit(canvas, "M%n %na%n %n 0 1 0 %n 0a%n %n 0 1 0 %n 0", x - r, y, r, r, 2 * r, r, r,
             -2 * r);
        break;
    default:
        emit(canvas, "M%n %nh0", x, y);
    }
}

static qk__pen sign_pen(const qk__canvas *canvas, qk__sign sign, double radius,
                        const char *color, double opacity)
{
    const bool open = sign == QK__RING || sign == QK__FRAME;
    const bool line = open || sign == QK__DISC || sign == QK__SQUARE;
    const double size = (sign == QK__SQUARE ? 2 * SIDE : 2) * radius;
    return (qk__pen){.fill = line ? NULL : color,
                     .stroke = line ? color : NULL,
                     .width = open ? fmax(0.8, 0.3 * radius) : size / canvas->theme->line_width,
                     .opacity = opacity};
}

void qk__draw_signs(qk__canvas *canvas, qk__sign sign, const double (*places)[2], size_t count,
                    double radius, const char *color, double opacity)
{
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(places[i][0]) || !isfinite(places[i][1]))
            continue;
        put(canvas, any ? "" : "<path d=\"");
        put_sign(canvas, sign, places[i][0], places[i][1], radius);
        any = true;
    }
    if (!any)
        return;
    put(canvas, sign == QK__DISC ? "\" stroke-linecap=\"round\"" : "\"");
    put_pen(canvas, sign_pen(canvas, sign, radius, color, opacity));
}

/* Lines that rise from the left and lower edges, cut at the others. */
void qk__draw_hatched(qk__canvas *canvas, double left, double top, double width, double height)
{
    const double step = 5;
    if (!(width > 0) || !(height > 0))
        return;
    qk__draw_rect(canvas, left, top, width, height, (qk__pen){.fill = canvas->theme->grid});
    put(canvas, "<path d=\"");
    /* on lines x + y = a multiple of the step, so that neighbours join */
    double first = ceil((left + top + 0.01) / step) * step, end = left + width + top + height;
    int lines = (int)ceil((end - first) / step);
    for (int i = 0; i < lines; i++) {
        double at = first + i * step;
        double y0 = fmin(top + height, at - left), y1 = fmax(top, at - left - width);
        emit(canvas, "M%n %nL%n %n", at - y0, y0, at - y1, y1);
    }
    put(canvas, "\"");
    put_pen(canvas, (qk__pen){.stroke = canvas->theme->muted, .width = 0.6});
}

void qk__draw_image(qk__canvas *canvas, double left, double top, double width, double height,
                    const qk__buffer *png, bool sharp)
{
    char *data = qk__base64(png->data, png->size);
    if (!data) {
        if (canvas->status == QK_OK)
            canvas->status = qk__nomem(&canvas->err);
        return;
    }
    emit(canvas,
         "<image x=\"%n\" y=\"%n\" width=\"%n\" height=\"%n\" preserveAspectRatio=\"none\"%s "
         "xlink:href=\"data:image/png;base64,",
         left, top, width, height, sharp ? " image-rendering=\"pixelated\"" : "");
    put(canvas, data);
    put(canvas, "\"/>\n");
    free(data);
}

void qk__begin_clip(qk__canvas *canvas, double left, double top, double width, double height)
{
    emit(canvas,
         "<svg x=\"%n\" y=\"%n\" width=\"%n\" height=\"%n\" viewBox=\"%n %n %n %n\" "
         "overflow=\"hidden\" preserveAspectRatio=\"none\">\n",
         left, top, fmax(width, 0.01), fmax(height, 0.01), left, top, fmax(width, 0.01),
         fmax(height, 0.01));
}

void qk__end_clip(qk__canvas *canvas)
{
    put(canvas, "</svg>\n");
}

/* ---- texts ------------------------------------------------------------------------------ */

/* Where the line of text is: how far below its own, and how far it has to step back or on. */
typedef struct line {
    double size, down, x, begun, ended, step;
} line;

/* The beginning of a piece of text that is smaller, or in italics, or back on its line. */
static void begin_piece(qk__canvas *canvas, line *l, double down, bool small, bool italic)
{
    put(canvas, "<tspan");
    if (fabs(down - l->down) > 1e-9)
        emit(canvas, " dy=\"%n\"", down - l->down);
    if (fabs(l->step) > 1e-9)
        emit(canvas, " dx=\"%n\"", l->step);
    if (small)
        emit(canvas, " font-size=\"%n\"", QK__SMALLER * l->size);
    put(canvas, italic ? " font-style=\"italic\">" : ">");
    l->down = down;
    l->step = 0;
}

static void put_markup(qk__canvas *canvas, const char *markup, double size)
{
    line l = {.size = size};
    double down = 0;
    bool italic = false, small = false, open = false, changed = false;
    for (const char *p = markup; *p; p += qk__markup_length(p)) {
        if (*p == '<') {
            const bool sup = qk__is_tag(p, "<sup>"), sub = qk__is_tag(p, "<sub>");
            const bool ends = qk__is_tag(p, "</sup>") || qk__is_tag(p, "</sub>");
            if (sup || sub) {
                const bool below = p - markup >= 6 && qk__is_tag(p - 6, "</sup>");
                l.ended = below ? l.x : 0;
                l.begun = below ? l.begun : l.x;
                l.step += l.begun - l.x;
                l.x = l.begun;
                down = sup ? -0.38 * size : 0.2 * size;
            } else if (ends && l.ended > l.x) {
                l.step += l.ended - l.x;
                l.x = l.ended;
            }
            down = ends ? 0 : down;
            small = (small || sup || sub) && !ends;
            italic = qk__is_tag(p, "<i>") || (italic && !qk__is_tag(p, "</i>"));
            changed = true;
            continue;
        }
        if (changed) {
            put(canvas, open ? "</tspan>" : "");
            open = small || italic || fabs(down - l.down) > 1e-9 || fabs(l.step) > 1e-9;
            if (open)
                begin_piece(canvas, &l, down, small, italic);
            changed = false;
        }
        put_bytes(canvas, p, qk__markup_length(p));
        l.x += (small ? QK__SMALLER : 1) * size * qk__width_of(*p == '&' ? qk__entity(p) : p);
    }
    put(canvas, open ? "</tspan>" : "");
}

/* The middle of small letters and capitals is about a third of the size above their line. */
void qk__draw_text(qk__canvas *canvas, const char *markup, double x, double y, qk__type type)
{
    static const char *const ANCHORS[] = {"", " text-anchor=\"middle\"",
                                          " text-anchor=\"end\""};
    if (!*markup)
        return;
    emit(canvas, "<text x=\"%n\" y=\"%n\" font-size=\"%n\"%s", x, y + 0.35 * type.size,
         type.size, ANCHORS[type.anchor]);
    if (strcmp(type.color, canvas->theme->ink) != 0) /* which that of the whole is */
        emit(canvas, " fill=\"%c\"", type.color);
    if (type.turn != 0)
        emit(canvas, " transform=\"rotate(%n %n %n)\"", type.turn, x, y);
    put(canvas, ">");
    if (type.whole) {
        char *whole = qk__unmarked(type.whole), *safe = whole ? qk__escape(whole) : NULL;
        if (safe)
            emit(canvas, "<title>%s</title>", safe);
        else if (canvas->status == QK_OK)
            canvas->status = qk__nomem(&canvas->err);
        free(whole);
        free(safe);
    }
    put_markup(canvas, markup, type.size);
    put(canvas, "</text>\n");
}

/* ---- the whole -------------------------------------------------------------------------- */

/* The body with its colours. */
static qk_status put_body(const qk__canvas *canvas, bool in_page, qk__buffer *out,
                          qk_error *err)
{
    static const char *const ROLES[NUM_ROLES] = {NULL, "bg", "ink", "muted", "grid", "box"};
    const char *p = (const char *)canvas->body.data, *end = p + canvas->body.size, *from = p;
    for (; p < end; p++)
        if (*p > 0 && *p < NUM_ROLES) {
            QK_TRY(qk__buffer_append(out, from, (size_t)(p - from), err));
            QK_TRY(in_page ? qk__buffer_printf(out, err, "var(--fig-%s)", ROLES[(int)*p])
                           : qk__buffer_printf(out, err, "%s", role_color(canvas->theme, *p)));
            from = p + 1;
        }
    return from < end ? qk__buffer_append(out, from, (size_t)(end - from), err) : QK_OK;
}

/* The element that holds all, its size in the words of `size`, and its ground. */
static qk_status put_whole(const qk__canvas *canvas, double width, double height,
                           const char *size, bool in_page, qk__buffer *out, qk_error *err)
{
    if (canvas->status != QK_OK) {
        if (err)
            *err = canvas->err;
        return canvas->status;
    }
    qk__canvas ground = {.theme = canvas->theme, .status = QK_OK};
    emit(
        &ground,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\""
        "%s viewBox=\"0 0 %n %n\" font-family=\"sans-serif\" fill=\"%c\" "
        "xml:space=\"preserve\">\n",
        size, width, height, canvas->theme->ink);
    qk__draw_rect(&ground, 0, 0, width, height, (qk__pen){.fill = canvas->theme->background});
    qk_status status =
        ground.status == QK_OK ? put_body(&ground, in_page, out, err) : qk__nomem(err);
    qk__canvas_free(&ground);
    if (status == QK_OK)
        status = put_body(canvas, in_page, out, err);
    return status == QK_OK ? qk__buffer_append(out, "</svg>\n", 7, err) : status;
}

qk_status qk__canvas_write(const qk__canvas *canvas, double width, double height,
                           double millimetres, qk__buffer *out, qk_error *err)
{
    char wide[32], high[32], size[128];
    const double scale = millimetres > 0 ? millimetres / width : 1;
    wide[spell(hundredths_of(millimetres > 0 ? millimetres : width), wide)] = 0;
    high[spell(hundredths_of(scale * height), high)] = 0;
    const char *unit = millimetres > 0 ? "mm" : "";
    snprintf(size, sizeof size, " width=\"%s%s\" height=\"%s%s\"", wide, unit, high, unit);
    return put_whole(canvas, width, height, size, false, out, err);
}

qk_status qk__canvas_write_in_page(const qk__canvas *canvas, double width, double height,
                                   const char *label, qk__buffer *out, qk_error *err)
{
    char *safe = qk__escape(label);
    char *size = safe ? qk__format(" role=\"img\" aria-label=\"%s\"", safe) : NULL;
    qk_status status =
        size ? put_whole(canvas, width, height, size, true, out, err) : qk__nomem(err);
    free(safe);
    free(size);
    return status;
}
