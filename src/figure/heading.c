/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the heading of a figure, in lines that fit its width. */
#include "figure/heading.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "figure/figure_text.h"

/* Pixels at type of 13: the middle of the first line, lines of the title and of the subject, and the free space below. */
enum { FIRST = 15, TITLE_LINE = 18, SUBJECT_LINE = 14, REST = 19, MOST_LINES = 4, NONE = 8 };
#define TITLE_SIZE 1.1 /* size of type over the theme's */

void qk__set_heading(qk__figure *figure, const qk__results *results,
                     const qk__result_model *model, const char *title)
{
    if (!model && results->num_models == 1)
        model = &results->models[0];
    const char *label = model ? model->label : "";
    bool same = results->num_models == 1 ? strstr(results->title, label) != NULL
                                         : strcmp(results->title, label) == 0;
    qk__utf8_print(figure->heading.title, sizeof figure->heading.title, "%s", title);
    qk__utf8_print(figure->heading.subject, sizeof figure->heading.subject, "%s%s%s",
                   results->title, *label && *results->title && !same ? " · " : "",
                   same ? "" : label);
}

void qk__tell_pooled(qk__figure *figure, const qk__results *results, size_t models)
{
    char *subject = figure->heading.subject;
    size_t length = strlen(subject);
    const char *words = results->checkpoints ? "checkpoints" : "models";
    char shown[40] = "all";
    if (models < results->num_models)
        snprintf(shown, sizeof shown, "%zu of", models);
    if (results->num_models > 1)
        qk__utf8_print(subject + length, sizeof figure->heading.subject - length,
                       "%sheads of %s %zu %s", length ? " · " : "", shown, results->num_models,
                       words);
}

void qk__set_own_heading(qk__figure *figure, const char *title, const char *subject)
{
    const char *below = title && subject ? subject : "";
    qk__utf8_print(figure->heading.title, sizeof figure->heading.title, "%s",
                   title     ? title
                   : subject ? subject
                             : "");
    qk__utf8_print(figure->heading.subject, sizeof figure->heading.subject, "%s", below);
    figure->heading.plain = title != NULL;
    figure->heading.ours = true;
}

static void break_heading(const qk__figure *figure, qk__lines *title, qk__lines *subject)
{
    title->count = subject->count = 0;
    if (figure->no_title)
        return;
    const double room = figure->width - 24 * qk__em(figure), size = figure->theme->font_size;
    qk__break_lines(figure->heading.title, !figure->heading.plain, room, TITLE_SIZE * size,
                    MOST_LINES, title);
    qk__break_lines(figure->heading.subject, figure->heading.ours, room, qk__small_type(figure),
                    MOST_LINES, subject);
}

double qk__heading_height(const qk__figure *figure)
{
    qk__lines title, subject;
    break_heading(figure, &title, &subject);
    if (title.count == 0)
        return NONE * qk__em(figure);
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
    for (size_t i = 0; i < title.count; i++, y += TITLE_LINE * em)
        qk__put_sized(figure,
                      figure->heading.plain ? qk__figure_escape(figure, title.text[i])
                                            : title.text[i],
                      figure->width / 2.0, y, QK__CENTRED, TITLE_SIZE);
    y += (SUBJECT_LINE - TITLE_LINE + 3) * em;
    for (size_t i = 0; i < subject.count; i++, y += SUBJECT_LINE * em)
        if (figure->heading.ours)
            qk__put_markup(figure, subject.text[i], figure->width / 2.0, y, QK__NOTE);
        else
            qk__put_text(figure, qk__figure_escape(figure, subject.text[i]),
                         figure->width / 2.0, y, QK__NOTE);
}
