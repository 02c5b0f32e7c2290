/* SPDX-License-Identifier: Apache-2.0 */
/* The Thrift compact protocol: skipping, every kind of bad bytes, and what is written. Values are those of footers that
 * others wrote (test_roundtrip.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "parquet/thrift.h"

#define INIT(t, bytes) qk__thrift_init(&(t), bytes, sizeof(bytes))

/* All types, skipped; then a field that must be met at its place. Every prefix ends too soon
 * and says so. */
static void test_skip(void **unused)
{
    (void)unused;
    static const uint8_t bytes[] = {
        0x11, 0x12, 0x13, 0x07, 0x14, 0x03, 0x15, 0x81, 0x01, 0x16, 0x05, /* bools, integers */
        0x17, 1,    2,    3,    4,    5,    6,    7,    8,                /* double */
        0x18, 0x03, 'a',  'b',  'c',                                      /* binary */
        0x19, 0x31, 0x01, 0x02, 0x01,                                     /* list of bool */
        0x1a, 0x18, 0x01, 'x',                                            /* set of binary */
        0x1b, 0x02, 0x58, 0x02, 0x01, 'y',  0x04, 0x00,                   /* map i32: binary */
        0x1b, 0x00,                                                       /* empty map */
        0x1c, 0x15, 0x02, 0x1c, 0x00, 0x00,                               /* struct in struct */
        0x19, 0x1c, 0x15, 0x02, 0x00,                                     /* list of struct */
        0x15, 0x54, 0x00,
    };
    qk__thrift_reader t;
    qk__thrift_field field = {0};
    INIT(t, bytes);
    while (qk__thrift_read_field(&t, &field) && field.id < 15)
        qk__thrift_skip(&t, &field);
    assert_null(t.fault);
    assert_int_equal(field.id, 15);
    assert_int_equal(qk__thrift_read_i32(&t, &field), 42);
    for (size_t size = 0; size < sizeof bytes; size++) {
        uint8_t *copy = malloc(size + 1); /* so that a sanitizer sees a read beyond it */
        assert_non_null(copy);
        memcpy(copy, bytes, size);
        qk__thrift_init(&t, copy, size);
        field = (qk__thrift_field){0};
        while (qk__thrift_read_field(&t, &field))
            qk__thrift_skip(&t, &field);
        assert_non_null(t.fault);
        assert_true(t.truncated);
        free(copy);
    }
}

static void test_faults(void **unused)
{
    (void)unused;
    qk__thrift_reader t;
    qk__thrift_field field = {0};
    /* An integer of eleven bytes. */
    static const uint8_t wide[] = {0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                   0xff, 0xff, 0xff, 0xff, 0x01, 0x00};
    INIT(t, wide);
    assert_true(qk__thrift_read_field(&t, &field));
    assert_int_equal(qk__thrift_read_i64(&t, &field), 0);
    assert_string_equal(t.fault, "Thrift integer of more than 10 bytes");
    assert_false(t.truncated);
    /* 10^12 where 32 bits are due. */
    static const uint8_t large[] = {0x15, 0x80, 0xc0, 0xca, 0xf3, 0x84, 0xa3, 0x02, 0x00};
    field = (qk__thrift_field){0};
    INIT(t, large);
    assert_true(qk__thrift_read_field(&t, &field));
    assert_int_equal(qk__thrift_read_i32(&t, &field), 0);
    assert_string_equal(t.fault, "Thrift integer does not fit 32 bits");
    /* A list that claims more elements than there are bytes. */
    static const uint8_t list[] = {0x19, 0xfc, 0xff, 0xff, 0xff, 0x7f, 0x00, 0x00};
    field = (qk__thrift_field){0};
    INIT(t, list);
    assert_true(qk__thrift_read_field(&t, &field));
    assert_int_equal(qk__thrift_read_list(&t, &field, THRIFT_STRUCT, 1), 0);
    assert_non_null(t.fault);
    /* A field of another type. */
    static const uint8_t type[] = {0x18, 0x01, 'x', 0x00};
    field = (qk__thrift_field){0};
    INIT(t, type);
    assert_true(qk__thrift_read_field(&t, &field));
    assert_int_equal(qk__thrift_read_i32(&t, &field), 0);
    assert_string_equal(t.fault, "Thrift field has the wrong type");
    assert_false(qk__thrift_read_field(&t, &field));
}

static void test_depth(void **unused)
{
    (void)unused;
    uint8_t bytes[100000];
    qk__thrift_reader t;
    static const uint8_t nests[] = {0x1c, 0x19}; /* struct in struct, list of lists */
    for (size_t i = 0; i < sizeof nests; i++) {
        qk__thrift_field field = {0};
        memset(bytes, nests[i], sizeof bytes);
        INIT(t, bytes);
        while (qk__thrift_read_field(&t, &field))
            qk__thrift_skip(&t, &field);
        assert_string_equal(t.fault, "Thrift data nested too deeply");
    }
}

/* What is written is read: ids far apart, a list whose length needs a number of its own. */
static void test_written(void **unused)
{
    (void)unused;
    enum { FAR = 1000, COUNT = 20 };
    qk__buffer out = {0};
    qk_error err;
    qk__thrift_writer w;
    qk__thrift_writer_init(&w, &out, &err);
    qk__thrift_i32(&w, 1, -5);
    qk__thrift_list(&w, FAR, THRIFT_I32, COUNT);
    for (int i = 0; i < COUNT; i++)
        qk__thrift_element_i32(&w, i * i);
    qk__thrift_end(&w);
    assert_int_equal(w.status, QK_OK);
    qk__thrift_reader t;
    qk__thrift_field field = {0};
    qk__thrift_init(&t, out.data, out.size);
    assert_true(qk__thrift_read_field(&t, &field));
    assert_int_equal(qk__thrift_read_i32(&t, &field), -5);
    assert_true(qk__thrift_read_field(&t, &field));
    assert_int_equal(field.id, FAR);
    qk__thrift_skip(&t, &field);
    assert_false(qk__thrift_read_field(&t, &field));
    assert_null(t.fault);
    qk__buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_skip),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
