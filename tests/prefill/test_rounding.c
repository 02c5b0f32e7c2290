/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding to float16: at, between and beyond all of its values. */
#include "tests/unit.h"

#include <math.h>

#include "prefill/rounding.h"
#include "tests/half.h"

/* Halfway between two neighbours the one whose last bit is 0, else the nearer. */
static void test_rounding_to_half(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 0x7c00; i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            double low = half_value(i), high = half_value(i + 1);
            double halfway = isinf(high) ? 65520 : (low + high) / 2;
            float middle = (float)(sign * halfway), at = (float)(sign * low);
            float even = (float)(sign * (i % 2 == 0 ? low : high));
            assert_true(qk__f16(at) == at);
            assert_true(qk__f16(middle) == even);
            assert_true(qk__f16(nextafterf(middle, 0)) == at);
            assert_true(qk__f16(nextafterf(middle, sign * INFINITY)) == (float)(sign * high));
        }
    assert_true(qk__f16(-INFINITY) == -INFINITY && qk__f16(3e38f) == INFINITY);
    assert_true(isnan(qk__f16(NAN)) && signbit(qk__f16(-0.0f)) && signbit(qk__f16(-1e-30f)));
    float values[] = {1.0009765f, 1e-9f, 70000};
    qk__round_values(QK__F16, values, 3);
    assert_true(values[0] == 1 + 0x1p-10f && values[1] == 0 && isinf(values[2]));
    assert_true(qk__rounded(QK__UNROUNDED, 1e-9f) == 1e-9f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounding_to_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
