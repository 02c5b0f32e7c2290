/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that are put together, and names of files. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "base/file.h"
#include "tests/unit.h"

static void test_join(void **state)
{
    static const struct {
        const char *dir, *name, *joined;
    } CASES[] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}, {"", "b", "b"}};
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        qk__path path;
        assert_int_equal(qk__path_in(&path, CASES[i].dir, CASES[i].name, NULL), QK_OK);
        assert_string_equal(path.text, CASES[i].joined);
    }
}

static void test_too_long(void **state)
{
    qk__path path;
    qk_error err;
    int most = (int)sizeof path.text - 1;
    (void)state;
    assert_int_equal(qk__path_set(&path, &err, "%*s", most, "a"), QK_OK);
    assert_int_equal(strlen(path.text), most);
    assert_int_equal(qk__path_set(&path, &err, "%*s", most + 1, "a"), QK_ERR_IO);
    assert_non_null(strstr(err.message, "too long"));
    assert_int_equal(qk__path_set(&path, NULL, "%*s", most + 1, "a"), QK_ERR_IO);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(qk__file_name("a/b/c.csv"), "c.csv");
    assert_string_equal(qk__file_name("c.csv"), "c.csv");
    assert_string_equal(qk__file_name("a/"), "");
    assert_true(qk__ends_with("a.csv", ".csv"));
    assert_false(qk__ends_with(".csv", ".csv"));
    assert_false(qk__ends_with("a.CSV", ".csv"));
    assert_true(qk__ends_with_any_case("a.CSV", ".csv"));
    assert_false(qk__ends_with_any_case("csv", ".csv"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
