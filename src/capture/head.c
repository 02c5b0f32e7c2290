/* SPDX-License-Identifier: Apache-2.0 */
/* Names and order of heads: "l00h12q" and back; folders of packed files: "l00q". */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "capture/capture.h"

void qk_head_name(qk_head_id id, char name[QK_HEAD_NAME_SIZE])
{
    assert(name);
    snprintf(name, QK_HEAD_NAME_SIZE, "l%02dh%02d%c", id.layer, id.head,
             id.kind == QK_QUERY ? 'q' : 'k');
}

/* Reads digits at *text, moving it behind them; false if there are none or the number is
 * above QK_MAX_HEAD_NUMBER. */
static bool parse_number(const char **text, int *number)
{
    const char *p = *text;
    int value = 0;
    for (; *p >= '0' && *p <= '9'; p++) {
        value = value * 10 + (*p - '0');
        if (value > QK_MAX_HEAD_NUMBER)
            return false;
    }
    if (p == *text)
        return false;
    *text = p;
    *number = value;
    return true;
}

void qk__layer_name(int layer, qk_kind kind, char name[QK_HEAD_NAME_SIZE])
{
    snprintf(name, QK_HEAD_NAME_SIZE, "l%02d%c", layer, kind == QK_QUERY ? 'q' : 'k');
}

/* l{layer}{q|k}, or with a head l{layer}h{head}{q|k}. */
static bool parse_name(const char *name, bool head, qk_head_id *id)
{
    qk_head_id parsed = {0};
    if (*name++ != 'l' || !parse_number(&name, &parsed.layer))
        return false;
    if (head && (*name++ != 'h' || !parse_number(&name, &parsed.head)))
        return false;
    if ((*name != 'q' && *name != 'k') || name[1] != 0)
        return false;
    parsed.kind = *name == 'q' ? QK_QUERY : QK_KEY;
    *id = parsed;
    return true;
}

bool qk_head_parse(const char *name, qk_head_id *id)
{
    assert(name && id);
    return parse_name(name, true, id);
}

bool qk__layer_parse(const char *name, qk_head_id *id)
{
    return parse_name(name, false, id);
}

int qk__head_compare(qk_head_id a, qk_head_id b)
{
    if (a.layer != b.layer)
        return a.layer < b.layer ? -1 : 1;
    if (a.head != b.head)
        return a.head < b.head ? -1 : 1;
    return (a.kind > b.kind) - (a.kind < b.kind);
}
