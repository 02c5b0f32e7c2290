/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: any bytes as YAML and as JSON; every value in it is read as everything that it
 * might be, and by a table of keys. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "yaml/tree_keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Aliases make trees without an end. */
enum { MAX_DEPTH = 6, MAX_READ = 5000 };

static int num_read;

static void read_value(const qk__node *node)
{
    static const char *const WORDS[] = {"a", "b", NULL};
    const char *text = "";
    char path[QK__PATH_SIZE];
    qk_error err;
    bool yes;
    int whole = 0, word;
    int64_t wide;
    double real = 0;
    (void)!qk__read_text(node, NULL, &text, &err);
    (void)!qk__read_bool(node, NULL, &yes, &err);
    (void)!qk__read_int64(node, NULL, INT64_MIN, INT64_MAX, &wide, &err);
    (void)!qk__read_word(node, NULL, WORDS, &word, &err);
    if (qk__read_int(node, NULL, -2, 5, &whole, &err) == QK_OK && (whole < -2 || whole > 5))
        abort();
    if (qk__read_real(node, NULL, -1, 1, &real, &err) == QK_OK && !(real >= -1 && real <= 1))
        abort();
    if (strlen(qk__node_path(node, path)) >= sizeof path)
        abort();
}

static void walk(const qk__node *node, int depth)
{
    qk__node member = {0};
    if (depth == MAX_DEPTH || ++num_read > MAX_READ)
        return;
    read_value(node);
    if (qk__node_kind_of(node) == QK__LIST)
        for (size_t i = 0; i < qk__node_count(node) && num_read < MAX_READ; i++) {
            qk__node item = qk__node_item(node, i);
            walk(&item, depth + 1);
        }
    while (num_read < MAX_READ && qk__node_next(node, &member))
        walk(&member, depth + 1);
}

static void read_tree(const qk__node *root)
{
    num_read = 0;
    walk(root, 0);
}

static void read_keys(const qk__node *root)
{
    static const qk__key KEYS[] = {
        {"a.b", QK__KEY_TEXT, .at = 0},
        {"a.c", .type = QK__KEY_IGNORED},
        {"a.data.layers", QK__KEY_IGNORED, .at = 0},
    };
    const char *text;
    qk_error err;
    (void)!qk__read_keys(root, QK__KEYS(KEYS), &text, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *json;
    qk__tree *tree;
    qk_error err;
    char *text;
    if (qk__json_parse(&json, data, size, QK__JSON_LINE, NULL) == QK_OK) {
        qk__node root = qk__tree_of_json(json);
        read_tree(&root);
        json_decref(json);
    }
    if (qk__tree_parse(&tree, data, size, &err) != QK_OK) {
        if (tree || !*err.message)
            abort();
        return 0;
    }
    qk__node root = qk__tree_root(tree);
    read_tree(&root);
    read_keys(&root);
    if (qk__node_to_json(&root, &text, &err) == QK_OK &&
        qk__json_parse(&json, text, strlen(text), QK__JSON_GIVEN, NULL) == QK_OK)
        json_decref(json);
    free(text);
    qk__tree_free(&tree);
    return 0;
}
