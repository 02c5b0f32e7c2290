/* SPDX-License-Identifier: Apache-2.0 */
/* Maps the files of a checkpoint and puts their tensors in order of name. */
#include "model/weight_files.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"

/* ---- files ------------------------------------------------------------------------------ */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

qk_status qk__weight_files_name(struct qk__checkpoint *c, const char **names, size_t count,
                                qk_error *err)
{
    qsort(names, count, sizeof *names, compare_names);
    c->files = qk__calloc(count, sizeof *c->files);
    if (!c->files)
        return qk__nomem(err);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && strcmp(names[i], names[i - 1]) == 0)
            continue;
        qk__weight_file *file = &c->files[c->num_files++];
        file->name = qk__strdup(names[i]);
        if (!file->name)
            return qk__nomem(err);
    }
    return QK_OK;
}

static qk_status open_file(qk__weight_file *file, const char *folder,
                           qk__weight_file_parse *parse, void *context, qk_error *err)
{
    qk__path path;
    QK_TRY(qk__path_in(&path, folder, file->name, err));
    qk_status status = qk__map_file(path.text, &file->bytes, &file->size, err);
    if (status == QK_OK) {
        status = parse(context, file, err);
        qk__context(err, status, "%s", path.text);
    }
    for (size_t i = 0; i < file->list.count; i++)
        file->list.items[i].file = file->name;
    return status;
}

/* ---- tensors by name -------------------------------------------------------------------- */

static int compare_entries(const void *a, const void *b)
{
    const qk__tensor_entry *x = *(const qk__tensor_entry *const *)a;
    const qk__tensor_entry *y = *(const qk__tensor_entry *const *)b;
    return strcmp(x->name, y->name);
}

const qk__tensor_entry *qk__weight_files_find(const struct qk__checkpoint *c, const char *name)
{
    size_t low = 0, high = c->num_tensors;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, c->tensors[middle]->name);
        if (order == 0)
            return c->tensors[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static qk_status sort_tensors(struct qk__checkpoint *c, qk_error *err)
{
    size_t count = 0;
    for (size_t i = 0; i < c->num_files; i++)
        count += c->files[i].list.count;
    c->tensors = qk__calloc(count, sizeof *c->tensors);
    if (count == 0)
        return QK_OK;
    if (!c->tensors)
        return qk__nomem(err);
    for (size_t i = 0; i < c->num_files; i++)
        for (size_t j = 0; j < c->files[i].list.count; j++)
            c->tensors[c->num_tensors++] = &c->files[i].list.items[j];
    qsort(c->tensors, count, sizeof *c->tensors, compare_entries);
    for (size_t i = 1; i < count; i++)
        if (strcmp(c->tensors[i - 1]->name, c->tensors[i]->name) == 0)
            return qk__fail(err, QK_ERR_INCONSISTENT, "tensor %s is in %s and in %s",
                            c->tensors[i]->name, c->tensors[i - 1]->file, c->tensors[i]->file);
    return QK_OK;
}

qk_status qk__weight_files_open(struct qk__checkpoint *c, const char *folder,
                                qk__weight_file_parse *parse, void *context, qk_error *err)
{
    for (size_t i = 0; i < c->num_files; i++)
        QK_TRY(open_file(&c->files[i], folder, parse, context, err));
    return sort_tensors(c, err);
}
