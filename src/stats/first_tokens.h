/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of first tokens among others, for qk_pca_first_tokens. */
#ifndef QK_STATS_FIRST_TOKENS_H
#define QK_STATS_FIRST_TOKENS_H

#include <qkscope/stats.h>

/* Adds the rows of positions 0 to QK_FIRST_TOKENS - 1 to *first; NULL: nobody asks for them. Where they are
 * unsound it is freed and NULL: who sums all rows finds what is wrong, and in which row. So no other
 * failure than QK_ERR_NOMEM is told. */
QK_MUST_CHECK qk_status qk__add_first_tokens(qk_accumulator **first, const qk_block *block,
                                             qk_error *err);

#endif
