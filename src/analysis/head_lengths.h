/* SPDX-License-Identifier: Apache-2.0 */
/* What a head's rows say of lengths: how long its texts are, and the moments of rows below other lengths. A causal
 * model computes a vector from the tokens up to its own: so rows below position L are those of the texts cut at L. */
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

/* Sums while rows are read. An object of zeros may be freed. */
typedef struct qk__length_sums {
    const qk__run *run;
    qk__text_end *ends;
    size_t num_ends, room;
    qk__range positions; /* of all rows */
    /* Sums of the rows from one length to the next: so more lengths do not add a row more often. NULL where
     * rows are unsound, which the sums of all rows report. */
    qk_accumulator *part[QK_MOST_LENGTHS];
} qk__length_sums;
QK_MUST_CHECK qk_status qk__length_sums_begin(const qk__run *run, size_t dim,
                                              qk__length_sums *sums, qk_error *err);
QK_MUST_CHECK qk_status qk__length_sums_add(qk__length_sums *sums, const qk_block *block,
                                            qk_error *err);
/* mean: of the positions. below[i]: moments of all rows below length i; NULL from the first unsound part on. Without
 * texts only the longest text is known. */
QK_MUST_CHECK qk_status qk__length_sums_end(qk__length_sums *sums, double mean,
                                            qk_text_lengths *lengths,
                                            qk_moments *below[QK_MOST_LENGTHS], qk_error *err);
void qk__length_sums_free(qk__length_sums *sums);

/* Where positions are known, and texts are not. */
qk_text_lengths qk__lengths_up_to(double first, double last, double mean);
/* Takes in the lengths from other rows of the same texts: rows show a text up to the last of them. */
void qk__lengths_widen(qk_text_lengths *lengths, const qk_text_lengths *other);

/* Sets results->lengths when all heads are there: from the table of texts in the capture, else from rows. */
QK_MUST_CHECK qk_status qk__find_lengths(qk__run *run, qk_error *err);

#endif
