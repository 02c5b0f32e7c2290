/* SPDX-License-Identifier: Apache-2.0 */
/* Finds slips in a condition: categories that are misspelt or lack their quotes, and << or >> for < or >. */
#include <string.h>

#include <qkscope/stats.h>

#include "base/error.h"
#include "base/spelling.h"
#include "base/utf8.h"
#include "tables/store.h"

/* Refuses a text that is nearly a category. */
static qk_status check_text(const char *text, size_t length, qk_error *err)
{
    qk__guess guess = qk__guess_begin(text, length);
    for (int i = 0; i < QK_NUM_CATEGORIES; i++) {
        const char *name = qk_category_name((qk_category)i);
        if (strlen(name) == length && memcmp(name, text, length) == 0)
            return QK_OK;
        qk__guess_try(&guess, name);
    }
    return guess.nearest ? qk__fail(err, QK_ERR_ARGUMENT,
                                    "there is no category '%.*s' (did you mean %s?)",
                                    (int)length, text, guess.nearest)
                         : QK_OK;
}

qk_status qk__check_categories(const char *condition, qk_error *err)
{
    const char *at = strchr(condition, '\'');
    while (at) {
        const char *text = at + 1, *end = strchr(text, '\'');
        if (!end)
            return QK_OK;
        QK_TRY(check_text(text, (size_t)(end - text), err));
        at = strchr(end + 1, '\'');
    }
    return QK_OK;
}

const char *qk__category_at(const char *text)
{
    for (int i = 0; i < QK_NUM_CATEGORIES; i++) {
        const char *name = qk_category_name((qk_category)i);
        if (strncmp(text + (*text == '"'), name, strlen(name)) == 0)
            return name;
    }
    return NULL;
}

qk_status qk__check_shifts(const char *text, qk_error *err)
{
    char quote = 0;
    for (const char *c = text; *c; c++) {
        if (quote ? *c == quote : *c == '\'' || *c == '"')
            quote = quote ? 0 : *c;
        else if (!quote && (*c == '<' || *c == '>') && c[1] == *c)
            return qk__fail(
                err, QK_ERR_ARGUMENT,
                "character %d: %c%c moves the bits of a number; write %c to compare",
                qk__utf8_count(text, (int)(c - text)) + 1, *c, *c, *c);
    }
    return QK_OK;
}
