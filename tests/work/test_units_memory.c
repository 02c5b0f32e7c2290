/* SPDX-License-Identifier: Apache-2.0 */
/* Units when memory runs out at any moment: what is there is never taken for missing. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "work/units.h"
#include "tests/unit.h"

#include "tests/base/tree.h"
#include "tests/failing_memory.h"

static qk_status make(void)
{
    qk__unit unit;
    int64_t at;
    qk_status status = qk__unit_begin(&unit, tree_root, "a", NULL);
    if (status == QK_OK)
        status = qk__unit_append(&unit, "data", 4, &at, NULL);
    if (status == QK_OK)
        return qk__unit_finish(&unit, "run", "{}", NULL);
    qk__unit_discard(&unit);
    return status;
}

static qk_status find(void)
{
    bool there;
    int fd;
    qk__buffer head = {0};
    qk_status status = qk__unit_look(tree_root, "a", "run", &head, &there, NULL);
    assert_true(status != QK_OK || there);
    qk__buffer_free(&head);
    if (status != QK_OK)
        return status;
    status = qk__unit_open(tree_root, "a", "run", &fd, &head, NULL);
    qk__buffer_free(&head);
    if (status == QK_OK)
        close(fd);
    return status;
}

static void check_all_or_nothing(qk_status (*call)(void), long least)
{
    qk_status status = QK_ERR_NOMEM;
    long n = 0;
    for (; status != QK_OK; n++) {
        remaining = n;
        status = call();
        remaining = -1;
        assert_true(status == QK_OK || status == QK_ERR_NOMEM);
    }
    assert_true(n > least);
}

static void a_unit_is_found_or_memory_is_short(void **state)
{
    (void)state;
    check_all_or_nothing(make, 2);
    check_all_or_nothing(find, 4);
}

static void what_is_left_stays_where_memory_is_short(void **state)
{
    (void)state;
    for (long n = 0; n < 12; n++) {
        remaining = n;
        qk_status status = qk__units_sweep(tree_root, "", NULL);
        remaining = -1;
        assert_true(status == QK_OK || status == QK_ERR_NOMEM);
    }
    assert_int_equal(find(), QK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_unit_is_found_or_memory_is_short),
        cmocka_unit_test(what_is_left_stays_where_memory_is_short)};
    return cmocka_run_group_tests_name("units_memory", tests, tree_setup_in_memory,
                                       tree_teardown);
}
