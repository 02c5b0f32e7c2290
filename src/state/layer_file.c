/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a layer's moments, mapped: what is in them is checked before anything is believed. */
#include "state/layer_file.h"

#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/fingerprint.h"
#include "base/parse_number.h"
#include "base/system.h"
#include "state/layer_view.h"
#include "tensors/tensor_list.h"

/* Far more rows than there are; sums of such counts do not overflow. */
static const int64_t MAX_ROWS = INT64_C(1) << 48;

struct qk__layer_file {
    char *path;
    const uint8_t *bytes;
    size_t size;
    qk__tensor_list list;
    int layer;
    uint32_t max_groups;
    bool means;
    qk__layer_view views[QK__LAYER_PARTS];
};

/* ---- metadata --------------------------------------------------------------------------- */

/* Says which format a file has that is not ours, or none. */
static qk_status refuse_format(const char *format, qk_error *err)
{
    static const char *const known[] = {QK__LAYER_FORMAT, QK__ATTENTION_FORMAT};
    for (size_t i = 0; format && i < 2; i++) {
        size_t family = strlen(known[i]) - 1; /* a number of one digit follows */
        int64_t number;
        if (strncmp(format, known[i], family) == 0 &&
            qk__parse_integer(format + family, &number) && number > known[i][family] - '0')
            return qk__fail(err, QK_ERR_UNSUPPORTED,
                            "its format is \"%s\", \"%s\" is read: a later qkscope wrote it",
                            format, known[i]);
    }
    return qk__fail(
        err, QK_ERR_MALFORMED,
        "its metadata says format \"%s\" instead of \"%s\": these are no moments of "
        "a layer",
        format ? format : "", QK__LAYER_FORMAT);
}

static qk_status read_number(const json_t *metadata, const char *key, int64_t most,
                             int64_t *value, qk_error *err)
{
    const char *text = json_string_value(json_object_get(metadata, key));
    if (!text || !qk__parse_integer(text, value) || *value < 0 || *value > most)
        return qk__fail(err, QK_ERR_MALFORMED, "metadata: \"%s\" is not a number of 0 to %lld",
                        key, (long long)most);
    return QK_OK;
}

static qk_status read_metadata(qk__layer_file *file, qk_error *err)
{
    int64_t layer, groups;
    const json_t *metadata = file->list.metadata;
    const char *format = json_string_value(json_object_get(metadata, "format"));
    file->means = format && strcmp(format, QK__ATTENTION_FORMAT) == 0;
    if (!file->means && (!format || strcmp(format, QK__LAYER_FORMAT) != 0))
        return refuse_format(format, err);
    QK_TRY(read_number(metadata, "layer", INT_MAX, &layer, err));
    QK_TRY(read_number(metadata, "groups", QK__MAX_GROUPS, &groups, err));
    if (groups == 1)
        return qk__fail(err, QK_ERR_MALFORMED, "metadata: \"groups\" is 1, which is no limit");
    file->layer = (int)layer;
    file->max_groups = (uint32_t)groups;
    return QK_OK;
}

/* ---- arrays ----------------------------------------------------------------------------- */

static const qk__tensor_entry *find(const qk__tensor_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    return NULL;
}

/* Length of an axis of an array, which must have so many axes. */
static qk_status measure(const qk__tensor_list *list, int array, int part, int axis,
                         int64_t least, int64_t most, int64_t *length, qk_error *err)
{
    static const qk__layer_sizes any = {1, 1, 1, 1, 1};
    const qk__layer_array wanted = qk__layer_array_of(array, part, &any);
    const qk__tensor_entry *entry = find(list, wanted.name);
    if (!entry)
        return qk__fail(err, QK_ERR_MALFORMED, "there is no array %s", wanted.name);
    *length = entry->rank == wanted.rank ? entry->shape[axis] : -1;
    if (*length < least || *length > most)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "%s: expected %d axes, number %d of length "
                        "%lld to %lld",
                        wanted.name, wanted.rank, axis + 1, (long long)least, (long long)most);
    return QK_OK;
}

static qk_status find_array(const qk__tensor_list *list, int array, int part,
                            qk__layer_view *view, qk_error *err)
{
    const qk__layer_array wanted = qk__layer_array_of(array, part, &view->sizes);
    const qk__tensor_entry *entry = find(list, wanted.name);
    if (!entry)
        return qk__fail(err, QK_ERR_MALFORMED, "there is no array %s", wanted.name);
    bool fits = strcmp(entry->dtype, wanted.dtype) == 0 && entry->rank == wanted.rank;
    for (int i = 0; fits && i < wanted.rank; i++)
        fits = entry->shape[i] == wanted.shape[i];
    if (!fits)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "%s: its type or shape does not fit %lld heads, %lld groups of texts, "
                        "%lld buckets and dimension %lld",
                        wanted.name, (long long)view->sizes.heads,
                        (long long)view->sizes.groups, (long long)view->sizes.buckets,
                        (long long)view->sizes.dim);
    if (entry->size > 0 && (uintptr_t)entry->data % sizeof(double) != 0)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "%s: its numbers do not begin at a multiple of 8 bytes", wanted.name);
    view->data[array] = entry->data;
    return QK_OK;
}

static bool has_part(const qk__tensor_list *list, int part)
{
    const char *prefix = qk__layer_prefixes[part];
    for (size_t i = 0; i < list->count; i++)
        if (strncmp(list->items[i].name, prefix, strlen(prefix)) == 0)
            return true;
    return false;
}

static qk_status find_arrays(const qk__tensor_list *list, int part, qk__layer_view *view,
                             qk_error *err)
{
    static const qk__layer_sizes any = {1, 1, 1, 1, 1};
    qk__layer_sizes *sizes = &view->sizes;
    QK_TRY(measure(list, QK__ARRAY_HEADS, part, 0, 1, QK__MAX_PART_HEADS, &sizes->heads, err));
    QK_TRY(measure(list, QK__ARRAY_GROUP, part, 0, 0, QK__MAX_GROUPS, &sizes->groups, err));
    QK_TRY(measure(list, QK__ARRAY_MEAN, part, 2, 1, QK_MAX_DIM, &sizes->dim, err));
    view->shape.by_bucket = find(list, qk__layer_array_of(QK__ARRAY_BUCKET, part, &any).name);
    if (view->shape.by_bucket)
        QK_TRY(measure(list, QK__ARRAY_BUCKET, part, 0, 0, MAX_ROWS, &sizes->buckets, err));
    if (find(list, qk__layer_array_of(QK__ARRAY_SUM_ABS, part, &any).name))
        QK_TRY(
            measure(list, QK__ARRAY_SUM_ABS, part, 2, 1, sizes->dim / 2, &sizes->pairs, err));
    view->shape.pairs = (size_t)sizes->pairs;
    for (int i = 0; i < QK__NUM_ARRAYS; i++)
        if (qk__layer_array_is_kept(i, &view->shape))
            QK_TRY(find_array(list, i, part, view, err));
    view->texts = view->data[QK__ARRAY_TEXTS];
    view->positions = view->data[QK__ARRAY_POSITIONS];
    view->labels = view->data[QK__ARRAY_GROUP];
    view->buckets = view->data[QK__ARRAY_BUCKET];
    view->mask = *(const uint64_t *)view->data[QK__ARRAY_MASK];
    return QK_OK;
}

/* ---- numbers of all heads --------------------------------------------------------------- */

static qk_status take_heads(qk__layer_view *view, qk_error *err)
{
    const int64_t *heads = view->data[QK__ARRAY_HEADS];
    size_t count = (size_t)view->sizes.heads;
    view->heads = qk__calloc(count, sizeof *view->heads);
    if (!view->heads)
        return qk__nomem(err);
    for (size_t i = 0; i < count; i++) {
        if (heads[i] < 0 || heads[i] > INT_MAX || (i > 0 && heads[i] <= heads[i - 1]))
            return qk__fail(err, QK_ERR_MALFORMED,
                            "head %lld: numbers of heads ascend from 0 on",
                            (long long)heads[i]);
        view->heads[i] = (int)heads[i];
    }
    view->shape.heads = view->heads;
    view->shape.dim = (size_t)view->sizes.dim;
    return QK_OK;
}

static qk_status check_labels(const qk__layer_view *view, qk_error *err)
{
    const uint32_t limit = view->shape.max_groups;
    const uint64_t mask = view->mask;
    if ((mask & (mask + 1)) != 0 || (mask == 0) != (limit == 0))
        return qk__fail(err, QK_ERR_MALFORMED, "mask %llx does not fit groups = %u",
                        (unsigned long long)mask, limit);
    if (view->sizes.groups > (limit > 0 ? limit : 1))
        return qk__fail(err, QK_ERR_MALFORMED, "%lld groups of texts, more than groups = %u",
                        (long long)view->sizes.groups, limit);
    for (int64_t g = 0; g < view->sizes.groups; g++) {
        uint64_t label = (uint64_t)view->labels[g];
        if ((label & ~mask) != 0 || (g > 0 && label <= (uint64_t)view->labels[g - 1]))
            return qk__fail(err, QK_ERR_MALFORMED,
                            "group %lld: labels ascend, with bits of mask %llx", (long long)g,
                            (unsigned long long)mask);
    }
    for (int64_t b = 1; b < view->sizes.buckets; b++)
        if (view->buckets[b] <= view->buckets[b - 1])
            return qk__fail(err, QK_ERR_MALFORMED, "bucket %lld follows bucket %lld",
                            (long long)view->buckets[b], (long long)view->buckets[b - 1]);
    return QK_OK;
}

/* Sum of a head's counts; -1: one of them is no count. */
static int64_t sum_counts(const qk__layer_view *view, int array, int64_t sets, int64_t head)
{
    const int64_t *counts = view->data[array];
    int64_t total = 0;
    for (int64_t i = 0; i < sets; i++) {
        int64_t count = counts[i * view->sizes.heads + head];
        if (count < 0 || count > MAX_ROWS || total + count > MAX_ROWS)
            return -1;
        total += count;
    }
    return total;
}

static qk_status check_counts(const qk__layer_view *view, qk_error *err)
{
    for (int64_t h = 0; h < view->sizes.heads; h++) {
        int64_t rows = sum_counts(view, QK__ARRAY_COUNT, view->sizes.groups, h);
        int64_t first = view->positions[2 * h], last = view->positions[2 * h + 1];
        int64_t texts = view->texts[h];
        if (rows < 0 || texts < 0 || texts > rows)
            return qk__fail(err, QK_ERR_MALFORMED,
                            "head %d: its counts of rows and texts are "
                            "not those of any",
                            view->heads[h]);
        if (rows > 0 ? first > last : first != 0 || last != -1)
            return qk__fail(err, QK_ERR_MALFORMED,
                            "head %d: positions %lld to %lld of %lld rows", view->heads[h],
                            (long long)first, (long long)last, (long long)rows);
        int64_t bucketed = view->shape.by_bucket ? sum_counts(view, QK__ARRAY_BUCKET_COUNT,
                                                              view->sizes.buckets, h)
                                                 : rows;
        if (bucketed != rows)
            return qk__fail(err, QK_ERR_MALFORMED,
                            "head %d: its groups have %lld rows, its buckets %lld",
                            view->heads[h], (long long)rows, (long long)bucketed);
    }
    return QK_OK;
}

static qk_status open_view(qk__layer_file *file, int part, qk_error *err)
{
    qk__layer_view *view = &file->views[part];
    if (!has_part(&file->list, part))
        return QK_OK;
    view->shape.max_groups = file->max_groups;
    view->shape.means = file->means;
    QK_TRY(find_arrays(&file->list, part, view, err));
    QK_TRY(take_heads(view, err));
    QK_TRY(check_labels(view, err));
    QK_TRY(check_counts(view, err));
    view->shape.num_heads = (size_t)view->sizes.heads;
    return QK_OK;
}

/* ---- a file ----------------------------------------------------------------------------- */

/* A bit that flipped gives numbers like any others. Files of other programs may have no fingerprint. */
static qk_status check_hash(const qk__layer_file *file, qk_error *err)
{
    char hash[QK__FINGERPRINT_SIZE];
    const json_t *written = json_object_get(file->list.metadata, QK__LAYER_HASH);
    if (!written)
        return QK_OK;
    size_t header = file->list.header_size;
    qk__fingerprint_bytes(file->bytes + header, file->size - header, hash);
    const char *text = json_string_value(written);
    return text && strcmp(text, hash) == 0
               ? QK_OK
               : qk__fail(err, QK_ERR_MALFORMED,
                          "its numbers are not those that were written (their fingerprint is "
                          "another one): fetch the file again, or capture again");
}

/* Rows of first positions are some of the rows of the same heads. */
static qk_status check_first(const qk__layer_file *file, qk_kind kind, qk_error *err)
{
    const qk__layer_view *first = &file->views[QK__FIRST_PARTS + kind],
                         *all = &file->views[kind];
    const size_t heads = first->shape.num_heads;
    bool same =
        heads == 0 || (heads == all->shape.num_heads && first->shape.dim == all->shape.dim &&
                       first->shape.pairs == all->shape.pairs);
    for (size_t h = 0; same && h < heads; h++)
        same = first->heads[h] == all->heads[h] &&
               sum_counts(first, QK__ARRAY_COUNT, first->sizes.groups, (int64_t)h) <=
                   sum_counts(all, QK__ARRAY_COUNT, all->sizes.groups, (int64_t)h);
    return same ? QK_OK
                : qk__fail(err, QK_ERR_MALFORMED,
                           "its rows of first positions are not some of all rows");
}

static qk_status open_views(qk__layer_file *file, qk_error *err)
{
    static const char *const names[] = {"queries", "keys", "queries of first positions",
                                        "keys of first positions"};
    QK_TRY(qk__tensor_list_parse(&file->list, file->bytes, file->size, err));
    QK_TRY(read_metadata(file, err));
    QK_TRY(check_hash(file, err));
    for (int part = 0; part < QK__LAYER_PARTS; part++) {
        qk_status status = open_view(file, part, err);
        if (status == QK_OK && part >= QK__FIRST_PARTS)
            status = check_first(file, (qk_kind)(part - QK__FIRST_PARTS), err);
        if (status != QK_OK)
            return qk__context(err, status, "%s", names[part]);
    }
    const qk__layer_view *q = &file->views[QK_QUERY], *k = &file->views[QK_KEY];
    if (q->shape.num_heads == 0 && k->shape.num_heads == 0)
        return qk__fail(err, QK_ERR_MALFORMED, "it has no array of queries (q.) or keys (k.)");
    if (q->shape.num_heads > 0 && k->shape.num_heads > 0 && q->shape.dim != k->shape.dim)
        return qk__fail(err, QK_ERR_MALFORMED, "queries of dimension %zu, keys of %zu",
                        q->shape.dim, k->shape.dim);
    return QK_OK;
}

qk_status qk__layer_file_open(qk__layer_file **file, const char *path, qk_error *err)
{
    *file = NULL;
    qk__layer_file *f = calloc(1, sizeof *f);
    if (!f)
        return qk__nomem(err);
    f->path = qk__strdup(path);
    qk_status status = f->path ? qk__map_file(path, &f->bytes, &f->size, err) : qk__nomem(err);
    if (status == QK_OK)
        status = qk__context(err, open_views(f, err), "%s", path);
    if (status != QK_OK)
        qk__layer_file_close(&f);
    *file = f;
    return status;
}

void qk__layer_file_let_go(const qk__layer_file *file)
{
    qk__let_go(file->bytes, file->size);
}

void qk__layer_file_close(qk__layer_file **file)
{
    assert(file);
    qk__layer_file *f = *file;
    if (!f)
        return;
    qk__tensor_list_free(&f->list);
    qk__unmap_file(f->bytes, f->size);
    for (int part = 0; part < QK__LAYER_PARTS; part++)
        free(f->views[part].heads);
    free(f->path);
    free(f);
    *file = NULL;
}

int qk__layer_file_layer(const qk__layer_file *file)
{
    return file->layer;
}

const char *qk__layer_file_path(const qk__layer_file *file)
{
    return file->path;
}

const json_t *qk__layer_file_metadata(const qk__layer_file *file)
{
    return file->list.metadata;
}

ptrdiff_t qk__layer_file_find(const qk__layer_file *file, qk_kind kind, int head)
{
    const qk__part_shape *shape = &file->views[kind].shape;
    for (size_t i = 0; i < shape->num_heads; i++)
        if (shape->heads[i] == head)
            return (ptrdiff_t)i;
    return -1;
}

int64_t qk__layer_file_rows(const qk__layer_file *file, qk_kind kind, size_t place)
{
    const qk__layer_view *view = &file->views[kind];
    return sum_counts(view, QK__ARRAY_COUNT, view->sizes.groups, (int64_t)place);
}

const qk__layer_view *qk__layer_file_view(const qk__layer_file *file, int part)
{
    return &file->views[part];
}
