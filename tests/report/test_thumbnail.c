/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures that are cut short, altered or that lie about their size do no harm. */
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "report/thumbnail.h"

enum { SIDE = 31, ROW = 3 * SIDE + 1 };

static void put_number(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void put_chunk(qk__buffer *out, const char *kind, const uint8_t *data, size_t size)
{
    uint8_t head[8], tail[4];
    put_number(head, (uint32_t)size);
    memcpy(head + 4, kind, 4);
    put_number(tail, (uint32_t)crc32(crc32(0, head + 4, 4), size ? data : head, (uInt)size));
    assert_int_equal(qk__buffer_append(out, head, 8, NULL), QK_OK);
    assert_int_equal(qk__buffer_append(out, data, size, NULL), QK_OK);
    assert_int_equal(qk__buffer_append(out, tail, 4, NULL), QK_OK);
}

/* A picture of noise with every filter in turn. */
static qk__buffer make_png(uint32_t width, uint32_t height, size_t rows)
{
    static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
    uint8_t header[13] = {0}, raw[ROW * SIDE], packed[2 * ROW * SIDE];
    uint64_t seed = 1;
    uLongf size = sizeof packed;
    qk__buffer out = {0};
    for (size_t i = 0; i < sizeof raw; i++)
        raw[i] = i % ROW == 0 ? (uint8_t)(i / ROW % 5) : (uint8_t)(127 * random_unit(&seed));
    assert_int_equal(compress(packed, &size, raw, (uLong)(rows * ROW)), Z_OK);
    put_number(header, width);
    put_number(header + 4, height);
    header[8] = 8;
    header[9] = 2;
    assert_int_equal(qk__buffer_append(&out, signature, 8, NULL), QK_OK);
    put_chunk(&out, "IHDR", header, sizeof header);
    put_chunk(&out, "IDAT", packed, size / 2);
    put_chunk(&out, "IDAT", packed + size / 2, size - size / 2);
    put_chunk(&out, "IEND", header, 0);
    return out;
}

static bool halves(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1); /* its own size, for the sanitizers */
    assert_non_null(copy);
    memcpy(copy, data, size);
    qk__buffer png = {copy, size, size}, out = {0};
    bool dark, ok = qk__shrink_png(&png, 2, 256, &out, &dark);
    unsigned width = 0, height = 0;
    assert_true(ok == qk__png_size(&out, &width, &height) || !ok);
    assert_true(ok || out.size == 0);
    qk__buffer_free(&out);
    free(copy);
    return ok;
}

static void sound(void **state)
{
    (void)state;
    qk__buffer png = make_png(SIDE, SIDE, SIDE), out = {0};
    unsigned width, height;
    bool dark;
    for (size_t divisor = 1; divisor <= 3; divisor++) {
        assert_true(qk__shrink_png(&png, divisor, 16, &out, &dark));
        assert_true(qk__png_size(&out, &width, &height));
        assert_int_equal(width, SIDE / divisor);
        assert_int_equal(height, SIDE / divisor);
        qk__buffer_free(&out);
    }
    assert_false(qk__shrink_png(&png, SIDE + 1, 16, &out, &dark));
    qk__buffer_free(&png);
}

static void cut_and_altered(void **state)
{
    (void)state;
    qk__buffer png = make_png(SIDE, SIDE, SIDE);
    for (size_t size = 0; size < png.size / 2; size++)
        assert_false(halves(png.data, size));
    uint64_t seed = 7;
    for (int i = 0; i < (tier_is("test") ? 500 : 3000); i++) {
        size_t at = (size_t)((random_unit(&seed) + 1) / 2 * (double)png.size) % png.size;
        uint8_t old = png.data[at];
        png.data[at] = (uint8_t)(256 * random_unit(&seed));
        halves(png.data, png.size);
        png.data[at] = old;
    }
    qk__buffer_free(&png);
}

static void sizes_that_lie(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{0, SIDE},    {SIDE, 0},          {1, SIDE},
                                        {SIDE, 4000}, {4000, SIDE},       {UINT32_MAX, 2},
                                        {1 << 15, 4}, {1 << 14, 1 << 14}, {2, UINT32_MAX}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        qk__buffer png = make_png(sizes[i][0], sizes[i][1], SIDE);
        assert_false(halves(png.data, png.size));
        qk__buffer_free(&png);
    }
    qk__buffer png = make_png(SIDE, SIDE, SIDE / 2); /* half of its rows */
    assert_false(halves(png.data, png.size));
    qk__buffer_free(&png);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound),
        cmocka_unit_test(cut_and_altered),
        cmocka_unit_test(sizes_that_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
