/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of YAML and JSON: ways, values and where they are wrong; tables of keys; memory that
 * runs out at any moment. */
#include "tests/unit.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "yaml/tree_keys.h"
#include "tests/failing_memory.h"

static qk__tree *parse(const char *text)
{
    qk__tree *tree;
    qk_error err;
    if (qk__tree_parse(&tree, text, strlen(text), &err) != QK_OK)
        fail_msg("%s: %s", text, err.message);
    return tree;
}

static json_t *parse_json(const char *text)
{
    json_t *root;
    assert_int_equal(qk__json_parse(&root, text, strlen(text), QK__JSON_GIVEN, NULL), QK_OK);
    return root;
}

#define SAYS(call, status, words)                                                              \
    do {                                                                                       \
        qk_error err_ = {0};                                                                   \
        qk_error *err = &err_;                                                                 \
        assert_int_equal((call), (status));                                                    \
        assert_string_equal(err_.message, (words));                                            \
    } while (0)

/* The same values, whatever they are written in. */
static void check_values(const qk__node *root)
{
    static const char *const WORDS[] = {"pairs", "centroid", NULL};
    const char *text = "as it was";
    bool yes = false;
    int whole = 7, word = 9;
    int64_t wide = 0;
    double real = 0;
    assert_int_equal(qk__read_text(root, "text", &text, NULL), QK_OK);
    assert_string_equal(text, "centroid");
    assert_int_equal(qk__read_word(root, "text", WORDS, &word, NULL), QK_OK);
    assert_int_equal(word, 1);
    assert_int_equal(qk__read_bool(root, "yes", &yes, NULL), QK_OK);
    assert_true(yes);
    assert_int_equal(qk__read_int(root, "whole", -5, 5, &whole, NULL), QK_OK);
    assert_int_equal(whole, -5);
    assert_int_equal(qk__read_int64(root, "wide", INT64_MIN, INT64_MAX, &wide, NULL), QK_OK);
    assert_true(wide == INT64_MIN);
    assert_int_equal(qk__read_real(root, "real", 0, 1, &real, NULL), QK_OK);
    assert_true(real == 1e-4);
    assert_int_equal(qk__read_real(root, "one", 0, 1, &real, NULL), QK_OK);
    assert_true(real == 1);
    /* absent and null leave the default alone */
    assert_int_equal(qk__read_int(root, "nothing", 1, 2, &whole, NULL), QK_OK);
    assert_int_equal(qk__read_int(root, "null", 1, 2, &whole, NULL), QK_OK);
    assert_int_equal(whole, -5);
    qk__node list = qk__node_member(root, "list"), absent = qk__node_member(root, "nothing");
    qk__node null = qk__node_member(root, "null"), member = {0};
    assert_int_equal(qk__node_kind_of(&list), QK__LIST);
    assert_int_equal(qk__node_kind_of(&absent), QK__NOTHING);
    assert_int_equal(qk__node_kind_of(&null), QK__NULL);
    assert_int_equal(qk__node_count(&list), 3);
    assert_int_equal(qk__node_count(&absent) + qk__node_count(&null), 0);
    for (size_t i = 0; i < 3; i++) {
        qk__node item = qk__node_item(&list, i);
        assert_int_equal(qk__read_int(&item, NULL, 0, 9, &whole, NULL), QK_OK);
        assert_int_equal(whole, i + 4);
    }
    qk__node single = qk__node_member(root, "one"), itself = qk__node_item(&single, 0);
    assert_int_equal(qk__node_count(&single), 1);
    assert_ptr_equal(itself.value, single.value);
    size_t count = 0;
    while (qk__node_next(root, &member))
        count++;
    assert_int_equal(count, 8);
}

#define VALUES                                                                                 \
    "{\"text\": \"centroid\", \"yes\": true, \"whole\": -5, \"wide\": -9223372036854775808,\n" \
    " \"real\": 1e-4, \"one\": 1, \"null\": null, \"list\": [4, 5, 6]}"

static void test_values(void **state)
{
    (void)state;
    qk__tree *tree = parse(VALUES); /* JSON is YAML */
    qk__node root = qk__tree_root(tree);
    check_values(&root);
    qk__tree_free(&tree);
    tree = parse("text: centroid\nyes: on\nwhole: -5\nwide: -9223372036854775808\n"
                 "real: .0001\none: +1\n'null': ~\nlist:\n- 4\n- 5\n- 6\n");
    root = qk__tree_root(tree);
    check_values(&root);
    qk__tree_free(&tree);
    assert_null(tree);
    json_t *json = parse_json(VALUES);
    root = qk__tree_of_json(json);
    check_values(&root);
    json_decref(json);
}

static void test_wrong_yaml(void **state)
{
    (void)state;
    static const char *const WORDS[] = {"a", "b", "c", NULL};
    int whole, word;
    double real;
    const char *text;
    qk__tree *tree = parse("a: two\nb:\n  c: [1, [x]]\n  d: '5'\n  e: {}\n  f: \"x\\0y\"\n"
                           "  g: ''\n  h: 0x10\n  i: 010\n  j: 2\n");
    qk__node root = qk__tree_root(tree), b = qk__node_member(&root, "b");
    qk__node c = qk__node_member(&b, "c"), inner = qk__node_item(&c, 1);
    SAYS(qk__read_int(&root, "a", 1, 64, &whole, err), QK_ERR_ARGUMENT,
         "line 1: a: expected a whole number from 1 to 64, found \"two\"");
    SAYS(qk__read_int(&inner, NULL, 1, 64, &whole, err), QK_ERR_ARGUMENT,
         "line 3: b.c: expected a whole number from 1 to 64, found a list");
    SAYS(qk__read_int(&b, "d", 1, 64, &whole, err), QK_ERR_ARGUMENT,
         "line 4: b.d: expected a whole number from 1 to 64, found \"5\"");
    SAYS(qk__read_text(&b, "f", &text, err), QK_ERR_ARGUMENT,
         "line 6: b.f: expected a text, found binary data");
    SAYS(qk__read_word(&b, "h", WORDS, &word, err), QK_ERR_ARGUMENT,
         "line 8: b.h: expected a, b or c, found \"0x10\"");
    SAYS(qk__read_int(&b, "i", 0, 99, &whole, err), QK_ERR_ARGUMENT,
         "line 9: b.i: expected a whole number from 0 to 99, found \"010\"");
    SAYS(qk__read_real(&b, "j", 0, 1.5, &real, err), QK_ERR_ARGUMENT,
         "line 10: b.j: expected a number from 0 to 1.5, found \"2\"");
    qk__node absent = qk__node_member(&b, "k");
    SAYS(qk__fail_expected(&absent, "a text", err), QK_ERR_ARGUMENT, "line 3: b.k: missing");
    SAYS(qk__context_at(&c, err, qk__fail_at(&inner, err, QK_ERR_ARGUMENT, "no")),
         QK_ERR_ARGUMENT, "line 3: b.c: line 3: b.c: no");
    qk__tree_free(&tree);
}

static void test_wrong_json(void **state)
{
    (void)state;
    int whole;
    double real;
    const char *text;
    json_t *json = parse_json("{\"a\": {\"b\": [0, {\"c\": \"x\"}, 1.5, null, 1e999, true]}}");
    qk__node root = qk__tree_of_json(json), a = qk__node_member(&root, "a");
    qk__node b = qk__node_member(&a, "b"), items[6];
    for (size_t i = 0; i < 6; i++)
        items[i] = qk__node_item(&b, i);
    SAYS(qk__read_int(&items[1], "c", 1, 2, &whole, err), QK_ERR_MALFORMED,
         "a.b[1].c: expected a whole number from 1 to 2, found \"x\"");
    SAYS(qk__read_text(&items[1], NULL, &text, err), QK_ERR_MALFORMED,
         "a.b[1]: expected a text, found an object");
    SAYS(qk__read_real(&items[4], NULL, 1, 2, &real, err), QK_ERR_MALFORMED,
         "a.b[4]: expected a number from 1 to 2, found 1e999");
    SAYS(qk__read_int(&items[2], NULL, 1, 2, &whole, err), QK_ERR_MALFORMED,
         "a.b[2]: expected a whole number from 1 to 2, found 1.5");
    qk__node absent = qk__node_member(&a, "d");
    SAYS(qk__fail_expected(&absent, "a text", err), QK_ERR_MALFORMED, "a.d: missing");
    SAYS(qk__fail_in(&items[1], "c", err, QK_ERR_IO, "no %d", 7), QK_ERR_IO, "a.b[1].c: no 7");
    json_decref(json);
}

/* Numbers without an end, lists, texts with U+0000, and what has to be there. */
static void test_needs(void **state)
{
    (void)state;
    static const char JSON[] =
        "{\"zero\": 0, \"tiny\": 5e-324, \"below\": -1, \"text\": \"ab\","
        " \"cut\": \"a\\u0000b\", \"list\": [1, 2], \"null\": null,"
        " \"no\": false, \"object\": {}}";
    json_t *json;
    assert_int_equal(qk__json_parse(&json, JSON, sizeof JSON - 1, QK__JSON_LINE, NULL), QK_OK);
    const qk__node root = qk__tree_of_json(json);
    qk__node found;
    const char *text = NULL;
    double real = 7;
    bool yes = true;
    assert_int_equal(qk__read_above_0(&root, "null", &real, NULL), QK_OK);
    assert_true(real == 7);
    assert_int_equal(qk__read_above_0(&root, "tiny", &real, NULL), QK_OK);
    assert_true(real == 5e-324);
    assert_int_equal(qk__read_real(&root, "zero", 0, DBL_MAX, &real, NULL), QK_OK);
    assert_true(real == 0);
    SAYS(qk__read_above_0(&root, "zero", &real, err), QK_ERR_MALFORMED,
         "zero: expected a number above 0, found 0");
    SAYS(qk__read_real(&root, "below", 0, DBL_MAX, &real, err), QK_ERR_MALFORMED,
         "below: expected a number, at least 0, found -1");
    assert_int_equal(qk__read_list(&root, "list", 2, &found, NULL), QK_OK);
    assert_int_equal(qk__node_count(&found), 2);
    assert_ptr_equal(qk__node_json(&found), json_object_get(json, "list"));
    assert_int_equal(qk__read_list(&root, "null", 2, &found, NULL), QK_OK);
    assert_false(qk__node_is_given(&found));
    SAYS(qk__read_list(&root, "list", 3, &found, err), QK_ERR_MALFORMED,
         "list: expected a list of at least 3, found 2");
    SAYS(qk__read_text(&root, "cut", &text, err), QK_ERR_UNSUPPORTED,
         "cut: expected a text, found a text with U+0000");
    assert_null(text);
    assert_int_equal(qk__need_text(&root, "text", &text, NULL), QK_OK);
    assert_string_equal(text, "ab");
    assert_int_equal(qk__need_bool(&root, "no", &yes, NULL), QK_OK);
    assert_false(yes);
    SAYS(qk__need_bool(&root, "null", &yes, err), QK_ERR_MALFORMED,
         "null: expected a value, found null");
    SAYS(qk__need_text(&root, "absent", &text, err), QK_ERR_MALFORMED, "absent: missing");
    SAYS(qk__need_kind(&root, "list", QK__OBJECT, &found, err), QK_ERR_MALFORMED,
         "list: expected an object, found a list");
    assert_int_equal(qk__node_kind_in(&root, "null"), QK__NULL);
    assert_int_equal(qk__node_kind_in(&root, "absent"), QK__NOTHING);
    json_decref(json);
}

/* ---- tables ----------------------------------------------------------------------------- */

typedef struct target {
    const char *name;
    int layers;
    bool on;
    int64_t seed;
} target;

static qk_status take_twice(void *place, const qk__node *value, const qk__key *key,
                            qk_error *err)
{
    int *layers = &((target *)place)->layers;
    QK_TRY(qk__read_int(value, NULL, 0, 100, layers, err));
    *layers *= *(const int *)key->data;
    return QK_OK;
}

static const int TWO = 2;

#define AT(field) .at = offsetof(target, field)
static const qk__key KEYS[] = {
    {"data.name", QK__KEY_TEXT, AT(name)},
    {"data.title", QK__KEY_TEXT, AT(name)},
    {"data.layers", QK__KEY_INT, AT(layers), .whole = {1, 64}},
    {"data.twice", QK__KEY_READ, .read = take_twice, .data = &TWO},
    {"data.seed", QK__KEY_INT64, AT(seed), .whole = {INT64_MIN, INT64_MAX}},
    {"on", QK__KEY_BOOL, AT(on)},
    {"of_one_capture", QK__KEY_BOOL, AT(on), .only = 2},
    {"device", .type = QK__KEY_IGNORED},
};

static qk_status read_keys(const char *text, target *to, qk_error *err)
{
    qk__tree *tree;
    qk__keys keys = QK__KEYS(KEYS);
    keys.hidden = 2;
    QK_TRY(qk__tree_parse(&tree, text, strlen(text), err));
    qk__node root = qk__tree_root(tree);
    qk_status status = qk__read_keys(&root, keys, to, err);
    if (status == QK_OK) {
        assert_int_equal(qk__tree_num_notes(tree), 1);
        assert_string_equal(qk__tree_get_note(tree, 0), "device: cuda has no effect");
    }
    qk__tree_free(&tree);
    return status;
}

#define ALL "data: {title: &n x, layers: 7, seed: -3, name: *n}\non: yes\ndevice: cuda\n"

static void test_keys(void **state)
{
    (void)state;
    target to = {0};
    assert_int_equal(read_keys(ALL, &to, NULL), QK_OK);
    assert_true(to.layers == 7 && to.seed == -3 && to.on);
    assert_int_equal(read_keys("data: {twice: 8}\ndevice: cuda\n", &to, NULL), QK_OK);
    assert_int_equal(to.layers, 16);
    SAYS(read_keys("data:\n  layer: 7\n", &to, err), QK_ERR_ARGUMENT,
         "line 2: unknown key data.layer (did you mean data.layers?)");
    SAYS(read_keys("of_one_capture: 1\n", &to, err), QK_ERR_ARGUMENT,
         "line 1: unknown key of_one_capture");
    SAYS(read_keys("on: yes\n\non:\n  1\n", &to, err), QK_ERR_ARGUMENT,
         "line 3: on is given twice");
    SAYS(read_keys("data:\n  layers:\n    65\n", &to, err), QK_ERR_ARGUMENT,
         "line 3: data.layers: expected a whole number from 1 to 64, found \"65\"");
    SAYS(read_keys("data: 7\n", &to, err), QK_ERR_ARGUMENT,
         "line 1: data: expected keys and values, found \"7\"");
}

/* ---- what aliases may do, and memory ---------------------------------------------------- */

static void test_aliases(void **state)
{
    (void)state;
    char *text;
    qk__tree *tree = parse("a: &x 1\nb: *x\nc: &x 2\nd: *x\ne: &l [1, *l]\n");
    qk__node root = qk__tree_root(tree), b = qk__node_member(&root, "b");
    qk__node e = qk__node_member(&root, "e");
    int value = 0;
    assert_int_equal(qk__read_int(&b, NULL, 0, 9, &value, NULL), QK_OK);
    assert_int_equal(value, 1);
    assert_int_equal(qk__read_int(&root, "d", 0, 9, &value, NULL), QK_OK);
    assert_int_equal(value, 2);
    SAYS(qk__node_to_json(&e, &text, err), QK_ERR_ARGUMENT, "line 5: e: cannot be put as JSON");
    assert_null(text);
    qk__tree_free(&tree);
    SAYS(qk__tree_parse(&tree, "a: *b\n", 6, err), QK_ERR_ARGUMENT,
         "line 1: no anchor b before *b");
    assert_null(tree);
}

static void test_as_json(void **state)
{
    (void)state;
    char *text;
    qk__tree *tree = parse("{a: [1, '1', 1.5, 1e3, true, no, ~, x y, 007], b: {c: {}}}");
    qk__node root = qk__tree_root(tree);
    assert_int_equal(qk__node_to_json(&root, &text, NULL), QK_OK);
    assert_string_equal(text, "{\"a\":[1,\"1\",1.5,1000.0,true,\"no\",null,\"x y\",7],"
                              "\"b\":{\"c\":{}}}");
    free(text);
    qk__tree_free(&tree);
}

static void test_memory(void **state)
{
    (void)state;
    long tried = 0;
    for (bool more = true; more; tried++) {
        target to = {0};
        qk_error err = {0};
        remaining = tried;
        qk_status status = read_keys(ALL, &to, &err);
        more = remaining < 0;
        remaining = -1;
        assert_int_equal(status, more ? QK_ERR_NOMEM : QK_OK);
        if (more)
            assert_string_equal(err.message, "out of memory");
    }
    assert_true(tried > 20);
    qk__tree *tree = parse("{a: [1, b], c: 2.5}");
    qk__node root = qk__tree_root(tree);
    tried = 0;
    for (bool more = true; more; tried++) {
        char *text;
        remaining = tried;
        qk_status status = qk__node_to_json(&root, &text, NULL);
        more = remaining < 0;
        remaining = -1;
        assert_int_equal(status, more ? QK_ERR_NOMEM : QK_OK);
        assert_int_equal(!text, more);
        free(text);
    }
    assert_true(tried > 5);
    qk__tree_free(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),     cmocka_unit_test(test_wrong_yaml),
        cmocka_unit_test(test_wrong_json), cmocka_unit_test(test_needs),
        cmocka_unit_test(test_keys),       cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_as_json),    cmocka_unit_test(test_memory),
    };
    json_set_alloc_funcs(__wrap_malloc, free); /* jansson is not linked with --wrap */
    return cmocka_run_group_tests_name("tree", tests, NULL, NULL);
}
