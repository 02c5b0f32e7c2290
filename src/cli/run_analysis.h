/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands that analyse a capture share: options, running, printing. */
#ifndef QK_CLI_RUN_ANALYSIS_H
#define QK_CLI_RUN_ANALYSIS_H

#include "cli.h"

/* What such a command has in common with the others: table, load and release. */
#define CLI_ANALYSIS                                                                           \
    .usage = "CAPTURE -o DIR [options]", .table = &cli_analysis_table, .max_arguments = 1,     \
    .load = cli_analysis_load, .release = cli_analysis_release
extern const qk_settings_table cli_analysis_table;
int cli_analysis_load(cli_call *call);
void cli_analysis_release(void *request);

/* Checks, runs, prints; returns the exit code. analyses: sum of qk_analyses. */
int cli_analyse(cli_call *call, unsigned analyses);

/* What was found, without the list of files. */
void cli_print_summary(const qk_analysis_settings *settings, const qk_analysis_results *report);

/* The summaries of one outcome on standard output (analysis_print.c). */
void cli_print_outcome(const qk_analysis_settings *settings, const qk_analysis_results *report);
void cli_print_outcome_json(const qk_analysis_settings *settings,
                            const qk_analysis_results *report);

/* Of that JSON: heads without numbers and why, and the files written. */
json_t *cli_list_failures(const qk_analysis_results *report);
json_t *cli_list_outputs(const qk_analysis_results *report);

#endif
