/* SPDX-License-Identifier: Apache-2.0 */
/* Running other programs: what reaches them, what comes back, and what is left behind. */
#include "tests/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "tests/base/tree.h"

enum { MESSAGE_LIMIT = 64 << 10 };

typedef struct outcome {
    qk_status status;
    int exit_code;
    qk__buffer messages;
    qk_error err;
} outcome;

static outcome run_in(const char *const *argv, const char *directory, const char *hidden)
{
    outcome got = {.exit_code = -1};
    const qk__program program = {.argv = argv, .directory = directory, .hidden = hidden};
    got.status = qk__process_run(&program, &got.messages, &got.exit_code, &got.err);
    return got;
}

/* Runs a line of shell; $1 and $2 are its arguments. */
static outcome run_shell(const char *line, const char *one, const char *two)
{
    return run_in((const char *const[]){"sh", "-c", line, "sh", one, two, NULL}, NULL, NULL);
}

static void expect_code(const char *line, int code)
{
    outcome got = run_shell(line, "", "");
    assert_int_equal(got.status, QK_OK);
    assert_int_equal(got.exit_code, code);
    qk__buffer_free(&got.messages);
}

static void expect_message(outcome got, const void *message, size_t size)
{
    assert_int_equal(got.status, QK_OK);
    assert_int_equal(got.exit_code, 0);
    assert_int_equal(got.messages.size, size);
    assert_memory_equal(got.messages.data, message, size);
    qk__buffer_free(&got.messages);
}

/* ---- how it ends ------------------------------------------------------------------------ */

static void test_exit_codes(void **state)
{
    (void)state;
    expect_code("exit 0", 0);
    expect_code("exit 1", 1);
    expect_code("exit 255", 255);
    expect_code("kill -KILL $$", 128 + SIGKILL);
    expect_code("kill -SEGV $$", 128 + SIGSEGV);
    expect_code("kill -PIPE $$", 128 + SIGPIPE);
}

/* It was not started. Under valgrind the system does not say so in time: 127 is all there is. */
static void expect_failure(outcome got, qk_status status, const char *name)
{
    const char *loaded = getenv("LD_PRELOAD");
    if (loaded && strstr(loaded, "vgpreload") && got.status == QK_OK) {
        assert_int_equal(got.exit_code, 127);
        return;
    }
    assert_int_equal(got.status, status);
    assert_non_null(strstr(got.err.message, name));
    assert_int_equal(got.messages.size, 0);
}

static void expect_no_start(const char *program, qk_status status)
{
    expect_failure(run_in((const char *const[]){program, NULL}, NULL, NULL), status, program);
}

static void test_no_program(void **state)
{
    (void)state;
    expect_no_start("no-such-program-here", QK_ERR_NOT_FOUND);
    expect_no_start("/no/such/folder/program", QK_ERR_NOT_FOUND);
    tree_add("text", "text");
    expect_no_start(tree_path("text"), QK_ERR_IO);
    chmod(tree_path("text"), 0755); /* what has no "#!" is not a shell script by default */
    expect_no_start(tree_path("text"), QK_ERR_IO);
    expect_no_start(tree_path(""), QK_ERR_IO);
    const char *const argv[] = {"true", NULL};
    expect_failure(run_in(argv, tree_path("nowhere"), NULL), QK_ERR_IO, "nowhere");
}

/* Nobody can learn how a program ended there; it must not pass for a success. */
static void test_children_not_awaited(void **state)
{
    (void)state;
    void (*before)(int) = signal(SIGCHLD, SIG_IGN);
    outcome got = run_shell("exit 3", "", "");
    signal(SIGCHLD, before);
    assert_int_equal(got.status, QK_ERR_IO);
    qk__buffer_free(&got.messages);
}

static void test_blocked_signals(void **state)
{
    (void)state;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    outcome got = run_shell("kill -TERM $$", "", "");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert_int_equal(got.status, QK_OK);
    assert_int_equal(got.exit_code, 128 + SIGTERM);
    qk__buffer_free(&got.messages);
}

static void ignore_alarm(int number)
{
    (void)number;
}

/* Signals that arrive while it waits change nothing. */
static void test_interrupted(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = ignore_alarm}, before;
    sigaction(SIGALRM, &action, &before);
    const struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    outcome got = run_shell("printf a >&2; sleep 0.1; printf b >&2", "", "");
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    expect_message(got, "ab", 2);
}

/* ---- what comes back -------------------------------------------------------------------- */

static void test_messages(void **state)
{
    (void)state;
    expect_message(run_shell("echo out; echo err >&2", "", ""), "err\n", 4);
    expect_message(run_shell("printf 'a\\000\\377b' >&2", "", ""),
                   "a\0\xff"
                   "b",
                   4);
    expect_message(run_shell("read x || printf end >&2", "", ""), "end",
                   3); /* nothing to read */
    outcome got = {.exit_code = -1};
    const char *const argv[] = {"sh", "-c", "printf x >&2", NULL};
    const qk__program program = {.argv = argv};
    for (int i = 0; i < 3; i++) /* they are appended */
        assert_int_equal(qk__process_run(&program, &got.messages, &got.exit_code, &got.err),
                         QK_OK);
    expect_message(got, "xxx", 3);
}

/* A program that says much is read to its end; the last of it is kept. */
static void test_messages_are_bounded(void **state)
{
    (void)state;
    outcome got = run_shell("head -c 3000000 /dev/zero >&2; printf end >&2; exit 7", "", "");
    assert_int_equal(got.status, QK_OK);
    assert_int_equal(got.exit_code, 7);
    assert_in_range(got.messages.size, MESSAGE_LIMIT / 4, MESSAGE_LIMIT);
    assert_memory_equal(got.messages.data + got.messages.size - 3, "end", 3);
    qk__buffer_free(&got.messages);
}

/* ---- what reaches it -------------------------------------------------------------------- */

static void test_arguments(void **state)
{
    (void)state;
    static const char *const hard[] = {
        "",        " ",    "a b", "'",  "\"", "'; touch x; '", "a\nb\n",     "\\", "$HOME",
        "`touch`", "*",    "-e",  "--", "~",  "%s%n",          "a;b|c&&d>x", "#",  "\xff\xfe",
        "\x1b",    "é 漢",
    };
    for (size_t i = 0; i < sizeof hard / sizeof *hard; i++) {
        const char *other = hard[(i + 1) % (sizeof hard / sizeof *hard)];
        outcome got = run_shell("printf '%s|%s|%s' \"$#\" \"$1\" \"$2\" >&2", hard[i], other);
        char expected[100];
        int size = snprintf(expected, sizeof expected, "2|%s|%s", hard[i], other);
        expect_message(got, expected, (size_t)size);
    }
}

static void test_hidden_variable(void **state)
{
    (void)state;
    setenv("QK_TEST", "seen", 1);
    setenv("QK_TEST_LONGER", "too", 1);
    const char *const argv[] = {"sh", "-c",
                                "printf '%s,%s' \"$QK_TEST\" \"$QK_TEST_LONGER\" >&2", NULL};
    expect_message(run_in(argv, NULL, NULL), "seen,too", 8);
    expect_message(run_in(argv, NULL, "QK_TEST"), ",too", 4);
    expect_message(run_in(argv, NULL, "QK_TES"), "seen,too", 8);
    expect_message(run_in(argv, NULL, "QK_TEST_LONGER"), "seen,", 5);
    assert_string_equal(getenv("QK_TEST"), "seen");
    unsetenv("QK_TEST");
    unsetenv("QK_TEST_LONGER");
}

static void test_added_variable(void **state)
{
    (void)state;
    setenv("QK_TEST", "old", 1);
    const char *const argv[] = {"sh", "-c", "printf %s \"$QK_TEST\" >&2", NULL};
    const qk__program program = {.argv = argv, .hidden = "QK_TEST", .added = "QK_TEST=new"};
    outcome got = {.exit_code = -1};
    got.status = qk__process_run(&program, &got.messages, &got.exit_code, &got.err);
    unsetenv("QK_TEST");
    expect_message(got, "new", 3);
}

static bool twice(void *user)
{
    return --*(int *)user > 0;
}

/* What shall not go on is interrupted, and ended where that does not help. */
static void test_stopped(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int code;
    } CASES[] = {{"exec sleep 1000", 128 + SIGINT},
                 {"trap '' INT; while :; do printf x >&2; sleep 0.01; done", 128 + SIGTERM}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        int left = 2;
        const char *const argv[] = {"sh", "-c", CASES[i].line, NULL};
        const qk__program program = {.argv = argv, .goes_on = twice, .user = &left};
        outcome got = {.exit_code = -1};
        got.status = qk__process_run(&program, &got.messages, &got.exit_code, &got.err);
        assert_int_equal(got.status, QK_OK);
        assert_int_equal(got.exit_code, CASES[i].code);
        qk__buffer_free(&got.messages);
    }
}

/* A program named by its path from here is found from here, also where it runs elsewhere. */
static void test_folders(void **state)
{
    (void)state;
    static const char elsewhere[] = "it's \"else\"where";
    tree_add("tools/speak", "#!/bin/sh\nprintf %s \"${PWD##*/}\" >&2\n");
    tree_add("it's \"else\"where/", "");
    chmod(tree_path("tools/speak"), 0755);
    char before[1024], after[1024];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(tree_path("")), 0);
    const char *const argv[] = {"tools/speak", NULL};
    outcome got = run_in(argv, elsewhere, NULL);
    const char *const missing[] = {"tools/silent", NULL};
    outcome none = run_in(missing, elsewhere, NULL);
    assert_non_null(getcwd(after, sizeof after));
    assert_int_equal(chdir(before), 0);
    assert_string_equal(strrchr(after, '/'), strrchr(tree_root, '/'));
    expect_message(got, elsewhere, strlen(elsewhere));
    expect_failure(none, QK_ERR_NOT_FOUND, "tools/silent");
}

/* ---- descriptors ------------------------------------------------------------------------ */

static int count_open(void)
{
    int count = 0;
    for (int fd = 0; fd < 1000; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Those below 10 that a program started from here has; a shell uses 10 and up itself. */
static int count_inherited(void)
{
    int count = 0;
    for (int fd = 0; fd < 10; fd++) {
        int flags = fcntl(fd, F_GETFD);
        count += fd < 3 || (flags >= 0 && !(flags & FD_CLOEXEC));
    }
    return count;
}

static void test_no_leaks(void **state)
{
    (void)state;
    int before = count_open();
    expect_code("exit 0", 0);
    expect_code("kill -KILL $$", 128 + SIGKILL);
    (void)run_in((const char *const[]){"no-such-program-here", NULL}, NULL, NULL);
    (void)run_in((const char *const[]){"true", NULL}, tree_path("nowhere"), NULL);
    assert_int_equal(count_open(), before);
}

/* The program gets its three descriptors and what the host program means its children to have. */
static void test_nothing_extra_inherited(void **state)
{
    (void)state;
    char expected[32];
    int size = snprintf(expected, sizeof expected, "%d", count_inherited());
    expect_message(run_shell("n=0; for i in 0 1 2 3 4 5 6 7 8 9; do "
                             "test -e /proc/$$/fd/$i && n=$((n+1)); done; printf $n >&2",
                             "", ""),
                   expected, (size_t)size);
}

/* Exit code of a copy of this process that has some of its first descriptors closed. */
static int run_with_closed(unsigned closed)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        for (int fd = 0; fd < 3; fd++)
            if (closed & (1U << fd))
                close(fd);
        outcome got = run_shell("echo out; printf err >&2; cat", "", "");
        _exit(got.status == QK_OK && got.exit_code == 0 && got.messages.size == 3 &&
                      memcmp(got.messages.data, "err", 3) == 0
                  ? 0
                  : 1);
    }
    int state = -1;
    waitpid(child, &state, 0);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

static void test_closed_descriptors(void **state)
{
    (void)state;
    fflush(NULL);
    for (unsigned closed = 0; closed < 8; closed++)
        assert_int_equal(run_with_closed(closed), 0);
}

/* ---- many at once ----------------------------------------------------------------------- */

enum { THREADS = 12, RUNS = 5 };

static void *run_many(void *argument)
{
    const int *number = argument;
    size_t bad = 0;
    for (int i = 0; i < RUNS; i++) {
        char text[32], line[64];
        int size = snprintf(text, sizeof text, "%d-%d", *number, i);
        snprintf(line, sizeof line, "printf %s >&2; exit %d", text, i);
        outcome got = run_shell(line, "", "");
        if (got.status != QK_OK || got.exit_code != i || got.messages.size != (size_t)size ||
            memcmp(got.messages.data, text, (size_t)size) != 0)
            bad++;
        qk__buffer_free(&got.messages);
    }
    return bad ? argument : NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    int numbers[THREADS], before = count_open();
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, run_many, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *bad = NULL;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    assert_int_equal(count_open(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_codes),
        cmocka_unit_test_setup_teardown(test_no_program, tree_setup, tree_teardown),
        cmocka_unit_test(test_children_not_awaited),
        cmocka_unit_test(test_blocked_signals),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_messages_are_bounded),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_hidden_variable),
        cmocka_unit_test(test_added_variable),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test_setup_teardown(test_folders, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(test_no_leaks, tree_setup, tree_teardown),
        cmocka_unit_test(test_nothing_extra_inherited),
        cmocka_unit_test(test_closed_descriptors),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
