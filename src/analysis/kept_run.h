/* SPDX-License-Identifier: Apache-2.0 */
/* An analysis (analysis.c) that keeps of each head what a comparison needs and no table has: its
 * repetitions and, from head_spaces.c, its leading axes. */
#ifndef QK_ANALYSIS_KEPT_RUN_H
#define QK_ANALYSIS_KEPT_RUN_H

#include <jansson.h>

#include <qkscope/analysis.h>

#include "stats/kept_head.h"
#include "stats/text_parts.h"

/* Of a run. The second is an array of texts, in an order that no thread decides. */
typedef struct qk__kept_run {
    qk__kept_head *heads; /* [heads of the results] */
    json_t *warnings;     /* NULL: no memory for one */
} qk__kept_run;

/* As qk_analysis_run, of settings with `ci`; keeps of each head the spaces of `components` components
 * (1 .. QK_MOST_SUBSPACE). Release *kept with qk__kept_heads_free and json_decref. */
QK_MUST_CHECK qk_status qk__analysis_run_keeping(const qk_analysis_settings *settings,
                                                 size_t components,
                                                 qk_analysis_results **results,
                                                 qk__kept_run *kept, qk_error *err);

/* The leading axes of a head, and how far those of halves of its texts agree. */
QK_MUST_CHECK qk_status qk__keep_spaces(const qk_moments *q, const qk_moments *k,
                                        const qk__text_parts *q_parts,
                                        const qk__text_parts *k_parts, size_t components,
                                        qk__kept_head *kept, qk_error *err);

#endif
