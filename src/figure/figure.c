/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a figure: its memory, its texts, the rows of its numbers. */
#include "figure/figure.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "draw/text.h"

void qk__figure_init(qk__figure *figure, const char *name, const qk__theme *theme, int width,
                     int height)
{
    *figure = (qk__figure){.theme = theme, .width = width, .height = height, .status = QK_OK};
    qk__canvas_init(&figure->canvas, theme);
    snprintf(figure->name, sizeof figure->name, "%s", name);
}

void qk__figure_free(qk__figure *figure)
{
    qk__canvas_free(&figure->canvas);
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

void qk__figure_fail(qk__figure *figure, qk_status status, const qk_error *err)
{
    if (figure->status != QK_OK || status == QK_OK)
        return;
    figure->status = status;
    figure->err = *err;
}

static void fail_memory(qk__figure *figure)
{
    qk_error err;
    qk_status status = qk__nomem(&err);
    qk__figure_fail(figure, status, &err);
}

void *qk__figure_alloc(qk__figure *figure, size_t count, size_t size)
{
    void *memory = qk__arena_alloc(&figure->memory, count, size);
    if (!memory)
        fail_memory(figure);
    return memory;
}

/* Takes the text, NULL without memory, into the figure's memory. */
static const char *keep(qk__figure *figure, char *text)
{
    char *kept = text ? qk__arena_strdup(&figure->memory, text) : NULL;
    free(text);
    if (!kept)
        fail_memory(figure);
    return kept ? kept : "";
}

const char *qk__figure_escape(qk__figure *figure, const char *text)
{
    return keep(figure, qk__escape(text));
}

const char *qk__figure_format(qk__figure *figure, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = length >= 0 ? qk__calloc((size_t)length + 1, 1) : NULL;
    va_start(args, fmt);
    if (text)
        vsnprintf(text, (size_t)length + 1, fmt, args);
    va_end(args);
    return keep(figure, text);
}

/* ---- rows ------------------------------------------------------------------------------- */

static qk_status put_text_field(qk__buffer *out, const char *markup, char separator,
                                qk_error *err)
{
    char *plain = markup ? qk__unmarked(markup) : NULL;
    qk_status status = markup && !plain ? qk__nomem(err)
                                        : qk__csv_text(out, plain ? plain : "", separator, err);
    free(plain);
    return status;
}

static qk_status put_place(qk__buffer *out, const char *name, double number, qk_error *err)
{
    return name ? put_text_field(out, name, ',', err) : qk__csv_number(out, number, ',', err);
}

static qk_status put_row(qk__buffer *out, const qk__told *row, qk_error *err)
{
    if (out->size == 0)
        QK_TRY(qk__buffer_printf(out, err, QK__DATA_HEADER));
    QK_TRY(put_text_field(out, row->panel, ',', err));
    QK_TRY(put_text_field(out, row->series, ',', err));
    QK_TRY(put_place(out, row->x_name, row->x, err));
    QK_TRY(put_place(out, row->y_name, row->y, err));
    QK_TRY(qk__csv_number(out, row->low, ',', err));
    QK_TRY(qk__csv_number(out, row->high, ',', err));
    return qk__csv_number(out, row->value, '\n', err);
}

void qk__tell(qk__figure *figure, const qk__told *row)
{
    if (figure->status == QK_OK)
        figure->status = put_row(&figure->data, row, &figure->err);
}

void qk__tell_point(qk__figure *figure, const char *panel, const char *series, double x,
                    double y)
{
    qk__tell_range(figure, panel, series, x, y, NAN, NAN);
}

void qk__tell_range(qk__figure *figure, const char *panel, const char *series, double x,
                    double y, double low, double high)
{
    qk__tell(figure, &(qk__told){panel, series, NULL, NULL, x, y, low, high, NAN});
}
