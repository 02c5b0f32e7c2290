/* SPDX-License-Identifier: Apache-2.0 */
/* What examples.csv of a capture says of its examples: which are the same text (windows of it, or copies), how long
 * they are, and which tokens they have. Intervals and probabilities are over groups of texts; pairs of queries and
 * keys are within examples. */
#ifndef QK_ANALYSIS_TEXT_IDS_H
#define QK_ANALYSIS_TEXT_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/capture.h>

#include "base/buffer.h"
#include "stats/text_parts.h"

typedef struct qk__text_id {
    int64_t example, text;
    double tokens;  /* NaN: not told */
    uint64_t print; /* a checksum of the text's tokens; 0: not told */
} qk__text_id;

typedef struct qk__text_ids {
    qk__text_id *of; /* [count] by example */
    size_t count;
    size_t texts; /* how many texts they are of; 0: examples.csv does not say */
    /* some examples are of one text; else every example is a text, as far as is known */
    bool joined;
    bool unknown; /* there are windows, and nothing says which are of one text */
} qk__text_ids;

QK_MUST_CHECK qk_status qk__text_ids_read(qk__text_ids *ids, const qk_capture *capture,
                                          qk_error *err);
void qk__text_ids_free(qk__text_ids *ids);

/* The rows of a block with the ids of their texts in place of their examples, in `room` where any differ. */
QK_MUST_CHECK qk_status qk__text_ids_see(const qk__text_ids *ids, const qk_block *rows,
                                         qk__buffer *room, qk_block *seen, qk_error *err);

/* qk__text_parts_of_rows by texts, for intervals; none where texts are unknown. */
QK_MUST_CHECK qk_status qk__text_ids_parts(const qk__text_ids *ids, const qk_block *rows,
                                           qk__text_parts *parts, qk_error *err);

#endif
