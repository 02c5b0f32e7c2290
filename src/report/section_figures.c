/* SPDX-License-Identifier: Apache-2.0 */
/* The figures, in report order: those that were drawn now, and collages that are in the folder already. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "figure/figure_note.h"
#include "report/collages.h"
#include "report/sections.h"
#include "report/picture.h"
#include "tables/text_lengths.h"

enum {
    MAX_BESIDE = 900,      /* a figure no wider than this has its caption beside it */
    PAGE_BYTES = 10800000, /* collages fill the page up to this: a page for an e-mail */
    LEAST_ROOM = 1000000,  /* collages get at least this */
    REST_BYTES = 350000,   /* scripts and methods */
    HEAD_BYTES = 8,        /* of a number in the explorer's block */
};

/* A place in a family: a figure that was drawn now, or all collages of a kind. */
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
    char ablation[QK_LENGTHS_SIZE]; /* texts that are other ones than those of the results */
} gallery;

/* Whether a collage belongs to the family, by the beginning of its name ("pca-", "rotation-"). */
static bool belongs_to(const char *start, const qk__figure_family *family)
{
    size_t study = strcspn(start, "-") + 1;
    for (size_t f = 0; f < qk__num_figure_families; f++) {
        const qk__figure_family *candidate = &qk__figure_families[f];
        if (candidate->count > 0 && strncmp(candidate->kinds[0].name, start, study) == 0)
            return candidate == family;
    }
    return family == NULL;
}

/* Figures are in the order of "pca-06" in "pca-06-collage-x". */
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

static void collect_family(gallery *g, const qk__figure_family *family)
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

/* The names of the files. The page's script adds what can be saved from the page itself. */
static void put_file_names(const gallery *g, const char *name)
{
    qk__open(g->page, "p.files[data-name=%s]", name);
    if (!g->report->settings->alone)
        qk__put(g->page, "span", "In the folder of the results: `figures/%s%s`", name, ".*");
    qk__close(g->page, "p");
}

static void put_single(const gallery *g, const qk__drawn *drawn)
{
    const qk__figure_kind *kind = drawn->kind;
    size_t together = qk__num_checkpoints(g->report->results);
    qk__open(g->page, "figure.%s#fig-%s", kind->width <= MAX_BESIDE ? "beside" : "wide",
             drawn->name);
    qk__put_drawn(g->page, drawn);
    qk__open(g->page, "figcaption");
    qk__put(g->page, "b", "%s.", kind->title);
    qk__say(g->page, " %s", kind->caption);
    if (together > 0 && kind->pools)
        qk__say(g->page, " All %zu checkpoints together.", together);
    put_file_names(g, drawn->name);
    qk__close(g->page, "figcaption figure");
}

/* The end of one of several figures in a grid, behind its picture. */
static void small_end(const gallery *g, const char *label, const char *name)
{
    qk__open(g->page, "figcaption");
    qk__say(g->page, "{%s}", label);
    put_file_names(g, name);
    qk__close(g->page, "figcaption figure");
}

static void group_begin(const gallery *g, const char *title, const char *caption,
                        const char *grid)
{
    qk__open(g->page, "div.group");
    qk__open(g->page, "p.groupcaption");
    qk__put(g->page, "b", "%s.", title);
    qk__say(g->page, " %s", caption);
    qk__close(g->page, "p");
    qk__open(g->page, "div.%s", grid);
}

static void collages_by_name(const gallery *g, int kind)
{
    qk__open(g->page, "p.note");
    if (g->report->settings->alone)
        qk__say(g->page, "Too many for one page, and not shown, are");
    else
        qk__say(g->page,
                "Not shown, since they are too many for one page or cannot be read, but "
                "in `figures/` of the results, are");
    for (size_t i = 0; i < g->collages.count; i++) {
        const qk__collage *collage = &g->collages.items[i];
        if (collage->kind == kind && collage->picture.size == 0)
            qk__say(g->page, " `{%s}.svg`", collage->name);
    }
    qk__close(g->page, "p");
}

static void collage_figure(const gallery *g, const qk__collage *collage, const char *title,
                           double width, double height)
{
    char *id = qk__percent(collage->name);
    if (!id)
        qk__page_nomem(g->page);
    qk__open(g->page, "figure#fig-%s", id ? id : "");
    qk__put_svg_file(g->page, &collage->picture, width, height, collage->dark, title);
    small_end(g, collage->model ? collage->model->label : collage->name, collage->name);
    free(id);
}

/* The collages of a kind: those with a picture side by side, the others by name. */
static void put_collages(const gallery *g, int kind)
{
    const qk__collage_kind *k = &qk__collage_kinds[kind];
    size_t others = 0;
    group_begin(g, k->title, k->caption, "grid large");
    for (size_t i = 0; i < g->collages.count; i++) {
        const qk__collage *collage = &g->collages.items[i];
        double width, height;
        if (collage->kind != kind)
            continue;
        if (qk__svg_size(&collage->picture, &width, &height))
            collage_figure(g, collage, k->title, width, height);
        else
            others++;
    }
    qk__close(g->page, "div");
    if (others > 0)
        collages_by_name(g, kind);
    qk__close(g->page, "div");
}

/* Figures of one kind, one for each model: one caption, small pictures side by side. Returns their number. */
static size_t put_several(const gallery *g, size_t first)
{
    const qk__figure_kind *kind = g->items[first].drawn->kind;
    size_t end = first;
    while (end < g->count && g->items[end].drawn && g->items[end].drawn->kind == kind)
        end++;
    group_begin(g, kind->title, kind->caption, end - first > 1 ? "grid" : "one");
    for (size_t i = first; i < end; i++) {
        const qk__drawn *drawn = g->items[i].drawn;
        qk__open(g->page, "figure#fig-%s", drawn->name);
        qk__put_drawn(g->page, drawn);
        small_end(g, drawn->model->label, drawn->name);
    }
    qk__close(g->page, "div div");
    return end - first;
}

static void family_figures(gallery *g, const qk__figure_family *family, size_t index)
{
    collect_family(g, family);
    qk__phrase id = qk__phrase_of("figures-%zu", index + 1);
    if (g->count > 0)
        qk__page_part(g->page, id.text, family ? family->title : "Collages");
    if (g->count > 0 && *g->ablation && family && strstr(family->kinds->tables, "ablation"))
        qk__put(g->page, "p.note", "The ablation is of %s.", g->ablation);
    for (size_t i = 0; i < g->count;) {
        const item *it = &g->items[i];
        if (it->drawn && it->drawn->model) {
            i += put_several(g, i);
            continue;
        }
        if (it->drawn)
            put_single(g, it->drawn);
        else
            put_collages(g, it->kind);
        i++;
    }
    if (g->count > 0)
        qk__page_part_end(g->page);
}

/* The bytes that are left for collages. */
static size_t room_for_collages(const gallery *g)
{
    size_t used = g->page->out.size + REST_BYTES +
                  g->report->results->num_heads * qk__num_fields * HEAD_BYTES;
    for (size_t i = 0; i < g->report->drawn->count; i++)
        used += g->report->drawn->items[i].in_page.size;
    return used + LEAST_ROOM < PAGE_BYTES ? PAGE_BYTES - used : LEAST_ROOM;
}

void qk__section_figures(qk__page *page, const qk__report *report)
{
    gallery g = {.page = page, .report = report};
    char lengths[QK_LENGTHS_SIZE];
    qk__lengths_of_all(report->results->lengths, report->results->num_models, lengths);
    if (page->status == QK_OK)
        page->status =
            qk__ablation_lengths(report->tables, "main", lengths, g.ablation, &page->err);
    if (page->status == QK_OK)
        page->status = qk__collages_find(report->figures, report->results,
                                         room_for_collages(&g), &g.collages, &page->err);
    g.items = qk__calloc(report->drawn->count + QK__NUM_COLLAGE_KINDS, sizeof *g.items);
    if (!g.items)
        qk__page_nomem(page);
    size_t before = page->out.size;
    for (size_t f = 0; g.items && f < qk__num_figure_families; f++)
        family_figures(&g, &qk__figure_families[f], f);
    if (g.items)
        family_figures(&g, NULL, qk__num_figure_families); /* collages without other figures */
    if (page->out.size == before)
        qk__put(page, "p.empty", "No figure applies to these results.");
    qk__section_files(page, report, &g.collages);
    free(g.items);
    qk__collages_free(&g.collages);
}
