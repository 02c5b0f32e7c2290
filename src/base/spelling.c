/* SPDX-License-Identifier: Apache-2.0 */
/* Edit distance (Levenshtein), one row of its table at a time. */
#include "base/spelling.h"

#include <string.h>

int qk__edit_distance(const char *a, const char *b)
{
    int row[QK_MAX_WORD + 1];
    int length = (int)strlen(b);
    for (int j = 0; j <= length; j++)
        row[j] = j;
    for (int i = 0; a[i]; i++) {
        int diagonal = row[0];
        row[0] = i + 1;
        for (int j = 1; j <= length; j++) {
            int best = diagonal + (a[i] != b[j - 1]);
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[length];
}
