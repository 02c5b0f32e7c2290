/* SPDX-License-Identifier: Apache-2.0 */
/* analyze-heads of the original tool of attention plasticity. */
#include "run_analysis.h"

#include <stdio.h>
#include <stdlib.h>

#include <qkscope/published.h>

static const char COMMAND[] = "qkscope analyze-heads";
static const char DESCRIPTION[] =
    "Attention plasticity by the configuration files, with the formulas and into the tables "
    "of\n"
    "the original tool: its orientation of vectors, windows counted in buckets, ap_overall as\n"
    "the mean over pairs of buckets. Where it draws 256 pairs of keys, all count, up to "
    "65,536.\n"
    "Options override the file. Nothing is downloaded. 'qkscope plasticity' says more.";

typedef struct request {
    cli_common common;
    qk_heads_settings settings;
    qk_published *file;
} request;

static const qk_setting ROWS[] = {
    QK_SETTING_PART(request, settings, qk_heads_settings_table),
    CLI_CONFIG(request, "settings in YAML (required)"),
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

static int load(cli_call *call)
{
    request *r = call->request;
    qk_error err;
    return cli_loaded(
        call, qk_published_load_heads(&r->file, r->common.config, &r->settings, &err), &err);
}

static void release(void *of)
{
    qk_published_free(&((request *)of)->file);
}

static void print(const request *r, const qk_analysis_results *report)
{
    const qk_heads_settings *s = &r->settings;
    const qk_analysis_settings shown = {.analyses = QK_ANALYSE_PLASTICITY,
                                        .combined = true,
                                        .plasticity.convention = QK_CONVENTION_PUBLISHED};
    size_t wanted = (size_t)s->num_layers * (size_t)s->num_q_heads;
    if (!r->common.quiet && report->num_heads < wanted)
        cli_error(COMMAND, "note: %zu of %zu query heads are in the capture", report->num_heads,
                  wanted);
    if (r->common.json)
        cli_print_outcome_json(&shown, report);
    else if (!r->common.quiet) {
        cli_print_summary(&shown, report);
        cli_print("%s\n%s\n%s\n", s->output_csv, s->bucket_csv, s->component_csv);
    }
}

static int analyse(request *r)
{
    cli_messages messages;
    qk_analysis_results *report;
    qk_error err;
    cli_messages_init(&messages, COMMAND, &r->common, "heads");
    r->settings.notice = cli_notice;
    r->settings.progress = cli_progress;
    r->settings.user = &messages;
    qk_status status = qk_heads_run(&r->settings, &report, &err);
    cli_clear(&messages);
    if (status != QK_OK)
        cli_error(COMMAND, "%s", err.message);
    if (report)
        print(r, report);
    qk_analysis_results_free(&report);
    return cli_finish(COMMAND,
                      status == QK_ERR_ARGUMENT ? EXIT_CODE_USAGE : cli_exit_code(status));
}

static int run(cli_call *call)
{
    request *r = call->request;
    if (!r->common.config)
        return cli_usage(call, "which file? Give --config FILE");
    r->settings.command_line = call->line;
    return analyse(r);
}

const cli_command cmd_heads = {
    .name = "analyze-heads",
    .title = COMMAND,
    .group = "As the original tool",
    .summary = "plasticity by its configuration files",
    .usage = "--config FILE [options]",
    .description = DESCRIPTION,
    .examples = "qkscope analyze-heads --config model.yaml\n"
                "qkscope analyze-heads --config model.yaml --max_tokens_per_head 10000\n",
    .table = &TABLE,
    .load = load,
    .run = run,
    .release = release,
};
