/* SPDX-License-Identifier: Apache-2.0 */
/* Tables through Arrow's C data interface, whoever is released first, and whichever allocation fails. Their values, nulls
 * and types are those that pyarrow takes in tests/python/test_py_tables.py. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "tests/unit.h"

#include <errno.h>
#include <string.h>

#include <qkscope/arrow.h>
#include <qkscope/capture.h>

#include "tests/base/tree.h"
#include "tests/failing_memory.h"
#include "tests/made_capture.h"

static qk_analysis_results *results;

static int make(void **state)
{
    const made_capture made = {.layers = 2,
                               .query_heads = 4,
                               .dim = 8,
                               .rows = 40,
                               .texts = 5,
                               .buckets = 16,
                               .model = "m\xc3\xa9"};
    qk_analysis_settings s;
    if (tree_setup(state) != 0)
        return 1;
    if (make_made_capture(made, tree_path("capture"), NULL) != QK_OK)
        return 1;
    qk_analysis_settings_default(&s);
    s.capture = tree_path("capture");
    s.context.threads = 1;
    s.ci = 95;
    s.analyses = QK_ANALYSE_PCA | QK_ANALYSE_PLASTICITY;
    return qk_analysis_run(&s, &results, NULL) == QK_OK ? 0 : 1;
}

static int clear(void **state)
{
    qk_analysis_results_free(&results);
    return tree_teardown(state);
}

/* The table goes first, then the stream, then the batch; a column that was taken out of it stays. */
static void any_order(void **state)
{
    qk_columns *columns;
    struct ArrowArrayStream stream;
    struct ArrowArray batch, taken;
    (void)state;
    assert_int_equal(qk_results_table(results, "qk.csv", &columns, NULL), QK_OK);
    double first = qk_columns_reals(columns, "explained_variance")[0];
    size_t c = 0;
    while (strcmp(qk_columns_info(columns, c)->name, "explained_variance") != 0)
        c++;
    assert_int_equal(qk_columns_arrow(columns, &stream, NULL), QK_OK);
    qk_columns_free(&columns);
    assert_int_equal(stream.get_next(&stream, &batch), 0);
    stream.release(&stream);
    taken = *batch.children[c];
    batch.children[c]->release = NULL;
    batch.release(&batch);
    assert_true(((const double *)taken.buffers[1])[0] == first);
    taken.release(&taken);
    assert_int_equal(qk_results_table(results, "qk.csv", &columns, NULL), QK_OK);
    assert_int_equal(qk_columns_arrow(columns, &stream, NULL), QK_OK);
    qk_columns_free(&columns);
    stream.release(&stream); /* never read */
    assert_true(stream.release == NULL);
}

/* What a consumer does, with allocation n failing. */
static int take(struct ArrowArrayStream *stream)
{
    struct ArrowSchema schema = {0};
    struct ArrowArray batch = {0};
    int code = stream->get_schema(stream, &schema);
    if (code == 0)
        code = stream->get_next(stream, &batch);
    if (code != 0) {
        remaining = -1;
        assert_int_equal(code, ENOMEM);
        assert_string_equal(stream->get_last_error(stream), "out of memory");
    }
    if (schema.release)
        schema.release(&schema);
    if (batch.release)
        batch.release(&batch);
    return code;
}

static void every_allocation(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        qk_columns *columns;
        struct ArrowArrayStream stream = {0};
        qk_error err = {0};
        remaining = n;
        qk_status status = qk_results_table(results, "head_metrics.csv", &columns, &err);
        if (status == QK_OK)
            status = qk_columns_arrow(columns, &stream, &err);
        int code = status == QK_OK ? take(&stream) : 0;
        bool reached = remaining < 0;
        remaining = -1;
        if (status != QK_OK) {
            assert_int_equal(status, QK_ERR_NOMEM);
            assert_true(stream.release == NULL);
        } else {
            stream.release(&stream);
        }
        qk_columns_free(&columns);
        if (status == QK_OK && code == 0 && !reached) {
            assert_true(n > 60);
            break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order),
        cmocka_unit_test(every_allocation),
    };
    return cmocka_run_group_tests_name("arrow", tests, make, clear);
}
