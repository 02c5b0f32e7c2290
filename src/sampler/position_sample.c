/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets of positions, and which positions of a text are kept. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <qkscope/recorder.h>

#include "base/bit_width.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/rng.h"
#include "base/twister.h"
#include "sampler/sampler.h"

#define MAX_BUCKET_SIZE (INT64_C(1) << 40)

static const char *const type_names[] = {
    [QK_SAMPLER_LOG_UNIFORM] = "log_uniform",
    [QK_SAMPLER_UNIFORM] = "uniform",
    [QK_SAMPLER_ALL] = "all",
};
enum { NUM_TYPES = sizeof type_names / sizeof *type_names };

void qk__sampler_default(qk_sampler *sampler)
{
    assert(sampler);
    *sampler =
        (qk_sampler){.type = QK_SAMPLER_LOG_UNIFORM, .base_rate = 1, .min_bucket_size = 128};
}

bool qk_sampler_type_parse(const char *name, qk_sampler_type *type)
{
    assert(name && type);
    for (int i = 0; i < NUM_TYPES; i++)
        if (strcasecmp(name, type_names[i]) == 0) {
            *type = (qk_sampler_type)i;
            return true;
        }
    return false;
}

const char *qk_sampler_type_name(qk_sampler_type type)
{
    return type_names[type];
}

qk_status qk_sampler_check(const qk_sampler *sampler, qk_error *err)
{
    QK_NEED(err, sampler);
    if ((unsigned)sampler->type >= NUM_TYPES)
        return qk__fail(err, QK_ERR_ARGUMENT, "sampler: no such type");
    if (!(sampler->base_rate > 0) || !isfinite(sampler->base_rate))
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "sampler: a base rate of %g keeps nothing; it must be above 0",
                        sampler->base_rate);
    if (sampler->min_bucket_size < 1 || sampler->min_bucket_size > MAX_BUCKET_SIZE)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "sampler: the minimum bucket size is %lld; it must be 1 to %lld",
                        (long long)sampler->min_bucket_size, (long long)MAX_BUCKET_SIZE);
    return QK_OK;
}

/* ---- buckets ---------------------------------------------------------------------------- */

/* The id of the first logarithmic bucket: its size is 2^id. */
static int first_log_bucket(const qk_sampler *sampler)
{
    int log = 0;
    while (INT64_C(1) << log < sampler->min_bucket_size)
        log++;
    return log;
}

int64_t qk_sampler_bucket_size(const qk_sampler *sampler)
{
    assert(sampler);
    return sampler->type == QK_SAMPLER_LOG_UNIFORM ? INT64_C(1) << first_log_bucket(sampler)
                                                   : sampler->min_bucket_size;
}

int64_t qk_sampler_bucket(const qk_sampler *sampler, int64_t position)
{
    assert(sampler && position >= 0);
    if (sampler->type != QK_SAMPLER_LOG_UNIFORM)
        return position / sampler->min_bucket_size;
    int log = (int)qk__bit_width((uint64_t)position + 1) - 1;
    int first = first_log_bucket(sampler);
    return log > first ? log : first;
}

void qk_sampler_buckets(const qk_sampler *sampler, const int64_t *positions, size_t count,
                        int64_t *buckets)
{
    for (size_t i = 0; i < count; i++)
        buckets[i] = qk_sampler_bucket(sampler, positions[i]);
}

/* ---- what is kept ----------------------------------------------------------------------- */

static uint64_t combine(uint64_t seed, uint64_t value)
{
    seed = (seed ^ qk__mix(value)) * QK__MIX_STEP;
    return seed ^ (seed >> 32);
}

static uint64_t kind_letter(qk_kind kind)
{
    return kind == QK_QUERY ? 'q' : 'k';
}

uint64_t qk__sampler_seed(int64_t example_id, int layer, qk_kind kind)
{
    uint64_t seed = UINT64_C(0x243f6a8885a308d3);
    seed = combine(seed, (uint64_t)example_id);
    seed = combine(seed, (uint64_t)(int64_t)layer);
    return combine(seed, kind_letter(kind));
}

/* A draw of u / 2^24 is kept if it lies below the threshold. Both are float32, so whole numbers
 * can be compared instead: u < limit. */
static uint32_t draw_limit(float threshold)
{
    return threshold >= 1 ? 1u << 24 : (uint32_t)ceilf(threshold * 0x1p24f);
}

static uint32_t uniform_limit(const qk_sampler *sampler)
{
    double threshold = sampler->base_rate / (double)sampler->min_bucket_size;
    return draw_limit((float)(threshold < 1 ? threshold : 1));
}

/* Divided in float32, as the original does for this sampler only. */
static uint32_t log_limit(const qk_sampler *sampler, int bucket)
{
    return draw_limit((float)sampler->base_rate / ldexpf(1, bucket));
}

static size_t keep_drawn(const qk_sampler *sampler, uint64_t seed, int64_t count,
                         int64_t *positions)
{
    qk__twister generator;
    qk__twister_seed(&generator, (uint32_t)seed);
    bool growing = sampler->type == QK_SAMPLER_LOG_UNIFORM;
    int bucket = growing ? first_log_bucket(sampler) : 0;
    uint32_t limit = growing ? log_limit(sampler, bucket) : uniform_limit(sampler);
    int64_t end = growing ? (INT64_C(2) << bucket) - 1 : count; /* of the bucket */
    size_t kept = 0;
    for (int64_t position = 0; position < count; position++) {
        if (position == end) {
            limit = log_limit(sampler, ++bucket);
            end = (INT64_C(2) << bucket) - 1;
        }
        if (qk__torch_uniform(&generator) < limit)
            positions[kept++] = position;
    }
    return kept;
}

static size_t keep_all(int64_t count, int64_t *positions)
{
    for (int64_t position = 0; position < count; position++)
        positions[position] = position;
    return (size_t)count;
}

/* Which positions survive a cap. As in the original, whose generator sees the low 32 bits of
 * this seed alone, it depends on the layer and the first head only. */
static uint64_t cap_seed(int64_t example_id, int layer, qk_kind kind, int first_head)
{
    return (uint64_t)(layer & 0xffff) ^ (uint64_t)(first_head & 0xffff) << 16 ^
           kind_letter(kind) << 32 ^ ((uint64_t)example_id & 0xffffffff) << 40;
}

qk_status qk_sampler_positions(const qk_sampler *sampler, int64_t example_id, int layer,
                               qk_kind kind, int first_head, int64_t count, int64_t **positions,
                               size_t *num_positions, qk_error *err)
{
    QK_NEED(err, positions);
    *positions = NULL;
    QK_NEED(err, num_positions, sampler);
    *num_positions = 0;
    QK_TRY(qk_sampler_check(sampler, err));
    if (count < 0 || count >= (int64_t)QK__TORCH_PERMUTATION_LIMIT)
        return qk__fail(err, QK_ERR_ARGUMENT, "sampler: a text of %lld tokens",
                        (long long)count);
    if (count == 0)
        return QK_OK;
    int64_t *kept = qk__calloc((size_t)count, sizeof *kept);
    if (!kept)
        return qk__nomem(err);

    size_t n =
        sampler->type == QK_SAMPLER_ALL
            ? keep_all(count, kept)
            : keep_drawn(sampler, qk__sampler_seed(example_id, layer, kind), count, kept);
    if (sampler->max_rows > 0 && n > (uint64_t)sampler->max_rows) {
        qk__twister generator;
        qk__twister_seed(&generator, (uint32_t)cap_seed(example_id, layer, kind, first_head));
        qk__torch_permute(&generator, kept, n, (size_t)sampler->max_rows);
        n = (size_t)sampler->max_rows;
    }
    if (n == 0) {
        free(kept);
        return QK_OK;
    }
    int64_t *fitted = realloc(kept, n * sizeof *kept);
    *positions = fitted ? fitted : kept;
    *num_positions = n;
    return QK_OK;
}
