/* SPDX-License-Identifier: Apache-2.0 */
/* What the moments of a layer cost: microseconds of processor time for a row of one head.
 *
 *     moments [HEADS [DIM [ROWS OF A TEXT [TEXTS [BUCKET WIDTH]]]]] */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "state/layer_moments.h"

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static long argument(int argc, char **argv, int i, long otherwise)
{
    return i < argc ? atol(argv[i]) : otherwise;
}

static void need(qk_status status, const qk_error *err)
{
    if (status == QK_OK)
        return;
    fprintf(stderr, "moments: %s\n", err->message);
    exit(1);
}

int main(int argc, char **argv)
{
    const long heads = argument(argc, argv, 1, 12), dim = argument(argc, argv, 2, 64);
    const long rows = argument(argc, argv, 3, 512), texts = argument(argc, argv, 4, 200);
    const long width = argument(argc, argv, 5, 0);
    int *numbers = calloc((size_t)heads, sizeof *numbers);
    float *x = calloc((size_t)(heads * rows * dim), sizeof *x);
    int64_t *position = calloc((size_t)rows, sizeof *position);
    int64_t *bucket = calloc((size_t)rows, sizeof *bucket);
    if (!numbers || !x || !position || !bucket)
        return 1;
    for (long h = 0; h < heads; h++)
        numbers[h] = (int)h;
    for (long i = 0; i < heads * rows * dim; i++)
        x[i] = (float)((i * 2654435761u) % 1000) / 100;
    for (long r = 0; r < rows; r++) {
        position[r] = r;
        bucket[r] = width > 0 ? r / width : 0;
    }
    const qk__part_shape shape = {.dim = (size_t)dim,
                                  .num_heads = (size_t)heads,
                                  .heads = numbers,
                                  .max_groups = 16,
                                  .by_bucket = width > 0};
    qk_error err;
    qk__chunk_moments *chunk;
    qk__part_moments *part;
    need(qk__chunk_moments_create(&chunk, &err), &err);
    need(qk__part_moments_create(&part, &shape, &err), &err);
    double computing = 0, folding = 0;
    for (long text = 0; text < texts; text++)
        for (long r = 0; r < rows; r += QK__CHUNK_ROWS) {
            long left = rows - r < QK__CHUNK_ROWS ? rows - r : QK__CHUNK_ROWS;
            const qk__chunk_rows some = {.rows = (size_t)left,
                                         .x = x + r * dim,
                                         .head_stride = (size_t)(rows * dim),
                                         .position = position + r,
                                         .bucket = width > 0 ? bucket + r : NULL};
            double start = seconds();
            need(qk__chunk_moments_compute(chunk, &shape, &some, &err), &err);
            double middle = seconds();
            need(qk__part_moments_fold(part, text, r == 0, chunk, &err), &err);
            folding += seconds() - middle;
            computing += middle - start;
        }
    double vectors = (double)heads * (double)rows * (double)texts / 1e6;
    printf("computing %.3f, folding %.3f us a row of a head\n", computing / vectors,
           folding / vectors);
    qk__part_moments_free(&part);
    qk__chunk_moments_free(&chunk);
    free(numbers);
    free(x);
    free(position);
    free(bucket);
    return 0;
}
