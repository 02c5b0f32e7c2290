/* SPDX-License-Identifier: Apache-2.0 */
/* The document: its frame, the numbers and figures that need no scripts, and the places that scripts fill. */
#include "report/sections.h"

void qk__write_document(qk__page *page, const qk__report *report)
{
    const bool heads = report->results->num_heads > 0;
    qk__page_begin(page);
    qk__put(page, "title", "%s", report->title);
    qk__page_markup(page,
                    "<noscript><style>#contents, #overview, #findings, #extremes, #explorer, "
                    "#manifest, .files { display: none; }</style></noscript>\n");
    qk__close(page, "head");
    qk__open(page, "body");
    qk__page_asset(page, &qk__asset_top);
    qk__open(page, "main");
    qk__open(page, "header");
    qk__put(page, "h1", "%s", report->title);
    qk__close(page, "header");
    qk__page_asset(page, &qk__asset_first);
    if (heads)
        qk__page_asset(page, &qk__asset_map);
    qk__page_markup(page, "</section>\n");
    qk__page_asset(page, &qk__asset_findings);
    qk__page_section(page, "summary", "Numbers");
    qk__section_summary(page, report);
    qk__page_section_end(page);
    if (heads) {
        qk__page_asset(page, &qk__asset_extremes);
        qk__page_asset(page, &qk__asset_explorer);
    }
    qk__page_section(page, "figures", "Figures");
    qk__section_figures(page, report);
    qk__page_section_end(page);
    qk__page_asset(page, &qk__asset_methods);
    qk__close(page, "main");
    qk__section_said(page, report);
    qk__section_scripts(page, report);
    qk__close(page, "body html");
}
