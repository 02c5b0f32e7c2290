/* SPDX-License-Identifier: Apache-2.0 */
/* What the losses of an ablation say, in sentences. */
#ifndef QK_CLI_VERDICTS_H
#define QK_CLI_VERDICTS_H

#include <qkscope/ablate.h>

/* The word of qk_ablation_judge(). */
const char *cli_verdict(const qk_ablation_effect *effect, double tolerance);

/* A sentence for each head or group of heads, in the order of the list, and the number of each verdict. */
void cli_print_verdicts(const qk_ablation_outcome *outcome,
                        const qk_ablation_effect *const *list, size_t count, double tolerance);

#endif
