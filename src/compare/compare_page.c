/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a comparison: one file that needs no network, with the map, the explorer and the scripts of a report. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/number.h"
#include "compare/compare.h"
#include "report/picture.h"
#include "tables/text_lengths.h"

/* ---- beginning -------------------------------------------------------------------------- */

static bool has_kinds(const qk_compare_outcome *o)
{
    for (int a = 0; a < QK_NUM_CATEGORIES; a++)
        for (int b = 0; b < QK_NUM_CATEGORIES; b++)
            if (o->categories[a][b] > 0)
                return true;
    return false;
}

static void put_contents(qk__page *page, const qk_compare_outcome *o)
{
    static const char *const SECTIONS[][2] = {
        {"means", "Over all heads"},      {"movers", "The biggest movers"},
        {"categories", "Kinds of heads"}, {"heads", "All heads"},
        {"explorer", "Explorer"},         {"figures", "Figures"},
        {"method", "How it is computed"}};
    qk__page_contents_begin(page);
    for (size_t i = 0; i < sizeof SECTIONS / sizeof *SECTIONS; i++)
        if (strcmp(SECTIONS[i][0], "categories") != 0 || has_kinds(o))
            qk__put(page, "li", "[#%s|%s]", SECTIONS[i][0], SECTIONS[i][1]);
    qk__page_contents_end(page);
}

static void top(qk__page *page, const qk_compare_outcome *o)
{
    qk__page_begin(page);
    qk__put(page, "title", "%s and %s", o->names[0], o->names[1]);
    qk__close(page, "head");
    qk__open(page, "body");
    put_contents(page, o);
    qk__open(page, "main");
    qk__open(page, "header");
    qk__put(page, "h1", "What changed from {%s} to {%s}", o->names[0], o->names[1]);
}

static void lead(qk__page *page, const qk__comparing *c)
{
    const qk_compare_outcome *o = c->outcome;
    qk__open(page, "p.lead");
    qk__say(page, "*%zu* head%s in both", o->paired, o->paired == 1 ? " is" : "s are");
    if (o->only_a + o->only_b > 0)
        qk__say(page, ", %zu in a alone, %zu in b alone", o->only_a, o->only_b);
    qk__say(page, ". ");
    if (c->silent)
        qk__say(page, "Texts of a and b differ in length, so no change is tested.");
    else if (o->tested > 0)
        qk__say(page,
                "Of %zu changes that can be judged, *%zu* are more than texts explain (p below "
                "0.05, corrected for all of them).",
                o->tested, o->supported);
    else
        qk__say(page, "No interval tells how far texts explain the changes.");
    qk__close(page, "p");
    qk__open(page, "dl.columns");
    for (int s = 0; s < 2; s++) {
        qk__put(page, "dt", "%s", c->sides[s].letter);
        char lengths[QK_LENGTHS_SIZE];
        qk__put(page, "dd", "{%s}, results %s; %s", o->names[s],
                s == 0 ? c->settings->a : c->settings->b,
                qk_text_lengths_say(&o->lengths[s], lengths));
    }
    qk__close(page, "dl");
}

static void warnings(qk__page *page, const qk_compare_outcome *o)
{
    if (o->num_warnings == 0)
        return;
    qk__open(page, "div.warning[role=note]");
    qk__put(page, "p", "*Before you trust it*");
    qk__open(page, "ul");
    for (size_t i = 0; i < o->num_warnings; i++)
        qk__put(page, "li", "%s", o->warnings[i]);
    qk__close(page, "ul div");
}

/* ---- tables ----------------------------------------------------------------------------- */

static void begin_section(qk__page *page, const char *id, const char *title)
{
    qk__open(page, "section#%s[tabindex=-1]", id);
    qk__put(page, "h2", "%s", title);
}

/* Columns by their names, up to NULL. Columns of a and b show the lengths of their texts, where these differ. */
static void table(qk__page *page, const qk_compare_outcome *o, const char *caption,
                  const char *const *columns)
{
    qk__table_begin(page, caption);
    for (; *columns; columns++) {
        char name[64];
        const int side = strcmp(*columns, "b") == 0;
        qk__print_plain(name, sizeof name, "%s, %.15g tokens", *columns, o->tokens[side]);
        qk__table_head(
            page, o->unlike && strspn(*columns, "ab") == strlen(*columns) ? name : *columns);
    }
    qk__table_body(page);
}

/* value: for sorting. */
static void open_cell(qk__page *page, double value)
{
    if (isfinite(value))
        qk__open(page, "td[data-value=%.9g]", value);
    else
        qk__open(page, "td");
}

static void cell(qk__page *page, double value)
{
    open_cell(page, value);
    qk__say(page, "%.3g", value);
    qk__close(page, "td");
}

static void interval_cell(qk__page *page, double low, double high)
{
    if (isfinite(low))
        qk__put(page, "td", "%.3g … %.3g", low, high);
    else
        qk__put(page, "td", "–");
}

/* A smaller p is no surer than the normal tails that it comes from. */
static void p_cell(qk__page *page, double p)
{
    open_cell(page, p);
    if (p < 1e-4)
        qk__say(page, "< 0.0001");
    else
        qk__say(page, "%.2g", p);
    qk__close(page, "td");
}

/* The words of a metric, and its column. */
static void metric(qk__page *page, const char *name)
{
    const qk__field *field = qk__find_field(name);
    bool named = field && field->info.label;
    qk__put(page, "th[scope=row]", "%s%s^`%s`^", named ? field->info.label : "",
            named ? " " : "", name);
}

static void means(qk__page *page, const qk_compare_outcome *o)
{
    static const char *const COLUMNS[] = {
        "metric", "a", "b", "b − a", "interval", "p, corrected", "heads that changed", NULL};
    begin_section(page, "means", "Over all heads");
    table(page, o, "Mean over heads, and mean difference over key heads", COLUMNS);
    for (size_t i = 0; i < o->num_metrics; i++) {
        const qk_compare_metric *m = &o->metrics[i];
        if (!m->main)
            continue;
        qk__open(page, "tr");
        metric(page, m->name);
        cell(page, m->mean_a);
        cell(page, m->mean_b);
        cell(page, m->mean);
        interval_cell(page, m->low, m->high);
        p_cell(page, m->p_corrected);
        if (m->tested > 0)
            qk__put(page, "td", "%zu of %zu", m->supported, m->tested);
        else
            qk__put(page, "td", "–");
        qk__close(page, "tr");
    }
    qk__table_end(page);
    qk__put(
        page, "p.note",
        "Heads of a layer are not independent: the interval and p are of key heads or of layers, "
        "whichever is less certain. `compare_summary.json` has the other metrics, `qkscope explain METRIC` says "
        "what one is.");
    qk__close(page, "section");
}

static void categories(qk__page *page, const qk_compare_outcome *o)
{
    const char *columns[QK_NUM_CATEGORIES + 2] = {"in a"};
    size_t all = 0, same = 0;
    for (int a = 0; a < QK_NUM_CATEGORIES; a++) {
        columns[a + 1] = qk_category_name((qk_category)a);
        same += o->categories[a][a];
        for (int b = 0; b < QK_NUM_CATEGORIES; b++)
            all += o->categories[a][b];
    }
    if (!has_kinds(o))
        return;
    begin_section(page, "categories", "Kinds of heads");
    qk__put(page, "p", "%zu of %zu heads have another category in b than in a.", all - same,
            all);
    table(page, o, "Heads by kind in a (rows) and in b (columns)", columns);
    for (int a = 0; a < QK_NUM_CATEGORIES; a++) {
        qk__open(page, "tr");
        qk__put(page, "th[scope=row]", "%s", columns[a + 1]);
        for (int b = 0; b < QK_NUM_CATEGORIES; b++)
            qk__put(page, o->categories[a][b] ? "td" : "td.none", "%zu", o->categories[a][b]);
        qk__close(page, "tr");
    }
    qk__table_end(page);
    qk__close(page, "section");
}

static void movers(qk__page *page, const qk_compare_outcome *o)
{
    static const char *const COLUMNS[] = {
        "head", "metric", "a", "b", "b − a", "interval", "in spreads", "p, corrected", NULL};
    begin_section(page, "movers", "The biggest movers");
    if (o->num_movers == 0) {
        qk__put(page, "p", "No number of any head changed.");
        qk__close(page, "section");
        return;
    }
    table(page, o, "Heads that changed most, each by the metric that changed most", COLUMNS);
    for (size_t i = 0; i < o->num_movers; i++) {
        const qk_compare_mover *m = &o->movers[i];
        qk__open(page, "tr");
        qk__put(page, "th[scope=row]", "layer %d, head %d", m->layer, m->q_head);
        qk__put(page, "td", "`%s`", m->metric);
        cell(page, m->a);
        cell(page, m->b);
        cell(page, m->difference);
        interval_cell(page, m->low, m->high);
        qk__put(page, "td", "%.2g", m->size);
        p_cell(page, m->p_corrected);
        qk__close(page, "tr");
    }
    qk__table_end(page);
    qk__put(page, "p.note",
            "%sIn spreads: over the standard deviation of the metric over all heads. The "
            "biggest of "
            "many is partly luck: other texts would show a smaller change.",
            o->tested > 0 ? "First those that changed by more than texts explain. " : "");
    qk__close(page, "section");
}

/* The numbers of both and their differences, as a map and a table (compare_data.c). */
static void all_heads(qk__page *page)
{
    begin_section(page, "heads", "All heads");
    qk__page_asset(page, &qk__asset_map);
    qk__close(page, "section");
    qk__page_asset(page, &qk__asset_explorer);
}

/* ---- figures ---------------------------------------------------------------------------- */

static void figures(qk__page *page, const qk__comparing *c)
{
    begin_section(page, "figures", "Figures");
    for (size_t i = 0; i < c->drawn.count; i++) {
        const qk__drawn *drawn = &c->drawn.items[i];
        if (drawn->status != QK_OK) {
            qk__put(page, "p.failed", "`%s` could not be drawn: %s", drawn->name,
                    drawn->message ? drawn->message : "out of memory");
            continue;
        }
        qk__open(page, "figure.wide#fig-%s", drawn->name);
        qk__put_drawn(page, drawn);
        qk__open(page, "figcaption");
        qk__put(page, "b", "%s.", drawn->kind->title);
        qk__say(page, " %s", drawn->kind->caption);
        qk__close(page, "figcaption figure");
    }
    qk__close(page, "section");
}

static qk_status end_page(qk__page *page, const qk__comparing *c, qk_error *err)
{
    const char *line = c->settings->command_line;
    begin_section(page, "method", "How it is computed");
    qk__put(
        page, "p",
        "Differences are b − a of the same head. Intervals (%.3g %%) are over texts, from the "
        "intervals of a and of b. p-values of all metrics of all heads "
        "are corrected together (Benjamini and Hochberg). `docs/howto/compare.md` has the "
        "formulas.",
        100 * c->level);
    if (line)
        qk__put(page, "pre[tabindex=0]", "%s", line);
    qk__put(page, "p.note", "Page made by qkscope %s; charts by Chart.js (MIT licence).",
            qk_version());
    qk__close(page, "section main");
    QK_TRY(qk__compare_put_data(page, c, err));
    qk__page_scripts(page);
    qk__close(page, "body html");
    return QK_OK;
}

qk_status qk__compare_write_page(qk__comparing *c, qk_error *err)
{
    qk__page page = {.status = QK_OK};
    qk__outfile *file = NULL;
    top(&page, c->outcome);
    lead(&page, c);
    warnings(&page, c->outcome);
    qk__close(&page, "header");
    means(&page, c->outcome);
    movers(&page, c->outcome);
    categories(&page, c->outcome);
    all_heads(&page);
    figures(&page, c);
    qk__path path;
    qk_status status = end_page(&page, c, err);
    if (status == QK_OK)
        status = qk__path_in(&path, c->settings->output, QK__COMPARE_PAGE, err);
    if (status == QK_OK)
        status = qk__page_write(&page, path.text, &file, err);
    qk__page_free(&page);
    return qk__file_set_add(&c->files, QK__COMPARE_PAGE, file, status);
}
