/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the page: escapes texts for it, and words numbers and names. */
#include "report/page.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "base/utf8.h"

static const char REPLACEMENT[] = "\xEF\xBF\xBD";

void qk__page_free(qk__page *page)
{
    qk__buffer_free(&page->out);
}

void qk__page_nomem(qk__page *page)
{
    if (page->status == QK_OK)
        page->status = qk__nomem(&page->err);
}

void qk__page_bytes(qk__page *page, const void *data, size_t size)
{
    if (page->status == QK_OK)
        page->status = qk__buffer_append(&page->out, data, size, &page->err);
}

void qk__page_raw(qk__page *page, const char *markup)
{
    qk__page_bytes(page, markup, strlen(markup));
}

void qk__page_print(qk__page *page, const char *fmt, ...)
{
    char text[2048];
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (page->status == QK_OK && (length < 0 || (size_t)length >= sizeof text))
        page->status =
            qk__fail(&page->err, QK_ERR_ARGUMENT, "a piece of the page is %d bytes", length);
    qk__page_bytes(page, text, length < 0 ? 0 : (size_t)length);
}

/* ---- UTF-8 ------------------------------------------------------------------------------ */

/* The next character of *text as valid UTF-8 without controls; returns its bytes and size. */
static const char *next_character(const char **text, size_t *size)
{
    const unsigned char *p = (const unsigned char *)*text;
    *size = qk__utf8_first(*text);
    if (*size == 0) {
        *text += 1;
        *size = sizeof REPLACEMENT - 1;
        return REPLACEMENT;
    }
    const char *character = *text;
    *text += *size;
    bool c1 = *size == 2 && p[0] == 0xC2 && p[1] < 0xA0; /* U+0080 .. U+009F */
    if ((*size == 1 && (p[0] < 0x20 || p[0] == 0x7F)) || c1) {
        *size = 1;
        return " ";
    }
    return character;
}

/* NULL: the character stands for itself. */
static const char *html_escape(char c)
{
    return c == '&'    ? "&amp;"
           : c == '<'  ? "&lt;"
           : c == '>'  ? "&gt;"
           : c == '"'  ? "&quot;"
           : c == '\'' ? "&#39;"
                       : NULL;
}

static void append_html(qk__page *page, const char *text, size_t max_characters)
{
    for (size_t n = 0; *text; n++) {
        if (n == max_characters) {
            qk__page_raw(page, "…");
            return;
        }
        size_t size;
        const char *character = next_character(&text, &size);
        const char *escape = html_escape(*character);
        if (escape)
            qk__page_raw(page, escape);
        else
            qk__page_bytes(page, character, size);
    }
}

void qk__page_text(qk__page *page, const char *text)
{
    append_html(page, text, SIZE_MAX);
}

void qk__page_text_in(qk__page *page, const char *before, const char *text, const char *after)
{
    qk__page_raw(page, before);
    qk__page_text(page, text);
    qk__page_raw(page, after);
}

void qk__page_lines(qk__page *page, const char *text, const char *before, const char *after)
{
    char *copy = qk__strdup(text), *rest = copy;
    if (!copy)
        qk__page_nomem(page);
    while (rest && *rest) {
        char *line = rest, *end = strchr(rest, '\n');
        rest = end ? end + 1 : NULL;
        if (end)
            *end = 0;
        qk__page_text_in(page, before, line, after);
    }
    free(copy);
}

void qk__page_name(qk__page *page, const char *name)
{
    qk__page_raw(page, "<bdi>");
    append_html(page, name, QK__NAME_POINTS);
    qk__page_raw(page, "</bdi>");
}

void qk__page_json_text(qk__page *page, const char *text)
{
    qk__page_raw(page, "\"");
    while (*text) {
        size_t size;
        const char *c = next_character(&text, &size);
        if (*c == '"' || *c == '\\')
            qk__page_print(page, "\\%c", *c);
        else if (*c == '<' || *c == '>' || *c == '&')
            qk__page_print(page, "\\u%04x", (unsigned)*c);
        else
            qk__page_bytes(page, c, size);
    }
    qk__page_raw(page, "\"");
}

void qk__page_link(qk__page *page, const char *name)
{
    for (const unsigned char *p = (const unsigned char *)name; *p; p++) {
        bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                     (*p >= '0' && *p <= '9') || *p == '-' || *p == '.' || *p == '_';
        qk__page_print(page, plain ? "%c" : "%%%02X", *p);
    }
}

void qk__page_base64(qk__page *page, const void *data, size_t size)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = data;
    if (page->status == QK_OK)
        page->status =
            qk__buffer_reserve(&page->out, page->out.size + size / 3 * 4 + 4, &page->err);
    for (; size > 0; size -= size < 3 ? size : 3, p += 3) {
        unsigned bits = (unsigned)p[0] << 16 | (size > 1 ? (unsigned)p[1] << 8 : 0) |
                        (size > 2 ? (unsigned)p[2] : 0);
        char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63],
                        size > 1 ? digits[bits >> 6 & 63] : '=',
                        size > 2 ? digits[bits & 63] : '='};
        qk__page_bytes(page, four, 4);
    }
}

/* ---- what folds ------------------------------------------------------------------------- */

static void fold(qk__page *page, const char *title, const char *heading, bool open)
{
    qk__page_print(page, "<details class=\"fold\"%s>\n<summary><%s>", open ? " open" : "",
                   heading);
    qk__page_text(page, title);
    qk__page_print(page, "</%s></summary>\n", heading);
}

void qk__page_section(qk__page *page, const char *id, const char *title, bool open)
{
    qk__page_print(page, "<section id=\"%s\" tabindex=\"-1\">\n", id);
    fold(page, title, "h2", open);
}

void qk__page_section_end(qk__page *page)
{
    qk__page_raw(page, "</details>\n</section>\n");
}

void qk__page_part(qk__page *page, const char *id, const char *title)
{
    qk__page_print(page, "<div class=\"part\" id=\"%s\" tabindex=\"-1\">\n", id);
    fold(page, title, "h3", true);
}

void qk__page_part_end(qk__page *page)
{
    qk__page_raw(page, "</details>\n</div>\n");
}

/* ---- numbers and names for reading ------------------------------------------------------ */

/* "%.*g" of a number, with a decimal point whatever the locale. */
static void print_digits(double value, int digits, char text[QK_NUMBER_SIZE])
{
    char rounded[QK_NUMBER_SIZE];
    snprintf(rounded, sizeof rounded, "%.*e", digits - 1, value);
    qk__format_number(strtod(rounded, NULL), text);
}

void qk__page_json_number(qk__page *page, double value, int digits)
{
    char text[QK_NUMBER_SIZE] = "null";
    if (isfinite(value))
        print_digits(value, digits, text);
    qk__page_raw(page, text);
}

qk__short_name qk__short_name_of(const char *name)
{
    qk__short_name out = {""};
    char *p = out.text;
    p += sprintf(p, "%s", "\xE2\x81\xA8");
    for (int n = 0; *name; n++) {
        size_t size;
        if (n == QK__NAME_POINTS) {
            p += sprintf(p, "…");
            break;
        }
        const char *character = next_character(&name, &size);
        memcpy(p, character, size);
        p += size;
    }
    sprintf(p, "%s", "\xE2\x81\xA9");
    return out;
}

/* |value| with that many decimals, with '.' whatever the locale. */
static size_t print_fixed(char *out, size_t size, double value, int decimals)
{
    int length = snprintf(out, size, "%.*f", decimals, fabs(value));
    for (char *p = out; *p; p++)
        if (*p == ',')
            *p = '.';
    return (size_t)length;
}

static const char *const SUPERSCRIPTS[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};

qk__shown qk__show(double value, int digits)
{
    qk__shown out = {""};
    char *p = out.text;
    if (!isfinite(value)) {
        sprintf(p, "–");
        return out;
    }
    if (value < 0)
        p += sprintf(p, "−");
    int exponent = 0;
    if (value != 0) { /* of the rounded number: 0.9996 shows as 1.00 */
        char rounded[QK_NUMBER_SIZE];
        snprintf(rounded, sizeof rounded, "%.*e", digits - 1, fabs(value));
        exponent = atoi(strchr(rounded, 'e') + 1);
    }
    if (exponent >= -4 && exponent < 5) {
        int decimals = digits - 1 - exponent;
        print_fixed(p, 40, value, decimals > 0 ? decimals : 0);
        return out;
    }
    p += print_fixed(p, 24, value / pow(10, exponent), digits - 1);
    p += sprintf(p, "×10%s", exponent < 0 ? "⁻" : "");
    char power[8];
    snprintf(power, sizeof power, "%d", abs(exponent) % 10000);
    for (const char *c = power; *c; c++)
        p += sprintf(p, "%s", SUPERSCRIPTS[*c - '0']);
    return out;
}

qk__shown qk__show_percent(double share)
{
    qk__shown out = {"–"};
    if (!isfinite(share))
        return out;
    double percent = 100 * share;
    char *p = out.text;
    if (percent < 0)
        p += sprintf(p, "−");
    bool whole = percent == 0 || percent == 100;
    p += print_fixed(p, 40, percent, whole ? 0 : fabs(percent) < 9.995 ? 2 : 1);
    sprintf(p, "%s", "\xC2\xA0%"); /* a space that does not break */
    return out;
}

qk__shown qk__show_count(size_t count)
{
    qk__shown out = {""};
    qk__group_digits((int64_t)count, out.text);
    return out;
}
