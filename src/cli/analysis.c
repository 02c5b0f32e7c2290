/* SPDX-License-Identifier: Apache-2.0 */
/* Options and running of the commands that analyse a capture. */
#include "analysis.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ANALYSIS_OPTIONS = 48, DEFAULT_PAIRS = 30 };

static const double MAX_CI = 99.999999;

/* Sets what was parsed apart from the settings where a config has a say, too. */
typedef struct request {
    const cli_analysis *analysis;
    qk_study_settings settings;
    qk_config *config;
    cli_common common;
    const char *config_path;     /* as the options have it */
    const char *loaded_path;     /* as load_config, which comes first, found it */
    qk_index_list layers, heads; /* owned here; those of a config belong to it */
    qk_kinds kinds;              /* 0 = not given */
    bool combined;
    bool complement;
    int pairs;                                            /* 0 = not given */
    double ci;                                            /* NaN = not given */
    const char *b_axis, *variance, *convention, *buckets; /* NULL = not given */
    cli_option options[MAX_ANALYSIS_OPTIONS];
    size_t num_options;
} request;

static void add(request *r, const cli_option *options, size_t count)
{
    memcpy(r->options + r->num_options, options, count * sizeof *options);
    r->num_options += count;
}

#define ADD(r, options) add(r, options, sizeof(options) / sizeof *(options))

static void add_capture_options(request *r)
{
    qk_study_settings *s = &r->settings;
    const cli_option options[] = {
        {'o', "output", "DIR", "folder for the tables", OPTION_TEXT, &s->output, 0, 0},
        {0, "force", NULL, "replace whatever results DIR holds, also of another\ncapture",
         OPTION_FLAG, &s->force, 0, 0},
        {0, "config", "FILE", "settings in YAML; options given here override it", OPTION_TEXT,
         &r->config_path, 0, 0},
        {0, "model-name", "NAME", "name in the model column", OPTION_TEXT, &s->model_name, 0,
         0},
        {0, "revision", "REV", "of a cached dataset (default: main)", OPTION_TEXT, &s->revision,
         0, 0},
        {0, "split", "PREFIX", "sub-folder, when CAPTURE holds several captures", OPTION_TEXT,
         &s->prefix, 0, 0},
        {0, "layers", "LIST", "only these layers", OPTION_LIST, &r->layers, 0, 0},
        {0, "heads", "LIST", "only these query heads", OPTION_LIST, &r->heads, 0, 0},
        {0, "q-per-kv-group", "G",
         "query heads per key head (default: from\ncapture.json, else inferred)", OPTION_INT,
         &s->q_per_kv_group, 1, 65536},
        {0, "strict", NULL,
         "a group size that does not fit the heads, or\ncapture.json, is an error", OPTION_FLAG,
         &s->strict, 0, 0},
        {0, "allow-missing", NULL,
         "heads that are not there, and query heads without\ntheir key head, are left out",
         OPTION_FLAG, &s->allow_missing, 0, 0},
        {0, "max-samples", "N", "only the first N rows of each head", OPTION_INT64,
         &s->max_samples, 1, 1e15},
        {0, "sample-heads", "N", "N heads drawn as by random.Random(S).sample", OPTION_INT,
         &s->sample_heads, 1, 1e9},
        {0, "seed", "S", "of every draw (default: 0)", OPTION_INT64, &s->seed, 0, 0},
        {0, "ci", "PERCENT", "confidence intervals over examples, e.g. 95", OPTION_REAL, &r->ci,
         0, 0},
        {0, "ci-refit", NULL, "intervals include the choice of the axes", OPTION_FLAG,
         &s->ci_refit, 0, 0},
        {0, "threads", "N", "threads (default: all processors)", OPTION_INT, &s->threads, 1,
         4096},
    };
    ADD(r, options);
}

static void add_pca_options(request *r)
{
    qk_study_settings *s = &r->settings;
    const cli_option options[] = {
        {0, "components", "N", "principal components per head (default: 10)", OPTION_INT,
         &s->pca.components, 1, 4096},
        {0, "taxonomy-low", "R", "lower taxonomy threshold (default: 0.3)", OPTION_REAL,
         &s->pca.low, 0, 1},
        {0, "taxonomy-high", "R", "upper taxonomy threshold (default: 0.7)", OPTION_REAL,
         &s->pca.high, 0, 1},
        {0, "lda", NULL, "fill lda_accuracy in heads.csv (a second look at rows)", OPTION_FLAG,
         &s->lda, 0, 0},
    };
    ADD(r, options);
}

static void add_single_kind_options(request *r)
{
    qk_study_settings *s = &r->settings;
    const cli_option options[] = {
        {0, "kinds", "q,k", "fit queries (q), keys (k) or both, each by itself", OPTION_KINDS,
         &r->kinds, 0, 0},
        {0, "combined", NULL, "fit queries and keys together (the default\nwithout --config)",
         OPTION_FLAG, &r->combined, 0, 0},
        {0, "threshold", "R", "|r| counted as high in summary.json (default: 0.3)", OPTION_REAL,
         &s->correlation_threshold, 0, 1},
    };
    ADD(r, options);
}

static void add_rotation_options(request *r)
{
    const cli_option options[] = {
        {0, "b-axis", "WHICH",
         "pairs: largest query-key difference off the drift\n(default); centroid: difference "
         "of the means",
         OPTION_TEXT, &r->b_axis, 0, 0},
        {0, "complement", NULL,
         "complement.csv: the planes of what is left, and how\nthey turn", OPTION_FLAG,
         &r->complement, 0, 0},
        {0, "pairs", "N", "planes in complement.csv, which this asks for, too\n(default: 30)",
         OPTION_INT, &r->pairs, 1, 2048},
    };
    ADD(r, options);
}

static void add_plasticity_options(request *r)
{
    qk_plasticity_settings *p = &r->settings.plasticity;
    const cli_option options[] = {
        {0, "convention", "WHICH",
         "exact (default); published: orientation and sliding\nwindow as in the original tool",
         OPTION_TEXT, &r->convention, 0, 0},
        {0, "variance", "WHICH",
         "diag: residual variances of all queries (default);\nfull: covariance of each query "
         "bucket",
         OPTION_TEXT, &r->variance, 0, 0},
        {0, "max-pairs", "N", "pairs per cell; more are sampled (default: 65536;\n0: no limit)",
         OPTION_INT64, &p->max_pairs, 0, 1e15},
        {0, "buckets", "N",
         "N position buckets of equal width, or capture: those\nof the capture (default: these "
         "if there are at most\n32, else 32)",
         OPTION_TEXT, &r->buckets, 0, 0},
        {0, "bucket-width", "W", "tokens per bin of head_distance.csv (default:\nthe buckets')",
         OPTION_REAL, &p->bucket_width, 1e-3, 1e12},
        {0, "ks-alpha", "P", "level of q_noise_frac_ks_p_lt_alpha (default: 0.01)", OPTION_REAL,
         &p->ks_alpha, 0, 1},
    };
    ADD(r, options);
}

/* One of two words; false (and a message) for another. */
static bool choose(const request *r, const char *option, const char *text, const char *first,
                   const char *second, bool *is_second)
{
    *is_second = strcmp(text, second) == 0;
    if (*is_second || strcmp(text, first) == 0)
        return true;
    cli_error(r->analysis->command, "--%s %s: expected %s or %s", option, text, first, second);
    return false;
}

/* "capture", or a number of buckets; false (and a message) for anything else. */
static bool parse_buckets(const request *r, int *buckets)
{
    char *end;
    long count = strtol(r->buckets, &end, 10);
    bool is_number = r->buckets[0] >= '0' && r->buckets[0] <= '9' && *end == 0;
    *buckets = strcmp(r->buckets, "capture") == 0 ? QK_BUCKETS_CAPTURE : (int)count;
    if (*buckets == QK_BUCKETS_CAPTURE || (is_number && count >= 2 && count <= QK_MAX_BUCKETS))
        return true;
    cli_error(r->analysis->command, "--buckets %s: expected 2 to %d, or capture", r->buckets,
              QK_MAX_BUCKETS);
    return false;
}

/* Settings that take more than storing a number. */
static int apply(request *r)
{
    qk_study_settings *s = &r->settings;
    bool second;
    if (r->b_axis) {
        if (!choose(r, "b-axis", r->b_axis, "pairs", "centroid", &second))
            return EXIT_CODE_USAGE;
        s->rotation.b_axis = second ? QK_B_CENTROID : QK_B_PAIRS;
    }
    if (r->variance) {
        if (!choose(r, "variance", r->variance, "diag", "full", &second))
            return EXIT_CODE_USAGE;
        s->plasticity.variance = second ? QK_VARIANCE_FULL : QK_VARIANCE_DIAG;
    }
    if (r->convention) {
        if (!choose(r, "convention", r->convention, "exact", "published", &second))
            return EXIT_CODE_USAGE;
        s->plasticity.convention = second ? QK_CONVENTION_PUBLISHED : QK_CONVENTION_EXACT;
    }
    if (r->buckets && !parse_buckets(r, &s->buckets))
        return EXIT_CODE_USAGE;
    if (r->pairs)
        s->rotation.planes = r->pairs;
    else if (r->complement && s->rotation.planes == 0)
        s->rotation.planes = DEFAULT_PAIRS;
    if (!isnan(r->ci))
        s->ci = r->ci;
    if (r->layers.count)
        s->layers = r->layers;
    if (r->heads.count)
        s->heads = r->heads;
    if (r->kinds) {
        s->kinds = r->kinds;
        s->combined = false;
    }
    if (r->combined || r->analysis->analyses != QK_ANALYSE_PCA)
        s->combined = true;
    return -1;
}

static int check(const request *r)
{
    const qk_study_settings *s = &r->settings;
    const char *command = r->analysis->command;
    if (r->config_path != r->loaded_path) {
        cli_error(command, "give --config once, and write it in full");
        return EXIT_CODE_USAGE;
    }
    if (!s->capture || !s->output) {
        cli_error(command, !s->capture ? "which capture? Give a folder, or org/name of a "
                                         "dataset in the Hugging Face cache"
                                       : "where to? Give -o DIR");
        return EXIT_CODE_USAGE;
    }
    if (s->pca.low > s->pca.high) {
        cli_error(command, "--taxonomy-low %g is above --taxonomy-high %g", s->pca.low,
                  s->pca.high);
        return EXIT_CODE_USAGE;
    }
    if (r->ci <= 0 || r->ci > MAX_CI) {
        cli_error(command, "--ci %g: expected a percentage from 1 to below 100, e.g. 95",
                  r->ci);
        return EXIT_CODE_USAGE;
    }
    if (s->ci > 0 && s->ci < 1) {
        cli_error(command, "--ci %g is a percentage; did you mean %g?", s->ci, 100 * s->ci);
        return EXIT_CODE_USAGE;
    }
    if (s->ci_refit && !(s->ci > 0)) {
        cli_error(command, "--ci-refit changes intervals: give --ci, too");
        return EXIT_CODE_USAGE;
    }
    if (s->ci > 0 && !s->combined) {
        cli_error(command, "--ci needs queries and keys together: leave out --kinds");
        return EXIT_CODE_USAGE;
    }
    return -1;
}

static int parse(int argc, char **argv, request *r)
{
    unsigned analyses = r->analysis->analyses;
    add_capture_options(r);
    if (analyses & QK_ANALYSE_PCA)
        add_pca_options(r);
    if (analyses == QK_ANALYSE_PCA)
        add_single_kind_options(r);
    if (analyses & QK_ANALYSE_ROTATION)
        add_rotation_options(r);
    if (analyses & QK_ANALYSE_PLASTICITY)
        add_plasticity_options(r);
    const cli_syntax syntax = {.command = r->analysis->command,
                               .usage = "CAPTURE -o DIR [options]",
                               .description = r->analysis->description,
                               .options = r->options,
                               .num_options = r->num_options,
                               .common = &r->common,
                               .max_arguments = 1};
    int count;
    int code = cli_parse(&syntax, argc, argv, &r->settings.capture, &count);
    if (code < 0)
        code = apply(r);
    return code < 0 ? check(r) : code;
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
        cli_error(r->analysis->command, "%s", err.message);
        return status == QK_ERR_ARGUMENT ? EXIT_CODE_USAGE : EXIT_CODE_FAILURE;
    }
    r->settings = *qk_config_settings(r->config);
    return -1;
}

static int run(request *r)
{
    const char *command = r->analysis->command;
    cli_messages messages;
    qk_study_report *report;
    qk_error err;
    cli_messages_init(&messages, command, &r->common, "heads");
    for (size_t i = 0; r->config && i < qk_config_num_notes(r->config); i++)
        if (!r->common.quiet)
            cli_error(command, "note: %s", qk_config_note(r->config, i));
    r->settings.notice = cli_notice;
    r->settings.progress = cli_progress;
    r->settings.user = &messages;
    qk_status status = qk_study_run(&r->settings, &report, &err);
    cli_clear(&messages);
    if (status != QK_OK)
        cli_error(command, "%s", err.message);
    if (report && r->common.json)
        cli_print_outcome_json(&r->settings, report);
    else if (report && !r->common.quiet)
        cli_print_outcome(&r->settings, report);
    qk_study_report_free(&report);
    return cli_finish(command, cli_exit_code(status));
}

int cli_analyse(const cli_analysis *analysis, int argc, char **argv)
{
    request *r = calloc(1, sizeof *r);
    char *line = cli_command_line(analysis->command, argc, argv);
    if (!r) {
        free(line);
        cli_error(analysis->command, "out of memory");
        return EXIT_CODE_FAILURE;
    }
    r->analysis = analysis;
    r->ci = NAN;
    int code = load_config(argc, argv, r);
    if (code < 0)
        code = parse(argc, argv, r);
    if (code < 0) {
        r->settings.analyses = analysis->analyses;
        r->settings.command_line = line;
        code = run(r);
    }
    qk_index_list_free(&r->layers);
    qk_index_list_free(&r->heads);
    qk_config_free(&r->config);
    free(r);
    free(line);
    return code;
}
