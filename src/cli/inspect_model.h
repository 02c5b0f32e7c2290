/* SPDX-License-Identifier: Apache-2.0 */
/* The part of qkscope inspect that looks at models. */
#ifndef QK_CLI_INSPECT_MODEL_H
#define QK_CLI_INSPECT_MODEL_H

#include <stdint.h>

#include "cli.h"

/* Whether name is a folder with a model, or a model in the Hugging Face cache that is no
 * dataset. */
bool is_model(const char *name, const char *revision);

/* length: tokens of the text that costs are told for; 0 = as long as the model takes. */
int inspect_model(const char *command, const char *name, const char *revision, int64_t length,
                  const cli_common *common);

#endif
