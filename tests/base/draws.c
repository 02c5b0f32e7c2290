/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lines "seed n k" and prints the numbers that qk__py_sample draws; "refused" where there are none. */
#include <stdio.h>
#include <stdlib.h>

#include "base/py_random.h"

static qk_status draw(int64_t seed, size_t n, size_t k)
{
    qk_error err;
    size_t *out = calloc(k + 1, sizeof *out);
    qk_status status = out ? qk__py_sample(seed, n, k, out, &err) : QK_ERR_NOMEM;
    for (size_t i = 0; i < k && status == QK_OK; i++)
        printf("%zu ", out[i]);
    free(out);
    return status;
}

int main(void)
{
    long long seed;
    size_t n, k;
    while (scanf("%lld %zu %zu", &seed, &n, &k) == 3) {
        puts(draw(seed, n, k) == QK_OK ? "" : "refused");
    }
    return 0;
}
