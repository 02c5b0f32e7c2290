/* SPDX-License-Identifier: Apache-2.0 */
/* Measures texts, cuts them, and makes markup of plain text and plain text of markup. */
#include "draw/text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define ELLIPSIS "\xe2\x80\xa6"

/* Hundredths of the size: DejaVu Sans, from the space on, and from U+00A0 on. */
static const uint8_t ASCII[] = {32,  41, 46, 84, 64, 96, 78, 28, 40, 40, 50, 84, 32, 37, 32, 34,
                                64,  64, 64, 64, 64, 64, 64, 64, 64, 64, 34, 34, 84, 84, 84, 54,
                                100, 69, 69, 70, 78, 64, 58, 78, 76, 30, 30, 66, 56, 87, 75, 79,
                                61,  79, 70, 64, 62, 74, 69, 99, 69, 62, 69, 40, 34, 40, 84, 50,
                                50,  62, 64, 55, 64, 62, 36, 64, 64, 28, 28, 58, 28, 98, 64, 62,
                                64,  64, 42, 53, 40, 64, 60, 82, 60, 60, 53, 64, 34, 64, 84};
static const uint8_t LATIN[] = {
    32, 41, 64, 64, 64, 64, 34, 50, 50, 100, 48, 62, 84, 37, 100, 50, 50, 84, 41, 41,
    50, 64, 64, 32, 50, 41, 48, 62, 97, 97,  97, 54, 69, 69, 69,  69, 69, 69, 98, 70,
    64, 64, 64, 64, 30, 30, 30, 30, 78, 75,  79, 79, 79, 79, 79,  84, 79, 74, 74, 74,
    74, 62, 61, 63, 62, 62, 62, 62, 62, 62,  99, 55, 62, 62, 62,  62, 28, 28, 28, 28,
    62, 64, 62, 62, 62, 62, 62, 84, 62, 64,  64, 64, 64, 60, 64,  60};

/* Signs above and below others, joiners, marks of direction. */
static bool is_nothing(uint32_t c)
{
    return (c >= 0x300 && c < 0x370) || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x202a && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) ||
           (c >= 0xfe00 && c <= 0xfe0f) || c == 0xfeff;
}

double qk__width_of(const char *character)
{
    size_t length;
    uint32_t c = qk__utf8_read((const uint8_t *)character, &length);
    if (c >= 0x20 && c < 0x7f)
        return ASCII[c - 0x20] / 100.0;
    if (c >= 0xa0 && c < 0x100)
        return LATIN[c - 0xa0] / 100.0;
    if (is_nothing(c))
        return 0;
    if (c >= 0x1100 && (c >= 0xfb00 || c < 0x1200 || (c >= 0x2e80 && c < 0xd7ff)))
        return c >= 0x10000 ? 1.3 : 1.05; /* Chinese, Japanese, Korean; pictures */
    if (c == 0x2013)
        return 0.5;
    return c < 0x250 || (c >= 0x370 && c < 0x400) ? 0.72 : c == 0x2026 ? 1 : 0.9;
}

/* What stands at a place of markup: a tag, an entity, or a character of so many bytes. */
size_t qk__markup_length(const char *at)
{
    if (*at == '<' || *at == '&') {
        const char *end = strchr(at, *at == '<' ? '>' : ';');
        return end ? (size_t)(end - at) + 1 : 1;
    }
    size_t length = qk__utf8_first(at);
    return length > 0 ? length : 1;
}

static const struct {
    const char *entity, *character;
} ENTITIES[] = {{"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}, {"&quot;", "\""}};
enum { NUM_ENTITIES = sizeof ENTITIES / sizeof *ENTITIES };

const char *qk__entity(const char *entity)
{
    for (size_t i = 0; i < NUM_ENTITIES; i++)
        if (strncmp(entity, ENTITIES[i].entity, strlen(ENTITIES[i].entity)) == 0)
            return ENTITIES[i].character;
    return "&";
}

bool qk__is_tag(const char *at, const char *tag)
{
    return strncmp(at, tag, strlen(tag)) == 0;
}

/* A <sub> right behind a <sup> stands below it. */
double qk__measure(const char *markup, double size)
{
    double x = 0, begun = 0, ended = 0, scale = 1;
    for (const char *p = markup; *p; p += qk__markup_length(p)) {
        if (qk__is_tag(p, "<sup>") || qk__is_tag(p, "<sub>")) {
            bool below = p - markup >= 6 && qk__is_tag(p - 6, "</sup>");
            ended = below ? x : 0;
            begun = x = below ? begun : x;
            scale = QK__SMALLER;
        } else if (qk__is_tag(p, "</sup>") || qk__is_tag(p, "</sub>")) {
            x = x > ended ? x : ended;
            scale = 1;
        } else if (*p != '<') {
            x += scale * qk__width_of(*p == '&' ? qk__entity(p) : p);
        }
    }
    return size * x;
}

char *qk__escape(const char *text)
{
    qk__buffer out = {0};
    qk_status status = qk__buffer_reserve(&out, strlen(text) + 1, NULL);
    while (*text && status == QK_OK) {
        size_t size, i = 0;
        const char *shown = qk__utf8_shown(&text, &size);
        while (i < NUM_ENTITIES && *shown != *ENTITIES[i].character)
            i++;
        if (i < NUM_ENTITIES) {
            shown = ENTITIES[i].entity;
            size = strlen(shown);
        }
        status = qk__buffer_append(&out, shown, size, NULL);
    }
    if (status == QK_OK)
        status = qk__buffer_append(&out, "", 1, NULL);
    if (status != QK_OK)
        qk__buffer_free(&out);
    return (char *)out.data;
}

char *qk__unmarked(const char *markup)
{
    char *out = malloc(strlen(markup) + 1);
    size_t length = 0;
    for (const char *p = markup; out && *p; p += qk__markup_length(p)) {
        if (*p == '<')
            continue;
        if (*p == '&') {
            out[length++] = *qk__entity(p);
            continue;
        }
        memcpy(out + length, p, qk__markup_length(p));
        length += qk__markup_length(p);
    }
    if (out)
        out[length] = 0;
    return out;
}

/* ---- cutting ---------------------------------------------------------------------------- */

static double plain_width(const char *text)
{
    double width = 0;
    for (size_t size; *text;)
        width += qk__width_of(qk__utf8_shown(&text, &size));
    return width;
}

/* Bytes of the longest beginning that is at most so wide. */
static size_t beginning(const char *text, double width)
{
    const char *p = text, *end = text;
    for (size_t size; *p;) {
        width -= qk__width_of(qk__utf8_shown(&p, &size));
        if (width < 0)
            break;
        end = p;
    }
    return (size_t)(end - text);
}

void qk__cut_in_middle(const char *text, double width, double head, char *out, size_t size)
{
    double room = width - qk__width_of(ELLIPSIS), rest = plain_width(text);
    if (rest <= width && strlen(text) < size) {
        snprintf(out, size, "%s", text);
        return;
    }
    int first = (int)beginning(text, room * head);
    const char *tail = text;
    for (size_t shown; *tail && (rest > room * (1 - head) || strlen(tail) + 8 > size / 2);)
        rest -= qk__width_of(qk__utf8_shown(&tail, &shown));
    first = first < (int)size / 2 - 8 ? first : (int)size / 2 - 8;
    while (first > 0 && ((unsigned char)text[first] & 0xc0) == 0x80)
        first--; /* not within a character */
    snprintf(out, size, "%.*s" ELLIPSIS "%s", first > 0 ? first : 0, text, tail);
}

enum { CUT_SIZE = 256 };

static bool look_alike(const char *const *texts, char **cut, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(cut[i], cut[j]) == 0 && strcmp(texts[i], texts[j]) != 0)
                return true;
    return false;
}

/* Names of checkpoints differ at their ends, those of a family in the middle: shares of the room are tried until
 * one tells all of them apart. */
char **qk__cut_alike(const char *const *texts, size_t count, double width)
{
    static const double HEADS[] = {0.5, 0.3, 0.7, 0.15, 0, 0.85, 1};
    char **cut = qk__calloc(count + 1, sizeof *cut + CUT_SIZE);
    if (!cut)
        return NULL;
    for (size_t i = 0; i < count; i++)
        cut[i] = (char *)(cut + count + 1) + i * CUT_SIZE;
    for (size_t h = 0; h < sizeof HEADS / sizeof *HEADS; h++) {
        for (size_t i = 0; i < count; i++)
            qk__cut_in_middle(texts[i], width, HEADS[h], cut[i], CUT_SIZE);
        if (!look_alike(texts, cut, count))
            return cut;
    }
    for (size_t i = 0; i < count; i++) { /* by number, where nothing else tells them apart */
        char number[32];
        int length = snprintf(number, sizeof number, ELLIPSIS "%zu", i + 1);
        qk__cut_in_middle(texts[i], width - 0.64 * (length - 2) - 1, 1, cut[i], CUT_SIZE - 32);
        memcpy(cut[i] + strlen(cut[i]), number, (size_t)length + 1);
    }
    return cut;
}
