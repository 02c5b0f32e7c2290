/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the parts of a layer. Sets of moments go to the file from where they lie. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json_build.h"
#include "state/layer_arrays.h"
#include "state/layer_file.h"
#include "state/part_moments.h"
#include "tensors/tensors_write.h"

/* What is written of one part. */
typedef struct kind_out {
    qk__layer_array arrays[QK__NUM_ARRAYS];
    int64_t mask;
    int64_t *heads, *labels, *buckets; /* in one piece of memory, heads leads */
    const void **pieces;               /* [QK__SET_ARRAYS][groups], then of buckets */
} kind_out;

static void list_pieces(const qk__set_list *list, const void **pieces)
{
    size_t n = list->count;
    for (size_t i = 0; i < n; i++) {
        const qk__moment_set *set = list->sets[i];
        const void *members[QK__SET_ARRAYS] = {set->count,  set->mean_t, set->sum_tt, set->mean,
                                               set->sum_xt, set->sum_xx, set->sum_abs};
        for (size_t m = 0; m < QK__SET_ARRAYS; m++)
            pieces[m * n + i] = members[m];
    }
}

static qk_status prepare(kind_out *out, const qk__part_moments *part, qk_error *err)
{
    const size_t heads = part->shape.num_heads, groups = part->groups.count;
    const size_t buckets = part->buckets.count;
    QK_TRY(QK__CREATE_ARRAYS(
        err, {&out->heads, heads + groups + buckets, sizeof *out->heads},
        {&out->pieces, QK__SET_ARRAYS * (groups + buckets) + 1, sizeof *out->pieces}));
    out->labels = out->heads + heads;
    out->buckets = out->labels + groups;
    out->mask = (int64_t)part->mask;
    for (size_t h = 0; h < heads; h++)
        out->heads[h] = part->shape.heads[h];
    for (size_t g = 0; g < groups; g++)
        out->labels[g] = (int64_t)part->groups.sets[g]->key;
    for (size_t b = 0; b < buckets; b++)
        out->buckets[b] = qk__bucket_of_key(part->buckets.sets[b]->key);
    list_pieces(&part->groups, out->pieces);
    list_pieces(&part->buckets, out->pieces + QK__SET_ARRAYS * groups);
    return QK_OK;
}

/* Where the numbers of an array are; NULL: in pieces. */
static const void *data_of(const kind_out *out, const qk__part_moments *part, int array)
{
    switch (array) {
    case QK__ARRAY_HEADS:
        return out->heads;
    case QK__ARRAY_TEXTS:
        return part->texts;
    case QK__ARRAY_POSITIONS:
        return part->position;
    case QK__ARRAY_MASK:
        return &out->mask;
    case QK__ARRAY_GROUP:
        return out->labels;
    case QK__ARRAY_BUCKET:
        return out->buckets;
    default:
        return NULL;
    }
}

/* Pieces of an array of sets. */
static const void **pieces_of(const kind_out *out, const qk__part_moments *part, int array)
{
    const size_t groups = part->groups.count, buckets = part->buckets.count;
    if (array < QK__ARRAY_BUCKET)
        return out->pieces + (size_t)(array - QK__ARRAY_COUNT) * groups;
    return out->pieces + QK__SET_ARRAYS * groups +
           (size_t)(array - QK__ARRAY_BUCKET_COUNT) * buckets;
}

/* Appends the arrays of a part to tensors; returns how many there are then. */
static size_t list_arrays(kind_out *out, const qk__part_moments *part, int number,
                          qk__tensor_out *tensors, size_t count)
{
    const qk__layer_sizes sizes = {.heads = (int64_t)part->shape.num_heads,
                                   .groups = (int64_t)part->groups.count,
                                   .buckets = (int64_t)part->buckets.count,
                                   .dim = (int64_t)part->shape.dim,
                                   .pairs = (int64_t)part->shape.pairs};
    for (int i = 0; i < QK__NUM_ARRAYS; i++) {
        if (!qk__layer_array_is_kept(i, &part->shape))
            continue;
        qk__layer_array *array = &out->arrays[i];
        *array = qk__layer_array_of(i, number, &sizes);
        qk__tensor_out *to = &tensors[count++];
        *to = (qk__tensor_out){.name = array->name, .dtype = array->dtype, .rank = array->rank};
        memcpy(to->shape, array->shape, sizeof array->shape);
        to->data = data_of(out, part, i);
        if (!to->data)
            to->pieces = pieces_of(out, part, i);
    }
    return count;
}

/* NULL when out of memory. */
static json_t *make_metadata(int layer, const qk__part_shape *shape, const char *hash,
                             const json_t *more)
{
    char layer_text[16], groups_text[16];
    snprintf(layer_text, sizeof layer_text, "%d", layer);
    snprintf(groups_text, sizeof groups_text, "%u", shape->max_groups);
    const char *format = shape->means ? QK__ATTENTION_FORMAT : QK__LAYER_FORMAT;
    json_t *own = json_pack("{s:s, s:s, s:s, s:s}", "format", format, "layer", layer_text,
                            "groups", groups_text, QK__LAYER_HASH, hash);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)more, key, value)
    {
        if (own && !json_object_get(own, key))
            own = qk__json_set(own, key, json_incref(value));
    }
    return own;
}

static qk_status check_parts(const qk__part_moments *q, const qk__part_moments *k, int layer,
                             qk_error *err)
{
    if (!q && !k)
        return qk__fail(err, QK_ERR_ARGUMENT, "layer %d: neither queries nor keys", layer);
    if (layer < 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "there is no layer %d", layer);
    if (q && k && (q->shape.max_groups != k->shape.max_groups || q->shape.dim != k->shape.dim))
        return qk__fail(
            err, QK_ERR_ARGUMENT,
            "layer %d: queries of dimension %zu in at most %u groups of texts, keys "
            "of %zu in %u",
            layer, q->shape.dim, q->shape.max_groups, k->shape.dim, k->shape.max_groups);
    return QK_OK;
}

qk_status qk__layer_moments_write(const char *path, const qk__layer_parts *parts, int layer,
                                  const json_t *metadata, qk_error *err)
{
    const qk__part_moments *q = parts->part[QK_QUERY], *k = parts->part[QK_KEY];
    QK_TRY(check_parts(q, k, layer, err));
    kind_out out[QK__LAYER_PARTS] = {{.heads = NULL}};
    qk__tensor_out tensors[QK__LAYER_PARTS * QK__NUM_ARRAYS];
    size_t count = 0;
    qk_status status = QK_OK;
    char hash[QK__FINGERPRINT_SIZE];
    json_t *all = NULL;
    for (int i = 0; i < QK__LAYER_PARTS && status == QK_OK; i++) {
        if (!parts->part[i])
            continue;
        status = prepare(&out[i], parts->part[i], err);
        if (status == QK_OK)
            count = list_arrays(&out[i], parts->part[i], i, tensors, count);
    }
    if (status == QK_OK)
        status = qk__tensors_fingerprint(tensors, count, hash, err);
    if (status == QK_OK && !(all = make_metadata(layer, &(q ? q : k)->shape, hash, metadata)))
        status = qk__nomem(err);
    if (status == QK_OK)
        status = qk__tensors_write(path, tensors, count, all, err);
    for (int i = 0; i < QK__LAYER_PARTS; i++) {
        free(out[i].heads);
        free(out[i].pieces);
    }
    json_decref(all);
    return status;
}
