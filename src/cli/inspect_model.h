/* SPDX-License-Identifier: Apache-2.0 */
/* The part of qkscope inspect that looks at models. */
#ifndef QK_CLI_INSPECT_MODEL_H
#define QK_CLI_INSPECT_MODEL_H

#include <stdint.h>

#include <qkscope/capture.h>

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
    bool no_measure;
} cli_inspect_run;

/* settings->capture is the model. What of it is on the Hub and not in the cache is looked into there.
 * otherwise: what to say where there is no such model; NULL: that. */
int cli_inspect_model(const qk_inspect_settings *settings, const cli_inspect_run *run,
                      const cli_common *common, const qk_error *otherwise);

#endif
