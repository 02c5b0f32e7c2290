/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the leaf columns of a Parquet file for comparison with other readers.
 *
 *     parquet-dump FILE           "index path type" for each leaf column
 *     parquet-dump FILE COLUMN    "definition repetition value" for each slot
 *
 * Floating-point values are their bits in hexadecimal, byte strings their bytes, a slot
 * without a value has "-". An error is printed to stderr and gives exit status 1. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/parquet.h>

enum { SLOTS = 1000 }; /* not a power of two, to cross page borders at odd places */

static int fail(const qk_error *err)
{
    fprintf(stderr, "%s: %s\n", qk_status_text(err->status), err->message);
    return 1;
}

static void print_bytes(const qk_parquet_bytes *bytes)
{
    putchar('x');
    for (size_t i = 0; i < bytes->size; i++)
        printf("%02x", bytes->data[i]);
}

static void print_value(qk_parquet_type type, const void *values, size_t i)
{
    uint32_t bits32;
    uint64_t bits64;
    switch (type) {
    case QK_PARQUET_BOOLEAN:
        printf("%d", ((const uint8_t *)values)[i]);
        break;
    case QK_PARQUET_INT32:
        printf("%" PRId32, ((const int32_t *)values)[i]);
        break;
    case QK_PARQUET_INT64:
        printf("%" PRId64, ((const int64_t *)values)[i]);
        break;
    case QK_PARQUET_FLOAT:
        memcpy(&bits32, (const float *)values + i, sizeof bits32);
        printf("%08" PRIx32, bits32);
        break;
    case QK_PARQUET_DOUBLE:
        memcpy(&bits64, (const double *)values + i, sizeof bits64);
        printf("%016" PRIx64, bits64);
        break;
    default:
        print_bytes((const qk_parquet_bytes *)values + i);
    }
}

static int dump_column(const qk_parquet *file, int column)
{
    static uint8_t definition[SLOTS], repetition[SLOTS];
    static qk_parquet_bytes values[SLOTS]; /* the largest element of all types */
    const qk_parquet_column *info = qk_parquet_column_at(file, column);
    qk_parquet_cursor *cursor;
    qk_error err;
    if (qk_parquet_cursor_open(&cursor, file, column, &err) != QK_OK)
        return fail(&err);
    size_t slots, count;
    qk_status status;
    do {
        status = qk_parquet_read_slots(cursor, SLOTS, definition, repetition, values, &slots,
                                       &count, &err);
        if (status != QK_OK)
            break;
        for (size_t i = 0, next = 0; i < slots; i++) {
            printf("%d %d ", definition[i], repetition[i]);
            if (definition[i] == info->max_definition)
                print_value(info->type, values, next++);
            else
                putchar('-');
            putchar('\n');
        }
    } while (slots > 0);
    qk_parquet_cursor_close(&cursor);
    return status == QK_OK ? 0 : fail(&err);
}

static int list_columns(const qk_parquet *file)
{
    for (int i = 0; i < qk_parquet_num_columns(file); i++) {
        const qk_parquet_column *info = qk_parquet_column_at(file, i);
        printf("%d %s type=%d logical=%d def=%d rep=%d codec=%s slots=%" PRId64
               " nulls=%" PRId64,
               i, info->path, (int)info->type, (int)info->logical, info->max_definition,
               info->max_repetition, info->codec, info->num_values, info->null_count);
        if (info->has_range)
            printf(" min=%" PRId64 " max=%" PRId64, info->min, info->max);
        putchar('\n');
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: parquet-dump FILE [COLUMN]\n");
        return 2;
    }
    qk_parquet *file;
    qk_error err;
    if (qk_parquet_open(&file, argv[1], &err) != QK_OK)
        return fail(&err);
    int column = argc == 3 ? atoi(argv[2]) : -1;
    int code = argc == 3 ? dump_column(file, column) : list_columns(file);
    qk_parquet_close(&file);
    return code;
}
