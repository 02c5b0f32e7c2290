/* SPDX-License-Identifier: Apache-2.0 */
/* Measures texts of a figure, breaks them into lines, and puts them into places. */
#include "figure/figure_text.h"

#include <stdio.h>
#include <string.h>

#define CHARACTER_WIDTH 0.58 /* of a character beside its size */

double qk__em(const qk__figure *figure)
{
    return figure->theme->font_size / 13;
}

double qk__text_width(const qk__figure *figure, size_t characters)
{
    return (double)characters * CHARACTER_WIDTH * QK__SMALL * figure->theme->font_size;
}

/* Places that the character beginning with this byte takes in a line: Chinese, Japanese and
 * Korean take two. */
static size_t columns_of_character(unsigned char lead)
{
    return (lead & 0xc0) == 0x80 ? 0 : (lead >= 0xe3 && lead <= 0xed) || lead >= 0xf0 ? 2 : 1;
}

size_t qk__count_columns(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += columns_of_character((unsigned char)*text);
    return count;
}

void qk__shorten(const char *text, size_t limit, char *out, size_t size)
{
    bool cut = qk__count_columns(text) > limit;
    size_t keep = cut ? limit - 1 : limit, length = 0, count = 0;
    for (; text[length] && length + 4 < size; length++) {
        count += columns_of_character((unsigned char)text[length]);
        if (count > keep)
            break;
        out[length] = text[length];
    }
    snprintf(out + length, size - length, "%s", cut ? "\xe2\x80\xa6" : "");
}

const char *qk__brief(qk__figure *figure, const char *text, int limit)
{
    char shown[256];
    qk__shorten(text, limit > 1 ? (size_t)limit : 1, shown, sizeof shown);
    return qk__figure_quote(figure, shown);
}

/* ---- lines ------------------------------------------------------------------------------ */

/* Where a text is read: what is shown up to here, and inside how many braces of markup. */
typedef struct place {
    const char *at;
    size_t shown;
    int depth;
    bool command; /* between "{/" and the space after it */
} place;

static void read_on(place *p, bool markup)
{
    char c = *p->at;
    char one[] = {c, '\0'};
    bool hidden = false;
    if (markup) {
        hidden = p->command || strchr("{}_^@", c);
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
        read_on(&p, markup);
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

/* ---- in a figure ----------------------------------------------------------------------- */

void qk__put_text(qk__figure *figure, const char *text, double x, double y, unsigned how)
{
    const bool small = how & (QK__NOTE | QK__SMALL_TYPE), muted = how & (QK__NOTE | QK__MUTED);
    qk__figure_print(figure, "set label %s at screen %.5f,%.5f %s %s tc rgb '%s'%s\n", text,
                     x / figure->width, 1 - y / figure->height,
                     how & QK__RIGHT_OF  ? "left"
                     : how & QK__LEFT_OF ? "right"
                                         : "center",
                     how & QK__TURNED ? "rotate" : "offset 0,mid",
                     muted ? figure->theme->muted : figure->theme->ink,
                     small ? " font small" : "");
}

void qk__put_markup(qk__figure *figure, const char *markup, double x, double y, unsigned how)
{
    char text[QK__LINE_SIZE], label[QK__LINE_SIZE];
    snprintf(text, sizeof text, "'%s'",
             how & QK__NOTE ? markup : qk__in_symbols(figure, markup, label));
    qk__put_text(figure, text, x, y, how);
}
