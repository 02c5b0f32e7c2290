/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of one sink share: its folder, opening it, what it should say, going on after a mistake. */
#ifndef QK_TESTS_SINK_CHECKS_H
#define QK_TESTS_SINK_CHECKS_H

#include <string.h>

#include "tests/base/tree.h"
#include "tests/sink/whole_run.h"

static char output[512]; /* where the sink of a test writes */

static inline int setup(void **state)
{
    int code = tree_setup(state);
    snprintf(output, sizeof output, "%s", tree_path("capture"));
    return code;
}

static inline qk_sink *open_sink(const qk_sink_settings *s)
{
    qk_error err = {0};
    qk_sink *sink;
    qk_status status = qk_sink_open(&sink, s, &err);
    if (status != QK_OK)
        print_error("%s\n", err.message);
    assert_int_equal(status, QK_OK);
    return sink;
}

static inline void check_says(qk_status status, qk_status expected, const qk_error *err,
                              const char *words)
{
    if (status != expected || !strstr(err->message, words))
        print_error("status %d: %s\n", (int)status, err->message);
    assert_int_equal(status, expected);
    assert_non_null(strstr(err->message, words));
}

static inline void check_goes_on(const qk_sink_settings *s)
{
    qk_error err = {0};
    qk_sink_outcome outcome;
    qk_status status = made_run_all(s, &outcome, &err);
    if (status != QK_OK)
        print_error("%s\n", err.message);
    assert_int_equal(status, QK_OK);
    assert_true(outcome.complete);
}

static inline qk_status put_number(qk_sink *sink, float number, qk_error *err)
{
    float data[2 * DIM] = {0};
    data[DIM + 3] = number;
    const qk_sink_rows rows = {.layer = 1,
                               .num_heads = 2,
                               .heads = (int[]){2, 3},
                               .first_position = 17,
                               .rows = 1,
                               .data = data};
    return qk_sink_put(sink, &rows, err);
}

#endif
