/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a packed capture: whose turn it is in a file, what becomes of a head that is given up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "capture/capture.h"
#include "tests/base/tree.h"
#include "tests/capture/sample.h"

static const qk_capture_meta PACKED = {.layout = QK_LAYOUT_PACKED};

static qk_head_id query(int head)
{
    return (qk_head_id){3, head, QK_QUERY};
}

static qk_capture_writer *begin(void)
{
    qk_capture_writer *writer;
    qk_error err;
    assert_int_equal(qk_capture_writer_open(&writer, tree_path("c"), &PACKED, &err), QK_OK);
    return writer;
}

static qk_head_writer *open_head(qk_capture_writer *writer, qk_head_id id, size_t group_rows)
{
    qk_head_writer *head;
    qk_error err;
    assert_int_equal(qk_head_writer_open(&head, writer, id, DIM, false, group_rows, &err),
                     QK_OK);
    return head;
}

static void add_rows(qk_head_writer *head, int seed)
{
    sample s;
    qk_error err;
    fill(&s, seed);
    assert_int_equal(qk_head_writer_add(head, &s.block, NULL, &err), QK_OK);
}

static void write_head(qk_capture_writer *writer, qk_head_id id, int seed)
{
    qk_error err;
    qk_head_writer *head = open_head(writer, id, 1000);
    add_rows(head, seed);
    assert_int_equal(qk_head_writer_finish(&head, &err), QK_OK);
}

static void expect_refused(qk_capture_writer *writer, qk_head_id id, size_t dim,
                           qk_status status, const char *words)
{
    qk_head_writer *head;
    qk_error err;
    assert_int_equal(qk_head_writer_open(&head, writer, id, dim, false, 0, &err), status);
    assert_null(head);
    assert_non_null(strstr(err.message, words));
}

/* Rows of the heads that there are. */
static void expect_heads(int count, const int *heads)
{
    qk_capture *capture;
    qk_rows *rows = NULL;
    qk_block block;
    qk_error err;
    assert_int_equal(qk_capture_open(&capture, tree_path("c"), NULL, &err), QK_OK);
    assert_int_equal(qk_capture_num_heads(capture), count);
    for (int i = 0; i < count; i++) {
        const qk_head *head = qk_capture_find(capture, query(heads[i]));
        assert_non_null(head);
        assert_non_null(head->parts);
        assert_int_equal(head->parts[0].first_group, i);
        assert_int_equal(head->parts[0].rows, ROWS);
        assert_int_equal(qk__rows_reopen(&rows, head, QK_COLUMN_POSITION, 0, &err), QK_OK);
        assert_int_equal(qk_rows_next(rows, 1000, &block, &err), QK_OK);
        assert_int_equal(block.rows, ROWS);
        assert_int_equal(block.position[0], heads[i] * 100);
    }
    qk_rows_close(&rows);
    qk_capture_close(&capture);
}

static void test_turns(void **state)
{
    (void)state;
    qk_error err;
    qk_capture_writer *writer = begin();
    write_head(writer, query(0), 0);
    qk_head_writer *head = open_head(writer, query(4), 1000);
    expect_refused(writer, query(5), DIM, QK_ERR_ARGUMENT, "begins within head 4");
    add_rows(head, 4);
    assert_int_equal(qk_capture_writer_end_layer(writer, 3, QK_QUERY, &err), QK_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "head 4 is still being written"));
    assert_int_equal(qk_head_writer_finish(&head, &err), QK_OK);
    expect_refused(writer, query(2), DIM, QK_ERR_ARGUMENT, "in ascending order");
    expect_refused(writer, query(4), DIM, QK_ERR_EXISTS, "written already");
    expect_refused(writer, query(6), DIM + 1, QK_ERR_ARGUMENT, "differs in dimension");
    assert_false(qk__is_file(tree_path("c/l03q/data.parquet")));
    assert_int_equal(qk_capture_writer_end_layer(writer, 3, QK_QUERY, &err), QK_OK);
    assert_true(qk__is_file(tree_path("c/l03q/data.parquet")));
    expect_refused(writer, query(6), DIM, QK_ERR_ARGUMENT, "finished");
    assert_int_equal(qk_capture_writer_end_layer(writer, 3, QK_QUERY, &err), QK_OK);
    assert_int_equal(qk_capture_writer_end_layer(writer, 9, QK_KEY, &err), QK_OK);
    assert_int_equal(qk_capture_writer_finish(&writer, &err), QK_OK);
    expect_heads(2, (const int[]){0, 4});
}

/* Two files at a time; the end of the capture ends them. */
static void test_layers(void **state)
{
    (void)state;
    qk_error err;
    qk_capture_writer *writer = begin();
    qk_head_writer *head = open_head(writer, query(0), 1000);
    write_head(writer, (qk_head_id){3, 0, QK_KEY}, 1);
    write_head(writer, (qk_head_id){4, 0, QK_QUERY}, 1);
    add_rows(head, 0);
    assert_int_equal(qk_head_writer_finish(&head, &err), QK_OK);
    assert_int_equal(qk_capture_writer_finish(&writer, &err), QK_OK);
    assert_true(qk__is_file(tree_path("c/l03q/data.parquet")));
    assert_true(qk__is_file(tree_path("c/l03k/data.parquet")));
    assert_true(qk__is_file(tree_path("c/l04q/data.parquet")));
}

static void test_a_head_given_up_in_time(void **state)
{
    (void)state;
    qk_error err;
    qk_capture_writer *writer = begin();
    write_head(writer, query(0), 0);
    qk_head_writer *head = open_head(writer, query(1), 1000);
    add_rows(head, 1);
    qk_head_writer_abort(&head);
    write_head(writer, query(2), 2);
    assert_int_equal(qk_capture_writer_finish(&writer, &err), QK_OK);
    expect_heads(2, (const int[]){0, 2});
}

static void test_a_head_given_up_too_late(void **state)
{
    (void)state;
    qk_error err;
    qk_capture_writer *writer = begin();
    qk_head_writer *head = open_head(writer, query(1), 16); /* row groups are written */
    add_rows(head, 1);
    qk_head_writer_abort(&head);
    expect_refused(writer, query(2), DIM, QK_ERR_ARGUMENT, "given up half-way");
    assert_int_equal(qk_capture_writer_end_layer(writer, 3, QK_QUERY, &err), QK_ERR_ARGUMENT);
    assert_int_equal(qk_capture_writer_finish(&writer, &err), QK_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "l03q"));
    assert_null(writer);
    assert_false(qk__is_file(tree_path("c/l03q/data.parquet")));
}

/* It has no row group, but capture.json lists it. */
static void test_no_rows(void **state)
{
    (void)state;
    qk_error err;
    qk_capture *capture;
    qk_rows *rows;
    qk_capture_writer *writer = begin();
    qk_head_writer *head = open_head(writer, query(0), 1000);
    assert_int_equal(qk_head_writer_finish(&head, &err), QK_OK);
    write_head(writer, query(1), 1);
    assert_int_equal(qk_capture_writer_finish(&writer, &err), QK_OK);
    assert_int_equal(qk_capture_open(&capture, tree_path("c"), NULL, &err), QK_OK);
    const qk_head *empty = qk_capture_find(capture, query(0));
    assert_non_null(empty);
    assert_false(empty->missing);
    assert_int_equal(qk_rows_open(&rows, empty, QK_COLUMN_VECTOR, 0, &err), QK_OK);
    assert_int_equal(qk_rows_total(rows), 0);
    qk_rows_close(&rows);
    qk_capture_close(&capture);
}

static void test_no_layout(void **state)
{
    (void)state;
    qk_error err;
    qk_capture_writer *writer;
    const qk_capture_meta meta = {.layout = (qk_layout)7};
    assert_int_equal(qk_capture_writer_open(&writer, tree_path("c"), &meta, &err),
                     QK_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "layout"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, tree_setup, tree_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_turns),
        TEST(test_layers),
        TEST(test_a_head_given_up_in_time),
        TEST(test_a_head_given_up_too_late),
        TEST(test_no_rows),
        TEST(test_no_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
