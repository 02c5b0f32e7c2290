/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of some positions among others, such as the first, for qk__pca_first_tokens. */
#ifndef QK_STATS_FIRST_TOKENS_H
#define QK_STATS_FIRST_TOKENS_H

#include <qkscope/stats.h>

/* Adds the rows of positions `from` to `to` - 1 to *of; NULL: not asked for. Where they are unsound it is freed and
 * set to NULL: the sums of all rows report which row is wrong. So only QK_ERR_NOMEM is returned. */
QK_MUST_CHECK qk_status qk__add_positions(qk_accumulator **of, int64_t from, int64_t to,
                                          const qk_block *block, qk_error *err);

/* q_first and k_first: of these rows, a part of the rows behind q and k, which `pca` is of; NULL: they are not known
 * apart, and all numbers are NaN. Without such rows: 0, 1 and the category of all. Where too few other rows are left,
 * cosine is NaN and there is no category. */
QK_MUST_CHECK qk_status qk__pca_first_tokens(const qk_pca *pca, const qk_pca_settings *settings,
                                             const qk_moments *q, const qk_moments *k,
                                             const qk_moments *q_first,
                                             const qk_moments *k_first, qk_first_tokens *first,
                                             qk_error *err);

#endif
