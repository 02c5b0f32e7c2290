/* SPDX-License-Identifier: Apache-2.0 */
/* The width of position buckets, read off the rows. */
#ifndef QK_STATS_BUCKET_WIDTH_H
#define QK_STATS_BUCKET_WIDTH_H

#include <qkscope/stats.h>

/* Tokens, > 0; docs/methods.md#plasticity has the rule. Rows that are left out do not count. */
double qk__bucket_width(const qk_block *queries, const qk_block *keys);

#endif
