/* SPDX-License-Identifier: Apache-2.0 */
/* Which shard computes which unit. Every process works it out for itself. */
#include "work/units.h"

void qk__share_alike(int64_t count, const qk_shard *shard, int64_t *first, int64_t *end)
{
    double share = (double)count / (double)shard->count;
    *first = shard->index == 0 ? 0 : (int64_t)(share * (double)shard->index);
    *end = shard->index + 1 == shard->count ? count
                                            : (int64_t)(share * (double)(shard->index + 1));
}
