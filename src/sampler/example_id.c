/* SPDX-License-Identifier: Apache-2.0 */
/* Integer ids for texts whose ids are words or numbers of another kind. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <blake2.h>

#include <qkscope/recorder.h>

#include "base/number.h"

#define TWO_63 9223372036854775808.0

int64_t qk_example_id_of_text(const char *text, size_t size)
{
    /* A digest of 8 bytes is not the start of a longer one. With these arguments the call
     * cannot fail. */
    uint8_t digest[8] = {0};
    blake2b(digest, text ? text : "", NULL, sizeof digest, size, 0);
    uint64_t id = 0;
    for (int i = 0; i < 8; i++)
        id |= (uint64_t)digest[i] << (8 * i);
    int64_t value;
    memcpy(&value, &id, sizeof value);
    return value;
}

int64_t qk_example_id_of_number(double number)
{
    if (number == trunc(number) && number >= -TWO_63 && number < TWO_63)
        return (int64_t)number;
    char text[400]; /* the largest double has 309 digits */
    if (isnan(number))
        snprintf(text, sizeof text, "nan");
    else if (isinf(number))
        snprintf(text, sizeof text, "%s", number < 0 ? "-inf" : "inf");
    else if (fabs(number) >= TWO_63) /* a whole number that does not fit: its decimal text */
        snprintf(text, sizeof text, "%.0f", number);
    else
        qk__format_number(number, text);
    return qk_example_id_of_text(text, strlen(text));
}
