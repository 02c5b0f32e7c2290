/* SPDX-License-Identifier: Apache-2.0 */
/* Replacing $NAME and ${NAME} by what the environment has. */
#include "base/expand.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* Longer names are not looked up. */
enum { MAX_NAME = 256 };

const char *qk__environment(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_';
}

/* The value of the variable at text, which starts with '$'; NULL if there is none. *length is its length in the text. */
static const char *look_up(const char *text, size_t size, size_t *length)
{
    bool braces = size > 1 && text[1] == '{';
    size_t start = braces ? 2 : 1;
    size_t end = start;
    while (end < size && (braces ? text[end] != '}' : is_name_char(text[end])))
        end++;
    size_t count = end - start;
    *length = end + braces;
    if (count == 0 || count >= MAX_NAME || (braces && end == size))
        return NULL;
    char name[MAX_NAME];
    memcpy(name, text + start, count);
    name[count] = 0;
    return getenv(name);
}

qk_status qk__expand_variables(const char *text, size_t size, size_t limit, qk__buffer *out,
                               qk_error *err)
{
    for (size_t i = 0; i < size;) {
        const char *dollar = memchr(text + i, '$', size - i);
        size_t plain = dollar ? (size_t)(dollar - (text + i)) : size - i;
        const char *value = NULL;
        size_t taken = 0;
        if (dollar)
            value = look_up(dollar, size - i - plain, &taken);
        if (dollar && !value) {
            plain++; /* the dollar stays */
            taken = 0;
        }
        size_t added = plain + (value ? strlen(value) : 0);
        if (added > limit || out->size > limit - added)
            return qk__fail(err, QK_ERR_MALFORMED,
                            "more than the %zu bytes allowed once variables are expanded",
                            limit);
        QK_TRY(qk__buffer_append(out, text + i, plain, err));
        if (value)
            QK_TRY(qk__buffer_append(out, value, strlen(value), err));
        i += plain + taken;
    }
    QK_TRY(qk__buffer_reserve(out, out->size + 1, err));
    out->data[out->size] = 0;
    return QK_OK;
}
