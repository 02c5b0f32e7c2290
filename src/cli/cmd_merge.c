/* SPDX-License-Identifier: Apache-2.0 */
/* qkscope merge: puts together what several processes computed. */
#include <stdio.h>

#include "run_analysis.h"

typedef struct request {
    cli_common common;
    int threads;
} request;

static const qk_setting ROWS[] = {
    {"threads", QK_SETTING_INTEGER, QK_SETTING_AT(request, threads), .letter = 't', .min = 1,
     .max = 4096, .value = "N", .help = "threads", .unset = "all processors",
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
        if (status == QK_ERR_NOT_FOUND && unfinished + done > 0)
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
        settings.threads = r->threads;
        settings.command_line = call->line;
        bool whole;
        int code = cli_analyse(&r->common, &settings, &whole);
        qk_config_free(&config);
        worst = worst == EXIT_CODE_OK || code == EXIT_CODE_FAILURE ? code : worst;
        ++*(whole ? &done : &unfinished);
    }
}

static int run(cli_call *call)
{
    if (call->count == 0)
        return cli_usage("what? Give the results folder that several processes wrote to");
    return finish_runs(call, call->arguments[0]);
}

const cli_command cmd_merge = {
    .name = "merge",
    .group = "Analyse",
    .summary = "finish what several processes have computed",
    .usage = "DIR [options]",
    .description =
        "Several processes may share an analysis (--shard I/N, or started by srun, sbatch "
        "--array or mpirun): each leaves its parts under DIR/.units, and the last one writes "
        "the "
        "tables. Where it could not, merge does, with the settings that the processes "
        "recorded; it "
        "reads no rows. If parts are missing it names the first one, and its exit code is 3.",
    .examples = "qkscope merge results\n"
                "qkscope merge results --quiet\n",
    .table = &TABLE,
    .max_arguments = 1,
    .run = run,
};
