/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions on heads: what they keep, what is said of a wrong one, and that no text, however
 * hostile, and no lack of memory does harm. */
#include "results/head_filter.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit.h"

#include "tests/failing_memory.h"

static qk__result_model model = {
    .name = "org/m-1", .label = "and", .family = "", .phase = "", .source = ""};

static qk__result_head some_head(void)
{
    qk__result_head head = {.layer = 2, .q_head = 5, .k_head = 1, .category = QK_MIXED};
    head.category_before = head.category_after = -1;
    head.v.near_tie = NAN;
    head.n_q = 100;
    head.v.r_q = 0.5;
    head.v.r_k = -0.75;
    head.v.bias_strength = NAN;
    head.v.category_probability = 0.96;
    head.lo.r_q = 0.4;
    return head;
}

static bool keeps(const char *text)
{
    qk__head_filter *filter;
    qk_error err;
    qk__result_head head = some_head(), other = some_head();
    other.v.r_q = 0.25;
    other.category = QK_POSITION_DOMINATED;
    const qk__head_row row = {{&model, &model}, {&head, &other}};
    if (qk__parse_head_filter(&filter, text, &err) != QK_OK)
        fail_msg("%s: %s", text, err.message);
    bool kept = qk__filter_keeps_head(filter, &row);
    qk__head_filter_free(&filter);
    return kept;
}

static void conditions(void **state)
{
    (void)state;
    static const char *const KEPT[] = {
        "category == mixed and probability >= 0.95",
        "category==mixed",
        "category != position-dominated",
        "'mixed' == category",
        "r_q > r_k and r_q >= 0.5 and r_q <= .5",
        "abs(r_k) > r_q",
        "abs( r_k ) == 0.75",
        "-0.75 == r_k",
        "r_k<-0.5",
        "0.95 < category_probability",
        "r_q_lo == 4e-1",
        "not layer == 3",
        "not not layer == 2",
        "layer == 3 or layer == 2 and q_head == 5",
        "(layer == 3 or layer == 2) and q_head == 5",
        "layer == 2 or layer == 2 and q_head == 4",
        "NOT (layer == 3) AND q_head == 5",
        "model == org/m-1",
        "model == \"org/m-1\"",
        "label == 'and'",
        "n_q == 100",
        "not bias_strength > 0",
        "a.r_q == 0.5 and b.r_q == 0.25 and diff.r_q == -0.25 and abs(diff.r_q) > 0.2",
        "a.category != b.category and b.category == position-dominated",
        "a.model == b.model and a.r_k == b.r_k",
    };
    static const char *const LEFT_OUT[] = {
        "category == content-focused",
        "a.category == b.category or a.r_q < b.r_q or diff.bias_strength == 0",
        "abs(r_k) < 0.75",
        "not (layer == 2 or layer == 3)",
        "not layer == 2 or layer == 3",
        "(layer == 2 or layer == 3) and q_head == 4",
        "bias_strength > 0",
        "bias_strength <= 0",
        "bias_strength != 0",
        "bias_strength == bias_strength",
        "near_tie != 1",
        "category_before != mixed",
        "category_before != category_after",
        "family != x",
        "model == 'ORG/m-1'",
    };
    for (size_t i = 0; i < sizeof KEPT / sizeof *KEPT; i++)
        if (!keeps(KEPT[i]))
            fail_msg("left out: %s", KEPT[i]);
    for (size_t i = 0; i < sizeof LEFT_OUT / sizeof *LEFT_OUT; i++)
        if (keeps(LEFT_OUT[i]))
            fail_msg("kept: %s", LEFT_OUT[i]);
}

static void refuse(const char *text, const char *message)
{
    qk__head_filter *filter;
    qk_error err = {0};
    assert_int_equal(qk__parse_head_filter(&filter, text, &err), QK_ERR_ARGUMENT);
    assert_null(filter);
    if (!strstr(err.message, message))
        fail_msg("%s: '%s' is not in '%s'", text, message, err.message);
}

static void mistakes(void **state)
{
    (void)state;
    refuse("", "character 1: expected a column");
    refuse("r_q", "character 4: expected ==");
    refuse("r_q > 1 and catgory == mixed",
           "character 13: there is no column 'catgory' (did you mean category?)");
    refuse("category == mixd",
           "character 13: there is no category 'mixd' (did you mean mixed?)");
    refuse("category == xyz", "mixed");
    refuse("xyzzy > 1", "category_probability");
    refuse("r_q > mixed", "character 7: r_q is a number");
    refuse("category > mixed", "character 1: category is a text");
    refuse("category == r_q", "character 13: category is a text and r_q a number");
    refuse("1 < 2", "character 1: one side");
    refuse("r_q = 1", "character 5: '=' alone");
    refuse("r_q > 1 && r_k > 1", "character 9: '&' alone");
    refuse("(r_q > 1", "character 9: expected ')'");
    refuse("r_q > 1)", "character 8: expected and");
    refuse("model == \"x", "character 10: this quote");
    refuse("abs(category) > 1", "character 5: category is a text");
    refuse("abs r_q > 1", "character 5: expected '('");
    refuse("diff.category == mixed", "character 1: category is a text, and has no difference");
    refuse("a.layer == 1", "layer is the same in a and b: write layer");
    refuse("a.catgory == mixed", "did you mean category?");
    refuse("and > 1", "character 1: expected a column");
    refuse("model == '\xc3\xa9' and r_q ; 1", "character 22: ';'");
}

static void a_key_is_one_column(void **state)
{
    (void)state;
    qk__head_value value;
    qk_error err;
    qk__result_head head = some_head();
    const qk__head_row row = {{&model, NULL}, {&head, NULL}};
    assert_int_equal(qk__parse_head_value(" abs(r_k) ", &value, &err), QK_OK);
    assert_true(qk__head_value_number(&value, &row) == 0.75);
    assert_int_equal(qk__parse_head_value("category", &value, &err), QK_OK);
    assert_string_equal(qk__head_value_text(&value, &row), "mixed");
    assert_int_equal(qk__parse_head_value("r_q r_k", &value, &err), QK_ERR_ARGUMENT);
    assert_int_equal(qk__parse_head_value("", &value, &err), QK_ERR_ARGUMENT);
}

/* A condition inside `depth` others. */
static qk_status parse_nested(const char *open, const char *close, int depth, qk_error *err)
{
    static char text[1 << 18];
    char *end = text;
    for (int i = 0; i < depth; i++)
        end = stpcpy(end, open);
    end = stpcpy(end, "layer == 2");
    for (int i = 0; i < depth; i++)
        end = stpcpy(end, close);
    qk__head_filter *filter;
    qk_status status = qk__parse_head_filter(&filter, text, err);
    qk__result_head head = some_head();
    const qk__head_row row = {{&model, NULL}, {&head, NULL}};
    if (status == QK_OK)
        assert_true(qk__filter_keeps_head(filter, &row));
    qk__head_filter_free(&filter);
    return status;
}

static void depth_is_bounded(void **state)
{
    (void)state;
    qk_error err;
    assert_int_equal(parse_nested("(", ")", 64, &err), QK_OK);
    assert_int_equal(parse_nested("layer == 2 or layer == 1 and (", ")", 64, &err), QK_OK);
    assert_int_equal(parse_nested("(", ")", 65, &err), QK_ERR_ARGUMENT);
    assert_int_equal(parse_nested("not ", "", 10000, &err), QK_ERR_ARGUMENT);
    assert_int_equal(parse_nested("(", "", 50000, &err), QK_ERR_ARGUMENT);
    assert_int_equal(parse_nested("layer == 2 or ", "", 4000, &err), QK_OK); /* a chain */
    assert_int_equal(parse_nested("layer == 2 or ", "", 8000, &err), QK_ERR_ARGUMENT);
}

/* Words of the language and bytes of any kind, in any order. */
static void any_text(void **state)
{
    (void)state;
    static const char *const WORDS[] = {
        "r_q",   "abs", "(",  ")",        "and",  "or",  "not", "==",   "<",        ">=",
        "mixed", "'",   "\"", "category", "-1.5", "1e9", "!",   "\xc3", "abs(r_k)", "model"};
    unsigned long long random = 88172645463325252ULL;
    size_t good = 0;
    for (int n = 0; n < (tier_is("test") ? 8000 : 30000); n++) {
        char text[200];
        size_t size = 0;
        for (unsigned i = 0; i < 1 + random % 9; i++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            if (random % 16 == 0)
                text[size++] = (char)(1 + random / 16 % 255);
            else
                size += (size_t)sprintf(text + size, "%s ",
                                        WORDS[random / 16 % (sizeof WORDS / sizeof *WORDS)]);
        }
        text[size] = 0;
        qk__head_filter *filter;
        qk_error err;
        qk__result_head head = some_head();
        const qk__head_row row = {{&model, NULL}, {&head, NULL}};
        if (qk__parse_head_filter(&filter, text, &err) == QK_OK) {
            good++;
            (void)qk__filter_keeps_head(filter, &row);
        } else {
            assert_null(filter);
            assert_int_equal(err.status, QK_ERR_ARGUMENT);
        }
        qk__head_filter_free(&filter);
    }
    assert_true(good > 1);
}

static void every_allocation(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        qk__head_filter *filter;
        qk_error err;
        remaining = n;
        qk_status status = qk__parse_head_filter(
            &filter, "category == mixed and not (abs(r_k) < 0.2 or model == 'x')", &err);
        bool reached = remaining < 0;
        remaining = -1;
        assert_int_equal(status, reached ? QK_ERR_NOMEM : QK_OK);
        assert_true((filter == NULL) == reached);
        qk__head_filter_free(&filter);
        if (!reached) {
            assert_true(n >= 3);
            break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conditions),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(a_key_is_one_column),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(any_text),
        cmocka_unit_test(every_allocation),
    };
    return cmocka_run_group_tests_name("head_filter", tests, NULL, NULL);
}
