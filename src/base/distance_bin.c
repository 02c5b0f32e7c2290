/* SPDX-License-Identifier: Apache-2.0 */
/* Bins of distances. */
#include <qkscope/attention.h>

#include "base/bit_width.h"

int qk_distance_bin(int64_t distance)
{
    unsigned bin = distance > 0 ? qk__bit_width((uint64_t)distance) : 0;
    return bin < QK_DISTANCE_BINS ? (int)bin : QK_DISTANCE_BINS - 1;
}
