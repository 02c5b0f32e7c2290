/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope study: many models or checkpoints, from captures to the report. */
#include "tell.h"

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

/* What the callbacks of a run share. messages comes first: notices take the struct for it. */
typedef struct watcher {
    cli_messages messages;
    const qk_study *study;
    char of[80];
} watcher;

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
    cli_print("%-*s  heads  state     seconds     r_q   |r_k|  bias>0  ap_drop"
              "  rows: least   median  texts  tokens  uncertain\n",
              width, "model");
    for (size_t i = 0; i < outcome->num_models; i++) {
        const qk_study_result *result = &outcome->models[i];
        cli_print("%-*.*s  %5zu  %-8s  %7.2f", width, MAX_NAME, qk_study_get(study, i)->name,
                  result->num_heads, state_name(result->state, false), result->seconds);
        cli_print_number(" %7.3f", result->r_q);
        cli_print_number(" %7.3f", result->abs_r_k);
        cli_print_number(" %6.1f%%", 100 * result->recency);
        cli_print_number(" %8.4f", result->ap_drop);
        cli_print_number(" %12.0f", result->rows_least);
        cli_print_number(" %8.15g", result->rows_median);
        cli_print_number(" %6.0f", result->texts_least);
        cli_print_number(" %7.15g", result->lengths.median);
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
            cli_object(CLI_ROWS(
                CLI_ROW("model", model->name), CLI_OF(model, source),
                CLI_ROW("state", state_name(result->state, r->settings.dry_run)),
                CLI_OF(result, message), CLI_ROW("heads", result->num_heads),
                CLI_OF(result, seconds), CLI_ROW("mean_r_q", result->r_q),
                CLI_ROW("mean_r_k", result->r_k), CLI_ROW("mean_abs_r_k", result->abs_r_k),
                CLI_ROW("bias_positive_share", result->recency),
                CLI_ROW("mean_ap_drop", result->ap_drop), CLI_OF(result, rows_least),
                CLI_OF(result, rows_median), CLI_OF(result, texts_least),
                CLI_ROW("text_tokens", result->lengths.median),
                CLI_ROW("text_tokens_least", result->lengths.least),
                CLI_ROW("text_tokens_most", result->lengths.most), CLI_OF(result, uncertain))));
    }
    return models;
}

static json_t *describe_report(const qk_report_outcome *report)
{
    return cli_object(
        CLI_ROWS(CLI_ROW("figures", report->num_figures),
                 CLI_ROW("failed", cli_json_texts(report->failures, report->num_failed)),
                 CLI_OF(report, html), CLI_OF(report, html_bytes)));
}

static const char OUTCOME[] = "\n{seconds:.1f} s[{report?}, {report.figures} "
                              "figure{s}]"
                              "\n\n{output}/models.csv and tables beside "
                              "it\n[{report?}{output}/figures/\n[{report.html}\n]]";

static void tell_outcome(const request *r, const qk_study *study,
                         const qk_study_outcome *outcome)
{
    bool dry = r->settings.dry_run;
    if (!r->common.json && dry)
        print_plan(study, outcome);
    else if (!r->common.json && !r->common.quiet)
        print_models(study, outcome);
    cli_tell(
        &r->common, dry ? "" : OUTCOME,
        CLI_ROWS(CLI_ROW("output", r->settings.output), CLI_ROW("title", qk_study_title(study)),
                 CLI_ROW("dry_run", dry), CLI_ROW("models", list_models(r, study, outcome)),
                 CLI_ROW("report", outcome->report ? describe_report(outcome->report) : NULL),
                 CLI_OF(outcome, seconds)));
}

/* ---- running ---------------------------------------------------------------------------- */

static int run_study(request *r, const qk_study *study)
{
    watcher w = {.study = study};
    qk_study_outcome *outcome;
    qk_error err;
    cli_messages_init(&w.messages, &r->common, &r->settings.context);
    r->settings.model_begins = on_model;
    r->settings.user = &w;
    qk_status status = qk_study_run(study, &r->settings, &outcome, &err);
    cli_messages_end(&w.messages, status, &err);
    if (outcome && outcome->report && outcome->report->num_failed > 1)
        cli_print_failures(outcome->report->failures, outcome->report->num_failed);
    if (outcome)
        tell_outcome(r, study, outcome);
    qk_study_outcome_free(&outcome);
    return cli_settings_code(status);
}

static int run(cli_call *call)
{
    request *r = call->request;
    qk_study *study;
    qk_error err;
    if (call->count == 0)
        return cli_usage("which study? Give a YAML file (docs/howto/published.md#studies)");
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
        "Analyses every model that a study file lists, and writes joint tables, all figures and "
        "report.html into DIR.\n\nSTUDY.yaml lists the models and where their captures lie; "
        "docs/howto/published.md#studies says what else it may hold.\n\nWhat did not change "
        "since the last run is not computed again, so the same command continues a run that was "
        "stopped.",
    .usual = "output force dry-run no-figures no-html format theme width local-root offline "
             "threads json help",
    .examples = "qkscope study study.yaml -o study --dry-run\n"
                "qkscope study study.yaml -o study --threads 8\n",
    .table = &TABLE,
    .max_arguments = 1,
    .run = run,
};
