/* SPDX-License-Identifier: Apache-2.0 */
/* The first screen: what was analysed, how far it can be trusted, what stands out, and all heads in
 * one picture. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/analysis.h>

#include "base/error.h"
#include "report/assets.h"
#include "report/evidence.h"
#include "report/sections.h"

enum {
    FEW_NAMES = 6,    /* of models, hosts, datasets in a line */
    STANDING = 5,     /* findings that stand out */
    FEW_WARNINGS = 3, /* of the runs, before the rest is folded */
    FEW_HEADS = 5,    /* that could not be analysed, by name */
    COMMIT = 12,      /* digits of a commit that are shown */
};

/* ---- what was analysed ------------------------------------------------------------------ */

static void fact(qk__page *page, const char *name)
{
    qk__page_print(page, "<dt>%s</dt><dd>", name);
}

static void models(qk__page *page, const qk__results *results)
{
    size_t count = results->num_models;
    fact(page, results->checkpoints ? "Checkpoints" : count == 1 ? "Model" : "Models");
    if (count > 1)
        qk__page_print(page, "<strong>%zu</strong>: ", count);
    for (size_t m = 0; m < count && m < FEW_NAMES; m++) {
        qk__page_raw(page, m ? ", " : "");
        qk__page_name(page, *results->models[m].label ? results->models[m].label : "(no name)");
    }
    if (count > FEW_NAMES)
        qk__page_print(page, " and %zu more", count - FEW_NAMES);
    qk__page_raw(page, "</dd>\n");
}

static void heads(qk__page *page, const qk__report *report)
{
    const qk__results *results = report->results;
    int least = results->models[0].last_layer, most = least;
    for (size_t m = 0; m < results->num_models; m++) {
        int last = results->models[m].last_layer;
        least = last < least ? last : least;
        most = last > most ? last : most;
    }
    fact(page, "Heads");
    qk__page_print(page, "<strong>%s</strong> query heads in ",
                   qk__show_count(report->num_heads).text);
    if (least < most)
        qk__page_print(page, "%d to ", least + 1);
    qk__page_print(page, "%d layer%s</dd>\n", most + 1, most > 0 ? "s" : "");
}

/* "1,234", or "1,234 to 5,678". */
static void span(qk__page *page, double least, double most)
{
    qk__page_print(page, "<strong>%s", qk__show_count((size_t)least).text);
    if (most > least)
        qk__page_print(page, "</strong> to <strong>%s", qk__show_count((size_t)most).text);
    qk__page_raw(page, "</strong>");
}

static void rows_and_texts(qk__page *page, const qk__results *results)
{
    double rows[2] = {NAN, NAN}, texts[2] = {NAN, NAN};
    for (size_t m = 0; m < results->num_models; m++)
        for (size_t h = 0; h < results->models[m].num_heads; h++) {
            const qk__result_head *head = &results->models[m].heads[h];
            rows[0] = fmin(rows[0], fmin(head->n_q, head->n_k));
            rows[1] = fmax(rows[1], fmax(head->n_q, head->n_k));
            texts[0] = fmin(texts[0], head->v.texts);
            texts[1] = fmax(texts[1], head->v.texts);
        }
    fact(page, "Rows a head");
    if (isfinite(rows[0])) {
        span(page, rows[0], rows[1]);
        qk__page_raw(page, " queries or keys");
    } else {
        qk__page_raw(page, "not recorded");
    }
    qk__page_raw(page, "</dd>\n");
    fact(page, "Texts");
    if (isfinite(texts[0])) {
        span(page, texts[0], texts[1]);
        qk__page_raw(page, " a head");
    } else {
        qk__page_raw(page, "not recorded");
    }
    qk__page_raw(page, "</dd>\n");
}

/* The last two parts of a path: all that tells captures apart, mostly. */
static const char *tail_of(const char *path)
{
    const char *tail = path + strlen(path);
    for (int parts = 0; tail > path; tail--)
        if (tail[-1] == '/' && ++parts == 2)
            break;
    return tail;
}

static void source(qk__page *page, const json_t *run)
{
    const char *name = json_string_value(json_object_get(run, "source"));
    const char *commit = json_string_value(json_object_get(run, "commit"));
    if (!*commit) {
        qk__page_text_in(page, "<bdi title=\"", name, "\">");
        qk__page_text_in(page, "", tail_of(name), "</bdi>");
        return;
    }
    char digits[COMMIT + 1] = "";
    strncat(digits, commit, COMMIT);
    qk__page_text_in(page, "<bdi>", name, "</bdi>");
    qk__page_text_in(page, " at <code title=\"", commit, "\">");
    qk__page_text_in(page, "", digits, "</code>");
}

/* Captures that were read: runs of one folder may have read the same. */
static void sources(qk__page *page, const json_t *runs)
{
    size_t i, shown = 0, more = 0;
    const json_t *run, *before = NULL;
    fact(page, "Captures");
    json_array_foreach(runs, i, run)
    {
        const json_t *name = json_object_get(run, "source");
        if (before && json_equal(name, before))
            continue;
        before = name;
        if (!*json_string_value(name))
            continue;
        if (shown == FEW_NAMES) {
            more++;
            continue;
        }
        qk__page_raw(page, shown++ ? "<br>" : "");
        source(page, run);
    }
    if (more > 0)
        qk__page_print(page, "<br>and %zu more, see <a href=\"#manifest\">Manifest</a>", more);
    qk__page_raw(page, shown ? "</dd>\n" : "not recorded</dd>\n");
}

/* "a, b and 3 more", or "not recorded". */
static void several(qk__page *page, const json_t *list)
{
    size_t i, count = json_array_size(list);
    const json_t *text;
    json_array_foreach(list, i, text)
    {
        if (i == FEW_NAMES)
            break;
        qk__page_raw(page, i ? ", " : "");
        qk__page_name(page, json_string_value(text));
    }
    if (count > FEW_NAMES)
        qk__page_print(page, " and %zu more", count - FEW_NAMES);
    qk__page_raw(page, count ? "" : "not recorded");
}

/* Days of the first and the last run: those of the manifests, so that the same tables give the
 * same page. */
static void days(qk__page *page, const json_t *dates)
{
    enum { DAY = 10 };
    size_t count = json_array_size(dates);
    char first[DAY + 1] = "", last[DAY + 1] = "";
    fact(page, "Made");
    if (count == 0) {
        qk__page_raw(page, "not recorded</dd>\n");
        return;
    }
    strncat(first, json_string_value(json_array_get(dates, 0)), DAY);
    strncat(last, json_string_value(json_array_get(dates, count - 1)), DAY);
    qk__page_text_in(page, "<strong>", first, "</strong>");
    if (strcmp(first, last) != 0)
        qk__page_text_in(page, " to <strong>", last, "</strong>");
    qk__page_raw(page, "</dd>\n");
}

static void list_of(qk__page *page, const qk__provenance *p, const char *name,
                    const char *member)
{
    json_t *list = qk__provenance_list(p, member);
    if (!list)
        qk__page_nomem(page);
    fact(page, name);
    several(page, list);
    qk__page_raw(page, "</dd>\n");
    json_decref(list);
}

static void analysed(qk__page *page, const qk__report *report)
{
    json_t *dates = qk__provenance_list(&report->provenance, "date");
    if (!dates)
        qk__page_nomem(page);
    qk__page_raw(page, "<div class=\"card\" id=\"analysed\">\n<h3>What was analysed</h3>\n"
                       "<dl class=\"facts\">\n");
    if (report->results->num_models > 0) {
        models(page, report->results);
        heads(page, report);
        rows_and_texts(page, report->results);
    }
    if (json_array_size(report->provenance.runs) > 0) {
        sources(page, report->provenance.runs);
        days(page, dates);
        list_of(page, &report->provenance, "Host", "host");
        list_of(page, &report->provenance, "qkscope", "version");
    }
    qk__page_raw(page, "</dl>\n</div>\n");
    json_decref(dates);
}

/* ---- how far it can be trusted ---------------------------------------------------------- */

/* Heads of which the number is there, and of those the ones it is `below` or above a limit. */
static size_t count_heads(const qk__results *results, const char *name, bool below,
                          double limit, size_t *known)
{
    const qk__field *field = qk__find_field(name);
    size_t found = 0;
    *known = 0;
    for (size_t m = 0; m < results->num_models; m++)
        for (size_t h = 0; h < results->models[m].num_heads; h++) {
            double value = qk__field_value(field, &results->models[m].heads[h].v);
            *known += isfinite(value);
            found += isfinite(value) && (below ? value < limit : value > limit);
        }
    return found;
}

static size_t count_few_rows(const qk__results *results)
{
    size_t few = 0;
    for (size_t m = 0; m < results->num_models; m++)
        for (size_t h = 0; h < results->models[m].num_heads; h++)
            few += qk__has_few_rows(&results->models[m].heads[h]);
    return few;
}

/* Numbers from too few rows look like any others. */
static void warnings(qk__page *page, const qk__report *report)
{
    size_t with_texts, with_width;
    size_t few = count_heads(report->results, "texts", true, QK_FEW_TEXTS, &with_texts);
    size_t wide =
        count_heads(report->results, "r_q_width", false, QK_WIDE_INTERVAL, &with_width);
    size_t few_rows = count_few_rows(report->results);
    const qk_report_outcome *outcome = report->outcome;
    for (size_t i = 0; i < outcome->num_changed; i++) {
        qk__page_text_in(page,
                         "<p class=\"warning\" data-warning=\"changed\"><strong>Not the "
                         "tables that the analysis wrote.</strong> ",
                         outcome->changed[i], ".</p>\n");
    }
    if (few_rows > 0)
        qk__page_print(page,
                       "<p class=\"warning\" data-warning=\"few-rows\"><strong>Too few "
                       "rows.</strong> %s of %s heads have fewer than %d rows of queries or "
                       "keys: their numbers are mostly chance, and no finding counts them."
                       "</p>\n",
                       qk__show_count(few_rows).text, qk__show_count(report->num_heads).text,
                       QK_FEW_ROWS);
    if (few > 0)
        qk__page_print(page,
                       "<p class=\"warning\" data-warning=\"texts\"><strong>Too few "
                       "texts.</strong> %s of %s heads have fewer than %d texts: other texts "
                       "may give other numbers.</p>\n",
                       qk__show_count(few).text, qk__show_count(with_texts).text, QK_FEW_TEXTS);
    if (wide > 0)
        qk__page_print(
            page,
            "<p class=\"warning\" data-warning=\"rows\"><strong>Wide "
            "intervals.</strong> For %s of %s heads the 95 %% interval of r<sub>q</sub> "
            "on PC0 is wider than %.1f.</p>\n",
            qk__show_count(wide).text, qk__show_count(with_width).text, QK_WIDE_INTERVAL);
}

static void uncertain(qk__page *page, const qk__report *report)
{
    size_t known;
    size_t below =
        count_heads(report->results, "category_share", true, QK_CERTAIN_SHARE, &known);
    if (known == 0 && report->num_heads > 0)
        qk__page_raw(page,
                     "<p class=\"known\">How sure the category of a head is was not looked "
                     "at, or no table says so.</p>\n");
    else if (known > 0)
        qk__page_print(
            page,
            "<p class=\"%s\" data-warning=\"uncertain\"><strong>%s of %s heads</strong> "
            "(%s) would change their category with other texts.</p>\n",
            below > 0 ? "known" : "fine", qk__show_count(below).text,
            qk__show_count(known).text, qk__show_percent((double)below / (double)known).text);
}

static void one_warning(qk__page *page, const char *text, const json_t *models)
{
    size_t count = json_array_size(models);
    const char *model = json_string_value(json_array_get(models, 0));
    qk__page_text_in(page, "<li>", text, "");
    if (count > 1)
        qk__page_print(page, " <small>(%zu models)</small>", count);
    else if (model && *model) {
        qk__page_raw(page, " <small>(");
        qk__page_name(page, model);
        qk__page_raw(page, ")</small>");
    }
    qk__page_raw(page, "</li>\n");
}

/* What the runs warned of; the many are folded behind the first few. */
static void run_warnings(qk__page *page, json_t *warnings)
{
    size_t count = json_object_size(warnings), i = 0;
    const char *text;
    json_t *models;
    if (count == 0)
        return;
    qk__page_raw(page, "<p class=\"warning\" data-warning=\"runs\"><strong>The run");
    if (count == 1)
        qk__page_raw(page, " warned:</strong></p>\n<ul class=\"warned\">\n");
    else
        qk__page_print(page, "s warned of %zu things:</strong></p>\n<ul class=\"warned\">\n",
                       count);
    json_object_foreach(warnings, text, models)
    {
        if (i++ == FEW_WARNINGS)
            qk__page_print(
                page, "</ul>\n<details><summary>%zu more</summary>\n<ul class=\"warned\">\n",
                count - FEW_WARNINGS);
        one_warning(page, text, models);
    }
    qk__page_raw(page, count > FEW_WARNINGS ? "</ul>\n</details>\n" : "</ul>\n");
}

/* " tiny l00h03q, ...": the model only where there are several. */
static void failed_heads(qk__page *page, const qk__report *report)
{
    const qk__provenance *p = &report->provenance;
    size_t i, count = json_array_size(p->failures);
    const json_t *failure;
    qk__page_print(
        page,
        "<p class=\"warning\" data-warning=\"failed\"><strong>Heads without "
        "numbers.</strong> %s of %s heads could not be analysed",
        qk__show_count((size_t)p->failed_heads).text,
        qk__show_count((size_t)(p->failed_heads > p->heads_with_files ? p->failed_heads
                                                                      : p->heads_with_files))
            .text);
    json_array_foreach(p->failures, i, failure)
    {
        if (i == FEW_HEADS)
            break;
        qk__page_raw(page, i ? ", " : ": ");
        if (report->results->num_models > 1) {
            qk__page_name(page, json_string_value(json_object_get(failure, "model")));
            qk__page_raw(page, " ");
        }
        qk__page_text_in(page, "<code>", json_string_value(json_object_get(failure, "head")),
                         "</code>");
    }
    if (count > FEW_HEADS)
        qk__page_print(page, " and %zu more", count - FEW_HEADS);
    qk__page_raw(page, ".</p>\n");
}

static void trusted(qk__page *page, const qk__report *report)
{
    const qk__provenance *p = &report->provenance;
    qk__page_raw(page,
                 "<div class=\"card\" id=\"trusted\">\n<h3>How far it can be trusted</h3>\n");
    warnings(page, report);
    if (p->failed_heads > 0)
        failed_heads(page, report);
    run_warnings(page, p->warnings);
    uncertain(page, report);
    if (json_array_size(p->runs) == 0)
        qk__page_raw(
            page, "<p class=\"known\">The tables have no manifest: where they come from, and "
                  "what their run warned of, is not known.</p>\n");
    else if (json_object_size(p->warnings) == 0 && p->failed_heads == 0)
        qk__page_raw(page, "<p class=\"fine\">The runs warned of nothing, and every head has "
                           "numbers.</p>\n");
    qk__page_raw(page, "</div>\n");
}

/* ---- what stands out -------------------------------------------------------------------- */

/* A finding with an answer, whichever. */
static bool answers(const qk__finding *f)
{
    return f->verdict == QK__SUPPORTED || f->verdict == QK__OPPOSITE ||
           f->verdict == QK__DIVIDED;
}

static bool is_first_of_topic(const qk__findings *findings, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (answers(&findings->items[j]) &&
            strcmp(findings->items[j].topic, findings->items[i].topic) == 0)
            return false;
    return true;
}

static void standing(qk__page *page, const qk__finding *f)
{
    qk__page_print(page, "<li><span class=\"badge %s\">%s</span> <a href=\"#finding-%s\">",
                   qk__verdict_tokens[f->verdict], qk__verdict_names[f->verdict], f->id);
    qk__page_text(page, f->claim ? f->claim : "");
    qk__page_raw(page, "</a></li>\n");
}

/* How many heads follow position, and how. Findings about checkpoints are about the last, and so is
 * this. Each number leads to the explorer; page.js makes it lead to these heads there. */
static void kinds_of_heads(qk__page *page, const qk__report *report)
{
    const qk__results *results = report->results;
    size_t counts[QK_NUM_CATEGORIES] = {0}, all = 0, shown = 0;
    bool last = qk__num_checkpoints(results) > 0;
    for (size_t m = last ? results->num_models - 1 : 0; m < results->num_models; m++)
        for (size_t h = 0; h < results->models[m].num_heads; h++) {
            int category = results->models[m].heads[h].category;
            if (category < 0 || category >= QK_NUM_CATEGORIES)
                continue;
            counts[category]++;
            all++;
        }
    if (all == 0)
        return;
    qk__page_raw(page, "<p id=\"kinds\">Which heads follow position");
    if (last) {
        qk__page_raw(page, " at ");
        qk__page_name(page, results->models[results->num_models - 1].label);
    }
    qk__page_raw(page, ": ");
    for (int c = 0; c < QK_NUM_CATEGORIES; c++) {
        const char *name = qk_category_name((qk_category)c);
        if (counts[c] == 0)
            continue;
        qk__page_print(page, "%s<a href=\"#explorer\" data-filter=\"", shown++ ? ", " : "");
        if (last) {
            qk__page_raw(page, "only-model=");
            qk__page_link(page, results->models[results->num_models - 1].name);
            qk__page_raw(page, "&amp;");
        }
        qk__page_print(page, "only-category=%s\">%s %s</a>", name,
                       qk__show_count(counts[c]).text, name);
    }
    qk__page_raw(page, ".</p>\n");
}

/* The first answer of each topic, then others, as many as one reads. */
static void stands_out(qk__page *page, const qk__report *report)
{
    const qk__findings *findings = &report->findings;
    size_t shown = 0;
    qk__page_raw(page, "<div class=\"card\" id=\"standing\">\n<h3>What stands out</h3>\n");
    kinds_of_heads(page, report);
    qk__page_raw(page, "<ul>\n");
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < findings->count && shown < STANDING; i++) {
            const qk__finding *f = &findings->items[i];
            if (!answers(f) || is_first_of_topic(findings, i) != (pass == 0))
                continue;
            standing(page, f);
            shown++;
        }
    qk__page_raw(page, "</ul>\n");
    if (shown == 0)
        qk__page_raw(
            page, "<p class=\"empty\">No finding has an answer here: there are too few models "
                  "or heads, or nothing differs enough.</p>\n");
    if (findings->count > shown)
        qk__page_print(
            page,
            "<p class=\"note\"><a href=\"#findings\">All %zu findings</a> with their "
            "evidence.</p>\n",
            findings->count);
    qk__page_raw(page, "</div>\n");
}

void qk__section_overview(qk__page *page, const qk__report *report)
{
    qk__page_raw(
        page, "<section id=\"overview\" tabindex=\"-1\">\n<h2 class=\"unseen\">Overview</h2>\n"
              "<div class=\"cards\">\n");
    analysed(page, report);
    trusted(page, report);
    stands_out(page, report);
    qk__page_raw(page, "</div>\n");
    if (report->num_heads > 0)
        qk__page_bytes(page, qk__asset_map.data, qk__asset_map.size);
    else
        qk__page_raw(page,
                     "<p class=\"empty\">There is no table of heads, so there is no picture of "
                     "them.</p>\n");
    qk__page_raw(page, "</section>\n");
}
