/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope inspect: what a capture, a model or a Parquet file holds. */
#include "cli.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include <qkscope/capture.h>
#include <qkscope/sink.h>

#include "inspect_model.h"

static const char *const SOURCES[] = {"given", "from capture.json", "inferred"};

/* Values of a list are printed up to this many. */
enum { MAX_VALUES = 12 };

typedef struct request {
    cli_common common;
    qk_inspect_settings settings;
    bool heads;
    cli_inspect_run run;
} request;

static const qk_setting ROWS[] = {
    {"heads", QK_SETTING_FLAG, QK_SETTING_AT(request, heads),
     .help = "print a line for each head, too", .section = "Of a capture"},
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

static void print_line(const char *label, const char *text, const char *rest)
{
    cli_print("%-12s%s%s\n", label, text, rest);
}

/* ---- a capture -------------------------------------------------------------------------- */

static size_t count_kind(const qk_inspection *in, qk_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < in->num_heads; i++)
        count += in->heads[i].id.kind == kind;
    return count;
}

/* Heads are sorted by layer. */
static size_t count_layers(const qk_inspection *in)
{
    size_t count = 0;
    for (size_t i = 0; i < in->num_heads; i++)
        count += i == 0 || in->heads[i].id.layer != in->heads[i - 1].id.layer;
    return count;
}

static void print_values(const char *label, const qk_values *values)
{
    cli_print("%-12s", label);
    if (values->count == 0)
        cli_print("none");
    else if (values->count > MAX_VALUES)
        cli_print("%zu, from %" PRId64 " to %" PRId64, values->count, values->items[0],
                  values->items[values->count - 1]);
    for (size_t i = 0; values->count <= MAX_VALUES && i < values->count; i++)
        cli_print("%s%" PRId64, i ? ", " : "", values->items[i]);
    putchar('\n');
}

static void print_encodings(uint32_t encodings)
{
    for (int e = 0; e < 32; e++)
        if (encodings >> e & 1)
            cli_print(" %s", qk_parquet_encoding_name(e));
}

static void print_windows(const qk_inspection *in)
{
    size_t windowed = 0;
    for (size_t i = 0; i < in->num_heads; i++) {
        const qk_values *windows = &in->heads[i].windows;
        windowed += windows->count > 0 && windows->items[windows->count - 1] > 0;
    }
    if (windowed == 0) {
        cli_print("%-12snone: full attention\n", "windows");
        return;
    }
    print_values("windows", &in->windows);
    cli_print("%-12sin %zu of %zu heads (0 = full attention)\n", "", windowed, in->num_heads);
}

static void print_group(const qk_inspection *in)
{
    cli_print("%-12s", "group size");
    if (!in->has_group) {
        cli_print("unknown: %s\n", in->group_message);
        return;
    }
    cli_print("%d query head%s per key head (%s", in->group.size, cli_s(in->group.size),
              SOURCES[in->group.source]);
    if (!in->group.consistent && in->group.alternative)
        cli_print("; does not fit the heads present, %d does", in->group.alternative);
    else if (!in->group.consistent)
        cli_print("; does not fit the heads present");
    else if (in->group.source == QK_GROUP_INFERRED && in->group.num_consistent > 1)
        cli_print("; the smallest of %d that fit", in->group.num_consistent);
    cli_print(")\n");
}

/* Codec and encodings of the vectors, of all heads together. */
static void print_storage(const qk_inspection *in)
{
    uint32_t encodings = 0;
    const char *codec = "";
    const char *writer = "";
    bool several = false;
    for (size_t i = 0; i < in->num_heads; i++) {
        const qk_head_inspection *head = &in->heads[i];
        if (head->status != QK_OK || head->files == 0)
            continue;
        encodings |= head->encodings;
        codec = *codec && strcmp(codec, head->codec) != 0 ? "mixed codecs" : head->codec;
        several |= *writer && strcmp(writer, head->created_by) != 0;
        writer = head->created_by;
    }
    cli_print("%-12s%zu file%s%s, %.1f MB, %s:", "storage", in->num_files,
              cli_s((int64_t)in->num_files), in->packed ? " (packed)" : "",
              (double)in->bytes / 1e6, codec);
    print_encodings(encodings);
    putchar('\n');
    print_line("written by", *writer ? writer : "(not recorded)", several ? " and others" : "");
}

static void print_heads(const qk_inspection *in)
{
    cli_print("\n%-10s %9s %5s %10s %10s %8s %8s %9s  %s\n", "head", "rows", "d", "first pos",
              "last pos", "buckets", "examples", "kB", "vectors");
    for (size_t i = 0; i < in->num_heads; i++) {
        const qk_head_inspection *head = &in->heads[i];
        char name[QK_HEAD_NAME_SIZE];
        qk_head_name(head->id, name);
        if (head->status != QK_OK)
            cli_print("%-10s %s\n", name, qk_status_text(head->status));
        else
            cli_print(
                "%-10s %9" PRId64 " %5zu %10" PRId64 " %10" PRId64 " %8zu %8zu %9.1f  %s%s\n",
                name, head->rows > 0 ? head->rows : head->summed, head->dim, head->position_min,
                head->position_max, head->buckets.count, head->examples.count,
                (double)head->bytes / 1e3, head->codec, head->wide ? ", float64" : "");
    }
}

/* What there is in the place of rows, or besides them. */
static void print_kept(const qk_inspection *in)
{
    static const char *const ROWS_KEPT[] = {[QK_ROWS_ALL] = "all rows",
                                            [QK_ROWS_NONE] = "no rows",
                                            [QK_ROWS_RESERVOIR] = "a reservoir of rows"};
    if (!in->has_moments && in->kept == QK_ROWS_ALL)
        return;
    cli_print("%-12s%s", "kept", ROWS_KEPT[in->kept]);
    if (in->kept == QK_ROWS_RESERVOIR)
        cli_print(", up to %d of a bucket and text", in->reservoir);
    if (in->has_moments)
        cli_print("; moments of %" PRId64 " rows", in->summed);
    if (in->has_moments && in->groups > 0)
        cli_print(", in up to %d groups of texts", in->groups);
    putchar('\n');
    if (in->has_moments)
        cli_print("%-12s%zu file%s, %.1f MB\n", "moments", in->moments_files,
                  cli_s((int64_t)in->moments_files), (double)in->moments_bytes / 1e6);
}

static void print_capture(const qk_inspection *in)
{
    print_line("capture", in->path, "");
    if (*in->prefix)
        print_line("prefix", in->prefix, "");
    print_line("model", *in->model ? in->model : "(not recorded)",
               in->complete ? "" : " - the capture was not finished");
    size_t layers = count_layers(in);
    cli_print("%-12s%zu in %zu layer%s: %zu query, %zu key\n", "heads", in->num_heads, layers,
              cli_s((int64_t)layers), count_kind(in, QK_QUERY), count_kind(in, QK_KEY));
    print_group(in);
    if (in->dim > 0)
        cli_print("%-12s%zu\n", "dimension", in->dim);
    else
        cli_print("%-12s%s\n", "dimension",
                  in->rows + in->summed > 0 ? "differs between heads" : "unknown");
    cli_print("%-12s%" PRId64 "\n", "rows", in->rows);
    print_kept(in);
    if (in->rows + in->summed > 0)
        cli_print("%-12s%" PRId64 " to %" PRId64 "\n", "positions", in->position_min,
                  in->position_max);
    print_values("buckets", &in->buckets);
    cli_print("%-12s%zu", "examples", in->num_examples);
    if (in->num_windows > 0 && in->num_windows != in->num_texts)
        cli_print(", of %" PRId64 " text%s in %" PRId64 " window%s", in->num_texts,
                  cli_s(in->num_texts), in->num_windows, cli_s(in->num_windows));
    putchar('\n');
    if (in->kept == QK_ROWS_NONE)
        return; /* there are no columns to tell of windows, and no files of rows */
    print_windows(in);
    print_storage(in);
}

/* ---- as JSON ---------------------------------------------------------------------------- */

static json_t *values_json(const qk_values *values)
{
    json_t *list = json_array();
    for (size_t i = 0; i < values->count; i++)
        json_array_append_new(list, json_integer((json_int_t)values->items[i]));
    return list;
}

static json_t *encodings_json(uint32_t encodings)
{
    json_t *list = json_array();
    for (int e = 0; e < 32; e++)
        if (encodings >> e & 1)
            json_array_append_new(list, json_string(qk_parquet_encoding_name(e)));
    return list;
}

/* NULL where there is none. */
static json_t *range_json(bool has, int64_t first, int64_t last)
{
    return has ? json_pack("[I, I]", (json_int_t)first, (json_int_t)last) : NULL;
}

static const char *message_of(const qk_head_inspection *head)
{
    return head->message ? head->message : "out of memory";
}

/* All heads of a packed file that cannot be read say the same. */
static bool is_told_before(const qk_inspection *in, size_t i)
{
    for (size_t k = i; k-- > 0 && in->heads[k].id.layer == in->heads[i].id.layer;)
        if (in->heads[k].status != QK_OK &&
            strcmp(message_of(&in->heads[k]), message_of(&in->heads[i])) == 0)
            return true;
    return false;
}

static json_t *head_json(const qk_head_inspection *head)
{
    char name[QK_HEAD_NAME_SIZE];
    qk_head_name(head->id, name);
    json_t *object =
        json_pack("{s:s, s:i, s:i, s:s, s:I, s:I}", "name", name, "layer", head->id.layer,
                  "head", head->id.head, "kind", head->id.kind == QK_QUERY ? "q" : "k", "files",
                  (json_int_t)head->files, "bytes", (json_int_t)head->bytes);
    if (head->status != QK_OK) {
        json_object_set_new(
            object, "error",
            cli_json_text(head->message ? head->message : qk_status_text(head->status)));
        return object;
    }
    json_t *counts = json_pack(
        "{s:I, s:I, s:o*, s:o?, s:o?, s:o, s:i, s:s, s:o, s:b, s:o}", "rows",
        (json_int_t)head->rows, "dim", (json_int_t)head->dim, "positions",
        range_json(head->rows + head->summed > 0, head->position_min, head->position_max),
        "buckets", head->has_bucket ? values_json(&head->buckets) : NULL, "examples",
        head->has_example ? json_integer((json_int_t)head->examples.count) : NULL, "windows",
        values_json(&head->windows), "row_groups", head->row_groups, "codec", head->codec,
        "encodings", encodings_json(head->encodings), "float64", head->wide, "created_by",
        cli_json_text(head->created_by ? head->created_by : ""));
    json_object_update(object, counts);
    json_decref(counts);
    if (head->summed > 0)
        json_object_set_new(object, "summed", json_integer((json_int_t)head->summed));
    return object;
}

static json_t *group_json(const qk_inspection *in)
{
    if (!in->has_group)
        return json_null();
    return json_pack("{s:i, s:s, s:b, s:i}", "size", in->group.size, "source",
                     SOURCES[in->group.source], "consistent", in->group.consistent,
                     "num_consistent", in->group.num_consistent);
}

static json_t *kept_json(const qk_inspection *in)
{
    static const char *const WORDS[] = {
        [QK_ROWS_ALL] = "all", [QK_ROWS_NONE] = "none", [QK_ROWS_RESERVOIR] = "reservoir"};
    return json_pack("{s:s, s:i, s:b, s:i, s:I, s:I, s:I}", "rows", WORDS[in->kept],
                     "reservoir", in->reservoir, "moments", in->has_moments, "groups",
                     in->groups, "summed", (json_int_t)in->summed, "files",
                     (json_int_t)in->moments_files, "bytes", (json_int_t)in->moments_bytes);
}

static void print_capture_json(const qk_inspection *in)
{
    json_t *heads = json_array();
    for (size_t i = 0; i < in->num_heads; i++)
        json_array_append_new(heads, head_json(&in->heads[i]));
    json_t *texts = in->num_windows > 0
                        ? json_pack("{s:I, s:I}", "count", (json_int_t)in->num_texts, "windows",
                                    (json_int_t)in->num_windows)
                        : NULL;
    json_t *object = json_pack(
        "{s:o, s:o, s:o, s:b, s:b, s:o?, s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:o?, s:o?, s:o, "
        "s:I, s:o?, s:o, s:o}",
        "capture", cli_json_text(in->path), "prefix", cli_json_text(in->prefix), "model",
        cli_json_text(in->model), "has_manifest", in->has_manifest, "complete", in->complete,
        "group", group_json(in), "num_heads", (json_int_t)in->num_heads, "num_layers",
        (json_int_t)count_layers(in), "num_failed", (json_int_t)in->num_failed, "files",
        (json_int_t)in->num_files, "packed", in->packed, "bytes", (json_int_t)in->bytes, "rows",
        (json_int_t)in->rows, "dim", in->dim ? json_integer((json_int_t)in->dim) : NULL,
        "positions", range_json(in->rows + in->summed > 0, in->position_min, in->position_max),
        "buckets", values_json(&in->buckets), "examples", (json_int_t)in->num_examples, "texts",
        texts, "windows", values_json(&in->windows), "heads", heads);
    if (in->has_moments || in->kept != QK_ROWS_ALL)
        json_object_set_new(object, "kept", kept_json(in));
    cli_json_print(object);
}

static int inspect_capture(const request *r)
{
    qk_inspection *in;
    qk_error err;
    if (qk_inspect_capture(&r->settings, &in, &err) != QK_OK) {
        const char *name = r->settings.capture, *revision = r->settings.revision;
        cli_error("%s", err.message);
        if (strstr(err.message, "qkscope get ")) /* the name does not tell which it is */
            cli_error("if it is a model: qkscope get --model %s%s%s", name,
                      revision ? " --revision " : "", revision ? revision : "");
        return EXIT_CODE_FAILURE;
    }
    for (size_t i = 0; i < in->num_heads; i++)
        if (in->heads[i].status != QK_OK &&
            (in->heads[i].files > 0 || in->kept == QK_ROWS_NONE) && !is_told_before(in, i))
            cli_error("%s", message_of(&in->heads[i]));
    if (in->num_missing > 0)
        cli_error("warning: %s: %zu of the %zu heads that capture.json lists are not there: %s",
                  in->path, in->num_missing, in->num_heads, in->missing);
    if (r->common.json)
        print_capture_json(in);
    else if (!r->common.quiet)
        print_capture(in);
    if (r->heads && !r->common.json && !r->common.quiet)
        print_heads(in);
    int code = in->num_failed == 0               ? EXIT_CODE_OK
               : in->num_failed == in->num_heads ? EXIT_CODE_FAILURE
                                                 : EXIT_CODE_PARTIAL;
    if (in->num_failed > 0)
        cli_error("%zu of %zu heads cannot be read", in->num_failed, in->num_heads);
    qk_inspection_free(&in);
    return code;
}

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
    print_line("file", path, "");
    cli_print("%-12s%" PRId64 " in %d row group%s\n", "rows", qk_parquet_num_rows(file),
              qk_parquet_num_row_groups(file), cli_s(qk_parquet_num_row_groups(file)));
    cli_print("%-12s%.1f kB\n", "size", (double)qk_parquet_file_bytes(file) / 1e3);
    print_line("written by", *writer ? writer : "(not recorded)", "");
    putchar('\n');
    cli_print("%-28s %-10s %-13s %12s %12s %10s  %s\n", "column", "type", "codec", "values",
              "kB stored", "kB plain", "encodings");
    for (int i = 0; i < qk_parquet_num_columns(file); i++) {
        const qk_parquet_column *column = qk_parquet_column_at(file, i);
        cli_print("%-28s %-10s %-13s %12" PRId64 " %12.1f %10.1f ", column->path,
                  type_name(column), column->codec, column->num_values,
                  (double)column->compressed_bytes / 1e3,
                  (double)column->uncompressed_bytes / 1e3);
        print_encodings(column->encodings);
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
                      encodings_json(column->encodings), "nullable", column->max_definition > 0,
                      "repeated", column->max_repetition > 0, "range",
                      range_json(column->has_range, column->min, column->max)));
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

static int run(cli_call *call)
{
    request *r = call->request;
    qk_inspect_settings *s = &r->settings;
    struct stat st;
    if (call->count == 0)
        return cli_usage("which capture? Give a folder, a Parquet file, or org/name of a "
                         "dataset in the Hugging Face cache");
    s->capture = call->arguments[0];
    bool model = cli_is_model(s->capture, s->revision);
    note_idle(call, model);
    if (model)
        return cli_inspect_model(s->capture, s->revision, &r->run, &r->common);
    bool file = stat(s->capture, &st) == 0 && S_ISREG(st.st_mode);
    return file ? inspect_file(r) : inspect_capture(r);
}

const cli_command cmd_inspect = {
    .name = "inspect",
    .group = "Look",
    .summary = "what a capture, a model or a Parquet file holds",
    .usage = "CAPTURE|MODEL|FILE.parquet [options]",
    .description =
        "Says what a capture holds: heads, group size, rows, dimension, positions, buckets, "
        "examples, sliding windows, what is kept in place of rows, and how the files store "
        "them. " CLI_CAPTURE_IS
        " Of a single Parquet file it shows columns, encodings and sizes. Integer columns are "
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
