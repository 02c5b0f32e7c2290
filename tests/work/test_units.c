/* SPDX-License-Identifier: Apache-2.0 */
/* Units in a folder: appearing whole, lost races, what dead processes leave, numbers in use, and
 * who computes what. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "unit.h"
#include "work/units.h"

static char folder[] = "/tmp/qkscope-units-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void open_units(qk__unit_folder *units)
{
    qk_error err = {0};
    assert_int_equal(qk__units_open(units, folder, "0123abcd", &err), QK_OK);
    assert_int_equal(qk__units_make(units, &err), QK_OK);
}

/* Makes a unit with one file up to the publishing. */
static char *begin(const qk__unit_folder *units, const char *name, const char *contents)
{
    char *path;
    assert_int_equal(qk__unit_begin(units, name, &path, NULL), QK_OK);
    char *file = qk__path_join(path, "data");
    assert_int_equal(qk__write_file(file, contents, strlen(contents), NULL), QK_OK);
    free(file);
    return path;
}

static void expect_names(const qk__unit_folder *units, const char *expected)
{
    qk__names names;
    char text[200] = "";
    assert_int_equal(qk__units_list(units, &names, NULL), QK_OK);
    for (size_t i = 0; i < names.count; i++) {
        strcat(strcat(text, names.items[i]), " ");
        assert_true(qk__names_have(&names, names.items[i]));
    }
    assert_false(qk__names_have(&names, "other"));
    qk__names_free(&names);
    assert_string_equal(text, expected);
}

/* How many names the run's folder has, of whatever. */
static size_t count_entries(const char *path)
{
    qk__names names;
    assert_int_equal(qk__list_dir(path, &names, NULL), QK_OK);
    size_t count = names.count;
    qk__names_free(&names);
    return count;
}

static bool has_units(void)
{
    char *top = qk__path_join(folder, QK__UNITS_NAME);
    bool yes = qk__is_there(top);
    free(top);
    return yes;
}

static void units_appear_whole(void **state)
{
    (void)state;
    qk__unit_folder units;
    qk__names runs;
    assert_int_equal(qk__units_open(&units, folder, "0123abcd", NULL), QK_OK);
    expect_names(&units, ""); /* nothing is made by looking */
    assert_false(has_units());
    assert_int_equal(qk__units_make(&units, NULL), QK_OK);
    char *b = begin(&units, "b", "of b"), *a = begin(&units, "a", "of a");
    expect_names(&units, "");
    assert_int_equal(qk__unit_publish(&units, "b", &b, NULL), QK_OK);
    assert_null(b);
    expect_names(&units, "b ");
    assert_int_equal(qk__unit_publish(&units, "a", &a, NULL), QK_OK);
    expect_names(&units, "a b ");
    qk__buffer contents = {0};
    char *path = qk__units_path(&units, "a", "data");
    assert_int_equal(qk__read_file(path, 100, &contents, NULL), QK_OK);
    assert_string_equal((char *)contents.data, "of a");
    qk__buffer_free(&contents);
    free(path);
    assert_int_equal(qk__units_runs(folder, &runs, NULL), QK_OK);
    assert_int_equal(runs.count, 1);
    assert_string_equal(runs.items[0], "0123abcd");
    qk__names_free(&runs);
    assert_int_equal(qk__unit_remove(&units, "a", NULL), QK_OK);
    assert_int_equal(qk__unit_remove(&units, "a", NULL), QK_OK);
    expect_names(&units, "b ");
    assert_int_equal(qk__units_remove(&units, NULL), QK_OK);
    assert_false(has_units());
    assert_int_equal(qk__units_remove(&units, NULL), QK_OK);
    qk__units_close(&units);
}

static void a_lost_race_is_fine(void **state)
{
    (void)state;
    qk__unit_folder units;
    open_units(&units);
    char *first = begin(&units, "a", "same"), *second = begin(&units, "a", "same");
    assert_string_not_equal(first, second);
    assert_int_equal(qk__unit_publish(&units, "a", &first, NULL), QK_OK);
    assert_int_equal(qk__unit_publish(&units, "a", &second, NULL), QK_OK);
    expect_names(&units, "a ");
    char *third = begin(&units, "b", "unwanted");
    qk__unit_discard(&third);
    assert_null(third);
    assert_int_equal(count_entries(units.path), 1);
    qk__units_close(&units);
}

static qk_status check_unit(const qk__unit_folder *units, const char *unit, const char *says)
{
    qk_error err = {0};
    qk_status status = qk__unit_check(units, unit, "data", &err);
    if (status != QK_OK && !strstr(err.message, says))
        fail_msg("'%s' is not in '%s'", says, err.message);
    return status;
}

/* Runs a command in the run's folder. */
static void in_units(const qk__unit_folder *units, const char *command)
{
    char line[600];
    snprintf(line, sizeof line, "cd %s && %s", units->path, command);
    assert_int_equal(system(line), 0);
}

static void a_seal_binds_a_unit_to_its_place(void **state)
{
    (void)state;
    qk__unit_folder units, other;
    open_units(&units);
    char *a = begin(&units, "a", "of a"), *b = begin(&units, "b", "of b");
    assert_int_equal(qk__unit_publish(&units, "a", &a, NULL), QK_OK);
    assert_int_equal(qk__unit_publish(&units, "b", &b, NULL), QK_OK);
    assert_int_equal(check_unit(&units, "a", ""), QK_OK);
    in_units(&units, "cp -r a c && mkdir ../other && cp -r a ../other");
    assert_int_equal(check_unit(&units, "c", "made as 0123abcd/a"), QK_ERR_MALFORMED);
    assert_int_equal(qk__units_open(&other, folder, "other", NULL), QK_OK);
    assert_int_equal(check_unit(&other, "a", "made as 0123abcd/a"), QK_ERR_MALFORMED);
    qk__units_close(&other);
    in_units(&units, "cp b/data a/data");
    assert_int_equal(check_unit(&units, "a", "data: its bytes"), QK_ERR_MALFORMED);
    assert_int_equal(qk__unit_check(&units, "a", NULL, NULL), QK_OK); /* its place alone */
    in_units(&units, "sed -i s,0123abcd/a,0123abcd/c, c/seal");
    assert_int_equal(check_unit(&units, "c", "seal is damaged"), QK_ERR_MALFORMED);
    in_units(&units, "sed -i 's,unit 1,unit 2,' c/seal");
    assert_int_equal(check_unit(&units, "c", "a later qkscope"), QK_ERR_UNSUPPORTED);
    in_units(&units, ": > c/seal");
    assert_int_equal(check_unit(&units, "c", "seal is damaged"), QK_ERR_MALFORMED);
    in_units(&units, "rm b/data");
    assert_int_equal(check_unit(&units, "b", "b/data"), QK_ERR_NOT_FOUND);
    qk__units_close(&units);
}

static void a_unit_without_a_seal_gives_way(void **state)
{
    (void)state;
    qk__unit_folder units;
    open_units(&units);
    in_units(&units, "mkdir a && echo old > a/data && echo old > a/more");
    expect_names(&units, "");
    assert_int_equal(check_unit(&units, "a", "a/seal"), QK_ERR_NOT_FOUND);
    char *a = begin(&units, "a", "new");
    assert_int_equal(qk__unit_publish(&units, "a", &a, NULL), QK_OK);
    expect_names(&units, "a ");
    assert_int_equal(check_unit(&units, "a", ""), QK_OK);
    in_units(&units, "test ! -e a/more && test `ls | wc -l` = 1");
    qk__units_close(&units);
}

static void a_run_that_others_ended_is_told(void **state)
{
    (void)state;
    qk__unit_folder units;
    qk_error err = {0};
    open_units(&units);
    char *path = begin(&units, "a", "late");
    assert_int_equal(qk__units_remove(&units, NULL), QK_OK);
    assert_int_equal(qk__unit_publish(&units, "a", &path, &err), QK_ERR_NOT_FOUND);
    assert_null(path);
    assert_int_equal(qk__unit_begin(&units, "a", &path, &err), QK_ERR_NOT_FOUND);
    assert_int_equal(qk__unit_begin(&units, "../a", &path, &err), QK_ERR_ARGUMENT);
    assert_int_equal(qk__unit_begin(&units, "a.b", &path, &err), QK_ERR_ARGUMENT);
    qk__units_close(&units);
    assert_int_equal(qk__units_open(&units, folder, "", &err), QK_ERR_ARGUMENT);
}

/* Runs a function in a process that ends without cleaning up. */
static void in_dead_process(void (*act)(const qk__unit_folder *), const qk__unit_folder *units)
{
    pid_t child = fork();
    if (child == 0) {
        act(units);
        _exit(0);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
}

static void leave_unit(const qk__unit_folder *units)
{
    free(begin(units, "a", "half"));
}

static void what_dead_processes_leave_is_removed(void **state)
{
    (void)state;
    qk__unit_folder units;
    open_units(&units);
    in_dead_process(leave_unit, &units);
    char *own = begin(&units, "b", "alive");
    char foreign[400];
    snprintf(foreign, sizeof foreign, "%s/c.tmp-elsewhere-0123456789abcdef-1-1-0", units.path);
    assert_int_equal(mkdir(foreign, 0777), 0);
    snprintf(foreign, sizeof foreign, "%s/d.tmp-", units.path);
    assert_int_equal(mkdir(foreign, 0777), 0);
    assert_int_equal(count_entries(units.path), 4);
    assert_int_equal(qk__units_sweep(&units, NULL), QK_OK);
    assert_int_equal(count_entries(units.path), 3); /* own, elsewhere's, no process's */
    assert_int_equal(qk__unit_publish(&units, "b", &own, NULL), QK_OK);
    expect_names(&units, "b ");
    qk__units_close(&units);
}

static void join_as_1_of_3(const qk__unit_folder *units)
{
    qk__rank rank;
    qk_shard shard = {1, 3, NULL};
    if (qk__rank_join(&rank, units, &shard, NULL) != QK_OK)
        _exit(1);
}

static void fail_as_1_of_3(const qk__unit_folder *units)
{
    qk__rank rank;
    qk_shard shard = {1, 3, NULL};
    qk_error err;
    if (qk__rank_join(&rank, units, &shard, &err) != QK_ERR_EXISTS ||
        !strstr(err.message, "shard 1 of 3"))
        _exit(1);
}

static void one_number_is_for_one_process(void **state)
{
    (void)state;
    qk__unit_folder units;
    qk__rank rank;
    qk_shard shard = {1, 3, NULL};
    unsetenv("SLURM_JOB_ID");
    open_units(&units);
    in_dead_process(join_as_1_of_3, &units); /* it may be had again */
    assert_int_equal(qk__rank_join(&rank, &units, &shard, NULL), QK_OK);
    in_dead_process(fail_as_1_of_3, &units);
    qk__rank_leave(&rank);
    qk__rank_leave(&rank);
    in_dead_process(join_as_1_of_3, &units);
    expect_names(&units, ""); /* ranks/ is no unit */
    qk__units_close(&units);
}

/* Of another machine nobody can tell, but one job has each number once. */
static void a_job_has_each_number_once(void **state)
{
    (void)state;
    qk__unit_folder units;
    qk__rank rank;
    qk_shard shard = {1, 3, NULL};
    char path[400];
    const char *other = "elsewhere-0123456789abcdef-1-1\nSLURM_JOB_ID=7\n";
    open_units(&units);
    snprintf(path, sizeof path, "%s/ranks", units.path);
    assert_int_equal(mkdir(path, 0777), 0);
    snprintf(path, sizeof path, "%s/ranks/1-of-3", units.path);
    assert_int_equal(qk__write_file(path, other, strlen(other), NULL), QK_OK);
    setenv("SLURM_JOB_ID", "7", 1);
    in_dead_process(fail_as_1_of_3, &units);
    setenv("SLURM_JOB_ID", "8", 1);
    assert_int_equal(qk__rank_join(&rank, &units, &shard, NULL), QK_OK);
    qk__rank_leave(&rank);
    assert_int_equal(qk__write_file(path, "", 0, NULL), QK_OK); /* of a full disk */
    assert_int_equal(qk__rank_join(&rank, &units, &shard, NULL), QK_OK);
    qk__rank_leave(&rank);
    unsetenv("SLURM_JOB_ID");
    qk__units_close(&units);
}

static void end_first(const qk__unit_folder *units)
{
    bool mine;
    if (qk__end_claim(units, false, &mine, NULL) != QK_OK || !mine)
        _exit(1);
}

static void leave_the_end(const qk__unit_folder *units)
{
    bool mine;
    if (qk__end_claim(units, true, &mine, NULL) != QK_OK || mine)
        _exit(1);
}

/* The word of a dead process stays, and the next one has the next number. */
static void one_process_puts_all_together(void **state)
{
    (void)state;
    qk__unit_folder units;
    bool mine;
    open_units(&units);
    in_dead_process(end_first, &units);
    assert_int_equal(qk__end_claim(&units, false, &mine, NULL), QK_OK);
    assert_true(mine);
    assert_int_equal(qk__end_claim(&units, false, &mine, NULL), QK_OK);
    assert_true(mine);
    in_dead_process(leave_the_end, &units);
    expect_names(&units, "end-0 end-1 ");
    qk__units_close(&units);
}

static void neighbours_stay_together(void **state)
{
    (void)state;
    int64_t next = 0, first, end;
    for (int64_t i = 0; i < 7; i++) {
        const qk_shard shard = {i, 7, NULL};
        qk__share_alike(17, &shard, &first, &end);
        assert_int_equal(first, next);
        assert_in_range(end - first, 2, 3);
        next = end;
    }
    assert_int_equal(next, 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(units_appear_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lost_race_is_fine, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_seal_binds_a_unit_to_its_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_unit_without_a_seal_gives_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_run_that_others_ended_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_dead_processes_leave_is_removed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(one_number_is_for_one_process, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_job_has_each_number_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_process_puts_all_together, set_up, tear_down),
        cmocka_unit_test(neighbours_stay_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
