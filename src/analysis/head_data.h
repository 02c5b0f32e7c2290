/* SPDX-License-Identifier: Apache-2.0 */
/* What a run holds of a head while it analyses it: its moments, and its rows where an analysis needs them again. */
#ifndef QK_ANALYSIS_HEAD_DATA_H
#define QK_ANALYSIS_HEAD_DATA_H

#include <qkscope/stats.h>

#include "analysis/run.h"
#include "stats/text_parts.h"

typedef struct qk__head_data {
    const qk_head *head;
    qk_moments *moments;
    qk_moments *first; /* of its first tokens; NULL: not asked for, or not known */
    qk_moments *below[QK_MOST_LENGTHS]; /* of rows below each of the run's lengths */
    qk__text_moments *texts; /* not for a kind by itself; where the files have texts */
    size_t num_texts;        /* 0: the files do not say */
    qk_text_lengths lengths; /* from its rows */
    qk_block rows;           /* rows is 0 unless the run keeps rows, which are then here: */
    void *vectors;
    /* 4 a row: all positions, then buckets, examples, windows; of keys also tokens, where they are listed */
    int64_t *integers;
    const int64_t *tokens; /* numbers of strings; NULL: they are not listed */
    qk__token_strings strings;
    qk__text_parts parts;  /* moments by groups of texts, only with intervals */
    qk__head_state *state; /* where its moments were read from; NULL: from all its rows */
    int sign;              /* of its rows as keys (qk__key_sign), 1 where it is not needed */
    int64_t bytes;         /* of the head's files */
} qk__head_data;

/* Reads a head, each file once: moments, rows if the settings need them, fingerprints. A message names file and
 * column. Warns when all positions are equal. On failure data holds nothing but bytes. */
QK_MUST_CHECK qk_status qk__head_data_read(qk__run *run, int worker, const qk_head *head,
                                           qk__head_data *data, qk_error *err);
void qk__head_data_free(qk__run *run, qk__head_data *data);

/* Gives the head's rows (vector and position) to `see`, in order, in one block or many: from memory if they were kept,
 * else from the files again. */
typedef qk_status qk__see_rows_fn(void *context, const qk_block *block, qk_error *err);
QK_MUST_CHECK qk_status qk__head_data_scan(qk__run *run, int worker, const qk__head_data *data,
                                           qk__see_rows_fn *see, void *context, qk_error *err);

#endif
