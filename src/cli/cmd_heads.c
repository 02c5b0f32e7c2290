/* SPDX-License-Identifier: Apache-2.0 */
/* analyze-heads of the original tool of attention plasticity. */
#include "analysis.h"

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
    qk_heads_settings settings;
    qk_published *file;
    cli_common common;
    const char *config_path, *loaded_path; /* as the options have it; as it was loaded */
} request;

static int parse(int argc, char **argv, request *r)
{
    qk_heads_settings *s = &r->settings;
    const cli_option options[] = {
        {0, "config", "FILE", "settings in YAML (required)", OPTION_TEXT, &r->config_path, 0,
         0},
        {0, "model_dir", "DIR", "folder in the dataset that holds the heads", OPTION_TEXT,
         &s->model_dir, 0, 0},
        {0, "dataset_name", "NAME", "dataset (org/name) in the Hugging Face cache", OPTION_TEXT,
         &s->dataset_name, 0, 0},
        {0, "dataset_cache_dir", "DIR", "that cache", OPTION_TEXT, &s->dataset_cache_dir, 0, 0},
        {0, "dataset_local_root", "DIR", "a folder instead of it", OPTION_TEXT,
         &s->dataset_local_root, 0, 0},
        {0, "download_max_workers", "N", "accepted, has no effect", OPTION_INT,
         &s->download_max_workers, 0, 0},
        {0, "num_layers", "N", "layers", OPTION_INT, &s->num_layers, 1, 65535},
        {0, "num_q_heads", "N", "query heads a layer", OPTION_INT, &s->num_q_heads, 1, 65535},
        {0, "num_k_heads", "N", "key heads a layer", OPTION_INT, &s->num_k_heads, 1, 65535},
        {0, "max_tokens_per_head", "N", "rows a head and kind, drawn at random", OPTION_INT64,
         &s->max_tokens_per_head, 1, 1e15},
        {0, "normality_max_dims", "N", "dimensions with a Kolmogorov-Smirnov test", OPTION_INT,
         &s->normality_max_dims, 1, 4096},
        {0, "p_alpha", "P", "level of these tests", OPTION_REAL, &s->p_alpha, 0, 1},
        {0, "output_csv", "FILE", "table of heads", OPTION_TEXT, &s->output_csv, 0, 0},
        {0, "bucket_csv", "FILE", "table of pairs of buckets", OPTION_TEXT, &s->bucket_csv, 0,
         0},
        {0, "component_csv", "FILE", "table of dimensions", OPTION_TEXT, &s->component_csv, 0,
         0},
        {0, "seed", "S", "of the draws", OPTION_INT64, &s->seed, 0, 4294967295.0},
        {0, "max_workers", "N", "threads (default: all processors)", OPTION_INT,
         &s->max_workers, 1, 4096},
    };
    const cli_syntax syntax = {.command = COMMAND,
                               .usage = "--config FILE [options]",
                               .description = DESCRIPTION,
                               .options = options,
                               .num_options = sizeof options / sizeof *options,
                               .common = &r->common,
                               .max_arguments = 0};
    int count;
    int code = cli_parse(&syntax, argc, argv, NULL, &count);
    if (code >= 0)
        return code;
    if (!r->config_path || r->config_path != r->loaded_path) {
        cli_error(COMMAND, !r->config_path ? "which file? Give --config FILE"
                                           : "give --config once, and write it in full");
        return EXIT_CODE_USAGE;
    }
    return -1;
}

/* The file's settings come first, so that options override them. */
static int load(int argc, char **argv, request *r)
{
    qk_error err;
    qk_heads_settings_default(&r->settings);
    r->loaded_path = cli_find_value(argc, argv, "config");
    if (!r->loaded_path)
        return -1;
    qk_status status = qk_published_load_heads(&r->file, r->loaded_path, &r->settings, &err);
    if (status == QK_OK)
        return -1;
    cli_error(COMMAND, "%s", err.message);
    return status == QK_ERR_ARGUMENT ? EXIT_CODE_USAGE : EXIT_CODE_FAILURE;
}

static void print(const request *r, const qk_study_report *report)
{
    const qk_heads_settings *s = &r->settings;
    const qk_study_settings shown = {.analyses = QK_ANALYSE_PLASTICITY,
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

static int run(request *r)
{
    cli_messages messages;
    qk_study_report *report;
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
    qk_study_report_free(&report);
    return cli_finish(COMMAND,
                      status == QK_ERR_ARGUMENT ? EXIT_CODE_USAGE : cli_exit_code(status));
}

int cmd_heads(int argc, char **argv)
{
    request r = {0};
    char *line = cli_command_line(COMMAND, argc, argv);
    int code = load(argc, argv, &r);
    if (code < 0)
        code = parse(argc, argv, &r);
    if (code < 0) {
        r.settings.command_line = line;
        code = run(&r);
    }
    qk_published_free(&r.file);
    free(line);
    return code;
}
