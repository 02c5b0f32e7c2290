/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope capture (sniff-qk): from a model and texts to a capture. */
#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include <qkscope/record.h>

static const char COMMAND[] = "qkscope capture";

static const char DESCRIPTION[] =
    "Runs a model over texts and writes the queries and keys of its attention heads into DIR.\n"
    "MODEL is a folder with config.json, *.safetensors and tokenizer.json, a GGUF file, or\n"
    "org/name of a model in the Hugging Face cache. Each TEXT is a file (one text), a folder\n"
    "(all files below it), a .jsonl file (one text a line) or a .parquet file (one a row); a\n"
    "text has 256 MiB at most.\n\n"
    "A run that was stopped is gone on with by the same command. What it has done lies in\n"
    "DIR/.partial until the capture is complete.\n\n"
    "With --config, a YAML file of the original capture tool gives the settings, and options\n"
    "override it.";

typedef struct request {
    qk_record_settings settings;
    qk_record_config *config;
    const char *config_path, *loaded_path; /* see read_config */
    const char *sampler, *stage, *dtype, *long_texts;
    double rate;                 /* 0 = not given */
    int64_t rows;                /* 0 = not given */
    qk_index_list layers, heads; /* owned here; those of a config belong to it */
    cli_texts texts;
    bool no_compat;
    cli_common common;
} request;

/* Progress of a run that may begin in the middle. */
typedef struct progress {
    cli_messages messages; /* first: a notice gets this, too */
    double start, last;
    int64_t first; /* tokens of earlier runs; -1: not known yet */
} progress;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool is_drawn(const progress *p, double time)
{
    return time - p->last > 0.2 && !p->messages.common->quiet && isatty(STDERR_FILENO);
}

static void show_reading(progress *p, double time, int64_t texts)
{
    if (!is_drawn(p, time))
        return;
    cli_draw("\r\033[K%" PRId64 " text%s read", texts, cli_s(texts));
    p->messages.drawn = true;
    p->last = time;
}

static bool show_progress(void *user, int64_t tokens, int64_t total, int64_t texts)
{
    progress *p = user;
    double time = now();
    if (p->first < 0 && tokens >= 0) {
        p->first = tokens;
        p->start = time;
    }
    if (tokens < 0) {
        show_reading(p, time, texts);
        return cli_progress(&p->messages, 0, 0, 0);
    }
    double rate = (double)(tokens - p->first) / (time - p->start + 1e-9);
    if (tokens > p->first && is_drawn(p, time)) {
        cli_draw("\r\033[K%" PRId64 " texts, %" PRId64 " tokens, %.0f tokens/s", texts, tokens,
                 rate);
        if (total > tokens)
            cli_draw(", %.0f %%, %.0f s left", 100 * (double)tokens / (double)total,
                     (double)(total - tokens) / rate);
        p->messages.drawn = true;
        p->last = time;
    }
    return cli_progress(&p->messages, 0, 0, 0); /* draws nothing: was there an interrupt? */
}

/* ---- options ---------------------------------------------------------------------------- */

static bool choose(const char *option, const char *value, const char *const *names, int *index)
{
    if (!value)
        return true;
    for (int i = 0; names[i]; i++)
        if (strcmp(value, names[i]) == 0) {
            *index = i;
            return true;
        }
    cli_error(COMMAND, "--%s %s: expected %s, %s%s%s", option, value, names[0], names[1],
              names[2] ? " or " : "", names[2] ? names[2] : "");
    return false;
}

static bool fail_sampler(const char *message)
{
    cli_error(COMMAND, "%s", message);
    return false;
}

/* A rate is chosen from the texts if none is given, nor a sampler, whose rate is 1 then. */
static bool settle_sampler(request *r)
{
    qk_sampler *s = &r->settings.sampler;
    qk_sampler usual;
    qk_sampler_default(&usual);
    bool given = r->sampler || r->rate > 0;
    if (r->sampler && !qk_sampler_type_parse(r->sampler, &s->type)) {
        cli_error(COMMAND, "--sampler %s: expected log_uniform, uniform or all", r->sampler);
        return false;
    }
    if (r->rows > 0 && r->rate > 0)
        return fail_sampler("--rows chooses the rate: give --rows or --base-rate, not both");
    if (r->rows > 0 && s->type == QK_SAMPLER_ALL)
        return fail_sampler("--rows: the sampler \"all\" keeps every row; give uniform or "
                            "log_uniform, or leave out --rows");
    if (r->rows > 0) {
        r->settings.rows = r->rows;
        s->base_rate = 0;
    } else if (given && !r->config) {
        s->type = r->sampler ? s->type : usual.type;
        s->base_rate = usual.base_rate;
        if (s->min_bucket_size == 0)
            s->min_bucket_size = usual.min_bucket_size;
    }
    if (r->rate > 0)
        s->base_rate = r->rate;
    return true;
}

static int settle(request *r)
{
    static const char *const STAGES[] = {"post", "pre", "both", NULL};
    static const char *const DTYPES[] = {"f32", "bf16-sim", "f16-sim", NULL};
    static const char *const LONG[] = {"split", "cut", "skip", NULL};
    qk_record_settings *s = &r->settings;
    int stage = (int)s->stage;
    int dtype = (int)s->arithmetic;
    int long_texts = (int)s->long_texts;
    if (!choose("stage", r->stage, STAGES, &stage) ||
        !choose("dtype", r->dtype, DTYPES, &dtype) ||
        !choose("long", r->long_texts, LONG, &long_texts))
        return EXIT_CODE_USAGE;
    s->stage = (qk_rope_stage)stage;
    s->arithmetic = (qk_arithmetic)dtype;
    s->long_texts = (qk_long_texts)long_texts;
    if (!settle_sampler(r))
        return EXIT_CODE_USAGE;
    if (r->layers.count > 0)
        s->layers = r->layers;
    if (r->heads.count > 0)
        s->heads = r->heads;
    if (r->texts.count > 0) {
        s->texts = r->texts.items;
        s->num_texts = r->texts.count;
        s->dataset_name = s->dataset_split = NULL;
    }
    s->compat &= !r->no_compat;
    if (r->config_path != r->loaded_path)
        cli_error(COMMAND, "give --config once, and write it in full");
    else if (!s->model)
        cli_error(COMMAND, "which model? --model DIR");
    else if (s->num_texts == 0)
        cli_error(COMMAND, "which texts? --text FILE");
    else if (!s->output)
        cli_error(COMMAND, "where to? -o DIR");
    else
        return -1;
    return EXIT_CODE_USAGE;
}

static int parse(int argc, char **argv, request *r)
{
    qk_record_settings *s = &r->settings;
    const cli_option options[] = {
        {0, "config", "FILE", "settings in YAML, as the original tool has them", OPTION_TEXT,
         &r->config_path, 0, 0},
        {'m', "model", "MODEL", "the model", OPTION_TEXT, &s->model, 0, 0},
        {'t', "text", "TEXT", "file or folder of texts; several may follow", OPTION_TEXTS,
         &r->texts, 0, 0},
        {'o', "output", "DIR", "folder for the capture", OPTION_TEXT, &s->output, 0, 0},
        {0, "revision", "REV", "of a cached model (default: main)", OPTION_TEXT, &s->revision,
         0, 0},
        {0, "tokenizer", "FILE",
         "tokenizer.json or its folder, or a GGUF\nfile (default: the model's)", OPTION_TEXT,
         &s->tokenizer, 0, 0},
        {0, "model-name", "NAME", "name in capture.json and tables", OPTION_TEXT,
         &s->model_name, 0, 0},
        {0, "text-column", "NAME", "of .jsonl and .parquet (default: text)", OPTION_TEXT,
         &s->text_column, 0, 0},
        {0, "id-column", "NAME", "ids of texts (default: their numbers)", OPTION_TEXT,
         &s->id_column, 0, 0},
        {0, "max-texts", "N", "only the first N texts", OPTION_INT64, &s->max_examples, 1,
         1e15},
        {0, "max-length", "N",
         "tokens of a text at most (default: what the\nmodel was made for)", OPTION_INT64,
         &s->max_length, 1, 1e9},
        {0, "long", "WHAT",
         "longer texts: split (into windows, each an\nexample; default), cut or skip",
         OPTION_TEXT, &r->long_texts, 0, 0},
        {0, "rows", "N",
         "about so many rows of each head and kind: the\nsampler's rate is chosen before the "
         "run "
         "(default:\n8000, where no sampler is given)",
         OPTION_INT64, &r->rows, 1, 1e15},
        {0, "sampler", "NAME",
         "uniform (default), log_uniform or all; its rate\nis 1 unless --rows or --base-rate "
         "is given",
         OPTION_TEXT, &r->sampler, 0, 0},
        {0, "base-rate", "R",
         "in place of --rows: positions kept in a\nbucket (without --sampler: of "
         "log_uniform)",
         OPTION_REAL, &r->rate, 1e-9, 1e9},
        {0, "bucket", "N",
         "tokens in a bucket, or in the smallest\n(default: 128; where --rows chooses for\n"
         "uniform, 1/16 of the longest text)",
         OPTION_INT64, &s->sampler.min_bucket_size, 1, 1e12},
        {0, "max-rows", "N", "per text, layer and kind", OPTION_INT64, &s->sampler.max_rows, 1,
         1e15},
        {0, "layers", "LIST", "layers to keep", OPTION_LIST, &r->layers, 0, 0},
        {0, "heads", "LIST", "query heads to keep, and their key heads", OPTION_LIST, &r->heads,
         0, 0},
        {0, "kinds", "q,k", "queries, keys or both (default)", OPTION_KINDS, &s->kinds, 0, 0},
        {0, "sample-heads", "N", "draw N query heads", OPTION_INT, &s->sample_heads, 1, 1e9},
        {0, "seed", "S", "of that draw (default: 0)", OPTION_INT64, &s->head_seed, 0, 0},
        {0, "stage", "NAME", "post (after RoPE, default), pre or both", OPTION_TEXT, &r->stage,
         0, 0},
        {0, "full-attention-only", NULL, "no layers with sliding windows", OPTION_FLAG,
         &s->full_attention_only, 0, 0},
        {0, "compat", NULL, "choose heads as the original does (default\nwith --config)",
         OPTION_FLAG, &s->compat, 0, 0},
        {0, "no-compat", NULL, "not so", OPTION_FLAG, &r->no_compat, 0, 0},
        {0, "token-strings", NULL, "add the column token_str", OPTION_FLAG, &s->token_strings,
         0, 0},
        {0, "dtype", "NAME",
         "f32 (default); bf16-sim or f16-sim: rounded as\nin a bfloat16 or float16 run",
         OPTION_TEXT, &r->dtype, 0, 0},
        {0, "threads", "N", "threads (default: all processors)", OPTION_INT, &s->threads, 1,
         4096},
        {0, "tokens-at-once", "N",
         "texts are run together up to so many tokens\n(default: 8192)", OPTION_INT64,
         &s->tokens_at_once, 1, 1e9},
        {0, "force", NULL,
         "replace a capture or an unfinished run in DIR;\nthe old one stays until the new one "
         "is complete",
         OPTION_FLAG, &s->force, 0, 0},
    };
    const cli_syntax syntax = {.command = COMMAND,
                               .usage = "--model MODEL --text TEXT... -o DIR [options]",
                               .description = DESCRIPTION,
                               .options = options,
                               .num_options = sizeof options / sizeof *options,
                               .common = &r->common,
                               .max_arguments = argc};
    const char **rest = calloc((size_t)argc + 1, sizeof *rest);
    int count = 0;
    int code = rest ? cli_parse(&syntax, argc, argv, rest, &count) : EXIT_CODE_FAILURE;
    for (int i = 0; code < 0 && i < count; i++) /* the shell's *.txt */
        r->texts.items[r->texts.count++] = rest[i];
    free(rest);
    return code >= 0 ? code : settle(r);
}

static int read_config(int argc, char **argv, request *r)
{
    qk_error err;
    const char *path = cli_find_value(argc, argv, "config");
    r->loaded_path = path;
    if (!path)
        return -1;
    qk_status status = qk_record_config_load(&r->config, path, &err);
    if (status != QK_OK) {
        cli_error(COMMAND, "%s", err.message);
        return status == QK_ERR_ARGUMENT ? EXIT_CODE_USAGE : EXIT_CODE_FAILURE;
    }
    r->settings = *qk_record_config_settings(r->config);
    return -1;
}

static void print_notes(const request *r)
{
    for (size_t i = 0; r->config && i < qk_record_config_num_notes(r->config); i++)
        if (!r->common.quiet)
            cli_error(COMMAND, "note: %s", qk_record_config_note(r->config, i));
}

/* ---- the outcome ------------------------------------------------------------------------ */

static json_t *sampler_json(const qk_record_outcome *o)
{
    return json_pack("{s:s, s:f, s:I, s:o}", "type", qk_sampler_type_name(o->sampler.type),
                     "base_rate", o->sampler.base_rate, "bucket_size",
                     (json_int_t)qk_sampler_bucket_size(&o->sampler), "expected_rows",
                     o->expected_rows > 0 ? json_real(o->expected_rows) : json_null());
}

static void print_json(const request *r, const qk_record_outcome *o)
{
    double run = (double)(o->tokens - o->tokens_before);
    cli_json_print(json_pack(
        "{s:o, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:o}",
        "output", cli_json_text(r->settings.output), "complete_already", o->complete_already,
        "texts", (json_int_t)o->texts, "windows", (json_int_t)o->windows, "tokens",
        (json_int_t)o->tokens, "texts_before", (json_int_t)o->texts_before, "split",
        (json_int_t)o->split, "truncated", (json_int_t)o->cut, "skipped",
        (json_int_t)o->skipped, "empty", (json_int_t)o->empty, "heads", (json_int_t)o->heads,
        "rows", (json_int_t)o->rows, "bytes", (json_int_t)o->bytes, "seconds_running",
        o->seconds_running, "seconds_writing", o->seconds_writing, "tokens_per_second",
        o->seconds_running > 0 ? run / o->seconds_running : 0.0, "sampler",
        o->complete_already ? json_null() : sampler_json(o)));
}

/* For a shell. */
static void print_next(const request *r)
{
    const char *stage = r->settings.stage == QK_ROPE_BOTH ? "/post" : "";
    size_t size = strlen(r->settings.output) + strlen(stage) + 1;
    char *folder = malloc(size);
    char *line = NULL;
    char empty[] = "", option[] = "-o", results[] = "results";
    if (folder) {
        snprintf(folder, size, "%s%s", r->settings.output, stage);
        line =
            cli_command_line("qkscope analyze", 4, (char *[]){empty, folder, option, results});
    }
    if (line)
        cli_print("Next: %s\n", line);
    free(line);
    free(folder);
}

static void print_outcome(const request *r, const qk_record_outcome *o)
{
    if (o->complete_already) {
        cli_print("%s is complete already: nothing to do\n", r->settings.output);
        return;
    }
    cli_print("%" PRId64 " text%s", o->texts, cli_s(o->texts));
    if (o->windows != o->texts)
        cli_print(" in %" PRId64 " window%s", o->windows, cli_s(o->windows));
    cli_print(", %" PRId64 " token%s", o->tokens, cli_s(o->tokens));
    if (o->texts_before > 0)
        cli_print(" (%" PRId64 " text%s by an earlier run)", o->texts_before,
                  cli_s(o->texts_before));
    if (o->seconds_running > 0)
        cli_print(", %.0f tokens/s",
                  (double)(o->tokens - o->tokens_before) / o->seconds_running);
    cli_print("\n%" PRId64 " row%s of %zu head%s%s, %.1f MB, in %s\n", o->rows, cli_s(o->rows),
              o->heads, cli_s((int64_t)o->heads),
              r->settings.stage == QK_ROPE_BOTH ? " twice, before and after RoPE" : "",
              (double)o->bytes / 1e6, r->settings.output);
    if (o->expected_rows > 0)
        cli_print(
            "%s %.0f row%s of each head and kind: %s, rate %g, buckets of %" PRId64 " tokens\n",
            o->expected_rows < (double)o->tokens ? "About" : "All", o->expected_rows,
            cli_s((int64_t)(o->expected_rows + 0.5)), qk_sampler_type_name(o->sampler.type),
            o->sampler.base_rate, qk_sampler_bucket_size(&o->sampler));
    print_next(r);
}

/* What a run settles before hours of work is told without being asked for. */
static void show_notice(void *user, qk_notice_level level, const char *message)
{
    progress *p = user;
    if (level != QK_NOTICE_INFO) {
        cli_notice(user, level, message);
    } else if (!p->messages.common->quiet) {
        cli_clear(&p->messages);
        cli_error(COMMAND, "%s", message);
    }
}

static int capture(request *r)
{
    progress p = {.first = -1};
    qk_record_outcome outcome;
    qk_error err;
    print_notes(r);
    cli_messages_init(&p.messages, COMMAND, &r->common, "tokens");
    r->settings.notice = show_notice;
    r->settings.progress = show_progress;
    r->settings.user = &p;
    qk_status status = qk_record_run(&r->settings, &outcome, &err);
    cli_clear(&p.messages);
    if (status != QK_OK)
        cli_error(COMMAND, "%s", err.message);
    else if (r->common.json)
        print_json(r, &outcome);
    else if (!r->common.quiet)
        print_outcome(r, &outcome);
    return status == QK_ERR_ARGUMENT ? EXIT_CODE_USAGE : cli_exit_code(status);
}

int cmd_capture(int argc, char **argv)
{
    request r = {0};
    qk_record_settings_default(&r.settings);
    r.texts.items = calloc((size_t)argc + 1, sizeof *r.texts.items);
    int code = r.texts.items ? read_config(argc, argv, &r) : EXIT_CODE_FAILURE;
    if (code < 0)
        code = parse(argc, argv, &r);
    if (code < 0)
        code = capture(&r);
    qk_record_config_free(&r.config);
    qk_index_list_free(&r.layers);
    qk_index_list_free(&r.heads);
    free(r.texts.items);
    return cli_finish(COMMAND, code);
}
