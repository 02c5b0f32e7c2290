/* SPDX-License-Identifier: Apache-2.0 */
/* What a run reads from the moments that its capture keeps in place of all rows, and which of its settings they cannot
 * serve. */
#ifndef QK_ANALYSIS_RUN_STATES_H
#define QK_ANALYSIS_RUN_STATES_H

#include "analysis/run.h"
#include "state/attention_file.h"

/* After the capture is open: lists its layers, and removes from the run's settings what the capture cannot serve.
 * Where nothing would be left, or a number would differ from what was asked for, QK_ERR_NOT_FOUND or QK_ERR_ARGUMENT
 * with the remedy. */
QK_MUST_CHECK qk_status qk__states_open(qk__run *run, qk_error *err);

/* Once the capture is known to keep sums of attention. */
QK_MUST_CHECK qk_status qk__states_open_attention(qk__run *run, qk_error *err);

/* Whether heads' files are read, or only moments. */
bool qk__states_need_rows(const qk__run *run);

/* Whether moments give the first tokens (QK_FIRST_TOKENS), or none of them are left. */
bool qk__states_tell_first(const qk__run *run);

/* What is known of a head of the run. Errors are of the head, or of its layer's file. From any thread. */
QK_MUST_CHECK qk_status qk__states_read(qk__run *run, const qk_head *head,
                                        qk__head_state **state, qk_error *err);

/* The sums of a query head's attention, which the caller clears in any case. From any thread. */
QK_MUST_CHECK qk_status qk__states_read_attention(qk__run *run, const qk_head *head,
                                                  qk__attention_head *attention, qk_error *err);

/* What manifest.json says of the moments: what was kept, and which columns are empty for that reason. NULL: no memory. */
json_t *qk__states_describe(const qk__run *run);

#endif
