/* SPDX-License-Identifier: Apache-2.0 */
/* A capture that is stopped while its files are put together: nothing looks whole, and the same
 * run goes on to the same bytes. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "tests/unit.h"

#include <string.h>

#include <qkscope/recorder.h>

#include "base/buffer.h"
#include "base/file.h"
#include "tests/base/tree.h"

static const char *model_path;

/* Where to say no: at the nth question about what. */
typedef struct stop {
    const char *what;
    int nth, asked;
} stop;

static bool go_on(void *user, const qk_progress *at)
{
    stop *s = user;
    return strcmp(at->what, s->what) != 0 || s->asked++ != s->nth;
}

static qk_status capture(const char *output, const char *keep, stop *s, bool *complete)
{
    static const char *const NAMES[] = {"a.txt", "b.txt", "c.txt"};
    char paths[3][512];
    const char *texts[3];
    qk_recorder_settings settings;
    qk_recorder_outcome outcome;
    qk_error err;
    for (int i = 0; i < 3; i++) {
        snprintf(paths[i], sizeof paths[i], "%s", tree_path(NAMES[i]));
        texts[i] = paths[i];
    }
    qk_recorder_settings_default(&settings);
    settings.model = model_path;
    settings.texts = texts;
    settings.num_texts = 3;
    settings.output = output;
    settings.keep = keep;
    settings.context.threads = 1;
    settings.context.progress = go_on;
    settings.context.user = s;
    qk_status status = qk_recorder_run(&settings, &outcome, &err);
    *complete = status == QK_OK && outcome.complete;
    return status;
}

static void check(const char *keep)
{
    char output[512], manifest[600];
    qk__buffer whole = {0}, now = {0};
    qk_error err;
    bool complete;
    stop never = {.what = ""};
    snprintf(output, sizeof output, "%s", tree_path("capture"));
    snprintf(manifest, sizeof manifest, "%s/capture.json", output);
    assert_int_equal(capture(output, keep, &never, &complete), QK_OK);
    assert_int_equal(qk__read_file(manifest, 1 << 20, &whole, &err), QK_OK);
    for (int nth = 0; nth < 3; nth++) {
        stop s = {.what = "files", .nth = nth};
        tree_remove(output);
        qk_status status = capture(output, keep, &s, &complete);
        if (s.asked <= nth) { /* fewer questions */
            assert_int_equal(status, QK_OK);
            assert_true(nth > 0);
            continue;
        }
        assert_int_equal(status, QK_ERR_CANCELLED);
        assert_false(qk__is_file(manifest));
        assert_int_equal(capture(output, keep, &never, &complete), QK_OK);
        assert_true(complete);
        assert_int_equal(qk__read_file(manifest, 1 << 20, &now, &err), QK_OK);
        assert_int_equal(now.size, whole.size);
        assert_memory_equal(now.data, whole.data, whole.size);
        qk__buffer_free(&now);
    }
    qk__buffer_free(&whole);
    tree_remove(output);
}

static void while_files_are_written(void **state)
{
    (void)state;
    tree_add("a.txt", "In the beginning");
    tree_add("b.txt", "was the word, and");
    tree_add("c.txt", "the word was long.");
    check("rows");
    check("rows,moments");
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 1;
    model_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(while_files_are_written, tree_setup, tree_teardown)};
    return cmocka_run_group_tests_name("recorder_stopped", tests, NULL, NULL);
}
