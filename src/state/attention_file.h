/* SPDX-License-Identifier: Apache-2.0 */
/* Files of sums of attention (layer_file.h), head by head. */
#ifndef QK_STATE_ATTENTION_FILE_H
#define QK_STATE_ATTENTION_FILE_H

#include "state/layer_file.h"
#include "stats/attention_numbers.h"

/* As qk__layer_file_open; a file of moments, or of other sums than <qkscope/attention.h> has, is
 * QK_ERR_MALFORMED. */
QK_MUST_CHECK qk_status qk__attention_file_open(qk__layer_file **file, const char *path,
                                                qk_error *err);

/* Sums of the query head at a place, by the groups and buckets that have rows of it. Messages name
 * file and head. */
QK_MUST_CHECK qk_status qk__attention_file_head(const qk__layer_file *file, size_t place,
                                                qk__attention_head *head, qk_error *err);
void qk__attention_head_clear(qk__attention_head *head);

#endif
