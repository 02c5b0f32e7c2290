/* SPDX-License-Identifier: Apache-2.0 */
/* plot-plasticity of the original tool of attention plasticity. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

#include <qkscope/published.h>

static const char COMMAND[] = "qkscope plot-plasticity";
static const char DESCRIPTION[] =
    "Draws a table of pairs of buckets as the original tool does: plasticity against the "
    "query\n"
    "bucket, a faint line for each head and a bold one for their mean. The table is what\n"
    "analyze-heads writes as bucket_csv, or head_bucket_plasticity.csv of qkscope plasticity.\n"
    "Options override the file. The script and its numbers are left beside the picture.";

typedef struct request {
    qk_plot_settings settings;
    qk_published *file;
    cli_common common;
    const char *config_path, *loaded_path; /* as the options have it; as it was loaded */
    const char *bucket_type;               /* NULL = not given */
    bool by_layer, not_by_layer, trend, no_trend;
} request;

static int apply(request *r)
{
    qk_plot_settings *s = &r->settings;
    if (r->config_path != r->loaded_path) {
        cli_error(COMMAND, "give --config once, and write it in full");
        return EXIT_CODE_USAGE;
    }
    if (r->bucket_type) {
        s->log_buckets = strcmp(r->bucket_type, "log") == 0;
        if (!s->log_buckets && strcmp(r->bucket_type, "uniform") != 0) {
            cli_error(COMMAND, "--bucket_type %s: expected log or uniform", r->bucket_type);
            return EXIT_CODE_USAGE;
        }
    }
    s->color_by_layer = (s->color_by_layer || r->by_layer) && !r->not_by_layer;
    s->color_trend = (s->color_trend || r->trend) && !r->no_trend;
    return -1;
}

static int parse(int argc, char **argv, request *r)
{
    qk_plot_settings *s = &r->settings;
    const cli_option options[] = {
        {0, "config", "FILE", "settings in YAML", OPTION_TEXT, &r->config_path, 0, 0},
        {0, "bucket_csv", "FILE", "the table", OPTION_TEXT, &s->bucket_csv, 0, 0},
        {0, "output", "FILE", "picture: .png, .svg or .pdf (default:\nplasticity.png)",
         OPTION_TEXT, &s->output, 0, 0},
        {0, "alpha", "A", "opacity of the lines of heads (default: 0.25)", OPTION_REAL,
         &s->alpha, 0, 1},
        {0, "line_width", "W", "of them (default: 0.8)", OPTION_REAL, &s->line_width, 0, 1e3},
        {0, "bucket_type", "TYPE",
         "uniform: bucket b lies at (b + 1/2) times the size\n(default); log: at 2^(b + 1/2) "
         "times it",
         OPTION_TEXT, &r->bucket_type, 0, 0},
        {0, "bucket_min_size", "N", "that size, in tokens (default: 1)", OPTION_REAL,
         &s->bucket_min_size, 1e-12, 1e12},
        {0, "model_name", "NAME", "in the title", OPTION_TEXT, &s->model_name, 0, 0},
        {0, "color_by_layer", NULL, "colours by layer", OPTION_FLAG, &r->by_layer, 0, 0},
        {0, "no-color_by_layer", NULL, "not so, whatever the file says", OPTION_FLAG,
         &r->not_by_layer, 0, 0},
        {0, "color_trend", NULL, "colours by slope: rising, falling, flat", OPTION_FLAG,
         &r->trend, 0, 0},
        {0, "no-color_trend", NULL, "not so, whatever the file says", OPTION_FLAG, &r->no_trend,
         0, 0},
        {0, "trend_threshold", "S", "slope from which it is one (default: 0.0001)", OPTION_REAL,
         &s->trend_threshold, 1e-300, 1e12},
        {0, "cmap", "MAP", "of the layers: viridis (default), magma, Blues,\nReds or YlOrRd",
         OPTION_TEXT, &s->cmap, 0, 0},
    };
    const cli_syntax syntax = {.command = COMMAND,
                               .usage = "[--config FILE] [options]",
                               .description = DESCRIPTION,
                               .options = options,
                               .num_options = sizeof options / sizeof *options,
                               .common = &r->common,
                               .max_arguments = 0};
    int count;
    int code = cli_parse(&syntax, argc, argv, NULL, &count);
    return code < 0 ? apply(r) : code;
}

/* The file's settings come first, so that options override them. */
static int load(int argc, char **argv, request *r)
{
    qk_error err;
    qk_plot_settings_default(&r->settings);
    r->loaded_path = cli_find_value(argc, argv, "config");
    if (!r->loaded_path)
        return -1;
    qk_status status = qk_published_load_plot(&r->file, r->loaded_path, &r->settings, &err);
    if (status == QK_OK)
        return -1;
    cli_error(COMMAND, "%s", err.message);
    return status == QK_ERR_ARGUMENT ? EXIT_CODE_USAGE : EXIT_CODE_FAILURE;
}

static int run(const request *r)
{
    const qk_plot_settings *s = &r->settings;
    qk_error err;
    size_t heads;
    qk_status status = qk_plot_run(s, &heads, &err);
    if (status != QK_OK)
        cli_error(COMMAND, "%s", err.message);
    else if (r->common.json)
        cli_json_print(json_pack("{s:o, s:I}", "output", cli_json_text(s->output), "heads",
                                 (json_int_t)heads));
    else if (!r->common.quiet)
        cli_print("%zu head%s\n%s\n", heads, cli_s((int64_t)heads), s->output);
    return cli_finish(COMMAND,
                      status == QK_ERR_ARGUMENT ? EXIT_CODE_USAGE : cli_exit_code(status));
}

int cmd_plot(int argc, char **argv)
{
    request r = {0};
    int code = load(argc, argv, &r);
    if (code < 0)
        code = parse(argc, argv, &r);
    if (code < 0)
        code = run(&r);
    qk_published_free(&r.file);
    return code;
}
