/* SPDX-License-Identifier: Apache-2.0 */
/* plot-plasticity of the original tool of attention plasticity. */
#include "cli.h"

#include <stdio.h>

#include <qkscope/published.h>

typedef struct request {
    cli_common common;
    qk_plot_settings settings;
    qk_published *file;
} request;

static const qk_setting ROWS[] = {
    QK_SETTING_PART(request, settings, qk_plot_settings_table),
    CLI_CONFIG(request, "settings in YAML"),
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

static qk_status load(void *of, qk_error *err)
{
    request *r = of;
    return qk_published_load_plot(&r->file, r->common.config, &r->settings, err);
}

static void release(void *of)
{
    qk_published_free(&((request *)of)->file);
}

static int run(cli_call *call)
{
    const request *r = call->request;
    const qk_plot_settings *s = &r->settings;
    qk_error err;
    size_t heads;
    qk_status status = qk_plot_run(s, &heads, &err);
    if (status != QK_OK)
        cli_error("%s", err.message);
    else if (r->common.json)
        cli_json_print(json_pack("{s:o, s:I}", "output", cli_json_text(s->output), "heads",
                                 (json_int_t)heads));
    else if (!r->common.quiet)
        cli_print("%zu head%s\n%s\n", heads, cli_s((int64_t)heads), s->output);
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
    .table = &TABLE,
    .load = load,
    .run = run,
    .release = release,
};
