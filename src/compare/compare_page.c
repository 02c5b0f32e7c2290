/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a comparison: one file that needs neither network nor scripts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "compare/compare.h"
#include "report/assets.h"
#include "report/page.h"
#include "report/svg.h"

enum { MAX_PICTURE = 8 << 20, DIGITS = 3 };

/* ---- beginning -------------------------------------------------------------------------- */

static void top(qk__page *page, const qk_compare_outcome *o)
{
    qk__page_raw(page,
                 "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                 "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                 "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action "
                 "'none'\">\n"
                 "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                 "<meta name=\"color-scheme\" content=\"light dark\">\n"
                 "<meta name=\"generator\" content=\"qkscope\">\n"
                 "<link rel=\"icon\" href=\"data:,\">\n<title>");
    qk__page_text(page, o->names[0]);
    qk__page_text_in(page, " and ", o->names[1], "</title>\n<style>\n");
    qk__page_bytes(page, qk__asset_style.data, qk__asset_style.size);
    qk__page_raw(page, "</style>\n</head>\n<body>\n<main>\n<header>\n<h1>What changed from ");
    qk__page_name(page, o->names[0]);
    qk__page_raw(page, " to ");
    qk__page_name(page, o->names[1]);
    qk__page_raw(page, "</h1>\n");
}

static void lead(qk__page *page, const qk__comparing *c)
{
    const qk_compare_outcome *o = c->outcome;
    qk__page_print(page, "<p class=\"lead\"><strong>%s</strong> head%s in both",
                   qk__show_count(o->paired).text, o->paired == 1 ? " is" : "s are");
    if (o->only_a + o->only_b > 0)
        qk__page_print(page, ", %s in a alone, %s in b alone", qk__show_count(o->only_a).text,
                       qk__show_count(o->only_b).text);
    qk__page_raw(page, ". ");
    if (o->tested > 0)
        qk__page_print(page,
                       "Of %s changes that can be judged, <strong>%s</strong> are more than "
                       "texts explain (p below 0.05, corrected for all of them).",
                       qk__show_count(o->tested).text, qk__show_count(o->supported).text);
    else
        qk__page_raw(page, "No interval tells how far texts explain the changes.");
    qk__page_raw(page, "</p>\n<dl class=\"columns\">\n");
    for (int s = 0; s < 2; s++) {
        const char *given = s == 0 ? c->settings->a : c->settings->b;
        qk__page_print(page, "<dt>%s</dt><dd>", c->sides[s].letter);
        qk__page_name(page, o->names[s]);
        qk__page_text_in(page, ", ", c->sides[s].run ? "capture " : "results ", "");
        qk__page_text(page, given);
        qk__page_raw(page, "</dd>\n");
    }
    qk__page_raw(page, "</dl>\n");
}

static void warnings(qk__page *page, const qk_compare_outcome *o)
{
    if (o->num_warnings == 0)
        return;
    qk__page_raw(page, "<div class=\"warning\" role=\"note\">\n<p><strong>Before you trust it"
                       "</strong></p>\n<ul>\n");
    for (size_t i = 0; i < o->num_warnings; i++)
        qk__page_text_in(page, "<li>", o->warnings[i], "</li>\n");
    qk__page_raw(page, "</ul>\n</div>\n");
}

/* ---- tables ----------------------------------------------------------------------------- */

static void table_begin(qk__page *page, const char *caption)
{
    qk__page_print(page,
                   "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s\">\n"
                   "<table class=\"numbers\">\n<caption>%s</caption>\n<thead><tr>",
                   caption, caption);
}

static void table_end(qk__page *page)
{
    qk__page_raw(page, "</tbody>\n</table>\n</div>\n");
}

static void heads(qk__page *page, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        qk__page_print(page, "<th scope=\"col\">%s</th>", names[i]);
    qk__page_raw(page, "</tr></thead>\n<tbody>\n");
}
#define HEADS(page, ...)                                                                       \
    heads(page, (const char *const[]){__VA_ARGS__},                                            \
          sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void cell(qk__page *page, double value)
{
    qk__page_print(page, "<td>%s</td>", qk__show(value, DIGITS).text);
}

static void interval_cell(qk__page *page, double low, double high)
{
    if (isfinite(low))
        qk__page_print(page, "<td>%s … %s</td>", qk__show(low, DIGITS).text,
                       qk__show(high, DIGITS).text);
    else
        qk__page_raw(page, "<td>–</td>");
}

/* Smaller ones are no surer than the normal tails that they come from. */
static void p_cell(qk__page *page, double p)
{
    if (p < 1e-4)
        qk__page_raw(page, "<td>&lt; 0.0001</td>");
    else
        qk__page_print(page, "<td>%s</td>", qk__show(p, 2).text);
}

/* The words of a metric, and its column. */
static void metric(qk__page *page, const char *name)
{
    const qk__field *field = qk__find_field(name);
    if (field && field->info.label)
        qk__page_text_in(page, "", field->info.label, " ");
    qk__page_print(page, "<small><code>%s</code></small>", name);
}

static void means(qk__page *page, const qk_compare_outcome *o)
{
    qk__page_raw(page, "<section id=\"means\" tabindex=\"-1\">\n<h2>Over all heads</h2>\n");
    table_begin(page, "Mean over heads, and mean difference over key heads");
    HEADS(page, "metric", "a", "b", "b − a", "interval", "p, corrected", "heads that changed");
    for (size_t i = 0; i < o->num_metrics; i++) {
        const qk_compare_metric *m = &o->metrics[i];
        if (!m->main)
            continue;
        qk__page_raw(page, "<tr><th scope=\"row\">");
        metric(page, m->name);
        qk__page_raw(page, "</th>");
        cell(page, m->mean_a);
        cell(page, m->mean_b);
        cell(page, m->mean);
        interval_cell(page, m->low, m->high);
        p_cell(page, m->p_corrected);
        if (m->tested > 0)
            qk__page_print(page, "<td>%zu of %zu</td></tr>\n", m->supported, m->tested);
        else
            qk__page_raw(page, "<td>–</td></tr>\n");
    }
    table_end(page);
    qk__page_raw(page,
                 "<p class=\"note\">Query heads that share a key head are not independent: the "
                 "interval and p are of key heads. <code>compare_summary.json</code> has the "
                 "other metrics, <code>qkscope explain METRIC</code> says what one is.</p>\n"
                 "</section>\n");
}

static void categories(qk__page *page, const qk_compare_outcome *o)
{
    size_t all = 0, same = 0;
    for (int a = 0; a < QK_NUM_CATEGORIES; a++)
        for (int b = 0; b < QK_NUM_CATEGORIES; b++) {
            all += o->categories[a][b];
            same += a == b ? o->categories[a][b] : 0;
        }
    if (all == 0)
        return;
    qk__page_print(page,
                   "<section id=\"categories\" tabindex=\"-1\">\n<h2>Kinds of heads</h2>\n"
                   "<p>%zu of %zu heads are of another kind in b than in a.</p>\n",
                   all - same, all);
    table_begin(page, "Heads by kind in a (rows) and in b (columns)");
    qk__page_raw(page, "<th scope=\"col\">in a</th>");
    for (int b = 0; b < QK_NUM_CATEGORIES; b++)
        qk__page_print(page, "<th scope=\"col\">%s</th>", qk_category_name((qk_category)b));
    qk__page_raw(page, "</tr></thead>\n<tbody>\n");
    for (int a = 0; a < QK_NUM_CATEGORIES; a++) {
        qk__page_print(page, "<tr><th scope=\"row\">%s</th>", qk_category_name((qk_category)a));
        for (int b = 0; b < QK_NUM_CATEGORIES; b++)
            qk__page_print(page,
                           o->categories[a][b] ? "<td>%zu</td>" : "<td class=\"none\">%zu</td>",
                           o->categories[a][b]);
        qk__page_raw(page, "</tr>\n");
    }
    table_end(page);
    qk__page_raw(page, "</section>\n");
}

static void movers(qk__page *page, const qk_compare_outcome *o)
{
    qk__page_raw(page,
                 "<section id=\"movers\" tabindex=\"-1\">\n<h2>The biggest movers</h2>\n");
    if (o->num_movers == 0) {
        qk__page_raw(page, "<p>No number of any head changed.</p>\n</section>\n");
        return;
    }
    table_begin(page, "Heads that changed most, each by the metric that changed most");
    HEADS(page, "head", "metric", "a", "b", "b − a", "interval", "in spreads", "p, corrected");
    for (size_t i = 0; i < o->num_movers; i++) {
        const qk_compare_mover *m = &o->movers[i];
        qk__page_print(page,
                       "<tr><th scope=\"row\">layer %d, head %d</th><td><code>%s</code></td>",
                       m->layer, m->q_head, m->metric);
        cell(page, m->a);
        cell(page, m->b);
        cell(page, m->difference);
        interval_cell(page, m->low, m->high);
        qk__page_print(page, "<td>%s</td>", qk__show(m->size, 2).text);
        p_cell(page, m->p_corrected);
        qk__page_raw(page, "</tr>\n");
    }
    table_end(page);
    qk__page_raw(
        page, "<p class=\"note\">First those that changed by more than texts explain. In "
              "spreads: over the standard deviation of the metric over all heads. The biggest "
              "of many is partly luck: other texts would show a smaller change.</p>\n"
              "</section>\n");
}

static const char *space_name(const char *space)
{
    return strcmp(space, "qk") == 0  ? "queries and keys"
           : strcmp(space, "q") == 0 ? "queries"
                                     : "keys";
}

static void spaces(qk__page *page, const qk__comparing *c)
{
    const qk_compare_outcome *o = c->outcome;
    qk__page_raw(page,
                 "<section id=\"angles\" tabindex=\"-1\">\n<h2>Leading components</h2>\n");
    if (o->num_spaces == 0) {
        qk__page_text_in(page, "<p>There are no angles: ", o->no_spaces ? o->no_spaces : "",
                         ".");
        qk__page_raw(page, "</p>\n</section>\n");
        return;
    }
    qk__page_print(page,
                   "<p>How much of the space of the first %d component%s in a lies in that of "
                   "b.</p>\n",
                   c->settings->subspace, c->settings->subspace == 1 ? "" : "s");
    table_begin(page, "Medians over heads");
    HEADS(page, "of", "heads", "overlap", "largest angle", "halves of the texts of a",
          "halves of the texts of b", "unrelated", "moved more than texts explain");
    for (size_t i = 0; i < o->num_spaces; i++) {
        const qk_compare_space *s = &o->spaces[i];
        qk__page_print(page, "<tr><th scope=\"row\">%s</th><td>%zu</td>", space_name(s->space),
                       s->heads);
        cell(page, s->overlap);
        qk__page_print(page, "<td>%s°</td>", qk__show(s->angle, DIGITS).text);
        cell(page, s->halves_a);
        cell(page, s->halves_b);
        cell(page, s->chance);
        qk__page_print(page, "<td>%zu of %zu</td></tr>\n", s->moved, s->judged);
    }
    table_end(page);
    qk__page_raw(page, "</section>\n");
}

/* ---- figures ---------------------------------------------------------------------------- */

static bool put_svg(qk__page *page, const qk__comparing *c, const qk__drawn *drawn, size_t i)
{
    qk__buffer path = {0}, svg = {0};
    char prefix[32];
    snprintf(prefix, sizeof prefix, "f%zu", i + 1);
    bool put = qk__buffer_printf(&path, NULL, "%s/%s.svg", c->staging, drawn->name) == QK_OK &&
               qk__read_file((char *)path.data, MAX_PICTURE, &svg, NULL) == QK_OK &&
               qk__page_svg(page, (char *)svg.data, svg.size, prefix, drawn->kind->title,
                            qk__theme_of(c->settings->figures.theme));
    qk__buffer_free(&path);
    qk__buffer_free(&svg);
    return put;
}

static void figures(qk__page *page, const qk__comparing *c)
{
    qk__page_raw(page, "<section id=\"figures\" tabindex=\"-1\">\n<h2>Figures</h2>\n");
    for (size_t i = 0; i < c->drawn.count; i++) {
        const qk__drawn *drawn = &c->drawn.items[i];
        if (drawn->status != QK_OK) {
            qk__page_print(
                page, "<p class=\"failed\"><code>%s</code> could not be drawn: ", drawn->name);
            qk__page_text(page, drawn->message ? drawn->message : "out of memory");
            qk__page_raw(page, "</p>\n");
            continue;
        }
        qk__page_print(page, "<figure class=\"wide\" id=\"fig-%s\">\n", drawn->name);
        if (!put_svg(page, c, drawn, i))
            qk__page_raw(page, "<p class=\"note\">The picture could not be read.</p>");
        qk__page_text_in(page, "\n<figcaption><b>", drawn->kind->title, ".</b> ");
        qk__page_text(page, drawn->kind->caption);
        qk__page_raw(page, "</figcaption>\n</figure>\n");
    }
    qk__page_raw(page, "</section>\n");
}

static void end(qk__page *page, const qk__comparing *c)
{
    const char *line = c->settings->input.command_line;
    qk__page_print(
        page,
        "<section id=\"method\" tabindex=\"-1\">\n<h2>How it is computed</h2>\n"
        "<p>Differences are b − a of the same head. Intervals (%s %%) are those of a jackknife "
        "over texts: of the differences themselves where a and b are of the same texts "
        "(paired), "
        "else from the intervals of a and of b. p-values of all metrics of all heads are "
        "corrected "
        "together (Benjamini and Hochberg). <code>docs/compare.md</code> has the "
        "formulas.</p>\n",
        qk__show(100 * c->comparison.level, 3).text);
    if (line)
        qk__page_text_in(page, "<pre tabindex=\"0\">", line, "</pre>\n");
    qk__page_print(page,
                   "<p class=\"note\">Page made by qkscope %s.</p>\n</section>\n</main>\n"
                   "</body>\n</html>\n",
                   qk_version());
}

qk_status qk__compare_write_page(qk__comparing *c, qk_error *err)
{
    qk__page page = {.status = QK_OK};
    qk__outfile *file = NULL;
    top(&page, c->outcome);
    lead(&page, c);
    warnings(&page, c->outcome);
    qk__page_raw(&page, "</header>\n");
    means(&page, c->outcome);
    movers(&page, c->outcome);
    categories(&page, c->outcome);
    spaces(&page, c);
    figures(&page, c);
    end(&page, c);
    if (page.status != QK_OK && err)
        *err = page.err;
    qk_status status = page.status;
    char *path = qk__path_join(c->settings->input.output, QK__COMPARE_PAGE);
    if (status == QK_OK)
        status = path ? qk__outfile_open(&file, path, err) : qk__nomem(err);
    free(path);
    if (status == QK_OK)
        status = qk__outfile_write(file, page.out.data, page.out.size, err);
    if (status == QK_OK)
        status = qk__outfile_finish(file, err);
    qk__page_free(&page);
    return qk__compare_keep(c, QK__COMPARE_PAGE, file, status);
}
