/* SPDX-License-Identifier: Apache-2.0 */
/* Hybrid runs and level patterns against encoders written here, and damaged delta integers; sound ones are read from
 * the files of other writers (test_roundtrip.py, test_parquet_testing.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "parquet/delta.h"
#include "parquet/rle.h"

enum { MOST = 4000 };

static uint64_t state = UINT64_C(88172645463325252);

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

typedef struct sink {
    uint8_t bytes[1 << 17];
    size_t size;
} sink;

static void put_varint(sink *s, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        s->bytes[s->size++] = (uint8_t)(value | 0x80);
    s->bytes[s->size++] = (uint8_t)value;
}

static void put_bits(sink *s, const uint64_t *values, size_t count, unsigned width)
{
    size_t size = (count * width + 7) / 8;
    memset(s->bytes + s->size, 0, size);
    for (size_t i = 0, bit = 0; i < count; i++)
        for (unsigned b = 0; b < width; b++, bit++)
            if (values[i] >> b & 1)
                s->bytes[s->size + bit / 8] |= (uint8_t)(1u << bit % 8);
    s->size += size;
}

/* Runs of random kinds and lengths. */
static void put_runs(sink *s, const uint64_t *values, size_t count, unsigned width)
{
    for (size_t i = 0; i < count;) {
        size_t same = 1;
        while (i + same < count && values[i + same] == values[i])
            same++;
        if (same >= 8 || count - i < 8) {
            size_t take = 1 + next_random() % same;
            put_varint(s, take << 1);
            for (unsigned b = 0; b < (width + 7) / 8; b++)
                s->bytes[s->size++] = (uint8_t)(values[i] >> (8 * b));
            i += take;
        } else {
            size_t groups = 1 + next_random() % ((count - i) / 8);
            put_varint(s, groups << 1 | 1);
            put_bits(s, values + i, groups * 8, width);
            i += groups * 8;
        }
    }
}

/* The encoded bytes in a block of their own, so that a sanitizer sees a read beyond them. */
static uint8_t *copy_of(const sink *s, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, s->bytes, size);
    return copy;
}

static void fill(uint64_t *values, size_t count, unsigned width)
{
    uint64_t mask = width == 0 ? 0 : UINT64_MAX >> (64 - width);
    for (size_t i = 0; i < count;) {
        size_t run = next_random() % 3 ? 1 : next_random() % 100;
        for (uint64_t value = next_random() & mask; run > 0 && i < count; run--)
            values[i++] = value;
    }
}

static void test_runs(void **unused)
{
    (void)unused;
    static sink s;
    static uint64_t values[MOST];
    static uint8_t out[MOST];
    for (unsigned width = 0; width <= 8; width++) {
        for (int round = 0; round < 20; round++) {
            size_t count = next_random() % MOST;
            s.size = 0;
            fill(values, count, width);
            put_runs(&s, values, count, width);
            uint8_t *copy = copy_of(&s, s.size);
            qk__rle rle;
            qk__rle_init(&rle, copy, s.size, width);
            size_t done = 0;
            while (done < count) {
                size_t take = 1 + next_random() % 70;
                take = take < count - done ? take : count - done;
                assert_int_equal(qk__rle_read_u8(&rle, out + done, take), take);
                done += take;
            }
            for (size_t i = 0; i < count; i++)
                assert_int_equal(out[i], values[i]);
            assert_int_equal(qk__rle_read_u8(&rle, out, 8), 0);
            free(copy);
        }
    }
}

/* Matching stops exactly at the first other value, wherever it is. */
static void test_match(void **unused)
{
    (void)unused;
    static sink s;
    static uint64_t values[MOST];
    for (unsigned width = 1; width <= 8; width++) {
        for (size_t at = 0; at < 300; at++) {
            uint64_t most = UINT64_MAX >> (64 - width);
            for (size_t i = 0; i < 320; i++)
                values[i] = i == at ? most ^ 1 : most;
            s.size = 0;
            /* All packed, then as runs. */
            if (at % 2) {
                put_varint(&s, 40 << 1 | 1);
                put_bits(&s, values, 320, width);
            } else {
                put_runs(&s, values, 320, width);
            }
            uint8_t *copy = copy_of(&s, s.size);
            qk__rle rle;
            qk__rle_init(&rle, copy, s.size, width);
            size_t first = at < 13 ? at : 13;
            assert_int_equal(qk__rle_match(&rle, (uint32_t)most, first), first);
            assert_int_equal(qk__rle_match(&rle, (uint32_t)most, 320 - first), at - first);
            assert_int_equal(qk__rle_match(&rle, (uint32_t)(most ^ 1), 320), 1);
            assert_int_equal(qk__rle_match(&rle, (uint32_t)most, 319 - at), 319 - at);
            assert_int_equal(qk__rle_match(&rle, (uint32_t)most, 1), 0);
            free(copy);
        }
    }
}

static void check_rows(size_t row, size_t count, size_t flip)
{
    static sink s;
    static uint64_t values[MOST];
    for (size_t i = 0; i < count; i++)
        values[i] = (i % row != 0) ^ (i == flip);
    s.size = 0;
    put_runs(&s, values, count, 1);
    uint8_t *copy = copy_of(&s, s.size);
    qk__rle rle;
    qk__rle_init(&rle, copy, s.size, 1);
    size_t done = 0, ones = 0, expect = flip < count ? flip : count;
    while (done < expect) {
        size_t take = 1 + next_random() % 200;
        take = take < count - done ? take : count - done;
        size_t got = qk__rle_match_rows(&rle, row, &ones, take);
        done += got;
        if (got < take)
            break;
        assert_int_equal(ones, (row - done % row) % row);
    }
    assert_int_equal(done, expect);
    free(copy);
}

static void test_rows(void **unused)
{
    (void)unused;
    static const size_t widths[] = {1, 2, 3, 7, 8, 9, 55, 56, 57, 64, 100, 128, 1000};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        for (size_t flip = 0; flip < 400; flip++)
            check_rows(widths[w], 400, flip);
        for (int round = 0; round < 50; round++)
            check_rows(widths[w], MOST - next_random() % 1000, MOST);
    }
}

/* Damaged runs end; they do not read on. */
static void test_bad_runs(void **unused)
{
    (void)unused;
    static const uint8_t bad[][6] = {
        {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, /* no end to the length */
        {0xff, 0xff, 0xff, 0xff, 0x7f, 0x00}, /* too large for 32 bits */
        {0x00, 0x00, 0x00, 0x00, 0x00, 0x00}, /* runs of none */
        {0x01, 0x01, 0x01, 0x01, 0x01, 0x08}, /* packed runs of none, a cut run */
    };
    uint8_t out[64];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qk__rle rle;
        qk__rle_init(&rle, bad[i], sizeof bad[i], 3);
        assert_int_equal(qk__rle_read_u8(&rle, out, sizeof out), 0);
    }
    /* A packed run with its padding cut gives what is there. */
    static const uint8_t cut[] = {0x05, 0xff, 0xff};
    qk__rle rle;
    qk__rle_init(&rle, cut, sizeof cut, 3);
    assert_int_equal(qk__rle_read_u8(&rle, out, sizeof out), 5);
}

static void test_bad_delta(void **unused)
{
    (void)unused;
    static const uint8_t bad[][6] = {
        {0x80, 0x01, 0x00, 0x05, 0x00}, /* no miniblocks */
        {0x80, 0x01, 0x03, 0x05, 0x00}, /* not a divisor */
        {0x40, 0x04, 0x05, 0x00},       /* miniblocks of 16 */
        {0x00, 0x04, 0x05, 0x00},       /* empty blocks */
    };
    qk__delta delta;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(qk__delta_init(&delta, bad[i], sizeof bad[i]));
    static const uint8_t wide[] = {0x80, 0x01, 0x01, 0x05, 0x00, 0x00, 65, 1, 2, 3};
    uint64_t out[5];
    assert_true(qk__delta_init(&delta, wide, sizeof wide));
    assert_int_equal(qk__delta_read(&delta, out, 5), 1);
    assert_true(qk__delta_init(&delta, wide, sizeof wide));
    assert_null(qk__delta_end(&delta));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),      cmocka_unit_test(test_match),
        cmocka_unit_test(test_rows),      cmocka_unit_test(test_bad_runs),
        cmocka_unit_test(test_bad_delta),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
