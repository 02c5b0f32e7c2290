/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the bytes of a Parquet file. */
#include "parquet/source.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

enum {
    /* Files up to this size are read whole once something beside the footer is asked for: one
     * call instead of many, and the fingerprint does not read them again. More would let memory
     * follow the size of the data. */
    SMALL_FILE_BYTES = 1 << 22,
    /* Any file may become this much, and more the larger it is. Real captures hold at least a
     * byte or two for a row, whose positions differ even when its vectors do not. */
    FREE_BYTES = 1 << 28,
    DECODED_PER_BYTE = 1 << 10,
};

qk_status qk__source_open(qk__source *source, int fd, qk_error *err)
{
    *source = (qk__source){.fd = fd, .contents = calloc(1, sizeof *source->contents)};
    return source->contents ? qk__check_file(fd, &source->size, err) : qk__nomem(err);
}

qk_status qk__source_load(const qk__source *source, qk_error *err)
{
    size_t size = (size_t)source->size;
    if (source->contents->bytes || size == 0 || source->size > SMALL_FILE_BYTES)
        return QK_OK;
    uint8_t *bytes = malloc(size);
    if (!bytes)
        return qk__nomem(err);
    qk_status status = qk__read_at(source->fd, bytes, size, 0, err);
    if (status == QK_OK)
        source->contents->bytes = bytes;
    else
        free(bytes);
    return status;
}

void qk__source_close(qk__source *source)
{
    if (source->contents)
        free(source->contents->bytes);
    free(source->contents);
    close(source->fd);
    *source = (qk__source){.fd = -1};
}

int64_t qk__source_budget(const qk__source *source)
{
    return source->size > (INT64_MAX - FREE_BYTES) / DECODED_PER_BYTE
               ? INT64_MAX
               : FREE_BYTES + source->size * DECODED_PER_BYTE;
}

qk_status qk__source_read(const qk__source *source, void *data, size_t size, int64_t offset,
                          qk_error *err)
{
    const uint8_t *bytes = source->contents->bytes;
    if (!bytes)
        return qk__read_at(source->fd, data, size, offset, err);
    if (offset < 0 || offset > source->size || size > (uint64_t)(source->size - offset))
        return qk__fail(err, QK_ERR_MALFORMED, "file ends %zu bytes after byte %lld", size,
                        (long long)offset);
    memcpy(data, bytes + offset, size);
    return QK_OK;
}
