/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of files here: SHA-256, by which the Hub's store knows them, and git's SHA-1 of small
 * ones. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "fetch/put.h"

enum { PIECE = 1 << 20 };

qk_status qk__put_changed(const qk__put_file *file, qk_error *err)
{
    return qk__fail(
        err, QK_ERR_INCONSISTENT,
        "%s has changed since this command began: is something writing the capture? "
        "Wait for it, then run the same command again",
        file->source);
}

qk_status qk__put_digits(const qk__libraries *lib, EVP_MD_CTX *hash,
                         char digits[QK__MAX_HASH + 1], qk_error *err)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    if (lib->DigestFinal_ex(hash, digest, &size) != 1 || size > QK__MAX_HASH / 2)
        return qk__nomem(err);
    for (unsigned i = 0; i < size; i++)
        snprintf(digits + (size_t)2 * i, 3, "%02x", digest[i]);
    return QK_OK;
}

/* What git calls bytes is a hash of "blob <size>\0" and them. */
static qk_status begin_hash(const qk__libraries *lib, EVP_MD_CTX **hash, bool lfs, int64_t size,
                            qk_error *err)
{
    char head[40];
    size_t length =
        lfs ? 0 : (size_t)snprintf(head, sizeof head, "blob %lld", (long long)size) + 1;
    *hash = lib->MD_CTX_new();
    return *hash && lib->DigestInit_ex(*hash, lfs ? lib->sha256() : lib->sha1(), NULL) == 1 &&
                   lib->DigestUpdate(*hash, head, length) == 1
               ? QK_OK
               : qk__nomem(err);
}

qk_status qk__put_hash_text(const qk__libraries *lib, const void *bytes, size_t size,
                            char oid[QK__MAX_HASH + 1], qk_error *err)
{
    EVP_MD_CTX *hash = NULL;
    qk_status status = begin_hash(lib, &hash, false, (int64_t)size, err);
    if (status == QK_OK && lib->DigestUpdate(hash, bytes, size) != 1)
        status = qk__nomem(err);
    if (status == QK_OK)
        status = qk__put_digits(lib, hash, oid, err);
    lib->MD_CTX_free(hash);
    return status;
}

static qk_status hash_bytes(qk__fetch *f, const qk__put_file *file, int fd, EVP_MD_CTX *hash,
                            uint8_t *piece, qk_error *err)
{
    for (int64_t at = 0; at < file->size;) {
        int64_t left = file->size - at;
        size_t size = left < PIECE ? (size_t)left : PIECE;
        QK_TRY(qk__context(err, qk__read_at(fd, piece, size, at, err), "%s", file->source));
        if (f->libraries.DigestUpdate(hash, piece, size) != 1)
            return qk__nomem(err);
        at += (int64_t)size;
        if (!qk__fetch_tick(f, (int64_t)size, 0))
            return qk__fail(err, QK_ERR_CANCELLED, "stopped");
    }
    return QK_OK;
}

qk_status qk__put_hash(qk__fetch *f, qk__put_file *file, bool lfs, qk_error *err)
{
    int fd = -1;
    int64_t size;
    EVP_MD_CTX *hash = NULL;
    uint8_t *piece = malloc(PIECE);
    qk_status status = piece ? qk__open_file(file->source, &fd, &size, err) : qk__nomem(err);
    if (status == QK_OK && size != file->size)
        status = qk__put_changed(file, err);
    if (status == QK_OK)
        status = begin_hash(&f->libraries, &hash, lfs, size, err);
    if (status == QK_OK)
        status = hash_bytes(f, file, fd, hash, piece, err);
    if (status == QK_OK)
        status = qk__put_digits(&f->libraries, hash, lfs ? file->sha256 : file->oid, err);
    if (hash)
        f->libraries.MD_CTX_free(hash);
    if (fd >= 0)
        close(fd);
    free(piece);
    return status;
}

void qk__put_measure(qk__put *put, int64_t bytes)
{
    pthread_mutex_lock(&put->fetch.lock);
    put->fetch.done = 0;
    put->fetch.total = bytes;
    pthread_mutex_unlock(&put->fetch.lock);
}
