/* SPDX-License-Identifier: Apache-2.0 */
/* Variables in text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/expand.h"

static void expect(const char *text, const char *wanted)
{
    qk__buffer out = {0};
    assert_int_equal(qk__expand_variables(text, strlen(text), 1000, &out, NULL), QK_OK);
    assert_string_equal((char *)out.data, wanted);
    assert_int_equal(out.size, strlen(wanted));
    qk__buffer_free(&out);
}

static void test_expand(void **state)
{
    (void)state;
    setenv("QK_T", "value", 1);
    setenv("QK_E", "", 1);
    setenv("QK_D", "$QK_T", 1);
    unsetenv("QK_U");
    expect("", "");
    expect("plain", "plain");
    expect("$QK_T", "value");
    expect("a ${QK_T}b$QK_T/c", "a valueb"
                                "value/c");
    expect("$QK_Tx ${QK_U} $QK_U", "$QK_Tx ${QK_U} $QK_U");
    expect("[$QK_E${QK_E}]", "[]");
    expect("$QK_D", "$QK_T");
    expect("$ $$QK_T ${ ${} ${QK_T", "$ $value ${ ${} ${QK_T");
    expect("$", "$");
}

static void test_limit(void **state)
{
    (void)state;
    setenv("QK_T", "0123456789", 1);
    qk__buffer out = {0};
    qk_error err;
    assert_int_equal(qk__expand_variables("$QK_T$QK_T", 10, 20, &out, &err), QK_OK);
    qk__buffer_free(&out);
    assert_int_equal(qk__expand_variables("$QK_T$QK_T", 10, 19, &out, &err), QK_ERR_MALFORMED);
    qk__buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expand),
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
