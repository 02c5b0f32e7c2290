/* SPDX-License-Identifier: Apache-2.0 */
/* What the losses of an ablation say, in sentences. */
#ifndef QK_CLI_VERDICTS_H
#define QK_CLI_VERDICTS_H

#include <qkscope/ablate.h>

/* "harmless", "needed" or "undecided", by the interval of the loss beside what the user accepts, in nats a token. */
const char *cli_verdict(const qk_ablation_effect *effect, double tolerance);

/* A sentence a head, or a group, in the order of the list, and how many there are of each verdict. */
void cli_print_verdicts(const qk_ablation_effect *const *list, size_t count, double tolerance);

#endif
