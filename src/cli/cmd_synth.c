/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope synth: captures with known ground truth. */
#include "tell.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/capture.h>

enum { MAX_FREQUENCIES = 64 };

typedef struct request {
    cli_common common;
    qk_synth_settings settings;
    const char *output;
    const char *frequencies;
    double omega[MAX_FREQUENCIES];
} request;

static const qk_setting ROWS[] = {
    {"output", QK_SETTING_PATH, QK_SETTING_AT(request, output), .letter = 'o', .value = "DIR",
     .help = "folder for the capture; must be new or empty", .section = "Output"},
    QK_SETTING_PART(request, settings, qk_synth_settings_table),
    {"frequencies", QK_SETTING_TEXT, QK_SETTING_AT(request, frequencies), .value = "LIST",
     .unit = "radians per token", .help = "radians per token, one plane each: 0.5,0.01",
     .unset = "by --rope-theta", .section = "Model"},
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

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
    cli_error("--frequencies %s: expected up to %d numbers with commas between", r->frequencies,
              MAX_FREQUENCIES);
    return false;
}

static void print_outcome(const request *r)
{
    const qk_synth_settings *s = &r->settings;
    int queries = s->layers * s->query_heads;
    int64_t rows = (int64_t)s->examples * (int64_t)s->rows_per_example;
    cli_tell(&r->common,
             "{query_heads} query head{s}, {key_heads} key head{s}, {rows_per_head} row{s} of "
             "{dim} each\n"
             "{output}\n{output}/truth.json\n",
             CLI_ROWS(CLI_ROW("output", r->output), CLI_ROW("query_heads", queries),
                      CLI_ROW("key_heads", queries / s->group), CLI_ROW("rows_per_head", rows),
                      CLI_OF(s, dim)));
}

static int run_synth(cli_call *call)
{
    request *r = call->request;
    cli_messages messages;
    qk_error err;
    if (!r->output && call->count > 0)
        r->output = call->arguments[0];
    if (!r->output)
        return cli_usage("where to? Give -o DIR");
    if (!set_frequencies(r))
        return EXIT_CODE_USAGE;
    cli_messages_init(&messages, &r->common, &r->settings.context);
    qk_status status = qk_synth_write(&r->settings, r->output, &err);
    cli_messages_end(&messages, status, &err);
    if (status == QK_OK)
        print_outcome(r);
    return cli_settings_code(status);
}

const cli_command cmd_synth = {
    .name = "synth",
    .group = "Make",
    .summary = "a capture with known ground truth",
    .usage = "-o DIR [options]",
    .description =
        "Writes a capture of made-up heads into DIR, and beside them truth.json: means, "
        "drifts, covariances and frequencies that the vectors were drawn from. What no option "
        "gives is drawn from the seed. The same seed gives the same bytes.",
    .examples = "qkscope synth -o made-up\n"
                "qkscope synth -o made-up --layers 4 --dim 128 --r-k 0.9 --seed 7\n",
    .table = &TABLE,
    .max_arguments = 1,
    .run = run_synth,
};
