/* SPDX-License-Identifier: Apache-2.0 */
/* The headline numbers: a table for each analysis. */
#include <math.h>
#include <string.h>

#include <qkscope/analysis.h>

#include "report/sections.h"

/* ---- summary tables --------------------------------------------------------------------- */

/* A cell, with the number that the table is sorted by. */
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

/* Heads that have numbers of this table: other analyses, or more layers, may cover more heads. */
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
    const char *group = "";
    qk__put(page, "p.lead#lead", "%s", "");
    for (size_t c = 0; c < QK__NUM_HEADLINES; c++)
        if (report->headlines.present[c] && strcmp(qk__headline_columns[c].group, group) != 0) {
            group = qk__headline_columns[c].group;
            put_table(page, report, group);
        }
    if (!*group) {
        qk__put(
            page, "p.empty",
            "No number of these tables is a headline: components, the rotation model and plasticity have them.");
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
