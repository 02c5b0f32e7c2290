/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint while it is being opened: its files, mapped one after the other. */
#ifndef QK_MODEL_WEIGHT_FILES_H
#define QK_MODEL_WEIGHT_FILES_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

#include "tensors/tensor_list.h"

typedef struct qk__weight_file {
    char *name;
    const uint8_t *bytes; /* NULL: not mapped */
    size_t size;
    qk__tensor_list list;
} qk__weight_file;

struct qk__checkpoint {
    qk__weight_file *files; /* in order of their names */
    size_t num_files;
    const qk__tensor_entry **tensors; /* in order of their names */
    size_t num_tensors;
    /* of one that is made: it has no tensors yet, and is told those that are asked for */
    qk_status (*make)(void *maker, const char *name, int64_t rows, int64_t columns,
                      qk_error *err);
    void *maker;
    const char *source; /* what says which shape a tensor should have: "config.json" */
    const char *types;  /* that are read: "F32, F16 and BF16" */
};

/* Sets c->files: sorts names, each is taken once. */
QK_MUST_CHECK qk_status qk__weight_files_name(struct qk__checkpoint *c, const char **names,
                                              size_t count, qk_error *err);

/* Fills file->list from file->bytes. Messages do not name the file. */
typedef qk_status qk__weight_file_parse(void *context, qk__weight_file *file, qk_error *err);

/* Maps and parses each file, then makes its tensors known. Messages name the file. */
QK_MUST_CHECK qk_status qk__weight_files_open(struct qk__checkpoint *c, const char *folder,
                                              qk__weight_file_parse *parse, void *context,
                                              qk_error *err);

/* NULL: there is none. */
const qk__tensor_entry *qk__weight_files_find(const struct qk__checkpoint *c, const char *name);

#endif
