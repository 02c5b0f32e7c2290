/* SPDX-License-Identifier: Apache-2.0 */
/* Page codecs: what is compressed comes back, and nothing but the exact length is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <lz4.h>
#include <lz4frame.h>
#include <snappy-c.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "parquet/codec.h"
#include "parquet/format.h"

static const int CODECS[] = {CODEC_SNAPPY, CODEC_GZIP, CODEC_ZSTD, CODEC_LZ4_RAW};
enum { NUM_CODECS = sizeof CODECS / sizeof *CODECS };

/* Half compressible: a counter whose low bits are noise. */
static void fill(uint8_t *data, size_t size)
{
    uint32_t noise = 1;
    for (size_t i = 0; i < size; i++) {
        noise = noise * 1664525 + 1013904223;
        data[i] = i % 2 ? (uint8_t)(i >> 8) : (uint8_t)(noise >> 24);
    }
}

/* Compresses by the codecs' own libraries; those of Brotli are pyarrow's, in test_roundtrip.py. */
static void pack(int codec, const uint8_t *data, size_t size, qk__buffer *out)
{
    qk__codec_state state = {0};
    size_t length = 2 * size + 100;
    assert_int_equal(qk__buffer_reserve(out, length, NULL), QK_OK);
    if (codec == CODEC_ZSTD) {
        assert_int_equal(qk__zstd_compress(&state, data, size, out, NULL), QK_OK);
        length = out->size;
    } else if (codec == CODEC_SNAPPY) {
        assert_int_equal(snappy_compress((const char *)data, size, (char *)out->data, &length),
                         SNAPPY_OK);
    } else if (codec == CODEC_LZ4_RAW) {
        length = (size_t)LZ4_compress_default((const char *)data, (char *)out->data, (int)size,
                                              (int)length);
    } else {
        z_stream stream = {
            .avail_in = (uInt)size, .next_out = out->data, .avail_out = (uInt)length};
        memcpy(&stream.next_in, &data, sizeof data);
        assert_int_equal(deflateInit2(&stream, -1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY),
                         Z_OK);
        assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
        length = (size_t)stream.total_out;
        deflateEnd(&stream);
    }
    out->size = length;
    qk__codec_state_free(&state);
}

/* Decompresses from and to blocks of exactly the sizes given, so that a step outside is
 * seen by the address sanitizer. */
static bool comes_back(qk__codec_state *state, int codec, const uint8_t *src, size_t src_size,
                       const uint8_t *wanted, size_t size)
{
    uint8_t *exact = malloc(src_size ? src_size : 1);
    uint8_t *out = malloc(size ? size : 1);
    qk_error err;
    if (src_size)
        memcpy(exact, src, src_size);
    qk_status status = qk__codec_decompress(state, codec, exact, src_size, out, size, &err);
    assert_true(status == QK_OK || status == QK_ERR_MALFORMED);
    bool same = status == QK_OK && (!wanted || size == 0 || memcmp(out, wanted, size) == 0);
    free(exact);
    free(out);
    return same;
}

static void test_round_trips(void **context)
{
    static const size_t sizes[] = {0, 1, 2, 100, 65537, 1 << 20};
    (void)context;
    qk__codec_state state = {0};
    qk__buffer packed = {0};
    uint8_t *data = malloc(1 << 20);
    fill(data, 1 << 20);
    for (size_t c = 0; c < NUM_CODECS; c++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            pack(CODECS[c], data, sizes[i], &packed);
            assert_true(
                comes_back(&state, CODECS[c], packed.data, packed.size, data, sizes[i]));
        }
    assert_true(comes_back(&state, CODEC_UNCOMPRESSED, data, 100, data, 100));
    assert_false(comes_back(&state, CODEC_UNCOMPRESSED, data, 99, NULL, 100));
    free(data);
    qk__buffer_free(&packed);
    qk__codec_state_free(&state);
}

static void test_other_lengths_and_cut_pages(void **context)
{
    enum { SIZE = 5000 };
    (void)context;
    qk__codec_state state = {0};
    qk__buffer packed = {0};
    uint8_t data[SIZE];
    fill(data, SIZE);
    for (size_t c = 0; c < NUM_CODECS; c++) {
        pack(CODECS[c], data, SIZE, &packed);
        assert_false(comes_back(&state, CODECS[c], packed.data, packed.size, NULL, SIZE - 1));
        assert_false(comes_back(&state, CODECS[c], packed.data, packed.size, NULL, SIZE + 1));
        assert_false(comes_back(&state, CODECS[c], packed.data, packed.size, NULL, 0));
        for (size_t size = 0; size < packed.size; size += 7)
            assert_false(comes_back(&state, CODECS[c], packed.data, size, NULL, SIZE));
    }
    qk__buffer_free(&packed);
    qk__codec_state_free(&state);
}

static void test_damaged_pages(void **context)
{
    enum { SIZE = 3000 };
    (void)context;
    qk__codec_state state = {0};
    qk__buffer packed = {0};
    uint8_t data[SIZE];
    fill(data, SIZE);
    for (size_t c = 0; c < NUM_CODECS; c++) {
        pack(CODECS[c], data, SIZE, &packed);
        for (size_t i = 0; i < packed.size; i += 3)
            for (int bit = 0; bit < 8; bit += 3) {
                packed.data[i] ^= (uint8_t)(1 << bit);
                comes_back(&state, CODECS[c], packed.data, packed.size, NULL, SIZE);
                comes_back(&state, CODEC_LZ4_HADOOP, packed.data, packed.size, NULL, SIZE);
                packed.data[i] ^= (uint8_t)(1 << bit);
            }
    }
    qk__buffer_free(&packed);
    qk__codec_state_free(&state);
}

static void test_gzip_members_and_zlib(void **context)
{
    enum { SIZE = 4000 };
    (void)context;
    qk__codec_state state = {0};
    qk__buffer first = {0}, second = {0};
    uint8_t data[SIZE], wrapped[2 * SIZE];
    fill(data, SIZE);
    pack(CODEC_GZIP, data, 1500, &first);
    pack(CODEC_GZIP, data + 1500, SIZE - 1500, &second);
    assert_int_equal(qk__buffer_append(&first, second.data, second.size, NULL), QK_OK);
    assert_true(comes_back(&state, CODEC_GZIP, first.data, first.size, data, SIZE));
    uLongf length = sizeof wrapped;
    assert_int_equal(compress(wrapped, &length, data, SIZE), Z_OK);
    assert_true(comes_back(&state, CODEC_GZIP, wrapped, length, data, SIZE));
    qk__buffer_free(&first);
    qk__buffer_free(&second);
    qk__codec_state_free(&state);
}

static void put_be32(uint8_t *out, size_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* The three forms that go by the number of LZ4. */
static void test_old_lz4(void **context)
{
    enum { SIZE = 3000, FIRST = 1000, SECOND = 700 };
    (void)context;
    qk__codec_state state = {0};
    uint8_t data[SIZE], page[2 * SIZE];
    const char *text = (const char *)data;
    char *out = (char *)page;
    fill(data, SIZE);

    int bare = LZ4_compress_default(text, out, SIZE, sizeof page);
    assert_true(comes_back(&state, CODEC_LZ4_HADOOP, page, (size_t)bare, data, SIZE));

    size_t frame = LZ4F_compressFrame(page, sizeof page, data, SIZE, NULL);
    assert_true(comes_back(&state, CODEC_LZ4_HADOOP, page, frame, data, SIZE));
    assert_false(comes_back(&state, CODEC_LZ4_HADOOP, page, frame, NULL, SIZE - 1));

    /* One block of one piece, then a block of two. */
    const struct {
        size_t start, size, block;
    } pieces[] = {{0, FIRST, FIRST},
                  {FIRST, SECOND, SIZE - FIRST},
                  {FIRST + SECOND, SIZE - FIRST - SECOND, 0}};
    size_t n = 0;
    for (int i = 0; i < 3; i++) {
        if (pieces[i].block) {
            put_be32(page + n, pieces[i].block);
            n += 4;
        }
        int size = LZ4_compress_default(text + pieces[i].start, out + n + 4,
                                        (int)pieces[i].size, (int)(sizeof page - n - 4));
        put_be32(page + n, (size_t)size);
        n += 4 + (size_t)size;
    }
    assert_true(comes_back(&state, CODEC_LZ4_HADOOP, page, n, data, SIZE));
    assert_false(comes_back(&state, CODEC_LZ4_HADOOP, page, n - 1, NULL, SIZE));
    qk__codec_state_free(&state);
}

static void test_codecs_outside_the_subset(void **context)
{
    (void)context;
    static const int codecs[] = {CODEC_LZO, -1, 8, 1000};
    qk__codec_state state = {0};
    qk_error err;
    uint8_t byte = 0;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(qk__codec_decompress(&state, codecs[i], &byte, 1, &byte, 1, &err),
                         QK_ERR_UNSUPPORTED);
    assert_string_equal(qk__codec_name(CODEC_ZSTD), "ZSTD");
    assert_null(qk__codec_name(8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_other_lengths_and_cut_pages),
        cmocka_unit_test(test_damaged_pages),
        cmocka_unit_test(test_gzip_members_and_zlib),
        cmocka_unit_test(test_old_lz4),
        cmocka_unit_test(test_codecs_outside_the_subset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
