/* SPDX-License-Identifier: Apache-2.0 */
/* dump_rows ROOT HEAD COLUMNS MAX_ROWS BLOCK_ROWS [PREFIX]: the rows of one head, for
 * comparison with another reader. Prints "dim type total" and, for each block, "rows" and
 * the raw bytes of its columns in the order vector, position, bucket, example, window, number of the token string; then
 * the strings, of which the first line is how many there are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/capture.h>

#include "capture/capture.h"

static void put(const void *data, size_t size)
{
    if (data)
        fwrite(data, 1, size, stdout);
}

static qk_status dump(const qk_head *head, char **args, qk_error *err)
{
    unsigned columns = (unsigned)strtoul(args[0], NULL, 0);
    size_t block_rows = strtoull(args[2], NULL, 0);
    qk_rows *rows;
    qk_block block;
    qk_status status = qk_rows_open(&rows, head, columns, strtoll(args[1], NULL, 0), err);
    if (status != QK_OK)
        return status;
    int64_t next = 0;
    size_t dim = qk_rows_dim(rows);
    printf("%zu %lld\n", dim, (long long)qk_rows_total(rows));
    while ((status = qk_rows_next(rows, block_rows, &block, err)) == QK_OK && block.rows > 0) {
        if (block.first_row != next || block.rows > block_rows || block.dim != dim)
            fprintf(stderr, "block out of step at row %lld\n", (long long)next);
        next += (int64_t)block.rows;
        printf("%zu %s\n", block.rows, block.f64 ? "f64" : block.f32 ? "f32" : "none");
        put(block.f32, block.rows * dim * sizeof(float));
        put(block.f64, block.rows * dim * sizeof(double));
        put(block.position, block.rows * sizeof(int64_t));
        put(block.bucket, block.rows * sizeof(int64_t));
        put(block.example, block.rows * sizeof(int64_t));
        put(block.window, block.rows * sizeof(int64_t));
        put(qk__rows_tokens(rows), block.rows * sizeof(int64_t));
    }
    if (status == QK_OK && next != qk_rows_total(rows))
        fprintf(stderr, "%lld rows came of %lld\n", (long long)next,
                (long long)qk_rows_total(rows));
    qk__token_strings strings = qk__rows_take_strings(rows);
    if (columns & QK__TOKEN_STRINGS)
        printf("strings %zu\n", strings.count);
    for (size_t i = 0; i < strings.count; i++)
        put(qk__token_text(&strings, i), strlen(qk__token_text(&strings, i)) + 1);
    qk__token_strings_free(&strings);
    qk_rows_close(&rows);
    return status;
}

int main(int argc, char **argv)
{
    qk_capture *capture = NULL;
    qk_head_id id;
    qk_error err;
    if (argc < 6 || !qk_head_parse(argv[2], &id)) {
        fprintf(stderr, "usage: dump_rows ROOT HEAD COLUMNS MAX_ROWS BLOCK_ROWS [PREFIX]\n");
        return 2;
    }
    qk_status status = qk_capture_open(&capture, argv[1], argc > 6 ? argv[6] : NULL, &err);
    if (status == QK_OK) {
        const qk_head *head = qk_capture_find(capture, id);
        if (head) {
            status = dump(head, argv + 3, &err);
        } else {
            fprintf(stderr, "no head %s\n", argv[2]);
            status = QK_ERR_NOT_FOUND;
        }
    }
    if (status != QK_OK)
        fprintf(stderr, "%d %s\n", (int)err.status, err.message);
    qk_capture_close(&capture);
    return status == QK_OK ? 0 : 1;
}
