/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: any bytes as JSON, against jansson's own parser: what that one takes, ours takes
 * as the same value; what ours takes beyond it are the numbers, the keys and the halves of surrogate pairs that ours is
 * there for. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ours does not look at numbers with more digits than this. jansson takes a zero byte for the
 * end of the text. */
enum { MAX_COMPARED = 1000 };

static int has(const uint8_t *data, size_t size, const char *word)
{
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= size; i++)
        if (memcmp(data + i, word, length) == 0)
            return 1;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *ours, *strict;
    json_error_t why;
    qk_error err;
    qk_status status = qk__json_parse(&ours, data, size, QK__JSON_LINE, &err);
    if ((status == QK_OK) != (ours != NULL) || (status != QK_OK && err.status != status))
        abort();
    if (qk__json_parse(&strict, data, size, QK__JSON_GIVEN, NULL) == QK_OK &&
        !json_equal(ours, strict))
        abort();
    json_t *theirs =
        size <= MAX_COMPARED && !(size > 0 && memchr(data, 0, size))
            ? json_loadb((const char *)data, size,
                         JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why)
            : NULL;
    if (theirs && !json_equal(ours, theirs))
        abort();
    if (!theirs && ours && size <= MAX_COMPARED && !memchr(data, 0, size) &&
        json_error_code(&why) != json_error_numeric_overflow &&
        json_error_code(&why) != json_error_null_byte_in_key && !has(data, size, "NaN") &&
        !has(data, size, "Infinity") && !has(data, size, "\\ud") && !has(data, size, "\\uD"))
        abort();
    json_decref(ours);
    json_decref(strict);
    json_decref(theirs);
    return 0;
}
