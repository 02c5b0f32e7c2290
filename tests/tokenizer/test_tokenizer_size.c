/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers of many parts, and those that would make much of little: time and memory follow
 * the size of file and text. What takes square time here takes minutes. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buffer.h"
#include "tokenizer/tokenizer.h"
#include "tests/unit.h"

enum { PARTS = 60 };

/* Fewer where a run is to be quick. */
static int sized(int thorough)
{
    return tier_is("test") ? thorough / 20 : thorough;
}

static void add(qk__buffer *text, const char *part)
{
    assert_int_equal(qk__buffer_append(text, part, strlen(part), NULL), QK_OK);
}

static qk_status parse(const qk__buffer *json, qk_tokenizer **tokenizer, qk_error *err)
{
    qk_status status = qk__tokenizer_parse(tokenizer, json->data, json->size, err);
    assert_int_equal(status == QK_OK, *tokenizer != NULL);
    return status;
}

/* The number of tokens of a text; `said` of the error, if there should be one. */
static size_t count(qk_tokenizer *tokenizer, const void *text, size_t size, const char *said)
{
    qk_tokens tokens;
    qk_error err;
    qk_status status = qk_tokenizer_encode(tokenizer, text, size, true, 0, &tokens, &err);
    size_t found = tokens.count;
    assert_int_equal(status, said ? QK_ERR_UNSUPPORTED : QK_OK);
    if (said && !strstr(err.message, said))
        fail_msg("%s", err.message);
    qk_tokens_free(&tokens);
    qk_tokenizer_close(&tokenizer);
    return found;
}

#define MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\\u0120\":1},\"merges\":[]}}"

static void many_added(qk__buffer *json, bool normalized, int added, int last)
{
    add(json, "{\"normalizer\":{\"type\":\"Lowercase\"},\"added_tokens\":[");
    for (int i = 0; i < added; i++)
        assert_int_equal(
            qk__buffer_printf(
                json, NULL, "%s{\"id\":%d,\"content\":\"<t%d>\",\"normalized\":%s}",
                i ? "," : "", i + 2, i < added - 1 ? i : last, normalized ? "true" : "false"),
            QK_OK);
    add(json, "]," MODEL);
}

/* And one of them twice. */
static void test_many_added_tokens(void **state)
{
    (void)state;
    const int added = sized(100000);
    for (int normalized = 0; normalized < 2; normalized++) {
        qk__buffer json = {0}, text = {0};
        qk_tokenizer *tokenizer;
        qk_error err;
        many_added(&json, normalized, added, added - 1);
        assert_int_equal(parse(&json, &tokenizer, NULL), QK_OK);
        for (int i = 0; i < added; i++)
            assert_int_equal(qk__buffer_printf(&text, NULL, "<t%d>a", i), QK_OK);
        assert_int_equal(count(tokenizer, text.data, text.size, NULL), 2 * added);
        json.size = 0;
        many_added(&json, normalized, added, 7);
        assert_int_equal(parse(&json, &tokenizer, &err), QK_ERR_INCONSISTENT);
        assert_non_null(strstr(err.message, "\"<t7>\" is listed twice"));
        qk__buffer_free(&json);
        qk__buffer_free(&text);
    }
}

/* Each blank is a token, and each takes all blanks before and behind it with it. */
static void test_blanks_around_blanks(void **state)
{
    (void)state;
    qk__buffer json = {0};
    qk_tokenizer *tokenizer;
    add(&json, "{\"added_tokens\":[{\"id\":2,\"content\":\" \",\"normalized\":false,"
               "\"lstrip\":true,\"rstrip\":true}]," MODEL);
    assert_int_equal(parse(&json, &tokenizer, NULL), QK_OK);
    const size_t spaces = (size_t)sized(1000000);
    char *text = malloc(spaces + 1);
    assert_non_null(text);
    memset(text, ' ', spaces);
    text[spaces] = 'a';
    assert_int_equal(count(tokenizer, text, spaces + 1, NULL), spaces + 1);
    free(text);
    qk__buffer_free(&json);
}

static void test_parts_that_grow(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"normalizer", "normalizers",
         "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaaaa\"}"},
        {"normalizer", "normalizers",
         "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"aa\"}"},
        {"pre_tokenizer", "pretokenizers",
         "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        qk__buffer json = {0};
        qk_tokenizer *tokenizer;
        assert_int_equal(qk__buffer_printf(&json, NULL,
                                           "{\"%s\":{\"type\":\"Sequence\",\"%s\":[",
                                           cases[c][0], cases[c][1]),
                         QK_OK);
        for (int i = 0; i < PARTS; i++) {
            add(&json, i ? "," : "");
            add(&json, cases[c][2]);
        }
        add(&json, "]}," MODEL);
        assert_int_equal(parse(&json, &tokenizer, NULL), QK_OK);
        count(tokenizer, "a\xc3\xa9", 3, cases[c][0]);
        qk__buffer_free(&json);
    }
}

/* An added token that such a normalizer makes longer than tokens may be. */
static void test_tokens_that_grow(void **state)
{
    (void)state;
    qk__buffer json = {0};
    qk_tokenizer *tokenizer;
    qk_error err;
    add(&json,
        "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"b\"},\"content\":\"");
    for (int i = 0; i < 2000; i++)
        add(&json, "c");
    add(&json,
        "\"},\"added_tokens\":[{\"id\":2,\"content\":\"b\",\"normalized\":true}]," MODEL);
    assert_int_equal(parse(&json, &tokenizer, &err), QK_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "added_tokens[0]"));
    qk__buffer_free(&json);
}

/* Many merges and an unknown token as long as all of them together. */
static void test_long_unknown_token(void **state)
{
    (void)state;
    enum { LONG = 4 << 20 };
    const int letters = tier_is("test") ? 40 : 200;
    qk__buffer json = {0}, merges = {0};
    qk_tokenizer *tokenizer;
    add(&json, "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"");
    assert_int_equal(qk__buffer_reserve(&json, json.size + LONG, NULL), QK_OK);
    memset(json.data + json.size, '?', LONG);
    json.size += LONG;
    add(&json, "\",\"vocab\":{\"a\":0");
    for (int i = 0; i < letters; i++)
        assert_int_equal(qk__buffer_printf(&json, NULL, ",\"\\u%04x\":%d", 0x100 + i, i + 1),
                         QK_OK);
    for (int i = 0; i < letters * letters; i++) {
        int left = 0x100 + i / letters, right = 0x100 + i % letters;
        assert_int_equal(qk__buffer_printf(&json, NULL, ",\"\\u%04x\\u%04x\":%d", left, right,
                                           i + letters + 1),
                         QK_OK);
        assert_int_equal(qk__buffer_printf(&merges, NULL, "%s\"\\u%04x \\u%04x\"", i ? "," : "",
                                           left, right),
                         QK_OK);
    }
    add(&json, "},\"merges\":[");
    assert_int_equal(qk__buffer_append(&json, merges.data, merges.size, NULL), QK_OK);
    add(&json, "]}}");
    assert_int_equal(parse(&json, &tokenizer, NULL), QK_OK);
    assert_int_equal(count(tokenizer, "\u0101\u0110a\u0120\u0105", 9, NULL), 3);
    qk__buffer_free(&merges);
    qk__buffer_free(&json);
}

/* The linker puts this in the place of the C library's. */
int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
static bool own_clock;
static long milliseconds, step;

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    if (!own_clock)
        return __real_clock_gettime(clock, time);
    milliseconds += step;
    *time = (struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000};
    return 0;
}

/* Patterns have time for a text, not for each of its pieces anew. */
static void test_time_of_pieces(void **state)
{
    (void)state;
    enum { PIECES = 100000 };
    for (step = 1; step <= 100; step *= 100) {
        qk__buffer json = {0}, text = {0};
        qk_tokenizer *tokenizer;
        add(&json, "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                   "\"WhitespaceSplit\"},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"b+\"},"
                   "\"behavior\":\"Isolated\",\"invert\":false}]}," MODEL);
        assert_int_equal(parse(&json, &tokenizer, NULL), QK_OK);
        for (int i = 0; i < PIECES; i++)
            add(&text, " a");
        own_clock = true;
        size_t found = count(tokenizer, text.data, text.size, step < 100 ? NULL : "too long");
        own_clock = false;
        assert_int_equal(found, step < 100 ? PIECES : 0);
        qk__buffer_free(&json);
        qk__buffer_free(&text);
    }
}

/* Nor has a search that goes back little from each place, but goes on from each for long. */
static void test_time_of_a_search(void **state)
{
    (void)state;
    for (int blanks = 100; blanks <= 10000; blanks *= 100) {
        qk__buffer json = {0}, text = {0};
        qk_tokenizer *tokenizer;
        add(&json,
            "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\s++$\"},"
            "\"behavior\":\"Isolated\",\"invert\":false}," MODEL);
        assert_int_equal(parse(&json, &tokenizer, NULL), QK_OK);
        for (int i = 0; i < blanks; i++)
            add(&text, " ");
        add(&text, "a");
        own_clock = true;
        step = 1;
        size_t found =
            count(tokenizer, text.data, text.size, blanks < 1000 ? NULL : "too long");
        own_clock = false;
        assert_int_equal(found, blanks < 1000 ? 1 : 0);
        qk__buffer_free(&json);
        qk__buffer_free(&text);
    }
}

/* Zero bytes in pieces and in both forms of merges; U+FFFF is a character like others. */
static void test_zero_bytes(void **state)
{
    (void)state;
    static const char *const merges[] = {"[\"\\u0000 a\",\"\\u0000a \\uffff\"]",
                                         "[[\"\\u0000\",\"a\"],[\"\\u0000a\",\"\\uffff\"]]"};
    for (int i = 0; i < 2; i++) {
        qk__buffer json = {0};
        qk_tokenizer *tokenizer;
        qk_tokens tokens;
        assert_int_equal(
            qk__buffer_printf(&json, NULL,
                              "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\\u0000\":1,"
                              "\"\\u0000a\":2,\"\\uffff\":3,\"\\u0000a\\uffff\":4},"
                              "\"merges\":%s}}",
                              merges[i]),
            QK_OK);
        assert_int_equal(parse(&json, &tokenizer, NULL), QK_OK);
        assert_int_equal(
            qk_tokenizer_encode(tokenizer, "a\0\0a\xef\xbf\xbf\0a", 9, true, 0, &tokens, NULL),
            QK_OK);
        assert_int_equal(tokens.count, 4);
        assert_int_equal(tokens.ids[0], 0);
        assert_int_equal(tokens.ids[1], 1);
        assert_int_equal(tokens.ids[2], 4);
        assert_int_equal(tokens.ids[3], 2);
        qk_tokens_free(&tokens);
        qk_tokenizer_close(&tokenizer);
        qk__buffer_free(&json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_added_tokens),  cmocka_unit_test(test_blanks_around_blanks),
        cmocka_unit_test(test_parts_that_grow),    cmocka_unit_test(test_tokens_that_grow),
        cmocka_unit_test(test_long_unknown_token), cmocka_unit_test(test_time_of_pieces),
        cmocka_unit_test(test_time_of_a_search),   cmocka_unit_test(test_zero_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
