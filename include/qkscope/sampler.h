/* SPDX-License-Identifier: Apache-2.0 */
/* Which heads and which positions a capture keeps: bit for bit those of the original tool.
 * docs/sampling.md
 *
 *     qk_sampler sampler;
 *     qk_sampler_default(&sampler);
 *     sampler.type = QK_SAMPLER_UNIFORM;
 *     sampler.min_bucket_size = 32;
 *     if (qk_sampler_check(&sampler, &err) == QK_OK &&
 *         qk_sampler_positions(&sampler, id, layer, QK_QUERY, 0, tokens, &list, &count, &err)
 * == QK_OK)
 *         ...
 *     free(list);
 *
 * What is kept of a text depends on the text's id, the layer, the kind and the position alone:
 * not on the length of the text, on other texts or on which heads are captured. */
#ifndef QKSCOPE_SAMPLER_H
#define QKSCOPE_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/capture.h>
#include <qkscope/status.h>

QK_BEGIN_DECLS

/* ---- positions -------------------------------------------------------------------------- */

typedef enum qk_sampler_type {
    QK_SAMPLER_LOG_UNIFORM, /* base_rate positions or so in each bucket; buckets double in size
                             */
    QK_SAMPLER_UNIFORM,     /* the same with buckets of one size */
    QK_SAMPLER_ALL,         /* every position; buckets of one size */
} qk_sampler_type;

typedef struct qk_sampler {
    qk_sampler_type type;
    double base_rate;        /* positions a bucket, > 0 */
    int64_t min_bucket_size; /* in tokens, 1 to 2^40; LOG_UNIFORM rounds up to a power of two */
    int64_t max_rows;        /* per text, layer and kind; <= 0 = no cap */
} qk_sampler;

/* log_uniform, rate 1, buckets from 128 tokens, no cap. */
QK_API void qk_sampler_default(qk_sampler *sampler);

/* "log_uniform", "uniform" or "all", in upper or lower case; false: none of them. */
QK_API bool qk_sampler_type_parse(const char *name, qk_sampler_type *type);
QK_API const char *qk_sampler_type_name(qk_sampler_type type);

/* QK_ERR_ARGUMENT names the field that is out of range. The functions below take a sampler that
 * passes. */
QK_API QK_MUST_CHECK qk_status qk_sampler_check(const qk_sampler *sampler, qk_error *err);

/* The size that is used: min_bucket_size, rounded up by LOG_UNIFORM. */
QK_API int64_t qk_sampler_bucket_size(const qk_sampler *sampler);

/* The bucket of a position >= 0. */
QK_API int64_t qk_sampler_bucket(const qk_sampler *sampler, int64_t position);

/* Seed of the stream of (text, layer, kind). */
QK_API uint64_t qk_sampler_seed(int64_t example_id, int layer, qk_kind kind);

/* Positions kept of 0 .. count-1, in the order in which they are stored: ascending, unless
 * max_rows cut them. A list to free(); NULL where none is kept. first_head: the lowest captured
 * head of the layer and kind, which decides what max_rows cuts. */
QK_API QK_MUST_CHECK qk_status qk_sampler_positions(const qk_sampler *sampler,
                                                    int64_t example_id, int layer, qk_kind kind,
                                                    int first_head, int64_t count,
                                                    int64_t **positions, size_t *num_positions,
                                                    qk_error *err);

/* ---- ids of texts ----------------------------------------------------------------------- */

/* Ids are integers. One that fits 64 bits is itself; true and false are 1 and 0; a number with
 * a fraction, a string, or what else a data set may call its texts is hashed. Of null, hash
 * "None". */

/* The hash of a text, whatever is in it ("17" is a text): BLAKE2b of 8 bytes, little-endian. */
QK_API int64_t qk_example_id_of_text(const char *text, size_t size);

/* Of a floating-point number: itself if whole, else the hash of how Python writes it. */
QK_API int64_t qk_example_id_of_number(double number);

/* ---- heads ------------------------------------------------------------------------------ */

/* Draws query heads without replacement as the original does: among the candidates in order of
 * layer and head, by Python's random.Random(seed).sample. Both arrays are
 * [num_layers][num_q_heads]; chosen is set where a head was drawn, cleared elsewhere. count >=
 * candidates takes all. Errors: QK_ERR_ARGUMENT (count < 1), QK_ERR_DEGENERATE (no candidates).
 */
QK_API QK_MUST_CHECK qk_status qk_sample_query_heads(const bool *candidates, int num_layers,
                                                     int num_q_heads, int count, int64_t seed,
                                                     bool *chosen, qk_error *err);

/* The key heads that those query heads attend to: key_heads is [num_layers][num_q_heads /
 * group], group > 0 the query heads per key head. Key heads are never drawn by themselves. */
QK_API void qk_key_heads_of(const bool *query_heads, int num_layers, int num_q_heads, int group,
                            bool *key_heads);

QK_END_DECLS

#endif
