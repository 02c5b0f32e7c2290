/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the hybrid of run-length and bit-packed runs that holds levels, dictionary indices
 * and some booleans.
 *
 * Every function takes up to n values and returns how many it took: fewer than n means that
 * the data ended (or were damaged) or, for the match functions, that the next value is not
 * the one asked for. */
#ifndef QK_PARQUET_RLE_H
#define QK_PARQUET_RLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The run being read is either `left` times `value` or, bit-packed at `bits`, `left` values
 * from number `index` on. */
typedef struct qk__rle {
    const uint8_t *next, *end; /* what follows the run */
    unsigned width;            /* bits a value, 0 to 32 */
    bool packed;
    uint32_t value;
    const uint8_t *bits;
    size_t bits_size;
    size_t index;
    size_t left; /* values of the run not yet taken */
} qk__rle;

void qk__rle_init(qk__rle *rle, const uint8_t *data, size_t size, unsigned width);

/* Makes sure that the current run has values left; false at the end of the data. */
bool qk__rle_run(qk__rle *rle);

/* Drops n <= rle->left values of the current run. */
static inline void qk__rle_advance(qk__rle *rle, size_t n)
{
    rle->index += n;
    rle->left -= n;
}

/* The value `ahead` places into what is left of a packed run. */
uint32_t qk__rle_packed_value(const qk__rle *rle, size_t ahead);

size_t qk__rle_read_u8(qk__rle *rle, uint8_t *out, size_t n);

/* Takes values while they equal `value`. */
size_t qk__rle_match(qk__rle *rle, uint32_t value, size_t n);

/* Takes repetition levels (width 1) while they spell rows of `row` values, that is a 0 and
 * row - 1 ones, over and over. *ones is the number of ones due before the next 0; it is
 * carried from call to call. */
size_t qk__rle_match_rows(qk__rle *rle, size_t row, size_t *ones, size_t n);

#endif
