/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over rows of attention to numbers of a head (docs/behaviour.md#attention): attention_numbers.c;
 * profiles over distance: attention_profile.c. */
#ifndef QK_STATS_ATTENTION_NUMBERS_H
#define QK_STATS_ATTENTION_NUMBERS_H

#include "stats/attention_sums.h"

/* All but what is predicted of the profile. level: of the intervals (0..1), 0: none.
 * QK_ERR_MALFORMED: a sum is not finite, or there are more groups than there can be. */
QK_MUST_CHECK qk_status qk__attention_numbers(const qk__attention_head *head, double level,
                                              qk_attention *numbers, qk_error *err);

#endif
