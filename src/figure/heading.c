/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the heading of a figure, in lines that fit its width. */
#include "figure/heading.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "figure/panels.h"

/* Pixels at type of 13: the middle of the first line, lines of the title and of the subject, and
 * what is left free below. */
enum { FIRST = 15, TITLE_LINE = 18, SUBJECT_LINE = 14, REST = 19, MOST_LINES = 4 };
#define TITLE_SIZE 1.1 /* of type, beside the theme's */

/* ---- lines ------------------------------------------------------------------------------ */

/* Where a text is read: what is shown up to here, and inside how many braces of markup. */
typedef struct place {
    const char *at;
    size_t shown;
    int depth;
    bool command; /* between "{/" and the space after it */
} place;

static void step(place *p, bool markup)
{
    char c = *p->at;
    char one[] = {c, '\0'};
    bool hidden = false;
    if (markup) {
        hidden = p->command || strchr("{}_^", c);
        p->depth += c == '{' ? 1 : c == '}' ? -1 : 0;
        p->command = (p->command && c != ' ') || (c == '{' && p->at[1] == '/');
    }
    if (!hidden)
        p->shown += qk__count_columns(one);
    p->at++;
}

/* How much of the text one line takes: up to the last space before it is too long; where there
 * is none, up to the last hyphen or the like; else up to there. */
static size_t line_length(const char *text, bool markup, size_t room)
{
    place p = {text, 0, 0, false};
    size_t length = 0, space = 0, hyphen = 0;
    while (*p.at) {
        bool breaks = *p.at == ' ' && p.depth == 0;
        if (breaks)
            space = (size_t)(p.at - text);
        step(&p, markup);
        if (p.shown > room && !breaks)
            return space > 0 ? space : hyphen > 0 ? hyphen : length > 0 ? length : 1;
        if (((unsigned char)*p.at & 0xc0) != 0x80 && p.depth == 0)
            length = (size_t)(p.at - text);
        if (!markup && strchr("-_/.:", p.at[-1]) && p.shown > 2)
            hyphen = (size_t)(p.at - text);
    }
    return strlen(text);
}

void qk__break_lines(const char *text, bool markup, size_t room, size_t most, qk__lines *lines)
{
    lines->count = 0;
    room = room > 2 ? room : 2;
    most = most < QK__MAX_LINES ? most : QK__MAX_LINES;
    while (*text && lines->count < most) {
        char *line = lines->text[lines->count++];
        size_t length = line_length(text, markup, room);
        if (lines->count == most && text[length]) {
            if (markup)
                snprintf(line, QK__LINE_SIZE, "%s", text);
            else
                qk__shorten(text, room, line, QK__LINE_SIZE);
            return;
        }
        snprintf(line, QK__LINE_SIZE, "%.*s", (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
}

/* ---- headings --------------------------------------------------------------------------- */

static void set(qk__figure *figure, const qk__results *results, const qk__result_model *model,
                const char *title, bool plain)
{
    if (!model && results->num_models == 1)
        model = &results->models[0];
    const char *label = model ? model->label : "";
    bool same = strcmp(results->title, label) == 0;
    snprintf(figure->heading.title, sizeof figure->heading.title, "%s", title);
    snprintf(figure->heading.subject, sizeof figure->heading.subject, "%s%s%s",
             same ? "" : results->title, *label && *results->title && !same ? " · " : "",
             label);
    figure->heading.plain = plain;
}

void qk__set_heading(qk__figure *figure, const qk__results *results,
                     const qk__result_model *model, const char *title)
{
    set(figure, results, model, title, false);
}

void qk__set_plain_heading(qk__figure *figure, const qk__results *results, const char *title)
{
    set(figure, results, NULL, title, true);
}

static void break_heading(const qk__figure *figure, qk__lines *title, qk__lines *subject)
{
    double room = (figure->width - 24 * qk__em(figure)) / qk__text_width(figure, 1);
    double large = room * QK__SMALL / TITLE_SIZE;
    qk__break_lines(figure->heading.title, !figure->heading.plain, (size_t)fmax(large, 2),
                    MOST_LINES, title);
    qk__break_lines(figure->heading.subject, false, (size_t)fmax(room, 2), MOST_LINES, subject);
}

double qk__heading_height(const qk__figure *figure)
{
    qk__lines title = {.count = 1}, subject = {.count = 1};
    if (*figure->heading.title)
        break_heading(figure, &title, &subject);
    return (FIRST + REST + TITLE_LINE * ((double)title.count - 1) +
            SUBJECT_LINE * (double)subject.count) *
           qk__em(figure);
}

void qk__put_heading(qk__figure *figure)
{
    const double em = qk__em(figure);
    double y = FIRST * em;
    qk__lines title, subject;
    break_heading(figure, &title, &subject);
    for (size_t i = 0; i < title.count; i++, y += TITLE_LINE * em) {
        const char *plain =
            figure->heading.plain ? qk__figure_quote_line(figure, title.text[i]) : NULL;
        qk__figure_print(figure,
                         "set label %s%s%s at screen 0.5,%.5f center offset 0,mid tc rgb '%s' "
                         "font sprintf(',%%g', %g*size)\n",
                         plain ? "" : "'", plain ? plain : title.text[i], plain ? "" : "'",
                         1 - y / figure->height, figure->theme->ink, TITLE_SIZE);
    }
    y += (SUBJECT_LINE - TITLE_LINE + 3) * em;
    for (size_t i = 0; i < subject.count; i++, y += SUBJECT_LINE * em)
        qk__put_text(figure, qk__figure_quote_line(figure, subject.text[i]),
                     figure->width / 2.0, y, true);
}
