/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning of the page: head, title, contents, key numbers, summary tables, findings. */
#include <math.h>
#include <string.h>

#include <qkscope/analysis.h>

#include "report/assets.h"
#include "report/evidence.h"
#include "report/sections.h"

/* Everything comes from the page itself: scripts are named by their hashes, nothing may be
 * fetched. */
static void security_policy(qk__page *page)
{
    qk__page_print(page,
                   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                   "script-src '%s' '%s'; style-src 'unsafe-inline'; img-src data:; "
                   "base-uri 'none'; form-action 'none'\">\n",
                   qk__asset_chart.hash, qk__asset_script.hash);
}

static void contents(qk__page *page, const qk__report *report)
{
    qk__page_raw(page, "<nav id=\"contents\" aria-label=\"Contents\">\n<ul>\n"
                       "<li><a href=\"#summary\">Summary</a></li>\n");
    if (report->findings.count > 0)
        qk__page_raw(page, "<li><a href=\"#findings\">Findings</a></li>\n");
    qk__page_raw(page, "<li><a href=\"#figures\">Figures</a></li>\n");
    if (report->num_heads > 0)
        qk__page_raw(page, "<li class=\"screen\"><a href=\"#explorer\">Explorer</a></li>\n");
    qk__page_raw(page, "<li><a href=\"#methods\">Methods</a></li>\n"
                       "<li><a href=\"#manifest\">Manifest</a></li>\n</ul>\n"
                       "<button type=\"button\" id=\"theme\" class=\"screen\" hidden>Theme: "
                       "system</button>\n</nav>\n");
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
                       "<a class=\"skip\" href=\"#summary\">Skip to the content</a>\n");
    contents(page, report);
    qk__page_text_in(page, "<main>\n<header>\n<h1>", report->title, "</h1>\n");
}

/* ---- key numbers ------------------------------------------------------------------------ */

static void sentence_start(qk__page *page, const qk__report *report)
{
    const qk__results *results = report->results;
    if (results->num_models == 0) {
        qk__page_raw(page, "No head was measured here; the scores alone are shown.");
        return;
    }
    qk__page_print(page, "<strong>%s</strong> query head%s of ",
                   qk__show_count(report->num_heads).text, report->num_heads == 1 ? "" : "s");
    if (results->num_models == 1) {
        const char *label = results->models[0].label;
        qk__page_raw(page, "<strong>");
        qk__page_name(page, *label ? label : "one model");
        qk__page_raw(page, "</strong>.");
    } else if (results->checkpoints) {
        qk__page_print(
            page,
            "<strong>%zu</strong> checkpoints in %zu phase%s; numbers here are those "
            "of the last, ",
            results->num_models, results->num_phases, results->num_phases == 1 ? "" : "s");
        qk__page_name(page, results->models[results->num_models - 1].label);
        qk__page_raw(page, ".");
    } else {
        qk__page_print(page, "<strong>%zu</strong> models in %zu famil%s.", results->num_models,
                       results->num_families, results->num_families == 1 ? "y" : "ies");
    }
}

static void sentence_pca(qk__page *page, const qk__headline *all)
{
    double ev0 = qk__headline_value(all, "ev0"), r_q = qk__headline_value(all, "mean_r_q");
    double r_k = qk__headline_value(all, "mean_r_k");
    double dominated = qk__headline_value(all, "position_dominated");
    double content = qk__headline_value(all, "content_focused");
    double uncertain = qk__headline_value(all, "uncertain");
    if (isfinite(r_q))
        qk__page_print(page,
                       " On the first component of queries and keys together%s%s%s, the mean "
                       "correlation with position is <strong>%s</strong> for queries and "
                       "<strong>%s</strong> for keys.",
                       isfinite(ev0) ? " (" : "",
                       isfinite(ev0) ? qk__show_percent(ev0).text : "",
                       isfinite(ev0) ? " of the variance)" : "", qk__show(r_q, 2).text,
                       qk__show(r_k, 2).text);
    if (isfinite(dominated))
        qk__page_print(
            page,
            " <strong>%s</strong> of heads are position-dominated, <strong>%s</strong> "
            "content-focused",
            qk__show_percent(dominated).text, qk__show_percent(content).text);
    if (isfinite(dominated) && isfinite(uncertain))
        qk__page_print(page, "; the category of <strong>%s</strong> is uncertain",
                       qk__show_percent(uncertain).text);
    if (isfinite(dominated))
        qk__page_raw(page, ".");
}

static void sentence_rotation(qk__page *page, const qk__results *results,
                              const qk__headline *all)
{
    double bias = qk__headline_value(all, "bias_positive");
    double plane = qk__headline_value(all, "plane_variance");
    double ap = qk__headline_value(all, "ap_overall");
    double drop = qk__headline_value(all, "ap_drop");
    double error = qk__headline_value(all, "ap_overall_se");
    const qk__scope scope = qk__whole_scope(results);
    if (isfinite(bias))
        qk__page_print(
            page,
            " <strong>%s</strong> favour recent keys; the plane of drift and separation "
            "holds <strong>%s</strong> of the variance.",
            qk__show_percent(bias).text, qk__show_percent(plane).text);
    if (isfinite(ap))
        qk__page_print(page,
                       " Attention plasticity is <strong>%s</strong> (1: the query "
                       "decides which of two keys wins; 0: the same one wins, whatever the "
                       "query)",
                       qk__show(ap, 3).text);
    if (isfinite(ap) && isfinite(drop))
        qk__page_print(page,
                       " and %s by <strong>%s</strong> from the first to the last fifth of the "
                       "context",
                       drop > 0 ? "falls" : "rises", qk__show(fabs(drop), 2).text);
    if (isfinite(ap))
        qk__page_raw(page, ".");
    if (isfinite(ap) && isfinite(error))
        qk__page_print(page,
                       " Plasticity is from %s, which alone gives it a standard error of up to "
                       "<strong>%s</strong>.",
                       qk__held_keys(&scope).text, qk__show(error, 2).text);
}

static void sentence_stages(qk__page *page, const qk__headline *all)
{
    double before = qk__headline_value(all, "mean_r_q_before");
    double after = qk__headline_value(all, "mean_r_q_after");
    double r_squared = qk__headline_value(all, "r_squared_predicted");
    if (isfinite(before) && isfinite(after))
        qk__page_print(
            page,
            " Rotary position embedding (RoPE) changes the mean correlation of queries "
            "with position from <strong>%s</strong> to <strong>%s</strong>, each on "
            "the first component of its side.",
            qk__show(before, 2).text, qk__show(after, 2).text);
    if (isfinite(r_squared))
        qk__page_print(page,
                       " How the mean score depends on distance is predicted from mean vectors "
                       "and rotary frequencies with a median R² of <strong>%s</strong> (1: all "
                       "of it, 0: no better than a constant).",
                       qk__show(r_squared, 2).text);
}

/* ---- summary tables --------------------------------------------------------------------- */

static void cell(qk__page *page, const qk__headline_column *column, double value)
{
    if (!isfinite(value))
        qk__page_raw(page, "<td class=\"none\">–</td>");
    else if (column->percent)
        qk__page_print(page, "<td class=\"share\" style=\"--p:%.3f\">%s</td>",
                       fmin(fmax(value, 0), 1), qk__show_percent(value).text);
    else
        qk__page_print(page, "<td>%s</td>", qk__show(value, 3).text);
}

/* Heads that have numbers of the table: with other analyses, or layers, there may be more. */
static size_t count_group(const qk__headline *row, const char *group)
{
    size_t most = 0;
    for (size_t c = 0; c < QK__NUM_HEADLINES; c++)
        if (strcmp(qk__headline_columns[c].group, group) == 0 && row->counts[c] > most)
            most = row->counts[c];
    return most;
}

static void row_head(qk__page *page, const qk__report *report, const qk__headline *row,
                     const char *group)
{
    const char *kind = row->model ? "model" : row->family ? "family" : "all";
    qk__page_print(page, "<tr class=\"%s\"><th scope=\"row\">", kind);
    if (row->model) {
        qk__page_name(page, *row->model->label ? row->model->label : "(no name)");
        if (report->results->checkpoints) {
            qk__page_raw(page, " <small>");
            qk__page_name(page, row->model->phase);
            qk__page_raw(page, "</small>");
        }
    } else if (row->family) {
        qk__page_name(page, row->family);
        qk__page_print(page, " <small>%zu model%s</small>", row->num_models,
                       row->num_models == 1 ? "" : "s");
    } else {
        qk__page_print(page, "All <small>%zu models</small>", row->num_models);
    }
    qk__page_print(page, "</th><td>%s</td>", qk__show_count(count_group(row, group)).text);
}

static bool row_has(const qk__headline *row, const char *group)
{
    for (size_t c = 0; c < QK__NUM_HEADLINES; c++)
        if (strcmp(qk__headline_columns[c].group, group) == 0 && isfinite(row->values[c]))
            return true;
    return false;
}

static void table(qk__page *page, const qk__report *report, const char *group)
{
    const qk__headlines *headlines = &report->headlines;
    qk__page_print(page,
                   "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s\">\n"
                   "<table class=\"numbers\">\n<caption>%s</caption>\n<thead><tr>"
                   "<th scope=\"col\">%s</th><th scope=\"col\">heads</th>",
                   group, group, report->results->checkpoints ? "Checkpoint" : "Model");
    for (size_t c = 0; c < QK__NUM_HEADLINES; c++) {
        const qk__headline_column *column = &qk__headline_columns[c];
        if (headlines->present[c] && strcmp(column->group, group) == 0)
            qk__page_print(page, "<th scope=\"col\">%s <small>%s</small></th>", column->label,
                           column->note);
    }
    qk__page_raw(page, "</tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < headlines->count; i++) {
        const qk__headline *row = &headlines->rows[i];
        if (!row_has(row, group))
            continue;
        row_head(page, report, row, group);
        for (size_t c = 0; c < QK__NUM_HEADLINES; c++)
            if (headlines->present[c] && strcmp(qk__headline_columns[c].group, group) == 0)
                cell(page, &qk__headline_columns[c], row->values[c]);
        qk__page_raw(page, "</tr>\n");
    }
    qk__page_raw(page, "</tbody>\n</table>\n</div>\n");
}

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

void qk__section_summary(qk__page *page, const qk__report *report)
{
    const qk__headline *all = qk__headline_of_all(&report->headlines);
    qk__page_raw(page, "<p class=\"lead\">");
    sentence_start(page, report);
    sentence_pca(page, all);
    sentence_rotation(page, report->results, all);
    sentence_stages(page, all);
    qk__page_raw(page, "</p>\n</header>\n<section id=\"summary\" tabindex=\"-1\">\n"
                       "<h2>Summary</h2>\n");
    warnings(page, report);
    const char *group = "";
    bool any = false;
    for (size_t c = 0; c < QK__NUM_HEADLINES; c++) {
        if (!report->headlines.present[c] || strcmp(qk__headline_columns[c].group, group) == 0)
            continue;
        group = qk__headline_columns[c].group;
        table(page, report, group);
        any = true;
    }
    if (any)
        qk__page_raw(
            page,
            "<p class=\"screen\"><button type=\"button\" id=\"save-headlines\" hidden>"
            "Download these tables as CSV</button></p>\n<p class=\"note\">Rows of families "
            "and of all models count every head once. Columns without a table in the "
            "results folder are left out.</p>\n");
    else
        qk__page_raw(page, "<p>The results folder has no table with numbers of heads.</p>\n");
    qk__page_raw(page, "</section>\n");
}

/* ---- findings --------------------------------------------------------------------------- */

static void finding(qk__page *page, const qk__finding *f)
{
    qk__page_print(page,
                   "<li class=\"finding\" data-finding=\"%s\" data-verdict=\"%s\">\n"
                   "<p class=\"claim\"><span class=\"badge %s\">%s</span> ",
                   f->id, qk__verdict_tokens[f->verdict], qk__verdict_tokens[f->verdict],
                   qk__verdict_names[f->verdict]);
    qk__page_text(page, f->claim ? f->claim : "");
    qk__page_raw(page, "</p>\n<ul class=\"evidence\">\n");
    qk__page_lines(page, f->evidence ? f->evidence : "", "<li>", "</li>\n");
    qk__page_raw(page, "</ul>\n</li>\n");
}

void qk__section_findings(qk__page *page, const qk__report *report)
{
    const qk__findings *findings = &report->findings;
    if (findings->count == 0)
        return;
    qk__page_raw(
        page,
        "<section id=\"findings\" tabindex=\"-1\">\n<h2>Findings</h2>\n"
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
        finding(page, f);
    }
    qk__page_raw(page, "</ul>\n</section>\n");
}
