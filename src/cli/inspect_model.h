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

/* What capture is to be asked for. 0: the default of capture. */
typedef struct cli_inspect_run {
    int64_t length; /* tokens of a text; 0 = as many as the model takes */
    int64_t texts, max_length, rows;
    const char *keep; /* NULL: nothing is said of it */
    int groups, buckets;
    bool no_measure;
} cli_inspect_run;

/* settings->capture is the model. Parts of it that are not in the cache are looked into on the Hub. otherwise: the
 * message where there is no such model; NULL: the usual one. */
int cli_inspect_model(const qk_inspect_settings *settings, const cli_inspect_run *run,
                      const cli_common *common, const qk_error *otherwise);

#endif
