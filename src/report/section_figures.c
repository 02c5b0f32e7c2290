/* SPDX-License-Identifier: Apache-2.0 */
/* The figures: those drawn now and collages that already lie in the folder, in report order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "figure/figure_note.h"
#include "report/collages.h"
#include "report/sections.h"
#include "report/svg.h"
#include "report/thumbnail.h"

enum {
    MAX_FILE = 64 << 20,
    MAX_INLINE = 450 << 10, /* an SVG with more bytes than that is shown as PNG */
    MAX_BESIDE = 900,       /* a figure no wider than that has its caption beside it */
    PAGE_BYTES = 10800000,  /* what collages fill up to: a page for an e-mail */
    LEAST_ROOM = 1000000,   /* but that much they get */
    REST_BYTES = 350000,    /* scripts and methods */
    PER_LETTER = 13,        /* tenths: letters of a picture's text that are larger on a phone */
    HEAD_BYTES = 8,         /* of a number in the explorer's block */
};

/* One place of a family: a figure drawn now, or all collages of a kind. */
typedef struct item {
    const char *name;
    const qk__drawn *drawn; /* NULL: collages */
    int kind;
    size_t order;
} item;

typedef struct gallery {
    qk__page *page;
    const qk__report *report;
    qk__collages collages;
    item *items;
    size_t count;
    size_t number; /* of inline pictures so far: their prefix */
} gallery;

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

static bool has_collages(const gallery *g, int kind)
{
    for (size_t i = 0; i < g->collages.count; i++)
        if (g->collages.items[i].kind == kind)
            return true;
    return false;
}

static void collect(gallery *g, const qk__figure_family *family)
{
    const qk__drawn_list *drawn = g->report->drawn;
    g->count = 0;
    for (size_t i = 0; i < drawn->count; i++)
        if (drawn->items[i].family == family && drawn->items[i].status == QK_OK) {
            g->items[g->count] = (item){drawn->items[i].name, &drawn->items[i], -1, g->count};
            g->count++;
        }
    size_t own = g->count;
    for (int kind = 0; kind < QK__NUM_COLLAGE_KINDS; kind++) {
        const char *start = qk__collage_kinds[kind].start;
        if (belongs_to(start, family) && has_collages(g, kind)) {
            g->items[g->count] = (item){start, NULL, kind, g->count};
            g->count++;
        }
    }
    if (g->count > own)
        qsort(g->items, g->count, sizeof *g->items, compare_items);
}

/* ---- one figure ------------------------------------------------------------------------- */

static bool read_picture(const gallery *g, const char *name, const char *ending,
                         qk__buffer *contents)
{
    qk__buffer path = {0};
    bool ok =
        qk__buffer_printf(&path, NULL, "%s/%s.%s", g->report->staging, name, ending) == QK_OK &&
        qk__read_file((const char *)path.data, MAX_FILE, contents, NULL) == QK_OK;
    qk__buffer_free(&path);
    return ok;
}

/* 0: it is not there. */
static size_t file_size(const char *folder, const char *name, const char *ending)
{
    qk__buffer path = {0};
    struct stat st;
    size_t size = 0;
    if (qk__buffer_printf(&path, NULL, "%s/%s.%s", folder, name, ending) == QK_OK &&
        stat((const char *)path.data, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
        size = (size_t)st.st_size;
    qk__buffer_free(&path);
    return size;
}

/* Where the files are. The page's script adds what can be saved from the page itself. */
static void files(const gallery *g, const char *name)
{
    qk__page_raw(g->page, "<p class=\"files\" data-name=\"");
    qk__page_text(g->page, name);
    qk__page_raw(g->page, "\">");
    if (!g->report->settings->alone)
        qk__page_text_in(g->page, "<span>In the folder of the results: <code>figures/", name,
                         ".*</code></span>");
    qk__page_raw(g->page, "</p>");
}

/* The findings that name a figure as one that shows them. */
static void says(const gallery *g, const char *kind)
{
    const qk__findings *findings = &g->report->findings;
    size_t said = 0;
    for (size_t i = 0; i < findings->count; i++)
        for (size_t k = 0; k < QK__NUM_SHOWN; k++) {
            const qk__finding *f = &findings->items[i];
            if (!f->figures[k] || strcmp(f->figures[k], kind) != 0 || !f->claim)
                continue;
            qk__page_print(g->page, "%s<li><a href=\"#finding-%s\">",
                           said++ ? "" : "<ul class=\"says\" aria-label=\"Findings\">\n",
                           f->id);
            qk__page_text_in(g->page, "", f->claim, "</a></li>\n");
        }
    qk__page_raw(g->page, said ? "</ul>\n" : "");
}

/* A PNG whose nominal size is width x height. What is dark in it is made light on a dark page, and
 * the other way round. */
static void put_png(qk__page *page, const qk__buffer *png, double width, double height,
                    bool dark, const char *title)
{
    qk__page_plate(page, width, height, width * PER_LETTER / 10);
    qk__page_print(page, "<img class=\"%s\" alt=\"", dark ? "dark" : "light");
    qk__page_text_in(page, "", title, "\" src=\"data:image/png;base64,");
    qk__page_base64(page, png->data, png->size);
    qk__page_raw(page, "\"></div></div>");
}

static void picture_png(gallery *g, const char *name, const char *title)
{
    qk__buffer png = {0};
    unsigned width, height; /* of the file: at twice the nominal size */
    if (read_picture(g, name, "png", &png) && qk__png_size(&png, &width, &height))
        put_png(g->page, &png, width / 2.0, height / 2.0,
                g->report->settings->figures.theme == QK_THEME_DARK, title);
    else
        qk__page_raw(g->page, "<p class=\"note\">The picture could not be read.</p>");
    qk__buffer_free(&png);
}

static void picture(gallery *g, const char *name, const char *title)
{
    qk__buffer svg = {0};
    char prefix[32];
    snprintf(prefix, sizeof prefix, "f%zu", ++g->number);
    bool inlined = read_picture(g, name, "svg", &svg) && svg.size <= MAX_INLINE &&
                   qk__page_svg(g->page, (const char *)svg.data, svg.size, prefix, title,
                                g->report->theme);
    if (!inlined)
        picture_png(g, name, title);
    qk__buffer_free(&svg);
}

static void single(gallery *g, const qk__drawn *drawn)
{
    const qk__figure_kind *kind = drawn->kind;
    qk__page_print(g->page, "<figure class=\"%s\" id=\"fig-",
                   kind->width <= MAX_BESIDE ? "beside" : "wide");
    qk__page_link(g->page, drawn->name);
    qk__page_raw(g->page, "\">\n");
    picture(g, drawn->name, kind->title);
    qk__page_text_in(g->page, "\n<figcaption><b>", kind->title, ".</b> ");
    qk__page_text(g->page, kind->caption);
    size_t together = qk__num_checkpoints(g->report->results);
    if (together > 0 && qk__pools_models(kind->name))
        qk__page_print(g->page, " All %zu checkpoints together.", together);
    says(g, kind->name);
    files(g, drawn->name);
    qk__page_raw(g->page, "</figcaption>\n</figure>\n");
}

/* One of several figures in a grid, up to its picture, and from there. */
static void small_begin(const gallery *g, const char *name)
{
    qk__page_raw(g->page, "<figure id=\"fig-");
    qk__page_link(g->page, name);
    qk__page_raw(g->page, "\">\n");
}

static void small_end(const gallery *g, const char *label, const char *name)
{
    qk__page_raw(g->page, "\n<figcaption>");
    qk__page_name(g->page, label);
    files(g, name);
    qk__page_raw(g->page, "</figcaption>\n</figure>\n");
}

static void group_begin(const gallery *g, const char *name, const char *title,
                        const char *caption, const char *grid)
{
    qk__page_text_in(g->page, "<div class=\"group\">\n<p class=\"groupcaption\"><b>", title,
                     ".</b> ");
    qk__page_text_in(g->page, "", caption, "</p>\n");
    says(g, name);
    qk__page_print(g->page, "<div class=\"%s\">\n", grid);
}

static void collages_by_name(const gallery *g, int kind)
{
    qk__page_raw(g->page,
                 g->report->settings->alone
                     ? "<p class=\"note\">Too many for one page, and not shown, are"
                     : "<p class=\"note\">Not shown, since they are too many for one page "
                       "or cannot be read, but in <code>figures/</code> of the results, are");
    for (size_t i = 0; i < g->collages.count; i++) {
        const qk__collage *collage = &g->collages.items[i];
        if (collage->kind != kind || collage->picture.size > 0)
            continue;
        qk__page_raw(g->page, " <code>");
        qk__page_name(g->page, collage->name);
        qk__page_raw(g->page, ".png</code>");
    }
    qk__page_raw(g->page, "</p>\n");
}

/* Collages of one kind: those with a picture side by side, the others by name. */
static void collages(gallery *g, int kind)
{
    const qk__collage_kind *k = &qk__collage_kinds[kind];
    size_t others = 0;
    group_begin(g, k->start, k->title, k->caption, "grid large");
    for (size_t i = 0; i < g->collages.count; i++) {
        const qk__collage *collage = &g->collages.items[i];
        unsigned width, height;
        if (collage->kind != kind)
            continue;
        if (!qk__png_size(&collage->picture, &width, &height)) {
            others++;
            continue;
        }
        small_begin(g, collage->name);
        double scale = g->collages.divisor / 2.0; /* the file is at twice the nominal size */
        put_png(g->page, &collage->picture, width * scale, height * scale, collage->dark,
                k->title);
        small_end(g, collage->model ? collage->model->label : collage->name, collage->name);
    }
    qk__page_raw(g->page, "</div>\n");
    if (others > 0)
        collages_by_name(g, kind);
    qk__page_raw(g->page, "</div>\n");
}

/* Figures of one kind, one a model: one caption, small pictures side by side. Returns how
 * many. */
static size_t several(gallery *g, size_t first)
{
    const qk__figure_kind *kind = g->items[first].drawn->kind;
    size_t count = 0;
    while (first + count < g->count && g->items[first + count].drawn &&
           g->items[first + count].drawn->kind == kind)
        count++;
    group_begin(g, kind->name, kind->title, kind->caption, count > 1 ? "grid" : "one");
    for (size_t i = first; i < first + count; i++) {
        small_begin(g, g->items[i].name);
        picture(g, g->items[i].name, kind->title);
        small_end(g, g->items[i].drawn->model->label, g->items[i].name);
    }
    qk__page_raw(g->page, "</div>\n</div>\n");
    return count;
}

qk__family_name qk__family_id(size_t family)
{
    qk__family_name name;
    snprintf(name.text, sizeof name.text, "figures-%zu", family + 1);
    return name;
}

static void family_figures(gallery *g, const qk__figure_family *family, size_t index)
{
    collect(g, family);
    if (g->count > 0)
        qk__page_part(g->page, qk__family_id(index).text, family ? family->title : "Collages");
    for (size_t i = 0; i < g->count;) {
        const item *it = &g->items[i];
        if (it->drawn && it->drawn->model) {
            i += several(g, i);
            continue;
        }
        if (it->drawn)
            single(g, it->drawn);
        else
            collages(g, it->kind);
        i++;
    }
    if (g->count > 0)
        qk__page_part_end(g->page);
}

/* Bytes that are left for collages. */
static size_t room_for_collages(const gallery *g)
{
    size_t used =
        g->page->out.size + REST_BYTES + g->report->num_heads * qk__num_fields * HEAD_BYTES;
    for (size_t i = 0; i < g->report->drawn->count; i++) {
        const char *name = g->report->drawn->items[i].name;
        size_t svg = file_size(g->report->staging, name, "svg");
        size_t png = file_size(g->report->staging, name, "png");
        used += svg <= MAX_INLINE ? svg : png / 3 * 4;
    }
    return used + LEAST_ROOM < PAGE_BYTES ? PAGE_BYTES - used : LEAST_ROOM;
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
    gallery g = {.page = page, .report = report};
    qk__page_section(page, "figures", "Figures", true);
    if (page->status == QK_OK)
        page->status =
            qk__collages_find(report->figures, report->results, room_for_collages(&g),
                              report->settings->figures.threads, &g.collages, &page->err);
    g.items = qk__calloc(report->drawn->count + QK__NUM_COLLAGE_KINDS, sizeof *g.items);
    if (!g.items && page->status == QK_OK)
        page->status = qk__nomem(&page->err);
    size_t before = page->out.size;
    for (size_t f = 0; g.items && f < qk__num_figure_families; f++)
        family_figures(&g, qk__figure_families[f], f);
    if (g.items)
        family_figures(&g, NULL, qk__num_figure_families); /* collages without other figures */
    if (page->out.size == before)
        qk__page_raw(page, "<p class=\"empty\">No figure applies to these results.</p>\n");
    failures(page, report->drawn);
    qk__page_section_end(page);
    qk__section_files(page, report, &g.collages);
    free(g.items);
    qk__collages_free(&g.collages);
}
