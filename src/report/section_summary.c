/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers in short: a paragraph of the key ones, and a table for each analysis. */
#include <math.h>
#include <string.h>

#include <qkscope/analysis.h>

#include "report/evidence.h"
#include "report/sections.h"

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

enum { SORT_DIGITS = 9 }; /* of a number that a table is sorted by */

static void cell(qk__page *page, const qk__headline_column *column, double value)
{
    if (!isfinite(value))
        qk__page_raw(page, "<td class=\"none\">–</td>");
    else if (column->percent)
        qk__page_print(page, "<td class=\"share\" style=\"--p:%.3f\" data-value=\"",
                       fmin(fmax(value, 0), 1));
    else
        qk__page_raw(page, "<td data-value=\"");
    if (!isfinite(value))
        return;
    qk__page_json_number(page, value, SORT_DIGITS);
    qk__page_print(page, "\">%s</td>",
                   column->percent ? qk__show_percent(value).text : qk__show(value, 3).text);
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

void qk__section_summary(qk__page *page, const qk__report *report)
{
    const qk__headline *all = qk__headline_of_all(&report->headlines);
    qk__page_section(page, "summary", "Numbers", true);
    qk__page_raw(page, "<p class=\"lead\">");
    sentence_start(page, report);
    sentence_pca(page, all);
    sentence_rotation(page, report->results, all);
    sentence_stages(page, all);
    qk__page_raw(page, "</p>\n");
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
        qk__page_raw(page, "<p class=\"empty\">The results folder has no table with numbers of "
                           "heads.</p>\n");
    qk__page_section_end(page);
}
