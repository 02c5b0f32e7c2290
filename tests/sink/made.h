/* SPDX-License-Identifier: Apache-2.0 */
/* A model and texts that are made up: what tests put into a sink. test_sink.py has the same in Python. */
#ifndef TESTS_SINK_MADE_H
#define TESTS_SINK_MADE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/sink.h>

enum { LAYERS = 3, Q_HEADS = 4, K_HEADS = 2, DIM = 12 };

/* Of layer 1 no key is captured, of layer 2 two queries are not. */
static const bool made_q_heads[LAYERS * Q_HEADS] = {true, true, true,  true,  false, false,
                                                    true, true, false, false, true,  true};
static const bool made_k_heads[LAYERS * K_HEADS] = {true, true, false, false, true, false};
static const int64_t made_windows[LAYERS] = {0, 512, 0};
static const double made_frequencies[DIM / 2] = {1, 0.5, 0.25, 0.125, 0.0625, 0};
static const qk_frequencies made_rotation[LAYERS] = {
    {made_frequencies, DIM / 2}, {NULL, 0}, {made_frequencies, DIM / 2}};

static inline uint64_t made_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Some are empty, some shorter and some longer than a chunk of 256 rows. */
static inline int64_t made_tokens(int64_t text)
{
    static const int64_t tokens[] = {300, 0, 1, 700, 40, 256, 513, 7};
    return tokens[text % 8];
}

static inline int64_t made_example(int64_t text)
{
    return text * 1001 - 4000;
}

/* -127/64 .. 127/64 in steps of 1/64, which float16 and bfloat16 hold. */
static inline float made_value(int64_t text, int layer, qk_kind kind, bool before, int head,
                               int64_t position, size_t i)
{
    uint64_t place =
        ((((uint64_t)text * LAYERS + (uint64_t)layer) * 2 + (uint64_t)kind) * 2 + before) * 64 +
        (uint64_t)head;
    uint64_t hash = made_mix((place << 32 | (uint64_t)position) * 64 + i);
    return (float)((int)(hash % 255) - 127) / 64;
}

static inline void made_settings(qk_sink_settings *s, const char *output, int64_t texts)
{
    qk_sink_settings_default(s);
    s->output = output;
    s->model_name = "made up";
    s->num_layers = LAYERS;
    s->num_q_heads = Q_HEADS;
    s->num_k_heads = K_HEADS;
    s->head_dim = DIM;
    s->q_heads = made_q_heads;
    s->k_heads = made_k_heads;
    s->windows = made_windows;
    s->frequencies = made_rotation;
    s->num_texts = texts;
    s->keep.groups = 4;
    s->sampler.min_bucket_size = 64;
    s->context.threads = 1;
}

#endif
