/* SPDX-License-Identifier: Apache-2.0 */
/* The part of qkscope inspect that shows captures, and what it shares with inspect_model.c and single files. */
#ifndef QK_CLI_INSPECT_CAPTURE_H
#define QK_CLI_INSPECT_CAPTURE_H

#include <stdint.h>

#include <qkscope/capture.h>

#include "tell.h"

/* Prints what the capture has, and on stderr what cannot be read; returns the exit code. */
int cli_print_capture(const qk_inspection *in, const cli_common *common, bool heads);

void cli_print_encodings(uint32_t encodings);
json_t *cli_encodings_json(uint32_t encodings);
/* NULL where there is none. */
json_t *cli_range_json(bool has, int64_t first, int64_t last);

#endif
