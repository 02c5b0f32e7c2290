/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a capture: what it refuses, what it leaves behind, and that reading it gives the
 * rows back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>

#include <qkscope/capture.h>

#include "base/file.h"
#include "base/parallel.h"
#include "capture/capture.h"
#include "capture/capture_writer.h"
#include "tests/base/tree.h"
#include "tests/capture/sample.h"

static const qk_head_id HEAD = {1, 12, QK_QUERY};

static void write_head(qk_capture_writer *writer, qk_head_id id, int seed)
{
    sample s;
    qk_head_writer *head;
    qk_error err;
    fill(&s, seed);
    assert_int_equal(qk_head_writer_open(&head, writer, id, DIM, false, 0, &err), QK_OK);
    assert_int_equal(qk_head_writer_add(head, &s.block, NULL, &err), QK_OK);
    assert_int_equal(qk_head_writer_finish(&head, &err), QK_OK);
    assert_null(head);
}

static json_t *manifest(void)
{
    json_t *object = json_load_file(tree_path("c/capture.json"), 0, NULL);
    assert_non_null(object);
    return object;
}

static void expect_complete(bool complete)
{
    json_t *object = manifest();
    assert_int_equal(json_is_true(json_object_get(object, "complete")), complete);
    json_decref(object);
}

static void test_round_trip(void **state)
{
    (void)state;
    const qk_capture_meta meta = {.model = "m", .q_per_kv_group = 4, .source = "test"};
    qk_capture_writer *writer, *second;
    qk_capture *capture;
    qk_rows *rows;
    qk_block block;
    qk_error err;
    sample s;
    fill(&s, 3);
    assert_int_equal(qk_capture_writer_open(&writer, tree_path("c"), &meta, &err), QK_OK);
    expect_complete(false);
    assert_int_equal(qk_capture_writer_open(&second, tree_path("c"), &meta, &err),
                     QK_ERR_EXISTS);
    assert_non_null(strstr(err.message, "another run is at work in this folder"));
    write_head(writer, HEAD, 3);
    assert_int_equal(qk_capture_writer_finish(&writer, &err), QK_OK);
    assert_null(writer);
    expect_complete(true);

    assert_int_equal(qk_capture_open(&capture, tree_path("c"), NULL, &err), QK_OK);
    assert_string_equal(qk_capture_get_info(capture)->model, "m");
    assert_int_equal(qk_capture_get_info(capture)->q_per_kv_group, 4);
    assert_true(qk_capture_get_info(capture)->complete);
    const qk_head *head = qk_capture_find(capture, HEAD);
    assert_non_null(head);
    unsigned all = QK_COLUMN_VECTOR | QK_COLUMN_POSITION | QK_COLUMN_BUCKET |
                   QK_COLUMN_EXAMPLE | QK_COLUMN_WINDOW;
    assert_int_equal(qk_rows_open(&rows, head, all, 0, &err), QK_OK);
    assert_int_equal(qk_rows_next(rows, 1000, &block, &err), QK_OK);
    assert_int_equal(block.rows, ROWS);
    assert_int_equal(block.dim, DIM);
    assert_memory_equal(block.f32, s.vectors, sizeof s.vectors);
    assert_memory_equal(block.position, s.position, sizeof s.position);
    assert_memory_equal(block.bucket, s.bucket, sizeof s.bucket);
    assert_memory_equal(block.example, s.example, sizeof s.example);
    assert_memory_equal(block.window, s.window, sizeof s.window);
    qk_rows_close(&rows);
    qk_capture_close(&capture);
}

/* Rows of the first positions are left out as if the file had none: blocks stay full, however few rows
 * are read at a time, and the number of rows asked for counts those that are left. */
static void expect_without(const qk_head *head, const sample *s, int64_t position,
                           size_t block_rows, int64_t most)
{
    qk_rows *rows;
    qk_block block;
    qk_error err;
    size_t at = 0, left = 0;
    for (size_t i = 0; i < ROWS; i++)
        left += s->position[i] >= position;
    left = most > 0 && left > (size_t)most ? (size_t)most : left;
    assert_int_equal(qk_rows_open(&rows, head,
                                  QK_COLUMN_VECTOR | QK_COLUMN_POSITION | QK_COLUMN_EXAMPLE,
                                  most, &err),
                     QK_OK);
    assert_int_equal(qk__rows_skip_below(rows, position, &err), QK_OK);
    assert_true((size_t)qk_rows_total(rows) >= left);
    for (size_t done = 0;; done += block.rows) {
        assert_int_equal(qk_rows_next(rows, block_rows, &block, &err), QK_OK);
        assert_int_equal(block.first_row, done);
        assert_int_equal(block.rows, left - done < block_rows ? left - done : block_rows);
        if (block.rows == 0)
            break;
        for (size_t r = 0; r < block.rows; r++, at++) {
            while (s->position[at] < position)
                at++;
            assert_int_equal(block.position[r], s->position[at]);
            assert_int_equal(block.example[r], s->example[at]);
            assert_memory_equal(block.f32 + r * DIM, s->vectors + at * DIM,
                                DIM * sizeof(float));
        }
    }
    qk_rows_close(&rows);
}

static void test_rows_without_first_positions(void **state)
{
    (void)state;
    qk_capture_writer *writer;
    qk_capture *capture;
    qk_rows *rows;
    qk_block block;
    qk_error err;
    sample s;
    fill(&s, 3);
    assert_int_equal(qk_capture_writer_open(&writer, tree_path("c"), NULL, &err), QK_OK);
    write_head(writer, HEAD, 3);
    assert_int_equal(qk_capture_writer_finish(&writer, &err), QK_OK);
    assert_int_equal(qk_capture_open(&capture, tree_path("c"), NULL, &err), QK_OK);
    const qk_head *head = qk_capture_find(capture, HEAD);
    for (size_t i = 0; i < 6; i++)
        for (size_t block_rows = 1; block_rows <= ROWS + 1; block_rows += 5)
            for (int64_t most = 0; most <= ROWS; most += 9)
                expect_without(head, &s, i == 0 ? 0 : s.position[i * (ROWS - 1) / 5],
                               block_rows, most);
    expect_without(head, &s, INT64_MAX, 3, 0);
    assert_int_equal(qk_rows_open(&rows, head, QK_COLUMN_VECTOR, 0, &err), QK_OK);
    assert_int_equal(qk__rows_skip_below(rows, 1, &err), QK_ERR_ARGUMENT);
    assert_int_equal(qk__rows_reopen(&rows, head, QK_COLUMN_POSITION, 0, &err), QK_OK);
    assert_int_equal(qk__rows_skip_below(rows, INT64_MAX, &err), QK_OK);
    assert_int_equal(qk__rows_reopen(&rows, head, QK_COLUMN_POSITION, 0, &err), QK_OK);
    assert_int_equal(qk_rows_next(rows, 2, &block, &err), QK_OK);
    assert_int_equal(block.rows, 2); /* another head is read from its first row */
    assert_int_equal(qk__rows_skip_below(rows, 1, &err), QK_ERR_ARGUMENT);
    qk_rows_close(&rows);
    qk_capture_close(&capture);
}

/* Blocks whose arrays are kept while others are read, and after the end. */
static void test_detached_blocks(void **state)
{
    (void)state;
    enum { PART = 7, PARTS = (ROWS + PART - 1) / PART };
    const unsigned columns = QK_COLUMN_VECTOR | QK_COLUMN_POSITION | QK_COLUMN_EXAMPLE;
    qk_capture_writer *writer;
    qk_capture *capture;
    qk_rows *rows = NULL;
    qk_block blocks[PARTS], none;
    qk_error err;
    sample s;
    fill(&s, 3);
    assert_int_equal(qk_capture_writer_open(&writer, tree_path("c"), NULL, &err), QK_OK);
    write_head(writer, HEAD, 3);
    assert_int_equal(qk_capture_writer_finish(&writer, &err), QK_OK);
    assert_int_equal(qk_capture_open(&capture, tree_path("c"), NULL, &err), QK_OK);
    const qk_head *head = qk_capture_find(capture, HEAD);
    assert_int_equal(qk__rows_reopen(&rows, head, columns | QK_COLUMN_BUCKET, 0, &err), QK_OK);
    assert_int_equal(qk_rows_next(rows, 1, &none, &err), QK_OK); /* buckets have memory now */
    assert_int_equal(qk__rows_reopen(&rows, head, columns, 0, &err), QK_OK);
    for (size_t i = 0; i < PARTS; i++) {
        assert_int_equal(qk_rows_next(rows, PART, &blocks[i], &err), QK_OK);
        assert_null(blocks[i].bucket);
        qk_rows_detach(rows);
    }
    assert_int_equal(qk_rows_next(rows, PART, &none, &err), QK_OK);
    assert_int_equal(none.rows, 0);
    qk_rows_close(&rows);
    qk_capture_close(&capture);
    for (size_t i = 0; i < PARTS; i++) {
        const size_t at = (size_t)blocks[i].first_row, count = blocks[i].rows;
        assert_int_equal(at, i * PART);
        assert_memory_equal(blocks[i].f32, s.vectors + at * DIM, count * DIM * sizeof(float));
        assert_memory_equal(blocks[i].position, s.position + at, count * sizeof(int64_t));
        assert_memory_equal(blocks[i].example, s.example + at, count * sizeof(int64_t));
        free((void *)(uintptr_t)blocks[i].f32);
        free((void *)(uintptr_t)blocks[i].position);
        free((void *)(uintptr_t)blocks[i].example);
    }
}

static void test_extra_keys(void **state)
{
    (void)state;
    const qk_capture_meta meta = {.extra_json = "{\"corpus\": {\"tokens\": 5}, \"heads\": 1}"};
    qk_capture_writer *writer;
    qk_error err;
    assert_int_equal(qk_capture_writer_open(&writer, tree_path("c"), &meta, &err), QK_OK);
    assert_int_equal(qk_capture_writer_finish(&writer, &err), QK_OK);
    json_t *object = manifest();
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(object, "corpus"), "tokens")), 5);
    assert_true(json_is_array(json_object_get(object, "heads"))); /* ours stays */
    json_decref(object);
}

static void expect_refused(const qk_capture_meta *meta, qk_status wanted, const char *word)
{
    qk_capture_writer *writer;
    qk_error err;
    assert_int_equal(qk_capture_writer_open(&writer, tree_path("c"), meta, &err), wanted);
    assert_null(writer);
    if (!strstr(err.message, word))
        fail_msg("'%s' lacks '%s'", err.message, word);
}

static void test_bad_captures(void **state)
{
    (void)state;
    expect_refused(&(qk_capture_meta){.extra_json = "[1]"}, QK_ERR_ARGUMENT, "object");
    expect_refused(&(qk_capture_meta){.extra_json = "{1}"}, QK_ERR_ARGUMENT, "object");
    expect_refused(&(qk_capture_meta){.model = "\xff"}, QK_ERR_ARGUMENT, "UTF-8");
    expect_refused(&(qk_capture_meta){.q_per_kv_group = -1}, QK_ERR_ARGUMENT, "-1");
    assert_false(qk__is_dir(tree_path("c"))); /* refused before anything is made */
    tree_add("c/notes.txt", "mine");
    expect_refused(NULL, QK_ERR_EXISTS, "choose another");
    tree_remove(tree_path("c"));
    tree_add("c", "a file");
    expect_refused(NULL, QK_ERR_EXISTS, "not a folder");
}

static void test_bad_heads(void **state)
{
    (void)state;
    qk_capture_writer *writer;
    qk_head_writer *head, *second;
    qk_error err;
    sample s;
    fill(&s, 0);
    assert_int_equal(qk_capture_writer_open(&writer, tree_path("c"), NULL, &err), QK_OK);
    assert_int_equal(
        qk_head_writer_open(&head, writer, (qk_head_id){-1, 0, QK_KEY}, DIM, false, 0, &err),
        QK_ERR_ARGUMENT);
    assert_int_equal(qk_head_writer_open(&head, writer, HEAD, DIM, false, 0, &err), QK_OK);
    assert_int_equal(qk_head_writer_open(&second, writer, HEAD, DIM, false, 0, &err),
                     QK_ERR_EXISTS);
    assert_null(second);
    s.block.dim = DIM + 1;
    assert_int_equal(qk_head_writer_add(head, &s.block, NULL, &err), QK_ERR_ARGUMENT);
    s.block.dim = DIM;
    s.block.example = NULL;
    assert_int_equal(qk_head_writer_add(head, &s.block, NULL, &err), QK_ERR_ARGUMENT);
    qk_head_writer_abort(&head);
    assert_false(qk__is_dir(tree_path("c/l01h12q")));
    write_head(writer, HEAD, 0); /* may be begun anew */
    assert_int_equal(qk_head_writer_open(&second, writer, HEAD, DIM, false, 0, &err),
                     QK_ERR_EXISTS);
    assert_true(qk__is_file(tree_path("c/l01h12q/data.parquet")));
    assert_int_equal(qk_capture_writer_finish(&writer, &err), QK_OK);
}

static void head_job(void *context, size_t i, int worker)
{
    (void)worker;
    write_head(context, (qk_head_id){(int)(i / 8), (int)(i % 8 / 2), (qk_kind)(i % 2)}, (int)i);
}

/* The order in which heads finish does not show. */
static void test_threads(void **state)
{
    (void)state;
    enum { HEADS = 64 };
    qk__buffer texts[2][2];
    for (int threads = 1; threads <= 2; threads++) {
        qk_capture_writer *writer;
        qk_error err;
        assert_int_equal(qk_capture_writer_open(&writer, tree_path("c"), NULL, &err), QK_OK);
        qk__parallel_for(HEADS, threads == 1 ? 1 : 4, head_job, writer);
        assert_int_equal(qk_capture_writer_finish(&writer, &err), QK_OK);
        qk__buffer *pair = texts[threads - 1];
        assert_int_equal(qk__read_file(tree_path("c/README.md"), 1 << 20, &pair[0], &err),
                         QK_OK);
        assert_int_equal(qk__read_file(tree_path("c/capture.json"), 1 << 20, &pair[1], &err),
                         QK_OK);
        tree_remove(tree_path("c"));
    }
    for (int i = 0; i < 2; i++) {
        assert_string_equal((const char *)texts[0][i].data, (const char *)texts[1][i].data);
        qk__buffer_free(&texts[0][i]);
        qk__buffer_free(&texts[1][i]);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, tree_setup, tree_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_round_trip),
        TEST(test_detached_blocks),
        TEST(test_extra_keys),
        TEST(test_bad_captures),
        TEST(test_bad_heads),
        TEST(test_threads),
        TEST(test_rows_without_first_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
