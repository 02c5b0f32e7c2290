/* SPDX-License-Identifier: Apache-2.0 */
/* Writing named arrays as a safetensors file, which NumPy and PyTorch read. */
#ifndef QK_TENSORS_TENSORS_WRITE_H
#define QK_TENSORS_TENSORS_WRITE_H

#include <jansson.h>

#include <qkscope/common.h>

#include "base/fingerprint.h"
#include "tensors/tensor_list.h"

typedef struct qk__tensor_out {
    const char *name;
    const char *dtype; /* "F64", as the format spells it */
    int rank;
    int64_t shape[QK__MAX_RANK];
    const void *data; /* little-endian; not needed where the shape has a 0 */
    const void *const
        *pieces; /* or, not NULL: shape[0] pieces of it, one for each first index */
} qk__tensor_out;

/* Fingerprint of the data of such arrays, as they will lie in the file. */
QK_MUST_CHECK qk_status qk__tensors_fingerprint(const qk__tensor_out *tensors, size_t count,
                                                char hash[QK__FINGERPRINT_SIZE], qk_error *err);

/* Writes the arrays in this order; those whose numbers are widest come first, so that all are
 * aligned. metadata: an object of texts. The file appears whole or not at all. */
QK_MUST_CHECK qk_status qk__tensors_write(const char *path, const qk__tensor_out *tensors,
                                          size_t count, const json_t *metadata, qk_error *err);

#endif
