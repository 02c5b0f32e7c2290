/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope repack: a capture in another layout. */
#include "cli.h"

#include <inttypes.h>

#include <qkscope/recorder.h>

typedef struct request {
    cli_common common;
    qk_repack_settings settings;
} request;

static const qk_setting ROWS[] = {
    QK_SETTING_PART(request, settings, qk_repack_settings_table),
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

static void print_outcome(const request *r, const qk_repack_outcome *o)
{
    if (r->common.json)
        cli_json_print(json_pack(
            "{s:o, s:s, s:I, s:I, s:I}", "output", cli_json_text(r->settings.output), "layout",
            r->settings.layout == QK_LAYOUT_PACKED ? "packed" : "heads", "heads",
            (json_int_t)o->heads, "files", (json_int_t)o->files, "rows", (json_int_t)o->rows));
    else if (!r->common.quiet)
        cli_print("%zu head%s in %zu file%s, %" PRId64 " row%s\n%s\n", o->heads,
                  cli_s((int64_t)o->heads), o->files, cli_s((int64_t)o->files), o->rows,
                  cli_s(o->rows), r->settings.output);
}

static int run(cli_call *call)
{
    request *r = call->request;
    cli_messages messages;
    qk_repack_outcome outcome;
    qk_error err;
    if (call->count == 0)
        return cli_usage("which capture? Give a folder, or org/name of a dataset on the "
                         "Hugging Face Hub");
    if (!r->settings.output)
        return cli_usage("where to? Give -o DIR");
    r->settings.capture = call->arguments[0];
    cli_messages_init(&messages, &r->common, &r->settings.context);
    qk_status status = qk_capture_repack(&r->settings, &outcome, &err);
    cli_messages_end(&messages, status, &err);
    if (status == QK_OK)
        print_outcome(r, &outcome);
    return cli_exit_code(status);
}

const cli_command cmd_repack = {
    .name = "repack",
    .group = "Make",
    .summary = "a capture in fewer files, or a file a head",
    .usage = "CAPTURE -o DIR [options]",
    .description = "Writes a capture again into DIR, in another layout: packed has a file for "
                   "each layer and kind (160 in place of 5,760 for a model of 80 layers, which "
                   "suits the Hub), heads a file for each head. All commands read both. There "
                   "and back the bytes are the same again.\n\n" CLI_CAPTURE_IS,
    .examples = "qkscope repack my-capture -o my-capture-packed\n"
                "qkscope repack org/name -o by-heads --layout heads\n"
                "qkscope repack my-capture -o my-capture --force\n",
    .table = &TABLE,
    .max_arguments = 1,
    .run = run,
};
