/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture takes on disk: bytes of rows, and bytes of sums by the layout of their files. */
#include <assert.h>

#include <qkscope/recorder.h>

#include "recorder/recording.h"
#include "sink/sink.h"
#include "state/layer_moments.h"

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

static int64_t window_size(const qk_recorder_amount *amount)
{
    const bool whole = amount->window <= 0 || amount->window > amount->tokens;
    const int64_t size = whole ? amount->tokens : amount->window;
    return size > 0 ? size : 1; /* it divides */
}

static int64_t count_windows(const qk_recorder_amount *amount)
{
    const int64_t size = window_size(amount);
    return (amount->tokens - 1) / size + 1;
}

/* As stats/text_groups.h has it, where the ids of texts count up. */
static int64_t count_groups(const qk_recorder_amount *amount)
{
    int64_t count = 1;
    if (amount->texts <= amount->groups)
        return amount->texts;
    while (2 * count <= amount->groups)
        count *= 2;
    return amount->groups > 0 ? count : 0;
}

static int64_t bucket_size(const qk_recorder_amount *amount)
{
    const int64_t longest = window_size(amount);
    return amount->buckets > 0 ? (longest - 1) / amount->buckets + 1
                               : qk__choose_bucket(QK_SAMPLER_ALL, longest);
}

static int64_t count_buckets(const qk_recorder_amount *amount)
{
    return amount->buckets > 0 ? amount->buckets
                               : (window_size(amount) - 1) / bucket_size(amount) + 1;
}

/* How many sets of sums there are. */
typedef struct set_counts {
    int64_t groups, buckets, bins; /* bins: of positions, for attention */
} set_counts;

static set_counts count_sets(const qk_recorder_amount *amount)
{
    const int64_t size = window_size(amount), groups = count_groups(amount);
    return (set_counts){.groups = groups > 0 ? groups : 1,
                        .buckets = count_buckets(amount),
                        .bins = qk_distance_bin(size - 1) + 1};
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Of a window of so many tokens. */
static int64_t reservoir_of(const qk_recorder_amount *amount, int64_t tokens)
{
    const int64_t size = bucket_size(amount);
    return tokens / size * least(amount->reservoir, size) +
           least(amount->reservoir, tokens % size);
}

static int64_t count_reservoir(const qk_recorder_amount *amount)
{
    const int64_t size = window_size(amount), whole = count_windows(amount) - 1;
    const int64_t last = reservoir_of(amount, amount->tokens - product(whole, size));
    return product(amount->texts, sum(product(whole, reservoir_of(amount, size)), last));
}

/* The sets of all blocks: each block has its own groups of texts, and shares at most one group with the block before
 * it. */
static set_counts count_block_sets(set_counts one, int64_t blocks)
{
    return (set_counts){.groups = sum(one.groups, blocks - 1),
                        .buckets = product(one.buckets, blocks),
                        .bins = product(one.bins, blocks)};
}

/* The arrays of so many heads of a layer and kind. */
static int64_t part_bytes(const qk_recorder_amount *amount, set_counts sets, int dim,
                          size_t heads, bool queries)
{
    qk__part_shape shape = {.dim = (size_t)dim, .num_heads = heads, .by_bucket = queries};
    if (heads == 0)
        return 0;
    int64_t bytes = qk__part_shape_bytes(&shape, (size_t)sets.groups, (size_t)sets.buckets);
    shape.by_bucket = false;
    return amount->first > 0 ? sum(bytes, qk__part_shape_bytes(&shape, (size_t)sets.groups, 0))
                             : bytes;
}

/* The sums of attention of so many heads of a layer. */
static int64_t attention_bytes(set_counts sets, size_t heads)
{
    qk__part_shape shape = {
        .dim = QK_ATTENTION_SUMS, .num_heads = heads, .by_bucket = true, .means = true};
    return heads > 0 ? qk__part_shape_bytes(&shape, (size_t)sets.groups, (size_t)sets.bins) : 0;
}

/* What another head takes. */
static int64_t head_bytes(const qk_recorder_amount *amount, int dim, bool queries)
{
    const set_counts sets = count_sets(amount);
    return part_bytes(amount, sets, dim, 2, queries) -
           part_bytes(amount, sets, dim, 1, queries);
}

static size_t count_heads(const bool *heads, int layer, int num_heads)
{
    size_t count = 0;
    for (int h = 0; h < num_heads; h++)
        count += heads[(size_t)layer * (size_t)num_heads + (size_t)h];
    return count;
}

static int64_t count_blocks(const qk_recorder_amount *amount)
{
    const int64_t windows = product(amount->texts, count_windows(amount));
    const qk_sink_settings settings = {
        .num_texts = windows,
        .num_tokens = product(amount->texts, amount->tokens),
        .keep = {.moments = amount->moments, .groups = amount->groups}};
    const int64_t size = qk__choose_block(&settings);
    return (windows - 1) / size + 1;
}

void qk_recorder_measure(const qk_recorder_selection *selection, const qk_model_facts *facts,
                         const qk_recorder_amount *amount, qk_recorder_sizes *sizes)
{
    assert(selection && facts && amount && sizes);
    int dim = facts->head_dim;
    *sizes = (qk_recorder_sizes){
        .rows = product(amount->texts, amount->tokens),
        .reservoir_rows = count_reservoir(amount),
        .groups = count_groups(amount),
        .buckets = count_buckets(amount),
        .row_bytes =
            (int64_t)(selection->num_q + selection->num_k) * dim * (int64_t)sizeof(float),
        .query_bytes = head_bytes(amount, dim, true),
        .key_bytes = head_bytes(amount, dim, false),
        .blocks = count_blocks(amount),
    };
    const set_counts sets = count_sets(amount),
                     of_blocks = count_block_sets(sets, sizes->blocks);
    for (int layer = 0; layer < selection->num_layers; layer++) {
        size_t q = count_heads(selection->q_heads, layer, selection->num_q_heads);
        size_t k = count_heads(selection->k_heads, layer, selection->num_k_heads);
        sizes->moment_files += q + k > 0;
        sizes->moment_bytes =
            sum(sizes->moment_bytes, sum(part_bytes(amount, sets, dim, q, true),
                                         part_bytes(amount, sets, dim, k, false)));
        sizes->moment_block_bytes =
            sum(sizes->moment_block_bytes, sum(part_bytes(amount, of_blocks, dim, q, true),
                                               part_bytes(amount, of_blocks, dim, k, false)));
        sizes->attention_bytes = sum(sizes->attention_bytes, attention_bytes(sets, q));
        sizes->attention_block_bytes =
            sum(sizes->attention_block_bytes, attention_bytes(of_blocks, q));
    }
}
