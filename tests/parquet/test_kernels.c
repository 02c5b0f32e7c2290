/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel version against a plain one written here, on random and extreme input: all
 * widths, all tail lengths, spans that end where the values end. */
#include "half.h"
#include "unit.h"

#include "parquet/kernels.h"

enum { MOST = 600 }; /* values; more than one batch of any version */

static uint64_t state = UINT64_C(0x9e3779b97f4a7c15);

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Bit by bit. */
static uint32_t bits_at(const uint8_t *src, size_t bit, unsigned width)
{
    uint32_t value = 0;
    for (unsigned b = 0; b < width; b++, bit++)
        value |= (uint32_t)(src[bit / 8] >> (bit % 8) & 1) << b;
    return value;
}

/* Exactly `size` bytes on the heap, so that a sanitizer sees a read beyond them. */
static uint8_t *random_bytes(size_t size, int kind)
{
    uint8_t *bytes = malloc(size ? size : 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = kind == 0 ? 0 : kind == 1 ? 0xff : (uint8_t)next_random();
    return bytes;
}

static void check_unpack(const qk__parquet_kernel *k, unsigned width, size_t count, int kind)
{
    uint8_t *src = random_bytes((count * width + 7) / 8, kind);
    uint32_t *out = malloc((count + 1) * sizeof *out);
    assert_non_null(out);
    out[count] = UINT32_C(0xdeadbeef);
    uint32_t largest = 0, found = k->unpack(src, width, out, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(out[i], bits_at(src, i * width, width));
        largest = out[i] > largest ? out[i] : largest;
    }
    assert_int_equal(found, largest);
    assert_int_equal(out[count], UINT32_C(0xdeadbeef));
    free(out);
    free(src);
}

static void test_unpack(void **unused)
{
    (void)unused;
    qk__each_version (v, qk__parquet_kernels)
        for (unsigned width = 0; width <= 32; width++)
            for (size_t count = 0; count < 80; count++)
                for (int kind = 0; kind < 3; kind++)
                    check_unpack(qk__parquet_kernels[v], width, count, kind);
    qk__each_version (v, qk__parquet_kernels)
        for (unsigned width = 0; width <= 32; width++)
            check_unpack(qk__parquet_kernels[v], width, MOST - width, 2);
}

static void check_join(const qk__parquet_kernel *k, size_t count, size_t stride)
{
    uint8_t *src = random_bytes(8 * stride, 2);
    uint32_t *out4 = malloc((count + 1) * sizeof *out4);
    uint64_t *out8 = malloc((count + 1) * sizeof *out8);
    assert_non_null(out4);
    assert_non_null(out8);
    /* Starting part of the way into the streams, up to their very end. */
    size_t skip = stride - count;
    k->join4(src + 4 * stride + skip, stride, out4, count);
    k->join8(src + skip, stride, out8, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t expect = 0;
        for (unsigned b = 0; b < 8; b++)
            expect |= (uint64_t)src[b * stride + skip + i] << (8 * b);
        assert_true(out8[i] == expect);
        assert_int_equal(out4[i], (uint32_t)(expect >> 32));
    }
    free(out8);
    free(out4);
    free(src);
}

static void test_join(void **unused)
{
    (void)unused;
    qk__each_version (v, qk__parquet_kernels)
        for (size_t count = 0; count < 200; count++)
            for (size_t skip = 0; skip < 3; skip++)
                check_join(qk__parquet_kernels[v], count, count + skip);
}

static void test_half(void **unused)
{
    (void)unused;
    for (uint32_t half = 0; half <= UINT16_MAX; half++) {
        float value = qk__half_to_float((uint16_t)half);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        assert_int_equal(bits >> 31, half >> 15);
        if ((half >> 10 & 31) == 31)
            assert_int_equal(bits & 0x7fffffff, 0x7f800000 | (half & 1023) << 13);
        else
            assert_true((double)value == half_value((uint16_t)half));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unpack),
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
