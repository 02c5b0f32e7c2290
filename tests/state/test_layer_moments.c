/* SPDX-License-Identifier: Apache-2.0 */
/* Moments of a layer in memory: allocations that fail leave a part as it was, and files with wrong bytes
 * are survived.
 * test_layer_moments.py compares the numbers with NumPy's. */
#include "layer_rows.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "failing_memory.h"
#include "base/buffer.h"
#include "base/file.h"
#include "state/layer_file.h"

/* The linker puts this in the place of the C library's, as those of failing_memory.h. */
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

static char path[] = "/tmp/qkscope-layer-XXXXXX";

/* The bytes of a file of one part. */
static qk__buffer bytes_of(qk__part_moments *part)
{
    qk__buffer bytes;
    const qk__layer_parts parts = {{part}};
    assert_int_equal(qk__layer_moments_write(path, &parts, 0, NULL, NULL), QK_OK);
    assert_int_equal(qk__read_file(path, 1 << 20, &bytes, NULL), QK_OK);
    return bytes;
}

static void assert_same_bytes(const qk__buffer *a, qk__part_moments *part)
{
    qk__buffer b = bytes_of(part);
    assert_int_equal(a->size, b.size);
    assert_memory_equal(a->data, b.data, a->size);
    qk__buffer_free(&b);
}

/* ---- parts ------------------------------------------------------------------------------ */

static void test_shapes_out_of_range_are_refused(void **state)
{
    (void)state;
    static const int falling[] = {3, 3}, negative[] = {-1, 2};
    const qk__part_shape wrong[] = {
        {.dim = 0, .num_heads = 1, .heads = numbers},
        {.dim = QK_MAX_DIM + 1, .num_heads = 1, .heads = numbers},
        {.dim = 1, .num_heads = 0, .heads = numbers},
        {.dim = 1, .num_heads = QK__MAX_PART_HEADS + 1, .heads = numbers},
        {.dim = 1, .num_heads = 1, .heads = numbers, .max_groups = 1},
        {.dim = 1, .num_heads = 1, .heads = numbers, .max_groups = QK__MAX_GROUPS + 1},
        {.dim = 1, .num_heads = 2, .heads = falling},
        {.dim = 1, .num_heads = 2, .heads = negative},
        {.dim = 9, .num_heads = 1, .heads = numbers, .pairs = 5},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        qk__part_moments *part;
        assert_int_equal(qk__part_moments_create(&part, &wrong[i], NULL), QK_ERR_ARGUMENT);
        assert_null(part);
    }
}

static void test_sizes(void **state)
{
    (void)state;
    qk__part_moments *part = make_part(&queries, 0, 3);
    const size_t groups = 3, buckets = (size_t)(bucket[ROWS - 1] - bucket[0] + 1);
    int64_t bytes = qk__part_shape_bytes(&queries, groups, buckets);
    qk__buffer file = bytes_of(part);
    assert_int_equal(qk__part_moments_count(part), 3 * ROWS - 3);
    assert_in_range(file.size, bytes, bytes + 4096); /* and the header */
    const qk__part_shape large = {
        .dim = 128, .num_heads = 64, .heads = numbers, .max_groups = 16};
    const int64_t group = 64 * (128 * 129 / 2 + 2 * 128 + 3) * 8 + 8;
    assert_int_equal(qk__part_shape_bytes(&large, 16, 99), 16 * group + 64 * 32 + 8);
    assert_int_equal(qk__part_shape_bytes(&large, SIZE_MAX, 0), INT64_MAX);
    qk__buffer_free(&file);
    qk__part_moments_free(&part);
}

static void test_merging_empties_the_later_part(void **state)
{
    (void)state;
    qk__part_moments *part = make_part(&queries, 0, 3), *later = make_part(&queries, 3, 4);
    qk__part_moments *empty = make_part(&queries, 0, 0);
    qk__buffer nothing = bytes_of(empty);
    assert_int_equal(qk__part_moments_merge(part, later, NULL), QK_OK);
    assert_same_bytes(&nothing, later);
    qk__buffer_free(&nothing);
    qk__part_moments_free(&part);
    qk__part_moments_free(&later);
    qk__part_moments_free(&empty);
}

/* ---- memory that fails ------------------------------------------------------------------ */

/* Computes and folds with so many allocations before one fails. */
static qk_status compute_and_fold(qk__part_moments *part, int64_t text, long allocations)
{
    qk__chunk_moments *chunk;
    const qk__chunk_rows rows = some_rows(ROWS);
    remaining = allocations;
    qk_status status = qk__chunk_moments_create(&chunk, NULL);
    if (status == QK_OK)
        status = qk__chunk_moments_compute(chunk, &queries, &rows, NULL);
    if (status == QK_OK)
        status = qk__part_moments_fold(part, text, true, chunk, NULL);
    remaining = -1;
    qk__chunk_moments_free(&chunk);
    return status;
}

static void test_a_fold_that_fails(void **state)
{
    (void)state;
    for (int64_t texts = 0; texts < 6; texts++) {
        qk__part_moments *part = make_part(&queries, 0, texts);
        qk__part_moments *expected = make_part(&queries, 0, texts);
        long failures = 0;
        while (compute_and_fold(part, texts, failures) == QK_ERR_NOMEM)
            failures++;
        assert_true(failures >= 3);
        assert_int_equal(compute_and_fold(expected, texts, -1), QK_OK);
        qk__buffer wanted = bytes_of(expected);
        assert_same_bytes(&wanted, part);
        qk__buffer_free(&wanted);
        qk__part_moments_free(&part);
        qk__part_moments_free(&expected);
    }
}

static void test_a_merge_that_fails_changes_nothing(void **state)
{
    (void)state;
    qk__part_moments *part = make_part(&queries, 0, 0), *later = make_part(&queries, 0, 5);
    qk__buffer nothing = bytes_of(part), all = bytes_of(later);
    qk_status status = QK_ERR_NOMEM;
    long failures = 0;
    for (; status != QK_OK; failures++) {
        remaining = failures;
        status = qk__part_moments_merge(part, later, NULL);
        remaining = -1;
        assert_true(status == QK_OK || status == QK_ERR_NOMEM);
        assert_same_bytes(status == QK_OK ? &all : &nothing, part);
        assert_same_bytes(status == QK_OK ? &nothing : &all, later);
    }
    assert_true(failures > 2);
    qk__buffer_free(&nothing);
    qk__buffer_free(&all);
    qk__part_moments_free(&part);
    qk__part_moments_free(&later);
}

/* Everything that can be done with a file; QK_ERR_NOMEM and others are handed on. */
static qk_status use_file(void *context)
{
    (void)context;
    qk__layer_file *file;
    qk__head_state *head;
    qk_status status = qk__layer_file_open(&file, path, NULL);
    for (int kind = 0; kind < 2 && status == QK_OK; kind++) {
        const qk__part_shape *shape = kind == QK_KEY ? &keys : &queries;
        bool there = qk__layer_file_find(file, (qk_kind)kind, shape->heads[0]) >= 0;
        for (size_t h = 0; there && h < shape->num_heads && status == QK_OK; h++) {
            status = qk__layer_file_head(file, (qk_kind)kind, h, &head, NULL);
            assert_true((head != NULL) == (status == QK_OK));
            if (head && head->first)
                status = qk__head_state_leave_out_first(head, NULL);
            qk__head_state_free(&head);
        }
    }
    qk__layer_file_close(&file);
    return status;
}

/* Calls with more allocations before one fails each time, until it succeeds: how many calls that takes. */
static long calls_until_memory_suffices(qk_status (*call)(void *), void *context)
{
    qk_status status = QK_ERR_NOMEM;
    long calls = 0;
    for (; status != QK_OK; calls++) {
        remaining = calls;
        status = call(context);
        remaining = -1;
        assert_true(status == QK_OK || status == QK_ERR_NOMEM);
    }
    return calls;
}

static qk_status write_parts(void *parts)
{
    return qk__layer_moments_write(path, parts, 3, NULL, NULL);
}

static qk_status create_part(void *part)
{
    qk_status status = qk__part_moments_create(part, &queries, NULL);
    assert_true((*(qk__part_moments **)part != NULL) == (status == QK_OK));
    return status;
}

static void test_files_without_memory(void **state)
{
    (void)state;
    qk__part_shape first = queries;
    first.by_bucket = false;
    qk__layer_parts all = {{make_part(&queries, 0, 3), make_part(&keys, 0, 3),
                            make_part(&first, 1, 2), make_part(&keys, 1, 2)}};
    qk__part_moments *part;
    assert_true(calls_until_memory_suffices(write_parts, &all) > 50);
    assert_true(calls_until_memory_suffices(use_file, NULL) > 100);
    assert_int_equal(calls_until_memory_suffices(create_part, &part), 5);
    qk__part_moments_free(&part);
    qk__layer_parts_free(&all);
}

/* ---- files ------------------------------------------------------------------------------ */

static void test_what_is_written_comes_back(void **state)
{
    (void)state;
    qk__part_moments *q = make_part(&queries, 0, 5), *k = make_part(&keys, 0, 5);
    const qk__layer_parts parts = {{q, k}};
    qk__layer_file *file;
    json_t *more = json_pack("{s:s, s:s}", "model", "tiny", "format", "mine");
    assert_int_equal(qk__layer_moments_write(path, &parts, 12, more, NULL), QK_OK);
    assert_int_equal(qk__layer_file_open(&file, path, NULL), QK_OK);
    assert_int_equal(qk__layer_file_layer(file), 12);
    const json_t *metadata = qk__layer_file_metadata(file);
    assert_string_equal(json_string_value(json_object_get(metadata, "model")), "tiny");
    assert_string_equal(json_string_value(json_object_get(metadata, "format")),
                        "qkscope moments 2");
    assert_int_equal(qk__layer_file_find(file, QK_KEY, 9), 2);
    assert_int_equal(qk__layer_file_find(file, QK_KEY, 5), -1);
    assert_int_equal(qk__layer_file_rows(file, QK_KEY, 2), qk__part_moments_count(k));
    qk__layer_file_close(&file);
    json_decref(more);
    qk__part_moments_free(&q);
    qk__part_moments_free(&k);
}

/* Loads what a file has at its begin. */
static qk_status load(int fd, const qk__part_shape *shape, size_t size, qk__part_moments **part)
{
    qk_status status = qk__part_moments_create(part, shape, NULL);
    if (status == QK_OK)
        status = qk__part_moments_load(*part, fd, 0, size, NULL);
    if (status != QK_OK)
        qk__part_moments_free(part);
    return status;
}

static void test_what_is_stored_comes_back(void **state)
{
    (void)state;
    const qk__part_shape *shapes[] = {&queries, &keys};
    for (int i = 0; i < 4; i++) {
        const qk__part_shape *shape = shapes[i / 2];
        qk__part_moments *part = make_part(shape, 0, i % 2 ? 5 : 0), *read = NULL;
        FILE *file = tmpfile();
        const size_t size = qk__part_moments_stored(part);
        qk__buffer bytes = bytes_of(part);
        assert_int_equal(qk__part_moments_store(part, fileno(file), 0, NULL), QK_OK);
        assert_int_equal(ftell(file), 0);
        assert_int_equal(load(fileno(file), shape, size, &read), QK_OK);
        assert_int_equal(qk__part_moments_count(read), qk__part_moments_count(part));
        assert_same_bytes(&bytes, read);
        qk__part_moments_free(&read);
        for (size_t wrong = 0; wrong < size + 16; wrong += wrong < 32 ? 1 : size / 7)
            if (wrong != size)
                assert_int_equal(load(fileno(file), shape, wrong, &read), QK_ERR_MALFORMED);
        qk_status status = QK_ERR_NOMEM;
        for (long n = 0; status != QK_OK; n++) {
            remaining = n;
            status = load(fileno(file), shape, size, &read);
            remaining = -1;
            assert_true(status == QK_OK || status == QK_ERR_NOMEM);
        }
        const int64_t many[] = {-1, INT64_MAX, 65};
        for (size_t n = 0; n < 6; n++) {
            assert_int_equal(
                qk__write_at(fileno(file), &many[n / 2], 8, (int64_t)(n % 2) * 8, NULL), QK_OK);
            qk__part_moments *none;
            assert_int_equal(load(fileno(file), shape, size, &none), QK_ERR_MALFORMED);
        }
        fclose(file);
        qk__buffer_free(&bytes);
        qk__part_moments_free(&read);
        qk__part_moments_free(&part);
    }
}

static void test_parts_of_another_shape_are_not_merged(void **state)
{
    (void)state;
    static const int fewer[] = {2, 5};
    qk__part_shape other[] = {keys, keys, keys};
    const char *const reasons[] = {"groups of texts differ", "dimensions differ",
                                   "different heads"};
    other[0].max_groups = keys.max_groups + 2;
    other[1].dim = keys.dim + 1;
    other[2].num_heads = 2;
    other[2].heads = fewer;
    for (size_t i = 0; i < 3; i++) {
        qk_error err = {0};
        qk__part_moments *a = make_part(&keys, 0, 2), *b = make_part(&other[i], 0, 0);
        assert_int_equal(qk__part_moments_merge(a, b, &err), QK_ERR_INCONSISTENT);
        assert_non_null(strstr(err.message, reasons[i]));
        qk__part_moments_free(&a);
        qk__part_moments_free(&b);
    }
}

static void test_parts_that_do_not_fit_are_not_written(void **state)
{
    (void)state;
    qk__part_shape other = keys;
    other.max_groups = 4;
    qk__part_moments *q = make_part(&queries, 0, 1), *k = make_part(&other, 0, 1);
    const qk__layer_parts both = {{q, k}}, none = {{NULL}}, one = {{q}};
    assert_int_equal(qk__layer_moments_write(path, &both, 0, NULL, NULL), QK_ERR_ARGUMENT);
    assert_int_equal(qk__layer_moments_write(path, &none, 0, NULL, NULL), QK_ERR_ARGUMENT);
    assert_int_equal(qk__layer_moments_write(path, &one, -1, NULL, NULL), QK_ERR_ARGUMENT);
    assert_int_equal(qk__layer_moments_write("/nonexistent/l00", &one, 0, NULL, NULL),
                     QK_ERR_NOT_FOUND);
    qk__part_moments_free(&q);
    qk__part_moments_free(&k);
}

static size_t header_size(const qk__buffer *bytes)
{
    return 8 + (size_t)bytes->data[0] + ((size_t)bytes->data[1] << 8);
}

static void test_a_file_cut_short_anywhere_is_refused(void **state)
{
    (void)state;
    qk__part_moments *part = make_part(&queries, 0, 5);
    qk__buffer bytes = bytes_of(part);
    size_t header = header_size(&bytes);
    for (size_t size = bytes.size; size-- > 0; size -= size > header + 64 ? 61 : 0) {
        assert_int_equal(truncate(path, (off_t)size), 0);
        assert_int_equal(use_file(NULL), QK_ERR_MALFORMED);
    }
    qk__buffer_free(&bytes);
    qk__part_moments_free(&part);
}

/* Whatever a byte of the header, or of the numbers that are counted with, becomes. */
static void test_wrong_bytes_are_survived(void **state)
{
    (void)state;
    qk__part_moments *part = make_part(&queries, 0, 5);
    qk__buffer bytes = bytes_of(part);
    size_t header = header_size(&bytes), refused = 0, step = tier_is("test") ? 13 : 1;
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    for (size_t at = 0; at < bytes.size; at += at < header + 256 ? step : 7 * step) {
        const uint8_t old = bytes.data[at];
        const uint8_t wrong[] = {old ^ 1, old ^ 0x80, '9', '-', 0, 0xff};
        for (size_t i = 0; i < sizeof wrong; i++) {
            assert_int_equal(pwrite(fd, &wrong[i], 1, (off_t)at), 1);
            refused += use_file(NULL) != QK_OK;
        }
        assert_int_equal(pwrite(fd, &old, 1, (off_t)at), 1);
    }
    close(fd);
    assert_true(refused > 2 * header / step);
    assert_int_equal(use_file(NULL), QK_OK);
    qk__buffer_free(&bytes);
    qk__part_moments_free(&part);
}

/* ---- set up ----------------------------------------------------------------------------- */

static int set_up(void **state)
{
    (void)state;
    fill_rows();
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    json_set_alloc_funcs(malloc, free); /* those that fail */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes_out_of_range_are_refused),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_merging_empties_the_later_part),
        cmocka_unit_test(test_a_fold_that_fails),
        cmocka_unit_test(test_a_merge_that_fails_changes_nothing),
        cmocka_unit_test(test_files_without_memory),
        cmocka_unit_test(test_what_is_written_comes_back),
        cmocka_unit_test(test_what_is_stored_comes_back),
        cmocka_unit_test(test_parts_of_another_shape_are_not_merged),
        cmocka_unit_test(test_parts_that_do_not_fit_are_not_written),
        cmocka_unit_test(test_a_file_cut_short_anywhere_is_refused),
        cmocka_unit_test(test_wrong_bytes_are_survived),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
