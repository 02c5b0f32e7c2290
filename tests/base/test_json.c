/* SPDX-License-Identifier: Apache-2.0 */
/* JSON: values, what is refused and where, memory that runs out. That it takes what jansson
 * takes, as the same values, is the matter of fuzz_json.c. */
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "tests/failing_memory.h"

static json_t *parse(const char *text)
{
    json_t *value;
    qk_error err;
    if (qk__json_parse(&value, text, strlen(text), QK__JSON_LINE, &err) != QK_OK)
        fail_msg("%s: %s", text, err.message);
    return value;
}

static void refuse(const char *text, const char *part)
{
    json_t *value;
    qk_error err;
    assert_int_equal(qk__json_parse(&value, text, strlen(text), QK__JSON_GIVEN, &err),
                     QK_ERR_MALFORMED);
    assert_null(value);
    if (!strstr(err.message, part))
        fail_msg("%s: \"%s\" without \"%s\"", text, err.message, part);
}

static void test_numbers(void **state)
{
    (void)state;
    json_t *list = parse("[0, -0, 9223372036854775807, -9223372036854775808, 1.5, -2e-3, 1e22,"
                         " 0.1, 1e-400, 5e-324, 1.7976931348623157e308]");
    static const json_int_t integers[] = {0, 0, INT64_MAX, INT64_MIN};
    static const double reals[] = {1.5, -2e-3, 1e22, 0.1, 0, 5e-324, 1.7976931348623157e308};
    for (size_t i = 0; i < 4; i++) {
        assert_true(json_is_integer(json_array_get(list, i)));
        assert_true(json_integer_value(json_array_get(list, i)) == integers[i]);
    }
    for (size_t i = 0; i < 7; i++) {
        assert_true(json_is_real(json_array_get(list, 4 + i)));
        assert_true(json_real_value(json_array_get(list, 4 + i)) == reals[i]);
        assert_null(qk__json_odd_number(json_array_get(list, 4 + i)));
    }
    json_decref(list);
}

/* What Python writes for the largest length, for numbers that are none, and others that no
 * number here can hold: they do not stand in the way, and nobody takes them for something. */
static void test_odd_numbers(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "9223372036854775808",
        "-9223372036854775809",
        "1000000000000000019884624838656",
        "1e999",
        "-1e999",
        "NaN",
        "Infinity",
        "-Infinity",
        "18446744073709551616",
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        char text[100];
        snprintf(text, sizeof text, "{\"a\": %s, \"b\\n\": [%s], \"c\": 7}", odd[i], odd[i]);
        json_t *object = parse(text);
        json_t *value = json_object_get(object, "a");
        json_t *within = json_array_get(json_object_get(object, "b\n"), 0);
        assert_string_equal(qk__json_odd_number(value), odd[i]);
        assert_string_equal(qk__json_odd_number(within), odd[i]);
        assert_false(json_is_number(value) || json_is_string(value) || json_is_boolean(value) ||
                     json_is_null(value) || json_is_object(value));
        assert_int_equal(json_integer_value(json_object_get(object, "c")), 7);
        json_decref(object);
    }
    json_t *list = parse("[[\"1e999\"], [], [\"\\u00ff1\"], \"x\", 5, {\"0\": \"1e999\"}]");
    for (size_t i = 0; i < json_array_size(list); i++)
        assert_null(qk__json_odd_number(json_array_get(list, i)));
    assert_null(qk__json_odd_number(NULL));
    json_decref(list);
}

/* It spoils its own text only, in files of texts. */
static void test_half_pairs(void **state)
{
    (void)state;
    json_t *object =
        parse("{\"a\": \"\\ud83d\", \"b\": [\"x\\udc00y\", \"z\"], \"\\udc00\": \"c\"}");
    assert_int_equal(json_array_size(json_object_get(object, "a")), 0);
    assert_true(json_is_array(json_object_get(object, "a")));
    assert_true(json_is_array(json_array_get(json_object_get(object, "b"), 0)));
    assert_string_equal(json_string_value(json_array_get(json_object_get(object, "b"), 1)),
                        "z");
    assert_string_equal(json_string_value(json_object_get(object, "\xef\xbf\xbd")), "c");
    json_decref(object);
}

static void test_strings(void **state)
{
    (void)state;
    json_t *object =
        parse(" {\"k\\u0065y\": \"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u20ac\\ud83d\\ude00z\","
              " \"z\\u0000\": \"\\u0000\\uffff\", \"\": \"\xe2\x96\x81\"}\n");
    assert_string_equal(json_string_value(json_object_get(object, "key")),
                        "a\"\\/\b\f\n\r\t\xe2\x82\xac\xf0\x9f\x98\x80z");
    json_t *zeros = json_object_getn(object, "z\0", 2);
    assert_int_equal(json_string_length(zeros), 4);
    assert_memory_equal(json_string_value(zeros), "\0\xef\xbf\xbf", 4);
    assert_string_equal(json_string_value(json_object_get(object, "")), "\xe2\x96\x81");
    json_decref(object);
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "byte 1: "},
        {" \n", "line 2, byte 1: "},
        {"{\"a\": 1,\n \"a\": 2}", "line 2, byte 2: duplicate"},
        {"{\"a\": {\"b\": 1, \"\\u0062\": 2}}", "duplicate"},
        {"[1 2]", "byte 4: expected ','"},
        {"[1,]", "byte 4: expected a value"},
        {"{\"a\" 1}", "byte 6: expected ':'"},
        {"{a: 1}", "byte 2: expected a key"},
        {"{\"a\": 1,}", "expected a key"},
        {"[1", "ends"},
        {"{\"a\"", "expected ':'"},
        {"{", "ends"},
        {"\"a", "ends within a string"},
        {"\"\\", "escape"},
        {"\"\\u12", "escape"},
        {"\"\\x\"", "byte 2: invalid escape"},
        {"\"\\ud800\"", "surrogate"},
        {"\"\\udc00\"", "surrogate"},
        {"\"\\ud800\\u0041\"", "surrogate"},
        {"\"\\u0000\"", "byte 2: \\u0000"},
        {"{\"\\u0000\": 1}", "\\u0000"},
        {"\"a\nb\"", "control"},
        {"\"ab\xff\"", "byte 4: cannot decode"},
        {"\"\xed\xa0\x80\"", "decode"},
        {"01", "invalid number"},
        {"1.", "invalid number"},
        {"1e", "invalid number"},
        {".5", "expected a value"},
        {"+1", "expected a value"},
        {"-", "expected a value"},
        {"-NaN", "expected a value"},
        {"nan", "expected a value"},
        {"None", "expected a value"},
        {"True", "expected a value"},
        {"{} {}", "byte 4: "},
        {"\xef\xbb\xbf{}", "byte 1: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse(cases[i][0], cases[i][1]);
    qk_error err;
    json_t *value;
    assert_int_equal(qk__json_parse(&value, "{}\0", 3, QK__JSON_LINE, &err), QK_ERR_MALFORMED);
    assert_int_equal(qk__json_parse(&value, NULL, 0, QK__JSON_LINE, NULL), QK_ERR_MALFORMED);
}

static void test_depth(void **state)
{
    (void)state;
    enum { DEPTH = 2048 };
    char text[2 * DEPTH + 3];
    memset(text, '[', DEPTH);
    memset(text + DEPTH, ']', DEPTH);
    text[2 * DEPTH] = 0;
    json_decref(parse(text));
    memset(text, '[', DEPTH + 1);
    memset(text + DEPTH + 1, ']', DEPTH + 1);
    text[2 * DEPTH + 2] = 0;
    refuse(text, "depth");
}

static void every_allocation(void **state)
{
    (void)state;
    static const char TEXT[] =
        "{\"a key of more than sixteen bytes\": [1, -2.5, \"text of more than sixteen bytes\"],"
        " \"with \\u0001 in it\": {\"b\": \"\\n\", \"c\": 1e999, \"d\": NaN, \"e\": [[], {}]},"
        " \"1\": 1, \"2\": 2, \"3\": 3, \"4\": 4, \"5\": 5, \"6\": 6, \"7\": 7, \"8\": 8}";
    json_set_alloc_funcs(__wrap_malloc, free);
    json_t *whole = parse(TEXT), *value = NULL;
    long failures = 0;
    for (long i = 0;; i++) {
        qk_error err;
        remaining = i;
        qk_status status = qk__json_parse(&value, TEXT, strlen(TEXT), QK__JSON_LINE, &err);
        bool failed = remaining < 0;
        remaining = -1;
        if (!failed) {
            assert_int_equal(status, QK_OK);
            break;
        }
        failures++;
        assert_int_equal(status, QK_ERR_NOMEM);
        assert_null(value);
    }
    assert_true(failures > 50);
    assert_true(json_equal(whole, value));
    json_decref(whole);
    json_decref(value);
}

/* As few digits as read back as the same number; a text that looks like a number stays. */
static void test_digits(void **state)
{
    (void)state;
    static const char *const TEXTS[][2] = {
        {"[0.29999999999999999, -0.69999999999999996, 0.3079629999999999]",
         "[0.3, -0.7, 0.3079629999999999]"},
        {"[1.0, 12345678901234567, 12345678901234567.0]",
         "[1.0, 12345678901234567, 12345678901234568.0]"},
        {"{\"0.29999999999999999\": [\"0.29999999999999999\", \"a \\\" b\", 0.1]}",
         "{\"0.29999999999999999\": [\"0.29999999999999999\", \"a \\\" b\", 0.1]}"},
    };
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        json_t *value = parse(TEXTS[i][0]);
        char *text = qk__json_dumps(value, 0);
        assert_string_equal(text, TEXTS[i][1]);
        json_decref(value);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),    cmocka_unit_test(test_odd_numbers),
        cmocka_unit_test(test_half_pairs), cmocka_unit_test(test_strings),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_digits),
        cmocka_unit_test(test_depth),      cmocka_unit_test(every_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
