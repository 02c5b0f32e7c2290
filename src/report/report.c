/* SPDX-License-Identifier: Apache-2.0 */
/* A report: figures from the tables of a folder, and the page that shows them. */
#include <qkscope/report.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/file.h"
#include "report/sections.h"

void qk_report_settings_default(qk_report_settings *settings)
{
    assert(settings);
    *settings = (qk_report_settings){.html = true};
    qk_figure_settings_default(&settings->figures);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* "A", "A and B", "A, B and 9 more". */
static void title_of_models(const qk__results *results, char *title, size_t size)
{
    size_t count = results->num_models;
    qk__short_name a = {"these heads"}, b = {""};
    if (count > 0 && *results->models[0].label)
        a = qk__short_name_of(results->models[0].label);
    if (count > 1)
        b = qk__short_name_of(results->models[1].label);
    if (results->checkpoints && count > 1)
        snprintf(title, size, "Queries and keys over training: %zu checkpoints", count);
    else if (count <= 1)
        snprintf(title, size, "Queries and keys of %s", a.text);
    else if (count == 2)
        snprintf(title, size, "Queries and keys of %s and %s", a.text, b.text);
    else
        snprintf(title, size, "Queries and keys of %zu models", count);
}

static void choose_title(qk__report *report)
{
    const char *title = report->settings->title;
    if (!title || !*title)
        title = report->results->title;
    if (title && *title)
        snprintf(report->title, sizeof report->title, "%s", title);
    else
        title_of_models(report->results, report->title, sizeof report->title);
}

static void write_sections(qk__page *page, const qk__report *report)
{
    qk__section_top(page, report);
    qk__section_summary(page, report);
    qk__section_findings(page, report);
    qk__section_figures(page, report);
    qk__section_explorer(page, report);
    qk__section_methods(page, report);
    qk__section_manifest(page, report);
    qk__section_scripts(page, report);
}

static qk_status write_page(qk__report *report, qk_report_outcome *outcome, qk_error *err)
{
    const qk__score_choice scores = {report->settings->score_metric,
                                     report->settings->score_column};
    qk__page page = {.status = QK_OK};
    choose_title(report);
    QK_TRY(qk__headlines_compute(report->results, &report->headlines, err));
    qk_status status = qk__findings_derive(report->results, &scores, &report->findings, err);
    if (status == QK_OK) {
        write_sections(&page, report);
        status = page.status;
        if (status != QK_OK && err)
            *err = page.err;
    }
    outcome->html = status == QK_OK ? qk__path_join(report->folder, "report.html") : NULL;
    if (status == QK_OK && !outcome->html)
        status = qk__nomem(err);
    if (status == QK_OK)
        status = qk__write_file(outcome->html, page.out.data, page.out.size, err);
    outcome->html_bytes = page.out.size;
    qk__page_free(&page);
    qk__findings_free(&report->findings);
    qk__headlines_free(&report->headlines);
    return status;
}

/* What was drawn and what failed, for the caller. */
static qk_status count_figures(const qk__drawn_list *drawn, qk_report_outcome *outcome,
                               qk_error *err)
{
    outcome->failures = qk__calloc(drawn->count + 1, sizeof *outcome->failures);
    if (!outcome->failures)
        return qk__nomem(err);
    for (size_t i = 0; i < drawn->count; i++) {
        const qk__drawn *d = &drawn->items[i];
        if (d->status == QK_OK) {
            outcome->num_figures++;
            continue;
        }
        const char *why = d->message ? d->message : qk_status_text(d->status);
        size_t size = strlen(why) + strlen(d->name) + 32;
        char *text = malloc(size);
        if (!text)
            return qk__nomem(err);
        /* the message names the figure where gnuplot said something about it */
        snprintf(text, size, strstr(why, d->name) ? "%.0s%s" : "figure %s: %s", d->name, why);
        outcome->failures[outcome->num_failed++] = text;
    }
    return QK_OK;
}

/* Whether a failure of figures is theirs alone, so that the page can still be written. */
static bool goes_on(qk_status status)
{
    return status != QK_ERR_CANCELLED && status != QK_ERR_NOMEM;
}

static qk_status make(qk__report *report, qk_report_outcome *outcome, qk_error *err)
{
    const qk_report_settings *settings = report->settings;
    qk_figure_settings figures = settings->figures;
    qk__drawn_list drawn = {0};
    qk_error first;
    if (settings->html)
        figures.formats |= QK_FIGURE_PNG | QK_FIGURE_SVG;
    const qk__subject subject = {.results = report->results,
                                 .score_metric = settings->score_metric ? settings->score_metric
                                                                        : "ap_drop",
                                 .score_column = settings->score_column};
    QK_TRY(qk__make_dirs(report->figures, err));
    qk_status drawing = qk__draw_figures(&subject, report->figures, &figures,
                                         settings->progress, settings->user, &drawn, &first);
    qk_status status = QK_OK;
    if (drawing != QK_OK && (drawn.count == 0 || !goes_on(drawing))) {
        status = drawing;
        if (err)
            *err = first;
    }
    report->drawn = &drawn;
    if (status == QK_OK)
        status = count_figures(&drawn, outcome, err);
    if (status == QK_OK && settings->html)
        status = write_page(report, outcome, err);
    if (status == QK_OK && outcome->num_failed > 0)
        status = qk__fail(err, QK_ERR_PARTIAL, "%zu of %zu figures failed: %s",
                          outcome->num_failed, drawn.count, outcome->failures[0]);
    report->drawn = NULL;
    qk__drawn_list_free(&drawn);
    return status;
}

static size_t count_heads(const qk__results *results)
{
    size_t count = 0;
    for (size_t m = 0; m < results->num_models; m++)
        count += results->models[m].num_heads;
    return count;
}

qk_status qk_report_write(const qk_report_settings *settings, qk_report_outcome **outcome,
                          qk_error *err)
{
    QK_NEED(err, outcome);
    double start = now();
    *outcome = NULL;
    QK_NEED(err, settings);
    if (!settings->results)
        return qk__fail(err, QK_ERR_ARGUMENT, "no results folder was given");
    qk__results *results;
    QK_TRY(qk__results_read(&results, settings->results, settings->scores, err));
    qk__report report = {.settings = settings,
                         .results = results,
                         .theme = qk__theme_of(settings->figures.theme),
                         .folder = settings->output ? settings->output : settings->results,
                         .num_heads = count_heads(results)};
    qk_report_outcome *out = qk__calloc(1, sizeof *out);
    char *figures = qk__path_join(report.folder, "figures");
    qk_status status = out && figures ? QK_OK : qk__nomem(err);
    report.figures = figures;
    if (status == QK_OK) {
        out->num_models = results->num_models;
        out->num_heads = report.num_heads;
        status = make(&report, out, err);
        out->seconds = now() - start;
    }
    free(figures);
    qk__results_free(&results);
    if (status == QK_OK || status == QK_ERR_PARTIAL)
        *outcome = out;
    else
        qk_report_outcome_free(&out);
    return status;
}

void qk_report_outcome_free(qk_report_outcome **outcome)
{
    assert(outcome);
    qk_report_outcome *out = *outcome;
    if (!out)
        return;
    for (size_t i = 0; i < out->num_failed; i++)
        free(out->failures[i]);
    free(out->failures);
    free(out->html);
    free(out);
    *outcome = NULL;
}
