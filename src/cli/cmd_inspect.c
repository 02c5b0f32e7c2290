/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope inspect: what a capture, a model or a Parquet file holds. */
#include "cli.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include <qkscope/capture.h>
#include <qkscope/hub.h>
#include <qkscope/sink.h>

#include "inspect_capture.h"
#include "inspect_model.h"

typedef struct request {
    cli_common common;
    qk_inspect_settings settings;
    bool heads, model;
    cli_inspect_run run;
} request;

static const qk_setting ROWS[] = {
    {"heads", QK_SETTING_FLAG, QK_SETTING_AT(request, heads),
     .help = "print a line for each head, too", .section = "Of a capture"},
    {"model", QK_SETTING_FLAG, QK_SETTING_AT(request, model),
     .help = "org/name is a model; not given: a dataset, or else a model", .section = "Input"},
    QK_SETTING_PART(request, settings, qk_inspect_settings_table),
    {"length", QK_SETTING_INTEGER, QK_SETTING_AT(request, run.length), .min = 1, .max = 1e12,
     .value = "N", .unit = "tokens", .help = "say what texts of N tokens cost",
     .unset = "as many as the model takes", .section = "Of a model"},
    {"texts", QK_SETTING_INTEGER, QK_SETTING_AT(request, run.texts), .min = 1, .max = 1e9,
     .number = 1, .value = "N", .unit = "texts", .help = "so many of them",
     .section = "Of a model"},
    {"max-length", QK_SETTING_INTEGER, QK_SETTING_AT(request, run.max_length), .min = 1,
     .max = 1e9, .value = "N", .unit = "tokens",
     .help = "split texts into windows of N tokens, as capture does",
     .unset = "what the model was made for", .section = "Of a model"},
    {"rows", QK_SETTING_INTEGER, QK_SETTING_AT(request, run.rows), .min = 1, .max = 1e15,
     .value = "N", .unit = "rows", .help = "rows of each head and kind, as in capture",
     .unset = "8000", .section = "Of a model"},
    {"keep", QK_SETTING_TEXT, QK_SETTING_AT(request, run.keep), .value = "WHAT",
     .help = "say what a capture takes on disk that keeps rows, moments, rows,moments or "
             "moments,reservoir=N",
     .unset = "not said", .section = "Of a model"},
    {"groups", QK_SETTING_INTEGER, QK_SETTING_AT(request, run.groups), .max = QK_MOST_GROUPS,
     .number = 16, .value = "N", .unit = "groups",
     .help = "moments of N groups of texts, 0 = all texts together", .section = "Of a model"},
    {"buckets", QK_SETTING_INTEGER, QK_SETTING_AT(request, run.buckets), .min = 1, .max = 1e6,
     .number = 16, .value = "N", .unit = "buckets",
     .help = "moments of queries in N buckets of positions", .section = "Of a model"},
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

/* ---- one Parquet file ------------------------------------------------------------------- */

static const char *type_name(const qk_parquet_column *column)
{
    static const char *const NAMES[] = {"BOOLEAN", "INT32",  "INT64",      "INT96",
                                        "FLOAT",   "DOUBLE", "BYTE_ARRAY", "FIXED"};
    return column->logical == QK_PARQUET_STRING    ? "STRING"
           : column->logical == QK_PARQUET_FLOAT16 ? "FLOAT16"
           : column->logical == QK_PARQUET_NULL    ? "NULL"
           : (unsigned)column->type <= 7           ? NAMES[column->type]
                                                   : "unknown";
}

static void print_file(const qk_parquet *file, const char *path)
{
    const char *writer = qk_parquet_created_by(file);
    cli_print_line("file", path, "");
    cli_print("%-12s%" PRId64 " in %d row group%s\n", "rows", qk_parquet_num_rows(file),
              qk_parquet_num_row_groups(file), cli_s(qk_parquet_num_row_groups(file)));
    cli_print("%-12s%.1f kB\n", "size", (double)qk_parquet_file_bytes(file) / 1e3);
    cli_print_line("written by", *writer ? writer : "(not recorded)", "");
    putchar('\n');
    cli_print("%-28s %-10s %-13s %12s %12s %10s  %s\n", "column", "type", "codec", "values",
              "kB stored", "kB plain", "encodings");
    for (int i = 0; i < qk_parquet_num_columns(file); i++) {
        const qk_parquet_column *column = qk_parquet_column_at(file, i);
        cli_print("%-28s %-10s %-13s %12" PRId64 " %12.1f %10.1f ", column->path,
                  type_name(column), column->codec, column->num_values,
                  (double)column->compressed_bytes / 1e3,
                  (double)column->uncompressed_bytes / 1e3);
        cli_print_encodings(column->encodings);
        if (column->has_range)
            cli_print(", %" PRId64 " to %" PRId64, column->min, column->max);
        putchar('\n');
    }
}

static void print_file_json(const qk_parquet *file, const char *path)
{
    json_t *columns = json_array();
    for (int i = 0; i < qk_parquet_num_columns(file); i++) {
        const qk_parquet_column *column = qk_parquet_column_at(file, i);
        json_array_append_new(
            columns,
            json_pack("{s:o, s:s, s:s, s:I, s:I, s:I, s:o, s:b, s:b, s:o*}", "path",
                      cli_json_text(column->path), "type", type_name(column), "codec",
                      column->codec, "values", (json_int_t)column->num_values,
                      "compressed_bytes", (json_int_t)column->compressed_bytes,
                      "uncompressed_bytes", (json_int_t)column->uncompressed_bytes, "encodings",
                      cli_encodings_json(column->encodings), "nullable",
                      column->max_definition > 0, "repeated", column->max_repetition > 0,
                      "range", cli_range_json(column->has_range, column->min, column->max)));
    }
    cli_json_print(json_pack("{s:o, s:I, s:i, s:I, s:o, s:o}", "file", cli_json_text(path),
                             "rows", (json_int_t)qk_parquet_num_rows(file), "row_groups",
                             qk_parquet_num_row_groups(file), "bytes",
                             (json_int_t)qk_parquet_file_bytes(file), "created_by",
                             cli_json_text(qk_parquet_created_by(file)), "columns", columns));
}

static int inspect_file(const request *r)
{
    qk_parquet *file;
    qk_error err;
    const char *path = r->settings.capture;
    if (qk_parquet_open(&file, path, &err) != QK_OK) {
        cli_error("%s", err.message);
        return EXIT_CODE_FAILURE;
    }
    if (r->common.json)
        print_file_json(file, path);
    else if (!r->common.quiet)
        print_file(file, path);
    qk_parquet_close(&file);
    return EXIT_CODE_OK;
}

/* ---- the command ------------------------------------------------------------------------ */

static void note_idle(const cli_call *call, bool model)
{
    const request *r = call->request;
    qk_keep keep = {.rows = true};
    if (r->run.keep && qk_keep_parse(r->run.keep, &keep, NULL) != QK_OK)
        return; /* said below */
    cli_note_idle(call, "a capture", model,
                  (const char *const[]){"heads", "split", "q-per-kv-group", NULL});
    cli_note_idle(call, "a model", !model,
                  (const char *const[]){"length", "texts", "max-length", "rows", "keep",
                                        "groups", "buckets", NULL});
    cli_note_idle(call, "--keep moments", model && !keep.moments,
                  (const char *const[]){"groups", "buckets", NULL});
}

static void begin(request *r, cli_messages *messages)
{
    cli_messages_init(messages, &r->common, &r->settings.context);
    messages->of = r->settings.capture;
}

static int inspect_model(cli_call *call, const qk_error *otherwise)
{
    request *r = call->request;
    note_idle(call, true);
    return cli_inspect_model(&r->settings, &r->run, &r->common, otherwise);
}

/* The name alone does not tell a dataset from a model. */
static int inspect_capture(cli_call *call, cli_messages *messages)
{
    const request *r = call->request;
    qk_inspection *in;
    qk_error err;
    qk_status status = qk_inspect_capture(&r->settings, &in, &err);
    cli_clear(messages);
    if (status == QK_ERR_NOT_FOUND && qk_hub_is_remote(r->settings.capture))
        return inspect_model(call, &err);
    if (status != QK_OK) {
        cli_error("%s", err.message);
        return EXIT_CODE_FAILURE;
    }
    note_idle(call, false);
    int code = cli_print_capture(in, &r->common, r->heads);
    qk_inspection_free(&in);
    return code;
}

static int run(cli_call *call)
{
    request *r = call->request;
    const qk_inspect_settings *s = &r->settings;
    cli_messages messages;
    struct stat st;
    if (call->count == 0)
        return cli_usage("which capture? Give a folder, a Parquet file, or org/name of a "
                         "dataset or model on the Hugging Face Hub");
    r->settings.capture = call->arguments[0];
    begin(r, &messages);
    if (r->model || cli_is_model(s->capture, s->revision))
        return inspect_model(call, NULL);
    bool file = stat(s->capture, &st) == 0 && S_ISREG(st.st_mode);
    return file ? inspect_file(r) : inspect_capture(call, &messages);
}

const cli_command cmd_inspect = {
    .name = "inspect",
    .group = "Look",
    .summary = "what a capture, a model or a Parquet file holds",
    .usage = "CAPTURE|MODEL|FILE.parquet [options]",
    .description =
        "Says what a capture holds: heads, group size, rows, dimension, positions, buckets, "
        "examples, sliding windows, what is kept in place of rows, and how the files store "
        "them. " CLI_CAPTURE_IS " What of it is not in the cache is not fetched: footers are "
        "looked at by ranges, a request "
        "for each file, and tell all but the number of examples and which buckets there are. "
        "Of a single Parquet file it shows columns, encodings and sizes. Integer columns are "
        "read in full; vectors are not.\n\nOf a model (a folder with config.json, a GGUF file, "
        "or org/name) it shows the heads, RoPE and windows, what qkscope capture would keep, "
        "and what --texts texts of --length tokens cost; with --keep, what a capture of them "
        "takes on disk. config.json is enough for all of that.",
    .examples = "qkscope inspect examples/kjv-tiny-capture --heads\n"
                "qkscope inspect org/name --length 100000\n"
                "qkscope inspect org/name --length 1000000 --keep moments --groups 0\n"
                "qkscope inspect capture/l00h00q/data.parquet --json\n",
    .table = &TABLE,
    .max_arguments = 1,
    .run = run,
};
