/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over any rows of the queries or keys of a layer: chunks folded in, parts merged. */
#include "state/part_moments.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "state/chunk_moments.h"
#include "stats/text_groups.h"

/* ---- shapes ----------------------------------------------------------------------------- */

static qk__set_shape set_shape(const qk__part_shape *shape, bool diagonal)
{
    return (qk__set_shape){.num_heads = shape->num_heads,
                           .dim = shape->dim,
                           .diagonal = diagonal || shape->means,
                           .means = shape->means,
                           .pairs = diagonal ? 0 : shape->pairs};
}

/* Saturates. */
static int64_t sets_bytes(const qk__set_shape *shape, size_t count)
{
    int64_t bytes;
    if (count > INT64_MAX ||
        __builtin_mul_overflow((int64_t)(qk__set_size(shape) + 1) * 8, (int64_t)count, &bytes))
        return INT64_MAX;
    return bytes;
}

int64_t qk__part_shape_bytes(const qk__part_shape *shape, size_t groups, size_t buckets)
{
    const qk__set_shape of_group = set_shape(shape, false), of_bucket = set_shape(shape, true);
    int64_t bytes = (int64_t)shape->num_heads * 4 * 8 + 8; /* heads, texts, positions, mask */
    if (!shape->by_bucket)
        buckets = 0;
    if (__builtin_add_overflow(bytes, sets_bytes(&of_group, groups), &bytes) ||
        __builtin_add_overflow(bytes, sets_bytes(&of_bucket, buckets), &bytes))
        return INT64_MAX;
    return bytes;
}

static qk_status check_shape(const qk__part_shape *shape, qk_error *err)
{
    if (shape->dim < 1 || shape->dim > QK_MAX_DIM)
        return qk__fail(err, QK_ERR_ARGUMENT, "vector dimension %zu is not in 1..%d",
                        shape->dim, QK_MAX_DIM);
    if (shape->pairs > shape->dim / 2)
        return qk__fail(err, QK_ERR_ARGUMENT, "%zu rotary pairs of %zu dimensions",
                        shape->pairs, shape->dim);
    if (shape->num_heads < 1 || shape->num_heads > QK__MAX_PART_HEADS)
        return qk__fail(err, QK_ERR_ARGUMENT, "%zu heads of a layer are not in 1..%d",
                        shape->num_heads, QK__MAX_PART_HEADS);
    if (shape->max_groups == 1 || shape->max_groups > QK__MAX_GROUPS)
        return qk__fail(err, QK_ERR_ARGUMENT, "%u groups of texts: expected 0 or 2..%d",
                        shape->max_groups, QK__MAX_GROUPS);
    for (size_t i = 0; i < shape->num_heads; i++)
        if (shape->heads[i] < 0 || (i > 0 && shape->heads[i] <= shape->heads[i - 1]))
            return qk__fail(err, QK_ERR_ARGUMENT, "head %d: numbers of heads ascend from 0 on",
                            shape->heads[i]);
    return QK_OK;
}

/* ---- a part ----------------------------------------------------------------------------- */

/* Sets what a part says of its rows to what one without rows says. */
static void forget(qk__part_moments *part)
{
    const uint64_t bits = part->shape.group_bits ? part->shape.group_bits : UINT64_MAX;
    part->mask = part->shape.max_groups > 0 ? bits : 0;
    for (size_t h = 0; h < part->shape.num_heads; h++) {
        part->texts[h] = 0;
        part->position[2 * h] = 0;
        part->position[2 * h + 1] = -1;
    }
}

qk_status qk__part_moments_create(qk__part_moments **part, const qk__part_shape *shape,
                                  qk_error *err)
{
    *part = NULL;
    QK_TRY(check_shape(shape, err));
    qk__part_moments *p = calloc(1, sizeof *p);
    if (!p)
        return qk__nomem(err);
    int *heads;
    qk_status status =
        QK__CREATE_ARRAYS(err, {&heads, shape->num_heads, sizeof *heads},
                          {&p->texts, shape->num_heads, sizeof *p->texts},
                          {&p->position, 2 * shape->num_heads, sizeof *p->position});
    if (status != QK_OK) {
        free(p);
        return status;
    }
    p->shape = *shape;
    p->shape.heads = heads;
    memcpy(heads, shape->heads, shape->num_heads * sizeof *heads);
    p->group_shape = set_shape(shape, false);
    p->bucket_shape = set_shape(shape, true);
    forget(p);
    *part = p;
    return QK_OK;
}

void qk__part_moments_free(qk__part_moments **part)
{
    assert(part);
    qk__part_moments *p = *part;
    if (!p)
        return;
    qk__set_list_free(&p->groups);
    qk__set_list_free(&p->buckets);
    free((int *)(uintptr_t)p->shape.heads);
    free(p->texts);
    free(p->position);
    free(p);
    *part = NULL;
}

void qk__layer_parts_free(qk__layer_parts *parts)
{
    for (int i = 0; i < QK__LAYER_PARTS; i++)
        qk__part_moments_free(&parts->part[i]);
}

int64_t qk__part_moments_count(const qk__part_moments *part)
{
    int64_t count = 0;
    for (size_t g = 0; g < part->groups.count; g++)
        count += part->groups.sets[g]->count[0];
    return count;
}

/* ---- groups ----------------------------------------------------------------------------- */

static uint32_t most_groups(const qk__part_moments *part)
{
    return part->shape.max_groups > 0 ? part->shape.max_groups : 1;
}

/* Writes the labels of a part, and how many there are. */
static size_t list_labels(const qk__part_moments *part, uint64_t mask, uint64_t *labels)
{
    for (size_t g = 0; g < part->groups.count; g++)
        labels[g] = part->groups.sets[g]->key & mask;
    return part->groups.count;
}

/* Groups of texts that agree in these bits become one. */
static void narrow(qk__part_moments *part, uint64_t mask)
{
    if (mask == part->mask)
        return;
    qk__set_list_join(&part->groups, &part->group_shape, mask);
    part->mask = mask;
}

/* The group of a text, made if there is none yet, which may make others join. NULL: out of memory. */
static qk__moment_set *group_of(qk__part_moments *part, uint64_t id)
{
    uint64_t labels[QK__MAX_GROUPS + 1];
    qk__moment_set *group = qk__set_list_find(&part->groups, id & part->mask);
    if (group)
        return group;
    const size_t count = list_labels(part, part->mask, labels);
    labels[count] = id & part->mask;
    narrow(part, qk__text_groups_mask(labels, count + 1, most_groups(part), part->mask));
    group = qk__set_list_find(&part->groups, id & part->mask);
    return group ? group : qk__set_list_new(&part->groups, &part->group_shape, id & part->mask);
}

/* ---- folding ---------------------------------------------------------------------------- */

/* Adds an empty set for each bucket of the chunk that has none yet. */
static qk_status make_buckets(qk__part_moments *part, const qk__chunk_moments *chunk,
                              qk_error *err)
{
    for (size_t run = 0; run < chunk->num_runs; run++) {
        uint64_t key = qk__bucket_key(chunk->run[run].bucket);
        if (!qk__set_list_find(&part->buckets, key) &&
            !qk__set_list_new(&part->buckets, &part->bucket_shape, key))
            return qk__nomem(err);
    }
    return QK_OK;
}

/* Widens the range of a head's positions to rows from `first` to `last`. */
static void widen_positions(int64_t position[2], int64_t first, int64_t last)
{
    bool empty = position[0] > position[1];
    position[0] = empty || first < position[0] ? first : position[0];
    position[1] = empty || last > position[1] ? last : position[1];
}

qk_status qk__part_moments_fold(qk__part_moments *part, int64_t example_id, bool first_of_text,
                                const qk__chunk_moments *chunk, qk_error *err)
{
    if (chunk->shape.dim != part->shape.dim ||
        chunk->shape.num_heads != part->shape.num_heads ||
        chunk->by_bucket != part->shape.by_bucket || chunk->shape.means != part->shape.means ||
        chunk->shape.pairs != part->shape.pairs)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "a chunk of %zu heads, dimension %zu, does not fit a part of %zu, "
                        "dimension %zu",
                        chunk->shape.num_heads, chunk->shape.dim, part->shape.num_heads,
                        part->shape.dim);
    qk__moment_set *group = group_of(part, (uint64_t)example_id);
    if (!group)
        return qk__nomem(err);
    if (part->shape.by_bucket)
        QK_TRY(make_buckets(part, chunk, err));
    qk__set_add(&part->group_shape, group, &chunk->whole);
    for (size_t run = 0; part->shape.by_bucket && run < chunk->num_runs; run++)
        qk__set_add(&part->bucket_shape,
                    qk__set_list_find(&part->buckets, qk__bucket_key(chunk->run[run].bucket)),
                    &chunk->of_run[run]);
    for (size_t h = 0; h < part->shape.num_heads; h++) {
        part->texts[h] += first_of_text;
        widen_positions(part->position + 2 * h, chunk->first_position, chunk->last_position);
    }
    return QK_OK;
}

/* ---- merging ---------------------------------------------------------------------------- */

static qk_status check_same(const qk__part_shape *a, const qk__part_shape *b, qk_error *err)
{
    if (a->dim != b->dim)
        return qk__fail(err, QK_ERR_INCONSISTENT, "dimensions differ: %zu and %zu", a->dim,
                        b->dim);
    bool same = a->num_heads == b->num_heads;
    for (size_t i = 0; same && i < a->num_heads; i++)
        same = a->heads[i] == b->heads[i];
    if (!same)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "they are of different heads: %zu from %d on, and %zu from %d on",
                        a->num_heads, a->heads[0], b->num_heads, b->heads[0]);
    if (a->max_groups != b->max_groups)
        return qk__fail(err, QK_ERR_INCONSISTENT, "groups of texts differ: %u and %u",
                        a->max_groups, b->max_groups);
    if (a->by_bucket != b->by_bucket)
        return qk__fail(err, QK_ERR_INCONSISTENT, "only one of them is by bucket");
    if (a->means != b->means)
        return qk__fail(err, QK_ERR_INCONSISTENT, "only one of them is of attention");
    if (a->pairs != b->pairs)
        return qk__fail(err, QK_ERR_INCONSISTENT, "lengths of %zu rotary pairs, and of %zu",
                        a->pairs, b->pairs);
    return QK_OK;
}

qk_status qk__part_moments_merge(qk__part_moments *part, qk__part_moments *later, qk_error *err)
{
    uint64_t labels[2 * QK__MAX_GROUPS], mask = part->mask & later->mask;
    QK_TRY(check_same(&part->shape, &later->shape, err));
    QK_TRY(qk__set_list_reserve(&part->groups, part->groups.count + later->groups.count, err));
    QK_TRY(
        qk__set_list_reserve(&part->buckets, part->buckets.count + later->buckets.count, err));
    size_t count = list_labels(part, mask, labels);
    count += list_labels(later, mask, labels + count);
    mask = qk__text_groups_mask(labels, count, most_groups(part), mask);
    narrow(part, mask);
    narrow(later, mask);
    qk__set_list_merge(&part->groups, &part->group_shape, &later->groups);
    qk__set_list_merge(&part->buckets, &part->bucket_shape, &later->buckets);
    for (size_t h = 0; h < part->shape.num_heads; h++) {
        const int64_t *more = later->position + 2 * h;
        part->texts[h] += later->texts[h];
        if (more[0] <= more[1])
            widen_positions(part->position + 2 * h, more[0], more[1]);
    }
    forget(later);
    return QK_OK;
}
