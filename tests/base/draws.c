/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lines "python|numpy seed n k" and prints the numbers that qk__py_sample draws, or those of qk__numpy_choice in
 * ascending order; "refused" where there are none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/numpy_random.h"
#include "base/py_random.h"

static qk_status draw_python(int64_t seed, size_t n, size_t k)
{
    qk_error err;
    size_t *out = calloc(k + 1, sizeof *out);
    qk_status status = out ? qk__py_sample(seed, n, k, out, &err) : QK_ERR_NOMEM;
    for (size_t i = 0; i < k && status == QK_OK; i++)
        printf("%zu ", out[i]);
    free(out);
    return status;
}

static qk_status draw_numpy(int64_t seed, size_t n, size_t k)
{
    qk_error err;
    bool *chosen = calloc(n + 1, sizeof *chosen);
    qk_status status = chosen ? qk__numpy_choice(seed, n, k, chosen, &err) : QK_ERR_NOMEM;
    for (size_t i = 0; i < n && status == QK_OK; i++)
        if (chosen[i])
            printf("%zu ", i);
    free(chosen);
    return status;
}

int main(void)
{
    char whose[8];
    long long seed;
    size_t n, k;
    while (scanf("%7s %lld %zu %zu", whose, &seed, &n, &k) == 4) {
        qk_status status =
            strcmp(whose, "numpy") == 0 ? draw_numpy(seed, n, k) : draw_python(seed, n, k);
        puts(status == QK_OK ? "" : "refused");
    }
    return 0;
}
