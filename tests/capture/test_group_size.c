/* SPDX-License-Identifier: Apache-2.0 */
/* The group size of grouped-query attention, given, recorded or inferred. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "capture/capture.h"

static int compare(const void *a, const void *b)
{
    return qk__head_compare(((const qk__capture_entry *)a)->head.id,
                            ((const qk__capture_entry *)b)->head.id);
}

/* A capture of the heads named in a text such as "0q0 0q1 0k0": layer, kind, head. */
static qk_status settle(const char *heads, int manifest, int given, qk_group *group)
{
    qk__capture_entry entries[256] = {0};
    size_t count = 0;
    const char *p = heads;
    while (*p) {
        char *end;
        qk_head_id id = {.layer = (int)strtol(p, &end, 10)};
        id.kind = *end == 'q' ? QK_QUERY : QK_KEY;
        id.head = (int)strtol(end + 1, &end, 10);
        entries[count++].head.id = id;
        for (p = end; *p == ' ';)
            p++;
    }
    qsort(entries, count, sizeof entries[0], compare);
    char path[] = "capture";
    qk_capture capture = {.path = path,
                          .entries = entries,
                          .num_entries = count,
                          .info = {.q_per_kv_group = manifest}};
    qk_error err = {0};
    qk_status status = qk_capture_group(&capture, given, group, &err);
    assert_true(status == QK_OK || strlen(err.message) > 0);
    return status;
}

static void expect(const char *heads, int manifest, int given, qk_group wanted)
{
    qk_group group;
    assert_int_equal(settle(heads, manifest, given, &group), QK_OK);
    assert_int_equal(group.size, wanted.size);
    assert_int_equal(group.source, wanted.source);
    assert_int_equal(group.consistent, wanted.consistent);
    assert_int_equal(group.alternative, wanted.alternative);
    assert_int_equal(group.num_consistent, wanted.num_consistent);
}

#define LAYER6 "0q0 0q1 0q2 0q3 0q4 0q5 "

static void test_inferred(void **state)
{
    (void)state;
    /* all heads of the layer: as many query heads for each key head */
    expect(LAYER6 "0k0 0k1", 0, 0, (qk_group){3, QK_GROUP_INFERRED, true, 0, 1});
    expect(LAYER6 "0k0 0k1 0k2", 0, 0, (qk_group){2, QK_GROUP_INFERRED, true, 0, 1});
    expect(LAYER6 "0k0", 0, 0, (qk_group){6, QK_GROUP_INFERRED, true, 0, 1});
    expect("0q0 0k0", 0, 0, (qk_group){1, QK_GROUP_INFERRED, true, 0, 1});
    /* keys derived from sampled queries, layer by layer */
    expect("0q6 0q9 0k2 0k3", 0, 0, (qk_group){3, QK_GROUP_INFERRED, true, 0, 1});
    expect("0q6 0q9 0k1 0k2 1q3 1k0", 0, 0, (qk_group){4, QK_GROUP_INFERRED, true, 0, 1});
    /* 8 / 3 = 8 / 4 = 2: sizes that pair alike are one */
    expect("0q8 0k2", 0, 0, (qk_group){3, QK_GROUP_INFERRED, true, 0, 1});
}

/* Where sizes fit that pair queries with other keys, the smallest is taken, and the others are counted. */
static void test_several_fit(void **state)
{
    (void)state;
    /* 3: 0 1 1; 4 and 5: 0 0 1; 6: 0 0 0, where key heads were captured whole */
    expect("0q0 0q3 0q5 0k0 0k1", 0, 0, (qk_group){3, QK_GROUP_INFERRED, true, 4, 3});
    /* 4: 1 2 2; 5: 1 1 2; no key head 0, so that keys follow from queries */
    expect("0q7 0q9 0q11 0k1 0k2", 0, 0, (qk_group){4, QK_GROUP_INFERRED, true, 5, 2});
}

/* Heads are chosen out of models; keys are those that they need, or all. */
static void test_truth_fits(void **state)
{
    (void)state;
    enum { LAYERS = 3, KEYS = 4 };
    uint32_t random = 1;
    for (int trial = 0; trial < 400; trial++) {
        int size = 1 + trial % 5;
        bool whole = trial % 2 == 0, has[LAYERS][KEYS] = {{false}};
        char heads[2048] = "0q0 ", *end = heads + strlen(heads);
        has[0][0] = true;
        for (int i = 0; i < LAYERS * KEYS * size; i++) {
            random = random * 1664525 + 1013904223;
            int layer = i / (KEYS * size), head = i % (KEYS * size);
            if (i == 0 || head == 1 || random >> 30 != 0)
                continue; /* without head 1 no layer has heads from 0 on, as models have */
            end += sprintf(end, "%dq%d ", layer, head);
            has[layer][head / size] = true;
        }
        for (int i = 0; i < LAYERS * KEYS; i++)
            if (whole || has[i / KEYS][i % KEYS])
                end += sprintf(end, "%dk%d ", i / KEYS, i % KEYS);
        qk_group group;
        assert_int_equal(settle(heads, 0, size, &group), QK_OK);
        assert_true(group.consistent);
        assert_int_equal(group.num_consistent > 1, group.alternative > 0);
        assert_int_equal(settle(heads, 0, 0, &group), QK_OK);
        assert_true(group.consistent && group.size <= size);
    }
}

static void test_whole_keys(void **state)
{
    (void)state;
    /* some queries with all keys do not tell which of them the last key head has: 2 to 8 */
    expect("0q0 0q7 0k0 0k1 0k2 0k3 1q1 1q3 1k0 1k1 1k2 1k3", 0, 0,
           (qk_group){2, QK_GROUP_INFERRED, true, 3, 4});
    expect("0q7 0k0 0k1 0k2 0k3 1k0 1k1 1k2 1k3", 0, 0,
           (qk_group){2, QK_GROUP_INFERRED, true, 3, 4});
    /* heads 3, 5, 9, 7 of a model of 16 with 4 key heads: 4 is among them */
    expect("0q3 0q5 0k0 0k1 0k2 0k3 1q9 1k0 1k1 1k2 1k3 2q7 2k0 2k1 2k2 2k3", 0, 4,
           (qk_group){4, QK_GROUP_GIVEN, true, 3, 6});
    /* the same with a key head missing is not whole, and nothing fits */
    qk_group group;
    assert_int_equal(settle("0q0 0q7 0k0 0k2 0k3", 0, 0, &group), QK_ERR_INCONSISTENT);
    assert_int_equal(settle("0q0 0q7 0k0 0k1 0k2 0k3 1q0", 0, 0, &group), QK_ERR_INCONSISTENT);
    assert_int_equal(settle("0q0 0q7 0k0 0k1 0k2 0k3 1q7 1k1 1k3", 0, 0, &group),
                     QK_ERR_INCONSISTENT);
}

static void test_given(void **state)
{
    (void)state;
    expect(LAYER6 "0k0 0k1 0k2", 3, 2, (qk_group){2, QK_GROUP_GIVEN, true, 0, 1});
    expect(LAYER6 "0k0 0k1 0k2", 2, 0, (qk_group){2, QK_GROUP_MANIFEST, true, 0, 1});
    expect(LAYER6 "0k0 0k1 0k2", 2, 4, (qk_group){4, QK_GROUP_GIVEN, false, 2, 1});
    expect(LAYER6 "0k0 0k1 0k2", 3, 0, (qk_group){3, QK_GROUP_MANIFEST, false, 2, 1});
    expect(LAYER6 "0k5", 0, 2, (qk_group){2, QK_GROUP_GIVEN, false, 0, 0});
    expect("0q0 0q5 0k0 0k1", 0, 4, (qk_group){4, QK_GROUP_GIVEN, true, 6, 2});
    expect(LAYER6 "0k0", 0, 32, (qk_group){32, QK_GROUP_GIVEN, true, 0, 1});
    expect(LAYER6 "0k1", 0, 32, (qk_group){32, QK_GROUP_GIVEN, false, 0, 0});
    qk_group group;
    assert_int_equal(settle(LAYER6 "0k0", 0, -1, &group), QK_ERR_ARGUMENT);
    assert_int_equal(settle(LAYER6, 0, 0, &group), QK_ERR_NOT_FOUND);
    assert_int_equal(settle("0k0 1k0", 0, 2, &group), QK_ERR_NOT_FOUND);
}

/* Published tables give 4 for models of 24/8 and 40/8 heads. */
static void test_published_mistake(void **state)
{
    (void)state;
    static const int MODELS[][3] = {{24, 8, 3}, {40, 8, 5}, {32, 8, 4}, {16, 4, 4}, {9, 3, 3}};
    for (size_t m = 0; m < sizeof MODELS / sizeof MODELS[0]; m++) {
        char heads[512] = "";
        size_t used = 0;
        for (int i = 0; i < MODELS[m][0]; i++)
            used += (size_t)snprintf(heads + used, sizeof heads - used, "0q%d ", i);
        for (int i = 0; i < MODELS[m][1]; i++)
            used += (size_t)snprintf(heads + used, sizeof heads - used, "0k%d ", i);
        qk_group group;
        assert_int_equal(settle(heads, 0, 0, &group), QK_OK);
        assert_int_equal(group.size, MODELS[m][2]);
        assert_int_equal(settle(heads, 0, 4, &group), QK_OK);
        if (m < 2) {
            assert_false(group.consistent);
            assert_int_equal(group.alternative, MODELS[m][2]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inferred),   cmocka_unit_test(test_several_fit),
        cmocka_unit_test(test_truth_fits), cmocka_unit_test(test_whole_keys),
        cmocka_unit_test(test_given),      cmocka_unit_test(test_published_mistake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
