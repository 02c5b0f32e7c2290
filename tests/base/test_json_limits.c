/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of JSON: texts of nothing but small values are refused before they take more memory than their
 * kind may, and the largest files that are known pass, with room to spare. What values take is counted
 * where they are allocated, not where the parser says so. */
#include "tests/unit.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/json.h"

enum { HEAD = 8 }; /* of the C library, before each allocation */

static size_t taken, most;

static void *count_malloc(size_t size)
{
    void *made = malloc(size);
    taken += made ? malloc_usable_size(made) + HEAD : 0;
    most = taken > most ? taken : most;
    return made;
}

static void count_free(void *made)
{
    taken -= made ? malloc_usable_size(made) + HEAD : 0;
    free(made);
}

/* The most memory that values took at any time. */
static qk_status parse(const qk__buffer *text, qk__json_kind kind, size_t *memory,
                       qk_error *err)
{
    json_t *root;
    size_t before = most = taken;
    qk_status status = qk__json_parse(&root, text->data, text->size, kind, err);
    json_decref(root);
    assert_int_equal(taken, before);
    *memory = most - before;
    return status;
}

static void add(qk__buffer *text, const char *part)
{
    assert_int_equal(qk__buffer_append(text, part, strlen(part), NULL), QK_OK);
}

/* "[part,part,...]" */
static void repeat(qk__buffer *text, const char *part, size_t count)
{
    text->size = 0;
    add(text, "[");
    for (size_t i = 0; i < count; i++) {
        add(text, i > 0 ? "," : "");
        add(text, part);
    }
    add(text, "]");
}

static void test_bombs(void **state)
{
    static const char *const PARTS[] = {
        "{}",
        "[]",
        "\"\"",
        "0",
        "-1.5",
        "null",
        "1e999",
        "{\"a\":{}}",
        "[0,0,0,0,0,0,0,0,0,0]",
        "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9}"};
    const qk__json_limits *limits = qk__json_limits_of(QK__JSON_CONFIG);
    (void)state;
    qk__buffer text = {0};
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i += tier_is("test") ? 3 : 1) {
        qk_error err = {.status = QK_OK};
        size_t memory;
        repeat(&text, PARTS[i], 20000);
        assert_int_equal(parse(&text, QK__JSON_TOKENIZER, &memory, &err), QK_OK);
        size_t fitting = 20000 * (limits->values / (memory / 100)) / 100;
        repeat(&text, PARTS[i], fitting / 2 - 1);
        if (text.size <= limits->text && parse(&text, QK__JSON_CONFIG, &memory, &err) != QK_OK)
            fail_msg("half as many of %s: %s", PARTS[i], err.message);
        repeat(&text, PARTS[i], 2 * fitting);
        assert_int_equal(parse(&text, QK__JSON_CONFIG, &memory, &err), QK_ERR_MALFORMED);
        if (memory > limits->values + limits->values / 4)
            fail_msg("%s: %zu bytes, where %zu are allowed", PARTS[i], memory, limits->values);
        if (text.size <= limits->text &&
            (!strstr(err.message, "more values than config.json may have") ||
             !strstr(err.message, "64 MB of memory")))
            fail_msg("%s: %s", PARTS[i], err.message);
    }
    qk__buffer_free(&text);
}

static void test_bytes(void **state)
{
    (void)state;
    qk__buffer text = {0};
    qk_error err;
    size_t memory;
    size_t limit = qk__json_limits_of(QK__JSON_HEADER)->text;
    assert_int_equal(qk__buffer_reserve(&text, limit + 1, NULL), QK_OK);
    memset(text.data, ' ', limit + 1);
    text.data[0] = '1';
    text.size = limit;
    assert_int_equal(parse(&text, QK__JSON_HEADER, &memory, &err), QK_OK);
    text.size = limit + 1;
    assert_int_equal(parse(&text, QK__JSON_HEADER, &memory, &err), QK_ERR_MALFORMED);
    assert_string_equal(err.message, "16777217 bytes, more than the 16 MB that the header of a "
                                     "safetensors file may have");
    qk__buffer_free(&text);
}

/* ---- the largest that are known ---------------------------------------------------------- */

/* %zu is a number of the entry. */
typedef struct list {
    const char *begin, *entry, *end;
    size_t count;
} list;

static void add_list(qk__buffer *text, const list *l)
{
    char entry[1200];
    add(text, l->begin);
    for (size_t i = 0; i < l->count; i++) {
        /* NOLINTNEXTLINE(clang-diagnostic-format-nonliteral) */
        snprintf(entry, sizeof entry, l->entry, i);
        add(text, i > 0 ? "," : "");
        add(text, entry);
    }
    add(text, l->end);
}

static void test_largest(void **state)
{
    static const struct {
        const char *what;
        qk__json_kind kind;
        list lists[3];
        size_t room; /* how many times as many would pass, at least */
    } FILES[] = {
        {"manifest: 1,152 query and as many key heads of 16 files each",
         QK__JSON_MANIFEST,
         {{"{\"runs\": [{\"inputs\": [",
           "{\n \"file\": \"l00h00q/part-%06zu.parquet\",\n"
           " \"bytes\": 123456789,\n \"xxh3_128\": \"0123456789abcdef0123456789abcdef\"\n}",
           "]}]}", 36864}},
         8},
        {"tokenizer: 262,144 tokens, 514,906 merges",
         QK__JSON_TOKENIZER,
         {{"{\"added_tokens\": [",
           "{\"id\": %zu, \"content\": \"<unused>\", \"single_word\": false, "
           "\"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": true}",
           "],", 6242},
          {"\"vocab\": {", "\"token%07zu\": 1", "},", 262144},
          {"\"merges\": [", "[\"a\", \"%zu\"]", "]}", 514906}},
         3},
        {"index of weights: 91,991 tensors",
         QK__JSON_INDEX,
         {{"{\"weight_map\": {",
           "\"model.layers.3.mlp.experts.%05zu.down_proj.weight_scale_inv\": "
           "\"model-00001-of-000163.safetensors\"",
           "}}", 91991}},
         4},
        {"safetensors header: 50,000 tensors",
         QK__JSON_HEADER,
         {{"{",
           "\"model.layers.3.mlp.experts.%05zu.down_proj.weight\": {\"dtype\": \"BF16\", "
           "\"shape\": "
           "[7168, 2048], \"data_offsets\": [9999999999, 19999999999]}",
           "}", 50000}},
         2},
        {"capture.json: 65,536 heads",
         QK__JSON_CAPTURE,
         {{"{\"heads\": [",
           "{\"layer\": 7, \"head\": %zu, \"kind\": \"query\", \"rows\": 99999}", "]}", 65536}},
         5},
    };
    (void)state;
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        if (tier_is("test") && FILES[i].kind == QK__JSON_TOKENIZER)
            continue; /* takes as long as all others */
        const qk__json_limits *limits = qk__json_limits_of(FILES[i].kind);
        qk_error err = {.status = QK_OK};
        qk__buffer text = {0};
        size_t memory;
        for (size_t k = 0; k < 3 && FILES[i].lists[k].begin; k++)
            add_list(&text, &FILES[i].lists[k]);
        if (parse(&text, FILES[i].kind, &memory, &err) != QK_OK)
            fail_msg("%s: %s", FILES[i].what, err.message);
        assert_true(text.size * FILES[i].room <= limits->text);
        assert_true(memory * FILES[i].room <= limits->values);
        qk__buffer_free(&text);
    }
}

int main(void)
{
    json_set_alloc_funcs(count_malloc, count_free);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
