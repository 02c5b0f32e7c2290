/* SPDX-License-Identifier: Apache-2.0 */
/* Units when memory runs out at any moment: what is there is never taken for missing. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "work/units.h"
#include "tests/unit.h"

#include "tests/base/tree.h"
#include "tests/failing_memory.h"

static void open_units(qk__unit_folder *units)
{
    qk_error err = {0};
    assert_int_equal(qk__units_open(units, tree_path(""), "0123abcd", &err), QK_OK);
    assert_int_equal(qk__units_make(units, &err), QK_OK);
}

static void a_unit_is_found_or_memory_is_short(void **state)
{
    (void)state;
    qk__unit_folder units;
    qk__names names;
    char *path;
    open_units(&units);
    assert_int_equal(qk__unit_begin(&units, "a", &path, NULL), QK_OK);
    assert_int_equal(qk__unit_publish(&units, "a", &path, NULL), QK_OK);
    bool more = true;
    for (long n = 0; more; n++) {
        remaining = n;
        qk_status status = qk__units_list(&units, &names, NULL);
        bool sealed = qk__unit_is_sealed(&units, "a");
        more = remaining < 0;
        remaining = -1;
        assert_true(sealed);
        assert_true(status == QK_ERR_NOMEM || names.count == 1);
        assert_true(more || n > 1);
        if (status == QK_OK)
            qk__names_free(&names);
    }
    qk__units_close(&units);
}

static void a_number_in_use_is_seen_or_memory_is_short(void **state)
{
    (void)state;
    const qk_shard shard = {0, 2, NULL};
    qk__unit_folder units;
    qk__rank rank;
    open_units(&units);
    assert_int_equal(qk__rank_join(&rank, &units, &shard, NULL), QK_OK);
    bool more = true;
    for (long n = 0; more; n++) {
        remaining = n;
        qk_status status = qk__ranks_ask(tree_path(""), NULL, NULL);
        more = remaining < 0;
        remaining = -1;
        assert_int_equal(status, more ? QK_ERR_NOMEM : QK_ERR_EXISTS);
        assert_true(more || n > 4);
    }
    assert_int_equal(qk__ranks_ask(tree_path(""), strrchr(units.path, '/') + 1, NULL), QK_OK);
    qk__rank_leave(&rank);
    assert_int_equal(qk__ranks_ask(tree_path(""), NULL, NULL), QK_OK);
    qk__units_close(&units);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_unit_is_found_or_memory_is_short),
        cmocka_unit_test(a_number_in_use_is_seen_or_memory_is_short)};
    return cmocka_run_group_tests_name("units_memory", tests, tree_setup_in_memory,
                                       tree_teardown);
}
