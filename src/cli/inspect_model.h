/* SPDX-License-Identifier: Apache-2.0 */
/* The part of qkscope inspect that looks at models. */
#ifndef QK_CLI_INSPECT_MODEL_H
#define QK_CLI_INSPECT_MODEL_H

#include <stdint.h>

#include "cli.h"

/* Whether name is a folder with a model, or a model in the Hugging Face cache that is no
 * dataset. */
bool cli_is_model(const char *name, const char *revision);

/* What a capture is asked for. 0: as a capture has it by itself. */
typedef struct cli_inspect_run {
    int64_t length; /* tokens of a text; 0 = as many as the model takes */
    int64_t texts, max_length, rows;
    const char *keep; /* NULL: nothing is said of it */
    int groups, buckets;
} cli_inspect_run;

int cli_inspect_model(const char *name, const char *revision, const cli_inspect_run *run,
                      const cli_common *common);

#endif
