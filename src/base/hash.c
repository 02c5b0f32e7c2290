/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3-128 of a file, read in pieces. */
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/error.h"

enum { PIECE_BYTES = 1 << 18 };

qk_status qk__hash_file(const char *path, char hash[QK_HASH_SIZE], int64_t *bytes, qk_error *err)
{
    *bytes = 0;
    hash[0] = 0;
    qk_status status = QK_OK;
    XXH3_state_t *state = XXH3_createState();
    char *piece = malloc(PIECE_BYTES);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (!state || !piece) {
        status = qk__nomem(err);
        goto done;
    }
    if (fd < 0) {
        status = qk__fail(err, QK_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
        goto done;
    }
    XXH3_128bits_reset(state);
    for (;;) {
        ssize_t got = read(fd, piece, PIECE_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            status = qk__fail(err, QK_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
        if (got <= 0)
            break;
        XXH3_128bits_update(state, piece, (size_t)got);
        *bytes += got;
    }
    XXH128_hash_t digest = XXH3_128bits_digest(state);
    snprintf(hash, QK_HASH_SIZE, "%016llx%016llx", (unsigned long long)digest.high64,
             (unsigned long long)digest.low64);
done:
    if (fd >= 0)
        close(fd);
    free(piece);
    XXH3_freeState(state);
    return status;
}
