/* SPDX-License-Identifier: Apache-2.0 */
/* The words for what a capture keeps. */
#include <stdlib.h>
#include <string.h>

#include <qkscope/sink.h>

#include "base/error.h"
#include "base/parse_number.h"

static bool is_word(const char *begin, size_t size, const char *word)
{
    return strlen(word) == size && strncmp(begin, word, size) == 0;
}

/* "NAME=7": the number, from 1 to most; false: it is another word. */
static bool read_count(const char *word, size_t size, const char *name, int most, int *count)
{
    const size_t before = strlen(name);
    char digits[16] = "";
    int64_t number;
    if (size <= before || strncmp(word, name, before) != 0 || size >= before + 10)
        return false;
    memcpy(digits, word + before, size - before);
    *count =
        qk__parse_integer(digits, &number) && number > 0 && number <= most ? (int)number : 0;
    return true;
}

static qk_status take_word(const char *word, size_t size, qk_keep *keep, qk_error *err)
{
    enum { MOST_ROWS = 1000000 };
    if (is_word(word, size, "rows")) {
        keep->rows = true;
    } else if (is_word(word, size, "moments")) {
        keep->moments = true;
    } else if (is_word(word, size, "attention")) {
        keep->attention = true;
    } else if (read_count(word, size, "reservoir=", MOST_ROWS, &keep->reservoir)) {
        if (keep->reservoir == 0)
            return qk__fail(err, QK_ERR_ARGUMENT,
                            "%.*s: give 1 to %d rows of a text and bucket", (int)size, word,
                            MOST_ROWS);
    } else if (read_count(word, size, "first=", QK_MOST_FIRST, &keep->first)) {
        if (keep->first == 0)
            return qk__fail(err, QK_ERR_ARGUMENT, "%.*s: give 1 to %d first positions",
                            (int)size, word, QK_MOST_FIRST);
    } else {
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "'%.*s': give rows, moments, rows,moments, moments,reservoir=N or "
                        "moments,first=N, and perhaps attention",
                        (int)size, word);
    }
    return QK_OK;
}

qk_status qk_keep_parse(const char *text, qk_keep *keep, qk_error *err)
{
    QK_NEED(err, text, keep);
    qk_keep found = {.groups = keep->groups};
    for (const char *word = text;; word++) {
        size_t size = strcspn(word, ",");
        QK_TRY(take_word(word, size, &found, err));
        word += size;
        if (!*word)
            break;
    }
    if (found.attention && !found.rows && !found.moments)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "attention goes with rows or moments: give rows,attention or "
                        "moments,attention");
    if (found.reservoir > 0 && !found.moments)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "a reservoir goes with moments: give moments,reservoir=%d",
                        found.reservoir);
    if (found.first > 0 && !found.moments)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "first positions go with moments: give moments,first=%d", found.first);
    if (found.reservoir > 0 && found.rows)
        return qk__fail(
            err, QK_ERR_ARGUMENT,
            "a reservoir is a part of the rows: give rows or reservoir=%d, not both",
            found.reservoir);
    *keep = found;
    return QK_OK;
}
