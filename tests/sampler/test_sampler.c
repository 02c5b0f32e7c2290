/* SPDX-License-Identifier: Apache-2.0 */
/* Positions, heads and ids that the original tool is known to choose. */
#include "tests/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/recorder.h>

#include "base/twister.h"
#include "sampler/sampler.h"

#define LIST(...)                                                                              \
    (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)

static const qk_sampler uniform_32 = {QK_SAMPLER_UNIFORM, 1, 32, 0};
static const qk_sampler uniform_8192 = {QK_SAMPLER_UNIFORM, 1, 8192, 0};
static const qk_sampler log_130 = {QK_SAMPLER_LOG_UNIFORM, 2, 130, 0};
static const qk_sampler log_128 = {QK_SAMPLER_LOG_UNIFORM, 4, 128, 0};

/* Digests are written byte by byte: BLAKE2b of 8 bytes over 32-bit little-endian numbers. */
static void digest_of(const int64_t *numbers, size_t count, char text[17])
{
    char *bytes = malloc(count * 4 + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < count * 4; i++)
        bytes[i] = (char)((uint64_t)numbers[i / 4] >> (i % 4 * 8) & 0xff);
    uint64_t id = (uint64_t)qk_example_id_of_text(bytes, count * 4);
    free(bytes);
    for (int i = 0; i < 8; i++)
        snprintf(text + (ptrdiff_t)2 * i, 3, "%02x", (unsigned)(id >> (8 * i) & 0xff));
}

static void expect_positions(const qk_sampler *sampler, int64_t id, int layer, qk_kind kind,
                             int first_head, int64_t count, const int64_t *wanted, size_t num)
{
    int64_t *positions;
    size_t kept;
    qk_error err;
    assert_int_equal(qk_sampler_positions(sampler, id, layer, kind, first_head, count,
                                          &positions, &kept, &err),
                     QK_OK);
    assert_int_equal(kept, num);
    for (size_t i = 0; i < num; i++)
        assert_int_equal(positions[i], wanted[i]);
    free(positions);
}

/* ---- streams ---------------------------------------------------------------------------- */

static void test_seeds(void **state)
{
    (void)state;
    assert_true(qk__sampler_seed(0, 0, QK_QUERY) == UINT64_C(0x65f4a1634b12b156));
    assert_true(qk__sampler_seed(0, 0, QK_KEY) == UINT64_C(0x975394572bb8a13d));
    assert_true(qk__sampler_seed(7, 3, QK_KEY) == UINT64_C(0xa02d337319d2ef6c));
    assert_true(qk__sampler_seed(-1, 31, QK_QUERY) == UINT64_C(0x6a0cb190dd439012));
    assert_true(qk__sampler_seed(INT64_MIN, 5, QK_KEY) == UINT64_C(0xc8c5aa79986c7b40));
    assert_true(qk__sampler_seed(INT64_MAX, 0, QK_QUERY) == UINT64_C(0xee8e8ab4356f829f));
}

static void test_stream(void **state)
{
    (void)state;
    static const uint32_t raw[] = {0xdc5317ea, 0x30f6d5e0, 0xf3af91a3,
                                   0x9d098b0d, 0x14030f28, 0xb53ed737};
    static const uint32_t uniform[] = {5445610, 16176608, 11506083, 625421, 200488, 4118327};
    qk__twister generator;
    qk__twister_seed(&generator, 0x4b12b156);
    for (int i = 0; i < 6; i++)
        assert_int_equal(qk__twister_draw(&generator), raw[i]);
    qk__twister_seed(&generator, 0x4b12b156);
    for (int i = 0; i < 6; i++)
        assert_int_equal(qk__torch_uniform(&generator), uniform[i]);
}

/* ---- kept positions --------------------------------------------------------------------- */

static void test_uniform(void **state)
{
    (void)state;
    expect_positions(&uniform_32, 0, 0, QK_QUERY, 0, 512,
                     LIST(4, 36, 47, 70, 82, 91, 131, 142, 183, 252, 274, 295, 305, 308, 334,
                          347, 348, 354, 393));
    expect_positions(&uniform_32, 0, 0, QK_KEY, 0, 512,
                     LIST(17, 18, 51, 60, 82, 92, 120, 188, 207, 234, 244, 257, 278, 308, 311,
                          345, 346, 427, 449, 457, 485));
    expect_positions(
        &uniform_32, 1, 0, QK_QUERY, 0, 412,
        LIST(22, 36, 73, 126, 143, 147, 155, 172, 198, 256, 287, 314, 317, 392, 397));
}

static void test_log_uniform(void **state)
{
    (void)state;
    expect_positions(&log_130, 0, 0, QK_QUERY, 0, 512,
                     LIST(70, 183, 252, 274, 295, 308, 347, 348));
    expect_positions(&log_130, 0, 0, QK_KEY, 0, 512, LIST(18, 51, 82, 234, 308, 457));
    assert_int_equal(qk_sampler_bucket(&log_130, 348), 8);
}

static void test_max_rows(void **state)
{
    (void)state;
    qk_sampler capped = uniform_32;
    capped.max_rows = 3;
    expect_positions(&capped, 0, 0, QK_QUERY, 1, 512, LIST(4, 305, 348));
    expect_positions(&capped, 0, 0, QK_KEY, 0, 512, LIST(257, 485, 51));
    capped.max_rows = 19; /* as many as there are: untouched and in order */
    expect_positions(&capped, 0, 0, QK_QUERY, 1, 100, LIST(4, 36, 47, 70, 82, 91));
    capped.max_rows = -1;
    expect_positions(&capped, 0, 0, QK_QUERY, 1, 100, LIST(4, 36, 47, 70, 82, 91));
}

static void test_full_length(void **state)
{
    (void)state;
    static const struct {
        int64_t id;
        int layer;
        qk_kind kind;
        size_t uniform;
        int64_t first[3];
        const char *uniform_digest;
        size_t log;
        const char *log_digest;
    } wanted[] = {
        {0, 0, QK_QUERY, 22, {274, 5484, 13669}, "1a44ae324a154df2", 48, "03cc3959534e199f"},
        {0, 0, QK_KEY, 15, {308, 457, 3405}, "c368e4287c7d52e4", 50, "4fdb35b1a610e813"},
        {0, 13, QK_QUERY, 19, {3345, 5777, 21116}, "c4347c903d25ed33", 42, "93f86ffbca0e4b02"},
        {0, 13, QK_KEY, 15, {5544, 17786, 22293}, "a27966241710306d", 35, "4bc9ac404e96112e"},
        {1, 0, QK_QUERY, 25, {772, 2745, 5705}, "c0c313aed10687a1", 47, "ac454df7187ccb2e"},
        {-4611686018427387887,
         13,
         QK_KEY,
         14,
         {4377, 11807, 22254},
         "42e224f393bc6ca4",
         45,
         "5f5b4e2f0608591a"},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        for (int logarithmic = 0; logarithmic < 2; logarithmic++) {
            int64_t *positions;
            size_t count;
            char digest[17];
            assert_int_equal(qk_sampler_positions(logarithmic ? &log_128 : &uniform_8192,
                                                  wanted[i].id, wanted[i].layer, wanted[i].kind,
                                                  0, 131072, &positions, &count, NULL),
                             QK_OK);
            assert_int_equal(count, logarithmic ? wanted[i].log : wanted[i].uniform);
            for (int j = 0; !logarithmic && j < 3; j++)
                assert_int_equal(positions[j], wanted[i].first[j]);
            digest_of(positions, count, digest);
            assert_string_equal(digest,
                                logarithmic ? wanted[i].log_digest : wanted[i].uniform_digest);
            free(positions);
        }
}

/* ---- buckets ---------------------------------------------------------------------------- */

static void expect_buckets(qk_sampler_type type, int64_t size, const int64_t *pairs, size_t num)
{
    qk_sampler sampler = {type, 1, size, 0};
    for (size_t i = 0; i < num; i += 2)
        assert_int_equal(qk_sampler_bucket(&sampler, pairs[i]), pairs[i + 1]);
}

static void test_buckets(void **state)
{
    (void)state;
    expect_buckets(QK_SAMPLER_LOG_UNIFORM, 1, LIST(0, 0, 1, 1, 2, 1, 3, 2, 6, 2, 7, 3));
    expect_buckets(QK_SAMPLER_LOG_UNIFORM, 128, LIST(0, 7, 1, 7, 127, 7, 128, 7, 384, 8));
    expect_buckets(QK_SAMPLER_LOG_UNIFORM, 128, LIST(254, 7, 255, 8, 510, 8, 511, 9));
    expect_buckets(QK_SAMPLER_LOG_UNIFORM, 4, LIST(0, 2, 3, 2, 4, 2, 12, 3));
    expect_buckets(QK_SAMPLER_LOG_UNIFORM, 130, LIST(0, 8, 200, 8, 511, 9));
    expect_buckets(QK_SAMPLER_LOG_UNIFORM, 1, LIST(INT64_MAX, 63, 2097149, 20));
    expect_buckets(QK_SAMPLER_UNIFORM, 50, LIST(0, 0, 10, 0, 49, 0, 50, 1, 120, 2));
    expect_buckets(QK_SAMPLER_ALL, 32, LIST(255, 7, 256, 8, 259, 8));
    assert_int_equal(qk_sampler_bucket_size(&log_130), 256);
    assert_int_equal(qk_sampler_bucket_size(&uniform_32), 32);
}

static void test_bad_samplers(void **state)
{
    (void)state;
    static const qk_sampler bad[] = {
        {QK_SAMPLER_UNIFORM, 1, 0, 0},
        {QK_SAMPLER_LOG_UNIFORM, 1, -5, 0},
        {QK_SAMPLER_ALL, 0, 32, 0},
        {QK_SAMPLER_UNIFORM, -1, 32, 0},
        {QK_SAMPLER_LOG_UNIFORM, 1, INT64_MAX, 0},
    };
    qk_error err;
    int64_t *positions;
    size_t count;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(qk_sampler_check(&bad[i], &err), QK_ERR_ARGUMENT);
        assert_int_equal(
            qk_sampler_positions(&bad[i], 0, 0, QK_KEY, 0, 5, &positions, &count, &err),
            QK_ERR_ARGUMENT);
        assert_null(positions);
    }
    assert_int_equal(
        qk_sampler_positions(&uniform_32, 0, 0, QK_KEY, 0, -1, &positions, &count, &err),
        QK_ERR_ARGUMENT);
    qk_sampler sampler;
    qk__sampler_default(&sampler);
    assert_int_equal(qk_sampler_check(&sampler, &err), QK_OK);
    assert_int_equal(sampler.min_bucket_size, 128);
    assert_int_equal(
        qk_sampler_positions(&sampler, 0, 0, QK_KEY, 0, 0, &positions, &count, &err), QK_OK);
    assert_null(positions);
    qk_sampler_type type;
    assert_true(qk_sampler_type_parse("Log_Uniform", &type) && type == QK_SAMPLER_LOG_UNIFORM);
    assert_true(qk_sampler_type_parse("ALL", &type) && type == QK_SAMPLER_ALL);
    assert_false(qk_sampler_type_parse("log", &type));
    assert_false(qk_sampler_type_parse("uniformly", &type));
    assert_string_equal(qk_sampler_type_name(QK_SAMPLER_UNIFORM), "uniform");
}

/* ---- ids -------------------------------------------------------------------------------- */

static int64_t id_of(const char *text)
{
    return qk_example_id_of_text(text, strlen(text));
}

static void test_ids(void **state)
{
    (void)state;
    assert_true(id_of("") == INT64_C(-5426141060434712860));
    assert_true(id_of("id-a") == INT64_C(-6453149921550767168));
    assert_int_equal((int32_t)id_of("id-a"), 731933632);
    assert_true(id_of("id-b") == INT64_C(-1262978336756854088));
    assert_int_equal((int32_t)id_of("id-b"), -292023624);
    assert_true(id_of("66f36490821e116aacb2cc22") == INT64_C(-7480881952705945839));
    assert_int_equal((int32_t)id_of("66f36490821e116aacb2cc22"), -631972079);
    assert_true(id_of("9223372036854775808") == INT64_C(-4436916390290898806));
    assert_true(qk_example_id_of_text(NULL, 0) == id_of(""));

    assert_true(qk_example_id_of_number(17) == 17);
    assert_true(qk_example_id_of_number(-0.0) == 0);
    assert_true(qk_example_id_of_number(-0x1p63) == INT64_MIN);
    assert_true(qk_example_id_of_number(0x1p63) == id_of("9223372036854775808"));
    assert_true(qk_example_id_of_number(0.5) == id_of("0.5"));
    assert_true(qk_example_id_of_number(-1e-5) == id_of("-1e-05"));
    assert_true(qk_example_id_of_number(123456789.25) == id_of("123456789.25"));
    assert_true(qk_example_id_of_number(strtod("nan", NULL)) == id_of("nan"));
    assert_true(qk_example_id_of_number(-strtod("inf", NULL)) == id_of("-inf"));
}

/* ---- heads ------------------------------------------------------------------------------ */

static size_t count_set(const bool *set, size_t total)
{
    size_t count = 0;
    for (size_t i = 0; i < total; i++)
        count += set[i];
    return count;
}

static void test_published_heads(void **state)
{
    (void)state;
    static const struct {
        int layers, heads, key_heads;
        const char *sorted_digest;
        size_t queries, keys;
    } wanted[] = {
        {30, 9, 3, "6eaab8fefea8ea53", 270, 90},   {16, 32, 8, "0f95c7e443b058fa", 300, 123},
        {28, 24, 8, "5263169798d62847", 300, 188}, {32, 32, 8, "9061bd8af5c3777b", 300, 187},
        {40, 32, 8, "24b8f65118acade4", 300, 201}, {26, 32, 8, "353e4fecbdddcad4", 300, 167},
        {34, 32, 8, "19acf84392846e35", 300, 189}, {28, 16, 8, "3d309ddad2f465ba", 300, 200},
        {36, 32, 8, "51ba16a76bb9e696", 300, 194}, {40, 40, 8, "784bb03dc13f4925", 300, 194},
        {36, 16, 4, "98565a6eaf276441", 300, 136},
    };
    static bool candidates[1600], chosen[1600], keys[1600];
    memset(candidates, true, sizeof candidates);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        size_t total = (size_t)wanted[i].layers * (size_t)wanted[i].heads;
        size_t total_keys = (size_t)wanted[i].layers * (size_t)wanted[i].key_heads;
        memset(chosen, true, sizeof chosen);
        assert_int_equal(qk__sample_query_heads(candidates, wanted[i].layers, wanted[i].heads,
                                                300, 0, chosen, NULL),
                         QK_OK);
        qk__key_heads_of(chosen, wanted[i].layers, wanted[i].heads,
                         wanted[i].heads / wanted[i].key_heads, keys);
        assert_int_equal(count_set(chosen, total), wanted[i].queries);
        assert_int_equal(count_set(keys, total_keys), wanted[i].keys);
        int64_t sorted[300];
        size_t count = 0;
        for (size_t j = 0; j < total; j++)
            if (chosen[j])
                sorted[count++] = (int64_t)j;
        char digest[17];
        digest_of(sorted, count, digest);
        assert_string_equal(digest, wanted[i].sorted_digest);
    }
}

static void test_candidates(void **state)
{
    (void)state;
    bool candidates[20] = {false}, chosen[20];
    qk_error err;
    for (int i = 0; i < 9; i++)
        candidates[2 * i + 1] = true; /* 9 of them; the draw is 7 5 2 */
    assert_int_equal(qk__sample_query_heads(candidates, 5, 4, 3, 9, chosen, &err), QK_OK);
    assert_int_equal(count_set(chosen, 20), 3);
    assert_true(chosen[15] && chosen[11] && chosen[5]);
    assert_int_equal(qk__sample_query_heads(candidates, 5, 4, 99, 9, chosen, &err), QK_OK);
    assert_memory_equal(candidates, chosen, sizeof chosen);
    assert_int_equal(qk__sample_query_heads(candidates, 5, 4, 0, 9, chosen, &err),
                     QK_ERR_ARGUMENT);
    memset(candidates, 0, sizeof candidates);
    assert_int_equal(qk__sample_query_heads(candidates, 5, 4, 3, 9, chosen, &err),
                     QK_ERR_DEGENERATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seeds),      cmocka_unit_test(test_stream),
        cmocka_unit_test(test_uniform),    cmocka_unit_test(test_log_uniform),
        cmocka_unit_test(test_max_rows),   cmocka_unit_test(test_full_length),
        cmocka_unit_test(test_buckets),    cmocka_unit_test(test_bad_samplers),
        cmocka_unit_test(test_ids),        cmocka_unit_test(test_published_heads),
        cmocka_unit_test(test_candidates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
