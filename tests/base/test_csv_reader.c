/* SPDX-License-Identifier: Apache-2.0 */
/* CSV files: text comes back as written, and what is not CSV is refused with its place. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <math.h>

#include "base/csv_reader.h"
#include "tests/unit.h"

#include "tests/base/tree.h"

static const char *write_bytes(const char *text, size_t size)
{
    const char *path = tree_path("t.csv");
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(text, 1, size, file) != size || fclose(file) != 0)
        fail();
    return path;
}

/* A file with its rows in memory. */
static qk_status read_file(qk__csv_reader **reader, const char *path, size_t *rows,
                           qk_error *err)
{
    qk_status status = qk__reader_open(reader, path, err);
    if (status == QK_OK)
        status = qk__reader_load(*reader, rows, err);
    if (status != QK_OK)
        qk__reader_close(reader);
    return status;
}

static qk__csv_reader *read_text(const char *text, size_t *rows)
{
    qk__csv_reader *reader;
    qk_error err = {0};
    if (read_file(&reader, write_bytes(text, strlen(text)), rows, &err) != QK_OK)
        fail_msg("%s", err.message);
    return reader;
}

static const char *text_at(qk__csv_reader *reader, size_t row, size_t column)
{
    qk__reader_go(reader, row);
    return qk__reader_text(reader, column);
}

/* Header and rows are those of cells, columns in a row, NULL at the end. */
static void check_cells(const char *text, size_t columns, const char *const *cells)
{
    size_t rows = 0, count;
    qk__csv_reader *reader = read_text(text, &count);
    assert_int_equal(qk__reader_num_columns(reader), columns);
    for (size_t i = 0; i < columns; i++)
        assert_string_equal(qk__reader_column_name(reader, i), cells[i]);
    for (cells += columns; *cells && rows < count; cells += columns, rows++)
        for (size_t i = 0; i < columns; i++)
            assert_string_equal(text_at(reader, rows, i), cells[i]);
    assert_null(*cells);
    assert_int_equal(count, rows);
    qk__reader_close(&reader);
}

static void refuse_bytes(const char *text, size_t size, const char *words)
{
    qk__csv_reader *reader;
    size_t rows;
    qk_error err = {0};
    assert_int_equal(read_file(&reader, write_bytes(text, size), &rows, &err),
                     QK_ERR_MALFORMED);
    assert_null(reader);
    if (!strstr(err.message, words) || !strstr(err.message, "t.csv: "))
        fail_msg("'%s' does not say '%s'", err.message, words);
}

static void refuse(const char *text, const char *words)
{
    refuse_bytes(text, strlen(text), words);
}

static void texts(void **state)
{
    (void)state;
    check_cells("a,b\n1,2\n", 2, (const char *[]){"a", "b", "1", "2", NULL});
    check_cells("a,b\n1,2", 2, (const char *[]){"a", "b", "1", "2", NULL});
    check_cells("a,b\r\n1,2\r\n", 2, (const char *[]){"a", "b", "1", "2", NULL});
    check_cells("a,b\r1,2\r", 2, (const char *[]){"a", "b", "1", "2", NULL});
    check_cells("\xef\xbb\xbf"
                "a,b\n,\n",
                2, (const char *[]){"a", "b", "", "", NULL});
    check_cells("\xef\xbb\xbf\"a\",b\n\"\",\n", 2, (const char *[]){"a", "b", "", "", NULL});
    check_cells(" a ,\tb\n 1 , \n", 2, (const char *[]){" a ", "\tb", " 1 ", " ", NULL});
    check_cells("\n\r\na\n\n\r\n1\n\n", 1, (const char *[]){"a", "1", NULL});
    check_cells("\"a,\"\"b\",\"c\nd\r\ne\"\n\" x \",\"\xc3\xa9\"\n", 2,
                (const char *[]){"a,\"b", "c\nd\r\ne", " x ", "\xc3\xa9", NULL});
    check_cells("a\n\xff\xfe\x01\x7f\n", 1, (const char *[]){"a", "\xff\xfe\x01\x7f", NULL});
    check_cells("a", 1, (const char *[]){"a", NULL});
    check_cells("a,", 2, (const char *[]){"a", "", NULL});
    check_cells("=cmd(),'; x\n+1,@x\n", 2,
                (const char *[]){"=cmd()", "'; x", "+1", "@x", NULL});
}

static void not_csv(void **state)
{
    (void)state;
    refuse("", "empty");
    refuse("\xef\xbb\xbf", "empty");
    refuse("\n\r\n", "empty");
    refuse("a,b\n1,2\n1\n", "row 3: 1 fields, but the header has 2");
    refuse("a,b\r\n\r\n\n1,2\r\n1\r\n", "row 5: 1 fields, but the header has 2");
    refuse("a,b\n1,2,3\n", "row 2: more than the 2 fields");
    refuse("a\n\"x\n", "row 2: a quoted field does not end");
    refuse("a\nx\"y\"\n", "row 2: a quotation mark");
    refuse("a\n\"x\"y\n", "row 2: a quotation mark");
    refuse("a\n\"x\" \n", "row 2: a quotation mark");
    refuse_bytes("a,b\n1,\0002\n", 9, "row 2: a zero byte");
    refuse_bytes("\xff\xfe"
                 "a\0\n\0",
                 6, "row 1: a zero byte");
}

static void places(void **state)
{
    (void)state;
    qk_error err = {0};
    qk__csv_reader *reader;
    assert_int_equal(qk__reader_open(&reader, tree_path("none.csv"), &err), QK_ERR_NOT_FOUND);
    assert_int_equal(qk__reader_open(&reader, tree_path(""), &err), QK_ERR_IO);
    assert_int_equal(mkfifo(tree_path("pipe.csv"), 0600), 0);
    assert_int_equal(qk__reader_open(&reader, tree_path("pipe.csv"), &err), QK_ERR_IO);
    assert_null(reader);
}

static void columns(void **state)
{
    (void)state;
    size_t column, rows;
    qk_error err = {0};
    qk__csv_reader *reader = read_text("a,b,b\n1,2,3\n", &rows);
    assert_int_equal(qk__reader_find(reader, "a", true, &column, &err), QK_OK);
    assert_int_equal(column, 0);
    assert_int_equal(qk__reader_find(reader, "A", false, &column, &err), QK_OK);
    assert_true(column == QK__NO_COLUMN);
    assert_string_equal(text_at(reader, 0, column), "");
    assert_int_equal(qk__reader_find(reader, "A", true, &column, &err), QK_ERR_MALFORMED);
    assert_non_null(strstr(err.message, "no column 'A'"));
    assert_int_equal(qk__reader_find(reader, "b", false, &column, &err), QK_ERR_MALFORMED);
    assert_non_null(strstr(err.message, "columns 2 and 3 are both 'b'"));
    qk__reader_close(&reader);
}

static void fields(void **state)
{
    (void)state;
    qk__csv_reader *reader;
    qk_error err = {0};
    bool more;
    double number;
    int64_t integer;
    const char *text = "n,i\n1.5,3\n,\n1x,4.0\nnan,-1\n";
    assert_int_equal(qk__reader_open(&reader, write_bytes(text, strlen(text)), &err), QK_OK);
    assert_int_equal(qk__reader_next(reader, &more, &err), QK_OK);
    assert_int_equal(qk__reader_number(reader, 0, &number, &err), QK_OK);
    assert_true(number == 1.5);
    assert_int_equal(qk__reader_integer(reader, 1, 0, 3, &integer, &err), QK_OK);
    assert_int_equal(integer, 3);
    assert_int_equal(qk__reader_integer(reader, 1, 0, 2, &integer, &err), QK_ERR_MALFORMED);
    assert_int_equal(qk__reader_next(reader, &more, &err), QK_OK);
    assert_int_equal(qk__reader_number(reader, 0, &number, &err), QK_OK);
    assert_true(isnan(number));
    assert_int_equal(qk__reader_number(reader, QK__NO_COLUMN, &number, &err), QK_OK);
    assert_true(isnan(number));
    assert_int_equal(qk__reader_integer(reader, 1, 0, 9, &integer, &err), QK_ERR_MALFORMED);
    assert_int_equal(qk__reader_next(reader, &more, &err), QK_OK);
    assert_int_equal(qk__reader_number(reader, 0, &number, &err), QK_ERR_MALFORMED);
    assert_non_null(strstr(err.message, "row 4, column 'n': '1x' is not a number"));
    assert_int_equal(qk__reader_integer(reader, 1, 0, 9, &integer, &err), QK_ERR_MALFORMED);
    assert_int_equal(qk__reader_next(reader, &more, &err), QK_OK);
    assert_int_equal(qk__reader_number(reader, 0, &number, &err), QK_ERR_MALFORMED);
    assert_int_equal(qk__reader_integer(reader, 1, -1, 9, &integer, &err), QK_OK);
    assert_int_equal(qk__reader_next(reader, &more, &err), QK_OK);
    assert_false(more);
    assert_int_equal(qk__reader_next(reader, &more, &err), QK_OK);
    assert_false(more);
    qk__reader_close(&reader);
    qk__reader_close(&reader);
}

/* Rows, quotes and line ends at every place of the block that is read at once. */
static void blocks(void **state)
{
    (void)state;
    enum { BLOCK = 1 << 16 };
    static const char tail[] = "x,\"y\"\"\r\n,\"\r\nlast,\r\n";
    static char text[BLOCK + 64];
    for (size_t place = BLOCK - sizeof tail - 2; place < BLOCK + 2; place++) {
        memcpy(text, "a,b\n", 4);
        memset(text + 4, 'f', place - 4);
        memcpy(text + place - 3, ",g\n", 3);
        memcpy(text + place, tail, sizeof tail);
        size_t rows;
        qk__csv_reader *reader = read_text(text, &rows);
        assert_int_equal(rows, 3);
        assert_int_equal(strlen(text_at(reader, 0, 0)), place - 7);
        assert_string_equal(text_at(reader, 0, 1), "g");
        assert_string_equal(text_at(reader, 1, 0), "x");
        assert_string_equal(text_at(reader, 1, 1), "y\"\r\n,");
        assert_string_equal(text_at(reader, 2, 0), "last");
        assert_int_equal(qk__reader_row(reader), 4);
        qk__reader_close(&reader);
    }
}

/* count times piece, between start and end. */
static void refuse_long(const char *start, const char *piece, size_t count, const char *end,
                        const char *words)
{
    size_t size = strlen(piece), before = strlen(start);
    char *text = calloc(before + size * count + strlen(end) + 1, 1);
    if (!text)
        fail();
    memcpy(text, start, before);
    for (size_t i = 0; i < count; i++)
        memcpy(text + before + i * size, piece, size);
    memcpy(text + before + count * size, end, strlen(end));
    refuse(text, words);
    free(text);
}

static void limits(void **state)
{
    (void)state;
    enum { MIB = 1 << 20 };
    refuse_long("a\n", "x", MIB + 1, "\n", "row 2: too long");
    refuse_long("a\n\"", "x", MIB + (1 << 17), "", "row 2: a field of more than");
    refuse_long("", "x,", 4096, "x\n", "more than 4096 columns");
    refuse_long("", "x,", 1000000, "x\n", "more than 4096 columns");
    char piece[1200];
    memset(piece, 'a', sizeof piece - 2);
    memcpy(piece + sizeof piece - 2, ",", 2);
    refuse_long("", piece, 4000, "x\n", "row 1: too long");
}

/* Every beginning of a file is read or refused. */
static void truncation(void **state)
{
    (void)state;
    static const char text[] = "\xef\xbb\xbfmodel,\"layer\",x\r\n\"a \"\"b\"\"\nc\",1,0.5\r\n"
                               "\r\n\xc3\xa9,2,\n,3,\"4\"";
    size_t good = 0;
    for (size_t size = 0; size < sizeof text; size++) {
        qk__csv_reader *reader;
        size_t rows;
        qk_error err = {0};
        qk_status status = read_file(&reader, write_bytes(text, size), &rows, &err);
        assert_true(status == QK_OK || (status == QK_ERR_MALFORMED && *err.message));
        assert_true((status == QK_OK) == (reader != NULL));
        good += status == QK_OK;
        qk__reader_close(&reader);
    }
    assert_in_range(good, 20, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),   cmocka_unit_test(not_csv),    cmocka_unit_test(places),
        cmocka_unit_test(columns), cmocka_unit_test(fields),     cmocka_unit_test(blocks),
        cmocka_unit_test(limits),  cmocka_unit_test(truncation),
    };
    return cmocka_run_group_tests_name("csv_reader", tests, tree_setup, tree_teardown);
}
