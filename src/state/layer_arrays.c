/* SPDX-License-Identifier: Apache-2.0 */
/* The arrays of a layer's file. */
#include "state/layer_arrays.h"

#include <stdio.h>

#include "state/layer_moments.h"

/* Axes: H heads, G groups, B buckets, d dimensions, t a triangle of d, p rotary pairs, 2 itself. */
static const struct {
    const char *name, *dtype, *axes;
} layout[QK__NUM_ARRAYS] = {
    {"heads", "I64", "H"},           {"texts", "I64", "H"},
    {"positions", "I64", "H2"},      {"mask", "I64", ""},
    {"group", "I64", "G"},           {"count", "I64", "GH"},
    {"mean_t", "F64", "GH"},         {"sum_tt", "F64", "GH"},
    {"mean", "F64", "GHd"},          {"sum_xt", "F64", "GHd"},
    {"sum_xx", "F64", "GHt"},        {"sum_abs", "F64", "GHp"},
    {"bucket", "I64", "B"},          {"bucket_count", "I64", "BH"},
    {"bucket_mean_t", "F64", "BH"},  {"bucket_sum_tt", "F64", "BH"},
    {"bucket_mean", "F64", "BHd"},   {"bucket_sum_xt", "F64", "BHd"},
    {"bucket_sum_xx", "F64", "BHd"},
};

const char *const qk__layer_prefixes[QK__LAYER_PARTS] = {"q.", "k.", "first.q.", "first.k."};

static int64_t length_of(char axis, const qk__layer_sizes *sizes)
{
    switch (axis) {
    case 'H':
        return sizes->heads;
    case 'G':
        return sizes->groups;
    case 'B':
        return sizes->buckets;
    case 'd':
        return sizes->dim;
    case 'p':
        return sizes->pairs;
    case 't':
        return sizes->dim * (sizes->dim + 1) / 2;
    default:
        return axis - '0';
    }
}

bool qk__layer_array_is_kept(int array, const qk__part_shape *shape)
{
    static const int OF_BUCKET = QK__ARRAY_BUCKET_COUNT - QK__ARRAY_COUNT;
    int of_set = array - (array < QK__ARRAY_BUCKET ? 0 : OF_BUCKET);
    if ((array >= QK__ARRAY_BUCKET && !shape->by_bucket) ||
        (array == QK__ARRAY_SUM_ABS && shape->pairs == 0))
        return false;
    return !shape->means || array == QK__ARRAY_BUCKET || of_set <= QK__ARRAY_COUNT ||
           of_set == QK__ARRAY_MEAN;
}

qk__layer_array qk__layer_array_of(int array, int part, const qk__layer_sizes *sizes)
{
    qk__layer_array of = {.dtype = layout[array].dtype};
    snprintf(of.name, sizeof of.name, "%s%s", qk__layer_prefixes[part], layout[array].name);
    for (const char *axis = layout[array].axes; *axis; axis++)
        of.shape[of.rank++] = length_of(*axis, sizes);
    return of;
}
