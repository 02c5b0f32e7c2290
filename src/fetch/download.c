/* SPDX-License-Identifier: Apache-2.0 */
/* One file into the cache. Its bytes gather in a file of this process alone, blobs/<etag>.<8 digits>.qkscope.
 * incomplete, are checked, and take their name by a rename. What a run that was cut off has gathered is
 * copied, not taken over: whether that run has ended only a lock tells, and locks may lie. */
#define _DEFAULT_SOURCE /* getentropy */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/lock.h"
#include "base/system.h"
#include "fetch/fetch.h"

#define ENDING ".qkscope.incomplete"

enum { COPY_BYTES = 1 << 20, RANDOM_DIGITS = 8 };

/* A file on its way. */
typedef struct part {
    qk__fetch *fetch;
    const qk__repo_file *file;
    const qk__libraries *lib;
    char *path, *blob;
    int fd;
    EVP_MD_CTX *hash;
    int64_t size;                /* bytes that are there and in the hash */
    char etag[QK__MAX_HASH + 4]; /* of the server that they came from */
} part;

static qk_status fail_errno(qk_error *err, const char *what, const char *path)
{
    return qk__fail(err, QK_ERR_IO, "%s: cannot %s: %s", path, what, strerror(errno));
}

/* ---- hashes ------------------------------------------------------------------------------ */

/* SHA-256 of the bytes where the Hub keeps them by LFS; else what git calls them, a hash of
 * "blob <size>\0" and the bytes. */
static qk_status begin_hash(part *p, qk_error *err)
{
    bool lfs = *p->file->sha256 != 0;
    const EVP_MD *kind = lfs || strlen(p->file->oid) == 64 ? p->lib->sha256() : p->lib->sha1();
    char head[40];
    size_t size = 0;
    if (!lfs)
        size = (size_t)snprintf(head, sizeof head, "blob %lld", (long long)p->file->size) + 1;
    if (!p->hash)
        p->hash = p->lib->MD_CTX_new();
    p->size = 0;
    return p->hash && p->lib->DigestInit_ex(p->hash, kind, NULL) == 1 &&
                   p->lib->DigestUpdate(p->hash, head, size) == 1
               ? QK_OK
               : qk__nomem(err);
}

static bool hash_fits(part *p)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    char text[2 * EVP_MAX_MD_SIZE + 1] = "";
    if (p->lib->DigestFinal_ex(p->hash, digest, &size) != 1)
        return false;
    for (unsigned i = 0; i < size; i++)
        snprintf(text + (size_t)2 * i, 3, "%02x", digest[i]);
    return strcmp(text, qk__repo_file_etag(p->file)) == 0;
}

/* ---- bytes ------------------------------------------------------------------------------- */

static qk_status append(part *p, const uint8_t *bytes, size_t size, qk_error *err)
{
    for (size_t put = 0; put < size;) {
        ssize_t n = write(p->fd, bytes + put, size - put);
        if (n < 0 && errno != EINTR)
            return fail_errno(err, "write", p->path);
        put += n > 0 ? (size_t)n : 0;
    }
    p->size += (int64_t)size;
    return p->lib->DigestUpdate(p->hash, bytes, size) == 1 ? QK_OK : qk__nomem(err);
}

/* Begins anew, as if nothing had come. */
static qk_status drop(part *p, qk_error *err)
{
    qk__fetch_tick(p->fetch, -p->size, 0);
    *p->etag = 0;
    if (ftruncate(p->fd, 0) != 0 || lseek(p->fd, 0, SEEK_SET) != 0)
        return fail_errno(err, "shorten", p->path);
    return begin_hash(p, err);
}

static qk_status begin_file(void *user, int64_t *from, const char **etag, qk_error *err)
{
    part *p = user;
    if (p->size >= p->file->size && p->file->size > 0)
        QK_TRY(drop(p, err)); /* they were not the right ones, or it would have been done */
    *from = p->size;
    *etag = p->etag;
    return QK_OK;
}

/* Before the first bytes of an answer. */
static qk_status check_start(part *p, const qk__headers *answer, qk_error *err)
{
    if (answer->status == 200 && p->size > 0)
        QK_TRY(drop(p, err)); /* the server does not do ranges, or has other bytes now */
    if (answer->status == 206 && answer->first != p->size) {
        QK_TRY(drop(p, err));
        return qk__fail(err, QK_ERR_INCONSISTENT, "another range than the one asked for");
    }
    int64_t total = answer->status == 206 ? answer->total : answer->length;
    if (total >= 0 && total != p->file->size)
        return qk__fail(err, QK_ERR_INCONSISTENT, "%lld bytes, where the Hub lists %lld",
                        (long long)total, (long long)p->file->size);
    memcpy(p->etag, answer->etag, sizeof p->etag);
    return QK_OK;
}

typedef struct transfer {
    part *part;
    const qk__headers *answer; /* whose start was checked */
    bool started;
} transfer;

static qk_status begin_transfer(void *user, int64_t *from, const char **etag, qk_error *err)
{
    transfer *t = user;
    t->started = false;
    return begin_file(t->part, from, etag, err);
}

static qk_status take_bytes(void *user, const qk__headers *answer, const uint8_t *bytes,
                            size_t size, qk_error *err)
{
    transfer *t = user;
    part *p = t->part;
    if (!t->started)
        QK_TRY(check_start(p, answer, err));
    t->started = true;
    if ((int64_t)size > p->file->size - p->size) {
        QK_TRY(drop(p, err));
        return qk__fail(err, QK_ERR_INCONSISTENT, "more than the %lld bytes that the Hub lists",
                        (long long)p->file->size);
    }
    QK_TRY(append(p, bytes, size, err));
    return qk__fetch_tick(p->fetch, (int64_t)size, (int64_t)size)
               ? QK_OK
               : qk__fail(err, QK_ERR_CANCELLED, "stopped");
}

static qk_status end_file(void *user, const qk__headers *answer, qk_error *err)
{
    transfer *t = user;
    part *p = t->part;
    if (answer->status == 416) {
        QK_TRY(drop(p, err));
        return qk__fail(err, QK_ERR_INCONSISTENT, "the rest of the file cannot be had");
    }
    if (!t->started) /* no bytes */
        QK_TRY(check_start(p, answer, err));
    if (p->size == p->file->size && hash_fits(p))
        return QK_OK;
    int64_t size = p->size;
    QK_TRY(drop(p, err));
    return size == p->file->size
               ? qk__fail(err, QK_ERR_INCONSISTENT,
                          "other bytes than those the Hub lists: their hash is not %s",
                          qk__repo_file_etag(p->file))
               : qk__fail(err, QK_ERR_INCONSISTENT, "%lld bytes, where the Hub lists %lld",
                          (long long)size, (long long)p->file->size);
}

/* ---- what was cut off -------------------------------------------------------------------- */

qk_status qk__download_leftovers(const qk__fetch *fetch, qk__names *names, qk_error *err)
{
    qk__path blobs;
    *names = (qk__names){0};
    QK_TRY(qk__path_in(&blobs, fetch->folder, "blobs", err));
    qk_status status = qk__list_dir(blobs.text, names, err);
    size_t kept = 0;
    for (size_t i = 0; i < names->count; i++) {
        if (qk__ends_with(names->items[i], ENDING))
            names->items[kept++] = names->items[i];
        else
            free(names->items[i]);
    }
    names->count = kept;
    return status;
}

static bool is_leftover_of(const char *name, const qk__repo_file *file)
{
    const char *etag = qk__repo_file_etag(file);
    size_t length = strlen(etag);
    return strncmp(name, etag, length) == 0 && name[length] == '.';
}

int64_t qk__download_gathered(const qk__fetch *fetch, const qk__repo_file *file,
                              const qk__names *names)
{
    int64_t most = 0;
    for (size_t i = 0; i < names->count; i++) {
        struct stat st;
        qk__path path;
        if (is_leftover_of(names->items[i], file) &&
            qk__path_set(&path, NULL, "%s/blobs/%s", fetch->folder, names->items[i]) == QK_OK &&
            lstat(path.text, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > most &&
            st.st_size <= file->size)
            most = st.st_size;
    }
    return most;
}

/* Bytes of a leftover into p, and removes it. */
static qk_status copy_leftover(part *p, int fd, const char *path, qk_error *err)
{
    uint8_t *bytes = malloc(COPY_BYTES);
    qk_status status = bytes ? QK_OK : qk__nomem(err);
    while (status == QK_OK && p->size < p->file->size) {
        int64_t left = p->file->size - p->size;
        ssize_t n = read(fd, bytes, left < COPY_BYTES ? (size_t)left : COPY_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break; /* what is there will do */
        status = append(p, bytes, (size_t)n, err);
        if (status == QK_OK && !qk__fetch_tick(p->fetch, n, 0))
            status = qk__fail(err, QK_ERR_CANCELLED, "stopped");
    }
    free(bytes);
    if (status == QK_OK)
        unlink(path);
    return status;
}

/* Whether a path still is that of an open file. */
static bool is_there(const char *path, int fd)
{
    struct stat named, opened;
    return lstat(path, &named) == 0 && fstat(fd, &opened) == 0 &&
           named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

/* Takes in the longest leftover of the file and removes them all; *busy: another process has one in
 * its hands. */
static qk_status use_leftovers(part *p, const qk__names *names, bool *busy, qk_error *err)
{
    qk_status status = QK_OK;
    *busy = false;
    for (size_t i = 0; status == QK_OK && i < names->count; i++) {
        if (!is_leftover_of(names->items[i], p->file))
            continue;
        qk__path at;
        const char *path = at.text;
        QK_TRY(qk__path_set(&at, err, "%s/blobs/%s", p->fetch->folder, names->items[i]));
        struct stat st;
        int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && qk__lock_try(fd, false) == QK__LOCK_HELD)
            *busy = true;
        else if (fd >= 0 && is_there(path, fd) && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
            if (st.st_size > p->size && st.st_size <= p->file->size) {
                status = p->size > 0 ? drop(p, err) : QK_OK;
                if (status == QK_OK)
                    status = copy_leftover(p, fd, path, err);
            } else {
                unlink(path);
            }
        }
        if (fd >= 0)
            close(fd);
    }
    return status;
}

/* ---- the file ---------------------------------------------------------------------------- */

/* Locks a new file, which says to other processes that this one lives; see above. Before the lock, one of them may
 * have taken it for a leftover, and removed it, or be about to. */
static bool is_mine(const part *p)
{
    return qk__lock_try(p->fd, false) != QK__LOCK_HELD && is_there(p->path, p->fd);
}

static qk_status open_part(part *p, qk_error *err)
{
    uint32_t number;
    for (int i = 0; i < 100; i++) {
        if (getentropy(&number, sizeof number) != 0)
            return fail_errno(err, "draw a random number", p->blob);
        free(p->path);
        p->path = qk__format("%s.%0*x" ENDING, p->blob, RANDOM_DIGITS, (unsigned)number);
        if (!p->path)
            return qk__nomem(err);
        p->fd = open(p->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (p->fd < 0 && errno != EEXIST)
            break;
        if (p->fd >= 0 && is_mine(p))
            return begin_hash(p, err);
        if (p->fd >= 0)
            close(p->fd);
        p->fd = -1;
        errno = EEXIST;
    }
    return fail_errno(err, "create", p->path);
}

static void close_part(part *p, bool keep)
{
    if (p->fd >= 0 && (!keep || p->size == 0))
        unlink(p->path);
    if (p->fd >= 0)
        close(p->fd);
    if (p->hash)
        p->lib->MD_CTX_free(p->hash);
    free(p->path);
    free(p->blob);
}

/* Bytes on disk first, then the name. */
static qk_status publish(part *p, qk_error *err)
{
    if (qk__sync(p->fd) != 0)
        return fail_errno(err, "write", p->path);
    if (rename(p->path, p->blob) == 0)
        return QK_OK;
    /* Where locks lie, another process has taken this one's bytes for leftovers. */
    return errno == ENOENT && qk__is_file(p->blob) ? QK_OK : fail_errno(err, "rename", p->path);
}

qk_status qk__file_address(const qk__fetch *f, const qk__repo_file *file, qk__buffer *address,
                           qk_error *err)
{
    QK_TRY(qk__buffer_printf(address, err, "%s/%s%s/resolve/%s/", f->access.endpoint,
                             f->kind == &qk__hub_dataset ? "datasets/" : "", f->name,
                             f->commit));
    QK_TRY(qk__quote(address, file->path, true, err));
    return qk__buffer_append(address, "", 1, err);
}

static qk_status fetch_bytes(part *p, qk__connection *connection, qk_error *err)
{
    transfer t = {.part = p};
    qk__buffer address = {0};
    if (p->size == p->file->size) { /* a leftover had all of it */
        if (hash_fits(p))
            return QK_OK;
        QK_TRY(drop(p, err));
    }
    qk_status status = qk__file_address(p->fetch, p->file, &address, err);
    const qk__request request = {(char *)address.data, 0,        &t,  begin_transfer,
                                 take_bytes,           end_file, NULL};
    if (status == QK_OK)
        status = qk__connection_get(connection, &request, err);
    qk__buffer_free(&address);
    return status;
}

static bool is_cached(const part *p)
{
    struct stat st;
    return stat(p->blob, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == p->file->size;
}

qk_status qk__download_run(qk__fetch *fetch, qk__connection *connection, qk__download *download,
                           const qk__names *leftovers, bool last_chance, qk_error *err)
{
    const qk__repo_file *file = download->file;
    part p = {.fetch = fetch, .file = file, .lib = &fetch->libraries, .fd = -1};
    p.blob = qk__format("%s/blobs/%s", fetch->folder, qk__repo_file_etag(file));
    bool busy = false, keep = true;
    qk_status status = p.blob ? QK_OK : qk__nomem(err);
    download->busy = false;
    if (status == QK_OK &&
        (is_cached(&p) || qk__shared_store_link(fetch->cache, fetch->folder, file))) {
        qk__fetch_tick(fetch, file->size, 0);
    } else if (status == QK_OK) {
        status = qk__fetch_load(fetch, err);
        if (status == QK_OK)
            status = open_part(&p, err);
        if (status == QK_OK)
            status = use_leftovers(&p, leftovers, &busy, err);
        download->busy = busy && !last_chance && p.size == 0;
        if (status == QK_OK && !download->busy)
            status = fetch_bytes(&p, connection, err);
        if (status == QK_OK && !download->busy)
            status = publish(&p, err);
        keep = status != QK_OK;
        download->fetched = status == QK_OK && !download->busy;
        if (download->fetched && fetch->settings->record)
            status = qk__record_add(fetch, '+', &file, 1, err);
    }
    if (status == QK_OK && !download->busy)
        status = qk__snapshot_link(fetch->folder, fetch->commit, file, err);
    close_part(&p, keep || download->fetched);
    return status;
}
