/* SPDX-License-Identifier: Apache-2.0 */
/* What calls tell their user, and what a relay makes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/context.h"

typedef struct listener {
    char told[200]; /* all notices, one behind the other */
    int64_t done;
    bool go_on;
    pthread_mutex_t *lock; /* that is held meanwhile; NULL = none */
} listener;

static void check_lock(const listener *l)
{
    if (l->lock)
        assert_int_not_equal(pthread_mutex_trylock(l->lock), 0);
}

static void hear(void *user, qk_notice_level level, const char *message)
{
    listener *l = user;
    size_t length = strlen(l->told);
    check_lock(l);
    snprintf(l->told + length, sizeof l->told - length, "%d %s;", (int)level, message);
}

static bool count(void *user, const qk_progress *progress)
{
    listener *l = user;
    check_lock(l);
    l->done = progress->done;
    return l->go_on;
}

static void test_nobody(void **state)
{
    (void)state;
    const qk_context none = {0}, three = {.threads = 3};
    qk__tell_notice(&none, QK_NOTICE_ERROR, "%d", 1);
    assert_true(qk__tell_progress(&none, &(qk_progress){.what = "things"}));
    assert_true(qk__count_threads(&none) >= 1);
    assert_int_equal(qk__count_threads(&three), 3);
}

static void test_relay(void **state)
{
    (void)state;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    listener l = {.lock = &lock};
    const qk_context to = {
        .threads = 2, .offline = true, .notice = hear, .progress = count, .user = &l};
    qk__relay relay = {.to = &to, .held_back = 1U << QK_NOTICE_WARNING, .lock = &lock};
    qk_context context = qk__relay_context(&relay);
    assert_int_equal(context.threads, 2);
    assert_true(context.offline);

    qk__tell_notice(&context, QK_NOTICE_ERROR, "100%%");
    qk__tell_notice(&context, QK_NOTICE_WARNING, "no");
    relay.name = "a%s";
    qk__tell_notice(&context, QK_NOTICE_REMARK, "%s", "b");
    relay.held_back = QK__ALL_NOTICES;
    for (int level = QK_NOTICE_INFO; level <= QK_NOTICE_REMARK; level++)
        qk__tell_notice(&context, (qk_notice_level)level, "no");
    assert_string_equal(l.told, "2 100%;3 a%s: b;");

    assert_false(qk__tell_progress(&context, &(qk_progress){.what = "things", .done = 7}));
    assert_int_equal(l.done, 7);
    l.go_on = true;
    assert_true(qk__tell_progress(&context, &(qk_progress){.what = "things", .done = 8}));
}

/* The next call's relay leads to this one's. */
static void test_relay_of_relay(void **state)
{
    (void)state;
    listener l = {.go_on = true};
    const qk_context to = {.notice = hear, .progress = count, .user = &l};
    qk__relay outer = {.to = &to, .name = "outer"};
    const qk_context middle = qk__relay_context(&outer);
    qk__relay inner = {.to = &middle, .name = "inner"};
    const qk_context context = qk__relay_context(&inner);
    qk__tell_notice(&context, QK_NOTICE_INFO, "said");
    assert_string_equal(l.told, "0 outer: inner: said;");
    assert_true(qk__tell_progress(&context, &(qk_progress){.what = "things"}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody),
        cmocka_unit_test(test_relay),
        cmocka_unit_test(test_relay_of_relay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
