/* SPDX-License-Identifier: Apache-2.0 */
/* analyze-heads of the original tool of attention plasticity. */
#include "run_analysis.h"

#include <stdio.h>
#include <stdlib.h>

#include <qkscope/published.h>

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

static qk_status load(void *of, qk_error *err)
{
    request *r = of;
    return qk_published_load_heads(&r->file, r->common.config, &r->settings, err);
}

static void release(void *of)
{
    qk_published_free(&((request *)of)->file);
}

static void print(const request *r, const qk_analysis_results *results)
{
    const qk_heads_settings *s = &r->settings;
    const qk_analysis_settings shown = {.analyses = QK_ANALYSE_PLASTICITY,
                                        .combined = true,
                                        .plasticity.convention = QK_CONVENTION_PUBLISHED};
    size_t wanted = (size_t)s->num_layers * (size_t)s->num_q_heads;
    if (!r->common.quiet && results->num_heads < wanted)
        cli_error("note: %zu of %zu query heads are in the capture", results->num_heads,
                  wanted);
    if (r->common.json)
        cli_print_outcome_json(&shown, results);
    else if (!r->common.quiet) {
        cli_print_summary(&shown, results);
        cli_print("%s\n%s\n%s\n", s->output_csv, s->bucket_csv, s->component_csv);
    }
}

static int run(cli_call *call)
{
    request *r = call->request;
    cli_messages messages;
    qk_analysis_results *results;
    qk_error err;
    if (!r->common.config)
        return cli_usage("which file? Give --config FILE");
    cli_messages_init(&messages, &r->common, "heads");
    r->settings.command_line = call->line;
    r->settings.notice = cli_notice;
    r->settings.progress = cli_progress;
    r->settings.user = &messages;
    qk_status status = qk_heads_run(&r->settings, &results, &err);
    cli_messages_end(&messages, status, &err);
    if (results)
        print(r, results);
    qk_analysis_results_free(&results);
    return cli_settings_code(status);
}

const cli_command cmd_heads = {
    .name = "analyze-heads",
    .group = "As the original tool",
    .summary = "plasticity by its configuration files",
    .usage = "--config FILE [options]",
    .description =
        "Attention plasticity as the original tool computes it: by its configuration files, "
        "with its formulas, into its tables. Vectors are oriented as there, windows are "
        "counted in buckets, and ap_overall is the mean over pairs of buckets. Where the "
        "original draws 256 pairs of keys, all count here, up to 65,536. Options override the "
        "file. Nothing is downloaded. 'qkscope plasticity' tells more about each head.",
    .examples = "qkscope analyze-heads --config model.yaml\n"
                "qkscope analyze-heads --config model.yaml --max_tokens_per_head 10000\n",
    .table = &TABLE,
    .load = load,
    .run = run,
    .release = release,
};
