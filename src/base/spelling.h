/* SPDX-License-Identifier: Apache-2.0 */
/* The distance between words, to guess what was meant. */
#ifndef QK_BASE_SPELLING_H
#define QK_BASE_SPELLING_H

#include <stddef.h>

enum { QK_MAX_WORD = 64 };

/* The number of edits (a letter put in, left out or changed, or two swapped) from a to b, both shorter than
 * QK_MAX_WORD. */
int qk__edit_distance(const char *a, const char *b);

/* The word that a wrong one most likely means: the word with the fewest edits, or with that beginning. */
typedef struct qk__guess {
    char word[QK_MAX_WORD]; /* "" = too long to be one */
    int least;              /* edits that are too many */
    const char *nearest;    /* NULL: none is near */
} qk__guess;

qk__guess qk__guess_begin(const char *word, size_t length);
void qk__guess_try(qk__guess *guess, const char *known);

#endif
