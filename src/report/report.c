/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a report: draws figures from the tables of a folder, and writes the page that shows
 * them. */
#include <qkscope/report.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"
#include "figure/figure_settings.h"
#include "figure/figure_note.h"
#include "work/place.h"
#include "report/figure_notes.h"
#include "paths/path_kind.h"
#include "report/report.h"
#include "report/scores.h"
#include "report/sections.h"
#include "tables/manifest.h"
#include "settings/common_rows.h"
#include "settings/head_set.h"
#include "settings/settings.h"

#define AT(member) QK_SETTING_AT(qk_report_settings, member)

static const qk_setting ROWS[] = {
    {"output", QK_SETTING_PATH, AT(output), .letter = 'o', .value = "DIR",
     .help = "folder for figures/ and report.html", .unset = "RESULTS", .section = "Output"},
    {"html", QK_SETTING_FLAG, AT(html), .number = true, .off = "no-html",
     .off_help = "only figures, without report.html", .section = "Output"},
    {"alone", QK_SETTING_FLAG, AT(alone),
     .help = "only report.html: without figures/, and without mentioning its files",
     .section = "Output"},
    {"points", QK_SETTING_FLAG, AT(points), .number = true, .off = "no-points",
     .off_help = "without pictures of queries and keys: no capture is read", .section = "Page"},
    {"heads", QK_SETTING_HEADS, AT(heads), .value = "L:H,...",
     .help = "heads whose queries and keys the page shows: 5:13,1:8, 2:*, 5 (of every layer), "
             "@FILE",
     .unset = "all, or the most extreme of more than 300", .section = "Page"},
    {"figure", QK_SETTING_PATHS, AT(names), .value = "NAME",
     .help = "this figure, not the page; may be given several times",
     .unset = "all, and the page", .section = "Figures"},
    {"list", QK_SETTING_FLAG, AT(list), .help = "draw nothing; list the names of the figures",
     .section = "Figures"},
    {"force", QK_SETTING_FLAG, AT(force),
     .help = "draw changed tables, with a warning; replace another program's report.html",
     .section = "Output"},
    {"title", QK_SETTING_TEXT, AT(title), .value = "TEXT", .help = "title of the page",
     .unset = "of the study", .section = "Page", .traits = QK_SETTING_UTF8},
    {"scores", QK_SETTING_PATH, AT(scores), .value = "FILE",
     .help = "CSV of benchmark scores, a row per model",
     .unset = "RESULTS/scores.csv, if there", .section = "Page"},
    {"score-metric", QK_SETTING_TEXT, AT(score_metric), .value = "NAME",
     .help = "column of the tables to compare scores with", .unset = "ap_drop",
     .section = "Page"},
    {"score-column", QK_SETTING_TEXT, AT(score_column), .value = "NAME",
     .help = "column of the scores to use", .unset = "the first", .section = "Page"},
    QK_SETTING_PART(qk_report_settings, figures, qk__figure_settings_table),
    QK__THREADS_ROW(qk_report_settings, NULL, .yaml = NULL),
};

const qk_settings_table qk_report_settings_table = {QK_SETTINGS_ROWS(qk_report_settings, ROWS)};

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
        qk__utf8_print(report->title, sizeof report->title, "%s", title);
    else
        title_of_models(report->results, report->title, sizeof report->title);
}

static qk_status compose_page(qk__report *report, qk__page *page, qk_error *err)
{
    choose_title(report);
    QK_TRY(qk__headlines_compute(report->results, report->tables, &report->headlines, err));
    QK_TRY(qk__manifests_read(report->settings->results, &report->manifests, err));
    QK_TRY(qk__page_heads_ask(report->tables, &report->heads, err));
    QK_TRY(qk__points_draw(report->settings, report->results, report->tables, &report->heads,
                           &report->manifests, &report->points, err));
    qk__write_document(page, report);
    return QK_OK;
}

/* The whole page, in a file beside its place. */
static qk_status write_report_page(qk__report *report, qk_report_outcome *outcome,
                                   qk__outfile **file, qk_error *err)
{
    qk__page page = {.status = QK_OK};
    qk_status status = compose_page(report, &page, err);
    if (status == QK_OK && !(outcome->html = qk__path_join(report->folder, QK__PAGE_NAME)))
        status = qk__nomem(err);
    if (status == QK_OK)
        status = qk__page_write(&page, outcome->html, file, err);
    outcome->html_bytes = page.out.size;
    qk__page_free(&page);
    qk__points_free(&report->points);
    qk__manifests_free(&report->manifests);
    qk__headlines_free(&report->headlines);
    qk__page_heads_free(&report->heads);
    return status;
}

/* The old page is removed first and the new one comes last: whoever finds a page finds its figures. */
static qk_status install_report(const qk__report *report, qk__outfile **page, qk_error *err)
{
    if (*page)
        QK_TRY(qk__remove_file(report->folder, QK__PAGE_NAME, err));
    if (!report->settings->alone)
        QK_TRY(qk__install_figures(report->drawn, report->settings->num_names == 0,
                                   report->staging, report->figures, err));
    if (!report->settings->alone)
        QK_TRY(qk__note_list(report->figures, err));
    return *page ? qk__outfile_commit(page, err) : QK_OK;
}

/* Takes the text, which is NULL where memory ran out, into a list of the outcome. */
static qk_status keep_text(char ***list, size_t *count, char *text, qk_error *err)
{
    char **longer = text ? realloc(*list, (*count + 1) * sizeof *longer) : NULL;
    if (!longer) {
        free(text);
        return qk__nomem(err);
    }
    longer[(*count)++] = text;
    *list = longer;
    return QK_OK;
}

static qk_status copy_names(const qk__drawn_list *drawn, qk_report_outcome *outcome,
                            qk_error *err)
{
    for (size_t i = 0; i < drawn->count; i++)
        QK_TRY(keep_text(&outcome->names, &outcome->num_names, qk__strdup(drawn->items[i].name),
                         err));
    return QK_OK;
}

/* Lists what was drawn and what failed, for the caller. */
static qk_status count_figures(const qk__drawn_list *drawn, qk_report_outcome *outcome,
                               qk_error *err)
{
    QK_TRY(copy_names(drawn, outcome, err));
    for (size_t i = 0; i < drawn->count; i++) {
        const qk__drawn *d = &drawn->items[i];
        if (d->status == QK_OK) {
            outcome->num_figures++;
            continue;
        }
        const char *why = d->message ? d->message : qk_status_text(d->status);
        /* the message names the figure where a program said something about it */
        bool named = strstr(why, d->name) != NULL;
        QK_TRY(keep_text(&outcome->failures, &outcome->num_failed,
                         qk__format("%s%s%s%s", named ? "" : "figure ", named ? "" : d->name,
                                    named ? "" : ": ", why),
                         err));
    }
    return QK_OK;
}

/* Whether only the figures failed, so that the page can still be written. */
static bool can_continue(qk_status status)
{
    return status != QK_ERR_CANCELLED && status != QK_ERR_NOMEM;
}

/* A page without some of its figures would say that there are no others. */
static bool has_page(const qk_report_settings *settings)
{
    return settings->html && settings->num_names == 0;
}

static qk__subject subject_of(const qk__report *report)
{
    const qk_report_settings *settings = report->settings;
    return (qk__subject){.results = report->results,
                         .tables = report->tables,
                         .score_metric = report->scores.metric,
                         .score_column = report->scores.column,
                         .in_page = has_page(settings),
                         .only = settings->names,
                         .num_only = settings->num_names};
}

static qk_status draw_report_figures(qk__report *report, qk__drawn_list *drawn, qk_error *err)
{
    const qk_report_settings *settings = report->settings;
    qk_error first;
    const qk__subject subject = subject_of(report);
    qk_status status = qk__draw_figures(&subject, report->staging, &settings->figures,
                                        &settings->context, drawn, &first);
    if (can_continue(status))
        QK_TRY(qk__check_written(drawn, err));
    if (status == QK_OK || (drawn->count > 0 && can_continue(status)))
        return QK_OK;
    if (err)
        *err = first;
    return status;
}

static qk_status write_figure_notes(const qk__report *report, qk_error *err)
{
    const qk__note_places places = {report->settings, &qk_report_settings_table,
                                    report->figures, report->staging,
                                    qk__num_checkpoints(report->results)};
    return report->settings->alone
               ? QK_OK
               : qk__figure_notes_write(&places, report->drawn, &report->findings, err);
}

/* Lists what is in figures/ now, for the caller. */
static qk_status list_figure_files(const qk__report *report, qk_report_outcome *outcome,
                                   qk_error *err)
{
    qk__names names;
    QK_TRY(qk__note_files(report->figures, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; i < names.count && status == QK_OK; i++)
        status = keep_text(&outcome->files, &outcome->num_files,
                           qk__format("figures/%s", names.items[i]), err);
    qk__names_free(&names);
    return status;
}

/* Until all is drawn and written, the old files stay. */
static qk_status make_report(qk__report *report, qk_report_outcome *outcome, qk_error *err)
{
    qk__drawn_list drawn = {0};
    qk__outfile *page = NULL;
    report->drawn = &drawn;
    report->outcome = outcome;
    qk_status status = draw_report_figures(report, &drawn, err);
    if (status == QK_OK)
        status = count_figures(&drawn, outcome, err);
    if (status == QK_OK) /* for the page and the notes beside the figures */
        status = qk__findings_derive(report->tables, &report->scores, &report->findings, err);
    if (status == QK_OK)
        status = write_figure_notes(report, err);
    if (status == QK_OK && has_page(report->settings))
        status = write_report_page(report, outcome, &page, err);
    if (status == QK_OK)
        status = install_report(report, &page, err);
    if (status == QK_OK)
        status = list_figure_files(report, outcome, err);
    if (status == QK_OK && outcome->num_failed > 0)
        status = qk__fail(err, QK_ERR_PARTIAL, "%zu of %zu figures failed: %s",
                          outcome->num_failed, drawn.count, outcome->failures[0]);
    qk__outfile_discard(&page);
    qk__findings_free(&report->findings);
    report->drawn = NULL;
    qk__drawn_list_free(&drawn);
    return status;
}

static qk_status list_figure_names(const qk__report *report, qk_report_outcome *outcome,
                                   qk_error *err)
{
    qk__drawn_list figures;
    const qk__subject subject = subject_of(report);
    QK_TRY(qk__list_figures(&subject, &figures, err));
    qk_status status = copy_names(&figures, outcome, err);
    qk__drawn_list_free(&figures);
    return status;
}

/* Draws in a hidden folder beside the places of the figures. */
static qk_status make_staged(qk__report *report, qk_report_outcome *outcome, qk_error *err)
{
    char *staging = NULL, *figures = qk__path_join(report->folder, "figures");
    qk_status status = figures
                           ? qk__stage_below(report->folder, "figures", "report", &staging, err)
                           : qk__nomem(err);
    if (status == QK_OK) {
        report->figures = figures;
        report->staging = staging;
        status = make_report(report, outcome, err);
        qk__remove_staging(staging);
    }
    if (figures)
        rmdir(figures); /* where it is empty */
    free(staging);
    free(figures);
    return status;
}

/* Also with --force. */
static qk_status check_owners(const qk__manifest *manifest, const char *folder, qk_error *err)
{
    for (size_t i = 0; i < qk__num_tables; i++)
        if (qk__tables[i].columns && qk__is_result(&qk__tables[i]) &&
            qk__is_file_in(folder, qk__tables[i].info.name))
            QK_TRY(qk__manifest_check_owner(manifest, folder, qk__tables[i].info.name, err));
    return QK_OK;
}

/* Tables that were edited, cut short or removed would be drawn as if they were whole. */
static qk_status list_changed(const qk_report_settings *settings, qk_report_outcome *outcome,
                              qk_error *err)
{
    qk__manifest manifest;
    json_t *changes = NULL;
    QK_TRY(qk__manifest_read(&manifest, settings->results, err));
    qk_status status = check_owners(&manifest, settings->results, err);
    if (status == QK_OK)
        status = qk__manifest_changes(&manifest, settings->results, &changes, err);
    qk__manifest_free(&manifest);
    if (status == QK_OK && json_array_size(changes) > 0 && !settings->force)
        status = qk__fail(err, QK_ERR_INCONSISTENT,
                          "%s/%s; run the analysis again, or give report --force to draw the "
                          "tables as they are",
                          settings->results, json_string_value(json_array_get(changes, 0)));
    for (size_t i = 0; i < json_array_size(changes) && status == QK_OK; i++)
        status = keep_text(&outcome->changed, &outcome->num_changed,
                           qk__strdup(json_string_value(json_array_get(changes, i))), err);
    json_decref(changes);
    return status;
}

/* Checks an ablation that lies in the results. */
static qk_status check_ablation(const qk_report_settings *settings, qk_error *err)
{
    qk__path folder;
    qk__manifest manifest;
    QK_TRY(qk__path_in(&folder, settings->results, "ablation", err));
    QK_TRY(qk__manifest_read(&manifest, folder.text, err));
    qk_status status =
        settings->force ? QK_OK : qk__manifest_verify(&manifest, folder.text, err);
    qk__manifest_free(&manifest);
    return status;
}

/* Opens the tables that figures, findings and the page ask. */
static qk_status open_tables(qk__report *report, qk_error *err)
{
    const qk_report_settings *settings = report->settings;
    QK_TRY(qk__store_open(&report->tables, &settings->context, err));
    QK_TRY(qk__store_add(report->tables, "main", settings->results, true, err));
    if (settings->scores)
        QK_TRY(qk__store_scores(report->tables, "main", settings->scores, err));
    if (has_page(settings)) {
        QK_TRY(qk__page_heads_expect(report->tables, err));
        QK_TRY(qk__views_expect(report->tables, err));
    }
    return qk__results_read(&report->results, report->tables, settings->results, err);
}

/* A named head that the results do not have is a mistake in the name. */
static qk_status check_named(const qk__report *report, qk_error *err)
{
    const qk_head_set *named = &report->settings->heads;
    char text[QK__HEAD_RANGE_SIZE];
    qk_columns *rows;
    size_t i = 0;
    if (named->count == 0)
        return QK_OK;
    QK_TRY(qk__store_ask(report->tables, &rows, err,
                         "SELECT DISTINCT layer, q_head FROM head_ids"));
    const int64_t *layer = qk_columns_integers(rows, "layer"),
                  *head = qk_columns_integers(rows, "q_head");
    for (bool found = true; i < named->count && found; i += found) {
        found = false;
        for (size_t h = 0; h < qk_columns_num_rows(rows) && !found; h++)
            found = qk__range_has(&named->items[i], (int)layer[h], (int)head[h]);
    }
    qk_columns_free(&rows);
    return i == named->count
               ? QK_OK
               : qk__fail(err, QK_ERR_NOT_FOUND, "heads %s: these results have none of them",
                          qk__head_range_text(&named->items[i], text));
}

/* All that comes before the first picture. */
static qk_status begin_report(qk__report *report, qk_report_outcome *outcome, qk_error *err)
{
    const qk_report_settings *settings = report->settings;
    QK_TRY(list_changed(settings, outcome, err));
    QK_TRY(check_ablation(settings, err));
    QK_TRY(open_tables(report, err));
    QK_TRY(qk__check_scores(report->tables, &report->scores, &settings->context, err));
    QK_TRY(check_named(report, err));
    outcome->num_models = report->results->num_models;
    outcome->num_heads = report->results->num_heads;
    return QK_OK;
}

qk_status qk__report_make(const qk_report_settings *settings, qk_report_outcome **outcome,
                          qk_error *err)
{
    double start = qk__now();
    *outcome = NULL;
    qk_report_outcome *out = qk__calloc(1, sizeof *out);
    qk__report report = {.settings = settings,
                         .folder = settings->output ? settings->output : settings->results,
                         .scores = {settings->score_metric ? settings->score_metric : "ap_drop",
                                    settings->score_column}};
    qk_status status = out ? begin_report(&report, out, err) : qk__nomem(err);
    if (status == QK_OK)
        status = settings->list ? list_figure_names(&report, out, err)
                                : make_staged(&report, out, err);
    qk__store_close(&report.tables);
    qk__results_free(&report.results);
    if (status == QK_OK || status == QK_ERR_PARTIAL) {
        out->seconds = qk__now() - start;
        *outcome = out;
    } else {
        qk_report_outcome_free(&out);
    }
    if (status == QK_ERR_CANCELLED && err && strcmp(err->message, "cancelled") == 0)
        return qk__fail(err, status, "stopped before the page; nothing was written");
    return status;
}

/* Tables must not change while they are read. */
static qk_status check_results(const qk_report_settings *settings, qk_error *err)
{
    qk__manifest manifest;
    QK_TRY(qk__manifest_read(&manifest, settings->results, err));
    qk_status status = qk__manifest_check(&manifest, settings->results, err);
    qk__manifest_free(&manifest);
    return status;
}

qk_status qk_report_write(const qk_report_settings *settings, qk_report_outcome **outcome,
                          qk_error *err)
{
    qk__hold output = {.lock = -1}, results = {.lock = -1};
    QK_NEED(err, outcome);
    *outcome = NULL;
    QK_NEED(err, settings);
    if (!settings->results)
        return qk__fail(err, QK_ERR_ARGUMENT, "no results folder was given");
    QK_TRY(qk__settings_check(&qk_report_settings_table, settings, err));
    if (settings->alone && !has_page(settings))
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "the page alone, but without the page: give alone or what leaves the "
                        "page out, html = false or names of figures");
    const char *folder = settings->output ? settings->output : settings->results;
    if (!qk__is_dir(settings->results)) {
        qk__set_error(err, QK_ERR_NOT_FOUND, "%s: %s", settings->results,
                      qk__is_there(settings->results) ? "a file, and no folder of results"
                                                      : "no such folder of results");
        return qk__path_tell(settings->results, QK__PATH_RESULTS, QK_ERR_NOT_FOUND, err);
    }
    QK_TRY(qk__place_claim(&output, folder, err));
    qk_status status = qk__place_watch(&results, settings->results, &output, err);
    if (status == QK_OK)
        status = check_results(settings, err);
    if (status == QK_OK && has_page(settings) && !settings->list && !settings->force)
        status = qk__page_check_place(folder, QK__PAGE_NAME, err);
    if (status == QK_OK)
        status = qk__place_sweep(folder, err);
    if (status == QK_OK)
        status = qk__report_make(settings, outcome, err);
    qk__place_release(&results);
    qk__place_release(&output);
    return status;
}

void qk_report_outcome_free(qk_report_outcome **outcome)
{
    assert(outcome);
    qk_report_outcome *out = *outcome;
    if (!out)
        return;
    qk__strings_free(out->names, out->num_names);
    qk__strings_free(out->failures, out->num_failed);
    qk__strings_free(out->changed, out->num_changed);
    qk__strings_free(out->files, out->num_files);
    free(out->html);
    free(out);
    *outcome = NULL;
}
