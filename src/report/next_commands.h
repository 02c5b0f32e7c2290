/* SPDX-License-Identifier: Apache-2.0 */
/* What results do not have, and the command that brings it: the view of a head says it where it is missed, and the first
 * screen says the first few. In a command CAPTURE stands for the capture that the manifest names. */
#ifndef QK_REPORT_NEXT_COMMANDS_H
#define QK_REPORT_NEXT_COMMANDS_H

#include <jansson.h>

#include "report/sections.h"

/* {table: command}, and under "intervals" that of intervals; NULL when out of memory. */
json_t *qk__commands_by_table(void);

/* What one would do next: up to three commands, in the order of what is to be known first. */
void qk__put_next_commands(qk__page *page, const qk__report *report);

#endif
