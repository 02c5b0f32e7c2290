/* SPDX-License-Identifier: Apache-2.0 */
/* Reading DELTA_BINARY_PACKED integers: blocks of miniblocks of bit-packed differences. */
#ifndef QK_PARQUET_DELTA_H
#define QK_PARQUET_DELTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QK_DELTA_BATCH = 32 }; /* miniblocks are a multiple of this many values */

typedef struct qk__delta {
    const uint8_t *next, *end;
    size_t total;      /* values in all */
    size_t left;       /* values not yet given out */
    size_t miniblocks; /* per block */
    size_t miniblock_values;
    uint64_t last; /* value before the next one */
    bool first;    /* the next value is the one in the header */
    /* current block */
    uint64_t min_delta;
    const uint8_t *widths; /* one byte a miniblock */
    size_t miniblock;      /* current one */
    size_t in_miniblock;   /* values of it not yet unpacked */
    /* unpacked differences */
    uint64_t batch[QK_DELTA_BATCH];
    size_t batch_next, batch_size;
} qk__delta;

/* Reads the header; false if it breaks the rules of the encoding. */
bool qk__delta_init(qk__delta *delta, const uint8_t *data, size_t size);

/* Gives up to n values and returns how many: fewer at the end, or where the data are damaged.
 * Sums are taken modulo 2^64, so the low half is exact for a column of 32 bits. */
size_t qk__delta_read(qk__delta *delta, uint64_t *out, size_t n);

/* The first byte behind all values, before any is read; NULL if the data end sooner. */
const uint8_t *qk__delta_end(const qk__delta *delta);

#endif
