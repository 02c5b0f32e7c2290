/* SPDX-License-Identifier: Apache-2.0 */
/* Page compression: one table row per codec of the format. */
#include "parquet/codec.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include <brotli/decode.h>
#include <brotli/encode.h>
#include <lz4.h>
#include <lz4frame.h>
#include <lz4hc.h>
#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>

#include "base/error.h"
#include "parquet/format.h"

enum {
    /* Brotli's own default, 11, takes a minute where 5 takes a second. */
    BROTLI_LEVEL = 5,
    GZIP_WINDOW = 15 + 16,         /* write the gzip wrapper */
    GZIP_OR_ZLIB_WINDOW = 15 + 32, /* read whichever wrapper is there */
    LZ4_FAST_LEVEL = 1,
};

/* False for bytes that are not what the codec writes, or that do not make exactly dst_size
 * bytes. Nothing is written outside dst[0 .. dst_size). */
typedef bool decompress_fn(const uint8_t *src, size_t src_size, uint8_t *dst, size_t dst_size);

/* Writes at most capacity bytes to dst and returns how many, 0 on failure. */
typedef size_t compress_fn(int level, const uint8_t *src, size_t src_size, uint8_t *dst,
                           size_t capacity);
typedef size_t bound_fn(size_t src_size);

/* ---- Snappy ----------------------------------------------------------------------------- */

static bool snappy_read(const uint8_t *src, size_t src_size, uint8_t *dst, size_t dst_size)
{
    size_t length;
    if (snappy_uncompressed_length((const char *)src, src_size, &length) != SNAPPY_OK ||
        length != dst_size)
        return false;
    return snappy_uncompress((const char *)src, src_size, (char *)dst, &length) == SNAPPY_OK;
}

static size_t snappy_write(int level, const uint8_t *src, size_t src_size, uint8_t *dst,
                           size_t capacity)
{
    (void)level;
    size_t length = capacity;
    if (snappy_compress((const char *)src, src_size, (char *)dst, &length) != SNAPPY_OK)
        return 0;
    return length;
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

static size_t gzip_bound(size_t src_size)
{
    return compressBound((uLong)src_size) + 32; /* the wrapper is longer than zlib's */
}

static size_t gzip_write(int level, const uint8_t *src, size_t src_size, uint8_t *dst,
                         size_t capacity)
{
    z_stream stream = {0};
    if (deflateInit2(&stream, level == 0 ? Z_DEFAULT_COMPRESSION : level, Z_DEFLATED,
                     GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return 0;
    memcpy(&stream.next_in, &src, sizeof src);
    stream.avail_in = (uInt)src_size;
    stream.next_out = dst;
    stream.avail_out = (uInt)capacity;
    int code = deflate(&stream, Z_FINISH);
    size_t length = code == Z_STREAM_END ? (size_t)stream.total_out : 0;
    deflateEnd(&stream);
    return length;
}

/* ---- Brotli ----------------------------------------------------------------------------- */

static bool brotli_read(const uint8_t *src, size_t src_size, uint8_t *dst, size_t dst_size)
{
    size_t length = dst_size;
    return BrotliDecoderDecompress(src_size, src, &length, dst) ==
               BROTLI_DECODER_RESULT_SUCCESS &&
           length == dst_size;
}

static size_t brotli_bound(size_t src_size)
{
    return BrotliEncoderMaxCompressedSize(src_size);
}

static size_t brotli_write(int level, const uint8_t *src, size_t src_size, uint8_t *dst,
                           size_t capacity)
{
    size_t length = capacity;
    if (!BrotliEncoderCompress(level == 0 ? BROTLI_LEVEL : level, BROTLI_DEFAULT_WINDOW,
                               BROTLI_MODE_GENERIC, src_size, src, &length, dst))
        return 0;
    return length;
}

/* ---- LZ4 -------------------------------------------------------------------------------- */

static bool lz4_raw_read(const uint8_t *src, size_t src_size, uint8_t *dst, size_t dst_size)
{
    int length =
        LZ4_decompress_safe((const char *)src, (char *)dst, (int)src_size, (int)dst_size);
    return length >= 0 && (size_t)length == dst_size;
}

static size_t lz4_bound(size_t src_size)
{
    return (size_t)LZ4_compressBound((int)src_size);
}

static size_t lz4_raw_write(int level, const uint8_t *src, size_t src_size, uint8_t *dst,
                            size_t capacity)
{
    int length = level <= LZ4_FAST_LEVEL ? LZ4_compress_default((const char *)src, (char *)dst,
                                                                (int)src_size, (int)capacity)
                                         : LZ4_compress_HC((const char *)src, (char *)dst,
                                                           (int)src_size, (int)capacity, level);
    return length > 0 ? (size_t)length : 0;
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

static qk_status zstd_write(qk__codec_state *state, int level, const uint8_t *src,
                            size_t src_size, uint8_t *dst, size_t capacity, size_t *length,
                            qk_error *err)
{
    if (!state->zstd_encoder)
        state->zstd_encoder = ZSTD_createCCtx();
    if (!state->zstd_encoder)
        return qk__nomem(err);
    size_t size = ZSTD_compressCCtx(state->zstd_encoder, dst, capacity, src, src_size,
                                    level == 0 ? ZSTD_CLEVEL_DEFAULT : level);
    *length = ZSTD_isError(size) ? 0 : size;
    return QK_OK;
}

void qk__codec_state_free(qk__codec_state *state)
{
    ZSTD_freeDCtx(state->zstd_decoder);
    ZSTD_freeCCtx(state->zstd_encoder);
    *state = (qk__codec_state){0};
}

/* ---- the table -------------------------------------------------------------------------- */

typedef struct codec_row {
    const char *name;
    int max_level; /* levels are 1 .. max_level; 0: the codec has none */
    decompress_fn *decompress;
    bound_fn *bound;
    compress_fn *compress;
} codec_row;

/* What a row lacks, the two calls below do by themselves or refuse. */
static const codec_row codecs[] = {
    [QK_PARQUET_UNCOMPRESSED] = {.name = "UNCOMPRESSED"},
    [QK_PARQUET_SNAPPY] = {"SNAPPY", 0, snappy_read, snappy_max_compressed_length,
                           snappy_write},
    [QK_PARQUET_GZIP] = {"GZIP", 9, gzip_read, gzip_bound, gzip_write},
    [CODEC_LZO] = {.name = "LZO"},
    [QK_PARQUET_BROTLI] = {"BROTLI", BROTLI_MAX_QUALITY, brotli_read, brotli_bound,
                           brotli_write},
    [CODEC_LZ4_HADOOP] = {.name = "LZ4", .decompress = lz4_legacy_read},
    [QK_PARQUET_ZSTD] = {.name = "ZSTD", .max_level = 22, .bound = ZSTD_compressBound},
    [QK_PARQUET_LZ4_RAW] = {"LZ4_RAW", LZ4HC_CLEVEL_MAX, lz4_raw_read, lz4_bound,
                            lz4_raw_write},
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

static qk_status fail_unsupported(int codec, const char *what, qk_error *err)
{
    const char *name = qk__codec_name(codec);
    if (!name)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "unknown compression codec %d", codec);
    return qk__fail(err, QK_ERR_UNSUPPORTED, "cannot %s %s pages", what, name);
}

qk_status qk__codec_decompress(qk__codec_state *state, int codec, const uint8_t *src,
                               size_t src_size, uint8_t *dst, size_t dst_size, qk_error *err)
{
    static const uint8_t nothing[1];
    uint8_t nowhere[1];
    QK_TRY(check_size(src_size, err));
    QK_TRY(check_size(dst_size, err));
    bool whole = src_size == dst_size;
    if (codec == QK_PARQUET_UNCOMPRESSED) {
        if (whole && dst_size > 0)
            memcpy(dst, src, dst_size);
    } else if (!qk__codec_name(codec) || codec == CODEC_LZO) {
        return fail_unsupported(codec, "decompress", err);
    } else if (src_size > 0 || dst_size > 0) {
        /* Some writers store a page without values as no bytes at all: nothing to do then.
         * The libraries want a valid pointer even for an empty side. */
        src = src_size > 0 ? src : nothing;
        dst = dst_size > 0 ? dst : nowhere;
        if (codec == QK_PARQUET_ZSTD)
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

qk_status qk__codec_compress(qk__codec_state *state, int codec, int level, const uint8_t *src,
                             size_t src_size, qk__buffer *out, qk_error *err)
{
    static const uint8_t nothing[1];
    out->size = 0;
    QK_TRY(check_size(src_size, err));
    if (codec == QK_PARQUET_UNCOMPRESSED)
        return qk__buffer_append(out, src, src_size, err);
    if (!qk__codec_name(codec) || !codecs[codec].bound)
        return fail_unsupported(codec, "write", err);
    const codec_row *row = &codecs[codec];
    if (level < 0 || level > row->max_level)
        return qk__fail(err, QK_ERR_ARGUMENT, "%s has no compression level %d (0 to %d)",
                        row->name, level, row->max_level);
    QK_TRY(qk__buffer_reserve(out, row->bound(src_size), err));
    src = src_size > 0 ? src : nothing;
    if (codec == QK_PARQUET_ZSTD)
        QK_TRY(
            zstd_write(state, level, src, src_size, out->data, out->capacity, &out->size, err));
    else
        out->size = row->compress(level, src, src_size, out->data, out->capacity);
    if (out->size == 0)
        return qk__fail(err, QK_ERR_IO, "%s cannot compress a page of %zu bytes", row->name,
                        src_size);
    return QK_OK;
}
