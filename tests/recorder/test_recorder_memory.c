/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that runs out at any moment: what a capture says about itself is right or not said. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "tests/unit.h"

#include <jansson.h>

#include <qkscope/loss.h>

#include "base/buffer.h"
#include "base/file.h"
#include "recorder/recording.h"
#include "tests/base/tree.h"
#include "tests/failing_memory.h"

static const char *model_path;

typedef struct fixture {
    qk_recorder_settings settings;
    qk__recording r;
    const char *texts[2];
    int layers[3];
    char text[512];
} fixture;

static void make(fixture *f)
{
    qk_error err;
    *f = (fixture){.layers = {0, 1, 3}};
    tree_add("text.txt", "some words of a text");
    snprintf(f->text, sizeof f->text, "%s", tree_path("text.txt"));
    f->texts[0] = f->text;
    f->texts[1] = "repeat:5x2:2";
    qk_recorder_settings_default(&f->settings);
    f->settings.model = model_path;
    f->settings.texts = f->texts;
    f->settings.num_texts = 2;
    f->settings.output = tree_path("");
    f->settings.layers = (qk_index_list){f->layers, 3};
    f->settings.overrides = "{\"note\": \"\u00e9t\u00e9\"}";
    f->settings.sample_heads = 3;
    qk__recording *r = &f->r;
    *r = (qk__recording){.settings = &f->settings, .max_length = 2000};
    assert_int_equal(qk_model_open(&r->model, model_path, NULL, &err), QK_OK);
    r->facts = qk_model_get_facts(r->model);
    assert_int_equal(qk_tokenizer_open(&r->tokenizer, model_path, &err), QK_OK);
    assert_int_equal(qk_recorder_select(&f->settings, r->facts, &r->selection, &err), QK_OK);
    assert_int_equal(qk__texts_open(&r->texts, &f->settings, &err), QK_OK);
    assert_int_equal(qk__list_drawn(r, &err), QK_OK);
    r->model_name = qk__strdup("mod\u00e8le");
}

static void drop(fixture *f)
{
    qk__texts_close(&f->r.texts);
    qk__buffer_free(&f->r.sequences);
    qk__buffer_free(&f->r.text_ids);
    qk__buffer_free(&f->r.lengths);
    qk__buffer_free(&f->r.drawn);
    qk_recorder_selection_free(&f->r.selection);
    qk_tokenizer_close(&f->r.tokenizer);
    qk_model_close(&f->r.model);
    free(f->r.model_name);
}

/* Runs `function` with the first, the second, ... allocation failing until none does; it is
 * right whenever it says so. Returns how many failed. */
typedef qk_status check_fn(fixture *f, bool first, qk_error *err);

static long each_allocation(fixture *f, check_fn *function)
{
    qk_error err;
    assert_int_equal(function(f, true, &err), QK_OK);
    for (long i = 0;; i++) {
        remaining = i;
        (void)function(f, false, &err);
        bool all = remaining >= 0;
        remaining = -1;
        if (all)
            return i;
    }
}

static void say(const char *what, long failures)
{
    print_message("%s: %ld allocations\n", what, failures);
    assert_true(failures > 10);
}

/* The checks themselves need no memory. */
static void check_text(const char *text, bool first, char *right, size_t size)
{
    assert_true(strlen(text) < size);
    if (first)
        memcpy(right, text, strlen(text) + 1);
    assert_string_equal(text, right);
}

static qk_status identify(fixture *f, bool first, qk_error *err)
{
    static char right[1 << 14];
    char *json = NULL;
    f->r.counts = (qk__survey_counts){0};
    f->r.sequences.size = 0;
    f->r.text_ids.size = f->r.lengths.size = 0;
    qk_status status = qk__survey(&f->r, err);
    if (status == QK_OK)
        status = qk__identify(&f->r, &json, err);
    if (status == QK_OK)
        check_text(json, first, right, sizeof right);
    free(json);
    return status;
}

static qk_status list_drawn(fixture *f, bool first, qk_error *err)
{
    qk__buffer right = f->r.drawn;
    f->r.drawn = (qk__buffer){0};
    qk_status status = qk__list_drawn(&f->r, err);
    if (status == QK_OK) {
        assert_int_equal(f->r.drawn.size, right.size);
        assert_memory_equal(f->r.drawn.data, right.data, right.size);
    }
    (void)first;
    qk__buffer_free(&f->r.drawn);
    f->r.drawn = right;
    return status;
}

static qk_status describe(fixture *f, bool first, qk_error *err)
{
    static char right[1 << 17];
    char *json = NULL, *card = NULL;
    f->r.counts.cut = 1;
    f->r.counts.empty = 2;
    qk_status status = qk__describe_capture(&f->r, &json, &card, err);
    if (status == QK_OK)
        check_text(json, first, right, sizeof right);
    free(json);
    free(card);
    return status;
}

/* Texts, model and run: whatever was not there is said, and nothing is left. */
static void losses_or_none(void **state)
{
    (void)state;
    fixture f;
    qk_error err;
    qk_losses *right, *found;
    make(&f);
    f.settings.context.threads = 1;
    assert_int_equal(qk_loss_run(&f.settings, &right, &err), QK_OK);
    long i = 0;
    for (bool all = false; !all; i += 1 + i / 16) { /* the first ones are those of its own */
        remaining = i;
        qk_status status = qk_loss_run(&f.settings, &found, &err);
        all = remaining >= 0;
        remaining = -1;
        assert_int_equal(status == QK_OK, found != NULL);
        if (found)
            assert_true(found->loss == right->loss && found->num_texts == right->num_texts);
        else
            assert_int_equal(status, QK_ERR_NOMEM);
        qk_losses_free(&found);
    }
    say("losses", i);
    qk_losses_free(&right);
    drop(&f);
}

static void right_or_not_said(void **state)
{
    (void)state;
    fixture f;
    qk_error err;
    make(&f);
    say("identity", each_allocation(&f, identify));
    assert_int_equal(identify(&f, false, &err), QK_OK);
    assert_true(each_allocation(&f, list_drawn) > 0);
    say("manifest", each_allocation(&f, describe));
    drop(&f);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 1;
    model_path = argv[1];
    json_set_alloc_funcs(__wrap_malloc, free);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(right_or_not_said, tree_setup_in_memory, tree_teardown),
        cmocka_unit_test_setup_teardown(losses_or_none, tree_setup_in_memory, tree_teardown)};
    return cmocka_run_group_tests_name("record_memory", tests, NULL, NULL);
}
