/* SPDX-License-Identifier: Apache-2.0 */
/* The findings: sentences with their evidence, each with links to the figures that show it. */
#include <math.h>
#include <string.h>

#include "report/sections.h"
#include "tables/text_lengths.h"

void qk__verdict_badge(qk__page *page, qk__verdict verdict)
{
    qk__open(page, "span.badge.%s", qk__verdict_tokens[verdict]);
    qk__say(page, "%s", qk__verdict_names[verdict]);
    qk__close(page, "span");
    qk__say(page, " ");
}

/* The figure drawn under a finding's name: the first of those that there are for each model. */
static const qk__drawn *drawn_as(const qk__report *report, const char *name)
{
    for (size_t i = 0; name && i < report->drawn->count; i++) {
        const qk__drawn *d = &report->drawn->items[i];
        if (d->status == QK_OK && strcmp(d->kind->name, name) == 0)
            return d;
    }
    return NULL;
}

static void put_figure_links(qk__page *page, const qk__report *report, const qk__finding *f)
{
    size_t shown = 0;
    for (size_t i = 0; i < QK__NUM_SHOWN; i++) {
        const qk__drawn *drawn = drawn_as(report, f->figures[i]);
        if (drawn && shown++ == 0)
            qk__open(page, "p.shown");
        if (drawn)
            qk__say(page, "%s[#fig-%s|%s]", shown == 1 ? "Figures: " : ", ", drawn->name,
                    drawn->kind->title);
    }
    qk__close(page, shown ? "p" : "");
}

static void put_finding(qk__page *page, const qk__report *report, const qk__finding *f)
{
    qk__open(page, "li.finding[data-finding=%s][data-verdict=%s]", f->id,
             qk__verdict_tokens[f->verdict]);
    qk__open(page, "p.claim#finding-%s[tabindex=-1]", f->id);
    qk__verdict_badge(page, f->verdict);
    qk__say(page, "%s", f->claim ? f->claim : "");
    qk__close(page, "p");
    qk__open(page, "ul.evidence");
    qk__put_lines(page, "li", f->evidence ? f->evidence : "");
    if (qk__has_unlike_lengths(report->results))
        qk__put(page, "li",
                "Texts of the models are of unlike lengths, which part of it may be.");
    if (isfinite(f->effect))
        qk__put(page, "li.effect", "Size of the effect, from 0 to 1: %.2g.", f->effect);
    qk__close(page, "ul");
    put_figure_links(page, report, f);
    qk__close(page, "li");
}

void qk__section_findings(qk__page *page, const qk__report *report)
{
    const qk__findings *findings = &report->findings;
    const char *topic = NULL;
    if (findings->count == 0)
        qk__put(page, "p.empty", "These tables allow no finding.");
    else
        qk__page_asset(page, &qk__asset_findings);
    for (size_t i = 0; i < findings->count; topic = findings->items[i++].topic) {
        const qk__finding *f = &findings->items[i];
        if (!topic || strcmp(topic, f->topic) != 0) {
            qk__close(page, topic ? "ul" : "");
            qk__put(page, "h3", "%s", f->topic);
            qk__open(page, "ul.findings");
        }
        put_finding(page, report, f);
    }
    qk__close(page, findings->count > 0 ? "ul" : "");
}
