/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture keeps, in words. */
#include <stdlib.h>
#include <string.h>

#include <qkscope/sink.h>

#include "base/error.h"
#include "base/parse_number.h"

static bool is_word(const char *begin, size_t size, const char *word)
{
    return strlen(word) == size && strncmp(begin, word, size) == 0;
}

static qk_status take_word(const char *word, size_t size, qk_keep *keep, qk_error *err)
{
    static const char RESERVOIR[] = "reservoir=";
    const size_t before = sizeof RESERVOIR - 1;
    if (is_word(word, size, "rows")) {
        keep->rows = true;
    } else if (is_word(word, size, "moments")) {
        keep->moments = true;
    } else if (size > before && strncmp(word, RESERVOIR, before) == 0 && size < before + 10) {
        char digits[16] = "";
        int64_t count;
        memcpy(digits, word + before, size - before);
        if (!qk__parse_integer(digits, &count) || count < 1 || count > 1000000)
            return qk__fail(err, QK_ERR_ARGUMENT,
                            "reservoir=%s: give 1 to 1000000 rows of a text and bucket",
                            digits);
        keep->reservoir = (int)count;
    } else {
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "'%.*s': give rows, moments, rows,moments or moments,reservoir=N",
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
    if (found.reservoir > 0 && !found.moments)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "a reservoir goes with moments: give moments,reservoir=%d",
                        found.reservoir);
    if (found.reservoir > 0 && found.rows)
        return qk__fail(
            err, QK_ERR_ARGUMENT,
            "a reservoir is a part of the rows: give rows or reservoir=%d, not both",
            found.reservoir);
    *keep = found;
    return QK_OK;
}
