/* SPDX-License-Identifier: Apache-2.0 */
/* Drawing query heads, and the key heads that follow from them. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/recorder.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/py_random.h"
#include "sampler/sampler.h"

static size_t list_candidates(const bool *candidates, size_t total, size_t *list)
{
    size_t count = 0;
    for (size_t i = 0; i < total; i++)
        if (candidates[i])
            list[count++] = i;
    return count;
}

qk_status qk__sample_query_heads(const bool *candidates, int num_layers, int num_q_heads,
                                 int count, int64_t seed, bool *chosen, qk_error *err)
{
    if (count < 1 || num_layers < 1 || num_q_heads < 1)
        return qk__fail(err, QK_ERR_ARGUMENT, "cannot draw %d heads of %d layers x %d heads",
                        count, num_layers, num_q_heads);
    size_t total = (size_t)num_layers * (size_t)num_q_heads;
    size_t *list = qk__calloc(total, sizeof *list);
    size_t *drawn = qk__calloc(total, sizeof *drawn);
    qk_status status = list && drawn ? QK_OK : qk__nomem(err);
    if (status == QK_OK) {
        size_t num = list_candidates(candidates, total, list);
        size_t wanted = num < (size_t)count ? num : (size_t)count;
        memset(chosen, 0, total * sizeof *chosen);
        if (num == 0)
            status = qk__fail(err, QK_ERR_DEGENERATE, "no heads to draw from");
        else
            status = qk__py_sample(seed, num, wanted, drawn, err);
        for (size_t i = 0; status == QK_OK && i < wanted; i++)
            chosen[list[drawn[i]]] = true;
    }
    free(list);
    free(drawn);
    return status;
}

void qk__key_heads_of(const bool *query_heads, int num_layers, int num_q_heads, int group,
                      bool *key_heads)
{
    assert(query_heads && key_heads && group > 0);
    int num_k_heads = num_q_heads / group;
    memset(key_heads, 0, (size_t)num_layers * (size_t)num_k_heads * sizeof *key_heads);
    for (int layer = 0; layer < num_layers; layer++)
        for (int head = 0; head < num_k_heads * group; head++)
            if (query_heads[(size_t)layer * (size_t)num_q_heads + (size_t)head])
                key_heads[(size_t)layer * (size_t)num_k_heads + (size_t)(head / group)] = true;
}
