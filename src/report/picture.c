/* SPDX-License-Identifier: Apache-2.0 */
/* Puts figures into the page. An SVG goes in as it is, without the elements and attributes that drawings do not
 * need. */
#include "base/base64.h"
#include "report/picture.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "report/thumbnail.h"

enum {
    MAX_FILE = 64 << 20,
    MAX_NAME = 32,
    MAX_COLOR = 40,
};

/* Words between spaces. */
static const char ELEMENTS[] =
    " circle clipPath defs ellipse feComposite feFlood filter g image line path pattern "
    "polygon polyline rect stop linearGradient text tspan use ";
static const char SPACE[] = " \t\n\r";
static const char NAMES[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_:.";

typedef struct reader {
    qk__page *page;
    const char *p; /* up to a zero byte */
    const qk__theme *theme;
    int outside;  /* elements that were open before */
    bool refused; /* its elements do not close in turn */
} reader;

typedef struct span {
    const char *p;
    size_t size;
} span;

/* "" where it is too long to be one that is known. */
static void read_name(reader *r, char name[MAX_NAME])
{
    size_t size = strspn(r->p, NAMES);
    memcpy(name, r->p, size < MAX_NAME ? size : 0);
    name[size < MAX_NAME ? size : 0] = 0;
    r->p += size;
}

/* ---- attributes ------------------------------------------------------------------------- */

/* "#1f2328" or "rgb( 31,  35,  40)" as a number; -1 for anything else. */
static long color_value(const char *text)
{
    unsigned r, g, b;
    if (text[0] == '#' && strspn(text + 1, "0123456789abcdefABCDEF") == 6 && !text[7])
        return strtol(text + 1, NULL, 16);
    if (sscanf(text, "rgb(%u ,%u ,%u )", &r, &g, &b) == 3 && r < 256 && g < 256 && b < 256)
        return (long)(r << 16 | g << 8 | b);
    return strcmp(text, "black") == 0 ? 0 : strcmp(text, "white") == 0 ? 0xFFFFFF : -1;
}

/* A color of the theme as a variable of the style sheet; NULL: the color stays. */
static const char *theme_variable(const qk__theme *theme, long value)
{
    const struct {
        const char *color, *variable;
    } known[] = {
        {theme->background, "var(--fig-bg)"}, {theme->ink, "var(--fig-ink)"},
        {theme->muted, "var(--fig-muted)"},   {theme->grid, "var(--fig-grid)"},
        {theme->box, "var(--fig-box)"},       {"black", "var(--fig-ink)"},
    };
    for (size_t i = 0; value >= 0 && i < sizeof known / sizeof *known; i++)
        if (color_value(known[i].color) == value)
            return known[i].variable;
    return NULL;
}

static bool starts(span s, const char *word)
{
    return s.size >= strlen(word) && memcmp(s.p, word, strlen(word)) == 0;
}

/* Whether a value leads out of the picture, or does something. */
static bool is_unsafe(const char *name, span value)
{
    bool link = strcmp(name, "href") == 0 || strcmp(name, "xlink:href") == 0;
    bool inside = starts(value, "#") || starts(value, "data:image/png;base64,");
    for (span s = value; s.size > 0; s.p++, s.size--)
        if (*s.p == '<' || *s.p == '>' || *s.p == '"' ||
            (starts(s, "url") && !starts(s, "url(#")))
            return true;
    return strncasecmp(name, "on", 2) == 0 || (link && !inside);
}

/* As it is, but for colors of the theme, and for names in the file, which get the picture's before them. */
static void put_attribute(reader *r, const char *name, span value)
{
    char color[MAX_COLOR] = "", prefix[MAX_NAME];
    strncat(color, value.p, value.size < MAX_COLOR ? value.size : 0);
    const char *variable = theme_variable(r->theme, color_value(color));
    const char *hash = color_value(color) < 0 ? memchr(value.p, '#', value.size) : NULL;
    size_t before = hash ? (size_t)(hash + 1 - value.p) : 0;
    snprintf(prefix, sizeof prefix, "f%zu-", r->page->pictures);
    qk__page_markup(r->page, " ");
    qk__page_markup(r->page, strcmp(name, "xlink:href") == 0 ? "href" : name);
    qk__page_markup(r->page, "=\"");
    if (variable)
        qk__page_markup(r->page, variable);
    else {
        qk__page_bytes(r->page, value.p, before);
        qk__page_markup(r->page, hash || strcmp(name, "id") == 0 ? prefix : "");
        qk__page_bytes(r->page, value.p + before, value.size - before);
    }
    qk__page_markup(r->page, "\"");
}

/* The next name="value" of a tag; false at its end. */
static bool next_attribute(reader *r, char name[MAX_NAME], span *value)
{
    r->p += strspn(r->p, SPACE);
    read_name(r, name);
    r->p += strspn(r->p, SPACE);
    if (!*name || *r->p != '=')
        return false;
    r->p += 1 + strspn(r->p + 1, SPACE);
    if (*r->p != '"' && *r->p != '\'')
        return false;
    value->p = r->p + 1;
    value->size = strcspn(value->p, *r->p == '"' ? "\"" : "'");
    r->p = value->p + value->size + (value->p[value->size] != 0);
    return true;
}

/* ---- tags ------------------------------------------------------------------------------- */

static void skip_past(reader *r, const char *end)
{
    const char *found = strstr(r->p, end);
    r->p = found ? found + strlen(end) : r->p + strlen(r->p);
}

static void copy_open_tag(reader *r, const char *element)
{
    char word[MAX_NAME + 3], name[MAX_NAME];
    span value;
    snprintf(word, sizeof word, " %s ", element);
    bool wanted = *element && strstr(ELEMENTS, word) && r->page->depth < QK__MOST_OPEN;
    if (wanted)
        qk__begin_tag(r->page, element, strlen(element));
    while (next_attribute(r, name, &value))
        if (wanted && !is_unsafe(name, value))
            put_attribute(r, name, value);
    bool holds = *r->p != '/';
    r->p += !holds;
    r->refused = *r->p != '>';
    r->p += *r->p == '>';
    if (wanted)
        qk__end_tag(r->page, holds);
    snprintf(word, sizeof word, "</%s", element);
    if (!wanted && holds) {
        skip_past(r, word);
        skip_past(r, ">");
    }
}

static void copy_close_tag(reader *r, const char *element)
{
    r->refused =
        r->page->depth == r->outside || strcmp(r->page->open[r->page->depth - 1], element) != 0;
    skip_past(r, ">");
    if (!r->refused)
        qk__close(r->page, element);
}

static void copy_tag(reader *r)
{
    char element[MAX_NAME];
    bool closes = *r->p == '/';
    r->p += closes;
    if (*r->p == '!' || *r->p == '?') {
        skip_past(r, strncmp(r->p, "!--", 3) == 0 ? "-->" : ">");
        return;
    }
    read_name(r, element);
    if (closes)
        copy_close_tag(r, element);
    else
        copy_open_tag(r, element);
}

/* Up to the end tag of the whole; false where it is not a drawing, and one of all. */
static bool copy_contents(reader *r)
{
    r->outside = r->page->depth;
    while (!r->refused && r->page->status == QK_OK) {
        size_t text = strcspn(r->p, "<");
        bool shown = *r->page->open[r->page->depth - 1] == 't'; /* in <text> or <tspan> */
        qk__page_bytes(r->page, r->p, shown ? text : 0);
        r->p += text;
        if (strncmp(r->p, "</svg>", 6) == 0)
            break;
        r->refused = *r->p != '<';
        r->p += !r->refused;
        if (!r->refused)
            copy_tag(r);
    }
    return !r->refused && r->page->depth == r->outside;
}

/* ---- plates ----------------------------------------------------------------------------- */

/* The box that a picture stands in. */
static void put_plate(qk__page *page, double width, double height)
{
    qk__open(page, "div.plate[style=max-width:%.0fpx]", width);
    qk__open(page, "div.sheet[style=aspect-ratio:%.0f/%.0f]", width, height);
}

bool qk__put_svg(qk__page *page, const char *svg, const char *label, const qk__theme *theme)
{
    const qk__page before = *page;
    reader r = {.page = page, .p = strstr(svg, "<svg"), .theme = theme};
    double box[4] = {0};
    char name[MAX_NAME];
    span value;
    if (!r.p)
        return false;
    for (r.p += 4; next_attribute(&r, name, &value);)
        if (strcmp(name, "viewBox") == 0 &&
            sscanf(value.p, "%lf %lf %lf %lf", &box[0], &box[1], &box[2], &box[3]) != 4)
            return false;
    if (*r.p++ != '>' || !(box[2] > 0 && box[3] > 0 && box[2] < 1e5 && box[3] < 1e5))
        return false;
    page->pictures++;
    put_plate(page, box[2], box[3]);
    qk__open(page, "svg[viewBox=0 0 %.0f %.0f][role=img][aria-label=%s]", box[2], box[3],
             label);
    if (copy_contents(&r)) {
        qk__close(page, "svg div div");
        return true;
    }
    page->out.size = before.out.size;
    page->depth = before.depth;
    return false;
}

void qk__put_png(qk__page *page, const qk__buffer *png, double width, double height, bool dark,
                 const char *label)
{
    char *data = qk__base64(png->data, png->size);
    if (!data)
        qk__page_nomem(page);
    put_plate(page, width, height);
    qk__open(page, "img.%s[alt=%s][src=data:image/png;base64,%s]", dark ? "dark" : "light",
             label, data ? data : "");
    qk__close(page, "div div");
    free(data);
}

/* Empty where it cannot be read. */
static qk__buffer read_picture(const char *folder, const char *name, const char *ending)
{
    qk__buffer contents = {0};
    char *path = qk__format("%s/%s.%s", folder, name, ending);
    if (path && qk__read_file(path, MAX_FILE, &contents, NULL) != QK_OK)
        qk__buffer_free(&contents);
    free(path);
    return contents;
}

void qk__put_picture(qk__page *page, const char *folder, const char *name, size_t most,
                     const char *label, const qk__theme *theme)
{
    unsigned width, height; /* of the PNG: at twice the nominal size */
    qk__buffer svg = read_picture(folder, name, "svg"), png = {0};
    if (svg.size == 0 || svg.size > most ||
        !qk__put_svg(page, (char *)svg.data, label, theme)) {
        png = read_picture(folder, name, "png");
        if (qk__png_size(&png, &width, &height))
            qk__put_png(page, &png, width / 2.0, height / 2.0,
                        theme == qk__theme_of(QK_THEME_DARK), label);
        else
            qk__put(page, "p.note", "The picture could not be read.");
    }
    qk__buffer_free(&svg);
    qk__buffer_free(&png);
}
