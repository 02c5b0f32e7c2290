/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a layer, and chunks and parts made of them. */
#ifndef TESTS_STATE_LAYER_ROWS_H
#define TESTS_STATE_LAYER_ROWS_H

#include "unit.h"

#include "state/chunk_moments.h"
#include "state/part_moments.h"

enum { DIM = 11, HEADS = 3, ROWS = 200 };

static const int numbers[HEADS] = {0, 4, 9};
static const qk__part_shape queries = {.dim = DIM,
                                       .num_heads = HEADS,
                                       .heads = numbers,
                                       .max_groups = 3,
                                       .by_bucket = true,
                                       .pairs = 4,
                                       .interleaved = true};
static const qk__part_shape keys = {
    .dim = DIM, .num_heads = HEADS, .heads = numbers, .max_groups = 3};

static float x[HEADS][ROWS][DIM];
static int64_t position[ROWS], bucket[ROWS];

static inline qk__chunk_rows some_rows(size_t rows)
{
    return (qk__chunk_rows){.rows = rows,
                            .x = &x[0][0][0],
                            .head_stride = sizeof x[0] / sizeof(float),
                            .position = position,
                            .bucket = bucket};
}

static inline qk__chunk_moments *make_chunk(const qk__part_shape *shape,
                                            const qk__chunk_rows *rows)
{
    qk__chunk_moments *chunk;
    assert_int_equal(qk__chunk_moments_create(&chunk, NULL), QK_OK);
    assert_int_equal(qk__chunk_moments_compute(chunk, shape, rows, NULL), QK_OK);
    return chunk;
}

static inline qk__part_moments *make_part(const qk__part_shape *shape, int64_t first,
                                          int64_t texts)
{
    qk__part_moments *part;
    assert_int_equal(qk__part_moments_create(&part, shape, NULL), QK_OK);
    for (int64_t text = first; text < first + texts; text++) {
        const qk__chunk_rows rows = some_rows(ROWS - (size_t)text);
        qk__chunk_moments *chunk = make_chunk(shape, &rows);
        assert_int_equal(qk__part_moments_fold(part, text, true, chunk, NULL), QK_OK);
        qk__chunk_moments_free(&chunk);
    }
    return part;
}

static inline void fill_rows(void)
{
    uint64_t seed = 7;
    for (size_t r = 0; r < ROWS; r++) {
        position[r] = (int64_t)(r * r / 7);
        bucket[r] = position[r] / 1000 - 2;
        for (size_t h = 0; h < HEADS; h++)
            for (size_t i = 0; i < DIM; i++)
                x[h][r][i] = (float)(random_unit(&seed) + (double)i);
    }
}

#endif
