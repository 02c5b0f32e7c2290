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

enum { PIECE_BYTES = 1 << 18 };

static void print_digest(XXH128_hash_t digest, char hash[QK__FINGERPRINT_SIZE])
{
    snprintf(hash, QK__FINGERPRINT_SIZE, "%016llx%016llx", (unsigned long long)digest.high64,
             (unsigned long long)digest.low64);
}

void qk__fingerprint_bytes(const void *data, size_t size, char hash[QK__FINGERPRINT_SIZE])
{
    print_digest(XXH3_128bits(data, size), hash);
}

qk_status qk__fingerprint_fd(int fd, int64_t size, char hash[QK__FINGERPRINT_SIZE],
                             qk_error *err)
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
    for (int64_t at = 0; at < size && status == QK_OK; at += PIECE_BYTES) {
        size_t bytes = size - at < PIECE_BYTES ? (size_t)(size - at) : PIECE_BYTES;
        status = qk__read_at(fd, piece, bytes, at, err);
        if (status == QK_OK)
            XXH3_128bits_update(state, piece, bytes);
    }
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
