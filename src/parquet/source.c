/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the bytes of a Parquet file, and their fingerprint. */
#include "parquet/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/error.h"
#include "base/file.h"
#include "parquet/reader.h"

enum {
    /* Files up to this size are read whole: one call instead of many, and the fingerprint
     * does not read them again. More would let memory follow the size of the data. */
    SMALL_FILE_BYTES = 1 << 22,
    PIECE_BYTES = 1 << 18, /* of a large file, to fingerprint it */
};

qk_status qk__source_open(qk_source *source, int fd, qk_error *err)
{
    struct stat st;
    *source = (qk_source){.fd = fd};
    if (fstat(fd, &st) != 0)
        return qk__fail(err, QK_ERR_IO, "cannot stat: %s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return qk__fail(err, QK_ERR_IO,
                        S_ISDIR(st.st_mode) ? "is a folder" : "not a regular file");
    source->size = st.st_size;
    if (source->size == 0 || source->size > SMALL_FILE_BYTES)
        return QK_OK;
    source->contents = malloc((size_t)source->size);
    if (!source->contents)
        return qk__nomem(err);
    return qk__read_at(fd, source->contents, (size_t)source->size, 0, err);
}

void qk__source_close(qk_source *source)
{
    free(source->contents);
    close(source->fd);
    *source = (qk_source){.fd = -1};
}

qk_status qk__source_read(const qk_source *source, void *data, size_t size, int64_t offset,
                          qk_error *err)
{
    if (!source->contents)
        return qk__read_at(source->fd, data, size, offset, err);
    if (offset < 0 || offset > source->size || size > (uint64_t)(source->size - offset))
        return qk__fail(err, QK_ERR_MALFORMED, "file ends %zu bytes after byte %lld", size,
                        (long long)offset);
    memcpy(data, source->contents + offset, size);
    return QK_OK;
}

static qk_status hash_in_pieces(const qk_source *source, XXH128_hash_t *digest, qk_error *err)
{
    qk_status status = QK_OK;
    XXH3_state_t *state = XXH3_createState();
    uint8_t *piece = malloc(PIECE_BYTES);
    if (!state || !piece) {
        status = qk__nomem(err);
        goto done;
    }
    XXH3_128bits_reset(state);
    for (int64_t at = 0; at < source->size && status == QK_OK; at += PIECE_BYTES) {
        size_t size =
            source->size - at < PIECE_BYTES ? (size_t)(source->size - at) : PIECE_BYTES;
        status = qk__read_at(source->fd, piece, size, at, err);
        if (status == QK_OK)
            XXH3_128bits_update(state, piece, size);
    }
    *digest = XXH3_128bits_digest(state);
done:
    free(piece);
    XXH3_freeState(state);
    return status;
}

qk_status qk_parquet_fingerprint(const qk_parquet *file, char hash[QK_FINGERPRINT_SIZE],
                                 qk_error *err)
{
    const qk_source *source = &file->source;
    XXH128_hash_t digest = {0};
    qk_status status = QK_OK;
    hash[0] = 0;
    if (source->contents)
        digest = XXH3_128bits(source->contents, (size_t)source->size);
    else
        status = hash_in_pieces(source, &digest, err);
    if (status != QK_OK)
        return qk__context(err, status, "%s", file->path);
    snprintf(hash, QK_FINGERPRINT_SIZE, "%016llx%016llx", (unsigned long long)digest.high64,
             (unsigned long long)digest.low64);
    return QK_OK;
}
