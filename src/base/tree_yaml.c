/* SPDX-License-Identifier: Apache-2.0 */
/* Scalars of YAML: their text, and which of them are words. */
#include "base/tree_yaml.h"

#include <string.h>

const char *qk__yaml_text(const qk__yaml *value)
{
    return value->kind == QK__SCALAR && strlen(value->text) == value->length ? value->text
                                                                             : NULL;
}

bool qk__yaml_is_one_of(const qk__yaml *value, const char *const *words)
{
    const char *text = value->plain ? qk__yaml_text(value) : NULL;
    for (; text && *words; words++)
        if (strcmp(text, *words) == 0)
            return true;
    return false;
}

bool qk__yaml_is_null(const qk__yaml *value)
{
    static const char *const WORDS[] = {"", "~", "null", "Null", "NULL", NULL};
    return qk__yaml_is_one_of(value, WORDS);
}
