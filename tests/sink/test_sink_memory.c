/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that fails at any moment between opening a sink and finishing it: nothing is lost, nothing
 * leaks, and the same run ends in the same bytes. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "tests/unit.h"

#include <ftw.h>
#include <string.h>

#include <jansson.h>

#include "tests/base/tree.h"
#include "tests/failing_memory.h"
#include "tests/sink/whole_run.h"

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

/* ---- what a folder holds ---------------------------------------------------------------- */

static uint64_t hash;
static size_t files, root;

static int add_file(const char *path, const struct stat *st, int type, struct FTW *place)
{
    (void)st;
    (void)place;
    if (type != FTW_F)
        return 0;
    uint64_t one = UINT64_C(14695981039346656037);
    for (const char *c = path + root; *c; c++)
        one = (one ^ (unsigned char)*c) * UINT64_C(1099511628211);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    for (int c; (c = fgetc(file)) != EOF;)
        one = (one ^ (unsigned char)c) * UINT64_C(1099511628211);
    fclose(file);
    hash += made_mix(one); /* in whatever order they are listed */
    files++;
    return 0;
}

static uint64_t hash_of(const char *folder)
{
    hash = 0;
    files = 0;
    root = strlen(folder);
    assert_int_equal(nftw(folder, add_file, 16, FTW_PHYS), 0);
    return hash;
}

/* ---- runs ------------------------------------------------------------------------------- */

static bool by_sums;

static void settings(qk_sink_settings *s, const char *output, const char *keep)
{
    qk_error err;
    made_settings(s, output, 3);
    s->sampler.max_rows = by_sums ? 0 : 270; /* two chunks */
    s->num_layers = 2;
    assert_int_equal(qk_keep_parse(keep, &s->keep, &err), QK_OK);
    s->run = "{\"texts\": \"made up\"}";
    s->extra_json = "{\"note\": [1, 2]}";
}

static qk_status put_layer(qk_sink *sink, int64_t text, int layer, qk_error *err)
{
    if (!by_sums)
        return made_put_layer(sink, text, layer, err);
    qk_status status = made_put_sums(sink, text, layer, QK_QUERY, Q_HEADS, err);
    return status == QK_OK ? made_put_sums(sink, text, layer, QK_KEY, K_HEADS, err) : status;
}

static qk_status run(const qk_sink_settings *s, qk_error *err)
{
    qk_sink *sink;
    qk_sink_outcome outcome;
    qk_status status = qk_sink_open(&sink, s, err);
    for (int64_t i = 0; status == QK_OK && i < s->num_texts; i++) {
        if (!qk_sink_wants(sink, i))
            continue;
        status = made_begin(sink, i, err);
        for (int layer = 0; status == QK_OK && layer < s->num_layers; layer++)
            status = put_layer(sink, i, layer, err);
        if (status == QK_OK)
            status = qk_sink_text_done(sink, i, err);
    }
    if (status == QK_OK)
        return qk_sink_finish(&sink, &outcome, err);
    qk_sink_close(&sink);
    return status;
}

static void check(const char *keep, qk_layout layout, qk_rope_stage stage)
{
    char whole[512], output[544];
    qk_error err = {0};
    qk_sink_settings s;
    snprintf(whole, sizeof whole, "%s", tree_path("whole"));
    settings(&s, whole, keep);
    s.layout = layout;
    s.stage = stage;
    assert_int_equal(run(&s, &err), QK_OK);
    uint64_t right = hash_of(whole);
    size_t right_files = files;
    assert_true(files > 3);
    long i = 0;
    for (bool all = false; !all; i = next_failure(i, tier_is("test") ? 25 : 1)) {
        snprintf(output, sizeof output, "%s-%ld", whole, i);
        s.output = output;
        err = (qk_error){0};
        remaining = i;
        qk_status status = run(&s, &err);
        all = remaining >= 0;
        remaining = -1;
        if (status != QK_OK && status != QK_ERR_NOMEM)
            print_error("allocation %ld: %s\n", i, err.message);
        assert_true(status == QK_OK || status == QK_ERR_NOMEM);
        /* All of it, unless the memory that failed could be done without. */
        if (status != QK_OK && (i % 3 == 0 || i < 60)) {
            qk_status again = run(&s, &err);
            if (again != QK_OK)
                print_error("allocation %ld, again: %s\n", i, err.message);
            assert_int_equal(again, QK_OK);
            status = again;
        }
        /* What could not be removed for lack of memory is removed by the next run. */
        if (status == QK_OK && (hash_of(output) != right || files != right_files))
            assert_int_equal(run(&s, &err), QK_OK);
        if (status == QK_OK && (hash_of(output) != right || files != right_files))
            fail_msg("allocation %ld: %zu files in %s, %zu in %s", i, files, output,
                     right_files, whole);
        tree_remove(output);
    }
    print_message("%s: %ld allocations\n", keep, i);
    assert_true(i > 100);
    tree_remove(whole);
}

static void rows(void **state)
{
    (void)state;
    check("rows", QK_LAYOUT_HEADS, QK_ROPE_AFTER);
}

static void moments(void **state)
{
    (void)state;
    check("moments,reservoir=2", QK_LAYOUT_PACKED, QK_ROPE_AFTER);
}

static void sums(void **state)
{
    (void)state;
    by_sums = true;
    check("moments", QK_LAYOUT_HEADS, QK_ROPE_AFTER);
    by_sums = false;
}

int main(void)
{
    json_set_alloc_funcs(__wrap_malloc, free);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows, tree_setup_in_memory, tree_teardown),
        cmocka_unit_test_setup_teardown(moments, tree_setup_in_memory, tree_teardown),
        cmocka_unit_test_setup_teardown(sums, tree_setup_in_memory, tree_teardown)};
    return cmocka_run_group_tests_name("sink_memory", tests, NULL, NULL);
}
