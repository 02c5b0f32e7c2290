/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning of the document: head, security policy, contents at the side, title. */
#include <string.h>

#include "report/assets.h"
#include "report/sections.h"

/* Everything comes from the page itself: scripts are named by their hashes, nothing may be
 * fetched. Pictures are in it as data:, or made by its scripts (blob:) to be saved. */
static void security_policy(qk__page *page)
{
    qk__page_print(page,
                   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                   "script-src '%s' '%s'; style-src 'unsafe-inline'; img-src data: blob:; "
                   "base-uri 'none'; form-action 'none'\">\n",
                   qk__asset_chart.hash, qk__asset_script.hash);
}

static void entry(qk__page *page, const char *id, const char *title)
{
    qk__page_print(page, "<li><a href=\"#%s\">%s</a></li>\n", id, title);
}

/* Whether any figure of the family was drawn: only then it has a part. */
static bool was_drawn(const qk__report *report, const qk__figure_family *family)
{
    for (size_t i = 0; i < report->drawn->count; i++)
        if (report->drawn->items[i].family == family && report->drawn->items[i].status == QK_OK)
            return true;
    return false;
}

static void families(qk__page *page, const qk__report *report)
{
    bool any = false;
    for (size_t f = 0; f < qk__num_figure_families; f++) {
        const qk__figure_family *family = qk__figure_families[f];
        if (!was_drawn(report, family))
            continue;
        qk__page_raw(page, any ? "" : "\n<ul>\n");
        any = true;
        qk__page_print(page, "<li><a href=\"#%s\">", qk__family_id(f).text);
        qk__page_text_in(page, "", family->title, "</a></li>\n");
    }
    qk__page_raw(page, any ? "</ul>\n" : "");
}

static void contents(qk__page *page, const qk__report *report)
{
    qk__page_raw(page, "<nav id=\"contents\" aria-label=\"Contents\">\n"
                       "<button type=\"button\" id=\"contents-open\" aria-expanded=\"false\" "
                       "aria-controls=\"contents-list\" hidden>Contents</button>\n"
                       "<ul id=\"contents-list\">\n");
    entry(page, "overview", "Overview");
    entry(page, "findings", "Findings");
    entry(page, "summary", "Numbers");
    if (report->num_heads > 0) {
        entry(page, "extremes", "Extreme heads");
        entry(page, "explorer", "Explorer");
    }
    qk__page_raw(page, "<li><a href=\"#figures\">Figures</a>");
    families(page, report);
    qk__page_raw(page, "</li>\n");
    entry(page, "methods", "Methods");
    entry(page, "manifest", "Manifest");
    qk__page_raw(page, "</ul>\n<button type=\"button\" id=\"theme\" hidden>Theme: system"
                       "</button>\n</nav>\n");
}

void qk__section_top(qk__page *page, const qk__report *report)
{
    qk__page_raw(page,
                 "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    security_policy(page);
    qk__page_raw(page,
                 "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                 "<meta name=\"color-scheme\" content=\"light dark\">\n"
                 "<meta name=\"generator\" content=\"qkscope\">\n"
                 "<link rel=\"icon\" href=\"data:,\">\n<title>");
    qk__page_text(page, report->title);
    qk__page_raw(page, "</title>\n<style>\n");
    qk__page_bytes(page, qk__asset_style.data, qk__asset_style.size);
    qk__page_raw(page, "</style>\n</head>\n<body>\n"
                       "<a class=\"skip\" href=\"#overview\">Skip to the content</a>\n");
    contents(page, report);
    qk__page_text_in(page, "<main>\n<header>\n<h1>", report->title, "</h1>\n</header>\n");
}
