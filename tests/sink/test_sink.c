/* SPDX-License-Identifier: Apache-2.0 */
/* A sink from its settings to the finished capture: texts that are missing, types of numbers, settings, other
 * runs in its folder. What it makes is looked at in Python. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "tests/unit.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include <qkscope/stats.h>

#include "tests/half.h"
#include "tests/sink/sink_checks.h"

/* ---- the whole -------------------------------------------------------------------------- */

static void texts_missing(void **state)
{
    (void)state;
    qk_error err;
    qk_sink_settings s;
    qk_sink_outcome outcome;
    made_settings(&s, output, 8);
    qk_sink *sink = open_sink(&s);
    assert_int_equal(qk_sink_block(sink, 7), 7);
    assert_int_equal(qk_sink_block(sink, 8), -1);
    for (int64_t i = 7; i > 2; i--)
        assert_int_equal(made_run(sink, i, &err), QK_OK);
    check_says(qk_sink_finish(&sink, &outcome, &err), QK_ERR_INCONSISTENT, &err,
               "3 texts from number 0 on were not put");
    assert_null(sink);
    sink = open_sink(&s);
    int64_t tokens;
    assert_int_equal(qk_sink_texts_before(sink, &tokens), 5);
    assert_int_equal(tokens, 700 + 40 + 256 + 513 + 7);
    assert_true(qk_sink_wants(sink, 2));
    assert_false(qk_sink_wants(sink, 3) || qk_sink_wants(sink, 8) || qk_sink_wants(sink, -1));
    qk_sink_close(&sink);
    check_goes_on(&s);
    sink = open_sink(&s);
    assert_true(qk_sink_is_complete(sink));
    assert_false(qk_sink_wants(sink, 2));
    assert_int_equal(qk_sink_finish(&sink, &outcome, &err), QK_OK);
    assert_true(outcome.complete);
}

static void nothing_kept(void **state)
{
    (void)state;
    qk_error err;
    qk_sink_settings s;
    qk_sink_outcome outcome;
    struct stat st;
    for (int64_t texts = 0; texts < 3; texts++) { /* of which the first is empty */
        made_settings(&s, output, texts ? 1 : 0);
        qk_sink *sink = open_sink(&s);
        for (int64_t i = 0; i < s.num_texts; i++) {
            assert_int_equal(qk_sink_begin(sink, &(qk_sink_text){.number = i}, &err), QK_OK);
            assert_int_equal(qk_sink_text_done(sink, i, &err), QK_OK);
        }
        check_says(qk_sink_finish(&sink, &outcome, &err), QK_ERR_DEGENERATE, &err,
                   "no position was kept");
        assert_int_not_equal(stat(output, &st), 0);
    }
}

static void positions_known_before(void **state)
{
    (void)state;
    qk_error err;
    qk_sink_settings s;
    made_settings(&s, output, 8);
    s.sampler.type = QK_SAMPLER_UNIFORM;
    s.sampler.base_rate = 20;
    s.sampler.max_rows = 40;
    qk_sink *sink = open_sink(&s);
    int64_t *list, *sampled;
    size_t count, num_sampled;
    assert_int_equal(qk_sink_positions(sink, 0, 0, QK_QUERY, &list, &count, &err),
                     QK_ERR_ARGUMENT);
    assert_int_equal(made_begin(sink, 0, &err), QK_OK);
    assert_int_equal(qk_sink_positions(sink, 0, 0, QK_QUERY, &list, &count, &err), QK_OK);
    assert_int_equal(qk_sampler_positions(&s.sampler, made_example(0), 0, QK_QUERY, 0, 300,
                                          &sampled, &num_sampled, &err),
                     QK_OK);
    assert_true(count == num_sampled && count == 40);
    for (size_t i = 0; i < count; i++) {
        bool found = false; /* the sampler's are not in order */
        for (size_t j = 0; j < count; j++)
            found |= sampled[j] == list[i];
        assert_true(found && (i == 0 || list[i] > list[i - 1]));
    }
    free(list);
    free(sampled);
    assert_int_equal(qk_sink_positions(sink, 0, 1, QK_KEY, &list, &count, &err),
                     QK_OK); /* no head */
    assert_true(list == NULL && count == 0);
    assert_int_equal(qk_sink_positions(sink, 0, 3, QK_KEY, &list, &count, &err),
                     QK_ERR_ARGUMENT);
    qk_sink_close(&sink);
}

/* Rows that are not kept, or heads that are not captured, may come at any time, also when a chunk of
 * those that are kept is complete, or is being summed. */
static void others_are_passed_over(void **state)
{
    (void)state;
    qk_error err;
    qk_sink_settings s;
    qk_sink_outcome outcome;
    made_settings(&s, output, 4);
    s.keep = (qk_keep){.moments = true};
    s.sampler.max_rows = 300;
    qk_sink *sink = open_sink(&s);
    for (int64_t i = 0; i < 3; i++)
        assert_int_equal(made_run(sink, i, &err), QK_OK);
    assert_int_equal(made_begin(sink, 3, &err), QK_OK);
    for (int layer = 0; layer < LAYERS; layer++)
        for (int kind = QK_QUERY; kind <= QK_KEY; kind++)
            for (int64_t first = 0; first < 700; first += 350)
                for (int head = kind == QK_QUERY ? Q_HEADS : K_HEADS; head-- > 0;)
                    assert_int_equal(made_put(sink, 3, layer, (qk_kind)kind, (int[]){head}, 1,
                                              first, 350, &err),
                                     QK_OK);
    assert_int_equal(qk_sink_text_done(sink, 3, &err), QK_OK);
    assert_int_equal(qk_sink_finish(&sink, &outcome, &err), QK_OK);
    assert_true(outcome.complete && outcome.rows == 0);
    assert_int_equal(outcome.summed, (300 + 1 + 300) * 11);
}

typedef struct putter {
    qk_sink *sink;
    int64_t first;
    qk_status status;
} putter;

static void *put_unkept(void *context)
{
    putter *p = context;
    qk_error err;
    for (int i = 0; p->status == QK_OK && i < 200; i++)
        p->status = made_put(p->sink, 0, 0, QK_QUERY, NULL, Q_HEADS, p->first, 2, &err);
    return NULL;
}

static void others_beside_the_last(void **state)
{
    (void)state;
    qk_error err;
    qk_sink_settings s;
    made_settings(&s, output, 8);
    s.sampler.max_rows = 1;
    qk_sink *sink = open_sink(&s);
    int64_t *list;
    size_t count;
    assert_int_equal(made_begin(sink, 0, &err), QK_OK);
    assert_int_equal(qk_sink_positions(sink, 0, 0, QK_QUERY, &list, &count, &err), QK_OK);
    assert_int_equal(count, 1);
    putter p = {sink, list[0] < 100 ? 200 : 20, QK_OK};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, put_unkept, &p), 0);
    const float data[Q_HEADS * DIM] = {1};
    const qk_sink_rows rows = {
        .num_heads = Q_HEADS, .positions = list, .rows = 1, .data = data};
    assert_int_equal(qk_sink_put(sink, &rows, &err), QK_OK);
    pthread_join(thread, NULL);
    assert_int_equal(p.status, QK_OK);
    free(list);
    qk_sink_close(&sink);
}

/* ---- types ------------------------------------------------------------------------------ */

static float value_of(qk_number_type type, unsigned bits)
{
    uint32_t wide = (uint32_t)bits << 16; /* a bfloat16 is the first half of a float */
    float value;
    memcpy(&value, &wide, sizeof value);
    return type == QK_FLOAT16 ? (float)half_value(bits) : value;
}

/* All numbers of 16 bits that are finite, in vectors of one head. */
static void every_number_of_16_bits(void **state)
{
    (void)state;
    static uint16_t given[65536 + DIM];
    for (qk_number_type type = QK_FLOAT16; type <= QK_BFLOAT16; type++) {
        qk_error err;
        qk_sink_settings s;
        qk_sink_outcome outcome;
        qk_capture *capture;
        qk_rows *rows;
        qk_block block;
        size_t count = 0, seen = 0;
        memset(given, 0, sizeof given);
        for (unsigned bits = 0; bits < 65536; bits++)
            if (isfinite(value_of(type, bits)))
                given[count++] = (uint16_t)bits;
        int64_t tokens = (int64_t)((count + DIM - 1) / DIM);
        made_settings(&s, output, 1);
        s.force = true;
        qk_sink *sink = open_sink(&s);
        assert_int_equal(qk_sink_begin(sink, &(qk_sink_text){.tokens = tokens}, &err), QK_OK);
        for (int part = 0; part < 2 * LAYERS; part++) {
            static const int all[Q_HEADS] = {0, 1, 2, 3};
            const qk_sink_rows r = {.layer = part / 2,
                                    .kind = (qk_kind)(part % 2),
                                    .heads = all,
                                    .num_heads = part % 2 ? K_HEADS : Q_HEADS,
                                    .rows = (size_t)tokens,
                                    .type = type,
                                    .data = given,
                                    .row_stride = DIM};
            assert_int_equal(qk_sink_put(sink, &r, &err), QK_OK); /* heads alike */
        }
        assert_int_equal(qk_sink_text_done(sink, 0, &err), QK_OK);
        assert_int_equal(qk_sink_finish(&sink, &outcome, &err), QK_OK);
        assert_int_equal(qk_capture_open(&capture, output, NULL, &err), QK_OK);
        const qk_head *head = qk_capture_find(capture, (qk_head_id){2, 3, QK_QUERY});
        assert_int_equal(qk_rows_open(&rows, head, QK_COLUMN_VECTOR, 0, &err), QK_OK);
        while (qk_rows_next(rows, 256, &block, &err) == QK_OK && block.rows > 0)
            for (size_t i = 0; i < block.rows * DIM; i++, seen++) {
                float right = value_of(type, given[seen]);
                assert_memory_equal(&block.f32[i], &right, sizeof right);
            }
        assert_int_equal(seen, (size_t)tokens * DIM);
        qk_rows_close(&rows);
        qk_capture_close(&capture);
    }
}

/* ---- settings --------------------------------------------------------------------------- */

typedef void change_fn(qk_sink_settings *s);

#define CHANGE(name, ...)                                                                      \
    static void name(qk_sink_settings *s)                                                      \
    {                                                                                          \
        __VA_ARGS__;                                                                           \
    }
CHANGE(no_output, s->output = NULL)
CHANGE(empty_output, s->output = "")
CHANGE(no_layers, s->num_layers = 0)
CHANGE(many_layers, s->num_layers = 1 << 30)
CHANGE(odd_heads, s->num_k_heads = 3)
CHANGE(more_keys, s->num_k_heads = 8)
CHANGE(no_dim, s->head_dim = 0)
CHANGE(large_dim, s->head_dim = QK_MAX_DIM + 1)
CHANGE(no_keep, s->keep = (qk_keep){.groups = 0})
CHANGE(rows_and_reservoir, s->keep = (qk_keep){.rows = true, .moments = true, .reservoir = 3})
CHANGE(reservoir_alone, s->keep = (qk_keep){.reservoir = 3})
CHANGE(negative_reservoir, s->keep = (qk_keep){.moments = true, .reservoir = -1})
CHANGE(first_of_rows, s->keep = (qk_keep){.rows = true, .first = 4})
CHANGE(negative_first, s->keep = (qk_keep){.moments = true, .first = -1})
CHANGE(many_first, s->keep = (qk_keep){.moments = true, .first = 17})
CHANGE(one_group, s->keep.groups = 1)
CHANGE(many_groups, s->keep.groups = 65)
CHANGE(negative_texts, s->num_texts = -1)
CHANGE(many_texts, s->num_texts = INT64_MAX)
CHANGE(negative_tokens, s->num_tokens = -1)
CHANGE(no_shard, s->shard = (qk_shard){.index = 3, .count = 3})
CHANGE(negative_shard, s->shard = (qk_shard){.index = -1, .count = 3})
CHANGE(odd_stage, s->stage = (qk_rope_stage)9)
CHANGE(odd_layout, s->layout = (qk_layout)9)
CHANGE(no_rate, s->sampler.base_rate = 0)
CHANGE(no_number, s->sampler.base_rate = NAN)
CHANGE(no_bucket, s->sampler.min_bucket_size = 0)
CHANGE(no_json, s->run = "{")
CHANGE(no_object, s->run = "[1]")
CHANGE(no_extra_object, s->extra_json = "[1]")
CHANGE(unreadable_extra, s->extra_json = "{\"rope_frequencies\": \"x\"}")
CHANGE(changing_extra, s->extra_json = "{\"changing\": true}")

/* Of all layers these. */
static void turn_by(qk_sink_settings *s, const double *values, size_t count)
{
    static qk_frequencies rotation[LAYERS];
    for (int l = 0; l < LAYERS; l++)
        rotation[l] = (qk_frequencies){values, count};
    s->frequencies = rotation;
}
CHANGE(backwards, static const double f[] = {-1}; turn_by(s, f, 1))
CHANGE(endless, static const double f[] = {INFINITY}; turn_by(s, f, 1))
CHANGE(nameless, static const double f[] = {1, 1, NAN}; turn_by(s, f, 3))
CHANGE(many_pairs, static const double f[] = {1, 1, 1, 1, 1, 1, 1}; turn_by(s, f, 7))
CHANGE(no_heads, static const bool none[LAYERS * Q_HEADS]; s->q_heads = s->k_heads = none)

static void settings_out_of_range(void **state)
{
    (void)state;
    static const struct {
        change_fn *change;
        const char *words;
    } wrong[] = {
        {no_output, "no output folder"},
        {empty_output, "no output folder"},
        {no_layers, "no model has 0 layers"},
        {many_layers, "no model has"},
        {odd_heads, "of 4 query and 3 key heads"},
        {more_keys, "of 4 query and 8 key heads"},
        {no_dim, "head dimension 0"},
        {large_dim, "head dimension"},
        {no_keep, "neither rows nor moments"},
        {rows_and_reservoir, "a reservoir goes with moments"},
        {reservoir_alone, "neither rows nor moments"},
        {negative_reservoir, "a reservoir goes with moments"},
        {first_of_rows, "4 first positions apart"},
        {negative_first, "-1 first positions apart"},
        {many_first, "17 first positions apart"},
        {one_group, "1 groups of texts"},
        {many_groups, "65 groups of texts"},
        {negative_texts, "-1 texts"},
        {many_texts, "no such number"},
        {negative_tokens, "-1 tokens"},
        {no_shard, "no shard: 3 of 3"},
        {negative_shard, "no shard: -1 of 3"},
        {odd_stage, "stage or layout"},
        {odd_layout, "stage or layout"},
        {no_rate, "a base rate of 0"},
        {no_number, "a base rate of nan"},
        {no_bucket, "sampler: "},
        {no_json, "run: "},
        {no_object, "run: no JSON object"},
        {no_extra_object, "extra_json: no JSON object"},
        {unreadable_extra, "rope_frequencies: expected a list"},
        {changing_extra, "extra_json: capture.json would not be readable"},
        {backwards, "frequency 0 is -1"},
        {endless, "frequency 0 is inf"},
        {nameless, "frequency 2 is "},
        {many_pairs, "layer 0 has 7 frequencies: vectors of 12 numbers have room for 6"},
        {no_heads, "no head is to be captured"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        qk_error err = {0};
        qk_sink_settings s;
        qk_sink *sink = NULL;
        struct stat st;
        made_settings(&s, output, 8);
        wrong[i].change(&s);
        qk_status status = qk_sink_open(&sink, &s, &err);
        if (status == QK_OK || !strstr(err.message, wrong[i].words))
            print_error("%zu: %s\n", i, err.message);
        assert_int_not_equal(status, QK_OK);
        assert_non_null(strstr(err.message, wrong[i].words));
        assert_null(sink);
        assert_int_not_equal(stat(output, &st), 0); /* nothing is made */
    }
}

/* ---- another run in the folder ---------------------------------------------------------- */

CHANGE(other_model, s->model_name = "another")
CHANGE(other_texts, s->num_texts = 9)
CHANGE(other_groups, s->keep.groups = 8)
CHANGE(other_seed, s->reservoir_seed = 5)
CHANGE(other_window, static const int64_t w[LAYERS] = {0, 256, 0}; s->windows = w)
CHANGE(no_window, s->windows = NULL)
CHANGE(no_rotation, s->frequencies = NULL)
CHANGE(other_rotation, static const qk_frequencies f[LAYERS]; s->frequencies = f)
CHANGE(other_pairs, s->rope_interleaved = true)
CHANGE(other_heads, s->q_heads = NULL)
CHANGE(other_stage, s->stage = QK_ROPE_BEFORE)
CHANGE(other_layout, s->layout = QK_LAYOUT_PACKED)
CHANGE(other_sampler, s->sampler.max_rows = 100)
CHANGE(other_run, s->run = "{\"texts\": \"others\"}")
CHANGE(with_strings, s->token_strings = true)

static void other_settings(void **state)
{
    (void)state;
    static change_fn *const changes[] = {
        other_model, other_texts,  other_groups,   other_seed,  other_window,
        no_window,   no_rotation,  other_rotation, other_pairs, other_heads,
        other_stage, other_layout, other_sampler,  other_run,   with_strings};
    qk_error err;
    qk_sink_settings s, other;
    made_settings(&s, output, 8);
    s.keep = (qk_keep){.moments = true, .reservoir = 2, .groups = 4};
    qk_sink *sink = open_sink(&s), *second;
    assert_int_equal(made_run(sink, 2, &err), QK_OK);
    qk_sink_close(&sink);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        other = s;
        changes[i](&other);
        for (int count = 1; count <= 2; count++) { /* a shard, too */
            other.shard.count = count;
            qk_status status = qk_sink_open(&second, &other, &err);
            if (status != QK_ERR_EXISTS)
                print_error("change %zu\n", i);
            check_says(status, QK_ERR_EXISTS, &err,
                       "holds an unfinished capture of another run");
            assert_null(second);
        }
    }
    check_goes_on(&s);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        other = s;
        changes[i](&other);
        check_says(qk_sink_open(&second, &other, &err), QK_ERR_EXISTS, &err, "");
    }
}

/* In one process, too: a lock is the sink's. */
static void a_second_sink(void **state)
{
    (void)state;
    qk_error err;
    qk_sink_settings s, shard;
    made_settings(&s, output, 8);
    qk_sink *sink = open_sink(&s), *second;
    shard = s;
    shard.shard = (qk_shard){.count = 2};
    for (int i = 0; i < 3; i++) { /* looking does not unlock */
        check_says(qk_sink_open(&second, &s, &err), QK_ERR_EXISTS, &err,
                   "another run is at work in this folder");
        check_says(qk_sink_open(&second, &shard, &err), QK_ERR_EXISTS, &err,
                   "another run is at work in this folder");
    }
    assert_int_equal(made_run(sink, 3, &err), QK_OK);
    qk_sink_close(&sink);
    check_goes_on(&s);
}

static void shards_at_once(void **state)
{
    (void)state;
    qk_error err;
    qk_sink_settings s, other;
    made_settings(&s, output, 8);
    s.shard = (qk_shard){.index = 1, .count = 3};
    qk_sink *sink = open_sink(&s), *second;
    assert_false(qk_sink_wants(sink, 0) || qk_sink_wants(sink, 3));
    assert_true(qk_sink_wants(sink, 1) && qk_sink_wants(sink, 4) && qk_sink_wants(sink, 7));
    other = s;
    other.shard.index = 2;
    other.stage = QK_ROPE_BEFORE;
    check_says(qk_sink_open(&second, &other, &err), QK_ERR_EXISTS, &err, "not the same: stage");
    assert_int_equal(made_run(sink, 4, &err), QK_OK);
    qk_sink_close(&sink);
    sink = open_sink(&s);
    assert_false(qk_sink_wants(sink, 4));
    qk_sink_close(&sink);
    s.shard = (qk_shard){.count = 1};
    check_goes_on(&s);
}

/* What cannot be captured leaves nothing of its own, but all of the others. */
static void shard_that_fails(void **state)
{
    (void)state;
    qk_error err;
    qk_sink_settings s, other;
    made_settings(&s, output, 8);
    other = s;
    s.shard = (qk_shard){.index = 0, .count = 2};
    other.shard = (qk_shard){.index = 1, .count = 2};
    qk_sink *sink = open_sink(&s), *second = open_sink(&other);
    for (int64_t i = 1; i < 8; i += 2)
        assert_int_equal(made_run(second, i, &err), QK_OK);
    assert_int_equal(made_begin(sink, 0, &err), QK_OK);
    assert_int_equal(put_number(sink, NAN, &err), QK_ERR_DEGENERATE);
    qk_sink_close(&sink);
    qk_sink_close(&second);
    second = open_sink(&other);
    for (int64_t i = 1; i < 8; i += 2)
        assert_false(qk_sink_wants(second, i));
    qk_sink_close(&second);
    s.shard = (qk_shard){.count = 1};
    check_goes_on(&s);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, tree_teardown)
    const struct CMUnitTest tests[] = {
        TEST(texts_missing),          TEST(nothing_kept),
        TEST(positions_known_before), TEST(others_are_passed_over),
        TEST(others_beside_the_last), TEST(every_number_of_16_bits),
        TEST(settings_out_of_range),  TEST(other_settings),
        TEST(a_second_sink),          TEST(shards_at_once),
        TEST(shard_that_fails)};
    return cmocka_run_group_tests_name("sink", tests, NULL, NULL);
}
