/* SPDX-License-Identifier: Apache-2.0 */
/* Page compression, all codecs of the format by number. */
#ifndef QK_PARQUET_CODEC_H
#define QK_PARQUET_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/parquet.h>

#include "base/buffer.h"

/* Name of a codec number of the format, e.g. 6 -> "ZSTD"; NULL for numbers that the format
 * does not define. */
const char *qk__codec_name(int codec);

/* Scratch that some codecs keep between calls (a zstd context costs more to make than a
 * small page costs to decompress). Zero-initialise; one per thread. */
typedef struct qk__codec_state {
    void *zstd_decoder;
    void *zstd_encoder;
} qk__codec_state;
void qk__codec_state_free(qk__codec_state *state);

/* Decompresses src into exactly dst_size bytes; any other length is QK_ERR_MALFORMED. A
 * codec outside the subset (LZO, unknown numbers) is QK_ERR_UNSUPPORTED and named. */
QK_MUST_CHECK qk_status qk__codec_decompress(qk__codec_state *state, int codec,
                                             const uint8_t *src, size_t src_size, uint8_t *dst,
                                             size_t dst_size, qk_error *err);

/* Replaces the contents of out by the zstd form of src, at its default level. */
QK_MUST_CHECK qk_status qk__zstd_compress(qk__codec_state *state, const uint8_t *src,
                                          size_t src_size, qk__buffer *out, qk_error *err);

#endif
