/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine allows for a capture, one thread: decompressing the vector pages and
 * copying the bytes (which any reader must do at least), reading the vectors with the library,
 * and forming the moments, next to dsyrk on the same rows; each Gram kernel by itself; the
 * leading eigenpairs of a covariance, next to LAPACK.
 * Prints JSON; best of RUNS. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cblas.h>
#include <lapacke.h>

#include <qkscope/capture.h>
#include <qkscope/stats.h>

#include "base/buffer.h"
#include "parquet/reader.h"
#include "stats/eigen.h"
#include "stats/gram.h"

enum { RUNS = 5, BLOCK_ROWS = 256 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(qk_status status, const qk_error *err)
{
    if (status != QK_OK) {
        fprintf(stderr, "limits: %s\n", err->message);
        exit(1);
    }
}

/* Decompresses every page of the vector column and copies it once. Returns bytes. */
static size_t decompress_and_copy(const char *path)
{
    qk_error err;
    qk_parquet *file;
    qk__buffer copy = {0};
    size_t bytes = 0;
    check(qk_parquet_open(&file, path, &err), &err);
    int column = qk_parquet_find(file, "vector");
    qk__pages pages = {0};
    for (size_t g = 0; g < file->metadata.num_groups; g++) {
        const qk__chunk *chunk = &file->metadata.groups[g].chunks[column];
        qk__parquet_page page;
        bool found;
        qk__pages_start(&pages, &file->source, chunk->codec, chunk->offset,
                        chunk->offset + chunk->compressed_bytes);
        for (;;) {
            check(qk__pages_next(&pages, &page, &found, &err), &err);
            if (!found)
                break;
            check(qk__buffer_reserve(&copy, page.size, &err), &err);
            memcpy(copy.data, page.data, page.size);
            bytes += page.size;
        }
    }
    qk__pages_free(&pages);
    qk__buffer_free(&copy);
    qk_parquet_close(&file);
    return bytes;
}

/* Reads one head's vectors; with acc, gathers them. Returns values read. */
static size_t read_head(const qk_head *head, qk_accumulator *acc)
{
    qk_error err;
    qk_rows *rows;
    qk_block block;
    size_t values = 0;
    check(qk_rows_open(&rows, head, QK_COLUMN_VECTOR | QK_COLUMN_POSITION, 0, &err), &err);
    for (;;) {
        check(qk_rows_next(rows, BLOCK_ROWS, &block, &err), &err);
        if (block.rows == 0)
            break;
        values += block.rows * block.dim;
        if (acc)
            check(qk_accumulator_add(acc, &block, &err), &err);
    }
    qk_rows_close(&rows);
    return values;
}

static double moments_seconds(const float *x, const int64_t *t, size_t rows, size_t dim)
{
    qk_error err;
    qk_accumulator *acc;
    qk_moments *moments;
    check(qk_accumulator_create(&acc, dim, &err), &err);
    double start = now();
    for (size_t r = 0; r < rows; r += BLOCK_ROWS) {
        size_t take = rows - r < BLOCK_ROWS ? rows - r : BLOCK_ROWS;
        qk_block some = {.rows = take, .dim = dim, .f32 = x + r * dim, .position = t + r};
        check(qk_accumulator_add(acc, &some, &err), &err);
    }
    check(qk_accumulator_finish(&acc, &moments, &err), &err);
    double spent = now() - start;
    qk_moments_free(&moments);
    return spent;
}

static double dsyrk_seconds(const double *x, size_t rows, size_t dim, double *gram)
{
    double start = now();
    cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, (blasint)dim, (blasint)rows, 1, x,
                (blasint)dim, 0, gram, (blasint)dim);
    return now() - start;
}

static void print_flops(size_t rows, size_t dim)
{
    float *x32 = malloc(rows * dim * sizeof *x32);
    double *x64 = malloc(rows * dim * sizeof *x64), *gram = calloc(dim * dim, sizeof *gram);
    int64_t *t = malloc(rows * sizeof *t);
    if (!x32 || !x64 || !gram || !t)
        exit(1);
    for (size_t i = 0; i < rows * dim; i++)
        x64[i] = x32[i] = (float)((double)(i * 2654435761u % 1000) / 1000 - 0.5);
    for (size_t i = 0; i < rows; i++)
        t[i] = (int64_t)i;
    double moments = 1e9, dsyrk = 1e9, flops = (double)rows * (double)dim * (double)(dim + 1);
    for (int run = 0; run < 4 * RUNS; run++) {
        double a = moments_seconds(x32, t, rows, dim), b = dsyrk_seconds(x64, rows, dim, gram);
        moments = a < moments ? a : moments;
        dsyrk = b < dsyrk ? b : dsyrk;
    }
    printf("  \"rows\": %zu, \"dim\": %zu, \"kernel\": \"%s\",\n", rows, dim,
           qk__moments_kernel());
    printf("  \"moments_gflops\": %.2f, \"dsyrk_gflops\": %.2f,\n", flops / moments / 1e9,
           flops / dsyrk / 1e9);
    free(x32);
    free(x64);
    free(gram);
    free(t);
}

/* Each kernel this processor runs, on a tile in the cache. */
static void print_kernels(size_t dim)
{
    size_t panels = (dim + PANEL - 1) / PANEL, columns = panels * PANEL;
    double *tile = qk__alloc_aligned(columns * TILE_ROWS, sizeof *tile);
    double *gram = calloc(columns * columns, sizeof *gram);
    if (!tile || !gram)
        exit(1);
    for (size_t i = 0; i < columns * TILE_ROWS; i++)
        tile[i] = (double)(i % 1000) / 1000;
    printf("  \"gram_gflops\": {");
    qk__each_version (k, qk__gram_kernels) {
        const qk__gram_kernel *kernel = qk__gram_kernels[k];
        double best = 1e9, flops = (double)TILE_ROWS * (double)dim * (double)(dim + 1);
        for (int run = 0; run < 100 * RUNS; run++) {
            double start = now();
            kernel->gram(tile, TILE_ROWS, panels, false, gram);
            double spent = now() - start;
            best = spent < best ? spent : best;
        }
        printf("%s\"%s\": %.2f", k ? ", " : "", qk__simd_names[k], flops / best / 1e9);
    }
    printf("},\n");
    free(tile);
    free(gram);
}

/* The same pairs by LAPACK: its reduction, multiple relatively robust representations, the way
 * back. The matrix is destroyed. */
static void lapack_largest(double *matrix, lapack_int d, lapack_int count)
{
    double *diagonal = calloc((size_t)d, sizeof(double)),
           *off = calloc((size_t)d, sizeof(double));
    double *tau = calloc((size_t)d, sizeof(double)), *w = calloc((size_t)d, sizeof(double));
    double *z = calloc((size_t)(d * count), sizeof(double));
    lapack_int found, *support = calloc(2 * (size_t)d, sizeof *support);
    lapack_logical try_high_accuracy = 1;
    if (!diagonal || !off || !tau || !w || !z || !support ||
        LAPACKE_dsytrd(LAPACK_COL_MAJOR, 'U', d, matrix, d, diagonal, off, tau) ||
        LAPACKE_dstemr(LAPACK_COL_MAJOR, 'V', 'I', d, diagonal, off, 0, 0, d - count + 1, d,
                       &found, w, z, d, count, support, &try_high_accuracy) ||
        LAPACKE_dormtr(LAPACK_COL_MAJOR, 'L', 'U', 'N', d, count, matrix, d, tau, z, d))
        exit(1);
    free(diagonal);
    free(off);
    free(tau);
    free(w);
    free(z);
    free(support);
}

/* Milliseconds for the 10 leading pairs of a covariance with a decaying spectrum. */
static void print_eigen(void)
{
    enum { PAIRS = 10, SIZES = 5 };
    const size_t sizes[SIZES] = {64, 80, 128, 256, 512};
    printf("  \"eigen_ms\": {");
    for (int s = 0; s < SIZES; s++) {
        size_t d = sizes[s];
        double *a = calloc(d * d, sizeof *a), *copy = malloc(d * d * sizeof *copy);
        double *vectors = malloc(PAIRS * d * sizeof *vectors), values[PAIRS];
        double own = 1e9, lapack = 1e9;
        if (!a || !copy || !vectors)
            exit(1);
        for (size_t l = 0; l < 2 * d; l++) {
            for (size_t i = 0; i < d; i++)
                vectors[i] = (double)((l * d + i) * 2654435761u % 1009) / 1009 - 0.5;
            for (size_t i = 0; i < d; i++)
                for (size_t j = 0; j < d; j++)
                    a[i * d + j] += vectors[i] * vectors[j] / (double)((i + 1) * (j + 1));
        }
        for (int run = 0; run < 4 * RUNS; run++) {
            double start = now();
            check(qk__eigen_largest(a, d, PAIRS, values, vectors, NULL), NULL);
            double middle = now();
            memcpy(copy, a, d * d * sizeof *a);
            double again = now();
            lapack_largest(copy, (lapack_int)d, PAIRS);
            double end = now();
            own = middle - start < own ? middle - start : own;
            lapack = end - again < lapack ? end - again : lapack;
        }
        printf("%s\"%zu\": [%.3f, %.3f]", s ? ", " : "", d, 1e3 * own, 1e3 * lapack);
        free(a);
        free(copy);
        free(vectors);
    }
    printf("}\n");
}

int main(int argc, char **argv)
{
    qk_error err;
    qk_capture *capture;
    if (argc != 2) {
        fprintf(stderr, "Usage: limits CAPTURE\n");
        return 2;
    }
    check(qk_capture_open(&capture, argv[1], NULL, &err), &err);
    size_t heads = qk_capture_num_heads(capture);
    double copy = 1e9, read = 1e9;
    size_t bytes = 0, values = 0;
    for (int run = 0; run < RUNS; run++) {
        double start = now();
        bytes = values = 0;
        for (size_t i = 0; i < heads; i++)
            bytes += decompress_and_copy(qk_capture_head(capture, i)->files[0]);
        double middle = now();
        for (size_t i = 0; i < heads; i++)
            values += read_head(qk_capture_head(capture, i), NULL);
        double end = now();
        copy = middle - start < copy ? middle - start : copy;
        read = end - middle < read ? end - middle : read;
    }
    printf("{\n  \"heads\": %zu, \"page_bytes\": %zu, \"values\": %zu,\n", heads, bytes,
           values);
    printf("  \"decompress_and_copy_seconds\": %.4f, \"read_seconds\": %.4f,\n", copy, read);
    printf("  \"decompress_and_copy_gbps\": %.3f, \"read_gbps\": %.3f,\n",
           (double)bytes / copy / 1e9, (double)bytes / read / 1e9);
    qk_rows *rows;
    check(qk_rows_open(&rows, qk_capture_head(capture, 0), QK_COLUMN_VECTOR, 0, &err), &err);
    size_t dim = qk_rows_dim(rows);
    qk_rows_close(&rows);
    print_flops(8000, dim);
    print_kernels(dim);
    openblas_set_num_threads(1);
    print_eigen();
    printf("}\n");
    qk_capture_close(&capture);
    return 0;
}
