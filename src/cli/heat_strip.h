/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of numbers by depth, on colours where the terminal has them. */
#ifndef QK_CLI_HEAT_STRIP_H
#define QK_CLI_HEAT_STRIP_H

#include <qkscope/analysis.h>
#include <qkscope/report.h>

/* The heading of the rows: where each tenth of the depth begins. */
void cli_print_depths(void);

/* A row, 74 columns wide; colours run from 0 to 1, NaN is "-". */
void cli_print_strip(const char *label, qk_ramp ramp, const double values[QK_DEPTHS]);

#endif
