/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope capture (sniff-qk): from a model and texts to a capture. */
#include "tell.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <qkscope/recorder.h>

typedef struct request {
    cli_common common;
    qk_recorder_settings settings;
    qk_recorder_config *config;
} request;

static const qk_setting ROWS[] = {
    QK_SETTING_PART(request, settings, qk_recorder_settings_table),
    CLI_SHARD(request, NULL),
    CLI_CONFIG(request, "settings in YAML, as for the original tool"),
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

/* ---- options ---------------------------------------------------------------------------- */

static int settle_capture(const cli_call *call)
{
    request *r = call->request;
    qk_recorder_settings *s = &r->settings;
    qk_error err;
    if (qk_recorder_settle_sampler(call->settings, r->config != NULL, s, &err) != QK_OK)
        return cli_usage("%s", err.message);
    for (int i = 0; i < call->count; i++) /* the shell's *.txt */
        if (qk_settings_set(call->settings, "text", call->arguments[i], &err) != QK_OK)
            return cli_usage("'%s': %s", call->arguments[i], err.message);
    if (cli_given(call, "text"))
        s->dataset_name = s->dataset_split = NULL;
    if (!s->model)
        return cli_usage("which model? --model DIR");
    if (s->num_texts == 0)
        return cli_usage("which texts? --text FILE");
    if (!s->output)
        return cli_usage("where to? -o DIR");
    return -1;
}

static qk_status load_capture_config(void *of, qk_error *err)
{
    request *r = of;
    qk_status status = qk_recorder_config_load(&r->config, r->common.config, err);
    if (status != QK_OK)
        return status;
    r->settings = *qk_recorder_config_settings(r->config);
    return QK_OK;
}

static void release_capture(void *of)
{
    qk_recorder_config_free(&((request *)of)->config);
}

static void print_notes(const request *r)
{
    for (size_t i = 0; r->config && i < qk_recorder_config_num_notes(r->config); i++)
        if (!r->common.quiet)
            cli_error("note: %s", qk_recorder_config_note(r->config, i));
}

/* Notes the options of what is not kept. */
static void note_idle(const cli_call *call)
{
    const request *r = call->request;
    qk_keep keep = {.rows = true, .attention = true};
    if (r->settings.keep && qk_keep_parse(r->settings.keep, &keep, NULL) != QK_OK)
        return; /* the run says so */
    bool rows = keep.rows || keep.reservoir > 0;
    cli_note_idle(call, "sums (--keep moments, or attention)", !keep.moments && !keep.attention,
                  (const char *const[]){"groups", NULL});
    cli_note_idle(call, "rows (--keep rows, or moments,reservoir=N)", !rows,
                  (const char *const[]){"token-strings", "layout", NULL});
}

/* ---- the outcome ------------------------------------------------------------------------ */

static json_t *sampler_json(const qk_recorder_outcome *o)
{
    return cli_object(
        CLI_ROWS(CLI_ROW("type", qk_sampler_type_name(o->sampler.type)),
                 CLI_ROW("base_rate", o->sampler.base_rate),
                 CLI_ROW("bucket_size", qk_sampler_bucket_size(&o->sampler)),
                 CLI_ROW_OR_NULL(o->expected_rows > 0, "expected_rows", o->expected_rows)));
}

/* A folder for results that does not exist yet, so that nothing has to be replaced: "results", else the capture's name
 * with an ending. */
static void name_results(const char *output, char *name, size_t size)
{
    size_t length = strlen(output);
    while (length > 1 && output[length - 1] == '/')
        length--;
    snprintf(name, size, "results");
    for (int i = 1; access(name, F_OK) == 0 && i < 1000; i++)
        if (i == 1)
            snprintf(name, size, "%.*s-results", (int)length, output);
        else
            snprintf(name, size, "%.*s-results-%d", (int)length, output, i);
}

/* "PREFIX COMMAND FOLDER -o RESULTS", for a shell. */
static void print_command(const char *prefix, const char *command, const char *output,
                          const char *stage)
{
    size_t size = strlen(output) + sizeof "-results-9999" + strlen(stage);
    char *folder = malloc(size), *results = malloc(size);
    char *line = NULL;
    char option[] = "-o";
    if (folder && results) {
        snprintf(folder, size, "%s%s", output, stage);
        name_results(output, results, size);
        line = cli_words(command, 3, (char *[]){folder, option, results});
    }
    if (line)
        cli_print("%s%s\n", prefix, line);
    free(line);
    free(results);
    free(folder);
}

static void print_next(const request *r)
{
    bool both = r->settings.stage == QK_ROPE_BOTH;
    const char *command = r->settings.kinds == QK_KINDS_BOTH ? "qkscope analyze"
                          : r->settings.kinds == QK_KINDS_Q  ? "qkscope pca --kinds q"
                                                             : "qkscope pca --kinds k";
    print_command("Next: ", command, r->settings.output, both ? "/post" : "");
    if (both)
        print_command("and:  ", "qkscope compare-stages", r->settings.output, "");
}

/* What this process did; others have to do the rest. */
static void print_unfinished(const request *r, const qk_recorder_outcome *o)
{
    cli_error("%" PRId64 " of %" PRId64
              " blocks of texts are there; the process that makes the "
              "last one puts the capture together in %s",
              o->blocks_there, o->blocks, r->settings.output);
}

static void print_sampler(const qk_recorder_outcome *o)
{
    const qk_sampler *s = &o->sampler;
    if (s->type == QK_SAMPLER_ALL)
        cli_print("All positions");
    else if (o->expected_rows > 0)
        cli_print("%s %.0f row%s of each head and kind",
                  o->expected_rows < (double)o->tokens ? "About" : "All", o->expected_rows,
                  cli_s((int64_t)(o->expected_rows + 0.5)));
    else
        cli_print("Positions");
    if (s->type != QK_SAMPLER_ALL)
        cli_print(": %s, rate %g", qk_sampler_type_name(s->type), s->base_rate);
    cli_print(", %sbuckets of %" PRId64 " tokens\n",
              s->type == QK_SAMPLER_LOG_UNIFORM ? "smallest " : "", qk_sampler_bucket_size(s));
}

/* What is said of a capture that this process has not made. */
static bool print_other(const request *r, const qk_recorder_outcome *o)
{
    if (!o->complete)
        print_unfinished(r, o);
    else if (o->complete_already)
        cli_print("%s is complete already: nothing to do\n", r->settings.output);
    else if (o->heads == 0)
        cli_print("%s is complete: another process has put it together\n", r->settings.output);
    return !o->complete || o->complete_already || o->heads == 0;
}

static void tell_outcome(const request *r, const qk_recorder_outcome *o)
{
    bool text = !r->common.json && !r->common.quiet;
    double run = (double)(o->tokens - o->tokens_before), seconds = o->seconds_running;
    if (text && print_other(r, o))
        return;
    cli_tell(
        &r->common,
        "{texts} text{s}[{in_windows?} in {windows} window{s}], {tokens} token{s}"
        "[ ({texts_before} text{s} by an earlier run)][{seconds_running?}, "
        "{tokens_per_second:.0f} tokens/s]\n"
        "[{rows} row{s}][{rows?} and {summed?}][sums of {summed} row{s}] of {heads} head{s}"
        "[{twice?} twice, before and after RoPE], {bytes:MB}, in {output}\n",
        CLI_ROWS(CLI_ROW("output", r->settings.output), CLI_OF(o, complete), CLI_OF(o, blocks),
                 CLI_OF(o, blocks_there), CLI_OF(o, complete_already), CLI_OF(o, texts),
                 CLI_OF(o, windows), CLI_OF(o, tokens), CLI_OF(o, texts_before),
                 CLI_OF(o, split), CLI_ROW("truncated", o->cut), CLI_OF(o, skipped),
                 CLI_OF(o, empty), CLI_OF(o, heads), CLI_OF(o, rows), CLI_OF(o, summed),
                 CLI_OF(o, bytes), CLI_OF(o, seconds_running), CLI_OF(o, seconds_writing),
                 CLI_ROW("tokens_per_second", seconds > 0 ? run / seconds : 0.0),
                 CLI_ROW("sampler", o->complete_already ? json_null() : sampler_json(o)),
                 CLI_SAY("in_windows", o->windows != o->texts),
                 CLI_SAY("twice", r->settings.stage == QK_ROPE_BOTH)));
    if (text) {
        print_sampler(o);
        print_next(r);
    }
}

/* What a run decides before hours of work is told without --verbose. */
static void show_notice(void *user, qk_notice_level level, const char *message)
{
    cli_messages *messages = user;
    if (level != QK_NOTICE_INFO) {
        cli_notice(user, level, message);
    } else if (!messages->common->quiet) {
        cli_clear(messages);
        cli_error("%s", message);
    }
}

static int capture(request *r)
{
    cli_messages messages;
    qk_recorder_outcome outcome;
    qk_error err;
    if (cli_is_first())
        print_notes(r);
    cli_messages_init(&messages, &r->common, &r->settings.context);
    r->settings.context.notice = show_notice;
    qk_status status = qk_recorder_run(&r->settings, &outcome, &err);
    cli_messages_end(&messages, status, &err);
    if (status == QK_OK)
        tell_outcome(r, &outcome);
    return cli_settings_code(status);
}

static int run_capture(cli_call *call)
{
    request *r = call->request;
    int code = settle_capture(call);
    if (code < 0)
        code = cli_find_shard(call, &r->settings.shard);
    if (code >= 0)
        return code;
    note_idle(call);
    return capture(r);
}

const cli_command cmd_capture = {
    .name = "capture",
    .group = "Capture",
    .summary = "queries and keys of a model over texts",
    .usage = "--model MODEL --text TEXT... -o DIR [options]",
    .description =
        "Runs a model over texts and writes the queries and keys of its attention heads into "
        "DIR: about 8,000 rows of each head, or --rows.\n\nMODEL is a folder with config.json, "
        "*.safetensors and tokenizer.json, a GGUF file, or org/name of a model on the Hugging "
        "Face Hub.\n\nTEXT is a file (one text), a .jsonl file (one text a line; .json also a "
        "list), a .parquet, .csv or .tsv file (one text a row), or a folder of such files, or "
        "org/texts, a dataset of texts on the Hub. repeat:64x4:8:1 makes 8 texts: 64 random "
        "tokens repeated four times, drawn with seed 1. They show heads that look for earlier "
        "copies.\n\nThe same command continues a run that was stopped.",
    .usual = "output force model text max-texts max-length long rows sampler layers heads "
             "stage threads quiet json help",
    .examples = "qkscope capture -m examples/kjv-tiny/step-2004 -t "
                "examples/kjv-tiny/passages.jsonl -o capture\n"
                "qkscope capture -m org/name -t texts/*.txt -o capture --rows 20000\n"
                "qkscope capture -m org/name -t repeat:256x4 -o probe --sampler all\n"
                "qkscope capture --config capture.yaml -o capture\n",
    .table = &TABLE,
    .max_arguments = -1,
    .load = load_capture_config,
    .run = run_capture,
    .release = release_capture,
};
