/* SPDX-License-Identifier: Apache-2.0 */
/* Lists such as "0,2,5-9". */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <qkscope/analysis.h>

static void expect(const char *text, size_t count, const int *wanted)
{
    qk_index_list list;
    assert_int_equal(qk_index_list_parse(text, &list, NULL), QK_OK);
    assert_int_equal(list.count, count);
    assert_memory_equal(list.items, wanted, count * sizeof *wanted);
    for (int value = -1; value < 20; value++) {
        bool has = false;
        for (size_t i = 0; i < count; i++)
            has |= wanted[i] == value;
        assert_int_equal(qk_index_list_has(&list, value), has);
    }
    qk_index_list_free(&list);
}
#define EXPECT(text, ...)                                                                      \
    expect(text, sizeof((int[]){__VA_ARGS__}) / sizeof(int), (const int[]){__VA_ARGS__})

static void test_good(void **state)
{
    (void)state;
    EXPECT("0", 0);
    EXPECT("0,2,5-9", 0, 2, 5, 6, 7, 8, 9);
    EXPECT("9,1-3,2,9,0", 0, 1, 2, 3, 9);
    EXPECT(" 1 , 2 - 3 ", 1, 2, 3);
    EXPECT("65535", 65535);
    EXPECT("007", 7);
}

static void test_bad(void **state)
{
    (void)state;
    static const char *const BAD[] = {
        "",    " ", ",",   "1,",  ",1",    "1,,2", "-1",    "1-",
        "3-1", "a", "1 2", "1;2", "1-2-3", "1.5",  "65536", "99999999999999999999",
        "0x1", "+1"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        qk_index_list list;
        qk_error err = {0};
        assert_int_equal(qk_index_list_parse(BAD[i], &list, &err), QK_ERR_ARGUMENT);
        assert_non_null(strstr(err.message, BAD[i]));
        assert_null(list.items);
        assert_int_equal(list.count, 0);
    }
}

static void test_many_ranges(void **state)
{
    (void)state;
    char text[1000] = "0-65535";
    for (int i = 0; i < 20; i++)
        strcat(text, ",0-65535");
    qk_index_list list;
    assert_int_equal(qk_index_list_parse(text, &list, NULL), QK_ERR_ARGUMENT);
}

static void test_empty_means_all(void **state)
{
    (void)state;
    qk_index_list list = {0};
    assert_true(qk_index_list_has(&list, 0));
    assert_true(qk_index_list_has(&list, 12345));
    qk_index_list_free(&list);
    qk_index_list_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_many_ranges),
        cmocka_unit_test(test_empty_means_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
