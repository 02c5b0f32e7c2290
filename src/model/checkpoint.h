/* SPDX-License-Identifier: Apache-2.0 */
/* Weights: files mapped into memory, tensors found by name, rows converted to float32 when they
 * are needed. Everything a header claims is checked when it is opened. checkpoint.c leads;
 * checkpoint_folder.c and gguf_open.c open one, both by means of weight_files.c. */
#ifndef QK_MODEL_CHECKPOINT_H
#define QK_MODEL_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <qkscope/common.h>

#include "model/quants.h"

/* A matrix (or, with one row, a vector) in a mapped file. data may have any alignment. */
typedef struct qk__tensor {
    const void *data; /* NULL: there is no such tensor */
    const qk__quant *type;
    int64_t rows, columns;
    /* Not 0: the rows (of a vector, the values) of each head of so many have pairs that are
     * rotated together side by side in the file; whoever reads them gets them half a head
     * apart. */
    int64_t paired_head;
} qk__tensor;

/* Rows first .. first+count-1 as float32, row-major: in the file itself where it has them so
 * (F32, aligned), else converted into out ([count][columns]), which is returned. Conversion is
 * exact and the same on every processor. */
const float *qk__tensor_rows(const qk__tensor *tensor, int64_t first, int64_t count,
                             float *out);

/* The numbers of one row as they lie in the file, if they are BF16 in their order; else NULL. */
const void *qk__tensor_bf16_row(const qk__tensor *tensor, int64_t row);

/* Some rows of a tensor, or some values of a vector of plain numbers; not of a paired one. */
qk__tensor qk__tensor_slice(const qk__tensor *tensor, int64_t first, int64_t count);

typedef struct qk__checkpoint qk__checkpoint;

/* folder holds model.safetensors, or model.safetensors.index.json and the files it names;
 * other files are not looked at. */
QK_MUST_CHECK qk_status qk__checkpoint_open_folder(qk__checkpoint **checkpoint,
                                                   const char *folder, qk_error *err);
/* path is a GGUF file, or the first of several; *metadata, an object as qk__gguf has it, is the
 * caller's. */
QK_MUST_CHECK qk_status qk__checkpoint_open_gguf(qk__checkpoint **checkpoint, const char *path,
                                                 json_t **metadata, qk_error *err);
void qk__checkpoint_close(qk__checkpoint **checkpoint);

/* Has whatever tensor it is asked for, without data. */
extern const qk__checkpoint qk__checkpoint_of_shapes;

bool qk__checkpoint_has(const qk__checkpoint *checkpoint, const char *name);

/* Rows of a tensor that is there, 1 of a vector; 0: there is no such tensor. */
int64_t qk__checkpoint_rows(const qk__checkpoint *checkpoint, const char *name);

/* A tensor of exactly this shape (rows 1: a vector of `columns`). QK_ERR_NOT_FOUND: none of
 * that name; QK_ERR_INCONSISTENT: another shape; QK_ERR_UNSUPPORTED: a type that is not
 * read, named in the message. */
QK_MUST_CHECK qk_status qk__checkpoint_get(const qk__checkpoint *checkpoint, const char *name,
                                           int64_t rows, int64_t columns, qk__tensor *tensor,
                                           qk_error *err);

/* XXH3-64 of the sizes of the files, their headers and the first and last 4 KiB of each tensor:
 * steps of one training differ, and no more than a few pages are read. */
QK_MUST_CHECK qk_status qk__checkpoint_fingerprint(const qk__checkpoint *checkpoint,
                                                   uint64_t seed, uint64_t *fingerprint,
                                                   qk_error *err);

/* ---- folders that are no model in the form that is read here (other_forms.c) ------------ */

/* Whether there is nothing at all at path, though there is the folder. */
bool qk__folder_lacks(const char *folder, const char *path);

/* Fails: `missing` is not in the folder. Of what is there instead, says what it is and what to
 * do about it. */
QK_MUST_CHECK qk_status qk__refuse_folder(const char *folder, const char *missing,
                                          qk_error *err);

#endif
