/* SPDX-License-Identifier: Apache-2.0 */
/* The document: its head, contents at the side, and its sections, in order. */
#include "report/sections.h"

static void put_extremes(qk__page *page, const qk__report *report)
{
    (void)report;
    qk__page_asset(page, &qk__asset_extremes);
}

static void put_explorer(qk__page *page, const qk__report *report)
{
    (void)report;
    qk__page_asset(page, &qk__asset_explorer);
}

/* A section of the page, and its entry in the contents. */
typedef struct section {
    const char *id, *entry;
    enum { FOLDED, PLAIN, PART } frame; /* PART: of the section after it, which has its own */
    bool of_heads;                      /* only where there are some */
    void (*fill)(qk__page *page, const qk__report *report);
} section;

static const section SECTIONS[] = {
    {"overview", "Overview", PLAIN, false, qk__section_overview},
    {"findings", "Findings", FOLDED, false, qk__section_findings},
    {"summary", "Numbers", FOLDED, false, qk__section_summary},
    {"extremes", "Extreme heads", PART, true, put_extremes},
    {"explorer", "Explorer", PART, true, put_explorer},
    {"figures", "Figures", FOLDED, false, qk__section_figures},
    {"methods", "Methods", FOLDED, false, qk__section_methods},
    {"manifest", "Manifest", FOLDED, false, qk__section_manifest},
};
enum { NUM_SECTIONS = sizeof SECTIONS / sizeof *SECTIONS };

/* ---- contents --------------------------------------------------------------------------- */

/* Families of which a figure was drawn: only these have a part. */
static void put_families(qk__page *page, const qk__report *report)
{
    bool any = false;
    for (size_t f = 0; f < qk__num_figure_families; f++) {
        bool drawn = false;
        for (size_t i = 0; i < report->drawn->count; i++)
            drawn |= report->drawn->items[i].family == &qk__figure_families[f] &&
                     report->drawn->items[i].status == QK_OK;
        if (drawn && !any)
            qk__open(page, "ul");
        any |= drawn;
        if (drawn)
            qk__put(page, "li", "[#figures-%zu|%s]", f + 1, qk__figure_families[f].title);
    }
    qk__close(page, any ? "ul" : "");
}

static void put_contents(qk__page *page, const qk__report *report)
{
    qk__page_contents_begin(page);
    for (const section *s = SECTIONS; s < SECTIONS + NUM_SECTIONS; s++) {
        if (s->of_heads && report->num_heads == 0)
            continue;
        qk__open(page, "li");
        qk__say(page, "[#%s|%s]", s->id, s->entry);
        if (s->fill == qk__section_figures)
            put_families(page, report);
        qk__close(page, "li");
    }
    qk__page_contents_end(page);
}

/* ---- document --------------------------------------------------------------------------- */

static void put_section(qk__page *page, const qk__report *report, const section *s)
{
    if (s->frame == PLAIN) {
        qk__open(page, "section#%s[tabindex=-1]", s->id);
        qk__put(page, "h2.unseen", "%s", s->entry);
    } else if (s->frame != PART) {
        qk__page_section(page, s->id, s->entry);
    }
    if (s->fill)
        s->fill(page, report);
    if (s->frame == PLAIN)
        qk__close(page, "section");
    else if (s->frame != PART)
        qk__page_section_end(page);
}

void qk__write_document(qk__page *page, const qk__report *report)
{
    qk__page_begin(page);
    qk__put(page, "title", "%s", report->title);
    qk__close(page, "head");
    qk__open(page, "body");
    qk__put(page, "a.skip[href=#overview]", "Skip to the content");
    put_contents(page, report);
    qk__open(page, "main");
    qk__open(page, "header");
    qk__put(page, "h1", "%s", report->title);
    qk__close(page, "header");
    for (const section *s = SECTIONS; s < SECTIONS + NUM_SECTIONS; s++)
        if (!s->of_heads || report->num_heads > 0)
            put_section(page, report, s);
    qk__close(page, "main");
    qk__section_scripts(page, report);
    qk__close(page, "body html");
}
