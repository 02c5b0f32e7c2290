/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope study: many models or checkpoints, from captures to the report. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/study.h>

typedef struct request {
    cli_common common;
    qk_study_settings settings;
} request;

static const qk_setting ROWS[] = {
    QK_SETTING_PART(request, settings, qk_study_settings_table),
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

/* ---- progress --------------------------------------------------------------------------- */

/* What the callbacks of a run share; messages come first, since notices take it for theirs. */
typedef struct watcher {
    cli_messages messages;
    const qk_study *study;
    char of[80];
} watcher;

static bool on_progress(void *user, const qk_progress *progress)
{
    watcher *w = user;
    bool next = strcmp(progress->what, "MB") == 0; /* of the next model, for which one waits */
    const char *of = w->messages.of;
    if (next)
        w->messages.of = NULL;
    bool on = cli_progress(&w->messages, progress);
    w->messages.of = of;
    return on;
}

static void on_model(void *user, size_t i, const qk_study_model *model, bool computed)
{
    watcher *w = user;
    cli_clear(&w->messages);
    w->messages.of = model ? w->of : NULL;
    if (model)
        snprintf(w->of, sizeof w->of, "%zu of %zu: %.48s", i + 1, qk_study_num_models(w->study),
                 model->name);
    if (model && w->messages.common->verbose)
        cli_error("%.30s: %s", model->name, computed ? "computing" : "results stand");
    cli_restart(&w->messages);
}

/* ---- the outcome as text ---------------------------------------------------------------- */

static const char *state_name(qk_study_state state, bool dry)
{
    switch (state) {
    case QK_STUDY_COMPUTED:
        return dry ? "to do" : "computed";
    case QK_STUDY_KEPT:
        return dry ? "stands" : "kept";
    case QK_STUDY_PARTIAL:
        return "partial";
    default:
        return "failed";
    }
}

enum { MIN_NAME = 5, MAX_NAME = 32 };

static int name_width(const qk_study *study)
{
    size_t widest = MIN_NAME;
    for (size_t i = 0; i < qk_study_num_models(study); i++) {
        size_t width = cli_text_columns(qk_study_get(study, i)->name, MAX_NAME);
        widest = width > widest ? width : widest;
    }
    return (int)widest;
}

static void print_models(const qk_study *study, const qk_study_outcome *outcome)
{
    int width = name_width(study);
    cli_print("%-*s  heads  state     seconds     r_q     r_k  bias>0  ap_drop"
              "  rows: least   median  texts  uncertain\n",
              width, "model");
    for (size_t i = 0; i < outcome->num_models; i++) {
        const qk_study_result *result = &outcome->models[i];
        cli_print("%-*.*s  %5zu  %-8s  %7.2f", width, MAX_NAME, qk_study_get(study, i)->name,
                  result->num_heads, state_name(result->state, false), result->seconds);
        cli_print_number(" %7.3f", result->r_q);
        cli_print_number(" %7.3f", result->r_k);
        cli_print_number(" %6.1f%%", 100 * result->recency);
        cli_print_number(" %8.4f", result->ap_drop);
        cli_print_number(" %12.0f", result->rows_least);
        cli_print_number(" %8.15g", result->rows_median);
        cli_print_number(" %6.0f", result->texts_least);
        cli_print_number(" %10.0f", result->uncertain);
        putchar('\n');
    }
}

static void print_plan(const qk_study *study, const qk_study_outcome *outcome)
{
    int width = name_width(study);
    for (size_t i = 0; i < outcome->num_models; i++) {
        const qk_study_result *result = &outcome->models[i];
        cli_print("%-*.*s  %-8s  %s\n", width, MAX_NAME, qk_study_get(study, i)->name,
                  state_name(result->state, true), result->message ? result->message : "");
    }
}

static void print_outcome(const request *r, const qk_study *study,
                          const qk_study_outcome *outcome)
{
    const qk_report_outcome *report = outcome->report;
    if (r->settings.dry_run) {
        print_plan(study, outcome);
        return;
    }
    print_models(study, outcome);
    cli_print("\n%.1f s", outcome->seconds);
    if (report)
        cli_print(", %zu figure%s", report->num_figures, cli_s((int64_t)report->num_figures));
    if (outcome->freed_bytes > 0)
        cli_print(", %.1f MB of the cache freed", (double)outcome->freed_bytes / 1e6);
    cli_print("\n\n%s/models.csv and tables beside it\n", r->settings.output);
    if (report)
        cli_print("%s/figures/\n", r->settings.output);
    if (report && report->html)
        cli_print("%s\n", report->html);
}

/* ---- the outcome as JSON ---------------------------------------------------------------- */

static json_t *list_models(const request *r, const qk_study *study,
                           const qk_study_outcome *outcome)
{
    json_t *models = json_array();
    for (size_t i = 0; i < outcome->num_models; i++) {
        const qk_study_result *result = &outcome->models[i];
        const qk_study_model *model = qk_study_get(study, i);
        json_array_append_new(
            models,
            json_pack("{s:o, s:o, s:s, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                      "model", cli_json_text(model->name), "source",
                      cli_json_text(model->source), "state",
                      state_name(result->state, r->settings.dry_run), "message",
                      cli_json_text(result->message), "heads", (json_int_t)result->num_heads,
                      "seconds", cli_json_number(result->seconds), "mean_r_q",
                      cli_json_number(result->r_q), "mean_r_k", cli_json_number(result->r_k),
                      "bias_positive_share", cli_json_number(result->recency), "mean_ap_drop",
                      cli_json_number(result->ap_drop), "rows_least",
                      cli_json_number(result->rows_least), "rows_median",
                      cli_json_number(result->rows_median), "texts_least",
                      cli_json_number(result->texts_least), "uncertain",
                      cli_json_number(result->uncertain)));
    }
    return models;
}

static json_t *describe_report(const qk_report_outcome *report)
{
    if (!report)
        return json_null();
    return json_pack("{s:I, s:o, s:o, s:I}", "figures", (json_int_t)report->num_figures,
                     "failed", cli_json_texts(report->failures, report->num_failed), "html",
                     cli_json_text(report->html), "html_bytes", (json_int_t)report->html_bytes);
}

static void print_json(const request *r, const qk_study *study, const qk_study_outcome *outcome)
{
    cli_json_print(json_pack(
        "{s:o, s:o, s:b, s:o, s:o, s:I, s:o}", "output", cli_json_text(r->settings.output),
        "title", cli_json_text(qk_study_title(study)), "dry_run", r->settings.dry_run, "models",
        list_models(r, study, outcome), "report", describe_report(outcome->report),
        "freed_bytes", (json_int_t)outcome->freed_bytes, "seconds",
        cli_json_number(outcome->seconds)));
}

/* ---- running ---------------------------------------------------------------------------- */

static int run_study(request *r, const qk_study *study)
{
    watcher w = {.study = study};
    qk_study_outcome *outcome;
    qk_error err;
    cli_messages_init(&w.messages, &r->common, &r->settings.context);
    r->settings.context.progress = on_progress;
    r->settings.model_begins = on_model;
    r->settings.user = &w;
    qk_status status = qk_study_run(study, &r->settings, &outcome, &err);
    cli_messages_end(&w.messages, status, &err);
    if (outcome && outcome->report && outcome->report->num_failed > 1)
        cli_print_failures(outcome->report->failures, outcome->report->num_failed);
    if (outcome && r->common.json)
        print_json(r, study, outcome);
    else if (outcome && (!r->common.quiet || r->settings.dry_run))
        print_outcome(r, study, outcome);
    qk_study_outcome_free(&outcome);
    return cli_settings_code(status);
}

static int run(cli_call *call)
{
    request *r = call->request;
    qk_study *study;
    qk_error err;
    if (call->count == 0)
        return cli_usage("which study? Give a YAML file (docs/study.md)");
    if (!r->settings.output)
        return cli_usage("where to? Give -o DIR");
    qk_status status = qk_study_load(&study, call->arguments[0], &err);
    if (status != QK_OK) {
        cli_error("%s", err.message);
        return cli_settings_code(status);
    }
    r->settings.command_line = call->line;
    int code = run_study(r, study);
    qk_study_free(&study);
    return code;
}

const cli_command cmd_study = {
    .name = "study",
    .group = "Analyse",
    .summary = "many models or checkpoints, from captures to the report",
    .usage = "STUDY.yaml -o DIR [options]",
    .description =
        "Analyses every model that a study file lists, and writes joint tables, all figures "
        "and report.html into DIR.\n\nSTUDY.yaml lists the models and where their captures "
        "lie; docs/study.md says what else it may hold.\n\nWhat did not change since the last "
        "run is not computed again, so the same command goes on with a run that was stopped.",
    .examples = "qkscope study study.yaml -o study --dry-run\n"
                "qkscope study study.yaml -o study --threads 8\n",
    .table = &TABLE,
    .max_arguments = 1,
    .run = run,
};
