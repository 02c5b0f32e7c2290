/* SPDX-License-Identifier: Apache-2.0 */
/* A list of different strings, and a table with linear probing that finds them. */
#include "capture/token_strings.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/error.h"
#include "base/utf8.h"

void qk__token_strings_free(qk__token_strings *strings)
{
    free(strings->at);
    free(strings->places);
    qk__buffer_free(&strings->bytes);
    *strings = (qk__token_strings){0};
}

/* Where the string is, or would be. */
static uint32_t *find_place(const qk__token_strings *s, qk__bytes string)
{
    size_t i = (size_t)XXH3_64bits(string.data, string.size) & (s->num_places - 1);
    for (; s->places[i] != 0; i = (i + 1) & (s->num_places - 1)) {
        const char *text = qk__token_text(s, s->places[i] - 1);
        if (strncmp(text, (const char *)string.data, string.size) == 0 &&
            text[string.size] == 0)
            break;
    }
    return s->places + i;
}

/* At least twice as many places as strings. */
static qk_status make_room(qk__token_strings *s, qk_error *err)
{
    enum { FIRST = 1024 };
    if (s->count == s->room) {
        uint32_t *more = qk__grow(s->at, &s->room, sizeof *more);
        if (!more)
            return qk__nomem(err);
        s->at = more;
    }
    if (2 * s->count < s->num_places)
        return QK_OK;
    const size_t places = s->num_places > 0 ? 2 * s->num_places : FIRST;
    uint32_t *more = qk__calloc(places, sizeof *more);
    if (!more)
        return qk__nomem(err);
    free(s->places);
    s->places = more;
    s->num_places = places;
    for (size_t i = 0; i < s->count; i++) {
        const char *text = qk__token_text(s, i);
        *find_place(s, (qk__bytes){(const uint8_t *)text, strlen(text)}) = (uint32_t)i + 1;
    }
    return QK_OK;
}

static qk_status add(qk__token_strings *s, qk__bytes string, int64_t *number, qk_error *err)
{
    QK_TRY(make_room(s, err));
    uint32_t *place = find_place(s, string);
    *number = (int64_t)*place - 1;
    if (*place != 0 || s->count == QK__MOST_TOKEN_STRINGS ||
        s->bytes.size > QK__MOST_TOKEN_STRING_BYTES)
        return QK_OK;
    s->at[s->count] = (uint32_t)s->bytes.size;
    QK_TRY(qk__buffer_append(&s->bytes, string.data, string.size, err));
    QK_TRY(qk__buffer_append(&s->bytes, "", 1, err));
    *number = (int64_t)s->count++;
    *place = (uint32_t)s->count;
    return QK_OK;
}

static qk_status add_cleaned(qk__token_strings *s, qk__bytes string, int64_t *number,
                             qk_error *err)
{
    uint8_t own[QK__MOST_TOKEN_BYTES];
    qk__buffer clean = {0};
    memcpy(own, string.data, string.size);
    for (size_t i = 0; i < string.size; i++)
        own[i] = own[i] == 0 ? 0xff : own[i];
    qk_status status = qk__utf8_clean(own, string.size, &clean, err);
    if (status == QK_OK)
        status = add(s, (qk__bytes){clean.data, clean.size}, number, err);
    qk__buffer_free(&clean);
    return status;
}

static qk_status number_of(qk__token_strings *strings, qk__bytes string, int64_t *number,
                           qk_error *err)
{
    *number = -1;
    if (!string.data)
        return QK_OK;
    if (string.size > QK__MOST_TOKEN_BYTES) { /* to the end of a character */
        string.size = QK__MOST_TOKEN_BYTES;
        while (string.size > 0 && (string.data[string.size] & 0xc0) == 0x80)
            string.size--;
    }
    if (qk__utf8_valid(string.data, string.size) == string.size &&
        !memchr(string.data, 0, string.size))
        return add(strings, string, number, err);
    return add_cleaned(strings, string, number, err);
}

qk_status qk__token_strings_add(qk__token_strings *strings, const char *text, int64_t *number,
                                qk_error *err)
{
    return add(strings, (qk__bytes){(const uint8_t *)text, strlen(text)}, number, err);
}

qk_status qk__token_strings_read(qk__token_strings *strings, qk__cursor *cursor,
                                 int64_t *numbers, size_t count, size_t *rows, qk_error *err)
{
    for (*rows = 0; *rows < count; ++*rows) {
        qk__bytes string;
        bool more;
        QK_TRY(qk__cursor_read_string(cursor, &string, &more, err));
        if (!more)
            break;
        QK_TRY(number_of(strings, string, &numbers[*rows], err));
    }
    return QK_OK;
}
