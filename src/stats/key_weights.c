/* SPDX-License-Identifier: Apache-2.0 */
/* What chosen keys stand for. */
#include "stats/key_weights.h"

#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"

/* Of one group of texts, without those of their buckets that are here as a whole: how many keys
 * there were, and how many of them are here. */
typedef struct rest {
    int64_t keys, here;
} rest;

static qk_status find_group(const qk__reservoir *reservoir, int64_t text, size_t *group,
                            qk_error *err)
{
    for (*group = 0; *group < reservoir->num_groups; ++*group)
        if (reservoir->label[*group] == ((uint64_t)text & reservoir->mask))
            return QK_OK;
    return qk__fail(
        err, QK_ERR_INCONSISTENT,
        "the rows have a text, %lld, that the moments have no rows of: they are not of one "
        "capture: fetch both again, or capture again",
        (long long)text);
}

static qk_status count_rest(const qk__key_index *index, const qk_block *keys,
                            const qk__reservoir *reservoir, rest *rests, qk_error *err)
{
    for (size_t g = 0; g < reservoir->num_groups; g++)
        rests[g] = (rest){.keys = reservoir->count[g]};
    for (size_t e = 0; e < index->num_examples; e++) {
        size_t g;
        QK_TRY(find_group(reservoir, keys->example[index->row[index->start[e]]], &g, err));
        for (size_t i = index->start[e], next; i < index->start[e + 1]; i = next) {
            next = qk__key_index_bucket_end(index, i, index->start[e + 1]);
            int64_t here = (int64_t)(next - i);
            if (here < reservoir->most)
                rests[g].keys -= here;
            else
                rests[g].here += here;
        }
    }
    return QK_OK;
}

/* Whether any key stands for more than itself. */
static qk_status set_sizes(qk__key_index *index, const qk_block *keys,
                           const qk__reservoir *reservoir, const rest *rests, bool *more,
                           qk_error *err)
{
    *more = false;
    for (size_t e = 0; e < index->num_examples; e++) {
        size_t g;
        QK_TRY(find_group(reservoir, keys->example[index->row[index->start[e]]], &g, err));
        if (rests[g].keys > 0 && rests[g].here == 0)
            return qk__fail(
                err, QK_ERR_INCONSISTENT,
                "%lld keys of text %lld and its group are not here, though none of their "
                "buckets has %lld, as many as keep.reservoir in capture.json says: fetch "
                "capture.json again, or capture again",
                (long long)rests[g].keys, (long long)keys->example[index->row[index->start[e]]],
                (long long)reservoir->most);
        if (rests[g].keys < rests[g].here)
            return qk__fail(
                err, QK_ERR_INCONSISTENT,
                "there are more rows of text %lld and its group than moments say: they "
                "are not of one capture: fetch both again, or capture again",
                (long long)keys->example[index->row[index->start[e]]]);
        for (size_t i = index->start[e], next; i < index->start[e + 1]; i = next) {
            next = qk__key_index_bucket_end(index, i, index->start[e + 1]);
            double all = (double)(next - i);
            if ((int64_t)(next - i) >= reservoir->most)
                all *= (double)rests[g].keys / (double)rests[g].here;
            *more = *more || all > (double)(next - i);
            for (size_t k = i; k < next; k++)
                index->chosen_of[k] = all;
        }
    }
    return QK_OK;
}

qk_status qk__reservoir_weigh(qk__key_index *index, const qk_block *keys,
                              const qk__reservoir *reservoir, qk_error *err)
{
    bool more = false;
    rest *rests = qk__calloc(reservoir->num_groups + 1, sizeof *rests);
    qk_status status =
        rests && qk__key_index_allocate_weights(index, index->rows) ? QK_OK : qk__nomem(err);
    if (status == QK_OK)
        status = count_rest(index, keys, reservoir, rests, err);
    if (status == QK_OK)
        status = set_sizes(index, keys, reservoir, rests, &more, err);
    free(rests);
    if (status == QK_OK && more) {
        qk__key_index_set_weights(index);
        return QK_OK;
    }
    free(index->chosen_of);
    index->chosen_of = index->weight = index->alike = NULL;
    return status;
}
