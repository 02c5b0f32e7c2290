/* SPDX-License-Identifier: Apache-2.0 */
/* How positions and heads are drawn. position_sample.c and head_sample.c are apart. */
#ifndef QK_SAMPLER_SAMPLER_H
#define QK_SAMPLER_SAMPLER_H

#include <qkscope/sink.h>

/* log_uniform, rate 1, buckets from 128 tokens, no cap. */
void qk__sampler_default(qk_sampler *sampler);

/* Seed of the stream of (text, layer, kind). */
uint64_t qk__sampler_seed(int64_t example_id, int layer, qk_kind kind);

/* Draws query heads without replacement as the original does: among the candidates in order of
 * layer and head, by Python's random.Random(seed).sample. Both arrays are
 * [num_layers][num_q_heads]; chosen is set where a head was drawn, cleared elsewhere. count >=
 * candidates takes all. Errors: QK_ERR_ARGUMENT (count < 1), QK_ERR_DEGENERATE (no candidates).
 */
QK_MUST_CHECK qk_status qk__sample_query_heads(const bool *candidates, int num_layers,
                                               int num_q_heads, int count, int64_t seed,
                                               bool *chosen, qk_error *err);

/* The key heads that those query heads attend to: key_heads is [num_layers][num_q_heads /
 * group], group > 0 the query heads per key head. Key heads are never drawn by themselves. */
void qk__key_heads_of(const bool *query_heads, int num_layers, int num_q_heads, int group,
                      bool *key_heads);

#endif
