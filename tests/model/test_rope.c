/* SPDX-License-Identifier: Apache-2.0 */
/* Frequencies that are known for the parameters of published models, and the angles. test_model_config.py holds every type
 * against its formula. */
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>

#include "model/rope.h"

/* A golden number has eight digits. */
static void expect(const qk__rope *rope, int i, double wanted)
{
    double found = (double)rope->frequencies[i];
    if (fabs(found - wanted) > 1.2e-7 * wanted)
        fail_msg("frequency %d is %.9g, expected %.9g", i, found, wanted);
}

static void start(qk__rope *rope, const qk__rope_settings *settings)
{
    assert_int_equal(qk__rope_init(rope, settings, NULL), QK_OK);
}

static void test_yarn(void **state)
{
    (void)state;
    qk__rope rope;
    qk__rope_settings qwen = {.type = QK_ROPE_YARN,
                              .theta = 1e6,
                              .width = 128,
                              .factor = 4,
                              .original = 32768,
                              .beta_fast = 32,
                              .beta_slow = 1,
                              .truncate = true,
                              .attention_factor = 0.1 * log(4) + 1};
    start(&rope, &qwen);
    expect(&rope, 1, 0.80584222);
    expect(&rope, 23, 6.9783060e-3);
    expect(&rope, 24, 5.3753215e-3);
    expect(&rope, 40, 4.4456985e-5);
    expect(&rope, 63, 3.1023444e-7);
    assert_true(fabs((double)rope.attention_factor - 1.1386294) < 1e-7);
    qk__rope_free(&rope);
    qk__rope_settings ministral = qwen;
    ministral.factor = 16;
    ministral.original = 16384;
    start(&rope, &ministral);
    expect(&rope, 20, 1.3335215e-2);
    expect(&rope, 37, 2.1238802e-5);
    expect(&rope, 63, 7.7558610e-8);
    qk__rope_free(&rope);
}

static void test_llama3(void **state)
{
    (void)state;
    qk__rope rope;
    qk__rope_settings settings = {.type = QK_ROPE_LLAMA3,
                                  .theta = 5e5,
                                  .width = 128,
                                  .factor = 8,
                                  .low_freq_factor = 1,
                                  .high_freq_factor = 4,
                                  .original = 8192,
                                  .attention_factor = 1};
    start(&rope, &settings);
    expect(&rope, 29, 2.1665706e-3);
    expect(&rope, 30, 1.3718937e-3);
    expect(&rope, 63, 3.0689259e-7);
    qk__rope_free(&rope);
    settings.factor = 32;
    settings.width = 64;
    start(&rope, &settings);
    expect(&rope, 15, 1.2905480e-3);
    expect(&rope, 31, 9.4183065e-8);
    qk__rope_free(&rope);
}

static void test_longrope(void **state)
{
    (void)state;
    float shorter[] = {1, 1.5f}, longer[] = {2, 4};
    qk__rope_settings settings = {.type = QK_ROPE_LONGROPE,
                                  .theta = 100,
                                  .width = 4,
                                  .original = 32,
                                  .attention_factor = 1.25,
                                  .short_factor = shorter,
                                  .long_factor = longer};
    qk__rope rope;
    start(&rope, &settings);
    expect(&rope, 1, 0.1 / 1.5);
    float found[2];
    qk__rope_frequencies(&rope, 32, found);
    assert_true(found[0] == 1);
    qk__rope_frequencies(&rope, 33, found);
    assert_true(found[0] == 0.5f && fabsf(found[1] - 0.025f) < 1e-8f);
    assert_true(rope.attention_factor == 1.25f);
    qk__rope_free(&rope);
}

static void test_angles(void **state)
{
    (void)state;
    qk__rope_settings settings = {
        .type = QK_ROPE_DEFAULT, .theta = 1e4, .width = 4, .attention_factor = 1.5};
    qk__rope rope;
    start(&rope, &settings);
    float cosines[6], sines[6];
    qk__rope_cos_sin(&rope, rope.frequencies, 131069, 3, cosines, sines);
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < 2; i++) {
            double angle = (double)(rope.frequencies[i] * (float)(131069 + t));
            assert_true(fabs((double)cosines[2 * t + i] - 1.5 * cos(angle)) < 3e-7);
            assert_true(fabs((double)sines[2 * t + i] - 1.5 * sin(angle)) < 3e-7);
        }
    qk__rope_free(&rope);
}

static void test_names(void **state)
{
    (void)state;
    qk__rope_type type;
    assert_true(qk__rope_type_parse("longrope", &type) && type == QK_ROPE_LONGROPE);
    assert_false(qk__rope_type_parse("su", &type));
    assert_false(qk__rope_type_parse("mrope", &type));
    assert_string_equal(qk__rope_type_name(QK_ROPE_YARN), "yarn");
    qk__rope rope;
    qk__rope_settings tiny = {
        .type = QK_ROPE_DEFAULT, .theta = 1e-300, .width = 4, .attention_factor = 1};
    assert_int_equal(qk__rope_init(&rope, &tiny, NULL), QK_ERR_INCONSISTENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_yarn),     cmocka_unit_test(test_llama3),
        cmocka_unit_test(test_longrope), cmocka_unit_test(test_angles),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
