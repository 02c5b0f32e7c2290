/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a layer's moments, for test_layer_moments.py.
 *
 *     layer_moments make FILE ROWS GROUPS CHUNK BLOCK FIRST LAST
 *         sums sequences FIRST .. LAST - 1 of ROWS, in chunks of CHUNK rows, in blocks of BLOCK
 *         sequences that are merged in the order of their numbers, each by way of a file; queries by bucket
 *     layer_moments head FILE q|k PLACE          reads a head
 *
 * ROWS: int64 heads, dim, sequences; then of each: int64 id, first of its text, n; positions [n];
 * buckets [n]; float32 queries [heads][n][dim]; keys likewise. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/layer_file.h"
#include "stats/moments.h"

static qk_error err;

static void need(qk_status status)
{
    if (status == QK_OK)
        return;
    fprintf(stderr, "%d %s\n", (int)status, err.message);
    exit(1);
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count + 1, size);
    if (!memory)
        exit(2);
    return memory;
}

/* ---- sums ------------------------------------------------------------------------------- */

typedef struct sequence {
    int64_t id, first, rows, *position, *bucket;
    float *x[2];
} sequence;

typedef struct rows_file {
    int64_t heads, dim, count;
    int *numbers;
    sequence *sequences;
} rows_file;

static void get(FILE *file, void *to, size_t size, size_t count)
{
    if (fread(to, size, count, file) != count)
        exit(2);
}

static rows_file read_rows(const char *path)
{
    rows_file rows;
    FILE *file = fopen(path, "rb");
    if (!file)
        exit(2);
    get(file, &rows.heads, sizeof(int64_t), 3);
    rows.numbers = allocate((size_t)rows.heads, sizeof(int));
    for (int64_t h = 0; h < rows.heads; h++)
        rows.numbers[h] = 2 * (int)h + 1;
    rows.sequences = allocate((size_t)rows.count, sizeof(sequence));
    for (int64_t i = 0; i < rows.count; i++) {
        sequence *s = &rows.sequences[i];
        get(file, s, sizeof(int64_t), 3);
        size_t n = (size_t)s->rows, values = n * (size_t)(rows.heads * rows.dim);
        s->position = allocate(n, sizeof(int64_t));
        s->bucket = allocate(n, sizeof(int64_t));
        get(file, s->position, sizeof(int64_t), n);
        get(file, s->bucket, sizeof(int64_t), n);
        for (int kind = 0; kind < 2; kind++) {
            s->x[kind] = allocate(values, sizeof(float));
            get(file, s->x[kind], sizeof(float), values);
        }
    }
    fclose(file);
    return rows;
}

static void free_rows(rows_file *rows)
{
    for (int64_t i = 0; i < rows->count; i++) {
        sequence *s = &rows->sequences[i];
        free(s->position);
        free(s->bucket);
        free(s->x[0]);
        free(s->x[1]);
    }
    free(rows->sequences);
    free(rows->numbers);
}

static void fold(qk__part_moments *part, const qk__part_shape *shape, qk__chunk_moments *chunk,
                 const sequence *s, int kind, int64_t at_once)
{
    for (int64_t at = 0; at < s->rows; at += at_once) {
        const qk__chunk_rows rows = {
            .rows = (size_t)(s->rows - at < at_once ? s->rows - at : at_once),
            .x = s->x[kind] + at * (int64_t)shape->dim,
            .head_stride = (size_t)s->rows * shape->dim,
            .position = s->position + at,
            .bucket = s->bucket + at};
        need(qk__chunk_moments_compute(chunk, shape, &rows, &err));
        need(qk__part_moments_fold(part, s->id, at == 0 && s->first, chunk, &err));
    }
}

/* The part of a block. */
static qk__part_moments *sum_block(const rows_file *rows, const qk__part_shape *shape, int kind,
                                   const int64_t range[4], int64_t number)
{
    const int64_t at_once = range[0], block = range[1];
    qk__part_moments *part;
    qk__chunk_moments *chunk;
    need(qk__part_moments_create(&part, shape, &err));
    need(qk__chunk_moments_create(&chunk, &err));
    for (int64_t i = number * block; i < (number + 1) * block && i < rows->count; i++)
        if (i >= range[2] && i < range[3])
            fold(part, shape, chunk, &rows->sequences[i], kind, at_once);
    qk__chunk_moments_free(&chunk);
    return part;
}

/* By way of a file, as in a capture. */
static void keep_and_read(qk__part_moments **part, const qk__part_shape *shape)
{
    FILE *file = tmpfile();
    const size_t size = qk__part_moments_stored(*part);
    need(file ? QK_OK : QK_ERR_IO);
    need(qk__part_moments_store(*part, fileno(file), 24, &err));
    qk__part_moments_free(part);
    need(qk__part_moments_create(part, shape, &err));
    need(qk__part_moments_load(*part, fileno(file), 24, size, &err));
    fclose(file);
}

/* Blocks in their order. */
static qk__part_moments *sum_blocks(const rows_file *rows, const qk__part_shape *shape,
                                    int kind, const int64_t range[4])
{
    qk__part_moments *all = sum_block(rows, shape, kind, range, 0);
    for (int64_t i = 1; i * range[1] < rows->count; i++) {
        qk__part_moments *part = sum_block(rows, shape, kind, range, i);
        keep_and_read(&part, shape);
        need(qk__part_moments_merge(all, part, &err));
        qk__part_moments_free(&part);
    }
    return all;
}

static void make(char **argv)
{
    rows_file rows = read_rows(argv[1]);
    int64_t range[4];
    for (int i = 0; i < 4; i++)
        range[i] = atoll(argv[3 + i]);
    qk__layer_parts parts = {{NULL}};
    for (int kind = 0; kind < 2; kind++) {
        const qk__part_shape shape = {.dim = (size_t)rows.dim,
                                      .num_heads = (size_t)rows.heads,
                                      .heads = rows.numbers,
                                      .max_groups = (uint32_t)atoi(argv[2]),
                                      .by_bucket = kind == 0,
                                      .pairs = kind == 0 ? (size_t)rows.dim / 2 : 0};
        parts.part[kind] = sum_blocks(&rows, &shape, kind, range);
    }
    need(qk__layer_moments_write(argv[0], &parts, 7, NULL, &err));
    qk__layer_parts_free(&parts);
    free_rows(&rows);
}

static void head(char **argv)
{
    qk__layer_file *file;
    qk__head_state *s;
    need(qk__layer_file_open(&file, argv[0], &err));
    need(qk__layer_file_head(file, argv[1][0] == 'q' ? QK_QUERY : QK_KEY, (size_t)atoi(argv[2]),
                             &s, &err));
    qk__head_state_free(&s);
    qk__layer_file_close(&file);
}

int main(int argc, char **argv)
{
    if (argc == 9 && strcmp(argv[1], "make") == 0)
        make(argv + 2);
    else if (argc == 5 && strcmp(argv[1], "head") == 0)
        head(argv + 2);
    else
        return 2;
    return 0;
}
