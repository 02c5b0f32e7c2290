/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture takes on disk: bytes of rows, and of moments by the layout of their files. */
#include <assert.h>

#include <qkscope/recorder.h>

static int64_t product(int64_t a, int64_t b)
{
    int64_t c;
    return __builtin_mul_overflow(a, b, &c) ? INT64_MAX : c;
}

static int64_t sum(int64_t a, int64_t b)
{
    int64_t c;
    return __builtin_add_overflow(a, b, &c) ? INT64_MAX : c;
}

/* Of one head: count, mean_t, sum_tt, mean, sum_xt, and the upper triangle of sum_xx. */
static int64_t numbers_of_group(int64_t dim)
{
    return 3 + 2 * dim + dim * (dim + 1) / 2;
}

/* The same with the diagonal alone. */
static int64_t numbers_of_bucket(int64_t dim)
{
    return 3 + 3 * dim;
}

/* Arrays of so many heads of a layer and kind. */
static int64_t moment_bytes(int64_t heads, int64_t dim, int64_t groups, int64_t buckets)
{
    if (heads == 0)
        return 0;
    int64_t labels =
        4 * heads + groups + 1 + buckets; /* heads, texts, positions; group, mask */
    int64_t numbers = groups * numbers_of_group(dim) + buckets * numbers_of_bucket(dim);
    return product(8, sum(labels, product(heads, numbers)));
}

static int64_t count_heads(const bool *heads, int layer, int num_heads)
{
    int64_t count = 0;
    for (int h = 0; h < num_heads; h++)
        count += heads[(size_t)layer * (size_t)num_heads + (size_t)h];
    return count;
}

void qk_recorder_measure(const qk_recorder_selection *selection, const qk_model_facts *facts,
                         const qk_recorder_amount *amount, qk_recorder_sizes *sizes)
{
    assert(selection && facts && amount && sizes);
    int64_t dim = facts->head_dim, buckets = amount->buckets;
    int64_t groups = amount->groups > 0 ? amount->groups : 1;
    int64_t of_group = 8 * groups * numbers_of_group(dim);
    int64_t of_text = product(amount->reservoir, buckets);
    *sizes = (qk_recorder_sizes){
        .rows = product(amount->texts, amount->tokens),
        .reservoir_rows =
            product(amount->texts, of_text < amount->tokens ? of_text : amount->tokens),
        .row_bytes =
            (int64_t)(selection->num_q + selection->num_k) * dim * (int64_t)sizeof(float),
        .query_bytes = of_group + 8 * buckets * numbers_of_bucket(dim),
        .key_bytes = of_group,
    };
    for (int layer = 0; layer < selection->num_layers; layer++) {
        int64_t q = count_heads(selection->q_heads, layer, selection->num_q_heads);
        int64_t k = count_heads(selection->k_heads, layer, selection->num_k_heads);
        sizes->moment_files += q + k > 0;
        sizes->moment_bytes =
            sum(sizes->moment_bytes,
                sum(moment_bytes(q, dim, groups, buckets), moment_bytes(k, dim, groups, 0)));
    }
}
