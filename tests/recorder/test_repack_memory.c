/* SPDX-License-Identifier: Apache-2.0 */
/* Repacking when memory runs out at any moment: it is reported as such, and nothing is left. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "tests/unit.h"

#include <jansson.h>

#include <qkscope/recorder.h>

#include "base/buffer.h"
#include "base/file.h"
#include "tests/base/tree.h"
#include "tests/failing_memory.h"

static void make_capture(const char *folder, qk_layout layout)
{
    qk_error err;
    qk_synth_settings s;
    qk_synth_settings_default(&s);
    s.layers = 1;
    s.query_heads = s.group = 2;
    s.dim = 4;
    s.examples = 2;
    s.rows_per_example = 8;
    s.buckets = 2;
    s.rope_planes = 1;
    s.strings = true;
    s.context.threads = 1;
    s.layout = layout;
    assert_int_equal(qk_synth_write(&s, tree_path(folder), &err), QK_OK);
}

static qk_status repack(const char *source, const char *output, qk_layout layout, qk_error *err)
{
    char from[512], to[512];
    qk_repack_settings s;
    qk_repack_outcome outcome;
    qk_repack_settings_default(&s);
    snprintf(from, sizeof from, "%s", tree_path(source));
    snprintf(to, sizeof to, "%s", tree_path(output));
    s.capture = from;
    s.output = to;
    s.layout = layout;
    s.context.threads = 1;
    return qk_capture_repack(&s, &outcome, err);
}

static void expect_same(const char *one, const char *other)
{
    qk__buffer a = {0}, b = {0};
    qk_error err;
    assert_int_equal(qk__read_file(tree_path(one), 1 << 20, &a, &err), QK_OK);
    assert_int_equal(qk__read_file(tree_path(other), 1 << 20, &b, &err), QK_OK);
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    qk__buffer_free(&a);
    qk__buffer_free(&b);
}

/* What is expected in "out" lies in the other folder. */
static void fails_anywhere(const char *source, const char *other, qk_layout layout,
                           const char *const files[])
{
    long failures = 0;
    for (bool more = true; more; failures += more) {
        qk_error err = {0};
        remaining = failures;
        qk_status status = repack(source, "out", layout, &err);
        more = remaining < 0;
        remaining = -1;
        if (status == QK_OK) {
            for (int i = 0; files[i]; i++) {
                char one[64], two[64];
                snprintf(one, sizeof one, "out/%s", files[i]);
                snprintf(two, sizeof two, "%s/%s", other, files[i]);
                expect_same(one, two);
            }
        } else {
            if (status != QK_ERR_NOMEM || !strstr(err.message, "memory"))
                fail_msg("allocation %ld: status %d, %s", failures, (int)status, err.message);
            assert_false(qk__is_there(tree_path("out")));
        }
        tree_remove(tree_path("out"));
        tree_remove(tree_path(".out.repack")); /* to remove it takes memory, too */
    }
    print_message("%ld allocations\n", failures);
    assert_true(failures > 100);
}

static void both_ways(void **state)
{
    (void)state;
    make_capture("heads", QK_LAYOUT_HEADS);
    make_capture("packed", QK_LAYOUT_PACKED);
    fails_anywhere("heads", "packed", QK_LAYOUT_PACKED,
                   (const char *const[]){"capture.json", "README.md", "truth.json",
                                         "l00q/data.parquet", "l00k/data.parquet", NULL});
    fails_anywhere("packed", "heads", QK_LAYOUT_HEADS,
                   (const char *const[]){"capture.json", "README.md", "truth.json",
                                         "l00h00q/data.parquet", "l00h01q/data.parquet",
                                         "l00h00k/data.parquet", NULL});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_ways)};
    json_set_alloc_funcs(__wrap_malloc, free); /* jansson is not linked with --wrap */
    return cmocka_run_group_tests_name("repack_memory", tests, tree_setup_in_memory,
                                       tree_teardown);
}
