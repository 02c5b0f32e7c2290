/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands that analyse a capture share: options, running, printing (run_analysis.c
 * leads). */
#ifndef QK_CLI_RUN_ANALYSIS_H
#define QK_CLI_RUN_ANALYSIS_H

#include "tell.h"

/* The texts that these commands share. */
#define CLI_ANALYSIS                                                                           \
    .usage = "CAPTURE -o DIR [options]", .table = &cli_analysis_table, .max_arguments = 1,     \
    .load = cli_analysis_load, .run = cli_analysis_run, .release = cli_analysis_release
extern const qk_settings_table cli_analysis_table;
qk_status cli_analysis_load(void *request, qk_error *err);
int cli_analysis_run(cli_call *call);
void cli_analysis_release(void *request);

/* The notes on a file of settings; config may be NULL. */
void cli_print_notes(const qk_config *config, const cli_common *common);

/* The results, without the list of files (analysis_print.c). */
void cli_tell_analysis(const cli_common *common, const qk_analysis_settings *settings,
                       const qk_analysis_results *results);

/* Parts of that JSON: heads without numbers and why, written files, heads of each category. */
json_t *cli_list_failures(const qk_analysis_results *results);
json_t *cli_list_outputs(const qk_analysis_results *results);
json_t *cli_count_categories(const size_t counts[QK_NUM_CATEGORIES]);

#endif
