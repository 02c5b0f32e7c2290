/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files: values through every call, refused rows, files cut short, and inputs that once
 * broke the reader. QK_TEST_DATA, QK_TEST_CORPUS and QK_TEST_FOREIGN are folders. */
#include "unit.h"

#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include "base/buffer.h"
#include "base/file.h"
#include "exercise.h"
#include "parquet/reader.h"

#define CHECK_OK(expr) assert_int_equal(expr, QK_OK)

static const char *const FILES[] = {"capture", "v2", "split", "pages", "ragged"};

static const char *data_path(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/parquet/%s.parquet", QK_TEST_DATA, name);
    return path;
}

static qk_parquet *open_data(const char *name)
{
    qk_parquet *file;
    CHECK_OK(qk_parquet_open(&file, data_path(name), NULL));
    return file;
}

static qk__cursor *open_column(const qk_parquet *file, const char *name)
{
    qk__cursor *cursor;
    CHECK_OK(qk__cursor_open(&cursor, file, qk_parquet_find(file, name), NULL));
    return cursor;
}

/* As make_parquet.py has it. */
static float expected(size_t row, size_t j)
{
    return (float)((31 * row + j) % 97) / 8 - 6;
}

static void check_vectors(const char *name, size_t total, size_t dim, size_t batch)
{
    float values[400];
    double doubles[400];
    qk_parquet *file = open_data(name);
    qk__cursor *cursor = open_column(file, "vector");
    qk__cursor *wide = open_column(file, "vector.list.element");
    size_t row = 0, rows, width;
    for (;;) {
        CHECK_OK(qk__cursor_next_width(cursor, &width, NULL));
        CHECK_OK(qk__cursor_read_f32(cursor, values, dim, batch, &rows, NULL));
        assert_int_equal(width, rows > 0 ? dim : 0);
        size_t again;
        CHECK_OK(qk__cursor_read_f64(wide, doubles, dim, batch, &again, NULL));
        assert_int_equal(again, rows);
        if (rows == 0)
            break;
        assert_true(rows == batch || row + rows == total);
        for (size_t i = 0; i < rows * dim; i++) {
            assert_true(values[i] == expected(row + i / dim, i % dim));
            assert_true(doubles[i] == (double)values[i]);
        }
        row += rows;
    }
    assert_int_equal(row, total);
    qk__cursor_close(&wide);
    qk__cursor_close(&cursor);
    qk_parquet_close(&file);
}

static void test_vectors(void **unused)
{
    (void)unused;
    for (size_t batch = 1; batch <= 40; batch++) {
        check_vectors("capture", 12, 4, batch);
        check_vectors("v2", 12, 4, batch);
        check_vectors("split", 12, 4, batch);
        check_vectors("pages", 40, 10, batch);
    }
}

static void test_integers(void **unused)
{
    (void)unused;
    static const char *const files[] = {"capture", "v2", "split"};
    for (size_t f = 0; f < 3; f++) {
        qk_parquet *file = open_data(files[f]);
        qk__cursor *position = open_column(file, "position");
        qk__cursor *window = open_column(file, "sliding_window");
        int64_t values[12];
        uint8_t valid[12];
        size_t rows, row = 0;
        qk_error err = {0};
        assert_int_equal(qk_parquet_num_rows(file), 12);
        do {
            CHECK_OK(
                qk__cursor_read_i64(position, values, row % 2 ? valid : NULL, 5, &rows, NULL));
            for (size_t i = 0; i < rows; i++)
                assert_int_equal(values[i], 5 * (row + i));
            row += rows;
        } while (rows > 0);
        assert_int_equal(row, 12);
        CHECK_OK(qk__cursor_read_i64(window, values, valid, 12, &rows, NULL));
        assert_int_equal(rows, 12);
        for (size_t i = 0; i < rows; i++)
            assert_true(valid[i] == 0 && values[i] == 0);
        CHECK_OK(qk__cursor_read_i64(window, values, valid, 12, &rows, NULL));
        assert_int_equal(rows, 0);
        qk__cursor_close(&window);
        window = open_column(file, "sliding_window");
        assert_int_equal(qk__cursor_read_i64(window, values, NULL, 1, &rows, &err),
                         QK_ERR_INCONSISTENT);
        assert_non_null(strstr(err.message, "column 'sliding_window': row 0 is null"));
        qk__cursor_close(&window);
        qk__cursor_close(&position);
        qk_parquet_close(&file);
    }
}

static void test_columns(void **unused)
{
    (void)unused;
    qk_parquet *file = open_data("capture");
    assert_int_equal(qk_parquet_num_row_groups(file), 2);
    assert_int_equal(qk_parquet_num_columns(file), 5);
    assert_int_equal(qk_parquet_find(file, "vector"), 3);
    assert_int_equal(qk_parquet_find(file, "vec"), -1);
    const qk_parquet_column *vector = qk_parquet_column_at(file, 3);
    assert_string_equal(vector->codec, "ZSTD");
    assert_int_equal(vector->type, QK_PARQUET_FLOAT);
    assert_int_equal(vector->max_definition, 3);
    assert_int_equal(vector->max_repetition, 1);
    assert_int_equal(vector->num_values, 48);
    assert_false(vector->has_range);
    const qk_parquet_column *position = qk_parquet_column_at(file, 2);
    assert_true(position->has_range);
    assert_int_equal(position->min, 0);
    assert_int_equal(position->max, 55);
    assert_int_equal(position->null_count, 0);
    assert_int_equal(qk_parquet_column_at(file, 4)->logical, QK_PARQUET_NULL);
    assert_string_equal(qk_parquet_encoding_name(8), "RLE_DICTIONARY");
    assert_string_equal(qk_parquet_encoding_name(77), "unknown");
    qk_parquet_close(&file);
    assert_null(file);
    qk_parquet_close(&file);
}

/* Row 3 of each column is wrong in its own way. */
static void test_refused_rows(void **unused)
{
    (void)unused;
    static const struct {
        const char *column, *says;
    } cases[] = {
        {"short", "row 3 has 1 values where 2 are expected"},
        {"long", "row 3 has more than the 2 values expected"},
        {"null", "row 3 is empty, null or holds a null"},
        {"empty", "row 3 is empty, null or holds a null"},
        {"element", "row 3 is empty, null or holds a null"},
        {"long_last", "row 6 has more than the 2 values expected"},
        {"text", "does not hold numbers"},
        {"half", "has 1 value a row where 2 are expected"},
    };
    qk_parquet *file = open_data("ragged");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t batch = 1; batch <= 8; batch++) {
            float values[16];
            size_t rows;
            qk_error err = {0};
            qk_status status;
            qk__cursor *cursor = open_column(file, cases[i].column);
            do
                status = qk__cursor_read_f32(cursor, values, 2, batch, &rows, &err);
            while (status == QK_OK && rows > 0);
            assert_int_equal(status, QK_ERR_INCONSISTENT);
            if (!strstr(err.message, cases[i].says))
                fail_msg("%s", err.message);
            assert_non_null(strstr(err.message, cases[i].column));
            assert_non_null(strstr(err.message, "ragged.parquet: "));
            assert_int_equal(qk__cursor_read_f32(cursor, values, 2, 1, &rows, &err),
                             QK_ERR_ARGUMENT);
            qk__cursor_close(&cursor);
        }
    }
    qk_parquet_close(&file);
}

static void test_scalars(void **unused)
{
    (void)unused;
    qk_parquet *file = open_data("ragged");
    qk__cursor *half = open_column(file, "half"), *number = open_column(file, "number");
    float values[7];
    int64_t integers[7];
    uint8_t valid[7];
    size_t rows, width;
    CHECK_OK(qk__cursor_next_width(half, &width, NULL));
    assert_int_equal(width, 1);
    CHECK_OK(qk__cursor_read_f32(half, values, 1, 7, &rows, NULL));
    CHECK_OK(qk__cursor_read_i64(number, integers, valid, 7, &rows, NULL));
    assert_int_equal(rows, 7);
    for (size_t i = 0; i < 7; i++) {
        assert_true(values[i] == (float)i);
        assert_int_equal(valid[i], i != 2);
        assert_int_equal(integers[i], i == 2 ? 0 : i + 1);
    }
    qk__cursor_close(&number);
    qk__cursor_close(&half);
    qk_parquet_close(&file);
}

/* Every prefix is refused, and so is every prefix with the footer's last 8 bytes put back. */
static void test_truncation(void **unused)
{
    (void)unused;
    for (size_t f = 0; f < sizeof FILES / sizeof *FILES; f++) {
        qk__buffer whole;
        CHECK_OK(qk__read_file(data_path(FILES[f]), 1 << 20, &whole, NULL));
        assert_true(exercise_bytes(whole.data, whole.size) > 0);
        for (size_t size = 0; size < whole.size; size++) {
            uint8_t *prefix = malloc(size + 8);
            assert_non_null(prefix);
            memcpy(prefix, whole.data, size);
            assert_int_equal(exercise_bytes(prefix, size), -1);
            memcpy(prefix + size, whole.data + whole.size - 8, 8);
            if (size + 8 < whole.size)
                exercise_bytes(prefix, size + 8);
            free(prefix);
        }
        qk__buffer_free(&whole);
    }
}

/* ---- damaged files --------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = *state;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* A place in the file; as often as not in its last bytes, where the footer is. */
static size_t place(uint64_t *state, size_t size)
{
    size_t tail = size < 2000 ? size : 2000;
    if (next_random(state) % 2)
        return size - 1 - next_random(state) % tail;
    return next_random(state) % size;
}

static size_t mutate_once(uint8_t *data, size_t size, uint64_t *state)
{
    size_t at = place(state, size), from = place(state, size);
    size_t length = 1 + next_random(state) % 64;
    length = length < size - at ? length : size - at;
    length = length < size - from ? length : size - from;
    switch (next_random(state) % 8) {
    case 0:
        memset(data + at, 0, length);
        break;
    case 1:
        memmove(data + at, data + from, length);
        break;
    case 2: /* cut, with the end kept so that the footer is still found */
        memmove(data + at, data + at + length, size - at - length);
        return size - length > 16 ? size - length : size;
    case 3:
        data[at] = (uint8_t)next_random(state);
        break;
    case 4:
        return next_random(state) % 16 == 0 ? at + 1 : size; /* truncate */
    default:
        data[at] ^= (uint8_t)(1u << next_random(state) % 8);
    }
    return size;
}

static long peak_kilobytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* Each is read or refused, in a second or so of the processor and in little memory. */
static void test_mutations(void **unused)
{
    (void)unused;
    enum { MOST_SECONDS = 5, MOST_KILOBYTES = 512 << 10 };
    const uint64_t count = tier_is("test") ? 500 : tier_is("long") ? 50000 : 2000;
    const long start = peak_kilobytes();
    for (size_t f = 0; f < sizeof FILES / sizeof *FILES; f++) {
        qk__buffer sound;
        CHECK_OK(qk__read_file(data_path(FILES[f]), 1 << 20, &sound, NULL));
        uint8_t *data = malloc(sound.size + 1);
        assert_non_null(data);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t state = UINT64_C(1000003) + i;
            size_t size = sound.size;
            memcpy(data, sound.data, size);
            for (uint64_t n = 1 + next_random(&state) % 4; n > 0; n--)
                size = mutate_once(data, size, &state);
            const clock_t begin = clock();
            exercise_bytes(data, size);
            if (clock() - begin > MOST_SECONDS * CLOCKS_PER_SEC ||
                peak_kilobytes() - start > MOST_KILOBYTES)
                fail_msg("%s, mutation %llu", FILES[f], (unsigned long long)i);
        }
        free(data);
        qk__buffer_free(&sound);
    }
}

/* How many files of a folder can be read in part. */
static int exercise_folder(const char *folder)
{
    qk__names names;
    int readable = 0;
    if (qk__list_dir(folder, &names, NULL) != QK_OK)
        return 0;
    for (size_t i = 0; i < names.count; i++) {
        qk__buffer bytes;
        char *path = qk__path_join(folder, names.items[i]);
        assert_non_null(path);
        CHECK_OK(qk__read_file(path, 1 << 20, &bytes, NULL));
        readable += exercise_bytes(bytes.data, bytes.size) > 0;
        qk__buffer_free(&bytes);
        free(path);
    }
    qk__names_free(&names);
    return readable;
}

static void test_corpora(void **unused)
{
    (void)unused;
    assert_true(exercise_folder(QK_TEST_CORPUS) > 0);
    exercise_folder(
        QK_TEST_FOREIGN); /* where they are: test_parquet_testing.py says what is in them */
}

static void test_not_parquet(void **unused)
{
    (void)unused;
    qk_parquet *file;
    qk_error err = {0};
    assert_int_equal(qk_parquet_open(&file, "no/such/file", &err), QK_ERR_NOT_FOUND);
    assert_null(file);
    assert_int_equal(qk_parquet_open(&file, QK_TEST_DATA, &err), QK_ERR_IO);
    assert_int_equal(qk_parquet_open(&file, QK_TEST_DATA "/make_parquet.py", &err),
                     QK_ERR_MALFORMED);
    assert_non_null(strstr(err.message, "make_parquet.py: not a Parquet file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),     cmocka_unit_test(test_integers),
        cmocka_unit_test(test_columns),     cmocka_unit_test(test_refused_rows),
        cmocka_unit_test(test_scalars),     cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_mutations),   cmocka_unit_test(test_corpora),
        cmocka_unit_test(test_not_parquet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
