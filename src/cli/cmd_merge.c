/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope merge: puts together what several processes computed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <qkscope/sink.h>

#include "run_analysis.h"

typedef struct request {
    cli_common common;
    const char *output;
    bool force;
    qk_context context;
} request;

static const qk_setting ROWS[] = {
    {"output", QK_SETTING_PATH, QK_SETTING_AT(request, output), .letter = 'o', .value = "DIR",
     .help = "folder for the capture that pieces make", .unset = "DIR, of one folder",
     .section = "Output"},
    {"force", QK_SETTING_FLAG, QK_SETTING_AT(request, force),
     .help = "replace a capture in it; the old one stays until the new one is complete",
     .section = "Output"},
    {"threads", QK_SETTING_INTEGER, QK_SETTING_AT(request, context.threads), .letter = 't',
     .min = 1, .max = 4096, .value = "N", .help = "threads", .unset = "all processors",
     .section = "Running"},
    QK_SETTING_PART(request, common, cli_common_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(request, ROWS)};

/* A folder may hold units of several runs, of pca and of rotate, say. Each that is whole is ended,
 * and is gone then; the worst exit code counts. */
static int finish_runs(const cli_call *call, const char *folder)
{
    const request *r = call->request;
    int worst = EXIT_CODE_OK;
    for (size_t unfinished = 0, done = 0;;) {
        qk_config *config;
        qk_error err;
        qk_status status = qk_config_load_shared(&config, folder, unfinished, &err);
        if ((status == QK_ERR_NOT_FOUND || status == QK_ERR_EXISTS) && unfinished + done > 0)
            return worst;
        if (status == QK_ERR_EXISTS) {
            if (!r->common.quiet)
                cli_print("%s\n", err.message);
            return EXIT_CODE_OK;
        }
        if (status != QK_OK) {
            cli_error("%s", err.message);
            return cli_exit_code(status);
        }
        qk_analysis_settings settings = *qk_config_settings(config);
        settings.context.threads = r->context.threads;
        settings.command_line = call->line;
        bool whole;
        int code = cli_analyse(&r->common, &settings, &whole);
        qk_config_free(&config);
        worst = worst == EXIT_CODE_OK || code == EXIT_CODE_FAILURE ? code : worst;
        ++*(whole ? &done : &unfinished);
    }
}

/* ---- captures --------------------------------------------------------------------------- */

static bool has_pieces(const char *folder)
{
    size_t size = strlen(folder) + sizeof "/.partial";
    char *path = malloc(size);
    struct stat st;
    if (path)
        snprintf(path, size, "%s/.partial", folder);
    bool yes = path && stat(path, &st) == 0;
    free(path);
    return yes;
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
    cli_tell(&r->common, "[{complete?}{output} is complete: {heads} head{s}, {bytes:MB}\n]",
             CLI_ROWS(CLI_ROW("output", output), CLI_ROW("complete", o.complete),
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
    if (call->count > 1 && !r->output)
        return cli_usage("where to? -o DIR");
    return call->count > 1 || r->output || has_pieces(call->arguments[0])
               ? merge_captures(call)
               : finish_runs(call, call->arguments[0]);
}

const cli_command cmd_merge = {
    .name = "merge",
    .group = "Analyse",
    .summary = "put together what several processes made or computed",
    .usage = "DIR [options], or A B C... -o DIR",
    .description =
        "Several processes may share an analysis or a capture (--shard I/N, srun, sbatch "
        "--array, mpirun). Each leaves its parts in DIR, and the last one puts them together. "
        "Where it could not, merge does.\n\nmerge DIR writes the tables of an analysis, or the "
        "capture, when all parts are there; else it names the first one that is missing, with "
        "exit code 3.\n\nmerge A B C... -o DIR makes one capture of shards that lie in folders "
        "of their own. It has the bytes that one process would have made. Of few texts one "
        "shard may have all: its folder is a finished capture, which is copied. Folders of "
        "different runs are refused.",
    .examples = "qkscope merge results\n"
                "qkscope merge part-0 part-1 part-2 -o capture\n",
    .table = &TABLE,
    .max_arguments = -1,
    .run = run_merge,
};
