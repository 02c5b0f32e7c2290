/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a Parquet file whose every value follows from its row number, for the tests that
 * read our files with other programs.
 *
 *     parquet-write-sample FILE key=value ...
 *
 * rows, dim, seed; codec, level, group, page, version, checksum, encoding (numbers of the
 * public header); values (0: bfloat16-like, 1: all bits random, 2: constant); nulls (0:
 * sliding_window all null, 1: every third row, 2: none); strings (0 or 1); cut (rows handed
 * over at a time); wide (1: integers that overflow from row to row). test_writer_interop.py
 * computes the same values. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/parquet.h>

typedef struct sample {
    size_t rows, dim, cut;
    uint64_t seed;
    int values, nulls, strings, wide;
    qk_parquet_writer_settings settings;
} sample;

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static float value_at(const sample *s, size_t row, size_t column)
{
    uint64_t bits = mix(s->seed * UINT64_C(1000003) + row * s->dim + column);
    uint32_t word = UINT32_C(0x3f800000);
    float value;
    if (s->values == 0) /* 1,024 values of either sign around 1, 16 bits each */
        word = (uint32_t)(bits & 0x87ff) << 16 | (uint32_t)0x3c000000;
    if (s->values == 1)
        word = (uint32_t)bits;
    memcpy(&value, &word, sizeof value);
    return value;
}

static void fill(const sample *s, size_t first, size_t rows, int64_t *ints[4], uint8_t *valid,
                 float *vectors, char **strings)
{
    for (size_t i = 0; i < rows; i++) {
        size_t row = first + i;
        ints[0][i] = (int64_t)(row / 10);
        ints[1][i] = (int64_t)(row / 100) - 3;
        ints[2][i] = (int64_t)(mix(s->seed + row) % 2000001) - 1000000;
        ints[3][i] = 4096;
        valid[i] = s->nulls == 2 || (s->nulls == 1 && row % 3 == 0);
        for (size_t j = 0; j < s->dim; j++)
            vectors[i * s->dim + j] = value_at(s, row, j);
        if (s->wide) {
            ints[1][i] = (int64_t)(row * UINT64_C(0x7ffffffffffffff1));
            ints[2][i] = (int32_t)(uint32_t)(row * UINT64_C(0x7ffffff1));
        }
        strings[i][0] = 0;
        if (row % 7)
            snprintf(strings[i], 32, "tok\xc3\xa9%zu", row % 1000);
    }
}

static int write_rows(const sample *s, qk_parquet_writer *writer, qk_error *err)
{
    int64_t *ints[4];
    for (int i = 0; i < 4; i++)
        ints[i] = calloc(s->cut, sizeof *ints[i]);
    uint8_t *valid = calloc(s->cut, 1);
    float *vectors = calloc(s->cut * s->dim, sizeof *vectors);
    char *text = calloc(s->cut, 32);
    char **strings = calloc(s->cut, sizeof *strings);
    for (size_t i = 0; i < s->cut; i++)
        strings[i] = text + 32 * i;
    qk_parquet_values values[6] = {{.i64 = ints[0]},
                                   {.i64 = ints[1]},
                                   {.i64 = ints[2]},
                                   {.f32 = vectors},
                                   {.i64 = ints[3], .valid = valid},
                                   {.strings = (const char *const *)strings}};
    int failed = 0;
    for (size_t row = 0; row < s->rows && !failed; row += s->cut) {
        size_t n = s->rows - row < s->cut ? s->rows - row : s->cut;
        fill(s, row, n, ints, valid, vectors, strings);
        failed = qk_parquet_writer_add(writer, values, n, err) != QK_OK;
    }
    for (int i = 0; i < 4; i++)
        free(ints[i]);
    free(valid);
    free(vectors);
    free(text);
    free(strings);
    return failed;
}

static int set_option(sample *s, const char *text)
{
    char name[16];
    uint64_t value;
    qk_parquet_writer_settings *w = &s->settings;
    if (sscanf(text, "%15[a-z]=%" SCNu64, name, &value) != 2)
        return 0;
    const struct {
        const char *name;
        size_t *size;
        int *number;
    } options[] = {
        {"rows", &s->rows, NULL},
        {"dim", &s->dim, NULL},
        {"cut", &s->cut, NULL},
        {"group", &w->row_group_rows, NULL},
        {"page", &w->page_bytes, NULL},
        {"values", NULL, &s->values},
        {"nulls", NULL, &s->nulls},
        {"strings", NULL, &s->strings},
        {"wide", NULL, &s->wide},
        {"level", NULL, &w->level},
        {"version", NULL, &w->data_page_version},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (strcmp(name, options[i].name) != 0)
            continue;
        if (options[i].size)
            *options[i].size = (size_t)value;
        else
            *options[i].number = (int)value;
        return 1;
    }
    if (strcmp(name, "seed") == 0)
        s->seed = value;
    else if (strcmp(name, "codec") == 0)
        w->codec = (qk_parquet_codec)value;
    else if (strcmp(name, "encoding") == 0)
        w->vector_encoding = (qk_parquet_vector_encoding)value;
    else if (strcmp(name, "checksum") == 0)
        w->checksum = value != 0;
    else
        return 0;
    return 1;
}

int main(int argc, char **argv)
{
    sample s = {.rows = 100, .dim = 8, .cut = 1000, .strings = 1};
    qk_parquet_writer_settings_default(&s.settings);
    for (int i = 2; i < argc; i++)
        if (!set_option(&s, argv[i]) || s.cut == 0) {
            fprintf(stderr, "bad option %s\n", argv[i]);
            return 2;
        }
    if (argc < 2)
        return 2;
    const qk_parquet_field fields[6] = {
        {"bucket", QK_FIELD_INT32, 0},         {"example_id", QK_FIELD_INT64, 0},
        {"position", QK_FIELD_INT32, 0},       {"vector", QK_FIELD_VECTOR, s.dim},
        {"sliding_window", QK_FIELD_INT32, 0}, {"token_str", QK_FIELD_STRING, 0}};
    qk_error err;
    qk_parquet_writer *writer;
    int failed = qk_parquet_writer_open(&writer, argv[1], fields, s.strings ? 6 : 5,
                                        &s.settings, &err) != QK_OK;
    if (!failed) {
        failed = write_rows(&s, writer, &err);
        if (failed)
            qk_parquet_writer_abort(&writer);
        else
            failed = qk_parquet_writer_finish(&writer, &err) != QK_OK;
    }
    if (failed)
        fprintf(stderr, "%s\n", err.message);
    return failed;
}
