/* SPDX-License-Identifier: Apache-2.0 */
/* 16-bit numbers as float32: every one of them, from both versions; rows of tensors in every
 * format and at any address. */
#include "tests/unit.h"

#include <math.h>
#include <string.h>

#include "model/checkpoint.h"
#include "model/convert.h"
#include "tests/half.h"

enum { ALL = 1 << 16 };

static void test_every_half(void **state)
{
    (void)state;
    static uint16_t source[ALL];
    static float out[ALL];
    for (int i = 0; i < ALL; i++)
        source[i] = (uint16_t)i;
    qk__convert_portable.from_f16(source, out, ALL);
    for (unsigned i = 0; i < ALL; i++) {
        double wanted = half_value(i);
        assert_true(isnan(wanted) ? isnan(out[i]) : (double)out[i] == wanted);
        assert_int_equal(signbit(out[i]) != 0, i >> 15);
    }
    qk__convert_portable.from_bf16(source, out, ALL);
    for (uint32_t i = 0; i < ALL; i++) {
        uint32_t bits;
        memcpy(&bits, &out[i], sizeof bits);
        assert_true(bits == i << 16);
    }
}

static void test_versions_agree(void **state)
{
    (void)state;
    const qk__convert_kernel *plain = &qk__convert_portable;
    static uint8_t source[2 * ALL + 1];
    static float a[ALL], b[ALL];
    qk__each_version (k, qk__convert_kernels)
        for (int shift = 0; shift < 2; shift++) {
            const qk__convert_kernel *other = qk__convert_kernels[k];
            for (int i = 0; i < ALL; i++) {
                uint16_t half = (uint16_t)(i * 40503); /* each once, in no order */
                memcpy(source + shift + (ptrdiff_t)2 * i, &half, sizeof half);
            }
            for (size_t count = 0; count < 40; count++) {
                memset(a, 0, 64 * sizeof *a);
                memset(b, 0, 64 * sizeof *b);
                plain->from_f16(source + shift, a, count);
                other->from_f16(source + shift, b, count);
                assert_memory_equal(a, b, 64 * sizeof *a);
            }
            plain->from_f16(source + shift, a, ALL);
            other->from_f16(source + shift, b, ALL);
            assert_memory_equal(a, b, sizeof a);
            plain->from_bf16(source + shift, a, ALL - 3);
            other->from_bf16(source + shift, b, ALL - 3);
            assert_memory_equal(a, b, (ALL - 3) * sizeof *a);
        }
}

static void test_rows(void **state)
{
    (void)state;
    _Alignas(16) uint8_t bytes[4 * 12 + 1];
    const float numbers[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    float out[12];
    for (int shift = 0; shift < 2; shift++) {
        memcpy(bytes + shift, numbers, sizeof numbers);
        qk__tensor tensor = {
            .data = bytes + shift, .type = qk__quant_plain("F32"), .rows = 4, .columns = 3};
        const float *rows = qk__tensor_rows(&tensor, 1, 2, out);
        assert_true((rows == out) == (shift == 1)); /* aligned: no copy */
        assert_memory_equal(rows, numbers + 3, 6 * sizeof *out);
        qk__tensor part = qk__tensor_slice(&tensor, 2, 2);
        assert_int_equal(part.rows, 2);
        assert_memory_equal(qk__tensor_rows(&part, 1, 1, out), numbers + 9, 3 * sizeof *out);
    }
    static const uint16_t halves[] = {0x3c00, 0x4000, 0x4200, 0x4400};
    qk__tensor tensor = {
        .data = halves, .type = qk__quant_plain("F16"), .rows = 2, .columns = 2};
    assert_true(qk__tensor_rows(&tensor, 1, 1, out) == out && out[0] == 3 && out[1] == 4);
    static const uint16_t uppers[] = {0x3f80, 0x4000, 0x4040, 0x4080};
    tensor =
        (qk__tensor){.data = uppers, .type = qk__quant_plain("BF16"), .rows = 2, .columns = 2};
    qk__tensor part = qk__tensor_slice(&tensor, 1, 1);
    assert_true(qk__tensor_rows(&part, 0, 1, out)[1] == 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_half),
        cmocka_unit_test(test_versions_agree),
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
