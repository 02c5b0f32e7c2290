/* SPDX-License-Identifier: Apache-2.0 */
/* Units in a folder: appearing whole, lost races, what is damaged or of another place, what dead processes leave. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "tests/unit.h"

#include <sys/wait.h>

#include "tests/base/tree.h"
#include "work/units.h"

#define RUN "0123456789abcdef0123456789abcdef"

static void finish(const char *name, const char *contents, const char *head)
{
    qk__unit unit;
    int64_t first, at;
    assert_int_equal(qk__unit_begin(&unit, tree_root, name, NULL), QK_OK);
    first = qk__unit_reserve(&unit, 3);
    assert_int_equal(qk__unit_append(&unit, contents, strlen(contents), &at, NULL), QK_OK);
    assert_true(first == 0 && at == 8);
    assert_int_equal(qk__unit_write(&unit, first, "abc", 3, NULL), QK_OK);
    assert_int_equal(qk__unit_finish(&unit, RUN, head, NULL), QK_OK);
    assert_int_equal(unit.fd, -1);
}

static bool is_there(const char *name, const char *run)
{
    bool there;
    assert_int_equal(qk__unit_look(tree_root, name, run, NULL, &there, NULL), QK_OK);
    return there;
}

/* Opens a unit, which fails for this reason; NULL: it does not. */
static void check_open(const char *name, const char *run, const char *reason)
{
    qk_error err = {0};
    int fd;
    qk_status status = qk__unit_open(tree_root, name, run, &fd, NULL, &err);
    if (!reason) {
        assert_int_equal(status, QK_OK);
        close(fd);
        return;
    }
    assert_int_equal(status, QK_ERR_MALFORMED);
    assert_int_equal(fd, -1);
    if (!strstr(err.message, reason))
        fail_msg("'%s' is not in '%s'", reason, err.message);
}

static void in_folder(const char *command)
{
    char line[600];
    snprintf(line, sizeof line, "cd %s && %s", tree_root, command);
    assert_int_equal(system(line), 0);
}

static void units_appear_whole(void **state)
{
    (void)state;
    qk__unit unit;
    qk__buffer head = {0};
    char data[16];
    int fd;
    bool there;
    assert_false(is_there("b000001", RUN));
    assert_int_equal(qk__unit_begin(&unit, tree_root, "b000001", NULL), QK_OK);
    assert_false(is_there("b000001", RUN));
    in_folder("test `ls | wc -l` = 1");
    qk__unit_discard(&unit);
    qk__unit_discard(&unit);
    in_folder("test `ls | wc -l` = 0");
    finish("b000001", "contents", "{\"texts\":3}");
    in_folder("test `ls` = b000001");
    assert_int_equal(qk__unit_look(tree_root, "b000001", RUN, &head, &there, NULL), QK_OK);
    assert_true(there);
    assert_string_equal((char *)head.data, "{\"texts\":3}");
    qk__buffer_free(&head);
    assert_int_equal(qk__unit_open(tree_root, "b000001", RUN, &fd, &head, NULL), QK_OK);
    assert_int_equal(qk__read_at(fd, data, 16, 0, NULL), QK_OK);
    assert_memory_equal(data, "abc\0\0\0\0\0contents", 16);
    assert_string_equal((char *)head.data, "{\"texts\":3}");
    qk__buffer_free(&head);
    close(fd);
    in_folder("tail -1 b000001 | grep -qE '^qkscope unit 1 " RUN " b000001 11 [0-9a-f]{32}$'");
}

static void a_lost_race_is_fine(void **state)
{
    (void)state;
    qk__unit first, second;
    assert_int_equal(qk__unit_begin(&first, tree_root, "a", NULL), QK_OK);
    assert_int_equal(qk__unit_begin(&second, tree_root, "a", NULL), QK_OK);
    assert_string_not_equal(first.temporary, second.temporary);
    assert_int_equal(qk__unit_finish(&first, RUN, "", NULL), QK_OK);
    assert_int_equal(qk__unit_finish(&second, RUN, "", NULL), QK_OK);
    check_open("a", RUN, NULL);
    in_folder("test `ls` = a");
}

/* A copy of a unit in its place, cut to a size; false: it has no more. */
static bool truncate_to(const char *name, long size)
{
    char command[200];
    struct stat st;
    snprintf(command, sizeof command, "rm -f %s && cp whole %s", name, name);
    in_folder(command);
    assert_int_equal(stat(tree_path(name), &st), 0);
    assert_int_equal(truncate(tree_path(name), size), 0);
    return size < st.st_size;
}

static void what_is_not_right_is_not_there(void **state)
{
    (void)state;
    static const char *const other = "fedcba9876543210fedcba9876543210";
    finish("a", "contents", "head");
    finish("b", "contents", "head");
    check_open("a", other, "another place");
    assert_false(is_there("a", other));
    in_folder("cp a c");
    check_open("c", RUN, "another place");
    assert_false(is_there("c", RUN));
    in_folder("printf d | dd of=a conv=notrunc status=none");
    assert_true(is_there("a", RUN)); /* its last line is right */
    check_open("a", RUN, "its bytes");
    in_folder("sed -i 's/ b 4 / b 3 /' b");
    check_open("b", RUN, NULL); /* the head alone would be wrong */
    in_folder("sed -i 's/ b 3 / b -3 /' b");
    check_open("b", RUN, "not whole");
    finish("b", "contents", "head");
    in_folder("cp b whole");
    for (long size = 0; truncate_to("b", size); size++)
        assert_false(is_there("b", RUN));
    in_folder(": > b");
    assert_false(is_there("b", RUN));
    in_folder("rm b && mkdir b");
    bool there;
    assert_int_equal(qk__unit_look(tree_root, "b", RUN, NULL, &there, NULL), QK_ERR_IO);
}

static void a_run_that_others_ended_is_told(void **state)
{
    (void)state;
    qk__unit unit;
    qk_error err;
    char gone[300];
    snprintf(gone, sizeof gone, "%s/gone", tree_root);
    in_folder("mkdir gone");
    assert_int_equal(qk__unit_begin(&unit, gone, "a", NULL), QK_OK);
    in_folder("rm -r gone");
    assert_int_equal(qk__unit_finish(&unit, RUN, "", &err), QK_ERR_NOT_FOUND);
    assert_non_null(
        strstr(err.message, "another process with the same number has ended the run"));
    assert_int_equal(qk__unit_begin(&unit, gone, "a", &err), QK_ERR_NOT_FOUND);
}

static void what_dead_processes_leave_is_removed(void **state)
{
    (void)state;
    qk__unit own;
    pid_t child = fork();
    if (child == 0) {
        qk__unit unit;
        _exit(qk__unit_begin(&unit, tree_root, "a", NULL) == QK_OK ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    assert_int_equal(qk__unit_begin(&own, tree_root, "b", NULL), QK_OK);
    finish("c", "whole", "");
    in_folder("test `ls | wc -l` = 3 && mkdir d.tmp-qkscope-1-1 && touch notes");
    assert_int_equal(qk__units_sweep(tree_root, "", NULL), QK_OK);
    in_folder("test \"`echo [!b]*`\" = 'c d.tmp-qkscope-1-1 notes'");
    assert_int_equal(qk__unit_finish(&own, RUN, "", NULL), QK_OK);
    check_open("b", RUN, NULL);
}

static void every_unit_has_one_owner(void **state)
{
    (void)state;
    const qk_shard alone = {0}, one = {.count = 1};
    for (int64_t unit = 0; unit < 20; unit++) {
        int owners = 0;
        for (int i = 0; i < 7; i++)
            owners += qk__is_own(unit, &(qk_shard){.index = i, .count = 7});
        assert_int_equal(owners, 1);
        assert_true(qk__is_own(unit, &alone) && qk__is_own(unit, &one));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(units_appear_whole, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_lost_race_is_fine, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(what_is_not_right_is_not_there, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(a_run_that_others_ended_is_told, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(what_dead_processes_leave_is_removed, tree_setup,
                                        tree_teardown),
        cmocka_unit_test(every_unit_has_one_owner),
    };
    return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
