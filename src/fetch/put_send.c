/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of one file to where the Hub stores files, hashed a second time on their way: between
 * the first time and now the file may have changed. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "fetch/put.h"

enum { PATIENCE = 300 }; /* seconds that the store may take to look at what it got */

/* One part on its way. */
typedef struct part {
    qk__fetch *fetch;
    const qk__put_file *file;
    int fd;
    int64_t start, size, at;  /* of the file; bytes; how many of them are given */
    EVP_MD_CTX *before, *now; /* hash of the file up to start, and up to start + at */
    char *etag;               /* or NULL */
    bool changed, stale;
} part;

static qk_status begin_upload(void *user, int64_t *from, const char **etag, qk_error *err)
{
    part *p = user;
    (void)from, (void)etag;
    qk__fetch_tick(p->fetch, -p->at, 0);
    p->at = 0;
    return p->fetch->libraries.MD_CTX_copy_ex(p->now, p->before) == 1 ? QK_OK : qk__nomem(err);
}

/* Whether the whole file has been given, and is the one whose hash the store was told. */
static qk_status check_last(part *p, qk_error *err)
{
    char digits[QK__MAX_HASH + 1] = "";
    if (p->start + p->at < p->file->size)
        return QK_OK;
    /* The digest of a copy: libcurl may begin anew. */
    EVP_MD_CTX *copy = p->fetch->libraries.MD_CTX_new();
    qk_status status = copy && p->fetch->libraries.MD_CTX_copy_ex(copy, p->now) == 1
                           ? qk__put_digits(&p->fetch->libraries, copy, digits, err)
                           : qk__nomem(err);
    if (copy)
        p->fetch->libraries.MD_CTX_free(copy);
    p->changed = status == QK_OK && strcmp(digits, p->file->sha256) != 0;
    return p->changed ? qk__fail(err, QK_ERR_IO, "changed") : status;
}

static qk_status give(void *user, uint8_t *bytes, size_t room, size_t *size, qk_error *err)
{
    part *p = user;
    int64_t left = p->size - p->at;
    *size = (int64_t)room < left ? room : (size_t)left;
    if (*size == 0)
        return QK_OK;
    qk_status status = qk__read_at(p->fd, bytes, *size, p->start + p->at, err);
    p->changed = status == QK_ERR_MALFORMED; /* shorter */
    QK_TRY(status);
    if (p->fetch->libraries.DigestUpdate(p->now, bytes, *size) != 1)
        return qk__nomem(err);
    p->at += (int64_t)*size;
    QK_TRY(check_last(p, err));
    return qk__fetch_tick(p->fetch, (int64_t)*size, (int64_t)*size)
               ? QK_OK
               : qk__fail(err, QK_ERR_CANCELLED, "stopped");
}

static qk_status take_answer(void *user, const qk__headers *answer, const uint8_t *bytes,
                             size_t size, qk_error *err)
{
    (void)user, (void)answer, (void)bytes, (void)size, (void)err; /* it has nothing to say */
    return QK_OK;
}

static qk_status end_upload(void *user, const qk__headers *answer, qk_error *err)
{
    part *p = user;
    if (p->at < p->size)
        return qk__fail(err, QK_ERR_IO, "an answer before all bytes were sent");
    if (p->etag && !*answer->etag)
        return qk__fail(err, QK_ERR_MALFORMED, "no ETag for a part of a file");
    if (p->etag)
        memcpy(p->etag, answer->etag, sizeof answer->etag);
    return QK_OK;
}

static qk_status refused(void *user, const qk__headers *answer, const char *origin,
                         qk_error *err)
{
    part *p = user;
    p->stale = true;
    return qk__put_refused(p->fetch, answer, origin, err);
}

static qk_status send_part(part *p, qk__connection *c, const char *address, qk_error *err)
{
    const qk__sending sending = {.method = "PUT",
                                 .size = p->size,
                                 .give = give,
                                 .refused = refused,
                                 .patience = PATIENCE};
    const qk__request request = {.address = address,
                                 .user = p,
                                 .begin = begin_upload,
                                 .take = take_answer,
                                 .end = end_upload,
                                 .sending = &sending};
    qk_status status = qk__connection_get(c, &request, err);
    return p->changed ? qk__put_changed(p->file, err) : status;
}

static qk_status send_parts(part *p, qk__connection *c, const qk__put_target *target,
                            qk_error *err)
{
    const qk__libraries *lib = &p->fetch->libraries;
    for (size_t i = 0; i < target->count; i++) {
        int64_t left = p->file->size - p->start;
        p->size = i + 1 < target->count ? target->part : left;
        p->etag = target->etags ? target->etags[i] : NULL;
        QK_TRY(send_part(p, c, target->addresses[i], err));
        p->start += p->size;
        p->at = 0;
        if (lib->MD_CTX_copy_ex(p->before, p->now) != 1)
            return qk__nomem(err);
    }
    return QK_OK;
}

qk_status qk__put_send(qk__connection *c, const qk__put_file *file,
                       const qk__put_target *target, bool *stale, qk_error *err)
{
    part p = {.fetch = qk__connection_fetch(c), .file = file, .fd = -1};
    const qk__libraries *lib = &p.fetch->libraries;
    int64_t size = 0;
    p.before = lib->MD_CTX_new();
    p.now = lib->MD_CTX_new();
    qk_status status =
        p.before && p.now && lib->DigestInit_ex(p.before, lib->sha256(), NULL) == 1
            ? qk__open_file(file->source, &p.fd, &size, err)
            : qk__nomem(err);
    if (status == QK_OK && size != file->size)
        status = qk__put_changed(file, err);
    if (status == QK_OK)
        status = send_parts(&p, c, target, err);
    if (status != QK_OK) /* what was counted of it, of this attempt */
        qk__fetch_tick(p.fetch, -(p.start + p.at), 0);
    *stale = p.stale;
    if (p.fd >= 0)
        close(p.fd);
    if (p.before)
        lib->MD_CTX_free(p.before);
    if (p.now)
        lib->MD_CTX_free(p.now);
    return status;
}
