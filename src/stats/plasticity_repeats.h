/* SPDX-License-Identifier: Apache-2.0 */
/* Plasticity without each group of texts in turn, for intervals.
 *
 * Where no query bucket has more pairs than the settings allow, everything is computed again. Else a
 * repetition has the pairs that were drawn of all texts, less its group's, and what the model of the other
 * queries changes in them is seen at some of the keys: few enough that every pair of them counts.
 *
 *     ap(-g) = mean of what was drawn but g's, by the model of all queries
 *              + mean over pairs of these keys but g's of (by the model without g - by that of all)
 *
 * docs/dev/validation.md has how near that is to the same with all pairs. */
#ifndef QK_STATS_PLASTICITY_REPEATS_H
#define QK_STATS_PLASTICITY_REPEATS_H

#include "stats/plasticity_core.h"

/* An object of zeros may be freed. */
typedef struct qk__plasticity_repeats {
    qk__ap_parts drawn;  /* by the analysis itself; group and groups are set before */
    qk__ap_parts some;   /* of some keys, by the model of all queries */
    qk__key_index *keys; /* these keys; NULL: everything is computed again */
} qk__plasticity_repeats;

/* After qk__plasticity_fit has filled repeats->drawn, with the same moments, input and sign. The keys and queries of
 * the input have groups. */
QK_MUST_CHECK qk_status qk__plasticity_repeats_open(qk__plasticity_repeats *repeats,
                                                    const qk_moments *q,
                                                    const qk__plasticity_input *in, int sign,
                                                    qk_error *err);
void qk__plasticity_repeats_free(qk__plasticity_repeats *repeats);

/* The numbers of qk__plasticity_profile without the group that queries and keys leave out; model: of the other
 * queries. */
QK_MUST_CHECK qk_status qk__plasticity_without(const qk__plasticity_repeats *repeats,
                                               const qk__query_model *model,
                                               const qk__plasticity_input *in,
                                               double *ap_overall, double fifths[QK_FIFTHS],
                                               qk_error *err);

#endif
