/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers from small files: what each part does, and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/tokenizer.h"
#include "tokenizer/regex.h"
#include "tokenizer/characters.h"
#include "tests/unit.h"

/* Characters a, b, c, space and marked space, and a few merges. */
#define VOCAB                                                                                  \
    "{\"a\":0,\"b\":1,\"c\":2,\" "                                                             \
    "\":3,\"\\u2581\":4,\"ab\":5,\"abc\":6,\"bc\":7,\"\\u2581a\":8,"                           \
    "\"<unk>\":9,\"<0xC3>\":10,\"<0xA9>\":11,\"aa\":12,\"aaaa\":13}"
#define MERGES "[\"b c\",\"a b\",\"a bc\",\"\\u2581 a\",\"a a\",\"aa aa\"]"
#define MODEL  "\"model\":{\"type\":\"BPE\",\"vocab\":" VOCAB ",\"merges\":" MERGES "}"

static qk_tokenizer *parse(const char *json)
{
    qk_tokenizer *tokenizer;
    qk_error err;
    qk_status status = qk__tokenizer_parse(&tokenizer, json, strlen(json), &err);
    if (status != QK_OK)
        print_message("%s\n", err.message);
    assert_int_equal(status, QK_OK);
    return tokenizer;
}

/* The pieces joined by '|'. */
static void expect_n(const char *json, const char *text, size_t size, bool special,
                     size_t max_length, const char *wanted)
{
    qk_tokenizer *tokenizer = parse(json);
    qk_tokens tokens;
    qk_error err;
    qk__buffer got = {0};
    assert_int_equal(
        qk_tokenizer_encode(tokenizer, text, size, special, max_length, &tokens, &err), QK_OK);
    assert_int_equal(qk__buffer_append(&got, "", 1, NULL), QK_OK);
    got.size = 0;
    for (size_t i = 0; i < tokens.count; i++)
        assert_int_equal(qk__buffer_printf(&got, NULL, "%s%s", i ? "|" : "",
                                           qk_tokenizer_piece(tokenizer, tokens.ids[i])),
                         QK_OK);
    assert_string_equal((char *)got.data, wanted);
    qk__buffer_free(&got);
    qk_tokens_free(&tokens);
    qk_tokenizer_close(&tokenizer);
    assert_null(tokenizer);
}

static void expect(const char *json, const char *text, const char *wanted)
{
    expect_n(json, text, strlen(text), true, 0, wanted);
}

/* Refused, with a message that has `part` in it. */
static void refuse(qk_status wanted, const char *json, const char *part)
{
    qk_tokenizer *tokenizer;
    qk_error err;
    qk_status status = qk__tokenizer_parse(&tokenizer, json, strlen(json), &err);
    if (status != wanted || !strstr(err.message, part))
        print_message("%d: %s\n", (int)status, status == QK_OK ? "" : err.message);
    assert_int_equal(status, wanted);
    assert_null(tokenizer);
    assert_non_null(strstr(err.message, part));
}

/* ---- the model -------------------------------------------------------------------------- */

static void test_merges(void **state)
{
    (void)state;
    expect("{" MODEL "}", "abc", "abc");
    expect("{" MODEL "}", "abab", "ab|ab");
    expect("{" MODEL "}", "aaaaa", "aaaa|a");
    expect("{" MODEL "}", "aaabc", "aa|abc");
    expect("{" MODEL "}", "", "");
    expect("{" MODEL "}", "a\xc3\xa9z", "a"); /* no unk_token: what is unknown vanishes */
    expect("{\"model\":{\"vocab\":" VOCAB ",\"merges\":[[\"a\",\"b\"]]}}", "abc", "ab|c");
    /* A pair listed twice has its later place. */
    expect("{\"model\":{\"vocab\":" VOCAB ",\"merges\":[\"a b\",\"b c\",\"a b\"]}}", "abc",
           "a|bc");
    expect("{\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"vocab\":" VOCAB
           ",\"merges\":[]}}",
           "abc", "abc");
}

static void test_unknown(void **state)
{
    (void)state;
#define UNKNOWN "\"unk_token\":\"<unk>\","
#define REST    "\"vocab\":" VOCAB ",\"merges\":" MERGES "}}"
    expect("{\"model\":{\"type\":\"BPE\"," UNKNOWN REST, "azzb", "a|<unk>|<unk>|b");
    expect("{\"model\":{\"type\":\"BPE\",\"fuse_unk\":true," UNKNOWN REST, "azzbz",
           "a|<unk>|b|<unk>");
    expect("{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true," UNKNOWN REST, "a\xc3\xa9",
           "a|<0xC3>|<0xA9>");
    /* Bytes overtake an unknown token that waits, as in tokenizers. */
    expect("{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true," UNKNOWN REST,
           "z\xc3\xa9"
           "b",
           "<0xC3>|<0xA9>|<unk>|b");
    /* A word of which nothing is left, twice. */
    expect(
        "{\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"model\":{\"type\":\"BPE\"," REST,
        "zz zz", "");
    qk_tokenizer *t = parse("{\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\"," REST);
    qk_tokens tokens;
    qk_error err;
    assert_int_equal(qk_tokenizer_encode(t, "z", 1, true, 0, &tokens, &err),
                     QK_ERR_INCONSISTENT);
    assert_non_null(strstr(err.message, "unk_token"));
    qk_tokenizer_close(&t);
}

/* A long word takes n log n steps: seconds would be quadratic. */
static void test_long_words(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    size_t size = tier_is("test") ? SIZE >> 6 : SIZE;
    char *text = malloc(SIZE);
    assert_non_null(text);
    qk_tokenizer *t = parse("{" MODEL "}");
    qk_tokens tokens;
    memset(text, 'a', SIZE);
    assert_int_equal(qk_tokenizer_encode(t, text, size, true, 0, &tokens, NULL), QK_OK);
    assert_int_equal(tokens.count, size / 4);
    qk_tokens_free(&tokens);
    for (size_t i = 0; i < SIZE; i++)
        text[i] = "abc"[i % 3];
    assert_int_equal(qk_tokenizer_encode(t, text, size / 3 * 3, true, 0, &tokens, NULL), QK_OK);
    assert_int_equal(tokens.count, size / 3);
    qk_tokens_free(&tokens);
    qk_tokenizer_close(&t);
    free(text);
}

/* ---- texts ------------------------------------------------------------------------------ */

static void expect_clean(const char *text, size_t size, const char *wanted)
{
    qk__buffer out = {0};
    assert_int_equal(qk__utf8_clean((const uint8_t *)text, size, &out, NULL), QK_OK);
    assert_int_equal(out.size, strlen(wanted));
    if (out.size > 0)
        assert_memory_equal(out.data, wanted, out.size);
    qk__buffer_free(&out);
}

/* As bytes.decode("utf-8", errors="replace") gives them. */
static void test_invalid_utf8(void **state)
{
    (void)state;
#define R "\xef\xbf\xbd"
    expect_clean("a\xff"
                 "b",
                 3, "a" R "b");
    expect_clean("\xe2\x82", 2, R);
    expect_clean("\xe2\x82x", 3, R "x");
    expect_clean("\xf0\x9f\x98", 3, R);
    expect_clean("\xf0\x80\x80", 3, R R R);
    expect_clean("\xed\xa0\x80", 3, R R R);
    expect_clean("\xc0\xaf", 2, R R);
    expect_clean("\xf4\x90\x80\x80", 4, R R R R);
    expect_clean("\xe0\x80", 2, R R);
    expect_clean("\xf0\x9f\x98\x80\x80", 5, "\xf0\x9f\x98\x80" R);
}

/* ---- the other parts -------------------------------------------------------------------- */

#define CUT(part)  "{\"pre_tokenizer\":" part "," MODEL "}"
#define NORM(part) "{\"normalizer\":" part "," MODEL "}"
#define SPLIT(pattern, behavior)                                                               \
    CUT("{\"type\":\"Split\",\"pattern\":" pattern ",\"behavior\":\"" behavior                 \
        "\",\"invert\":false}")

static void test_splits(void **state)
{
    (void)state;
    expect(SPLIT("{\"String\":\"b\"}", "Isolated"), "abc", "a|b|c");
    expect(SPLIT("{\"String\":\"b\"}", "Removed"), "abc", "a|c");
    expect(SPLIT("{\"String\":\"b\"}", "MergedWithPrevious"), "abc", "ab|c");
    expect(SPLIT("{\"String\":\"b\"}", "MergedWithNext"), "abc", "a|bc");
    expect(SPLIT("{\"Regex\":\"b+?\"}", "Contiguous"), "abbc", "a|b|b|c");
    expect(SPLIT("{\"String\":\"\"}", "Isolated"), "abc", "a|b|c");
    expect(CUT("{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\"}"), "a ab",
           "\u2581a|\u2581|ab");
    expect(
        CUT("{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\",\"add_prefix_space\":false}"),
        "a", "a");
    expect(CUT("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"},"
               "{\"type\":\"Sequence\",\"pretokenizers\":[]}]}"),
           " ab\t\u3000ab", "ab|ab");
}

static void test_normalizers(void **state)
{
    (void)state;
    expect(NORM("{\"type\":\"Lowercase\"}"), "ABC", "abc");
    expect(NORM("{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":false}"), "  a ",
           "a| ");
    expect(
        NORM("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
             "\"\\u2581\"},"
             "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\\u2581\"}]}"),
        "a a", "\u2581a|\u2581a");
    expect(NORM("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\d+\"},\"content\":\"c\"}"),
           "a12b3", "a|c|bc");
    expect(NORM("{\"type\":\"NFKC\"}"), "\uff41\u24d1", "ab");
    refuse(QK_ERR_UNSUPPORTED, NORM("{\"type\":\"Precompiled\"}"), "normalizer: ");
}

/* Marks in the wrong order by the hundred thousand: not quadratic. */
static void test_many_marks(void **state)
{
    (void)state;
    const int marks = tier_is("test") ? 5000 : 200000;
    qk__buffer in = {0}, out = {0};
    for (int i = 0; i < marks; i++)
        assert_int_equal(qk__buffer_append(&in, i % 2 ? "\u0323" : "\u0301", 2, NULL), QK_OK);
    assert_int_equal(qk__normal_form(QK__NFD, in.data, in.size, &out, NULL), QK_OK);
    assert_int_equal(out.size, in.size);
    assert_memory_equal(out.data, "\u0323\u0323", 4);
    assert_memory_equal(out.data + out.size - 4, "\u0301\u0301", 4);
    qk__buffer_free(&in);
    qk__buffer_free(&out);
}

#define ADDED(id, content, flags)                                                              \
    "{\"id\":" id ",\"content\":\"" content "\",\"special\":true,\"normalized\":false" flags "}"
#define WITH_ADDED                                                                                    \
    "\"added_tokens\":[" ADDED("14", "<s>", "") "," ADDED("15", "<l>", ",\"lstrip\":true") "," ADDED( \
        "16", "<r>",                                                                                  \
        ",\"rstrip\":true") "," ADDED("17", "bb", ",\"single_word\":true") "," ADDED("18",            \
                                                                                     "<s><s>",        \
                                                                                     "") "],"

static void test_added(void **state)
{
    (void)state;
    const char *json = "{" WITH_ADDED MODEL "}";
    expect(json, "a<s>b", "a|<s>|b");
    expect(json, "<s><s><s>", "<s><s>|<s>");
    expect(json, "a  <l> b", "a|<l>| |b");
    expect(json, "a <r>\n\u3000 b", "a| |<r>|b");
    expect(json, "<r>  <l>", "<r>|<l>");
    expect(json, "bb abb bb,bb", "bb| |ab|b| |bb|bb");
    expect(json, "<s", "");
}

#define TEMPLATE                                                                               \
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"      \
    "\"id\":"                                                                                  \
    "\"S\"}},{\"Sequence\":{\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"E\"}}],\"special_"      \
    "tokens\":"                                                                                \
    "{\"S\":{\"ids\":[9]},\"E\":{\"ids\":[0,1]}}},"

static void test_special_and_length(void **state)
{
    (void)state;
    const char *json = "{" TEMPLATE MODEL "}";
    const char *left = "{\"truncation\":{\"direction\":\"Left\"}," TEMPLATE MODEL "}";
    expect(json, "cac", "<unk>|c|a|c|a|b");
    expect_n(json, "cac", 3, false, 0, "c|a|c");
    expect_n(json, "cac", 3, true, 5, "<unk>|c|a|a|b");
    expect_n(left, "cac", 3, true, 5, "<unk>|a|c|a|b");
    expect_n(json, "cac", 3, true, 3, "<unk>|a|b");
    expect_n(json, "cac", 3, false, 2, "c|a");
    qk_tokenizer *t = parse(json);
    qk_tokens tokens;
    assert_int_equal(qk_tokenizer_encode(t, "a", 1, true, 2, &tokens, NULL), QK_ERR_ARGUMENT);
    assert_int_equal(qk_tokenizer_vocabulary(t), 14);
    assert_null(qk_tokenizer_piece(t, -1));
    assert_null(qk_tokenizer_piece(t, 14));
    assert_string_equal(qk_tokenizer_piece(t, 13), "aaaa");
    qk_tokenizer_close(&t);
}

/* ---- patterns --------------------------------------------------------------------------- */

#define REGEX(pattern) SPLIT("{\"Regex\":\"" pattern "\"}", "Isolated")

/* What Oniguruma has of its own, beside what tests in Python compare with tokenizers. */
static void test_patterns(void **state)
{
    (void)state;
    expect(REGEX("a{1,2}+"), "aaab", "aa|a|b"); /* not possessive */
    expect(REGEX("[abc&&[^b]]+"), "acbca", "a|c|b|c|a");
    expect(REGEX("(?<n>a)\\\\k<n>"), "aaab", "aa|ab");
    expect(REGEX("(?x: b c )"), "abca", "a|bc|a");
    expect(REGEX("(?<=a*)b"), "aabc", "aa|b|c");
    expect(REGEX("\\\\Gb|c"), "bbcab", "b|b|c|ab");
    static const char *const BAD[] = {REGEX("*a"),
                                      REGEX("\\\\p{"),
                                      REGEX("[[:no:]"),
                                      REGEX("(a"),
                                      REGEX("a)"),
                                      REGEX("\\\\p{Kawy}"),
                                      REGEX("[[:punct:]]"),
                                      REGEX("\\\\p{^Punct}"),
                                      REGEX("[\xf0\x9f\xab\xa9]")};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        refuse(QK_ERR_UNSUPPORTED, BAD[i], "pre_tokenizer.pattern: the pattern ");
    refuse(QK_ERR_UNSUPPORTED, REGEX("[\xf0\x9f\xab\xa9]"), "U+1FAE9");
}

/* Fails on a text of many times `unit` and `last`, and says so. */
static void expect_limit(const char *json, const char *unit, size_t times, const char *last,
                         const char *said)
{
    qk__buffer text = {0};
    qk_tokens tokens;
    qk_error err;
    qk_tokenizer *t = parse(json);
    for (size_t i = 0; i < times; i++)
        assert_int_equal(qk__buffer_append(&text, unit, strlen(unit), NULL), QK_OK);
    assert_int_equal(qk__buffer_append(&text, last, strlen(last), NULL), QK_OK);
    assert_int_equal(
        qk_tokenizer_encode(t, (const char *)text.data, text.size, true, 0, &tokens, &err),
        QK_ERR_UNSUPPORTED);
    if (!strstr(err.message, said))
        fail_msg("%s", err.message);
    qk__buffer_free(&text);
    qk_tokenizer_close(&t);
}

/* A pattern that goes back without end is an error, not a hang: of one match, and of what
 * is kept for going back. */
static void test_hostile_patterns(void **state)
{
    (void)state;
    expect_limit(REGEX("^(a+a+)+$"), "a", 64, "b", "retry-limit-in-match over");
    expect_limit(REGEX("(?:a|b)*$"), "ab", 3000000, "", "match-stack limit over");
    expect(REGEX("(((a{1000}){1000}){1000})"), "abc", "abc");
    if (tier_is("test"))
        return;
    qk_tokenizer *t =
        parse(SPLIT("{\"Regex\":\"\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}", "Isolated"));
    enum { BLANKS = 3000000 };
    char *text = malloc(BLANKS + 1);
    assert_non_null(text);
    memset(text, ' ', BLANKS);
    text[BLANKS] = 'x';
    qk_tokens tokens;
    assert_int_equal(qk_tokenizer_encode(t, text, BLANKS + 1, true, 0, &tokens, NULL), QK_OK);
    assert_int_equal(tokens.count, BLANKS);
    qk_tokens_free(&tokens);
    qk_tokenizer_close(&t);
    free(text);
}

/* ---- bad files -------------------------------------------------------------------------- */

static void test_malformed(void **state)
{
    (void)state;
#define BPE(rest) "{\"model\":{\"type\":\"BPE\"," rest "}}"
    refuse(QK_ERR_MALFORMED, "", "byte 1");
    refuse(QK_ERR_MALFORMED, "[]", "object");
    refuse(QK_ERR_MALFORMED, "{}", "model: missing");
    refuse(QK_ERR_MALFORMED, "{\"model\":{\"vocab\":{}}}", "model.type: missing");
    refuse(QK_ERR_UNSUPPORTED, "{\"model\":{\"type\":\"Unigram\"}}", "Unigram");
    refuse(QK_ERR_UNSUPPORTED, "{\"version\":\"2.0\"," MODEL "}", "version");
    refuse(QK_ERR_MALFORMED, BPE("\"vocab\":{\"a\":0}"), "model.merges: missing");
    refuse(QK_ERR_MALFORMED, BPE("\"vocab\":[],\"merges\":[]"), "model.vocab: expected");
    refuse(QK_ERR_MALFORMED, BPE("\"vocab\":{\"a\":-1},\"merges\":[]"), "model.vocab.a: ");
    refuse(QK_ERR_MALFORMED, BPE("\"vocab\":{\"a\":99999999},\"merges\":[]"), "99999999");
    refuse(QK_ERR_MALFORMED, BPE("\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]"), "duplicate");
    refuse(QK_ERR_INCONSISTENT, BPE("\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]"), "id 0");
    refuse(QK_ERR_INCONSISTENT, BPE("\"vocab\":{\"a\":0},\"merges\":[\"a x\"]"),
           "model.merges[0]: \"x\"");
    refuse(QK_ERR_INCONSISTENT, BPE("\"vocab\":{\"a\":0},\"merges\":[[\"a\",\"a\"]]"),
           "\"aa\"");
    refuse(QK_ERR_MALFORMED, BPE("\"vocab\":{\"a\":0},\"merges\":[\"a\"]"), "merges[0]");
    refuse(QK_ERR_UNSUPPORTED, BPE("\"dropout\":0.1,\"vocab\":{},\"merges\":[]"), "dropout");
    refuse(QK_ERR_UNSUPPORTED,
           BPE("\"end_of_word_suffix\":\"</w>\",\"vocab\":{},\"merges\":[]"),
           "end_of_word_suffix");
    refuse(QK_ERR_MALFORMED, BPE("\"fuse_unk\":1,\"vocab\":{},\"merges\":[]"),
           "model.fuse_unk");
    refuse(QK_ERR_UNSUPPORTED, BPE("\"unk_token\":\"a\\u0000\",\"vocab\":{},\"merges\":[]"),
           "model.unk_token: expected a text, found a text with U+0000");
    refuse(QK_ERR_UNSUPPORTED, "{\"added_tokens\":[" ADDED("3", "a\\u0000", "") "]," MODEL "}",
           "added_tokens[0].content: expected a text, found a text with U+0000");
    refuse(QK_ERR_MALFORMED, BPE("\"vocab\":{\"a\":null},\"merges\":[]"),
           "model.vocab.a: expected a value, found null");
    refuse(QK_ERR_UNSUPPORTED, CUT("{\"type\":\"UnicodeScripts\"}"), "UnicodeScripts");
    refuse(QK_ERR_MALFORMED, SPLIT("{\"String\":\"b\"}", "Joined"), "Joined");
    refuse(QK_ERR_MALFORMED, CUT("{\"type\":\"Sequence\",\"pretokenizers\":[1]}"),
           "pre_tokenizer.pretokenizers[0]");
    refuse(QK_ERR_INCONSISTENT, "{\"added_tokens\":[" ADDED("3", "<x>", "") "]," MODEL "}",
           "added_tokens[0].id: 3");
    refuse(QK_ERR_INCONSISTENT, "{\"added_tokens\":[" ADDED("3", "a", "") "]," MODEL "}",
           "get 0");
    refuse(QK_ERR_UNSUPPORTED, "{\"post_processor\":{\"type\":\"No\"}," MODEL "}",
           "post_processor");
    refuse(QK_ERR_INCONSISTENT,
           "{\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",99],\"sep\":[\"a\","
           "0]}," MODEL "}",
           "post_processor.cls[1]: there is no token 99");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merges),
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_invalid_utf8),
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_normalizers),
        cmocka_unit_test(test_many_marks),
        cmocka_unit_test(test_added),
        cmocka_unit_test(test_special_and_length),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_hostile_patterns),
        cmocka_unit_test(test_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
