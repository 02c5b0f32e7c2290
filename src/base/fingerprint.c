/* SPDX-License-Identifier: Apache-2.0 */
/* Fingerprints by xxHash: of bytes in memory at once, of files piece by piece. */
#include "base/fingerprint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/error.h"
#include "base/file.h"

/* The C library would fetch larger pieces from the kernel, and give them back, each time. */
enum { PIECE_BYTES = 1 << 16 };

static void print_digest(XXH128_hash_t digest, char hash[QK__FINGERPRINT_SIZE])
{
    snprintf(hash, QK__FINGERPRINT_SIZE, "%016llx%016llx", (unsigned long long)digest.high64,
             (unsigned long long)digest.low64);
}

void qk__fingerprint_bytes(const void *data, size_t size, char hash[QK__FINGERPRINT_SIZE])
{
    print_digest(XXH3_128bits(data, size), hash);
}

qk_status qk__fingerprint_pieces(const qk__memory_piece *pieces, size_t count,
                                 char hash[QK__FINGERPRINT_SIZE], qk_error *err)
{
    XXH3_state_t *state = XXH3_createState();
    hash[0] = 0;
    if (!state)
        return qk__nomem(err);
    XXH3_128bits_reset(state);
    for (size_t i = 0; i < count; i++)
        XXH3_128bits_update(state, pieces[i].data, pieces[i].size);
    print_digest(XXH3_128bits_digest(state), hash);
    XXH3_freeState(state);
    return QK_OK;
}

qk_status qk__fingerprint_fd(int fd, int64_t size, char hash[QK__FINGERPRINT_SIZE],
                             qk_error *err)
{
    return qk__fingerprint_spans(fd, &(const qk__span){0, size}, 1, hash, err);
}

static qk_status add_span(XXH3_state_t *state, int fd, qk__span span, uint8_t *piece,
                          qk_error *err)
{
    for (int64_t at = 0; at < span.size; at += PIECE_BYTES) {
        size_t bytes = span.size - at < PIECE_BYTES ? (size_t)(span.size - at) : PIECE_BYTES;
        QK_TRY(qk__read_at(fd, piece, bytes, span.offset + at, err));
        XXH3_128bits_update(state, piece, bytes);
    }
    return QK_OK;
}

qk_status qk__fingerprint_spans(int fd, const qk__span *spans, size_t count,
                                char hash[QK__FINGERPRINT_SIZE], qk_error *err)
{
    qk_status status = QK_OK;
    XXH3_state_t *state = XXH3_createState();
    uint8_t *piece = malloc(PIECE_BYTES);
    hash[0] = 0;
    if (!state || !piece) {
        status = qk__nomem(err);
        goto done;
    }
    XXH3_128bits_reset(state);
    for (size_t i = 0; i < count && status == QK_OK; i++)
        status = add_span(state, fd, spans[i], piece, err);
    if (status == QK_OK)
        print_digest(XXH3_128bits_digest(state), hash);
done:
    free(piece);
    XXH3_freeState(state);
    return status;
}

qk_status qk__fingerprint_file(const char *path, int64_t *size, char hash[QK__FINGERPRINT_SIZE],
                               qk_error *err)
{
    int fd;
    QK_TRY(qk__open_file(path, &fd, size, err));
    qk_status status = qk__fingerprint_fd(fd, *size, hash, err);
    close(fd);
    return qk__context(err, status, "%s", path);
}
