/* SPDX-License-Identifier: Apache-2.0 */
/* Files of rows while a run goes on, one a head. A row is written where the journal's counts
 * say, so a run that is resumed overwrites what is not valid. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "recorder/recording.h"

size_t qk__spool_row_bytes(const qk__recording *r)
{
    return sizeof(qk__spool_row) + (size_t)r->facts->head_dim * sizeof(float);
}

char *qk__spool_path(const qk__recording *r, int stage, qk_head_id id)
{
    char name[QK_HEAD_NAME_SIZE];
    char file[QK_HEAD_NAME_SIZE + 8];
    qk_head_name(id, name);
    snprintf(file, sizeof file, "%s.%s", name, qk__stage_name(stage));
    return qk__path_join(r->spool, file);
}

static qk_status open_path(const char *path, int *fd, qk_error *err)
{
    *fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    return *fd >= 0 ? QK_OK
                    : qk__fail(err, QK_ERR_IO, "%s: cannot open for writing: %s", path,
                               strerror(errno));
}

qk_status qk__spool_open(const qk__recording *r, int stage, qk_head_id id, int *fd,
                         qk_error *err)
{
    char *path = qk__spool_path(r, stage, id);
    *fd = -1;
    qk_status status = path ? open_path(path, fd, err) : qk__nomem(err);
    free(path);
    return status;
}

qk_status qk__spool_write(int fd, const void *data, size_t size, int64_t offset, qk_error *err)
{
    const uint8_t *next = data;
    while (size > 0) {
        ssize_t put = pwrite(fd, next, size, (off_t)offset);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return qk__fail(err, QK_ERR_IO, "cannot write captured rows: %s", strerror(errno));
        next += put;
        offset += put;
        size -= (size_t)put;
    }
    return QK_OK;
}

qk_status qk__spool_examples(const qk__recording *r, const qk__buffer *lines, qk_error *err)
{
    char *path = qk__path_join(r->spool, "examples");
    int fd = -1;
    qk_status status = path ? open_path(path, &fd, err) : qk__nomem(err);
    if (status == QK_OK)
        status = qk__spool_write(fd, lines->data, lines->size, r->journal.example_bytes, err);
    if (fd >= 0)
        close(fd);
    free(path);
    return status;
}

static qk_status sync_file(const char *path, qk_error *err)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    qk_status status = QK_OK;
    if (fd < 0 || fsync(fd) != 0)
        status = qk__fail(err, QK_ERR_IO, "%s: cannot sync: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return status;
}

qk_status qk__spool_sync(const qk__recording *r, qk_error *err)
{
    qk__names names;
    QK_TRY(qk__list_dir(r->spool, &names, err));
    qk_status status = QK_OK;
    for (size_t i = 0; status == QK_OK && i < names.count; i++) {
        char *path = qk__path_join(r->spool, names.items[i]);
        status = path ? sync_file(path, err) : qk__nomem(err);
        free(path);
    }
    qk__names_free(&names);
    return status;
}
