/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope repack: a capture in another layout. */
#include "tell.h"

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

static int run_repack(cli_call *call)
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
        cli_tell(&r->common, "{heads} head{s} in {files} file{s}, {rows} row{s}\n{output}\n",
                 CLI_ROWS(CLI_ROW("output", r->settings.output),
                          CLI_ROW("layout",
                                  r->settings.layout == QK_LAYOUT_PACKED ? "packed" : "heads"),
                          CLI_ROW("heads", outcome.heads), CLI_ROW("files", outcome.files),
                          CLI_ROW("rows", outcome.rows)));
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
    .run = run_repack,
};
