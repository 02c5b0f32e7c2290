/* SPDX-License-Identifier: Apache-2.0 */
/* Edit distance (Levenshtein's, with a swap of neighbours as one edit), and guesses by it. */
#include "base/spelling.h"

#include <string.h>

#include <qkscope/common.h>

int qk__edit_distance(const char *a, const char *b)
{
    int rows[3][QK_MAX_WORD + 1];
    int *before = rows[0], *last = rows[1], *row = rows[2];
    int length = (int)strlen(b);
    for (int j = 0; j <= length; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int *oldest = before;
        before = last;
        last = row;
        row = oldest;
        row[0] = i;
        for (int j = 1; j <= length; j++) {
            int best = last[j - 1] + (a[i - 1] != b[j - 1]);
            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            row[j] = swapped && before[j - 2] + 1 < best ? before[j - 2] + 1 : best;
        }
    }
    return row[length];
}

/* In small letters, so that "PCA" is near "pca"; as much as there is room for. */
static void lower(const char *word, size_t length, char small[QK_MAX_WORD])
{
    size_t i = 0;
    for (; i < length && i + 1 < QK_MAX_WORD; i++)
        small[i] = (char)(word[i] >= 'A' && word[i] <= 'Z' ? word[i] - 'A' + 'a' : word[i]);
    small[i] = 0;
}

qk__guess qk__guess_begin(const char *word, size_t length)
{
    qk__guess guess = {.least = length < 3 ? 2 : length < 5 ? 3 : 4};
    lower(word, length < QK_MAX_WORD ? length : 0, guess.word);
    return guess;
}

void qk__guess_try(qk__guess *guess, const char *known)
{
    enum { LEAST_PREFIX = 3 };
    char small[QK_MAX_WORD];
    size_t length = strlen(guess->word);
    if (length == 0 || strlen(known) >= QK_MAX_WORD)
        return;
    lower(known, strlen(known), small);
    bool begins = length >= LEAST_PREFIX && strncmp(guess->word, small, length) == 0;
    int distance = begins ? 1 : qk__edit_distance(guess->word, small);
    if (distance < guess->least && distance < (int)length) { /* not all letters new */
        guess->least = distance;
        guess->nearest = known;
    }
}

const char *qk_nearest_word(const char *word, const char *const *words)
{
    if (!word || !words)
        return NULL;
    qk__guess guess = qk__guess_begin(word, strlen(word));
    for (; *words; words++)
        qk__guess_try(&guess, *words);
    return guess.nearest;
}
