/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope pca, and pca-analyze of the original tool. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

static const char COMMAND[] = "qkscope pca";

static const char DESCRIPTION[] =
    "For every query head: one PCA of its queries and of the keys it attends to, and how far\n"
    "each component follows token position. CAPTURE is a folder with l{LL}h{HH}{q|k} folders\n"
    "somewhere below it, or a dataset (org/name) in the Hugging Face cache. Writes qk.csv (a\n"
    "row per head and component), heads.csv (a row per head) and manifest.json into DIR.\n"
    "With --kinds, queries and keys are fitted separately: correlations.csv, summary.json.";

static const char *const SOURCES[] = {"given", "from capture.json", "inferred"};

/* Sets the output apart from what was parsed, so that --kinds is seen to have been given. */
typedef struct request {
    qk_study_settings settings;
    qk_config *config;
    cli_common common;
    const char *config_path;     /* as the options have it */
    const char *loaded_path;     /* as load_config, which comes first, found it */
    qk_index_list layers, heads; /* owned here; those of a config belong to it */
    qk_kinds kinds;              /* 0 = not given */
    bool combined;
} request;

static int parse(int argc, char **argv, request *r)
{
    qk_study_settings *s = &r->settings;
    const cli_option options[] = {
        {'o', "output", "DIR", "folder for the tables", OPTION_TEXT, &s->output, 0, 0},
        {0, "config", "FILE", "settings in YAML; options given here override it", OPTION_TEXT,
         &r->config_path, 0, 0},
        {0, "model-name", "NAME", "name in the model column", OPTION_TEXT, &s->model_name, 0,
         0},
        {0, "revision", "REV", "of a cached dataset (default: main)", OPTION_TEXT, &s->revision,
         0, 0},
        {0, "split", "PREFIX", "sub-folder, when CAPTURE holds several captures", OPTION_TEXT,
         &s->prefix, 0, 0},
        {0, "layers", "LIST", "only these layers", OPTION_LIST, &r->layers, 0, 0},
        {0, "heads", "LIST", "only these query heads (with --kinds: heads)", OPTION_LIST,
         &r->heads, 0, 0},
        {0, "kinds", "q,k", "fit queries (q), keys (k) or both, each by itself", OPTION_KINDS,
         &r->kinds, 0, 0},
        {0, "combined", NULL, "fit queries and keys together (the default\nwithout --config)",
         OPTION_FLAG, &r->combined, 0, 0},
        {0, "components", "N", "principal components per head (default: 10)", OPTION_INT,
         &s->pca.components, 1, 4096},
        {0, "q-per-kv-group", "G",
         "query heads per key head (default: from\ncapture.json, else "
         "inferred)",
         OPTION_INT, &s->q_per_kv_group, 1, 65536},
        {0, "strict", NULL, "a group size that does not fit is an error", OPTION_FLAG,
         &s->strict, 0, 0},
        {0, "allow-missing", NULL, "query heads without their key head are left out",
         OPTION_FLAG, &s->allow_missing, 0, 0},
        {0, "max-samples", "N", "only the first N rows of each head", OPTION_INT64,
         &s->max_samples, 1, 1e15},
        {0, "sample-heads", "N", "N heads drawn as by random.Random(S).sample", OPTION_INT,
         &s->sample_heads, 1, 1e9},
        {0, "seed", "S", "of that draw (default: 0)", OPTION_INT64, &s->seed, 0, 0},
        {0, "threshold", "R", "|r| counted as high in summary.json (default: 0.3)", OPTION_REAL,
         &s->correlation_threshold, 0, 1},
        {0, "taxonomy-low", "R", "lower taxonomy threshold (default: 0.3)", OPTION_REAL,
         &s->pca.low, 0, 1},
        {0, "taxonomy-high", "R", "upper taxonomy threshold (default: 0.7)", OPTION_REAL,
         &s->pca.high, 0, 1},
        {0, "lda", NULL, "fill lda_accuracy in heads.csv (reads rows twice)", OPTION_FLAG,
         &s->lda, 0, 0},
        {0, "threads", "N", "threads (default: all processors)", OPTION_INT, &s->threads, 1,
         4096},
    };
    const cli_syntax syntax = {.command = COMMAND,
                               .usage = "CAPTURE -o DIR [options]",
                               .description = DESCRIPTION,
                               .options = options,
                               .num_options = sizeof options / sizeof *options,
                               .common = &r->common,
                               .max_arguments = 1};
    int count;
    int code = cli_parse(&syntax, argc, argv, &s->capture, &count);
    if (code >= 0)
        return code;
    if (r->config_path != r->loaded_path) {
        cli_error(COMMAND, "give --config once, and write it in full");
        return EXIT_CODE_USAGE;
    }
    if (!s->capture || !s->output) {
        cli_error(COMMAND, !s->capture ? "which capture? Give a folder, or org/name of a "
                                         "dataset in the Hugging Face cache"
                                       : "where to? Give -o DIR");
        return EXIT_CODE_USAGE;
    }
    if (r->layers.count)
        s->layers = r->layers;
    if (r->heads.count)
        s->heads = r->heads;
    if (r->kinds) {
        s->kinds = r->kinds;
        s->combined = false;
    }
    if (r->combined)
        s->combined = true;
    if (s->pca.low > s->pca.high) {
        cli_error(COMMAND, "--taxonomy-low %g is above --taxonomy-high %g", s->pca.low,
                  s->pca.high);
        return EXIT_CODE_USAGE;
    }
    return -1;
}

/* The file's settings come first, so that options override them. */
static int load_config(int argc, char **argv, request *r)
{
    const char *path = cli_find_value(argc, argv, "config");
    qk_error err;
    qk_study_settings_default(&r->settings);
    r->loaded_path = path;
    if (!path)
        return -1;
    qk_status status = qk_config_load(&r->config, path, &err);
    if (status != QK_OK) {
        cli_error(COMMAND, "%s", err.message);
        return status == QK_ERR_ARGUMENT ? EXIT_CODE_USAGE : EXIT_CODE_FAILURE;
    }
    r->settings = *qk_config_settings(r->config);
    return -1;
}

static void count_categories(const qk_study_report *report, size_t counts[QK_NUM_CATEGORIES])
{
    for (size_t i = 0; i < report->num_heads; i++)
        if (report->heads[i].pca)
            counts[report->heads[i].pca->category]++;
}

static void print_text(const request *r, const qk_study_report *report)
{
    size_t done = report->num_heads - report->num_failed - report->num_missing;
    printf("%zu heads, %zu rows in %.2f s (%d threads, %.0f MB/s)\n", done, report->num_rows,
           report->seconds, report->threads,
           (double)report->bytes_read / 1e6 / report->seconds);
    if (r->settings.combined) {
        size_t counts[QK_NUM_CATEGORIES] = {0};
        count_categories(report, counts);
        printf("group size %d (%s)\n\n", report->group.size, SOURCES[report->group.source]);
        for (int c = 0; c < QK_NUM_CATEGORIES; c++)
            printf("  %-20s %5zu  %5.1f %%\n", qk_category_name((qk_category)c), counts[c],
                   100.0 * (double)counts[c] / (double)done);
        printf("\n%s/qk.csv\n%s/heads.csv\n%s/manifest.json\n", r->settings.output,
               r->settings.output, r->settings.output);
    } else {
        printf("%s/correlations.csv\n%s/summary.json\n%s/manifest.json\n", r->settings.output,
               r->settings.output, r->settings.output);
    }
}

static json_t *list_failures(const qk_study_report *report)
{
    json_t *failures = json_array();
    for (size_t i = 0; i < report->num_heads; i++) {
        const qk_head_report *head = &report->heads[i];
        char name[QK_HEAD_NAME_SIZE];
        if (head->status == QK_OK)
            continue;
        qk_head_name(head->id, name);
        json_array_append_new(failures,
                              json_pack("{s:s, s:s, s:o}", "head", name, "reason",
                                        qk_status_text(head->status), "message",
                                        cli_json_text(head->message ? head->message : "")));
    }
    return failures;
}

static void print_json(const request *r, const qk_study_report *report)
{
    json_t *root = json_pack(
        "{s:o, s:o, s:o, s:b, s:I, s:I, s:i, s:f, s:o}", "output",
        cli_json_text(r->settings.output), "capture", cli_json_text(report->capture), "model",
        cli_json_text(report->model), "combined", r->settings.combined, "heads",
        (json_int_t)report->num_heads, "rows", (json_int_t)report->num_rows, "threads",
        report->threads, "seconds", report->seconds, "failures", list_failures(report));
    if (r->settings.combined) {
        size_t counts[QK_NUM_CATEGORIES] = {0};
        json_t *categories = json_object();
        count_categories(report, counts);
        for (int c = 0; c < QK_NUM_CATEGORIES; c++)
            json_object_set_new(categories, qk_category_name((qk_category)c),
                                json_integer((json_int_t)counts[c]));
        json_object_set_new(root, "q_per_kv_group", json_integer(report->group.size));
        json_object_set_new(root, "q_per_kv_group_source",
                            json_string(SOURCES[report->group.source]));
        json_object_set_new(root, "categories", categories);
    }
    cli_json_print(root);
}

static int analyse(request *r)
{
    cli_messages messages;
    qk_study_report *report;
    qk_error err;
    cli_messages_init(&messages, COMMAND, &r->common, "heads");
    for (size_t i = 0; r->config && i < qk_config_num_notes(r->config); i++)
        if (!r->common.quiet)
            cli_error(COMMAND, "note: %s", qk_config_note(r->config, i));
    r->settings.notice = cli_notice;
    r->settings.progress = cli_progress;
    r->settings.user = &messages;
    qk_status status = qk_study_pca(&r->settings, &report, &err);
    cli_clear(&messages);
    if (status != QK_OK)
        cli_error(COMMAND, "%s", err.message);
    if (report && r->common.json)
        print_json(r, report);
    else if (report && !r->common.quiet)
        print_text(r, report);
    qk_study_report_free(&report);
    return cli_finish(COMMAND, cli_exit_code(status));
}

int cmd_pca(int argc, char **argv)
{
    request r = {0};
    char *line = cli_command_line(COMMAND, argc, argv);
    int code = load_config(argc, argv, &r);
    if (code < 0)
        code = parse(argc, argv, &r);
    if (code < 0) {
        r.settings.command_line = line;
        code = analyse(&r);
    }
    qk_index_list_free(&r.layers);
    qk_index_list_free(&r.heads);
    qk_config_free(&r.config);
    free(line);
    return code;
}
