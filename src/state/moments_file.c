/* SPDX-License-Identifier: Apache-2.0 */
/* Moments in a safetensors file: the members of qk_moments under their names. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "stats/moments.h"
#include "tensors/tensor_list.h"
#include "tensors/tensors_write.h"

#define FORMAT "qkscope moments 1"

/* The largest dimension's arrays and a header. */
enum { NUM_ARRAYS = 6, MAX_BYTES = (QK_MAX_DIM + 3) * QK_MAX_DIM * 8 + (1 << 20) };

/* What the file holds of m, in both directions. */
static void list_arrays(const qk_moments *m, qk__tensor_out arrays[NUM_ARRAYS])
{
    int64_t d = (int64_t)m->dim;
    const qk__tensor_out all[NUM_ARRAYS] = {
        {"count", "I64", 0, {0}, &m->count, NULL},
        {"mean_t", "F64", 0, {0}, &m->mean_t, NULL},
        {"sum_tt", "F64", 0, {0}, &m->sum_tt, NULL},
        {"mean", "F64", 1, {d}, m->mean, NULL},
        {"sum_xt", "F64", 1, {d}, m->sum_xt, NULL},
        {"sum_xx", "F64", 2, {d, d}, m->sum_xx, NULL},
    };
    memcpy(arrays, all, sizeof all);
}

qk_status qk_moments_save(const qk_moments *moments, const char *path, qk_error *err)
{
    QK_NEED(err, moments, path);
    qk__tensor_out arrays[NUM_ARRAYS];
    list_arrays(moments, arrays);
    json_t *metadata = json_pack("{s:s}", "format", FORMAT);
    qk_status status =
        metadata ? qk__tensors_write(path, arrays, NUM_ARRAYS, metadata, err) : qk__nomem(err);
    json_decref(metadata);
    return status;
}

/* ---- reading ---------------------------------------------------------------------------- */

static const qk__tensor_entry *find_array(const qk__tensor_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    return NULL;
}

static qk_status copy_array(const qk__tensor_list *list, const qk__tensor_out *wanted,
                            qk_error *err)
{
    const qk__tensor_entry *found = find_array(list, wanted->name);
    if (!found)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "there is no array \"%s\": this is no file of moments", wanted->name);
    bool fits = strcmp(found->dtype, wanted->dtype) == 0 && found->rank == wanted->rank;
    for (int i = 0; fits && i < found->rank; i++)
        fits = found->shape[i] == wanted->shape[i];
    if (!fits)
        return qk__fail(err, QK_ERR_MALFORMED, "%s: another type or shape than %s of moments",
                        wanted->name, wanted->dtype);
    memcpy((void *)(uintptr_t)wanted->data, found->data, (size_t)found->size);
    return QK_OK;
}

/* Numbers that sums of squares can have. */
static qk_status check_sums(const qk_moments *m, qk_error *err)
{
    size_t d = m->dim;
    bool sound = m->count >= 0 && isfinite(m->mean_t) && m->sum_tt >= 0 && isfinite(m->sum_tt);
    for (size_t i = 0; sound && i < d; i++) {
        sound = isfinite(m->mean[i]) && isfinite(m->sum_xt[i]) && m->sum_xx[i * d + i] >= 0;
        for (size_t j = 0; sound && j <= i; j++)
            sound =
                isfinite(m->sum_xx[i * d + j]) && m->sum_xx[i * d + j] == m->sum_xx[j * d + i];
    }
    return sound ? QK_OK
                 : qk__fail(err, QK_ERR_MALFORMED, "its numbers are not moments of any rows");
}

static qk_status take_moments(const qk__tensor_list *list, qk_moments **moments, qk_error *err)
{
    const qk__tensor_entry *mean = find_array(list, "mean");
    if (!mean || mean->rank != 1 || mean->shape[0] < 1 || mean->shape[0] > QK_MAX_DIM)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "there is no array \"mean\" of 1 to %d numbers: this is no file of "
                        "moments",
                        QK_MAX_DIM);
    *moments = qk__moments_create((size_t)mean->shape[0]);
    if (!*moments)
        return qk__nomem(err);
    qk__tensor_out arrays[NUM_ARRAYS];
    list_arrays(*moments, arrays);
    for (size_t i = 0; i < NUM_ARRAYS; i++)
        QK_TRY(copy_array(list, &arrays[i], err));
    return check_sums(*moments, err);
}

qk_status qk_moments_load(const char *path, qk_moments **moments, qk_error *err)
{
    QK_NEED(err, moments);
    *moments = NULL;
    QK_NEED(err, path);
    qk__buffer bytes = {0};
    qk__tensor_list list = {0};
    QK_TRY(qk__read_file(path, MAX_BYTES, &bytes, err));
    qk_status status = qk__tensor_list_parse(&list, bytes.data, bytes.size, err);
    if (status == QK_OK)
        status = take_moments(&list, moments, err);
    if (status != QK_OK) {
        qk__context(err, status, "%s", path);
        qk_moments_free(moments);
    }
    qk__tensor_list_free(&list);
    qk__buffer_free(&bytes);
    return status;
}
