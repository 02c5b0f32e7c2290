/* SPDX-License-Identifier: Apache-2.0 */
/* The findings: sentences with their evidence, each with links to the figures that show it. */
#include <string.h>

#include "report/sections.h"

/* The figure drawn under a finding's name: the first of those that there are for each model. */
static const qk__drawn *drawn_as(const qk__report *report, const char *name)
{
    for (size_t i = 0; i < report->drawn->count; i++) {
        const qk__drawn *d = &report->drawn->items[i];
        if (d->status == QK_OK && strcmp(d->kind->name, name) == 0)
            return d;
    }
    return NULL;
}

static void figures_of(qk__page *page, const qk__report *report, const qk__finding *f)
{
    size_t shown = 0;
    for (size_t i = 0; i < QK__NUM_SHOWN; i++) {
        const qk__drawn *drawn = f->figures[i] ? drawn_as(report, f->figures[i]) : NULL;
        if (!drawn)
            continue;
        qk__page_print(page, "%s<a href=\"#fig-",
                       shown++ ? ", " : "<p class=\"shown\">Figures: ");
        qk__page_link(page, drawn->name);
        qk__page_text_in(page, "\">", drawn->kind->title, "</a>");
    }
    qk__page_raw(page, shown ? "</p>\n" : "");
}

static void finding(qk__page *page, const qk__report *report, const qk__finding *f)
{
    qk__page_print(page,
                   "<li class=\"finding\" data-finding=\"%s\" data-verdict=\"%s\">\n"
                   "<p class=\"claim\" id=\"finding-%s\" tabindex=\"-1\"><span class=\"badge "
                   "%s\">%s</span> ",
                   f->id, qk__verdict_tokens[f->verdict], f->id, qk__verdict_tokens[f->verdict],
                   qk__verdict_names[f->verdict]);
    qk__page_text(page, f->claim ? f->claim : "");
    qk__page_raw(page, "</p>\n<ul class=\"evidence\">\n");
    qk__page_lines(page, f->evidence ? f->evidence : "", "<li>", "</li>\n");
    qk__page_raw(page, "</ul>\n");
    figures_of(page, report, f);
    qk__page_raw(page, "</li>\n");
}

void qk__section_findings(qk__page *page, const qk__report *report)
{
    const qk__findings *findings = &report->findings;
    qk__page_section(page, "findings", "Findings", true);
    if (findings->count == 0)
        qk__page_raw(page, "<p class=\"empty\">These tables allow no finding.</p>\n");
    else
        qk__page_raw(
            page,
            "<p class=\"note\">Made from the numbers of this page. "
            "<em>Supported</em>: p, corrected together with those of all findings, is at most "
            "0.05, and the numbers lie on the claim’s side; <em>not supported</em>: it is "
            "larger. Where nothing goes on, at most one page in twenty claims anything. "
            "Intervals are not corrected. Claims about models need three of them: below that "
            "a finding speaks of the models at hand.</p>\n");
    const char *topic = "";
    for (size_t i = 0; i < findings->count; i++) {
        const qk__finding *f = &findings->items[i];
        if (strcmp(topic, f->topic) != 0)
            qk__page_print(page, "%s<h3>%s</h3>\n<ul class=\"findings\">\n", i ? "</ul>\n" : "",
                           f->topic);
        topic = f->topic;
        finding(page, report, f);
    }
    qk__page_raw(page, findings->count > 0 ? "</ul>\n" : "");
    qk__page_section_end(page);
}
