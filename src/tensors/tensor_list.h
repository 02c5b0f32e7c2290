/* SPDX-License-Identifier: Apache-2.0 */
/* What is in one file of arrays, and the header of a safetensors file. */
#ifndef QK_TENSORS_TENSOR_LIST_H
#define QK_TENSORS_TENSOR_LIST_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

enum { QK__MAX_RANK = 8 };

typedef struct qk__tensor_entry {
    char *name;
    char dtype[16]; /* as the header spells it, known or not */
    /* of weights; NULL: not one that is read. The model sets it */
    const struct qk__quant *type;
    int rank;
    int64_t shape[QK__MAX_RANK];
    const uint8_t *data;
    int64_t size; /* bytes */
    int64_t parameters;
    const char *file; /* for messages; set by who knows */
} qk__tensor_entry;

typedef struct qk__tensor_list {
    qk__tensor_entry *items; /* in the order of their data */
    size_t count;
    size_t header_size;      /* bytes of the file before the first tensor's */
    struct json_t *metadata; /* safetensors: the object of texts; NULL: there is none */
} qk__tensor_list;

/* Bytes of a number of that type; 0: not known. */
int64_t qk__tensor_element_size(const char *dtype);

/* bytes is a whole file, which must outlive the list. After success every tensor lies within
 * it, none overlaps another, and shape and size agree where the type is known. Messages name
 * the tensor, not the file. Zero-initialise the list; it is empty after a failure. */
QK_MUST_CHECK qk_status qk__tensor_list_parse(qk__tensor_list *list, const uint8_t *bytes,
                                              size_t size, qk_error *err);
/* Puts the items into the order of their data; QK_ERR_MALFORMED: two overlap. */
QK_MUST_CHECK qk_status qk__tensor_list_order(qk__tensor_list *list, qk_error *err);
void qk__tensor_list_free(qk__tensor_list *list);

#endif
