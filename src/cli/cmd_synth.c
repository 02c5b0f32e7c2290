/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope synth: captures with known ground truth. */
#include "cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <qkscope/synth.h>

static const char COMMAND[] = "qkscope synth";

static const char DESCRIPTION[] =
    "Writes a capture of made-up heads into DIR, and truth.json beside them: the means,\n"
    "drifts, covariances and frequencies the vectors were drawn from. What is not given here\n"
    "is drawn for every head from the seed. The same seed gives the same bytes on any number\n"
    "of threads.";

enum { MAX_FREQUENCIES = 64 };

typedef struct request {
    qk_synth_settings settings;
    cli_common common;
    const char *output;
    const char *codec, *encoding, *frequencies;
    int64_t seed, dim, rows, group_rows, page_bytes;
    bool float32;
    double omega[MAX_FREQUENCIES];
} request;

static const struct {
    const char *name;
    qk_parquet_codec codec;
} CODECS[] = {
    {"zstd", QK_PARQUET_ZSTD}, {"none", QK_PARQUET_UNCOMPRESSED}, {"snappy", QK_PARQUET_SNAPPY},
    {"gzip", QK_PARQUET_GZIP}, {"brotli", QK_PARQUET_BROTLI},     {"lz4", QK_PARQUET_LZ4_RAW},
};

static const struct {
    const char *name;
    qk_parquet_vector_encoding encoding;
} ENCODINGS[] = {
    {"auto", QK_VECTOR_AUTO},
    {"plain", QK_VECTOR_PLAIN},
    {"dictionary", QK_VECTOR_DICTIONARY},
    {"split", QK_VECTOR_BYTE_STREAM_SPLIT},
};

static bool set_codec(request *r)
{
    for (size_t i = 0; i < sizeof CODECS / sizeof *CODECS; i++)
        if (!r->codec || strcmp(r->codec, CODECS[i].name) == 0) {
            r->settings.writer.codec = CODECS[i].codec;
            return true;
        }
    cli_error(COMMAND, "--codec %s: expected zstd, none, snappy, gzip, brotli or lz4",
              r->codec);
    return false;
}

static bool set_encoding(request *r)
{
    for (size_t i = 0; i < sizeof ENCODINGS / sizeof *ENCODINGS; i++)
        if (!r->encoding || strcmp(r->encoding, ENCODINGS[i].name) == 0) {
            r->settings.writer.vector_encoding = ENCODINGS[i].encoding;
            return true;
        }
    cli_error(COMMAND, "--encoding %s: expected auto, plain, dictionary or split", r->encoding);
    return false;
}

/* "0.5,0.01": as many planes as numbers. */
static bool set_frequencies(request *r)
{
    if (!r->frequencies)
        return true;
    int count = 0;
    for (const char *p = r->frequencies; count < MAX_FREQUENCIES; p++) {
        char *end;
        r->omega[count] = strtod(p, &end);
        if (end == p || (*end != ',' && *end != 0) || !isfinite(r->omega[count]))
            break;
        count++;
        p = end;
        if (*p == 0) {
            r->settings.rope_planes = count;
            r->settings.rope_frequencies = r->omega;
            return true;
        }
    }
    cli_error(COMMAND, "--frequencies %s: expected up to %d numbers with commas between",
              r->frequencies, MAX_FREQUENCIES);
    return false;
}

static int parse(int argc, char **argv, request *r)
{
    qk_synth_settings *s = &r->settings;
    const cli_option options[] = {
        {'o', "output", "DIR", "folder for the capture; must be new or empty", OPTION_TEXT,
         &r->output, 0, 0},
        {0, "model-name", "NAME", "name in capture.json (default: synth)", OPTION_TEXT,
         &s->model, 0, 0},
        {0, "layers", "N", "layers (default: 2)", OPTION_INT, &s->layers, 1, 1000},
        {0, "query-heads", "N", "query heads per layer (default: 4)", OPTION_INT,
         &s->query_heads, 1, 1000},
        {0, "q-per-kv-group", "G", "query heads per key head (default: 2)", OPTION_INT,
         &s->group, 1, 1000},
        {0, "dim", "D", "head dimension (default: 64)", OPTION_INT64, &r->dim, 2, 4096},
        {0, "examples", "N", "texts (default: 4)", OPTION_INT, &s->examples, 0, 1e9},
        {0, "rows", "N", "rows per text and head (default: 1000)", OPTION_INT64, &r->rows, 1,
         1e9},
        {0, "buckets", "N", "position buckets (default: 16)", OPTION_INT, &s->buckets, 1, 1e9},
        {0, "bucket-width", "N", "tokens in a bucket (default: 128)", OPTION_INT,
         &s->bucket_width, 1, 1e9},
        {0, "position-offset", "T", "position of the first token (default: 0)", OPTION_INT64,
         &s->position_offset, 0, 2e9},
        {0, "sliding-window", "W", "window in tokens (default: none)", OPTION_INT,
         &s->sliding_window, 0, 2e9},
        {0, "seed", "S", "seed of everything drawn (default: 0)", OPTION_INT64, &r->seed, 0, 0},
        {0, "r-q", "R", "correlation of queries with position along\nthe drift", OPTION_REAL,
         &s->r_q, -1, 1},
        {0, "r-k", "R", "the same of keys", OPTION_REAL, &s->r_k, -1, 1},
        {0, "slope-q", "A", "drift of queries per token, instead of --r-q", OPTION_REAL,
         &s->slope_q, 0, 0},
        {0, "slope-k", "A", "the same of keys", OPTION_REAL, &s->slope_k, 0, 0},
        {0, "separation", "S", "distance of query and key mean in sd of content", OPTION_REAL,
         &s->separation, 0, 1e6},
        {0, "mean-offset", "S", "distance of the key mean from zero in sd", OPTION_REAL,
         &s->mean_offset, 0, 1e6},
        {0, "scale", "S", "sd of content per dimension", OPTION_REAL, &s->scale, 1e-6, 1e6},
        {0, "exponent", "E", "decay of the eigenvalues, j^-E", OPTION_REAL, &s->exponent, 0,
         20},
        {0, "rope-planes", "N", "planes that turn with position (default: 2)", OPTION_INT,
         &s->rope_planes, 0, 2047},
        {0, "rope-theta", "B", "base of their frequencies (default: 10000)", OPTION_REAL,
         &s->rope_theta, 1, 1e12},
        {0, "rope-amplitude", "A", "their radius in sd of content", OPTION_REAL,
         &s->rope_amplitude, 0, 1e6},
        {0, "frequencies", "LIST", "radians per token, one plane each: 0.5,0.01", OPTION_TEXT,
         &r->frequencies, 0, 0},
        {0, "float32", NULL, "do not round to bfloat16", OPTION_FLAG, &r->float32, 0, 0},
        {0, "token-strings", NULL, "add the column token_str", OPTION_FLAG, &s->strings, 0, 0},
        {0, "truth-matrices", NULL, "add full covariance bases to truth.json", OPTION_FLAG,
         &s->truth_matrices, 0, 0},
        {0, "shards", "N", "files per head (default: 1)", OPTION_INT, &s->shards, 1, 10000},
        {0, "codec", "NAME", "zstd, none, snappy, gzip, brotli, lz4", OPTION_TEXT, &r->codec, 0,
         0},
        {0, "level", "N", "of the codec (default: its own)", OPTION_INT, &s->writer.level, 0,
         22},
        {0, "encoding", "NAME", "of vectors: auto, plain, dictionary, split", OPTION_TEXT,
         &r->encoding, 0, 0},
        {0, "row-group-rows", "N", "rows per row group (default: 65536)", OPTION_INT64,
         &r->group_rows, 1, 1e9},
        {0, "page-bytes", "N", "bytes per page (default: 1048576)", OPTION_INT64,
         &r->page_bytes, 1, 1e9},
        {0, "page-version", "N", "data pages of version 1 or 2 (default: 1)", OPTION_INT,
         &s->writer.data_page_version, 1, 2},
        {0, "threads", "N", "threads (default: all processors)", OPTION_INT, &s->threads, 1,
         4096},
    };
    const cli_syntax syntax = {.command = COMMAND,
                               .usage = "-o DIR [options]",
                               .description = DESCRIPTION,
                               .options = options,
                               .num_options = sizeof options / sizeof *options,
                               .common = &r->common,
                               .max_arguments = 1};
    int count;
    int code = cli_parse(&syntax, argc, argv, &r->output, &count);
    if (code >= 0)
        return code;
    if (!r->output) {
        cli_error(COMMAND, "where to? Give -o DIR");
        return EXIT_CODE_USAGE;
    }
    return set_codec(r) && set_encoding(r) && set_frequencies(r) ? -1 : EXIT_CODE_USAGE;
}

static void print_outcome(const request *r)
{
    const qk_synth_settings *s = &r->settings;
    int keys = s->layers * (s->query_heads / s->group);
    int queries = s->layers * s->query_heads;
    long long rows = (long long)s->examples * (long long)s->rows_per_example;
    if (r->common.json) {
        json_t *root =
            json_pack("{s:o, s:i, s:i, s:I, s:I}", "output", cli_json_text(r->output),
                      "query_heads", queries, "key_heads", keys, "rows_per_head",
                      (json_int_t)rows, "dim", (json_int_t)s->dim);
        cli_json_print(root);
    } else if (!r->common.quiet) {
        cli_print("%d query head%s, %d key head%s, %lld row%s of %zu each\n%s\n%s/truth.json\n",
                  queries, cli_s(queries), keys, cli_s(keys), rows, cli_s(rows), s->dim,
                  r->output, r->output);
    }
}

int cmd_synth(int argc, char **argv)
{
    request r = {0};
    cli_messages messages;
    qk_error err;
    qk_synth_settings_default(&r.settings);
    r.dim = (int64_t)r.settings.dim;
    r.rows = (int64_t)r.settings.rows_per_example;
    r.group_rows = (int64_t)r.settings.writer.row_group_rows;
    r.page_bytes = (int64_t)r.settings.writer.page_bytes;
    int code = parse(argc, argv, &r);
    if (code >= 0)
        return code;
    cli_messages_init(&messages, COMMAND, &r.common, "heads");
    r.settings.seed = (uint64_t)r.seed;
    r.settings.dim = (size_t)r.dim;
    r.settings.rows_per_example = (size_t)r.rows;
    r.settings.writer.row_group_rows = (size_t)r.group_rows;
    r.settings.writer.page_bytes = (size_t)r.page_bytes;
    r.settings.bfloat16 = !r.float32;
    r.settings.progress = cli_progress;
    r.settings.user = &messages;
    qk_status status = qk_synth_write(&r.settings, r.output, &err);
    cli_clear(&messages);
    if (status == QK_OK)
        print_outcome(&r);
    else
        cli_error(COMMAND, "%s", err.message);
    return cli_finish(COMMAND,
                      status == QK_ERR_ARGUMENT ? EXIT_CODE_USAGE : cli_exit_code(status));
}
