/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope merge: joins captures of several processes, or tables of several runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <qkscope/results.h>
#include <qkscope/sink.h>

#include "tell.h"

typedef struct request {
    cli_common common;
    const char *output;
    bool force;
    qk_context context;
} request;

static const qk_setting ROWS[] = {
    {"output", QK_SETTING_PATH, QK_SETTING_AT(request, output), .letter = 'o', .value = "DIR",
     .help = "folder for the capture, or the tables", .unset = "DIR, of one folder",
     .section = "Output"},
    {"force", QK_SETTING_FLAG, QK_SETTING_AT(request, force),
     .help = "replace a capture or results in it; the old ones stay until the new ones are "
             "complete",
     .section = "Output"},
    {"threads", QK_SETTING_INTEGER, QK_SETTING_AT(request, context.threads), .letter = 't',
     .min = 1, .max = 4096, .value = "N", .help = "threads", .unset = "all processors",
     .section = "Running"},
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

/* Whether the folder has results of an analysis; else it is part of a capture. */
static bool has_results(const char *folder)
{
    size_t size = strlen(folder) + sizeof "/manifest.json";
    char *path = malloc(size);
    struct stat st;
    if (path)
        snprintf(path, size, "%s/manifest.json", folder);
    bool yes = path && stat(path, &st) == 0;
    free(path);
    return yes;
}

static int join_results(const cli_call *call)
{
    request *r = call->request;
    cli_messages messages;
    qk_error err;
    cli_messages_init(&messages, &r->common, &r->context);
    qk_status status =
        qk_results_join((const char *const *)call->arguments, (size_t)call->count, r->output,
                        r->force, call->line, &err);
    cli_messages_end(&messages, status, &err);
    if (status == QK_OK)
        cli_tell(&r->common, "{output}: the tables of {folders} folders\n",
                 CLI_ROWS(CLI_OF(r, output), CLI_ROW("folders", call->count)));
    return cli_exit_code(status);
}

static int merge_captures(const cli_call *call)
{
    request *r = call->request;
    cli_messages messages;
    qk_sink_outcome o;
    qk_error err;
    cli_messages_init(&messages, &r->common, &r->context);
    const qk_merge_settings settings = {.inputs = (const char *const *)call->arguments,
                                        .num_inputs = (size_t)call->count,
                                        .output = r->output,
                                        .force = r->force,
                                        .context = r->context};
    const char *output = r->output ? r->output : call->arguments[0];
    qk_status status = qk_sink_merge(&settings, &o, &err);
    cli_messages_end(&messages, status, &err);
    if (status != QK_OK)
        return cli_exit_code(status);
    cli_tell(&r->common,
             "[{finished?}{output}: a finished capture, and nothing waits to be merged\n]"
             "[{merged?}{output} is complete: {heads} head{s}, {bytes:MB}\n]",
             CLI_ROWS(CLI_ROW("output", output), CLI_ROW("complete", o.complete),
                      CLI_SAY("merged", o.complete && o.blocks > 0),
                      CLI_SAY("finished", o.complete && o.blocks == 0),
                      CLI_ROW("blocks", o.blocks), CLI_ROW("blocks_there", o.blocks_there),
                      CLI_ROW("heads", o.heads), CLI_ROW("rows", o.rows),
                      CLI_ROW("summed", o.summed), CLI_ROW("bytes", o.bytes)));
    return o.complete ? EXIT_CODE_OK : EXIT_CODE_PARTIAL;
}

static int run_merge(cli_call *call)
{
    const request *r = call->request;
    if (call->count == 0)
        return cli_usage("what? Give the folder that several processes wrote to");
    bool results = has_results(call->arguments[0]);
    if (call->count > 1 && !r->output)
        return cli_usage("where to? -o DIR");
    if (results && call->count == 1 && r->output)
        return cli_usage("with which other results? Give two folders at least");
    if (results && call->count == 1) {
        if (!r->common.quiet)
            cli_print("%s: its tables are there, and nothing waits to be merged\n",
                      call->arguments[0]);
        return EXIT_CODE_OK;
    }
    return results ? join_results(call) : merge_captures(call);
}

const cli_command cmd_merge = {
    .name = "merge",
    .group = CLI_MORE,
    .summary = "put together captures or tables that several processes made",
    .usage = "DIR [options], or A B C... -o DIR",
    .description =
        "Several processes may share a capture (--shard I/N, srun, sbatch --array, mpirun). "
        "Each leaves its parts in DIR, and the last one puts them together. Where it could not, "
        "merge DIR puts them together when all are there; else it names the first missing part, "
        "with exit code 3.\n\nmerge A B C... -o DIR makes one capture of shards that lie in "
        "folders of their own. It has the bytes that one process would have made. With few "
        "texts one shard may have them all: its folder is the finished capture. Folders of "
        "different runs are refused.\n\nmerge A B C... -o DIR also joins the tables of "
        "analyses, each of different layers or heads of one capture (--layers, --heads), into "
        "the tables of a single run. The same head in two folders, and runs with different "
        "settings, are refused.",
    .examples = "qkscope merge part-0 part-1 part-2 -o capture\n"
                "qkscope merge layers-0 layers-1 -o results\n",
    .table = &TABLE,
    .max_arguments = -1,
    .run = run_merge,
};
