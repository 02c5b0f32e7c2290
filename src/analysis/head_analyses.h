/* SPDX-License-Identifier: Apache-2.0 */
/* The analyses of one query head with its key head: analyse_head.c, which leads, head_attention.c, head_tokens.c and
 * intervals.c. */
#ifndef QK_ANALYSIS_HEAD_ANALYSES_H
#define QK_ANALYSIS_HEAD_ANALYSES_H

#include "analysis/head_data.h"
#include "stats/plasticity_repeats.h"
#include "stats/token_lists.h"

/* What is computed once of a key head, for all its query heads. */
typedef struct qk__key_data {
    qk__head_data data;
    qk__key_index *index; /* the keys by example; NULL without plasticity */
    /* position from all dimensions; NaN where the texts are not kept */
    qk_multiple_correlation told;
    qk__token_keys tokens; /* zeros unless they are listed */
} qk__key_data;

QK_MUST_CHECK qk_status qk__key_data_read(qk__run *run, int worker, const qk_head *head,
                                          qk__key_data *keys, qk_error *err);
void qk__key_data_free(qk__run *run, qk__key_data *keys);

/* The groups of texts that intervals leave out in turn (intervals.c), and what plasticity keeps for them. An object of
 * zeros may be freed. */
typedef struct qk__head_repeats {
    qk__text_labels labels;
    qk__text_parts q_parts, k_parts; /* groups are joined where labels have fewer bits */
    const qk__text_parts *q_of, *k_of;
    uint32_t *group_of_query, *group_of_key; /* of each row */
    qk__plasticity_repeats plasticity;
} qk__head_repeats;

/* After a failure there are no groups, so that nothing is repeated. */
QK_MUST_CHECK qk_status qk__head_repeats_open(qk__head_repeats *repeats,
                                              const qk__text_ids *ids,
                                              const qk__head_data *queries,
                                              const qk__key_data *keys, qk_error *err);
void qk__head_repeats_free(qk__head_repeats *repeats);

/* Runs all analyses that are asked for and puts their results and failures into entry i of the results. A failure does
 * not stop the others; after run->cancelled is set, results are incomplete. */
void qk__analyse_head(qk__run *run, int worker, size_t i, const qk__head_data *queries,
                      const qk__key_data *keys);

/* Reads the rows a second time for omega (if first is 0) and for planes first .. first + count - 1 of a fitted
 * rotation. */
QK_MUST_CHECK qk_status qk__scan_rotation(qk__run *run, int worker, const qk__head_data *q,
                                          const qk__head_data *k, qk_rotation *rotation,
                                          size_t first, size_t count, qk_error *err);

/* What a head attends to, where the run has attention; after its rotation (head_attention.c). */
QK_MUST_CHECK qk_status qk__analyse_attention(qk__run *run, int worker, qk_head_results *head,
                                              const qk__head_data *queries,
                                              const qk__key_data *keys,
                                              qk__head_repeats *repeats, qk_error *err);

/* Its tokens, where the run lists them; and what that needs of its keys (head_tokens.c). */
QK_MUST_CHECK qk_status qk__analyse_tokens(qk__run *run, int worker, qk_head_results *head,
                                           const qk__head_data *queries,
                                           const qk__key_data *keys, qk__head_repeats *repeats,
                                           qk_error *err);
QK_MUST_CHECK qk_status qk__key_data_list_tokens(const qk__run *run, qk__key_data *keys,
                                                 qk_error *err);

/* Intervals and repetitions of a head whose analyses are done (intervals.c). */
QK_MUST_CHECK qk_status qk__head_intervals(qk__run *run, qk_head_results *results,
                                           const qk__head_data *queries,
                                           const qk__key_data *keys, qk__head_repeats *repeats,
                                           qk_error *err);

#endif
