/* SPDX-License-Identifier: Apache-2.0 */
/* analyze-heads and plot-plasticity: the commands of the original plasticity tool. */
#include "run_analysis.h"

#include <qkscope/published.h>

/* Each command uses its own settings alone. */
typedef struct request {
    cli_common common;
    qk_heads_settings heads;
    qk_plot_settings plot;
    qk_published *file;
} request;

static void release_published(void *of)
{
    qk_published_free(&((request *)of)->file);
}

/* ---- analyze-heads ---------------------------------------------------------------------- */

static const qk_setting HEADS_ROWS[] = {
    QK_SETTING_PART(request, heads, qk_heads_settings_table),
    CLI_CONFIG(request, "settings in YAML (required)"),
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table HEADS_TABLE = {QK_SETTINGS_ROWS(request, HEADS_ROWS)};

static qk_status load_heads(void *of, qk_error *err)
{
    request *r = of;
    return qk_published_load_heads(&r->file, r->common.config, &r->heads, err);
}

static void print_heads(const request *r, const qk_analysis_results *results)
{
    const qk_heads_settings *s = &r->heads;
    const qk_analysis_settings shown = {.analyses = QK_ANALYSE_PLASTICITY,
                                        .combined = true,
                                        .plasticity.convention = QK_CONVENTION_PUBLISHED};
    size_t wanted = (size_t)s->num_layers * (size_t)s->num_q_heads;
    if (!r->common.quiet && results->num_heads < wanted)
        cli_error("note: %zu of %zu query heads are in the capture", results->num_heads,
                  wanted);
    cli_tell_analysis(&r->common, &shown, results);
    if (!r->common.json && !r->common.quiet)
        cli_print("%s\n%s\n%s\n", s->output_csv, s->bucket_csv, s->component_csv);
}

static int run_heads(cli_call *call)
{
    request *r = call->request;
    cli_messages messages;
    qk_analysis_results *results;
    qk_error err;
    if (!r->common.config)
        return cli_usage("which file? Give --config FILE");
    cli_messages_init(&messages, &r->common, &r->heads.context);
    r->heads.command_line = call->line;
    qk_status status = qk_heads_run(&r->heads, &results, &err);
    cli_messages_end(&messages, status, &err);
    if (results)
        print_heads(r, results);
    qk_analysis_results_free(&results);
    return cli_settings_code(status);
}

const cli_command cmd_analyze_heads = {
    .name = "analyze-heads",
    .group = "As the original tool",
    .summary = "plasticity by its configuration files",
    .usage = "--config FILE [options]",
    .description =
        "Attention plasticity as the original tool computes it: by its configuration files, "
        "with its formulas, into its tables. Vectors are oriented as there, windows are "
        "counted in buckets, and ap_overall is the mean over pairs of buckets. Where the "
        "original draws 256 pairs of keys, all count here, up to 65,536. Options override the "
        "file. Heads that are not in the Hugging Face cache are fetched. 'qkscope plasticity' "
        "tells "
        "more about each head.",
    .examples = "qkscope analyze-heads --config model.yaml\n"
                "qkscope analyze-heads --config model.yaml --max_tokens_per_head 10000\n",
    .table = &HEADS_TABLE,
    .load = load_heads,
    .run = run_heads,
    .release = release_published,
};

/* ---- plot-plasticity -------------------------------------------------------------------- */

static const qk_setting PLOT_ROWS[] = {
    QK_SETTING_PART(request, plot, qk_plot_settings_table),
    CLI_CONFIG(request, "settings in YAML"),
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table PLOT_TABLE = {QK_SETTINGS_ROWS(request, PLOT_ROWS)};

static qk_status load_plot(void *of, qk_error *err)
{
    request *r = of;
    return qk_published_load_plot(&r->file, r->common.config, &r->plot, err);
}

static int run_plot(cli_call *call)
{
    const request *r = call->request;
    const qk_plot_settings *s = &r->plot;
    qk_error err;
    size_t heads;
    qk_status status = qk_plot_run(s, &heads, &err);
    if (status != QK_OK)
        cli_error("%s", err.message);
    else
        cli_tell(&r->common, "{heads} head{s}\n{output}\n",
                 CLI_ROWS(CLI_OF(s, output), CLI_ROW("heads", heads)));
    return cli_settings_code(status);
}

const cli_command cmd_plot = {
    .name = "plot-plasticity",
    .group = "As the original tool",
    .summary = "plasticity by query bucket, a line a head",
    .usage = "[--config FILE] [options]",
    .description = "Draws a table of pairs of buckets as the original tool does: plasticity "
                   "against the query bucket, a faint line for each head and a bold one for "
                   "their mean. The table is what analyze-heads writes as bucket_csv, or "
                   "head_bucket_plasticity.csv of qkscope plasticity. Options override the "
                   "file. The script and its numbers are left beside the picture.",
    .examples = "qkscope plot-plasticity --bucket_csv results/head_bucket_plasticity.csv\n"
                "qkscope plot-plasticity --config plot.yaml --output plot.svg --color_trend\n",
    .table = &PLOT_TABLE,
    .load = load_plot,
    .run = run_plot,
    .release = release_published,
};
