/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that tests write into captures. */
#ifndef TESTS_CAPTURE_SAMPLE_H
#define TESTS_CAPTURE_SAMPLE_H

#include <qkscope/capture.h>

enum { ROWS = 40, DIM = 2 };

typedef struct sample {
    float vectors[ROWS * DIM];
    int64_t position[ROWS], bucket[ROWS], example[ROWS], window[ROWS];
    qk_block block;
} sample;

static inline void fill(sample *s, int seed)
{
    for (int i = 0; i < ROWS; i++) {
        s->vectors[i * DIM] = (float)(seed + i);
        s->vectors[i * DIM + 1] = -1.5f * (float)i;
        s->position[i] = seed * 100 + i;
        s->bucket[i] = i / 8;
        s->example[i] = seed;
        s->window[i] = i % 2 ? 128 : 0;
    }
    s->block = (qk_block){.rows = ROWS,
                          .dim = DIM,
                          .f32 = s->vectors,
                          .position = s->position,
                          .bucket = s->bucket,
                          .example = s->example,
                          .window = s->window};
}

#endif
