/* SPDX-License-Identifier: Apache-2.0 */
/* Puts a figure together: lines of its script, texts quoted for gnuplot, rows of numbers. */
#include "figure/figure.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

/* Characters shown of a text from outside: in a line of its own, as a label on an axis, in a
 * line of a heading. */
enum { MAX_SHOWN = 60, MAX_LABEL = 32, MAX_LINE = 200 };
/* Bytes that one character may take in a script. */
enum { MAX_ESCAPED = 12 };
#define SEPARATOR "\xe2\x80\x8b" /* zero-width space */

/* A text as the script has it: a literal, or the name of a variable that holds the literal and,
 * in pictures, another one without the characters that no font here has. */
struct qk__text {
    struct qk__text *next;
    char name[16]; /* "" = the literal serves every format */
    char literal[MAX_ESCAPED * MAX_LINE + 8];
    char drawable[MAX_ESCAPED * MAX_LINE + 8];
};

void qk__figure_init(qk__figure *figure, const char *name, const qk__theme *theme, int width,
                     int height)
{
    *figure = (qk__figure){.theme = theme, .width = width, .height = height, .status = QK_OK};
    figure->plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (!figure->plain)
        figure->status = qk__nomem(&figure->err);
    snprintf(figure->name, sizeof figure->name, "%s", name);
}

void qk__figure_free(qk__figure *figure)
{
    if (figure->plain)
        freelocale(figure->plain);
    figure->plain = (locale_t)0;
    qk__glyphs_free(&figure->glyphs);
    qk__buffer_free(&figure->script);
    qk__buffer_free(&figure->raster);
    qk__buffer_free(&figure->note);
    qk__buffer_free(&figure->data);
    qk__arena_free(&figure->memory);
}

void qk__figure_set_page(qk__figure *figure, const qk_figure_settings *settings)
{
    figure->no_title = settings->no_title;
    figure->no_legend = settings->no_legend;
    figure->symbols = settings->symbols;
    if (settings->width <= 0)
        return;
    figure->millimetres = settings->width;
    figure->width = (int)lround(settings->width / 25.4 * 100); /* 100 pixels are an inch */
}

void *qk__figure_alloc(qk__figure *figure, size_t count, size_t size)
{
    void *memory = qk__arena_alloc(&figure->memory, count, size);
    if (!memory && figure->status == QK_OK)
        figure->status = qk__nomem(&figure->err);
    return memory;
}

static void add_formatted(qk__figure *figure, qk__buffer *to, const char *fmt, va_list args)
{
    if (figure->status != QK_OK)
        return;
    locale_t before = uselocale(figure->plain);
    char small[512];
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(small, sizeof small, fmt, args);
    if (length < 0) {
        figure->status = qk__fail(&figure->err, QK_ERR_ARGUMENT, "cannot format text");
    } else if ((size_t)length < sizeof small) {
        figure->status = qk__buffer_append(to, small, (size_t)length, &figure->err);
    } else {
        figure->status = qk__buffer_reserve(to, to->size + (size_t)length + 1, &figure->err);
        if (figure->status == QK_OK) {
            vsnprintf((char *)to->data + to->size, (size_t)length + 1, fmt, again);
            to->size += (size_t)length;
        }
    }
    va_end(again);
    uselocale(before);
}

void qk__figure_print(qk__figure *figure, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_formatted(figure, &figure->script, fmt, args);
    va_end(args);
}

static size_t put_bytes(char *out, const char *text)
{
    return (size_t)(stpcpy(out, text) - out);
}

/* One ASCII character as gnuplot 5.4 shows it inside single quotes; "{}" is an empty group.
 * - A quote is doubled, and one that follows another needs a group between: ''''x' is taken for
 *   two strings.
 * - A backslash is written by its code: doubled, it would stay double for the cairo terminals
 *   in a string without other markup.
 * - "\U+41" would be a character again, and "]]>" must not stand in XML text, where gnuplot
 *   leaves '>' as it is: a zero-width space keeps them apart.
 * - A tic label with a '%' is a format, and is cut off after 50 bytes; its code is not one. */
static size_t put_ascii(char *out, const char *text, bool percent)
{
    char c = text[0];
    char escaped[] = {'\\', c, '\0'};
    if (c == '\'')
        return put_bytes(out, out[-1] == '\'' ? "{}''" : "''");
    if (c == '\\')
        return put_bytes(out,
                         strncmp(text, "\\U+", 3) == 0 ? "\\U+005C{}" SEPARATOR : "\\U+005C{}");
    if (c == '>' && out[-1] == ']' && out[-2] == ']')
        return put_bytes(out, SEPARATOR ">");
    if (c == '%' && percent)
        return put_bytes(out, "\\U+0025{}");
    return put_bytes(out, strchr("{}^_@&~", c) ? escaped : escaped + 1);
}

/* The literal of at most limit characters; with glyphs, those that cannot be drawn become '?'
 * and *all_drawable false. */
static void write_literal(char *out, const char *text, int limit, bool percent,
                          qk__glyphs *glyphs, bool *all_drawable)
{
    *out++ = '\'';
    for (int shown = 0; *text && shown < limit; shown++) {
        size_t size, length;
        const char *character = qk__utf8_shown(&text, &size);
        uint32_t code = qk__utf8_read((const uint8_t *)character, &length);
        if (glyphs && !qk__glyphs_have(glyphs, code)) {
            *out++ = '?';
            *all_drawable = false;
        } else if (size == 1) {
            out += put_ascii(out, character, percent);
        } else {
            memcpy(out, character, size);
            out += size;
        }
    }
    if (*text)
        out += put_bytes(out, "\xe2\x80\xa6");
    *out++ = '\'';
    *out = '\0';
}

static struct qk__text *keep_text(qk__figure *figure)
{
    struct qk__text *kept = qk__figure_alloc(figure, 1, sizeof *kept);
    if (kept) {
        kept->next = figure->texts;
        figure->texts = kept;
    }
    return kept;
}

const char *qk__figure_keep(qk__figure *figure, const char *expression)
{
    struct qk__text *kept = keep_text(figure);
    if (!kept)
        return "''";
    snprintf(kept->literal, sizeof kept->literal, "%s", expression);
    return kept->literal;
}

static const char *quote_text(qk__figure *figure, const char *text, int limit, bool percent)
{
    struct qk__text *kept = keep_text(figure);
    if (!kept)
        return "''";
    bool all_drawable = true;
    write_literal(kept->literal, text, limit, percent, NULL, NULL);
    write_literal(kept->drawable, text, limit, percent, &figure->glyphs, &all_drawable);
    if (all_drawable)
        return kept->literal;
    snprintf(kept->name, sizeof kept->name, "text%zu", ++figure->num_named);
    return kept->name;
}

qk_status qk__figure_define_texts(const qk__figure *figure, qk__buffer *script, qk_error *err)
{
    for (const struct qk__text *text = figure->texts; text; text = text->next)
        if (text->name[0])
            QK_TRY(qk__buffer_printf(script, err, "%s = format eq 'svg' ? %s : %s\n",
                                     text->name, text->literal, text->drawable));
    return QK_OK;
}

const char *qk__figure_quote(qk__figure *figure, const char *text)
{
    return quote_text(figure, text, MAX_SHOWN, false);
}

const char *qk__figure_quote_line(qk__figure *figure, const char *text)
{
    return quote_text(figure, text, MAX_LINE, false);
}

const char *qk__figure_tic(qk__figure *figure, const char *text)
{
    return quote_text(figure, text, MAX_LABEL, true);
}

void qk__figure_words(qk__figure *figure, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_formatted(figure, &figure->data, fmt, args);
    va_end(args);
}

void qk__figure_value(qk__figure *figure, double value)
{
    if (isfinite(value))
        qk__figure_words(figure, "%.6g ", value);
    else
        qk__figure_words(figure, "NaN ");
}

void qk__figure_add_values(qk__figure *figure, const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        qk__figure_value(figure, values[i]);
}

void qk__figure_end_row(qk__figure *figure)
{
    if (figure->data.size > 0 && figure->data.data[figure->data.size - 1] == ' ')
        figure->data.size--;
    qk__figure_words(figure, "\n");
}

/* gnuplot complains of a block without numbers, and a complaint is a failure. */
static void fill_block(qk__figure *figure)
{
    const qk__buffer *data = &figure->data;
    if (data->size == 0 ||
        (data->size >= 3 && memcmp(data->data + data->size - 3, "\n\n\n", 3) == 0))
        qk__figure_words(figure, "NaN NaN NaN NaN NaN NaN\n");
}

size_t qk__figure_end_block(qk__figure *figure)
{
    fill_block(figure);
    qk__figure_words(figure, "\n\n");
    return figure->num_blocks++;
}

/* ---- what several figures draw ---------------------------------------------------------- */

void qk__figure_vertical(qk__figure *figure, double x)
{
    qk__figure_print(
        figure, "set arrow from first %g, graph 0 to first %g, graph 1 nohead back ls 103\n", x,
        x);
}

void qk__figure_horizontal(qk__figure *figure, double y)
{
    qk__figure_print(
        figure, "set arrow from graph 0, first %g to graph 1, first %g nohead back ls 103\n", y,
        y);
}

static void swap_scripts(qk__figure *figure)
{
    qk__buffer script = figure->script;
    figure->script = figure->raster;
    figure->raster = script;
}

void qk__figure_begin_raster(qk__figure *figure, bool pdf)
{
    figure->raster_pdf = pdf;
    swap_scripts(figure);
}

void qk__figure_end_raster(qk__figure *figure)
{
    swap_scripts(figure);
}

void qk__figure_show_raster(qk__figure *figure)
{
    if (figure->raster.size == 0)
        return;
    qk__figure_print(
        figure,
        "if (raster) {\n"
        "  set border 0; unset xtics; unset ytics; set xrange [0:1]; set yrange [0:1]\n"
        "  set lmargin at screen 0; set rmargin at screen 1\n"
        "  set tmargin at screen 1; set bmargin at screen 0\n"
        "  plot data.'.png' binary filetype=png origin=(0.5/raster_w,0.5/raster_h) "
        "dx=1.0/raster_w dy=1.0/raster_h with rgbimage\n"
        "  set border 3\n"
        "  set xtics nomirror out scale 0.5 tc rgb '%s'\n"
        "  set ytics nomirror out scale 0.5 offset 0,mid tc rgb '%s'\n"
        "}\n",
        figure->theme->ink, figure->theme->ink);
}
