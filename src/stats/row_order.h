/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting row numbers by columns of integers. */
#ifndef QK_STATS_ROW_ORDER_H
#define QK_STATS_ROW_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

/* Sorts the `count` row numbers in order by keys[0][row], those alike by keys[1][row], and so
 * on; rows alike in all keep their order. */
QK_MUST_CHECK qk_status qk__order_rows(uint32_t *order, size_t count,
                                       const int64_t *const *keys, size_t num_keys,
                                       qk_error *err);

/* The row numbers 0 .. count - 1 in that order, in new memory; NULL after a failure. */
QK_MUST_CHECK qk_status qk__rows_in_order(uint32_t **order, size_t count,
                                          const int64_t *const *keys, size_t num_keys,
                                          qk_error *err);

/* How many of the ascending numbers are less than value. */
size_t qk__count_below(const int64_t *numbers, size_t count, int64_t value);

/* Sorts `count` numbers; scratch has room for as many. */
void qk__sort_u64(uint64_t *values, size_t count, uint64_t *scratch);

#endif
