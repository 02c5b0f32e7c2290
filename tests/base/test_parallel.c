/* SPDX-License-Identifier: Apache-2.0 */
/* The parallel loop: which failure is told, what begins after it, and progress. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/parallel.h"

enum { JOBS = 200 };

typedef struct jobs {
    const qk_status *fails; /* [JOBS] */
    size_t
        slow; /* this one ends after the next has begun, which may take minutes; JOBS: none */
    atomic_int ran[JOBS];
} jobs;

static qk_status run(void *context, size_t i, int worker, qk_error *err)
{
    (void)worker;
    jobs *j = context;
    const struct timespec moment = {.tv_nsec = 1000 * 1000};
    atomic_fetch_add(&j->ran[i], 1);
    for (int k = 0; i == j->slow && k < 300000 && atomic_load(&j->ran[i + 1]) == 0; k++)
        nanosleep(&moment, NULL);
    return j->fails[i] == QK_OK ? QK_OK : qk__fail(err, j->fails[i], "job %zu", i);
}

/* The lowest failure is told though a higher one came first, and every job below it ran. */
static void test_lowest_failure(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 8; threads++) {
        qk_error err = {0};
        qk_status fails[JOBS] = {[7] = QK_ERR_IO, [8] = QK_ERR_MALFORMED, [150] = QK_ERR_NOMEM};
        jobs j = {.fails = fails, .slow = threads > 1 ? 7 : JOBS};
        assert_int_equal(qk__parallel_try(JOBS, threads, run, &j, &err), QK_ERR_IO);
        assert_string_equal(err.message, "job 7");
        assert_int_equal(err.status, QK_ERR_IO);
        for (size_t i = 0; i <= 7; i++)
            assert_int_equal(j.ran[i], 1);
        if (threads ==
            1) /* other threads may begin any number before job 8 has told that it failed */
            assert_int_equal(j.ran[150], 0);
    }
}

/* A job that stops because another one failed has nothing to say; where all were stopped, one has. */
static void test_stopped(void **state)
{
    (void)state;
    qk_error err = {0};
    qk_status fails[JOBS] = {[3] = QK_ERR_CANCELLED, [4] = QK_ERR_IO};
    jobs j = {.fails = fails, .slow = 3};
    assert_int_equal(qk__parallel_try(JOBS, 2, run, &j, &err), QK_ERR_IO);
    assert_string_equal(err.message, "job 4");
    fails[4] = QK_OK;
    j = (jobs){.fails = fails, .slow = JOBS};
    assert_int_equal(qk__parallel_try(JOBS, 2, run, &j, NULL), QK_ERR_CANCELLED);
}

static void test_all_run(void **state)
{
    (void)state;
    const qk_status fails[JOBS] = {0};
    jobs j = {.fails = fails, .slow = JOBS};
    assert_int_equal(qk__parallel_try(JOBS, 4, run, &j, NULL), QK_OK);
    for (size_t i = 0; i < JOBS; i++)
        assert_int_equal(j.ran[i], 1);
    assert_int_equal(qk__parallel_try(0, 4, run, &j, NULL), QK_OK);
}

typedef struct listener {
    int64_t last;
    int calls;
    int64_t stop_at;
} listener;

static bool listen(void *user, const qk_progress *progress)
{
    listener *l = user;
    assert_string_equal(progress->what, "things");
    assert_int_equal(progress->bytes, 10 * progress->done);
    assert_true(progress->done > l->last);
    l->last = progress->done;
    l->calls++;
    return progress->done < l->stop_at;
}

static qk_status count(void *context, size_t i, int worker, qk_error *err)
{
    (void)i;
    (void)worker;
    return qk__meter_add(context, 1, 10) ? QK_OK : qk__fail(err, QK_ERR_CANCELLED, "stopped");
}

static void test_progress(void **state)
{
    (void)state;
    qk__meter meter;
    listener l = {.stop_at = JOBS + 1};
    const qk_context context = {.progress = listen, .user = &l};
    qk__meter_open(&meter, (qk_progress){.what = "things", .total = JOBS}, &context);
    assert_int_equal(qk__parallel_try(JOBS, 4, count, &meter, NULL), QK_OK);
    assert_int_equal(l.calls, JOBS);
    assert_false(qk__meter_is_stopped(&meter));
    qk__meter_close(&meter);

    /* who wants to stop is not asked again */
    l = (listener){.stop_at = 5};
    qk__meter_open(&meter, (qk_progress){.what = "things", .total = JOBS}, &context);
    assert_int_equal(qk__parallel_try(JOBS, 4, count, &meter, NULL), QK_ERR_CANCELLED);
    assert_int_equal(l.calls, 5);
    assert_true(qk__meter_is_stopped(&meter));
    qk__meter_close(&meter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lowest_failure),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_all_run),
        cmocka_unit_test(test_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
