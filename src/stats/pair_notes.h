/* SPDX-License-Identifier: Apache-2.0 */
/* Which pairs of its blocks query buckets have drawn of a long example, noted when it is met first. Each
 * repetition of a jackknife meets the same ones, and finding them in the sets takes longer than reading them. */
#ifndef QK_STATS_PAIR_NOTES_H
#define QK_STATS_PAIR_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeros: none. Numbers are below 2^16, since a block has fewer pairs. */
typedef struct qk__pair_notes {
    uint16_t *item;
    size_t used, capacity;
    size_t *start; /* [keys] where those of the example that begins here lie; SIZE_MAX: none */
} qk__pair_notes;

/* Room for examples of so many keys together, unless it is there. False: there is none, which costs time alone. */
bool qk__pair_notes_open(qk__pair_notes *notes, size_t keys);
void qk__pair_notes_free(qk__pair_notes *notes);

/* Room for so many more numbers, which are in use then; NULL: there is none. */
uint16_t *qk__pair_notes_add(qk__pair_notes *notes, size_t count);

#endif
