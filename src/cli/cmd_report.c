/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope report: figures and a page from a folder of tables. */
#include "tell.h"

#include <qkscope/report.h>

typedef struct request {
    cli_common common;
    qk_report_settings settings;
} request;

static const qk_setting ROWS[] = {
    QK_SETTING_PART(request, settings, qk_report_settings_table),
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

static void tell_outcome(const request *r, const qk_report_outcome *o)
{
    const qk_report_settings *s = &r->settings;
    for (size_t i = 0; i < o->num_changed; i++)
        cli_error("warning: %s/%s; drawn all the same", s->results, o->changed[i]);
    if (!r->common.json)
        cli_print_failures(o->failures, o->num_failed);
    for (size_t i = 0; s->list && !r->common.json && i < o->num_names; i++)
        cli_print("%s\n", o->names[i]);
    cli_tell(
        &r->common,
        s->list ? ""
                : "{models} model{s}, {heads} head{s}, {figures} figure{s} in {seconds:.2f} s\n"
                  "[{beside?}{folder}/figures\n][{html} ({html_bytes:MB})\n]",
        CLI_ROWS(CLI_ROW("models", o->num_models), CLI_ROW("heads", o->num_heads),
                 CLI_ROW("figures", o->num_figures),
                 CLI_ROW("names", cli_json_texts(o->names, o->num_names)),
                 CLI_ROW("failures", cli_json_texts(o->failures, o->num_failed)),
                 CLI_ROW("changed", cli_json_texts(o->changed, o->num_changed)),
                 CLI_OF(o, html), CLI_OF(o, html_bytes),
                 CLI_ROW("files", cli_json_texts(o->files, o->num_files)), CLI_OF(o, seconds),
                 CLI_SAY("beside", !s->alone),
                 CLI_SAY("folder", s->output ? s->output : s->results)));
}

static int run_report(cli_call *call)
{
    request *r = call->request;
    cli_messages messages;
    qk_report_outcome *outcome = NULL;
    qk_error err;
    if (call->count == 0)
        return cli_usage("which results? Give the folder with the tables");
    cli_messages_init(&messages, &r->common, &r->settings.context);
    r->settings.results = call->arguments[0];
    qk_status status = qk_report_write(&r->settings, &outcome, &err);
    cli_clear(&messages);
    if (outcome)
        tell_outcome(r, outcome);
    else
        cli_error("%s", err.message);
    qk_report_outcome_free(&outcome);
    return cli_settings_code(status);
}

const cli_command cmd_report = {
    .name = "report",
    .group = "Look",
    .summary = "figures and one self-contained page from tables",
    .usage = "RESULTS [-o DIR] [options]",
    .description =
        "Draws all figures that the tables in RESULTS allow, into DIR/figures, and writes "
        "DIR/report.html: one page with summary, findings, figures and an explorer of all "
        "heads, which needs no network.\n\nRESULTS is the output folder of pca, rotate, "
        "plasticity, attention, analyze or study. Results that are not complete, or of two "
        "captures, are "
        "refused; so are tables that were changed, unless --force is given.\n\nBeside every "
        "figure lie its numbers as drawn, NAME.csv, and "
        "NAME.md, which says what it shows. README.md lists them all. Collages of qkscope "
        "scatter in "
        "DIR/figures are shown, too.",
    .usual = "output no-html alone no-points heads title scores figure list format theme width "
             "json help",
    .examples = "qkscope report results\n"
                "qkscope report results -o page --theme dark --title \"My model\"\n"
                "qkscope report results --figure pca-02-rq-rk-scatter --format pdf\n"
                "qkscope report results --no-html --format pdf --width 85mm\n",
    .table = &TABLE,
    .max_arguments = 1,
    .run = run_report,
};
