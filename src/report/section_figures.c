/* SPDX-License-Identifier: Apache-2.0 */
/* The figures: those drawn now and collages that already lie in the folder, in report order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "report/sections.h"
#include "report/svg.h"

enum {
    MAX_FILE = 64 << 20,
    MAX_INLINE = 450 << 10, /* an SVG with more bytes than that is shown as PNG */
    MAX_BESIDE = 900,       /* a figure no wider than that has its caption beside it */
    MAX_PICTURES = 5 << 20, /* of all collages together; beyond it they are links */
};

/* Collages (qkscope scatter), which are not drawn from tables, by the beginnings of their
 * names. */
static const struct {
    const char *start, *title, *caption;
} COLLAGES[] = {
    {"pca-06-collage", "Queries and keys on two components",
     "Projections of queries (blue) and keys (red); light is early, dark is late in the text. "
     "In the "
     "box: share of the variance and correlation with position of both components."},
    {"rotation-01-plane", "Queries and keys in the plane (a, b)",
     "Along a lies all linear drift with position; b is the direction off it that tells "
     "queries "
     "(blue) from keys (red). Light is early, dark is late."},
    {"rotation-08-complement", "What is left outside the plane",
     "Pairs of directions of the complement of a and b; rings that turn with position are "
     "planes of "
     "the rotary position embedding."},
};
enum { NUM_COLLAGES = sizeof COLLAGES / sizeof *COLLAGES };

/* One figure of a family, drawn now or found. */
typedef struct item {
    const char *name; /* of the files, without ending */
    char *owned;      /* the name of a collage; NULL: drawn */
    const qk__drawn *drawn;
    int collage; /* of COLLAGES, -1: drawn */
    size_t order;
} item;

typedef struct gallery {
    qk__page *page;
    const qk__report *report;
    item *items;
    size_t count;
    size_t number;   /* of inline pictures so far: their prefix */
    size_t pictures; /* bytes of collages so far */
} gallery;

/* The name without its ending; NULL when the file is no collage of this kind. */
static char *collage_name(const char *file, const char *start)
{
    size_t length = strlen(file);
    if (strncmp(file, start, strlen(start)) != 0 || length < 5 ||
        strcmp(file + length - 4, ".png") != 0)
        return NULL;
    char *name = qk__strdup(file);
    if (name)
        name[length - 4] = 0;
    return name;
}

static bool was_drawn(const qk__drawn_list *drawn, const char *name)
{
    for (size_t i = 0; i < drawn->count; i++)
        if (strcmp(drawn->items[i].name, name) == 0)
            return true;
    return false;
}

/* Where a collage belongs: the first family of its study ("pca-", "rotation-"). */
static bool belongs_to(const char *start, const qk__figure_family *family)
{
    size_t study = strcspn(start, "-") + 1;
    for (size_t f = 0; f < qk__num_figure_families; f++) {
        const qk__figure_family *candidate = qk__figure_families[f];
        if (candidate->count > 0 && strncmp(candidate->kinds[0].name, start, study) == 0)
            return candidate == family;
    }
    return family == NULL;
}

/* "pca-06" of "pca-06-collage-x": what figures are ordered by. */
static int compare_items(const void *a, const void *b)
{
    const item *x = a, *y = b;
    int order = strncmp(x->name, y->name, strcspn(x->name, "0123456789") + 2);
    if (order != 0)
        return order;
    return (x->order > y->order) - (x->order < y->order);
}

static void collect(gallery *g, const qk__figure_family *family, const qk_names *files)
{
    const qk__drawn_list *drawn = g->report->drawn;
    g->count = 0;
    for (size_t i = 0; i < drawn->count; i++)
        if (drawn->items[i].family == family && drawn->items[i].status == QK_OK) {
            g->items[g->count] =
                (item){drawn->items[i].name, NULL, &drawn->items[i], -1, g->count};
            g->count++;
        }
    size_t own = g->count;
    for (int c = 0; c < NUM_COLLAGES; c++)
        for (size_t i = 0; belongs_to(COLLAGES[c].start, family) && i < files->count; i++) {
            char *name = collage_name(files->items[i], COLLAGES[c].start);
            if (name && !was_drawn(drawn, name)) {
                g->items[g->count] = (item){name, name, NULL, c, g->count};
                g->count++;
            } else {
                free(name);
            }
        }
    if (g->count > own)
        qsort(g->items, g->count, sizeof *g->items, compare_items);
}

/* ---- one figure
 * ------------------------------------------------------------------------------- */

static bool read_picture(const gallery *g, const char *name, const char *ending,
                         qk_buffer *contents)
{
    size_t size = strlen(name) + strlen(ending) + 2;
    char *file = malloc(size), *path = NULL;
    qk_error err;
    if (file) {
        snprintf(file, size, "%s.%s", name, ending);
        path = qk__path_join(g->report->figures, file);
    }
    bool ok = path && qk__read_file(path, MAX_FILE, contents, &err) == QK_OK;
    free(path);
    free(file);
    return ok;
}

static void link_to(const gallery *g, const char *name, const char *ending, const char *what)
{
    qk__page_raw(g->page, " <a href=\"figures/");
    qk__page_link(g->page, name);
    qk__page_print(g->page, ".%s\">%s</a>", ending, what);
}

static bool has_file(const gallery *g, const char *name, const char *ending)
{
    size_t size = strlen(name) + strlen(ending) + 2;
    char *file = malloc(size), *path = NULL;
    if (file) {
        snprintf(file, size, "%s.%s", name, ending);
        path = qk__path_join(g->report->figures, file);
    }
    bool there = path && qk__is_file(path);
    free(path);
    free(file);
    return there;
}

static void links(const gallery *g, const char *name)
{
    static const char *const endings[][2] = {
        {"gp", "script"}, {"dat", "data"}, {"png", "PNG"}, {"svg", "SVG"}, {"pdf", "PDF"}};
    qk__page_raw(g->page, "<span class=\"links screen\">");
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (has_file(g, name, endings[i][0]))
            link_to(g, name, endings[i][0], endings[i][1]);
    qk__page_raw(g->page, "</span>");
}

/* Nominal size, half of that of the file (pictures are drawn at 2x); false: it is no PNG. */
static bool png_size(const qk_buffer *png, double *width, double *height)
{
    const uint8_t *p = png->data;
    if (png->size < 24 || memcmp(p, "\x89PNG\r\n\x1a\n", 8) != 0)
        return false;
    *width = (p[16] << 24 | p[17] << 16 | p[18] << 8 | p[19]) / 2.0;
    *height = (p[20] << 24 | p[21] << 16 | p[22] << 8 | p[23]) / 2.0;
    return *width >= 1 && *height >= 1 && *width < 1e5 && *height < 1e5;
}

static void picture_png(gallery *g, const char *name, const char *title, bool collage)
{
    qk_buffer png = {0};
    double width, height;
    bool there = read_picture(g, name, "png", &png) && png_size(&png, &width, &height);
    if (there && (!collage || g->pictures + png.size <= MAX_PICTURES)) {
        g->pictures += collage ? png.size : 0;
        qk__page_plate(g->page, width, height);
        qk__page_raw(g->page, "<img decoding=\"async\" alt=\"");
        qk__page_text(g->page, title);
        qk__page_raw(g->page, "\" src=\"data:image/png;base64,");
        qk__page_base64(g->page, png.data, png.size);
        qk__page_raw(g->page, "\"></div>");
    } else if (there) {
        qk__page_raw(g->page, "<p class=\"note\">Too large for this page; it lies beside it:");
        link_to(g, name, "png", "the picture");
        qk__page_raw(g->page, "</p>");
    } else {
        qk__page_raw(g->page, "<p class=\"note\">The picture could not be read.</p>");
    }
    qk__buffer_free(&png);
}

static void picture(gallery *g, const char *name, const char *title, bool collage)
{
    qk_buffer svg = {0};
    char prefix[32];
    snprintf(prefix, sizeof prefix, "f%zu", ++g->number);
    bool inlined = !collage && read_picture(g, name, "svg", &svg) && svg.size <= MAX_INLINE &&
                   qk__page_svg(g->page, (const char *)svg.data, svg.size, prefix, title,
                                g->report->theme);
    if (!inlined)
        picture_png(g, name, title, collage);
    qk__buffer_free(&svg);
}

static void single(gallery *g, const item *it)
{
    const char *title = it->drawn ? it->drawn->kind->title : COLLAGES[it->collage].title;
    const char *caption = it->drawn ? it->drawn->kind->caption : COLLAGES[it->collage].caption;
    bool beside = it->drawn && it->drawn->kind->width <= MAX_BESIDE;
    qk__page_print(g->page, "<figure class=\"%s\" id=\"fig-", beside ? "beside" : "wide");
    qk__page_link(g->page, it->name);
    qk__page_raw(g->page, "\">\n");
    picture(g, it->name, title, !it->drawn);
    qk__page_raw(g->page, "\n<figcaption><b>");
    qk__page_text(g->page, title);
    qk__page_raw(g->page, ".</b> ");
    qk__page_text(g->page, caption);
    links(g, it->name);
    qk__page_raw(g->page, "</figcaption>\n</figure>\n");
}

/* Figures of one kind, one a model: one caption, small pictures side by side. Returns how many.
 */
static size_t several(gallery *g, size_t first)
{
    const qk__figure_kind *kind = g->items[first].drawn->kind;
    size_t count = 0;
    while (first + count < g->count && g->items[first + count].drawn &&
           g->items[first + count].drawn->kind == kind)
        count++;
    qk__page_raw(g->page, "<div class=\"group\">\n<p class=\"groupcaption\"><b>");
    qk__page_text(g->page, kind->title);
    qk__page_raw(g->page, ".</b> ");
    qk__page_text(g->page, kind->caption);
    qk__page_print(g->page, "</p>\n<div class=\"%s\">\n", count > 1 ? "grid" : "one");
    for (size_t i = first; i < first + count; i++) {
        const qk__result_model *model = g->items[i].drawn->model;
        qk__page_raw(g->page, "<figure id=\"fig-");
        qk__page_link(g->page, g->items[i].name);
        qk__page_raw(g->page, "\">\n");
        picture(g, g->items[i].name, kind->title, false);
        qk__page_raw(g->page, "\n<figcaption>");
        qk__page_name(g->page, model->label);
        links(g, g->items[i].name);
        qk__page_raw(g->page, "</figcaption>\n</figure>\n");
    }
    qk__page_raw(g->page, "</div>\n</div>\n");
    return count;
}

static void family_figures(gallery *g, const qk__figure_family *family, const qk_names *files)
{
    collect(g, family, files);
    if (g->count > 0) {
        qk__page_raw(g->page, "<h3>");
        qk__page_text(g->page, family ? family->title : "Collages");
        qk__page_raw(g->page, "</h3>\n");
    }
    for (size_t i = 0; i < g->count;) {
        if (g->items[i].drawn && g->items[i].drawn->model) {
            i += several(g, i);
        } else {
            single(g, &g->items[i]);
            i++;
        }
    }
    for (size_t i = 0; i < g->count; i++)
        free(g->items[i].owned);
}

static void failures(qk__page *page, const qk__drawn_list *drawn)
{
    size_t failed = 0;
    for (size_t i = 0; i < drawn->count; i++)
        failed += drawn->items[i].status != QK_OK;
    if (failed == 0)
        return;
    qk__page_print(page,
                   "<div class=\"failed\" role=\"note\">\n<h3>Figures that could not be drawn"
                   "</h3>\n<p>%zu of %zu:</p>\n<ul>\n",
                   failed, drawn->count);
    for (size_t i = 0; i < drawn->count; i++) {
        const qk__drawn *d = &drawn->items[i];
        if (d->status == QK_OK)
            continue;
        qk__page_print(page, "<li><code>%s</code>: ", d->name);
        qk__page_text(page, d->message ? d->message : qk_status_text(d->status));
        qk__page_raw(page, "</li>\n");
    }
    qk__page_raw(page, "</ul>\n</div>\n");
}

void qk__section_figures(qk__page *page, const qk__report *report)
{
    qk_names files = {0};
    qk_error err;
    gallery g = {.page = page, .report = report};
    qk__page_raw(page, "<section id=\"figures\" tabindex=\"-1\">\n<h2>Figures</h2>\n");
    if (qk__list_dir(report->figures, &files, &err) != QK_OK)
        files = (qk_names){0};
    g.items =
        qk__calloc(report->drawn->count + files.count * NUM_COLLAGES + 1, sizeof *g.items);
    if (!g.items)
        page->status = qk__nomem(&page->err);
    size_t before = page->out.size;
    for (size_t f = 0; g.items && f < qk__num_figure_families; f++)
        family_figures(&g, qk__figure_families[f], &files);
    if (g.items)
        family_figures(&g, NULL, &files); /* collages of a study without figures */
    if (page->out.size == before)
        qk__page_raw(page, "<p>No figure applies to these results.</p>\n");
    failures(page, report->drawn);
    qk__page_raw(page, "</section>\n");
    free(g.items);
    qk__names_free(&files);
}
