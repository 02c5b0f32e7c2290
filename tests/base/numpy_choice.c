/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lines "seed n k" and prints the numbers that qk__numpy_choice draws, ascending. */
#include <stdio.h>
#include <stdlib.h>

#include "base/numpy_random.h"

int main(void)
{
    long long seed;
    size_t n;
    size_t k;
    while (scanf("%lld %zu %zu", &seed, &n, &k) == 3) {
        qk_error err;
        bool *chosen = calloc(n + 1, sizeof *chosen);
        if (!chosen || qk__numpy_choice(seed, n, k, chosen, &err) != QK_OK)
            return 1;
        for (size_t i = 0; i < n; i++)
            if (chosen[i])
                printf("%zu ", i);
        putchar('\n');
        free(chosen);
    }
    return 0;
}
