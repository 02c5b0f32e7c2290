/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lines "seed n k" and prints the numbers that qk__py_sample draws. */
#include <stdio.h>
#include <stdlib.h>

#include "base/py_random.h"

int main(void)
{
    long long seed;
    size_t n;
    size_t k;
    while (scanf("%lld %zu %zu", &seed, &n, &k) == 3) {
        qk_error err;
        size_t *out = calloc(k + 1, sizeof *out);
        if (!out || qk__py_sample(seed, n, k, out, &err) != QK_OK)
            return 1;
        for (size_t i = 0; i < k; i++)
            printf("%zu%s", out[i], i + 1 < k ? " " : "");
        putchar('\n');
        free(out);
    }
    return 0;
}
