/* SPDX-License-Identifier: Apache-2.0 */
/* A part on its way through a file of the program's own: numbers as they lie in memory, read back by the same version
 * on the same kind of machine. What is in doubt is its length; who keeps the file knows whether its bytes are right.
 *
 *     groups, buckets, mask            int64
 *     texts [heads], positions [heads][2]
 *     keys of the groups, of the buckets
 *     sets of the groups, of the buckets */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "state/part_moments.h"

enum { COUNTS = 3 }; /* groups, buckets, mask */

static size_t set_bytes(const qk__set_shape *shape)
{
    return qk__set_size(shape) * sizeof(double);
}

/* Numbers before the sets. */
static size_t count_before(const qk__part_moments *part, size_t sets)
{
    return COUNTS + 3 * part->shape.num_heads + sets;
}

size_t qk__part_moments_stored(const qk__part_moments *part)
{
    const size_t groups = part->groups.count, buckets = part->buckets.count;
    return count_before(part, groups + buckets) * sizeof(int64_t) +
           groups * set_bytes(&part->group_shape) + buckets * set_bytes(&part->bucket_shape);
}

/* ---- writing ---------------------------------------------------------------------------- */

static qk_status write_sets(const qk__set_list *list, const qk__set_shape *shape, int fd,
                            int64_t *offset, qk_error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        /* its arrays lie one after the other */
        QK_TRY(qk__write_at(fd, list->sets[i]->count, set_bytes(shape), *offset, err));
        *offset += (int64_t)set_bytes(shape);
    }
    return QK_OK;
}

qk_status qk__part_moments_store(const qk__part_moments *part, int fd, int64_t offset,
                                 qk_error *err)
{
    const size_t heads = part->shape.num_heads, groups = part->groups.count;
    const size_t buckets = part->buckets.count, count = count_before(part, groups + buckets);
    int64_t *before = qk__calloc(count, sizeof *before), *at = before;
    if (!before)
        return qk__nomem(err);
    *at++ = (int64_t)groups;
    *at++ = (int64_t)buckets;
    *at++ = (int64_t)part->mask;
    memcpy(at, part->texts, heads * sizeof *at);
    memcpy(at + heads, part->position, 2 * heads * sizeof *at);
    at += 3 * heads;
    for (size_t i = 0; i < groups; i++)
        *at++ = (int64_t)part->groups.sets[i]->key;
    for (size_t i = 0; i < buckets; i++)
        *at++ = (int64_t)part->buckets.sets[i]->key;
    qk_status status = qk__write_at(fd, before, count * sizeof *before, offset, err);
    offset += (int64_t)(count * sizeof *before);
    free(before);
    if (status == QK_OK)
        status = write_sets(&part->groups, &part->group_shape, fd, &offset, err);
    return status == QK_OK ? write_sets(&part->buckets, &part->bucket_shape, fd, &offset, err)
                           : status;
}

/* ---- reading ---------------------------------------------------------------------------- */

static qk_status fail_damaged(qk_error *err)
{
    return qk__fail(err, QK_ERR_MALFORMED, "sums that are damaged, or of other heads");
}

static qk_status read_sets(qk__set_list *list, const qk__set_shape *shape, const int64_t *keys,
                           size_t count, int fd, int64_t *offset, qk_error *err)
{
    QK_TRY(qk__set_list_reserve(list, count, err));
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && (uint64_t)keys[i] <= (uint64_t)keys[i - 1])
            return fail_damaged(err);
        qk__moment_set *set = qk__set_list_new(list, shape, (uint64_t)keys[i]);
        if (!set)
            return qk__nomem(err);
        QK_TRY(qk__read_at(fd, set->count, set_bytes(shape), *offset, err));
        *offset += (int64_t)set_bytes(shape);
    }
    return QK_OK;
}

/* Whether so many sets are just as long; no product of theirs is too large. */
static bool is_length(const qk__part_moments *part, const int64_t *counts, size_t size)
{
    const size_t each = sizeof(int64_t) + set_bytes(&part->bucket_shape);
    if (counts[0] < 0 || counts[0] > QK__MAX_GROUPS || counts[1] < 0 ||
        (uint64_t)counts[1] > size / each)
        return false;
    const size_t groups = (size_t)counts[0], buckets = (size_t)counts[1];
    return size == count_before(part, groups + buckets) * sizeof(int64_t) +
                       groups * set_bytes(&part->group_shape) +
                       buckets * set_bytes(&part->bucket_shape);
}

qk_status qk__part_moments_load(qk__part_moments *part, int fd, int64_t offset, size_t size,
                                qk_error *err)
{
    int64_t counts[COUNTS];
    const size_t heads = part->shape.num_heads;
    if (size < sizeof counts)
        return fail_damaged(err);
    QK_TRY(qk__read_at(fd, counts, sizeof counts, offset, err));
    if (!is_length(part, counts, size))
        return fail_damaged(err);
    const size_t groups = (size_t)counts[0], buckets = (size_t)counts[1];
    const size_t count = count_before(part, groups + buckets) - COUNTS;
    int64_t *before = qk__calloc(count, sizeof *before);
    if (!before)
        return qk__nomem(err);
    offset += (int64_t)sizeof counts;
    qk_status status = qk__read_at(fd, before, count * sizeof *before, offset, err);
    offset += (int64_t)(count * sizeof *before);
    part->mask = (uint64_t)counts[2];
    memcpy(part->texts, before, heads * sizeof *before);
    memcpy(part->position, before + heads, 2 * heads * sizeof *before);
    if (status == QK_OK)
        status = read_sets(&part->groups, &part->group_shape, before + 3 * heads, groups, fd,
                           &offset, err);
    if (status == QK_OK)
        status = read_sets(&part->buckets, &part->bucket_shape, before + 3 * heads + groups,
                           buckets, fd, &offset, err);
    free(before);
    return status;
}
