/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands that analyse a capture share: options, running, printing. */
#ifndef QK_CLI_ANALYSIS_H
#define QK_CLI_ANALYSIS_H

#include "cli.h"

/* One such command. */
typedef struct cli_analysis {
    const char *command; /* "qkscope pca" */
    const char *description;
    unsigned analyses; /* sum of qk_analysis */
} cli_analysis;

/* Parses, runs, prints; returns the exit code. */
int cli_analyse(const cli_analysis *analysis, int argc, char **argv);

/* What was found, without the list of files. */
void cli_print_summary(const qk_study_settings *settings, const qk_study_report *report);

/* The summaries of one outcome on standard output (analysis_print.c). */
void cli_print_outcome(const qk_study_settings *settings, const qk_study_report *report);
void cli_print_outcome_json(const qk_study_settings *settings, const qk_study_report *report);

#endif
