/* SPDX-License-Identifier: Apache-2.0 */
/* Finding heads, prefixes, shards and capture.json. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <qkscope/capture.h>

#include "tests/base/tree.h"

static void add_head(const char *folder)
{
    char name[512];
    snprintf(name, sizeof name, "%s/data.parquet", folder);
    tree_add(name, "");
}

static qk_capture *open_root(const char *prefix)
{
    qk_capture *capture;
    qk_error err = {0};
    if (qk_capture_open(&capture, tree_root, prefix, &err) != QK_OK)
        fail_msg("%s", err.message);
    return capture;
}

/* The open fails with this status and every one of the words in its message. */
static void expect_failure(const char *name, const char *prefix, qk_status status,
                           const char *const *words)
{
    qk_capture *capture;
    qk_error err = {0};
    assert_int_equal(qk_capture_open(&capture, tree_path(name), prefix, &err), status);
    assert_null(capture);
    assert_int_equal(err.status, status);
    for (; *words; words++)
        if (!strstr(err.message, *words))
            fail_msg("no \"%s\" in: %s", *words, err.message);
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_names(void **state)
{
    (void)state;
    static const char *const BAD[] = {
        "",         "l",       "l00",     "l00h",
        "l00h00",   "l00h0x",  "l00h00v", "l00h00qq",
        "xl00h00q", "L00h00q", "lh00q",   "l-1h0q",
        "l0h0q ",   "l0 h0q",  "l0h0q\n", "l1h99999999999999999999q",
        "l65536h0q"};
    qk_head_id id;
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        assert_false(qk_head_parse(BAD[i], &id));
    assert_true(qk_head_parse("l07h123k", &id));
    assert_int_equal(id.layer, 7);
    assert_int_equal(id.head, 123);
    assert_int_equal(id.kind, QK_KEY);
    char name[QK_HEAD_NAME_SIZE];
    qk_head_name(id, name);
    assert_string_equal(name, "l07h123k");
    assert_true(qk_head_parse("l65535h65535q", &id));
    qk_head_name(id, name);
    assert_string_equal(name, "l65535h65535q");
}

static void test_order_and_find(void **state)
{
    (void)state;
    static const char *const ORDER[] = {"l00h00q", "l00h00k", "l00h02q",
                                        "l00h10k", "l02h00k", "l10h00q"};
    for (size_t i = 6; i-- > 0;)
        add_head(ORDER[i]);
    add_head("l01h01x");
    tree_add("l03h00q/readme.txt", ""); /* no Parquet: no head */
    tree_add("l04h00q/.hidden.parquet", "");
    tree_add("l05h00q", "a file");
    tree_add(".cache/l00h07q/data.parquet", "");
    qk_capture *capture = open_root(NULL);
    assert_int_equal(qk_capture_num_heads(capture), 6);
    for (size_t i = 0; i < 6; i++) {
        char name[QK_HEAD_NAME_SIZE];
        const qk_head *head = qk_capture_head(capture, i);
        qk_head_name(head->id, name);
        assert_string_equal(name, ORDER[i]);
        assert_ptr_equal(qk_capture_find(capture, head->id), head);
    }
    assert_null(qk_capture_find(capture, (qk_head_id){3, 0, QK_QUERY}));
    assert_string_equal(qk_capture_path(capture), tree_root);
    assert_string_equal(qk_capture_prefix(capture), "");
    qk_capture_close(&capture);
    assert_null(capture);
    qk_capture_close(&capture);
}

static void test_shards(void **state)
{
    (void)state;
    tree_add("l00h00q/b.parquet", "");
    tree_add("l00h00q/a.parquet", "");
    tree_add("l00h00q/c.parquet.tmp-qkscope-1-0", "");
    tree_add("l00h00q/d.parquet/", "");
    tree_link("gone", "l00h00q/e.parquet");
    tree_add("l00h00q/.parquet", "");
    qk_capture *capture = open_root(NULL);
    const qk_head *head = qk_capture_head(capture, 0);
    /* The folder and the broken link count, too, and fail when they are read. */
    assert_int_equal(head->num_files, 4);
    assert_string_equal(head->files[0], tree_path("l00h00q/a.parquet"));
    assert_string_equal(head->files[1], tree_path("l00h00q/b.parquet"));
    assert_string_equal(head->files[2], tree_path("l00h00q/d.parquet"));
    assert_string_equal(head->files[3], tree_path("l00h00q/e.parquet"));
    qk_capture_close(&capture);
}

static void test_prefix(void **state)
{
    (void)state;
    add_head("a/b/train/l00h00q");
    qk_capture *capture = open_root(NULL);
    assert_string_equal(qk_capture_prefix(capture), "a/b/train");
    assert_string_equal(qk_capture_path(capture), tree_path("a/b/train"));
    qk_capture_close(&capture);
    capture = open_root("./a//");
    assert_string_equal(qk_capture_prefix(capture), "a/b/train");
    qk_capture_close(&capture);

    add_head("z/l00h00q");
    add_head("l01h00q");
    expect_failure("", NULL, QK_ERR_INCONSISTENT,
                   WORDS("., a/b/train, z", "such as", "/a/b/train"));
    capture = open_root("z");
    assert_string_equal(qk_capture_prefix(capture), "z");
    assert_int_equal(qk_capture_num_heads(capture), 1);
    qk_capture_close(&capture);
    capture = open_root(".");
    assert_string_equal(qk_capture_prefix(capture), "");
    assert_int_equal(qk_capture_head(capture, 0)->id.layer, 1);
    qk_capture_close(&capture);
    expect_failure("", "nowhere", QK_ERR_NOT_FOUND, WORDS("no folder nowhere"));
    for (int i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof name, "step-%02d/l00h00q", i);
        add_head(name);
    }
    expect_failure("", NULL, QK_ERR_INCONSISTENT, WORDS("step-00", "and 15 more"));
}

static void test_missing(void **state)
{
    (void)state;
    tree_add("file", "");
    tree_add("empty/", "");
    add_head("1/2/3/4/5/6/7/8/9/l00h00q");
    expect_failure("nowhere", NULL, QK_ERR_NOT_FOUND, WORDS("nowhere", "no such folder"));
    expect_failure("file", NULL, QK_ERR_NOT_FOUND, WORDS("a file"));
    expect_failure("empty", NULL, QK_ERR_NOT_FOUND, WORDS("no head folders", "l00h00q"));
    expect_failure("", NULL, QK_ERR_NOT_FOUND, WORDS("no head folders")); /* too deep */
}

static void test_links(void **state)
{
    (void)state;
    tree_add("blobs/x", "");
    tree_add("snap/cap/l00h00q/", "");
    tree_link("../../../blobs/x", "snap/cap/l00h00q/data.parquet");
    tree_link("..", "snap/cap/loop");
    tree_link("cap", "snap/latest");
    tree_link("snap", "other");
    tree_link(".", "self");
    qk_capture *capture = open_root(NULL);
    assert_int_equal(qk_capture_num_heads(capture), 1);
    qk_capture_close(&capture);
    tree_link("../snap/cap/l00h00q", "linked/l03h00k");
    capture = open_root("linked");
    assert_int_equal(qk_capture_head(capture, 0)->id.kind, QK_KEY);
    qk_capture_close(&capture);
}

static void test_one_head_alone(void **state)
{
    (void)state;
    add_head("cap/l02h03k");
    add_head("cap/l02h04k");
    qk_capture *capture;
    qk_error err = {0};
    assert_int_equal(qk_capture_open(&capture, tree_path("cap/l02h03k/"), NULL, &err), QK_OK);
    assert_int_equal(qk_capture_num_heads(capture), 1);
    assert_int_equal(qk_capture_head(capture, 0)->id.head, 3);
    assert_non_null(strstr(qk_capture_path(capture), "/cap"));
    qk_capture_close(&capture);
}

static void test_same_head_twice(void **state)
{
    (void)state;
    add_head("l0h0q");
    add_head("l00h00q");
    expect_failure("", NULL, QK_ERR_INCONSISTENT, WORDS("l0h0q", "l00h00q", "same head"));
}

static void expect_manifest_failure(const char *text, qk_status status, const char *word)
{
    tree_add("cap/capture.json", text);
    expect_failure("", NULL, status, WORDS("cap/capture.json", word));
}

static void test_manifest(void **state)
{
    (void)state;
    add_head("cap/l00h00q");
    qk_capture *capture = open_root(NULL);
    const qk_capture_info *info = qk_capture_get_info(capture);
    assert_string_equal(info->model, "");
    assert_false(info->has_manifest);
    assert_true(info->complete);
    qk_capture_close(&capture);

    tree_add("capture.json", "{\"model\": \"tiny\", \"q_per_kv_group\": 2, \"extra\": [1]}");
    capture = open_root(NULL);
    info = qk_capture_get_info(capture);
    assert_string_equal(info->model, "tiny");
    assert_int_equal(info->q_per_kv_group, 2);
    assert_true(info->has_manifest && info->complete);
    qk_capture_close(&capture);

    tree_add("cap/capture.json", "{\"format\": \"qkscope-capture\", \"format_version\": 1,"
                                 "\"model\": null, \"q_per_kv_group\": null,"
                                 "\"complete\": false}");
    capture = open_root(NULL);
    info = qk_capture_get_info(capture);
    assert_string_equal(info->model, "");
    assert_int_equal(info->q_per_kv_group, 0);
    assert_true(info->has_manifest && !info->complete);
    qk_capture_close(&capture);

    tree_add("cap/capture.json", "{\"format\": \"other\", \"model\": 7}");
    capture = open_root(NULL);
    assert_false(qk_capture_get_info(capture)->has_manifest);
    qk_capture_close(&capture);

    expect_manifest_failure("{\"model\": ", QK_ERR_MALFORMED, "byte 11");
    expect_manifest_failure("[]", QK_ERR_MALFORMED, "object");
    expect_manifest_failure("", QK_ERR_MALFORMED, "byte 1");
    expect_manifest_failure("{\"model\": 7}", QK_ERR_MALFORMED,
                            "capture.json: model: expected a text, found 7");
    expect_manifest_failure("{\"rope_frequencies\": [1, 0, -0.5]}", QK_ERR_MALFORMED,
                            "rope_frequencies[2]: expected a number from 0");
    expect_manifest_failure("{\"rope_frequencies\": {\"3\": [1, null]}}", QK_ERR_MALFORMED,
                            "rope_frequencies.3[1]: expected a number from 0");
    expect_manifest_failure("{\"rope_frequencies\": {\"x\": [1]}}", QK_ERR_MALFORMED,
                            "rope_frequencies: expected a list, or lists by layer");
    expect_manifest_failure("{\"rope_frequencies\": 3}", QK_ERR_MALFORMED,
                            "rope_frequencies: expected a list, or lists by layer");
    expect_manifest_failure("{\"q_per_kv_group\": -1}", QK_ERR_MALFORMED, "q_per_kv_group");
    expect_manifest_failure("{\"q_per_kv_group\": 2.5}", QK_ERR_MALFORMED, "q_per_kv_group");
    expect_manifest_failure("{\"complete\": 1}", QK_ERR_MALFORMED, "complete");
    expect_manifest_failure("{\"format_version\": 2}", QK_ERR_UNSUPPORTED, "format_version");
    expect_manifest_failure("{\"model\": \"a\", \"model\": \"b\"}", QK_ERR_MALFORMED,
                            "byte 16");
}

/* Heads that lay there before: of all, and of the one folder that was given. */
static void test_heads_that_are_not_listed(void **state)
{
    (void)state;
    add_head("cap/l00h00q");
    add_head("cap/l00h01q");
    add_head("cap/l00h00k");
    tree_add("cap/capture.json",
             "{\"heads\": [{\"name\": \"l00h00q\"}, {\"name\": \"l00h00k\"}]}");
    expect_failure("", NULL, QK_ERR_INCONSISTENT,
                   WORDS("cap: capture.json does not list 1 of the 3 heads", "here, l00h01q:"));
    expect_failure("cap/l00h01q", NULL, QK_ERR_INCONSISTENT, WORDS("1 of the 1 heads"));
    add_head("cap/l02h00k");
    add_head("cap/l01h00q");
    expect_failure("", NULL, QK_ERR_INCONSISTENT, WORDS("3 of the 5", "l00h01q to l02h00k"));
    tree_add("capture.json", "{\"heads\": [{\"name\": \"l00h00q\"}]}"); /* of another folder */
    unlink(tree_path("cap/capture.json"));
    qk_capture *capture = open_root(NULL);
    assert_int_equal(qk_capture_num_heads(capture), 5);
    qk_capture_close(&capture);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, tree_setup, tree_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        TEST(test_order_and_find),
        TEST(test_shards),
        TEST(test_prefix),
        TEST(test_missing),
        TEST(test_links),
        TEST(test_one_head_alone),
        TEST(test_same_head_twice),
        TEST(test_manifest),
        TEST(test_heads_that_are_not_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
