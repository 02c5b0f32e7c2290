/* SPDX-License-Identifier: Apache-2.0 */
/* Room for notes. */
#include "stats/pair_notes.h"

#include <stdlib.h>

#include "base/buffer.h"

enum { MOST = 1 << 22 /* numbers */ };

bool qk__pair_notes_open(qk__pair_notes *notes, size_t keys)
{
    if (notes->start)
        return true;
    notes->start = qk__calloc(keys, sizeof *notes->start);
    for (size_t i = 0; notes->start && i < keys; i++)
        notes->start[i] = SIZE_MAX;
    return notes->start != NULL;
}

void qk__pair_notes_free(qk__pair_notes *notes)
{
    free(notes->item);
    free(notes->start);
    *notes = (qk__pair_notes){0};
}

uint16_t *qk__pair_notes_add(qk__pair_notes *notes, size_t count)
{
    if (count > MOST - notes->used)
        return NULL;
    while (notes->used + count > notes->capacity) {
        uint16_t *more = qk__grow(notes->item, &notes->capacity, sizeof *more);
        if (!more)
            return NULL;
        notes->item = more;
    }
    notes->used += count;
    return notes->item + notes->used - count;
}
