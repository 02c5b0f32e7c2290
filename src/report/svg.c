/* SPDX-License-Identifier: Apache-2.0 */
/* Turns an SVG file into markup of the page: a small reader of tags that copies what is on its
 * lists and leaves out the rest. */
#include "report/svg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Words between spaces. */
static const char ELEMENTS[] =
    " circle clipPath defs ellipse feComposite feFlood filter g image line path pattern "
    "polygon polyline rect stop linearGradient text tspan use ";
static const char ATTRIBUTES[] =
    " baseline-shift clip-path color cx cy d dx dy fill fill-opacity fill-rule filter "
    "filterUnits flood-color flood-opacity font-family font-size font-style font-weight "
    "height href id in in2 offset opacity operator patternUnits points "
    "preserveAspectRatio r result rx ry stop-color stroke stroke-dasharray stroke-linecap "
    "stroke-linejoin stroke-opacity stroke-width style text-anchor transform width x x1 "
    "x2 xlink:href xml:space y y1 y2 ";

/* A stretch of the file. */
typedef struct span {
    const char *p;
    size_t size;
} span;

typedef struct reader {
    qk__page *page;
    const char *p, *end;
    const char *prefix;
    const qk__theme *theme;
    int depth;   /* of copied elements that are open */
    int in_text; /* of them, <text> */
    int skipped; /* depth of an element that is left out, with all in it */
} reader;

static bool is(span s, const char *word)
{
    return s.size == strlen(word) && memcmp(s.p, word, s.size) == 0;
}

static bool starts(span s, const char *word)
{
    return s.size >= strlen(word) && memcmp(s.p, word, strlen(word)) == 0;
}

/* Where word first is in s; NULL: nowhere. */
static const char *find(span s, const char *word)
{
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= s.size; i++)
        if (s.p[i] == word[0] && memcmp(s.p + i, word, length) == 0)
            return s.p + i;
    return NULL;
}

/* Whether a name is one of the words of a list. */
static bool listed(span s, const char *words)
{
    char word[32];
    int length = snprintf(word, sizeof word, " %.*s ", (int)s.size, s.p);
    return s.size > 0 && length < (int)sizeof word && strstr(words, word);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '_' || c == ':' || c == '.';
}

static span read_name(reader *r)
{
    span name = {r->p, 0};
    while (r->p < r->end && is_name(*r->p))
        r->p++;
    name.size = (size_t)(r->p - name.p);
    return name;
}

static void skip_space(reader *r)
{
    while (r->p < r->end && is_space(*r->p))
        r->p++;
}

/* ---- attribute values ------------------------------------------------------------------- */

/* "#1f2328" or "rgb( 31,  35,  40)" as a number; -1 for anything else. */
static long color_value(span s)
{
    char text[40];
    unsigned r, g, b;
    if (s.size >= sizeof text)
        return -1;
    memcpy(text, s.p, s.size);
    text[s.size] = 0;
    if (text[0] == '#' && s.size == 7)
        return strtol(text + 1, NULL, 16);
    if (sscanf(text, "rgb(%u ,%u ,%u )", &r, &g, &b) == 3 && r < 256 && g < 256 && b < 256)
        return (long)(r << 16 | g << 8 | b);
    return strcmp(text, "black") == 0 ? 0 : strcmp(text, "white") == 0 ? 0xFFFFFF : -1;
}

/* A color of the theme as a variable of the style sheet; NULL: the color stays. */
static const char *theme_variable(const qk__theme *theme, span s)
{
    const struct {
        const char *color, *variable;
    } known[] = {
        {theme->background, "var(--fig-bg)"}, {theme->ink, "var(--fig-ink)"},
        {theme->muted, "var(--fig-muted)"},   {theme->grid, "var(--fig-grid)"},
        {theme->box, "var(--fig-box)"},       {"black", "var(--fig-ink)"},
    };
    long value = color_value(s);
    for (size_t i = 0; value >= 0 && i < sizeof known / sizeof *known; i++)
        if (color_value((span){known[i].color, strlen(known[i].color)}) == value)
            return known[i].variable;
    return NULL;
}

/* The text between the quotes of ours; the file's own entities stay. */
static void put_value(reader *r, span value)
{
    for (size_t i = 0; i < value.size; i++) {
        char c = value.p[i];
        if (c == '"' || c == '<' || c == '>')
            qk__page_text(r->page, (char[]){c, 0});
        else
            qk__page_bytes(r->page, &c, 1);
    }
}

static bool is_id(span s)
{
    for (size_t i = 0; i < s.size; i++)
        if (!is_name(s.p[i]))
            return false;
    return s.size > 0;
}

static void put_attribute(reader *r, const char *name, const char *before, span value,
                          const char *after)
{
    qk__page_print(r->page, " %s=\"%s", name, before);
    put_value(r, value);
    qk__page_print(r->page, "%s\"", after);
}

/* "#name" (with the prefix) or a picture in the file itself; anything else is left out. */
static void copy_reference(reader *r, span value)
{
    span id = {value.p + 1, value.size - 1};
    char before[160];
    snprintf(before, sizeof before, "#%s-", r->prefix);
    if (starts(value, "#") && is_id(id))
        put_attribute(r, "href", before, id, "");
    else if (starts(value, "data:image/png;base64,"))
        put_attribute(r, "href", "", value, "");
}

/* "url(#name)", alone or as "filter:url(#name)". */
static void copy_url(reader *r, const char *name, span value, const char *start)
{
    size_t skip = strlen(start);
    char before[180];
    if (!starts(value, start) || value.size < skip + 2 || value.p[value.size - 1] != ')')
        return;
    span id = {value.p + skip, value.size - skip - 1};
    snprintf(before, sizeof before, "%s%s-", start, r->prefix);
    if (is_id(id))
        put_attribute(r, name, before, id, ")");
}

static void copy_attribute(reader *r, span name, span value)
{
    char own[32], before[140];
    if (!listed(name, ATTRIBUTES))
        return;
    snprintf(own, sizeof own, "%.*s", (int)name.size, name.p);
    snprintf(before, sizeof before, "%s-", r->prefix);
    const char *variable = theme_variable(r->theme, value);
    if (is(name, "id")) {
        if (is_id(value))
            put_attribute(r, own, before, value, "");
    } else if (is(name, "href") || is(name, "xlink:href")) {
        if (value.size > 1)
            copy_reference(r, value);
    } else if (is(name, "style")) {
        copy_url(r, own, value, "filter:url(#");
    } else if (find(value, "url")) {
        copy_url(r, own, value, "url(#");
    } else if (variable) {
        qk__page_print(r->page, " %s=\"%s\"", own, variable);
    } else {
        put_attribute(r, own, "", value, "");
    }
}

/* The next name="value" of a tag; false at its end. */
static bool next_attribute(reader *r, span *name, span *value)
{
    skip_space(r);
    *name = read_name(r);
    *value = (span){r->p, 0};
    if (name->size == 0)
        return false;
    skip_space(r);
    if (r->p >= r->end || *r->p != '=')
        return true;
    r->p++;
    skip_space(r);
    if (r->p >= r->end || (*r->p != '"' && *r->p != '\''))
        return false;
    char quote = *r->p++;
    value->p = r->p;
    while (r->p < r->end && *r->p != quote)
        r->p++;
    value->size = (size_t)(r->p - value->p);
    if (r->p < r->end)
        r->p++;
    return true;
}

/* ---- tags ------------------------------------------------------------------------------- */

static void skip_past(reader *r, const char *end)
{
    const char *found = find((span){r->p, (size_t)(r->end - r->p)}, end);
    r->p = found ? found + strlen(end) : r->end;
}

static void skip_attributes(reader *r)
{
    span name, value;
    while (next_attribute(r, &name, &value))
        ;
}

/* After '<' and the attributes: whether the tag closes itself. Leaves r behind the '>'. */
static bool end_tag(reader *r)
{
    bool closed = false;
    while (r->p < r->end && *r->p != '>')
        closed = *r->p++ == '/';
    if (r->p < r->end)
        r->p++;
    return closed;
}

static void copy_open_tag(reader *r)
{
    span element = read_name(r);
    bool wanted = listed(element, ELEMENTS);
    if (r->skipped > 0 || !wanted) {
        skip_attributes(r);
        if (!end_tag(r))
            r->skipped++;
        return;
    }
    qk__page_raw(r->page, "<");
    qk__page_bytes(r->page, element.p, element.size);
    span name, value;
    while (next_attribute(r, &name, &value))
        copy_attribute(r, name, value);
    bool closed = end_tag(r);
    r->depth += !closed;
    r->in_text += !closed && is(element, "text");
    qk__page_raw(r->page, closed ? "/>" : ">");
}

static void copy_close_tag(reader *r)
{
    r->p++;
    span element = read_name(r);
    end_tag(r);
    if (r->skipped > 0) {
        r->skipped--;
    } else if (r->depth > 0 && listed(element, ELEMENTS)) {
        r->depth--;
        r->in_text -= is(element, "text");
        qk__page_raw(r->page, "</");
        qk__page_bytes(r->page, element.p, element.size);
        qk__page_raw(r->page, ">");
    }
}

/* Between two tags: kept inside <text> only. */
static void copy_text(reader *r)
{
    const char *start = r->p;
    while (r->p < r->end && *r->p != '<')
        r->p++;
    if (r->in_text > 0 && r->skipped == 0)
        put_value(r, (span){start, (size_t)(r->p - start)});
}

static void copy_contents(reader *r)
{
    while (r->p < r->end) {
        if (*r->p != '<') {
            copy_text(r);
            continue;
        }
        r->p++;
        if (starts((span){r->p, (size_t)(r->end - r->p)}, "!--"))
            skip_past(r, "-->");
        else if (starts((span){r->p, (size_t)(r->end - r->p)}, "![CDATA["))
            skip_past(r, "]]>");
        else if (r->p < r->end && (*r->p == '!' || *r->p == '?'))
            skip_past(r, ">");
        else if (r->p < r->end && *r->p == '/')
            copy_close_tag(r);
        else
            copy_open_tag(r);
    }
}

void qk__page_plate(qk__page *page, double width, double height, double legible)
{
    qk__page_print(page,
                   "<div class=\"plate\" style=\"max-width:%.0fpx\"><div class=\"sheet\" "
                   "style=\"aspect-ratio:%.0f/%.0f;--legible:%.0fpx\">",
                   width, width, height, legible);
}

/* The smallest type of a drawing; 0: it has no text. */
static double smallest_type(span svg)
{
    static const char SIZE[] = "font-size=\"";
    double least = 0;
    for (const char *p = svg.p; (p = find((span){p, (size_t)(svg.p + svg.size - p)}, SIZE));) {
        char text[16] = "";
        p += sizeof SIZE - 1;
        size_t left = (size_t)(svg.p + svg.size - p);
        memcpy(text, p, left < sizeof text - 1 ? left : sizeof text - 1);
        double size = strtod(text, NULL);
        if (size > 0 && (least == 0 || size < least))
            least = size;
    }
    return least;
}

/* How wide it is where its smallest letters have LEGIBLE pixels. */
static double legible_width(span svg, double width)
{
    const double LEGIBLE = 11.5;
    double least = smallest_type(svg);
    return least > 0 ? fmin(width * LEGIBLE / least, 4 * width) : width;
}

bool qk__page_svg(qk__page *page, const char *svg, size_t size, const char *prefix,
                  const char *label, const qk__theme *theme)
{
    reader r = {.page = page, .end = svg + size, .prefix = prefix, .theme = theme};
    double box[4] = {0};
    span name, value;
    r.p = find((span){svg, size}, "<svg");
    if (!r.p)
        return false;
    r.p += 4;
    while (next_attribute(&r, &name, &value)) {
        char text[80];
        snprintf(text, sizeof text, "%.*s", (int)(value.size < 79 ? value.size : 79), value.p);
        if (is(name, "viewBox") &&
            sscanf(text, "%lf %lf %lf %lf", &box[0], &box[1], &box[2], &box[3]) != 4)
            return false;
    }
    end_tag(&r);
    if (!(box[2] > 0 && box[3] > 0 && box[2] < 1e5 && box[3] < 1e5))
        return false;
    qk__page_plate(page, box[2], box[3], legible_width((span){svg, size}, box[2]));
    qk__page_print(page, "<svg viewBox=\"0 0 %.0f %.0f\" ", box[2], box[3]);
    qk__page_text_in(page, "role=\"img\" aria-label=\"", label, "\">");
    copy_contents(&r);
    qk__page_raw(page, "</svg></div></div>");
    return true;
}
