/* SPDX-License-Identifier: Apache-2.0 */
/* Heads as they are named: "2:1,14-23:*", "5", "@FILE". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <qkscope/settings.h>

#include "tests/unit.h"

#include "settings/settings_json.h"

enum { LAYERS = 5, HEADS = 4, MAX_TEXT = 200 };

/* Which of 5 x 4 heads it has, a letter each: '#', or '.'. */
static void expect(const char *text, const char *wanted)
{
    char found[LAYERS * (HEADS + 1) + 1];
    qk_head_set set;
    qk_error err = {0};
    if (qk_head_set_parse(text, &set, &err) != QK_OK)
        fail_msg("%s", err.message);
    size_t used = 0;
    for (int layer = 0; layer < LAYERS; layer++, used++) {
        for (int head = 0; head < HEADS; head++)
            found[used++] = qk_head_set_has(&set, layer, head) ? '#' : '.';
        found[used] = layer + 1 < LAYERS ? ' ' : 0;
    }
    assert_string_equal(found, wanted);
    qk_head_set_free(&set);
    qk_head_set_free(&set);
}

static void good(void **state)
{
    (void)state;
    expect("2:1", ".... .... .#.. .... ....");
    expect("2:*", ".... .... #### .... ....");
    expect("*:1", ".#.. .#.. .#.. .#.. .#..");
    expect("1", ".#.. .#.. .#.. .#.. .#..");
    expect("0,2-3", "#.## #.## #.## #.## #.##");
    expect("*", "#### #### #### #### ####");
    expect("2-3:1-2", ".... .... .##. .##. ....");
    expect("3:0,1:3,1:3", ".... ...# .... #... ....");
    expect("4:2-3,*:0", "#... #... #... #... #.##");
    expect(" 2 : 1 , 3-4 : * ", ".... .... .#.. #### ####");
    expect("65535:65535", ".... .... .... .... ....");
    expect("14-23:*,0:0", "#... .... .... .... ....");
}

static void refuse(const char *text, const char *words)
{
    qk_head_set set = {.count = 7};
    qk_error err = {0};
    if (qk_head_set_parse(text, &set, &err) != QK_ERR_ARGUMENT)
        fail_msg("%s", text);
    if (!strstr(err.message, words))
        fail_msg("%s: %s", words, err.message);
    assert_null(set.items);
    assert_int_equal(set.count, 0);
}

static void bad(void **state)
{
    (void)state;
    static const char *const BAD[] = {
        "",      " ",    ",",       ":",    "1:",    ":1",    "1:2,",   ",1:2", "1:2,,3",
        "-1:2",  "1:-2", "1:2:3",   "a:1",  "1:b",   "1;2",   "1.5",    "**",   "1:**",
        "1:2-",  "1:-",  "0x1:2",   "+1:2", "1 2:3", "1:2 3", "*-3:1",  "1-*",  "l1h2",
        "2:1@x", "2:1#", "1:2-3-4", "\x01", "2:1\n", "2/1",   "1:2,x:y"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        refuse(BAD[i], "expected heads as LAYER:HEAD");
    refuse("99999999999:1", "\"99999999999:1\"");
    refuse("65536:1", "from 0 to 65535");
    refuse("1:65536", "from 0 to 65535");
    refuse("3:1,9-2:*,4:1", "\"9-2:*\": a range that runs backwards");
    refuse("2:3-1", "backwards");
    refuse("1:2,nonsense,3:4", "\"nonsense\"");
    char text[MAX_TEXT];
    memset(text, '1', sizeof text - 1);
    text[sizeof text - 1] = 0;
    refuse(text, "\"1111");
    memset(text, ' ', sizeof text - 1);
    text[sizeof text - 2] = '1';
    refuse(text, "expected heads");
}

/* ---- files ------------------------------------------------------------------------------ */

static char path[] = "/tmp/qkscope-heads-XXXXXX";

static const char *file_of(const char *text, size_t size)
{
    static char named[sizeof path + 1];
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    snprintf(named, sizeof named, "@%s", path);
    return named;
}
#define FILE_OF(text) file_of(text, sizeof(text) - 1)

static void files(void **state)
{
    (void)state;
    expect(FILE_OF("2:1"), ".... .... .#.. .... ....");
    expect(FILE_OF("# two\n\n  2:1  # why\r\n\t\n3:0,3:2\n"), ".... .... .#.. #.#. ....");
    expect(FILE_OF("1:*\n#"), ".... #### .... .... ....");
    refuse(FILE_OF(""), "names no heads");
    refuse(FILE_OF("# nothing\n\n"), "names no heads");
    refuse(FILE_OF("2:1\n\n9-2:*\n"), "line 3: \"9-2:*\"");
    refuse(FILE_OF("2:1\n@other\n"), "line 2: \"@other\"");
    refuse(FILE_OF("2:1\n\0003:1\n"), "zero byte");
    refuse("@", "@");
    refuse("@/nowhere/at/all", "/nowhere/at/all");
    refuse("@/", "@/");
    refuse("@/dev/null", "@/dev/null");
    static char many[5 << 20];
    for (size_t i = 0; i < sizeof many; i += 4)
        memcpy(many + i, "2:1\n", 4);
    refuse(file_of(many, sizeof many), "more than");
    refuse(file_of(many, 4 << 20), "more than 262144 heads");
    expect(file_of(many, 1 << 20), ".... .... .#.. .... ....");
}

/* ---- back to text ----------------------------------------------------------------------- */

static void expect_json(const char *text, const char *wanted)
{
    qk_head_set set = {0};
    if (text)
        assert_int_equal(qk_head_set_parse(text, &set, NULL), QK_OK);
    json_t *json = qk__json_head_set(&set);
    char *found = json_dumps(json, JSON_ENCODE_ANY | JSON_COMPACT);
    assert_string_equal(found, wanted);
    free(found);
    json_decref(json);
    qk_head_set_free(&set);
}

static void json(void **state)
{
    (void)state;
    expect_json(NULL, "null");
    expect_json("7,0-2,1", "[0,1,2,7]");
    expect_json("2:1,14-23:*,2:0-3,5", "[\"2:1\",\"14-23:*\",\"2:0-3\",\"5\"]");
    expect_json("*", "[\"*\"]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good),
        cmocka_unit_test(bad),
        cmocka_unit_test(files),
        cmocka_unit_test(json),
    };
    int made = mkstemp(path);
    if (made < 0)
        return EXIT_FAILURE;
    close(made);
    int failed = cmocka_run_group_tests_name("head_set", tests, NULL, NULL);
    unlink(path);
    return failed;
}
