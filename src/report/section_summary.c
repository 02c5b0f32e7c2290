/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers in short: a paragraph of the key ones, and a table for each analysis. */
#include <math.h>
#include <string.h>

#include <qkscope/analysis.h>

#include "report/sections.h"

/* ---- key numbers ------------------------------------------------------------------------ */

static void sentence_start(qk__page *page, const qk__report *report)
{
    const qk__results *results = report->results;
    size_t models = results->num_models;
    if (models == 0) {
        qk__say(page, "No head was measured here; the scores alone are shown.");
        return;
    }
    qk__say(page, "*%zu* query head%s of ", report->num_heads,
            report->num_heads == 1 ? "" : "s");
    if (models == 1)
        qk__say(page, "*{%s}*.",
                *results->models[0].label ? results->models[0].label : "one model");
    else if (results->checkpoints)
        qk__say(page,
                "*%zu* checkpoints in %zu phase%s; numbers here are those of the last, {%s}.",
                models, results->num_phases, results->num_phases == 1 ? "" : "s",
                results->models[models - 1].label);
    else
        qk__say(page, "*%zu* models in %zu famil%s.", models, results->num_families,
                results->num_families == 1 ? "y" : "ies");
}

static void sentence_pca(qk__page *page, const qk__headline *all)
{
    double ev0 = qk__headline_value(all, "ev0"), r_q = qk__headline_value(all, "mean_r_q");
    double r_k = qk__headline_value(all, "mean_abs_r_k");
    double dominated = qk__headline_value(all, "position_dominated");
    double content = qk__headline_value(all, "content_focused");
    double uncertain = qk__headline_value(all, "uncertain");
    if (isfinite(r_q)) {
        qk__say(page, " On the first component of queries and keys together");
        if (isfinite(ev0))
            qk__say(page, " (%g%% of the variance)", ev0);
        qk__say(
            page,
            ", the mean correlation with position is *%.2g* for queries and, without its sign, "
            "*%.2g* for keys.",
            r_q, r_k);
    }
    if (isfinite(dominated)) {
        qk__say(page, " *%g%%* of heads are position-dominated, *%g%%* content-focused",
                dominated, content);
        if (isfinite(uncertain))
            qk__say(page, "; the category of *%g%%* is uncertain", uncertain);
        qk__say(page, ".");
    }
}

/* "at most 8 keys of each bucket and text", as captures that have not all rows hold. */
static qk__phrase held_keys(const qk__results *results)
{
    const qk__field *field = qk__find_field("reservoir");
    qk__range held = QK__NO_RANGE;
    qk__each_model (results, model)
        qk__each_head (model, head)
            qk__range_add(&held, qk__field_value(field, &head->v));
    if (held.low < held.high)
        return qk__phrase_of("at most %lld to %lld keys of each bucket and text",
                             (long long)held.low, (long long)held.high);
    return qk__phrase_of("at most %lld key%s of each bucket and text", (long long)held.high,
                         held.high == 1 ? "" : "s");
}

static void sentence_rotation(qk__page *page, const qk__results *results,
                              const qk__headline *all)
{
    double bias = qk__headline_value(all, "bias_positive");
    double ap = qk__headline_value(all, "ap_overall");
    double drop = qk__headline_value(all, "ap_drop");
    double error = qk__headline_value(all, "ap_overall_se");
    if (isfinite(bias))
        qk__say(
            page,
            " *%g%%* favour recent keys; the plane of drift and separation holds *%g%%* of the "
            "variance.",
            bias, qk__headline_value(all, "plane_variance"));
    if (!isfinite(ap))
        return;
    qk__say(
        page,
        " Attention plasticity is *%.3g* (1: the query decides which of two keys wins; 0: the "
        "same one wins, whatever the query)",
        ap);
    if (isfinite(drop))
        qk__say(page, " and %s by *%.2g* from the first to the last fifth of the context",
                drop > 0 ? "falls" : "rises", fabs(drop));
    qk__say(page, ".");
    if (isfinite(error))
        qk__say(
            page,
            " Plasticity is from %s, which alone gives it a standard error of up to *%.2g*.",
            held_keys(results).text, error);
}

static void sentence_stages(qk__page *page, const qk__headline *all)
{
    double before = qk__headline_value(all, "mean_r_q_before");
    double after = qk__headline_value(all, "mean_r_q_after");
    double r_squared = qk__headline_value(all, "r_squared_predicted");
    if (isfinite(before) && isfinite(after))
        qk__say(
            page,
            " Rotary position embedding (RoPE) changes the mean correlation of queries with "
            "position from *%.2g* to *%.2g*, each on the first component of its side.",
            before, after);
    if (isfinite(r_squared))
        qk__say(
            page,
            " How the mean score depends on distance is predicted from mean vectors and rotary "
            "frequencies with a median R² of *%.2g* (1: all of it, 0: no better than a "
            "constant).",
            r_squared);
}

/* ---- summary tables --------------------------------------------------------------------- */

/* With the number that the table is sorted by. */
static void cell(qk__page *page, const qk__headline_column *column, double value)
{
    if (!isfinite(value)) {
        qk__put(page, "td.none", "–");
        return;
    }
    if (column->percent)
        qk__open(page, "td.share[style=--p:%.3f][data-value=%.9g]", fmin(fmax(value, 0), 1),
                 value);
    else
        qk__open(page, "td[data-value=%.9g]", value);
    qk__say(page, "%s",
            column->percent ? qk__show_percent(value).text : qk__show(value, 3).text);
    qk__close(page, "td");
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
    qk__open(page, "tr.%s", row->model ? "model" : row->family ? "family" : "all");
    qk__open(page, "th[scope=row]");
    if (row->model)
        qk__say(page, "{%s}", qk__label(row->model));
    if (row->model && report->results->checkpoints)
        qk__say(page, " ^{%s}^", row->model->phase);
    else if (!row->model && row->family)
        qk__say(page, "{%s} ^%zu model%s^", row->family, row->num_models,
                row->num_models == 1 ? "" : "s");
    else if (!row->model)
        qk__say(page, "All ^%zu models^", row->num_models);
    qk__close(page, "th");
    qk__put(page, "td", "%zu", count_group(row, group));
}

static bool row_has(const qk__headline *row, const char *group)
{
    for (size_t c = 0; c < QK__NUM_HEADLINES; c++)
        if (strcmp(qk__headline_columns[c].group, group) == 0 && isfinite(row->values[c]))
            return true;
    return false;
}

static bool is_shown(const qk__report *report, size_t column, const char *group)
{
    return report->headlines.present[column] &&
           strcmp(qk__headline_columns[column].group, group) == 0;
}

static void put_table(qk__page *page, const qk__report *report, const char *group)
{
    const qk__headlines *headlines = &report->headlines;
    qk__table_begin(page, group);
    qk__table_head(page, report->results->checkpoints ? "Checkpoint" : "Model");
    qk__table_head(page, "heads");
    for (size_t c = 0; c < QK__NUM_HEADLINES; c++) {
        if (!is_shown(report, c, group))
            continue;
        qk__open(page, "th[scope=col]");
        qk__page_markup(page, qk__headline_columns[c].label);
        qk__page_markup(page, " <small>");
        qk__page_markup(page, qk__headline_columns[c].note);
        qk__page_markup(page, "</small>");
        qk__close(page, "th");
    }
    qk__table_body(page);
    for (size_t i = 0; i < headlines->count; i++) {
        const qk__headline *row = &headlines->rows[i];
        if (!row_has(row, group))
            continue;
        row_head(page, report, row, group);
        for (size_t c = 0; c < QK__NUM_HEADLINES; c++)
            if (is_shown(report, c, group))
                cell(page, &qk__headline_columns[c], row->values[c]);
        qk__close(page, "tr");
    }
    qk__table_end(page);
}

void qk__section_summary(qk__page *page, const qk__report *report)
{
    const qk__headline *all = qk__headline_of_all(&report->headlines);
    const char *group = "";
    qk__open(page, "p.lead");
    sentence_start(page, report);
    sentence_pca(page, all);
    sentence_rotation(page, report->results, all);
    sentence_stages(page, all);
    qk__close(page, "p");
    for (size_t c = 0; c < QK__NUM_HEADLINES; c++)
        if (report->headlines.present[c] && strcmp(qk__headline_columns[c].group, group) != 0) {
            group = qk__headline_columns[c].group;
            put_table(page, report, group);
        }
    if (!*group) {
        qk__put(page, "p.empty", "The results folder has no table with numbers of heads.");
        return;
    }
    qk__open(page, "p.screen");
    qk__put(page, "button[type=button]#save-headlines[hidden]", "Download these tables as CSV");
    qk__close(page, "p");
    qk__put(
        page, "p.note",
        "Rows of families and of all models count every head once. Columns without a table in "
        "the results folder are left out.");
}
