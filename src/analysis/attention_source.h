/* SPDX-License-Identifier: Apache-2.0 */
/* Where a run gets attention from, and whether it lists tokens. docs/behaviour.md#attention */
#ifndef QK_ANALYSIS_ATTENTION_SOURCE_H
#define QK_ANALYSIS_ATTENTION_SOURCE_H

#include "analysis/run.h"

/* After the capture is open, if attention is asked for. Without a source it is left out of the run's analyses; if
 * nothing else is asked for, QK_ERR_NOT_FOUND or QK_ERR_ARGUMENT with the remedy. */
QK_MUST_CHECK qk_status qk__find_attention(qk__run *run, qk_error *err);

/* After the capture is open: sets run->lists_tokens. */
QK_MUST_CHECK qk_status qk__find_tokens(qk__run *run, qk_error *err);

/* The factor of scores q.k of vectors of this dimension: from the settings, else from the capture. */
double qk__attention_scale(const qk__run *run, size_t dim);

/* Whether heads keep their rows for it. */
bool qk__needs_rows_for_attention(const qk__run *run);

#endif
