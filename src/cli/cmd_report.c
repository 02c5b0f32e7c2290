/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope report: figures and a page from a folder of tables. */
#include "cli.h"

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

static void print_json(const qk_report_outcome *outcome)
{
    cli_json_print(json_pack(
        "{s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:I, s:o, s:f}", "models",
        (json_int_t)outcome->num_models, "heads", (json_int_t)outcome->num_heads, "figures",
        (json_int_t)outcome->num_figures, "names",
        cli_json_texts(outcome->names, outcome->num_names), "failures",
        cli_json_texts(outcome->failures, outcome->num_failed), "changed",
        cli_json_texts(outcome->changed, outcome->num_changed), "html",
        cli_json_text(outcome->html), "html_bytes", (json_int_t)outcome->html_bytes, "files",
        cli_json_texts(outcome->files, outcome->num_files), "seconds", outcome->seconds));
}

static void print_outcome(const request *r, const qk_report_outcome *outcome)
{
    for (size_t i = 0; i < outcome->num_changed; i++)
        cli_error("warning: %s/%s; drawn all the same", r->settings.results,
                  outcome->changed[i]);
    if (r->common.json) {
        print_json(outcome);
        return;
    }
    cli_print_failures(outcome->failures, outcome->num_failed);
    for (size_t i = 0; r->settings.list && i < outcome->num_names; i++)
        cli_print("%s\n", outcome->names[i]);
    if (r->common.quiet || r->settings.list)
        return;
    cli_print("%zu model%s, %zu head%s, %zu figure%s in %.2f s\n", outcome->num_models,
              cli_s((int64_t)outcome->num_models), outcome->num_heads,
              cli_s((int64_t)outcome->num_heads), outcome->num_figures,
              cli_s((int64_t)outcome->num_figures), outcome->seconds);
    if (!r->settings.alone)
        cli_print("%s/figures\n",
                  r->settings.output ? r->settings.output : r->settings.results);
    if (outcome->html)
        cli_print("%s (%.1f MB)\n", outcome->html, (double)outcome->html_bytes / 1e6);
}

static int run(cli_call *call)
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
        print_outcome(r, outcome);
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
        "plasticity, analyze or study. Results that are not complete, or of two captures, are "
        "refused; so are tables that were changed, unless --force is given.\n\nBeside every "
        "figure lie its script and its numbers ('gnuplot NAME.gp' draws it again), and "
        "NAME.md, "
        "which says what it shows. README.md lists them all. Collages of qkscope scatter in "
        "DIR/figures are shown, too.",
    .examples = "qkscope report results\n"
                "qkscope report results -o page --theme dark --title \"My model\"\n"
                "qkscope report results --figure pca-02-rq-rk-scatter --format pdf\n"
                "qkscope report results --no-html --format pdf --width 85mm\n",
    .table = &TABLE,
    .max_arguments = 1,
    .run = run,
};
