/* SPDX-License-Identifier: Apache-2.0 */
/* What a head's rows say of lengths: how long its texts are, and the moments of rows below other lengths. A causal
 * model computes a vector from the tokens up to its own, so rows below position L are those of the texts cut
 * at L. */
#ifndef QK_ANALYSIS_HEAD_LENGTHS_H
#define QK_ANALYSIS_HEAD_LENGTHS_H

#include "analysis/run.h"
#include "stats/means.h"

/* Reads settings->lengths into run->lengths, ascending, each once. */
QK_MUST_CHECK qk_status qk__run_set_lengths(qk__run *run, qk_error *err);

typedef struct qk__text_end {
    int64_t text;
    double tokens; /* up to its last row */
} qk__text_end;

/* While rows are read. An object of zeros may be freed. */
typedef struct qk__length_sums {
    const qk__run *run;
    qk__text_end *ends;
    size_t num_ends, room;
    qk__range positions; /* of all rows */
    /* Of the rows from one length to the next: with more lengths a row is not added more often. NULL where
     * rows are unsound: who sums all rows tells. */
    qk_accumulator *part[QK_MOST_LENGTHS];
} qk__length_sums;
QK_MUST_CHECK qk_status qk__length_sums_begin(const qk__run *run, size_t dim,
                                              qk__length_sums *sums, qk_error *err);
QK_MUST_CHECK qk_status qk__length_sums_add(qk__length_sums *sums, const qk_block *block,
                                            qk_error *err);
/* mean: of the positions. below[i]: moments of all rows below length i; NULL from the first unsound part on. Without
 * texts only the longest is known. */
QK_MUST_CHECK qk_status qk__length_sums_end(qk__length_sums *sums, double mean,
                                            qk_text_lengths *lengths,
                                            qk_moments *below[QK_MOST_LENGTHS], qk_error *err);
void qk__length_sums_free(qk__length_sums *sums);

/* Where positions are known, and texts are not. */
qk_text_lengths qk__lengths_up_to(double first, double last, double mean);
/* Takes in what other rows of the same texts say: each knows a text up to its last row only. */
void qk__lengths_widen(qk_text_lengths *lengths, const qk_text_lengths *other);

/* Settles results->lengths once all heads are there: by the table of texts that lies in the capture,
 * else by their rows. */
QK_MUST_CHECK qk_status qk__find_lengths(qk__run *run, qk_error *err);

#endif
