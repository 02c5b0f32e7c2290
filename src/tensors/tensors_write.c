/* SPDX-License-Identifier: Apache-2.0 */
/* Writing safetensors: eight bytes of length, a JSON object, then the arrays' bytes. */
#include "tensors/tensors_write.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_build.h"

enum { LENGTH_BYTES = 8 };

static size_t bytes_of(const qk__tensor_out *tensor)
{
    size_t bytes = (size_t)qk__tensor_element_size(tensor->dtype);
    for (int i = 0; i < tensor->rank; i++)
        bytes *= (size_t)tensor->shape[i];
    return bytes;
}

static json_t *tensor_json(const qk__tensor_out *tensor, size_t begin)
{
    size_t end = begin + bytes_of(tensor);
    json_t *shape = json_array();
    for (int i = 0; i < tensor->rank; i++)
        shape = qk__json_append(shape, json_integer(tensor->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", tensor->dtype, "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)end);
}

/* The text of the header, NULL when out of memory. */
static char *make_header(const qk__tensor_out *tensors, size_t count, const json_t *metadata)
{
    json_t *header = json_object();
    size_t begin = 0;
    header = qk__json_set(header, "__metadata__", json_deep_copy(metadata));
    for (size_t i = 0; i < count; i++) {
        header = qk__json_set(header, tensors[i].name, tensor_json(&tensors[i], begin));
        begin += bytes_of(&tensors[i]);
    }
    char *text = qk__json_dumps(header, JSON_COMPACT);
    json_decref(header);
    return text;
}

/* The header is filled up with spaces, so that the arrays begin at a multiple of 8. */
static qk_status write_header(qk__outfile *file, const char *text, qk_error *err)
{
    static const char spaces[] = "        ";
    size_t length = strlen(text), fill = -length % LENGTH_BYTES;
    uint64_t total = length + fill;
    uint8_t bytes[LENGTH_BYTES];
    for (int i = 0; i < LENGTH_BYTES; i++)
        bytes[i] = (uint8_t)(total >> (8 * i));
    QK_TRY(qk__outfile_write(file, bytes, sizeof bytes, err));
    QK_TRY(qk__outfile_write(file, text, length, err));
    return qk__outfile_write(file, spaces, fill, err);
}

static size_t count_pieces(const qk__tensor_out *tensor)
{
    return tensor->pieces ? (size_t)tensor->shape[0] : 1;
}

static size_t list_pieces(const qk__tensor_out *tensor, qk__memory_piece *pieces)
{
    size_t bytes = bytes_of(tensor), count = bytes > 0 ? count_pieces(tensor) : 0;
    for (size_t i = 0; i < count; i++)
        pieces[i] = (qk__memory_piece){tensor->pieces ? tensor->pieces[i] : tensor->data,
                                       bytes / count};
    return count;
}

qk_status qk__tensors_fingerprint(const qk__tensor_out *tensors, size_t count,
                                  char hash[QK__FINGERPRINT_SIZE], qk_error *err)
{
    size_t most = 0, used = 0;
    for (size_t i = 0; i < count; i++)
        most += count_pieces(&tensors[i]);
    qk__memory_piece *pieces = qk__calloc(most + 1, sizeof *pieces);
    if (!pieces)
        return qk__nomem(err);
    for (size_t i = 0; i < count; i++)
        used += list_pieces(&tensors[i], pieces + used);
    qk_status status = qk__fingerprint_pieces(pieces, used, hash, err);
    free(pieces);
    return status;
}

static qk_status write_tensor(qk__outfile *file, const qk__tensor_out *tensor, qk_error *err)
{
    size_t bytes = bytes_of(tensor), pieces = count_pieces(tensor);
    for (size_t i = 0; i < pieces && bytes > 0; i++)
        QK_TRY(qk__outfile_write(file, tensor->pieces ? tensor->pieces[i] : tensor->data,
                                 bytes / pieces, err));
    return QK_OK;
}

static qk_status write_all(qk__outfile *file, const char *header, const qk__tensor_out *tensors,
                           size_t count, qk_error *err)
{
    QK_TRY(write_header(file, header, err));
    for (size_t i = 0; i < count; i++)
        QK_TRY(write_tensor(file, &tensors[i], err));
    return QK_OK;
}

qk_status qk__tensors_write(const char *path, const qk__tensor_out *tensors, size_t count,
                            const json_t *metadata, qk_error *err)
{
    qk__outfile *file;
    QK_TRY(qk__outfile_open(&file, path, err));
    char *header = make_header(tensors, count, metadata);
    qk_status status = header ? write_all(file, header, tensors, count, err) : qk__nomem(err);
    if (status == QK_OK)
        status = qk__outfile_commit(&file, err);
    qk__outfile_discard(&file);
    free(header);
    return status;
}
