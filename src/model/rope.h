/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary position embedding: the frequencies of each kind of scaling and the factor on cos and
 * sin, in the float32 steps of the original, so that its rounding is ours. */
#ifndef QK_MODEL_ROPE_H
#define QK_MODEL_ROPE_H

#include <stdbool.h>
#include <stdint.h>

#include <qkscope/common.h>

typedef enum qk__rope_type {
    QK_ROPE_DEFAULT,
    QK_ROPE_LINEAR,
    QK_ROPE_DYNAMIC,
    QK_ROPE_LLAMA3,
    QK_ROPE_YARN,
    QK_ROPE_LONGROPE,
    QK_ROPE_PROPORTIONAL,
} qk__rope_type;

/* Parameters as config.json has them, defaults filled in; those of other types are 0. */
typedef struct qk__rope_settings {
    qk__rope_type type;
    double theta;
    int width;  /* dimensions rotated, even; the rest of a head pass unchanged */
    int turned; /* proportional: pairs that turn, the first ones; the others have frequency 0 */
    double factor;
    int64_t max_positions;                    /* dynamic, longrope: of the model */
    int64_t original;                         /* original_max_position_embeddings */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double beta_fast, beta_slow;              /* yarn */
    bool truncate;                            /* yarn: whole numbers as borders of the ramp */
    double attention_factor;                  /* on cos and sin */
    /* longrope: [width / 2], owned. llama3 may have short_factor instead of its numbers: what
     * each frequency is divided by. */
    float *short_factor, *long_factor;
} qk__rope_settings;

typedef struct qk__rope {
    const qk__rope_settings *settings;
    int pairs;              /* width / 2 */
    float attention_factor; /* cos and sin are multiplied by it, so q and k are too */
    bool needs_length;      /* the frequencies depend on the length of the sequence */
    float *frequencies;     /* [pairs] radians per token, of a short sequence */
} qk__rope;

/* "default", "linear", ...; false: no such type. */
bool qk__rope_type_parse(const char *name, qk__rope_type *type);
const char *qk__rope_type_name(qk__rope_type type);

/* settings must outlive the rope. */
QK_MUST_CHECK qk_status qk__rope_init(qk__rope *rope, const qk__rope_settings *settings,
                                      qk_error *err);
void qk__rope_free(qk__rope *rope);

/* Frequencies for a sequence of `length` tokens, [pairs]. */
void qk__rope_frequencies(const qk__rope *rope, int64_t length, float *frequencies);

/* cos and sin of positions first .. first+count-1, each [count][pairs]: of the float32 product
 * frequency * position, times attention_factor. */
void qk__rope_cos_sin(const qk__rope *rope, const float *frequencies, int64_t first,
                      int64_t count, float *cosines, float *sines);

#endif
