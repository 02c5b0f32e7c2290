/* SPDX-License-Identifier: Apache-2.0 */
/* The Parquet writer: what it refuses, and what it leaves behind when it fails. What it
 * writes is checked by other readers in test_writer_interop.py. */
#include "tests/unit.h"

#include <signal.h>
#include <sys/resource.h>

#include "base/file.h"
#include "parquet/writer.h"
#include "tests/base/tree.h"

enum { ROWS = 1000, WIDTH = 3 };

static const qk__field FIELDS[] = {
    {"position", QK__FIELD_INT32, 0},
    {"vector", QK__FIELD_VECTOR, WIDTH},
    {"token_str", QK__FIELD_STRING, 0},
};

typedef struct sample {
    int64_t positions[ROWS];
    float vectors[ROWS * WIDTH];
    char text[ROWS][8];
    const char *strings[ROWS];
} sample;

static void fill(sample *s)
{
    for (int i = 0; i < ROWS; i++) {
        s->positions[i] = 7 * i - 500;
        for (int j = 0; j < WIDTH; j++)
            s->vectors[i * WIDTH + j] = (float)(i * j % 97) / 8;
        snprintf(s->text[i], sizeof s->text[i], "%d", i % 50);
        s->strings[i] = s->text[i];
    }
}

static qk_status add(qk__parquet_writer *writer, const sample *s, size_t first, size_t rows,
                     qk_error *err)
{
    const qk__field_values values[] = {{.i64 = s->positions + first},
                                       {.f32 = s->vectors + first * WIDTH},
                                       {.strings = s->strings + first}};
    return qk__parquet_writer_add(writer, values, rows, err);
}

static size_t count_files(void)
{
    qk__names names;
    assert_int_equal(qk__list_dir(tree_root, &names, NULL), QK_OK);
    size_t count = names.count;
    qk__names_free(&names);
    return count;
}

/* The file of so many rows at a time, in row groups that end elsewhere. */
static qk__buffer write_in_cuts(const sample *s, size_t cut)
{
    qk__parquet_writer *writer;
    qk__buffer contents;
    qk_error err;
    assert_int_equal(qk__parquet_writer_open(&writer, tree_path("f"), FIELDS, 3, 300, &err),
                     QK_OK);
    for (size_t i = 0; i < ROWS; i += cut)
        assert_int_equal(add(writer, s, i, ROWS - i < cut ? ROWS - i : cut, &err), QK_OK);
    assert_int_equal(qk__parquet_writer_finish(&writer, &err), QK_OK);
    assert_null(writer);
    assert_int_equal(qk__read_file(tree_path("f"), 1 << 20, &contents, &err), QK_OK);
    return contents;
}

static void test_bytes_do_not_depend_on_the_cut(void **state)
{
    static const size_t cuts[] = {1, 7, 299, 300, 301, 600};
    (void)state;
    sample s;
    fill(&s);
    qk__buffer whole = write_in_cuts(&s, ROWS);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        qk__buffer parts = write_in_cuts(&s, cuts[i]);
        assert_int_equal(parts.size, whole.size);
        assert_memory_equal(parts.data, whole.data, whole.size);
        qk__buffer_free(&parts);
    }
    qk__buffer_free(&whole);
}

static void test_int32_range(void **state)
{
    (void)state;
    static const int64_t bad[] = {INT64_C(2147483648), INT64_C(-2147483649), INT64_MAX};
    sample s;
    fill(&s);
    qk__parquet_writer *writer;
    qk_error err;
    assert_int_equal(qk__parquet_writer_open(&writer, tree_path("f"), FIELDS, 3, 0, &err),
                     QK_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        s.positions[13] = bad[i];
        assert_int_equal(add(writer, &s, 0, ROWS, &err), QK_ERR_ARGUMENT);
        assert_non_null(strstr(err.message, "column position"));
        assert_non_null(strstr(err.message, "row 13"));
    }
    /* Nothing of the refused rows was taken; a null's value does not matter. */
    uint8_t valid[ROWS];
    memset(valid, 1, sizeof valid);
    valid[13] = 0;
    const qk__field_values values[] = {
        {.i64 = s.positions, .valid = valid}, {.f32 = s.vectors}, {.strings = s.strings}};
    assert_int_equal(qk__parquet_writer_add(writer, values, ROWS, &err), QK_OK);
    assert_int_equal(qk__parquet_writer_finish(&writer, &err), QK_OK);
    qk_parquet *file;
    assert_int_equal(qk_parquet_open(&file, tree_path("f"), &err), QK_OK);
    assert_int_equal(qk_parquet_num_rows(file), ROWS);
    assert_int_equal(qk_parquet_column_at(file, 0)->null_count, 1);
    assert_int_equal(qk_parquet_column_at(file, 0)->min, -500);
    assert_int_equal(qk_parquet_column_at(file, 0)->max, 7 * (ROWS - 1) - 500);
    qk_parquet_close(&file);
}

static void test_places_and_fields_that_are_refused(void **state)
{
    (void)state;
    const qk__field no_width = {"v", QK__FIELD_VECTOR, 0};
    qk__parquet_writer *writer;
    qk_error err;
    size_t files = count_files();
    assert_int_equal(qk__parquet_writer_open(&writer, tree_path("x"), &no_width, 1, 0, &err),
                     QK_ERR_ARGUMENT);
    assert_null(writer);
    assert_non_null(strstr(err.message, "field v"));
    assert_int_equal(qk__parquet_writer_open(&writer, tree_path("none/f"), FIELDS, 3, 0, NULL),
                     QK_ERR_NOT_FOUND);
    assert_null(writer);
    assert_int_equal(count_files(), files);
}

static void test_nothing_appears_before_finish(void **state)
{
    (void)state;
    sample s;
    fill(&s);
    qk__parquet_writer *writer;
    qk__buffer contents;
    qk_error err;
    for (size_t files = 0; files < 2; files++) {
        assert_int_equal(qk__parquet_writer_open(&writer, tree_path("f"), FIELDS, 3, 0, &err),
                         QK_OK);
        assert_int_equal(add(writer, &s, 0, ROWS, &err), QK_OK);
        assert_int_equal(qk__is_file(tree_path("f")), files);
        qk__parquet_writer_abort(&writer);
        assert_null(writer);
        assert_int_equal(count_files(), files);
        tree_add("f", "old");
    }
    assert_int_equal(qk__read_file(tree_path("f"), 100, &contents, &err), QK_OK);
    assert_string_equal((const char *)contents.data, "old");
    qk__buffer_free(&contents);
    qk__parquet_writer_abort(&writer);
}

/* A file-size limit stands for a full disk. More than the output buffer: the failure comes while rows are added, and is
 * remembered. */
static void test_failure_is_remembered(void **state)
{
    (void)state;
    struct rlimit old, limit;
    qk_error err = {0};
    qk__parquet_writer *writer;
    const qk__field field = {"vector", QK__FIELD_VECTOR, 1000};
    uint64_t noise = 1;
    float *vectors = calloc(1000 * 100, sizeof *vectors);
    for (size_t i = 0; i < 1000 * 100; i++)
        vectors[i] = (float)random_unit(&noise);
    const qk__field_values values = {.f32 = vectors};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = old;
    limit.rlim_cur = 100000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(qk__parquet_writer_open(&writer, tree_path("f"), &field, 1, 50, &err),
                     QK_OK);
    qk_status first = qk__parquet_writer_add(writer, &values, 100, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(first, QK_ERR_IO);
    assert_int_equal(qk__parquet_writer_add(writer, &values, 1, &err), QK_ERR_IO);
    assert_non_null(strstr(err.message, "failed before"));
    assert_int_equal(qk__parquet_writer_finish(&writer, &err), QK_ERR_IO);
    assert_int_equal(count_files(), 0);
    free(vectors);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, tree_setup, tree_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_bytes_do_not_depend_on_the_cut),
        TEST(test_int32_range),
        TEST(test_places_and_fields_that_are_refused),
        TEST(test_nothing_appears_before_finish),
        TEST(test_failure_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
