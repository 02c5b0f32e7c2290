/* SPDX-License-Identifier: Apache-2.0 */
/* Rows and sums that a sink must not take: it says what is wrong, and the same open goes on. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "tests/unit.h"

#include <math.h>

#include "tests/sink/sink_checks.h"

/* ---- rows ------------------------------------------------------------------------------- */

typedef qk_status misuse_fn(qk_sink *sink, qk_error *err);

static qk_status twice(qk_sink *sink, qk_error *err)
{
    assert_int_equal(made_put(sink, 0, 0, QK_QUERY, NULL, Q_HEADS, 0, 100, err), QK_OK);
    return made_put(sink, 0, 0, QK_QUERY, (int[]){2}, 1, 99, 3, err);
}

static qk_status head_twice_at_once(qk_sink *sink, qk_error *err)
{
    return made_put(sink, 0, 0, QK_KEY, (int[]){1, 1}, 2, 0, 3, err);
}

/* When all of a layer was there, and nothing of it is in memory. */
static qk_status late(qk_sink *sink, qk_error *err)
{
    assert_int_equal(made_put_layer(sink, 0, 2, err), QK_OK);
    /* of heads that are not captured */
    assert_int_equal(made_put(sink, 0, 2, QK_QUERY, NULL, 2, 0, 300, err), QK_OK);
    return made_put(sink, 0, 2, QK_KEY, NULL, 1, 299, 1, err);
}

static qk_status no_such_head(qk_sink *sink, qk_error *err)
{
    return made_put(sink, 0, 0, QK_KEY, (int[]){K_HEADS}, 1, 0, 3, err);
}

static qk_status negative_head(qk_sink *sink, qk_error *err)
{
    return made_put(sink, 0, 0, QK_QUERY, (int[]){-1}, 1, 0, 3, err);
}

static qk_status no_such_layer(qk_sink *sink, qk_error *err)
{
    return made_put(sink, 0, LAYERS, QK_KEY, NULL, 1, 0, 3, err);
}

static qk_status no_such_position(qk_sink *sink, qk_error *err)
{
    return made_put(sink, 0, 0, QK_KEY, NULL, 1, 299, 2, err);
}

static qk_status negative_position(qk_sink *sink, qk_error *err)
{
    return made_put(sink, 0, 0, QK_KEY, NULL, 1, -1, 2, err);
}

static qk_status position_that_overflows(qk_sink *sink, qk_error *err)
{
    const qk_sink_rows rows = {
        .num_heads = 1, .first_position = 299, .rows = SIZE_MAX / 2, .data = ""};
    return qk_sink_put(sink, &rows, err);
}

static qk_status put_positions(qk_sink *sink, const int64_t *positions, qk_error *err)
{
    static const float data[3 * DIM];
    const qk_sink_rows rows = {.num_heads = 1, .positions = positions, .rows = 3, .data = data};
    return qk_sink_put(sink, &rows, err);
}

static qk_status positions_that_fall(qk_sink *sink, qk_error *err)
{
    return put_positions(sink, (int64_t[]){1, 5, 4}, err);
}

static qk_status position_twice(qk_sink *sink, qk_error *err)
{
    return put_positions(sink, (int64_t[]){1, 5, 5}, err);
}

static qk_status no_such_text(qk_sink *sink, qk_error *err)
{
    return made_put(sink, 1, 0, QK_KEY, NULL, 1, 0, 0, err);
}

static qk_status no_such_kind(qk_sink *sink, qk_error *err)
{
    return made_put(sink, 0, 0, (qk_kind)7, NULL, 1, 0, 1, err);
}

static qk_status no_data(qk_sink *sink, qk_error *err)
{
    return qk_sink_put(sink, &(qk_sink_rows){.num_heads = 1, .rows = 1}, err);
}

static qk_status not_a_number(qk_sink *sink, qk_error *err)
{
    return put_number(sink, NAN, err);
}

static qk_status infinite(qk_sink *sink, qk_error *err)
{
    return put_number(sink, -INFINITY, err);
}

static qk_status infinite_half(qk_sink *sink, qk_error *err)
{
    uint16_t data[DIM] = {[4] = 0x7c00};
    const qk_sink_rows rows = {.num_heads = 1, .rows = 1, .type = QK_FLOAT16, .data = data};
    return qk_sink_put(sink, &rows, err);
}

static qk_status rows_missing(qk_sink *sink, qk_error *err)
{
    assert_int_equal(made_put_layer(sink, 0, 0, err), QK_OK);
    assert_int_equal(made_put(sink, 0, 1, QK_QUERY, NULL, Q_HEADS, 1, 299, err), QK_OK);
    return qk_sink_text_done(sink, 0, err);
}

static qk_status begun_twice(qk_sink *sink, qk_error *err)
{
    return made_begin(sink, 0, err);
}

static qk_status begun_again(qk_sink *sink, qk_error *err)
{
    for (int layer = 0; layer < LAYERS; layer++)
        assert_int_equal(made_put_layer(sink, 0, layer, err), QK_OK);
    assert_int_equal(qk_sink_text_done(sink, 0, err), QK_OK);
    return made_begin(sink, 0, err);
}

static qk_status done_twice(qk_sink *sink, qk_error *err)
{
    assert_int_equal(made_begin(sink, 1, err), QK_OK);
    assert_int_equal(qk_sink_text_done(sink, 1, err), QK_OK);
    return qk_sink_text_done(sink, 1, err);
}

static qk_status too_many_texts(qk_sink *sink, qk_error *err)
{
    return made_begin(sink, 8, err);
}

static qk_status of_another_shard(qk_sink *sink, qk_error *err)
{
    return made_begin(sink, 7, err);
}

static const struct misuse {
    misuse_fn *function;
    qk_status status;
    const char *words;
} misuses[] = {
    {twice, QK_ERR_ARGUMENT,
     "layer 0, query head 2: the vector at position 99 of text 0 came twice"},
    {head_twice_at_once, QK_ERR_ARGUMENT, "layer 0, key head 1: the vector at position 0"},
    {late, QK_ERR_ARGUMENT,
     "layer 2, key head 0: the vector at position 299 of text 0 came twice"},
    {no_such_head, QK_ERR_ARGUMENT, "head 2: the model has 2 of that kind"},
    {negative_head, QK_ERR_ARGUMENT, "head -1: the model has 4 of that kind"},
    {no_such_layer, QK_ERR_ARGUMENT, "layer 3, kind 1: the model has 3"},
    {no_such_kind, QK_ERR_ARGUMENT, "kind 7"},
    {no_such_position, QK_ERR_ARGUMENT, "position 300: text 0 has 300 tokens"},
    {negative_position, QK_ERR_ARGUMENT, "position -1: text 0 has 300 tokens"},
    {position_that_overflows, QK_ERR_ARGUMENT, "position 300: text 0 has 300 tokens"},
    {positions_that_fall, QK_ERR_ARGUMENT, "positions do not ascend: 4 after 5"},
    {position_twice, QK_ERR_ARGUMENT, "positions do not ascend: 5 after 5"},
    {no_such_text, QK_ERR_ARGUMENT, "text 1 is not open"},
    {no_data, QK_ERR_ARGUMENT, "rows without data"},
    {not_a_number, QK_ERR_DEGENERATE,
     "layer 1, query head 3: the vector at position 17 of example -4000"},
    {infinite, QK_ERR_DEGENERATE, "layer 1, query head 3"},
    {infinite_half, QK_ERR_DEGENERATE, "layer 0, query head 0"},
    {rows_missing, QK_ERR_INCONSISTENT,
     "layer 1: 598 of 600 vectors of its queries in text 0 came"},
    {begun_twice, QK_ERR_ARGUMENT, "text 0 is begun twice"},
    {begun_again, QK_ERR_ARGUMENT, "text 0 "},
    {done_twice, QK_ERR_ARGUMENT, "text 1 is not open"},
    {too_many_texts, QK_ERR_ARGUMENT, "text 8 with 300 tokens is not wanted"},
    {of_another_shard, QK_ERR_ARGUMENT, "text 7 with 7 tokens is not wanted"},
};

static void misused(const char *keep, int64_t tokens)
{
    for (size_t i = 0; i < sizeof misuses / sizeof *misuses; i++) {
        const struct misuse *m = &misuses[i];
        qk_error err = {0};
        qk_sink_outcome outcome;
        qk_sink_settings s;
        if (m->function == of_another_shard && tokens) /* one block is of one shard */
            continue;
        made_settings(&s, output, 8);
        s.num_tokens = tokens;
        assert_int_equal(qk_keep_parse(keep, &s.keep, &err), QK_OK);
        if (m->function == of_another_shard)
            s.shard = (qk_shard){.index = 0, .count = 2};
        s.force =
            s.shard.count == 1; /* shards do not replace: each would what the others made */
        if (!s.force)
            tree_remove(output);
        qk_sink *sink = open_sink(&s);
        s.force = false;
        int64_t kept = tokens ? 0 : 4; /* of another block; it stays */
        for (int64_t text = kept;
             kept && qk_sink_block(sink, text) == qk_sink_block(sink, kept); text++)
            assert_int_equal(made_run(sink, text, &err), QK_OK);
        assert_int_equal(made_begin(sink, 0, &err), QK_OK);
        check_says(m->function(sink, &err), m->status, &err, m->words);
        /* now it can only be closed */
        assert_int_not_equal(made_put(sink, 0, 0, QK_QUERY, NULL, Q_HEADS, 200, 1, &err),
                             QK_OK);
        assert_int_not_equal(qk_sink_text_done(sink, 0, &err), QK_OK);
        if (i % 2)
            qk_sink_close(&sink);
        else
            check_says(qk_sink_finish(&sink, &outcome, &err), QK_ERR_ARGUMENT, &err, m->words);
        assert_null(sink);
        if (kept) {
            sink = open_sink(&s);
            assert_false(qk_sink_wants(sink, kept));
            qk_sink_close(&sink);
        }
        s.shard = (qk_shard){.count = 1};
        check_goes_on(&s);
    }
}

static void rows_misused(void **state)
{
    (void)state;
    misused("rows", 0);
}

static void moments_misused(void **state)
{
    (void)state;
    misused("moments,reservoir=3", 0);
}

static void one_block_misused(void **state)
{
    (void)state;
    misused("rows,moments", 10);
}

static void texts_of_a_block_in_their_order(void **state)
{
    (void)state;
    qk_error err;
    qk_sink_settings s;
    made_settings(&s, output, 8);
    s.keep = (qk_keep){.moments = true, .groups = 4};
    qk_sink *sink = open_sink(&s);
    assert_int_equal(qk_sink_block(sink, 1), 0);
    assert_int_equal(qk_sink_block(sink, 2), 1);
    for (int64_t i = 6; i >= 4; i -= 2)
        for (int64_t text = i; text < i + 2; text++)
            assert_int_equal(made_run(sink, text, &err), QK_OK);
    check_says(made_begin(sink, 1, &err), QK_ERR_ARGUMENT, &err,
               "text 1 is begun before text 0");
    qk_sink_close(&sink);
    check_goes_on(&s);
}

static void texts_in_the_order_of_their_groups(void **state)
{
    (void)state;
    static const int64_t ids[8] = {0, 1, 2, 3, 4, 5, 6, 7}, others[8] = {7};
    static const int64_t order[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    qk_error err;
    qk_sink_settings s;
    made_settings(&s, output, 8);
    s.keep = (qk_keep){.moments = true, .groups = 2};
    s.text_ids = ids;
    qk_sink *sink = open_sink(&s);
    int64_t next = -1;
    for (int i = 0; i < 8; i++) {
        next = qk_sink_next(sink, next);
        assert_int_equal(next, order[i]);
        assert_int_equal(qk_sink_block(sink, next), i / 4);
    }
    assert_int_equal(qk_sink_next(sink, next), -1);
    assert_int_equal(qk_sink_next(sink, 8), -1);
    for (int i = 4; i < 8; i++)
        assert_int_equal(made_run(sink, order[i], &err), QK_OK);
    check_says(
        made_begin(sink, 2, &err), QK_ERR_ARGUMENT, &err,
        "text 2 is begun before text 0: texts of a block come in the order of qk_sink_next");
    qk_sink_close(&sink);
    s.text_ids = others;
    check_says(qk_sink_open(&sink, &s, &err), QK_ERR_EXISTS, &err, "not the same: text_ids");
    s.text_ids = ids;
    sink = open_sink(&s);
    assert_int_equal(qk_sink_next(sink, -1), 0);
    assert_int_equal(qk_sink_next(sink, 6), -1); /* the others are there */
    qk_sink_close(&sink);
    check_goes_on(&s);
}

/* Two processes with one number, by a mistake: what both make is the same. */
static void one_shard_twice(void **state)
{
    (void)state;
    qk_error err;
    qk_sink_settings s;
    made_settings(&s, output, 8);
    s.shard = (qk_shard){.index = 1, .count = 2};
    qk_sink *first = open_sink(&s), *second = open_sink(&s);
    assert_int_equal(made_begin(first, 1, &err), QK_OK);
    for (int64_t i = 1; i < 8; i += 2)
        assert_int_equal(made_run(second, i, &err), QK_OK);
    for (int64_t i = 3; i < 8; i += 2)
        assert_int_equal(made_run(first, i, &err), QK_OK);
    qk_sink_close(&first);
    qk_sink_close(&second);
    s.shard = (qk_shard){.count = 1};
    check_goes_on(&s);
}

/* ---- sums ------------------------------------------------------------------------------- */

typedef struct misused_sums {
    const char *keep;
    qk_sink_sums sums;
    qk_status status;
    const char *words;
} misused_sums;

/* What a language that checks its arrays cannot get wrong. What else is wrong is tested from Python. */
static void sums_misused(void **state)
{
    (void)state;
    static const double x[Q_HEADS * DIM * DIM];
    const misused_sums all[] = {
        {"rows", {.rows = 300, .num_heads = 1}, QK_ERR_ARGUMENT, "this sink keeps rows"},
        {"moments", {.layer = LAYERS}, QK_ERR_ARGUMENT, "layer 3, kind 0: the model has 3"},
        {"moments", {.kind = (qk_kind)2}, QK_ERR_ARGUMENT, "kind 2"},
        {"moments", {.rows = 300, .num_heads = 1}, QK_ERR_ARGUMENT, "sums without numbers, of"},
        {"moments",
         {.rows = 300, .num_heads = 1, .sum_x = x, .sum_xt = x, .sum_xx = x},
         QK_ERR_ARGUMENT,
         "by bucket"},
        {"moments",
         {.rows = 300, .num_heads = K_HEADS + 1, .kind = QK_KEY},
         QK_ERR_ARGUMENT,
         "head 2: the model has 2"},
        {"moments",
         {.kind = QK_KEY, .rows = 7, .num_heads = 1, .sum_x = x, .sum_xt = x, .sum_xx = x},
         QK_ERR_ARGUMENT,
         "sums over 7 rows of text 0, of which 300"},
        {"moments", {.text = 1}, QK_ERR_ARGUMENT, "text 1 is not open"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        qk_error err = {0};
        qk_sink_settings s;
        made_settings(&s, output, 8);
        s.force = true;
        assert_int_equal(qk_keep_parse(all[i].keep, &s.keep, &err), QK_OK);
        qk_sink *sink = open_sink(&s);
        assert_int_equal(made_begin(sink, 0, &err), QK_OK);
        check_says(qk_sink_put_sums(sink, &all[i].sums, &err), all[i].status, &err,
                   all[i].words);
        assert_int_not_equal(qk_sink_text_done(sink, 0, &err), QK_OK);
        qk_sink_close(&sink);
    }
}

static void sums_of_one_stage(void **state)
{
    (void)state;
    qk_error err = {0};
    qk_sink_settings s;
    qk_sink_outcome outcome;
    made_settings(&s, output, 8);
    assert_int_equal(qk_keep_parse("moments", &s.keep, &err), QK_OK);
    qk_sink *sink = open_sink(&s);
    for (int64_t i = 0; i < 8; i++) {
        int64_t *list;
        size_t count;
        assert_int_equal(made_begin(sink, i, &err), QK_OK);
        assert_int_equal(qk_sink_stored_positions(sink, i, 0, QK_QUERY, &list, &count, &err),
                         QK_OK);
        assert_true(!list && count == 0);
        for (int layer = 0; layer < LAYERS; layer++) {
            qk_sink_sums other = {
                .text = i, .layer = layer, .before_rope = true}; /* passed over */
            assert_int_equal(qk_sink_put_sums(sink, &other, &err), QK_OK);
            assert_int_equal(made_put_sums(sink, i, layer, QK_QUERY, Q_HEADS, &err), QK_OK);
            assert_int_equal(made_put_sums(sink, i, layer, QK_KEY, K_HEADS, &err), QK_OK);
        }
        assert_int_equal(qk_sink_text_done(sink, i, &err), QK_OK);
    }
    assert_int_equal(qk_sink_finish(&sink, &outcome, &err), QK_OK);
    assert_true(outcome.complete && outcome.summed == 11 * 1817 && outcome.rows == 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, tree_teardown)
    const struct CMUnitTest tests[] = {TEST(rows_misused),
                                       TEST(moments_misused),
                                       TEST(one_block_misused),
                                       TEST(texts_of_a_block_in_their_order),
                                       TEST(texts_in_the_order_of_their_groups),
                                       TEST(one_shard_twice),
                                       TEST(sums_misused),
                                       TEST(sums_of_one_stage)};
    return cmocka_run_group_tests_name("sink_misused", tests, NULL, NULL);
}
