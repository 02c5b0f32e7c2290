/* SPDX-License-Identifier: Apache-2.0 */
/* A GGUF file as a checkpoint, together with the further files of one that was split:
 * NAME-00001-of-00003.gguf has all the metadata, the others tensors only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/tree.h"
#include "model/checkpoint.h"
#include "model/gguf.h"
#include "model/weight_files.h"

#define TAIL_FORMAT "-%05u-of-%05u.gguf"
enum { TAIL_LENGTH = sizeof "-00001-of-00003.gguf" - 1, MAX_FILES = 99999 };

/* While the files are read, one after the other. */
typedef struct reading {
    json_t *metadata;    /* of the first */
    int64_t count, next; /* files, by their names, and which of them comes */
    int64_t tensors;     /* of all files, as the first says; 0: it does not */
} reading;

static qk_status check_split(reading *r, const json_t *metadata, qk_error *err)
{
    const qk__node root = qk__tree_of_json(metadata);
    int64_t number = r->next, count = r->count;
    QK_TRY(qk__read_int64(&root, "split.no", 0, MAX_FILES, &number, err));
    QK_TRY(qk__read_int64(&root, "split.count", 0, MAX_FILES, &count, err));
    if (count == 0) /* of one file some writers say so */
        count = 1;
    if (number != r->next || count != r->count)
        return qk__fail(
            err, QK_ERR_INCONSISTENT,
            "split.no, split.count: this is file %lld of %lld; of several, the first "
            "has to be given, under its name NAME" TAIL_FORMAT,
            (long long)number + 1, (long long)count, 1U, (unsigned)count);
    r->next++;
    return r->next == 1
               ? qk__read_int64(&root, "split.tensors.count", 0, INT32_MAX, &r->tensors, err)
               : QK_OK;
}

static qk_status parse(void *context, qk__weight_file *file, qk_error *err)
{
    reading *r = context;
    qk__gguf gguf;
    QK_TRY(qk__gguf_parse(&gguf, file->bytes, file->size, err));
    file->list = gguf.tensors;
    qk_status status = check_split(r, gguf.metadata, err);
    if (r->metadata)
        json_decref(gguf.metadata);
    else
        r->metadata = gguf.metadata;
    return status;
}

/* How many files a name tells of, if it is that of the first of several; else 1. */
static int count_files(const char *name)
{
    size_t length = strlen(name);
    int number, count;
    char tail[TAIL_LENGTH + 1];
    if (length <= TAIL_LENGTH)
        return 1;
    const char *end = name + length - TAIL_LENGTH;
    if (sscanf(end, "-%5d-of-%5d.gguf", &number, &count) != 2 || number != 1 || count < 1)
        return 1;
    snprintf(tail, sizeof tail, TAIL_FORMAT, 1U, (unsigned)count % 100000);
    return strcmp(tail, end) == 0 ? count : 1;
}

static qk_status name_files(qk__checkpoint *c, const char *first, int count, qk_error *err)
{
    size_t size = strlen(first) + 1;
    char *text = qk__calloc((size_t)count, size);
    const char **names = qk__calloc((size_t)count, sizeof *names);
    qk_status status = text && names ? QK_OK : qk__nomem(err);
    for (int i = 0; i < count && status == QK_OK; i++) {
        char *name = text + (size_t)i * size;
        names[i] = memcpy(name, first, size);
        if (count > 1)
            snprintf(name + size - 1 - TAIL_LENGTH, TAIL_LENGTH + 1, TAIL_FORMAT,
                     (unsigned)(i + 1) % 100000, (unsigned)count % 100000);
    }
    if (status == QK_OK)
        status = qk__weight_files_name(c, names, (size_t)count, err);
    free(names);
    free(text);
    return status;
}

static qk_status open_files(qk__checkpoint *c, const char *folder, const char *name, reading *r,
                            qk_error *err)
{
    r->count = count_files(name);
    QK_TRY(name_files(c, name, (int)r->count, err));
    QK_TRY(qk__weight_files_open(c, folder, parse, r, err));
    if (r->tensors > 0 && (size_t)r->tensors != c->num_tensors)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: split.tensors.count: %lld tensors, the files have %zu", name,
                        (long long)r->tensors, c->num_tensors);
    return QK_OK;
}

qk_status qk__checkpoint_open_gguf(qk__checkpoint **checkpoint, const char *path,
                                   json_t **metadata, qk_error *err)
{
    const char *name = qk__file_name(path);
    char *folder;
    reading r = {0};
    *checkpoint = NULL;
    *metadata = NULL;
    QK_TRY(qk__parent_folder(path, &folder, err));
    qk__checkpoint *c = qk__calloc(1, sizeof *c);
    qk_status status = c ? QK_OK : qk__nomem(err);
    if (c) {
        *c = (qk__checkpoint){.source = "the metadata",
                              .types = "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to "
                                       "Q6_K, IQ4_NL and IQ4_XS"};
        status = open_files(c, folder, name, &r, err);
    }
    free(folder);
    if (status != QK_OK) {
        qk__checkpoint_close(&c);
        json_decref(r.metadata);
        r.metadata = NULL;
    }
    *checkpoint = c;
    *metadata = r.metadata;
    return status;
}
