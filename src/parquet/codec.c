/* SPDX-License-Identifier: Apache-2.0 */
/* Page compression: one table row per codec of the format. */
#include "parquet/codec.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include <brotli/decode.h>
#include <lz4.h>
#include <lz4frame.h>
#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>

#include "base/error.h"
#include "parquet/format.h"

enum { GZIP_OR_ZLIB_WINDOW = 15 + 32 }; /* whichever wrapper is there */

/* False for bytes that are not what the codec writes, or that do not make exactly dst_size
 * bytes. Nothing is written outside dst[0 .. dst_size). */
typedef bool decompress_fn(const uint8_t *src, size_t src_size, uint8_t *dst, size_t dst_size);

/* ---- Snappy ----------------------------------------------------------------------------- */

static bool snappy_read(const uint8_t *src, size_t src_size, uint8_t *dst, size_t dst_size)
{
    size_t length;
    if (snappy_uncompressed_length((const char *)src, src_size, &length) != SNAPPY_OK ||
        length != dst_size)
        return false;
    return snappy_uncompress((const char *)src, src_size, (char *)dst, &length) == SNAPPY_OK;
}

/* ---- gzip ------------------------------------------------------------------------------- */

/* Members may follow each other: some writers flush one per block. */
static bool gzip_read(const uint8_t *src, size_t src_size, uint8_t *dst, size_t dst_size)
{
    z_stream stream = {0};
    if (inflateInit2(&stream, GZIP_OR_ZLIB_WINDOW) != Z_OK)
        return false;
    /* zlib takes its input through a pointer to non-const unless built otherwise. */
    memcpy(&stream.next_in, &src, sizeof src);
    stream.avail_in = (uInt)src_size;
    stream.next_out = dst;
    stream.avail_out = (uInt)dst_size;
    int code = inflate(&stream, Z_FINISH);
    while (code == Z_STREAM_END && stream.avail_in > 0 && inflateReset(&stream) == Z_OK)
        code = inflate(&stream, Z_FINISH);
    bool whole = code == Z_STREAM_END && stream.avail_in == 0 && stream.avail_out == 0;
    inflateEnd(&stream);
    return whole;
}

/* ---- Brotli ----------------------------------------------------------------------------- */

static bool brotli_read(const uint8_t *src, size_t src_size, uint8_t *dst, size_t dst_size)
{
    size_t length = dst_size;
    return BrotliDecoderDecompress(src_size, src, &length, dst) ==
               BROTLI_DECODER_RESULT_SUCCESS &&
           length == dst_size;
}

/* ---- LZ4 -------------------------------------------------------------------------------- */

static bool lz4_raw_read(const uint8_t *src, size_t src_size, uint8_t *dst, size_t dst_size)
{
    int length =
        LZ4_decompress_safe((const char *)src, (char *)dst, (int)src_size, (int)dst_size);
    return length >= 0 && (size_t)length == dst_size;
}

static uint32_t read_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Hadoop's framing: blocks of [size][compressed size][data], the last two repeated until
 * the block is whole; numbers are big-endian. */
static bool lz4_hadoop_read(const uint8_t *src, size_t src_size, uint8_t *dst, size_t dst_size)
{
    size_t in = 0;
    size_t out = 0;
    while (src_size - in >= 4) {
        size_t block = read_be32(src + in);
        in += 4;
        if (block > dst_size - out)
            return false;
        while (block > 0) {
            if (src_size - in < 4)
                return false;
            size_t size = read_be32(src + in);
            in += 4;
            if (size > src_size - in)
                return false;
            int length = LZ4_decompress_safe((const char *)src + in, (char *)dst + out,
                                             (int)size, (int)block);
            if (length <= 0)
                return false;
            in += size;
            out += (size_t)length;
            block -= (size_t)length;
        }
    }
    return in == src_size && out == dst_size;
}

static bool lz4_frame_read(const uint8_t *src, size_t src_size, uint8_t *dst, size_t dst_size)
{
    LZ4F_dctx *context;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)))
        return false;
    size_t in = 0;
    size_t out = 0;
    size_t hint = 1;
    while (in < src_size && hint != 0) {
        size_t read = src_size - in;
        size_t written = dst_size - out;
        hint = LZ4F_decompress(context, dst + out, &written, src + in, &read, NULL);
        if (LZ4F_isError(hint) || (read == 0 && written == 0))
            break;
        in += read;
        out += written;
    }
    LZ4F_freeDecompressionContext(context);
    return hint == 0 && in == src_size && out == dst_size;
}

/* Codec 5 was never specified: Hadoop writes its framing, old Arrow releases wrote LZ4
 * frames or bare blocks. No two of them accept the same bytes at the same length. */
static bool lz4_legacy_read(const uint8_t *src, size_t src_size, uint8_t *dst, size_t dst_size)
{
    return lz4_hadoop_read(src, src_size, dst, dst_size) ||
           lz4_frame_read(src, src_size, dst, dst_size) ||
           lz4_raw_read(src, src_size, dst, dst_size);
}

/* ---- zstd, the one with contexts -------------------------------------------------------- */

static qk_status zstd_read(qk__codec_state *state, const uint8_t *src, size_t src_size,
                           uint8_t *dst, size_t dst_size, bool *whole, qk_error *err)
{
    if (!state->zstd_decoder)
        state->zstd_decoder = ZSTD_createDCtx();
    if (!state->zstd_decoder)
        return qk__nomem(err);
    size_t length = ZSTD_decompressDCtx(state->zstd_decoder, dst, dst_size, src, src_size);
    *whole = !ZSTD_isError(length) && length == dst_size;
    return QK_OK;
}

void qk__codec_state_free(qk__codec_state *state)
{
    ZSTD_freeDCtx(state->zstd_decoder);
    ZSTD_freeCCtx(state->zstd_encoder);
    *state = (qk__codec_state){0};
}

/* ---- the table -------------------------------------------------------------------------- */

/* What a row lacks, qk__codec_decompress does by itself or refuses. */
static const struct {
    const char *name;
    decompress_fn *decompress;
} codecs[] = {
    [CODEC_UNCOMPRESSED] = {"UNCOMPRESSED", NULL},
    [CODEC_SNAPPY] = {"SNAPPY", snappy_read},
    [CODEC_GZIP] = {"GZIP", gzip_read},
    [CODEC_LZO] = {"LZO", NULL},
    [CODEC_BROTLI] = {"BROTLI", brotli_read},
    [CODEC_LZ4_HADOOP] = {"LZ4", lz4_legacy_read},
    [CODEC_ZSTD] = {"ZSTD", NULL},
    [CODEC_LZ4_RAW] = {"LZ4_RAW", lz4_raw_read},
};

const char *qk__codec_name(int codec)
{
    if (codec < 0 || (size_t)codec >= sizeof codecs / sizeof *codecs)
        return NULL;
    return codecs[codec].name;
}

/* The format counts page bytes in int32; so do LZ4's and zlib's interfaces. */
static qk_status check_size(size_t size, qk_error *err)
{
    if (size > INT32_MAX)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "page of %zu bytes, more than the format allows", size);
    return QK_OK;
}

static qk_status fail_unsupported(int codec, qk_error *err)
{
    const char *name = qk__codec_name(codec);
    if (!name)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "unknown compression codec %d", codec);
    return qk__fail(err, QK_ERR_UNSUPPORTED, "cannot decompress %s pages", name);
}

qk_status qk__codec_decompress(qk__codec_state *state, int codec, const uint8_t *src,
                               size_t src_size, uint8_t *dst, size_t dst_size, qk_error *err)
{
    static const uint8_t nothing[1];
    uint8_t nowhere[1];
    QK_TRY(check_size(src_size, err));
    QK_TRY(check_size(dst_size, err));
    bool whole = src_size == dst_size;
    if (codec == CODEC_UNCOMPRESSED) {
        if (whole && dst_size > 0)
            memcpy(dst, src, dst_size);
    } else if (!qk__codec_name(codec) || codec == CODEC_LZO) {
        return fail_unsupported(codec, err);
    } else if (src_size > 0 || dst_size > 0) {
        /* Some writers store a page without values as no bytes at all: nothing to do then.
         * The libraries want a valid pointer even for an empty side. */
        src = src_size > 0 ? src : nothing;
        dst = dst_size > 0 ? dst : nowhere;
        if (codec == CODEC_ZSTD)
            QK_TRY(zstd_read(state, src, src_size, dst, dst_size, &whole, err));
        else
            whole = codecs[codec].decompress(src, src_size, dst, dst_size);
    }
    if (!whole)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "damaged %s page: %zu bytes do not decompress to the promised %zu",
                        qk__codec_name(codec), src_size, dst_size);
    return QK_OK;
}

qk_status qk__zstd_compress(qk__codec_state *state, const uint8_t *src, size_t src_size,
                            qk__buffer *out, qk_error *err)
{
    out->size = 0;
    QK_TRY(check_size(src_size, err));
    QK_TRY(qk__buffer_reserve(out, ZSTD_compressBound(src_size), err));
    if (!state->zstd_encoder)
        state->zstd_encoder = ZSTD_createCCtx();
    if (!state->zstd_encoder)
        return qk__nomem(err);
    size_t size = ZSTD_compressCCtx(state->zstd_encoder, out->data, out->capacity, src,
                                    src_size, ZSTD_CLEVEL_DEFAULT);
    if (ZSTD_isError(size))
        return qk__fail(err, QK_ERR_IO, "zstd cannot compress a page of %zu bytes", src_size);
    out->size = size;
    return QK_OK;
}
