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
     .help = "print a line for each head, too", .section = "Captures"},
    {"model", QK_SETTING_FLAG, QK_SETTING_AT(request, model),
     .help = "org/name is a model; not given: a dataset, or else a model", .section = "Input"},
    QK_SETTING_PART(request, settings, qk_inspect_settings_table),
    {"length", QK_SETTING_INTEGER, QK_SETTING_AT(request, run.length), .min = 1, .max = 1e12,
     .value = "N", .unit = "tokens", .help = "say what texts of N tokens cost",
     .unset = "as many as the model takes", .section = "Models"},
    {"texts", QK_SETTING_INTEGER, QK_SETTING_AT(request, run.texts), .min = 1, .max = 1e9,
     .number = 1, .value = "N", .unit = "texts", .help = "number of such texts",
     .section = "Models"},
    {"max-length", QK_SETTING_INTEGER, QK_SETTING_AT(request, run.max_length), .min = 1,
     .max = 1e9, .value = "N", .unit = "tokens",
     .help = "split texts into windows of N tokens, as capture does",
     .unset = "what the model was made for", .section = "Models"},
    {"rows", QK_SETTING_INTEGER, QK_SETTING_AT(request, run.rows), .min = 1, .max = 1e15,
     .value = "N", .unit = "rows", .help = "rows of each head and kind, as in capture",
     .unset = "8000", .section = "Models"},
    {"keep", QK_SETTING_TEXT, QK_SETTING_AT(request, run.keep), .value = "WHAT",
     .help =
         "say what a capture that keeps rows, moments, rows,moments, moments,reservoir=N or "
         "moments,first=K takes on disk",
     .unset = "not said", .section = "Models"},
    {"groups", QK_SETTING_INTEGER, QK_SETTING_AT(request, run.groups), .max = QK_MOST_GROUPS,
     .number = 16, .value = "N", .unit = "groups",
     .help = "moments of up to N groups of texts, 0 = all texts together", .section = "Models"},
    {"buckets", QK_SETTING_INTEGER, QK_SETTING_AT(request, run.buckets), .min = 1, .max = 1e6,
     .value = "N", .unit = "buckets", .help = "moments of queries in N buckets of positions",
     .unset = "as capture makes, up to 16", .section = "Models"},
    {"no-measure", QK_SETTING_FLAG, QK_SETTING_AT(request, run.no_measure),
     .help = "do not run the first layer to say how long a capture takes", .section = "Models"},
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

static json_t *column_json(const qk_parquet_column *column)
{
    return cli_object(CLI_ROWS(CLI_OF(column, path), CLI_ROW("type", type_name(column)),
                               CLI_OF(column, codec), CLI_ROW("values", column->num_values),
                               CLI_OF(column, compressed_bytes),
                               CLI_OF(column, uncompressed_bytes),
                               CLI_ROW("encodings", cli_encodings_json(column->encodings)),
                               CLI_ROW("nullable", (bool)(column->max_definition > 0)),
                               CLI_ROW("repeated", (bool)(column->max_repetition > 0)),
                               CLI_ROW_IF(column->has_range, "range",
                                          cli_range_json(true, column->min, column->max))));
}

static void print_columns(const qk_parquet *file)
{
    cli_print("\n%-28s %-10s %-13s %12s %12s %10s  %s\n", "column", "type", "codec", "values",
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

static void tell_file(const request *r, const qk_parquet *file)
{
    const char *writer = qk_parquet_created_by(file);
    json_t *columns = json_array();
    for (int i = 0; i < qk_parquet_num_columns(file); i++)
        json_array_append_new(columns, column_json(qk_parquet_column_at(file, i)));
    cli_tell(&r->common,
             "file        {file}\n"
             "rows        {rows} in {row_groups} row group{s}\n"
             "size        {bytes:kB}\n"
             "written by  {created_by}[(not recorded){created_by!}]\n",
             CLI_ROWS(CLI_ROW("file", r->settings.capture),
                      CLI_ROW("rows", qk_parquet_num_rows(file)),
                      CLI_ROW("row_groups", qk_parquet_num_row_groups(file)),
                      CLI_ROW("bytes", qk_parquet_file_bytes(file)),
                      CLI_ROW("created_by", writer), CLI_ROW("columns", columns)));
    if (!r->common.json && !r->common.quiet)
        print_columns(file);
}

static int inspect_file(const request *r)
{
    qk_parquet *file;
    qk_error err;
    if (qk_parquet_open(&file, r->settings.capture, &err) != QK_OK) {
        cli_error("%s", err.message);
        return EXIT_CODE_FAILURE;
    }
    tell_file(r, file);
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
                                        "groups", "buckets", "no-measure", NULL});
    cli_note_idle(call, "--keep moments", model && !keep.moments,
                  (const char *const[]){"groups", "buckets", NULL});
}

static void begin_request(request *r, cli_messages *messages)
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

/* A name does not say whether it is a dataset or a model. */
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

static int run_inspect(cli_call *call)
{
    request *r = call->request;
    const qk_inspect_settings *s = &r->settings;
    cli_messages messages;
    struct stat st;
    if (call->count == 0)
        return cli_usage("which capture? Give a folder, a Parquet file, or org/name of a "
                         "dataset or model on the Hugging Face Hub");
    r->settings.capture = call->arguments[0];
    begin_request(r, &messages);
    if (r->model || cli_is_model(s->capture, s->revision))
        return inspect_model(call, NULL);
    bool file = stat(s->capture, &st) == 0 && S_ISREG(st.st_mode);
    return file ? inspect_file(r) : inspect_capture(call, &messages);
}

const cli_command cmd_inspect = {
    .name = "inspect",
    .group = "Capture",
    .summary = "what a capture, a model or a Parquet file holds",
    .usage = "CAPTURE|MODEL|FILE.parquet [options]",
    .description =
        "Says what a capture holds: heads, group size, rows, dimension, positions, buckets, "
        "examples, sliding windows, what is kept in place of rows, and how the files store "
        "them. " CLI_CAPTURE_IS " Nothing is fetched: what is not in the cache is not looked "
        "at. For a single Parquet file it shows columns, encodings and sizes. Integer columns "
        "are read in full; vectors are not.\n\nFor a model (a folder with config.json, a GGUF "
        "file, or org/name) it shows the heads, RoPE and windows, what qkscope capture would "
        "keep, and what --texts texts of --length tokens cost; with --keep, what a capture of "
        "them takes on disk. config.json is enough for all of that. Where the weights are "
        "there, small captures of the first layer are made in TMPDIR and removed, which takes "
        "about five seconds, to say how long a capture takes; --no-measure leaves that out.",
    .usual =
        "heads model length texts max-length rows keep groups no-measure threads json help",
    .examples = "qkscope inspect examples/kjv-tiny-capture --heads\n"
                "qkscope inspect org/name --length 100000\n"
                "qkscope inspect org/name --length 1000000 --keep moments --groups 0\n"
                "qkscope inspect capture/l00h00q/data.parquet --json\n",
    .table = &TABLE,
    .max_arguments = 1,
    .run = run_inspect,
};
