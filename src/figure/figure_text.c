/* SPDX-License-Identifier: Apache-2.0 */
/* Measures texts of a figure, breaks them into lines, and places them. */
#include "figure/figure_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "draw/text.h"

#define CHARACTER_WIDTH 0.58 /* width of a character over its size, about */
#define LABEL_PART      0.3  /* share of the page that labels of models take at most */
enum { MAX_LABEL = 32 };     /* characters of a label */

double qk__em(const qk__figure *figure)
{
    return figure->theme->font_size / 13;
}

double qk__small_type(const qk__figure *figure)
{
    return QK__SMALL * figure->theme->font_size;
}

double qk__text_width(const qk__figure *figure, size_t characters)
{
    return (double)characters * CHARACTER_WIDTH * qk__small_type(figure);
}

double qk__markup_width(const qk__figure *figure, const char *markup)
{
    return qk__measure(markup, qk__small_type(figure));
}

double qk__plain_width(const qk__figure *figure, const char *text)
{
    char *markup = qk__escape(text);
    double width = markup ? qk__markup_width(figure, markup) : 0;
    free(markup);
    return width;
}

/* ---- texts that were cut ---------------------------------------------------------------- */

struct qk__cut {
    struct qk__cut *next;
    const char *markup, *whole;
};

static void remember(qk__figure *figure, const char *markup, const char *text)
{
    struct qk__cut *cut = qk__figure_alloc(figure, 1, sizeof *cut);
    if (cut) {
        *cut = (struct qk__cut){figure->cuts, markup, qk__figure_escape(figure, text)};
        figure->cuts = cut;
    }
}

const char *qk__whole_of(const qk__figure *figure, const char *markup)
{
    for (const struct qk__cut *cut = figure->cuts; cut; cut = cut->next)
        if (cut->markup == markup)
            return cut->whole;
    return NULL;
}

const char *qk__brief(qk__figure *figure, const char *text, double width)
{
    char shown[QK__LINE_SIZE];
    qk__cut_in_middle(text, fmax(width / qk__small_type(figure), 2), 0.5, shown, sizeof shown);
    const char *markup = qk__figure_escape(figure, shown);
    if (strcmp(shown, text) != 0)
        remember(figure, markup, text);
    return markup;
}

static void cut_labels(qk__figure *figure, const qk__results *results)
{
    const size_t count = results->num_models;
    const char **texts = qk__figure_alloc(figure, count + 1, sizeof *texts);
    figure->labels = qk__figure_alloc(figure, count + 1, sizeof *figure->labels);
    for (size_t m = 0; figure->labels && m < count; m++)
        figure->labels[m] = "";
    if (!texts || !figure->labels)
        return;
    for (size_t m = 0; m < count; m++)
        texts[m] = results->models[m].label;
    double room = fmin(qk__text_width(figure, MAX_LABEL), LABEL_PART * figure->width);
    char **cut = qk__cut_alike(texts, count, room / qk__small_type(figure));
    for (size_t m = 0; cut && m < count; m++) {
        figure->labels[m] = qk__figure_escape(figure, cut[m]);
        if (strcmp(cut[m], texts[m]) != 0)
            remember(figure, figure->labels[m], texts[m]);
    }
    free(cut);
}

const char *qk__model_label(qk__figure *figure, const qk__results *results,
                            const qk__result_model *model)
{
    if (!figure->labels)
        cut_labels(figure, results);
    return figure->labels ? figure->labels[model - results->models] : "";
}

double qk__longest_label(qk__figure *figure, const qk__results *results)
{
    double longest = 0;
    qk__each_model (results, model)
        longest =
            fmax(longest, qk__markup_width(figure, qk__model_label(figure, results, model)));
    return longest;
}

/* ---- lines ------------------------------------------------------------------------------ */

/* Bytes and width of the character or tag at a place, in parts of the size; a tag has no width. */
static size_t step_of(const char *at, bool markup, double *width)
{
    size_t size;
    const char *next = at;
    if (markup) {
        *width = *at == '<' ? 0 : qk__width_of(*at == '&' ? qk__entity(at) : at);
        return qk__markup_length(at);
    }
    *width = qk__width_of(qk__utf8_shown(&next, &size));
    return (size_t)(next - at);
}

/* How much of the text fits in a line: up to the last space; without a space, up to the last hyphen or the like; else
 * as much as fits. */
static size_t line_length(const char *text, bool markup, double room)
{
    size_t at = 0, space = 0, hyphen = 0;
    for (double shown = 0, one; text[at];) {
        size_t next = at + step_of(text + at, markup, &one);
        shown += one;
        if (text[at] == ' ')
            space = at;
        else if (shown > room)
            return space > 0 ? space : hyphen > 0 ? hyphen : at > 0 ? at : next;
        if (!markup && strchr("-_/.:", text[at]) && at > 1)
            hyphen = next;
        at = next;
    }
    return at;
}

void qk__break_lines(const char *text, bool markup, double width, double size, size_t most,
                     qk__lines *lines)
{
    const double room = fmax(width / size, 2);
    lines->count = 0;
    most = most < QK__MAX_LINES ? most : QK__MAX_LINES;
    while (*text && lines->count < most) {
        char *line = lines->text[lines->count++];
        size_t length = line_length(text, markup, room);
        if (lines->count == most && text[length]) {
            if (markup)
                snprintf(line, QK__LINE_SIZE, "%s", text);
            else
                qk__cut_in_middle(text, room, 0.5, line, QK__LINE_SIZE);
            return;
        }
        length = length < QK__LINE_SIZE ? length : QK__LINE_SIZE - 1;
        snprintf(line, QK__LINE_SIZE, "%.*s", (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
}

/* ---- in a figure ----------------------------------------------------------------------- */

void qk__put_sized(qk__figure *figure, const char *markup, double x, double y, unsigned how,
                   double size)
{
    const bool muted = how & (QK__NOTE | QK__MUTED);
    const qk__type type = {.size = size * figure->theme->font_size,
                           .color = muted ? figure->theme->muted : figure->theme->ink,
                           .anchor = how & QK__RIGHT_OF  ? QK__START
                                     : how & QK__LEFT_OF ? QK__END
                                                         : QK__MIDDLE,
                           .turn = how & QK__TURNED ? -90 : 0,
                           .whole = qk__whole_of(figure, markup)};
    qk__draw_text(&figure->canvas, markup, x, y, type);
}

void qk__put_text(qk__figure *figure, const char *markup, double x, double y, unsigned how)
{
    qk__put_sized(figure, markup, x, y, how, how & (QK__NOTE | QK__SMALL_TYPE) ? QK__SMALL : 1);
}

void qk__put_markup(qk__figure *figure, const char *markup, double x, double y, unsigned how)
{
    char label[QK__LINE_SIZE];
    qk__put_text(figure, how & QK__NOTE ? markup : qk__in_symbols(figure, markup, label), x, y,
                 how);
}
