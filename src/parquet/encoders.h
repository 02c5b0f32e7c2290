/* SPDX-License-Identifier: Apache-2.0 */
/* Encoders of levels and values; each appends to a buffer. */
#ifndef QK_PARQUET_ENCODERS_H
#define QK_PARQUET_ENCODERS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <qkscope/common.h>

#include "base/buffer.h"

/* Value i of integers of 4 or 8 bytes. */
static inline int64_t qk__load_integer(const uint8_t *values, size_t i, size_t value_size)
{
    int64_t wide;
    int32_t narrow;
    if (value_size == sizeof wide) {
        memcpy(&wide, values + i * sizeof wide, sizeof wide);
        return wide;
    }
    memcpy(&narrow, values + i * sizeof narrow, sizeof narrow);
    return narrow;
}

/* The RLE / bit-packing hybrid without a length in front; bit_width from 1 to 16. */
QK_MUST_CHECK qk_status qk__encode_run(qk__buffer *out, uint16_t value, size_t count,
                                       int bit_width, qk_error *err);
QK_MUST_CHECK qk_status qk__encode_hybrid(qk__buffer *out, const uint16_t *values, size_t count,
                                          int bit_width, qk_error *err);

/* BYTE_STREAM_SPLIT of values of 4 bytes. */
QK_MUST_CHECK qk_status qk__encode_split(qk__buffer *out, const uint8_t *values, size_t count,
                                         qk_error *err);

/* DELTA_BINARY_PACKED of values of 4 or 8 bytes. */
QK_MUST_CHECK qk_status qk__encode_delta(qk__buffer *out, const uint8_t *values, size_t count,
                                         size_t value_size, qk_error *err);

#endif
