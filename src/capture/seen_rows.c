/* SPDX-License-Identifier: Apache-2.0 */
/* The last position of each text, or a set of rows: two tables with linear probing, which use the same memory. */
#include "capture/seen_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/rng.h"

qk_status qk__seen_rows_start(qk__seen_rows *seen, int64_t rows, qk_error *err)
{
    const size_t least = 64; /* texts of a head of few rows */
    size_t bytes = (size_t)rows * 2 * sizeof(uint32_t) + least * sizeof(qk__seen_text);
    if (bytes > seen->bytes) {
        free(seen->memory);
        seen->bytes = 0;
        seen->memory = qk__calloc(bytes, 1);
        if (!seen->memory)
            return qk__nomem(err);
        seen->bytes = bytes;
    } else {
        memset(seen->memory, 0, bytes);
    }
    seen->places = bytes / sizeof(uint32_t);
    seen->texts = bytes / sizeof(qk__seen_text);
    seen->known = 0;
    seen->text = NULL;
    return QK_OK;
}

bool qk__seen_rows_follow(qk__seen_rows *seen, int64_t example, int64_t position)
{
    qk__seen_text *all = seen->memory, *text = seen->text;
    if (!text || text->example != example) {
        size_t at = (size_t)(qk__mix((uint64_t)example) % seen->texts);
        while (all[at].known && all[at].example != example)
            at = at + 1 < seen->texts ? at + 1 : 0;
        text = seen->text = &all[at];
        if (!text->known) {
            *text = (qk__seen_text){example, position, true};
            return 4 * ++seen->known <= 3 * seen->texts;
        }
    }
    bool behind = position > text->last;
    text->last = position;
    return behind;
}

bool qk__seen_rows_add(qk__seen_rows *seen, int64_t example, int64_t position)
{
    const uint64_t x = qk__mix((uint64_t)example * QK__MIX_STEP + (uint64_t)position);
    uint32_t *places = seen->memory, mark = (uint32_t)x | 1; /* 0: free */
    uint64_t at = seen->places >> 32 ? x % seen->places : (x >> 32) * seen->places >> 32;
    while (places[at] != 0 && places[at] != mark)
        at = at + 1 < seen->places ? at + 1 : 0;
    bool there = places[at] != 0;
    places[at] = mark;
    return there;
}
