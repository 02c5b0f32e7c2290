/* SPDX-License-Identifier: Apache-2.0 */
/* Moments of a layer in memory: every kernel and every layout of rows gives the same bits,
 * allocations that fail leave a part as it was, and files with wrong bytes are survived.
 * test_layer_moments.py compares the numbers with NumPy's. */
#include "unit.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "failing_memory.h"
#include "base/buffer.h"
#include "base/file.h"
#include "state/chunk_moments.h"
#include "state/layer_file.h"
#include "state/part_moments.h"

/* The linker puts this in the place of the C library's, as those of failing_memory.h. */
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

enum { DIM = 11, HEADS = 3, ROWS = 200 };

static const int numbers[HEADS] = {0, 4, 9};
static const qk__part_shape queries = {
    .dim = DIM, .num_heads = HEADS, .heads = numbers, .max_groups = 3, .by_bucket = true};
static const qk__part_shape keys = {
    .dim = DIM, .num_heads = HEADS, .heads = numbers, .max_groups = 3};

static char path[] = "/tmp/qkscope-layer-XXXXXX";
static float x[HEADS][ROWS][DIM], across[ROWS][HEADS][DIM];
static int64_t position[ROWS], bucket[ROWS];
static uint32_t every_third[ROWS];

static qk__chunk_rows some_rows(size_t rows)
{
    return (qk__chunk_rows){.rows = rows,
                            .x = &x[0][0][0],
                            .head_stride = sizeof x[0] / sizeof(float),
                            .position = position,
                            .bucket = bucket};
}

static qk__chunk_moments *make_chunk(const qk__part_shape *shape, const qk__chunk_rows *rows)
{
    qk__chunk_moments *chunk;
    assert_int_equal(qk__chunk_moments_create(&chunk, NULL), QK_OK);
    assert_int_equal(qk__chunk_moments_compute(chunk, shape, rows, NULL), QK_OK);
    return chunk;
}

static qk__part_moments *make_part(const qk__part_shape *shape, int64_t first, int64_t texts)
{
    qk__part_moments *part;
    assert_int_equal(qk__part_moments_create(&part, shape, NULL), QK_OK);
    for (int64_t text = first; text < first + texts; text++) {
        const qk__chunk_rows rows = some_rows(ROWS - (size_t)text);
        qk__chunk_moments *chunk = make_chunk(shape, &rows);
        assert_int_equal(qk__part_moments_fold(part, text, true, chunk, NULL), QK_OK);
        qk__chunk_moments_free(&chunk);
    }
    return part;
}

/* The bytes of a file of one part. */
static qk__buffer bytes_of(const qk__part_moments *part)
{
    qk__buffer bytes;
    assert_int_equal(qk__layer_moments_write(path, part, NULL, 0, NULL, NULL), QK_OK);
    assert_int_equal(qk__read_file(path, 1 << 20, &bytes, NULL), QK_OK);
    return bytes;
}

static void assert_same_bytes(const qk__buffer *a, const qk__part_moments *part)
{
    qk__buffer b = bytes_of(part);
    assert_int_equal(a->size, b.size);
    assert_memory_equal(a->data, b.data, a->size);
    qk__buffer_free(&b);
}

static void assert_same_chunk(const qk__chunk_moments *a, const qk__chunk_moments *b)
{
    qk__set_shape diagonal = a->shape;
    diagonal.diagonal = true;
    size_t numbers_of_sets =
        qk__set_size(&a->shape) + (a->by_bucket ? a->num_runs * qk__set_size(&diagonal) : 0);
    assert_int_equal(a->num_runs, b->num_runs);
    assert_memory_equal(a->sets, b->sets, numbers_of_sets * sizeof(double));
}

/* ---- chunks ----------------------------------------------------------------------------- */

static void test_every_kernel_gives_the_same_bits(void **state)
{
    (void)state;
    const qk__chunk_rows rows = some_rows(ROWS);
    qk__chunk_moments *expected = make_chunk(&queries, &rows), *found;
    assert_int_equal(qk__chunk_moments_create(&found, NULL), QK_OK);
    for (size_t i = 0; i < qk__simd_count(); i++) {
        found->kernel = qk__gram_kernels[i];
        assert_int_equal(qk__chunk_moments_compute(found, &queries, &rows, NULL), QK_OK);
        assert_same_chunk(expected, found);
    }
    qk__chunk_moments_free(&expected);
    qk__chunk_moments_free(&found);
}

static void test_rows_may_lie_anywhere(void **state)
{
    (void)state;
    enum { THIRD = ROWS / 3 };
    float packed[HEADS][THIRD][DIM];
    int64_t at[THIRD], in[THIRD];
    for (size_t r = 0; r < THIRD; r++) {
        every_third[r] = (uint32_t)(3 * r * HEADS); /* in `across` */
        at[r] = position[3 * r];
        in[r] = bucket[3 * r];
        for (size_t h = 0; h < HEADS; h++)
            memcpy(packed[h][r], x[h][3 * r], sizeof packed[h][r]);
    }
    const qk__chunk_rows together = {.rows = THIRD,
                                     .x = &packed[0][0][0],
                                     .head_stride = sizeof packed[0] / sizeof(float),
                                     .position = at,
                                     .bucket = in};
    qk__chunk_rows apart = together;
    apart.x = &across[0][0][0];
    apart.head_stride = DIM;
    apart.index = every_third;
    qk__chunk_moments *a = make_chunk(&queries, &together), *b = make_chunk(&queries, &apart);
    assert_same_chunk(a, b);
    qk__chunk_moments_free(&a);
    qk__chunk_moments_free(&b);
}

static void test_a_chunk_forgets_what_it_held(void **state)
{
    (void)state;
    const qk__part_shape wide = {.dim = 1, .num_heads = 1, .heads = numbers};
    const qk__chunk_rows all = some_rows(ROWS), few = some_rows(3);
    qk__chunk_moments *expected = make_chunk(&queries, &few);
    qk__chunk_moments *used = make_chunk(&queries, &all);
    assert_int_equal(qk__chunk_moments_compute(used, &wide, &all, NULL), QK_OK);
    assert_int_equal(qk__chunk_moments_compute(used, &queries, &few, NULL), QK_OK);
    assert_same_chunk(expected, used);
    qk__chunk_moments_free(&expected);
    qk__chunk_moments_free(&used);
}

static void test_wrong_rows_are_refused(void **state)
{
    (void)state;
    qk_error err;
    qk__chunk_moments *chunk;
    qk__part_moments *part = make_part(&queries, 0, 1);
    assert_int_equal(qk__chunk_moments_create(&chunk, NULL), QK_OK);
    const qk__chunk_rows good = some_rows(ROWS);
    const size_t counts[] = {0, QK__CHUNK_ROWS + 1};
    for (size_t i = 0; i < 2; i++) {
        qk__chunk_rows rows = good;
        rows.rows = counts[i];
        assert_int_equal(qk__chunk_moments_compute(chunk, &queries, &rows, &err),
                         QK_ERR_ARGUMENT);
    }
    qk__chunk_rows rows = good;
    rows.bucket = NULL;
    assert_int_equal(qk__chunk_moments_compute(chunk, &queries, &rows, &err), QK_ERR_ARGUMENT);
    assert_int_equal(qk__chunk_moments_compute(chunk, &keys, &rows, &err), QK_OK);
    assert_int_equal(qk__part_moments_fold(part, 0, false, chunk, &err), QK_ERR_ARGUMENT);
    int64_t descending[ROWS] = {5, 4};
    rows.position = descending;
    assert_int_equal(qk__chunk_moments_compute(chunk, &keys, &rows, &err), QK_ERR_ARGUMENT);
    const float bad[] = {NAN, INFINITY, -INFINITY};
    const size_t at[] = {0, 100, ROWS - 1}; /* in the first tile, and the second */
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 3; j++) {
            char where[80];
            float *value = &x[1][at[j]][DIM - 1], old = *value;
            snprintf(where, sizeof where, "head 4, row %zu (position %lld), dimension %d: NaN",
                     at[j], (long long)position[at[j]], DIM - 1);
            *value = bad[i];
            assert_int_equal(qk__chunk_moments_compute(chunk, &queries, &good, &err),
                             QK_ERR_INCONSISTENT);
            assert_non_null(strstr(err.message, where));
            assert_int_equal(qk__part_moments_fold(part, 0, false, chunk, &err),
                             QK_ERR_ARGUMENT);
            *value = old;
        }
    qk__chunk_moments_free(&chunk);
    qk__part_moments_free(&part);
}

static void test_largest_values_and_positions(void **state)
{
    (void)state;
    float huge[2][DIM];
    const int64_t at[] = {INT64_MIN / 4, INT64_MAX / 4};
    const qk__chunk_rows rows = {.rows = 2, .x = huge[0], .position = at};
    const qk__part_shape one = {.dim = DIM, .num_heads = 1, .heads = numbers};
    for (size_t i = 0; i < DIM; i++) {
        huge[0][i] = -3e38F;
        huge[1][i] = 3e38F;
    }
    qk__chunk_moments *chunk = make_chunk(&one, &rows);
    assert_true(isfinite(chunk->whole.sum_xx[0]) && chunk->whole.sum_xx[0] > 1e77);
    assert_true(isfinite(chunk->whole.sum_tt[0]) && isfinite(chunk->whole.sum_xt[0]));
    qk__chunk_moments_free(&chunk);
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
    size_t groups = qk__part_moments_groups(part), buckets = qk__part_moments_buckets(part);
    int64_t bytes = qk__part_shape_bytes(&queries, groups, buckets);
    qk__buffer file = bytes_of(part);
    assert_int_equal(groups, 3);
    assert_int_equal(buckets, bucket[ROWS - 1] - bucket[0] + 1);
    assert_int_equal(qk__part_moments_count(part), 3 * ROWS - 3);
    assert_in_range(file.size, bytes, bytes + 4096); /* and the header */
    assert_in_range(qk__part_moments_bytes(part), bytes, bytes + 4096);
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
    assert_int_equal(qk__part_moments_groups(part), 2); /* of the last bit, as with 7 texts */
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

static void test_a_fold_that_fails_changes_nothing(void **state)
{
    (void)state;
    for (int64_t texts = 0; texts < 6; texts++) {
        qk__part_moments *part = make_part(&queries, 0, texts);
        qk__part_moments *expected = make_part(&queries, 0, texts);
        qk__buffer before = bytes_of(part);
        long failures = 0;
        while (compute_and_fold(part, texts, failures) == QK_ERR_NOMEM) {
            assert_same_bytes(&before, part);
            failures++;
        }
        assert_true(failures >= 3);
        assert_int_equal(compute_and_fold(expected, texts, -1), QK_OK);
        qk__buffer_free(&before);
        before = bytes_of(expected);
        assert_same_bytes(&before, part);
        qk__buffer_free(&before);
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
static qk_status use_file(void)
{
    qk__layer_file *file;
    qk__head_state *head;
    qk__part_moments *q = NULL, *k = NULL;
    qk_status status = qk__layer_file_open(&file, path, NULL);
    for (int kind = 0; kind < 2 && status == QK_OK; kind++) {
        const qk__part_shape *shape = qk__layer_file_shape(file, (qk_kind)kind);
        for (size_t h = 0; shape && h < shape->num_heads && status == QK_OK; h++) {
            status = qk__layer_file_head(file, (qk_kind)kind, h, &head, NULL);
            assert_true((head != NULL) == (status == QK_OK));
            qk__head_state_free(&head);
        }
    }
    qk__layer_file_close(&file);
    if (status != QK_OK)
        return status;
    status = qk__layer_moments_read(path, &q, &k, NULL);
    assert_true(status == QK_OK || (!q && !k));
    qk__part_moments_free(&q);
    qk__part_moments_free(&k);
    return status;
}

static void test_files_without_memory(void **state)
{
    (void)state;
    qk__part_moments *q = make_part(&queries, 0, 3), *k = make_part(&keys, 0, 3), *part;
    qk_status status = QK_ERR_NOMEM;
    long failures = 0;
    for (; status != QK_OK; failures++) {
        remaining = failures;
        status = qk__layer_moments_write(path, q, k, 3, NULL, NULL);
        remaining = -1;
        assert_true(status == QK_OK || status == QK_ERR_NOMEM);
    }
    assert_true(failures > 50);
    status = QK_ERR_NOMEM;
    for (failures = 0; status != QK_OK; failures++) {
        remaining = failures;
        status = use_file();
        remaining = -1;
        assert_true(status == QK_OK || status == QK_ERR_NOMEM);
    }
    assert_true(failures > 100);
    status = QK_ERR_NOMEM;
    for (failures = 0; status != QK_OK; failures++) {
        remaining = failures;
        status = qk__part_moments_create(&part, &queries, NULL);
        remaining = -1;
        assert_true((part != NULL) == (status == QK_OK));
    }
    assert_int_equal(failures, 5);
    qk__part_moments_free(&part);
    qk__part_moments_free(&q);
    qk__part_moments_free(&k);
}

/* ---- files ------------------------------------------------------------------------------ */

static void test_what_is_written_comes_back(void **state)
{
    (void)state;
    qk__part_moments *q = make_part(&queries, 0, 5), *k = make_part(&keys, 0, 5);
    qk__part_moments *q_read, *k_read;
    qk__layer_file *file;
    qk__buffer q_bytes = bytes_of(q), k_bytes = bytes_of(k);
    json_t *more = json_pack("{s:s, s:s}", "model", "tiny", "format", "mine");
    assert_int_equal(qk__layer_moments_write(path, q, k, 12, more, NULL), QK_OK);
    assert_int_equal(qk__layer_moments_read(path, &q_read, &k_read, NULL), QK_OK);
    assert_int_equal(qk__layer_file_open(&file, path, NULL), QK_OK);
    assert_int_equal(qk__layer_file_layer(file), 12);
    const json_t *metadata = qk__layer_file_metadata(file);
    assert_string_equal(json_string_value(json_object_get(metadata, "model")), "tiny");
    assert_string_equal(json_string_value(json_object_get(metadata, "format")),
                        "qkscope moments 2");
    assert_int_equal(qk__layer_file_shape(file, QK_KEY)->max_groups, 3);
    assert_false(qk__layer_file_shape(file, QK_KEY)->by_bucket);
    assert_int_equal(qk__layer_file_groups(file, QK_QUERY), qk__part_moments_groups(q));
    assert_int_equal(qk__layer_file_buckets(file, QK_QUERY), qk__part_moments_buckets(q));
    assert_int_equal(qk__layer_file_find(file, QK_KEY, 9), 2);
    assert_int_equal(qk__layer_file_find(file, QK_KEY, 5), -1);
    assert_int_equal(qk__layer_file_rows(file, QK_KEY, 2), qk__part_moments_count(k));
    qk__layer_file_close(&file);
    assert_same_bytes(&q_bytes, q_read);
    assert_same_bytes(&k_bytes, k_read);
    json_decref(more);
    qk__buffer_free(&q_bytes);
    qk__buffer_free(&k_bytes);
    qk__part_moments_free(&q);
    qk__part_moments_free(&k);
    qk__part_moments_free(&q_read);
    qk__part_moments_free(&k_read);
}

static void test_parts_that_do_not_fit_are_not_written(void **state)
{
    (void)state;
    qk__part_shape other = keys;
    other.max_groups = 4;
    qk__part_moments *q = make_part(&queries, 0, 1), *k = make_part(&other, 0, 1);
    assert_int_equal(qk__layer_moments_write(path, q, k, 0, NULL, NULL), QK_ERR_ARGUMENT);
    assert_int_equal(qk__layer_moments_write(path, NULL, NULL, 0, NULL, NULL), QK_ERR_ARGUMENT);
    assert_int_equal(qk__layer_moments_write(path, q, NULL, -1, NULL, NULL), QK_ERR_ARGUMENT);
    assert_int_equal(qk__layer_moments_write("/nonexistent/l00", q, NULL, 0, NULL, NULL),
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
        assert_int_equal(use_file(), QK_ERR_MALFORMED);
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
    size_t header = header_size(&bytes), refused = 0;
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    for (size_t at = 0; at < bytes.size; at += at < header + 256 ? 1 : 7) {
        const uint8_t old = bytes.data[at];
        const uint8_t wrong[] = {old ^ 1, old ^ 0x80, '9', '-', 0, 0xff};
        for (size_t i = 0; i < sizeof wrong; i++) {
            assert_int_equal(pwrite(fd, &wrong[i], 1, (off_t)at), 1);
            refused += use_file() != QK_OK;
        }
        assert_int_equal(pwrite(fd, &old, 1, (off_t)at), 1);
    }
    close(fd);
    assert_true(refused > 2 * header);
    assert_int_equal(use_file(), QK_OK);
    qk__buffer_free(&bytes);
    qk__part_moments_free(&part);
}

/* ---- set up ----------------------------------------------------------------------------- */

static int set_up(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (size_t r = 0; r < ROWS; r++) {
        position[r] = (int64_t)(r * r / 7);
        bucket[r] = position[r] / 1000 - 2;
        for (size_t h = 0; h < HEADS; h++)
            for (size_t i = 0; i < DIM; i++)
                across[r][h][i] = x[h][r][i] = (float)(random_unit(&seed) + (double)i);
    }
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
        cmocka_unit_test(test_every_kernel_gives_the_same_bits),
        cmocka_unit_test(test_rows_may_lie_anywhere),
        cmocka_unit_test(test_a_chunk_forgets_what_it_held),
        cmocka_unit_test(test_wrong_rows_are_refused),
        cmocka_unit_test(test_largest_values_and_positions),
        cmocka_unit_test(test_shapes_out_of_range_are_refused),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_merging_empties_the_later_part),
        cmocka_unit_test(test_a_fold_that_fails_changes_nothing),
        cmocka_unit_test(test_a_merge_that_fails_changes_nothing),
        cmocka_unit_test(test_files_without_memory),
        cmocka_unit_test(test_what_is_written_comes_back),
        cmocka_unit_test(test_parts_that_do_not_fit_are_not_written),
        cmocka_unit_test(test_a_file_cut_short_anywhere_is_refused),
        cmocka_unit_test(test_wrong_bytes_are_survived),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
