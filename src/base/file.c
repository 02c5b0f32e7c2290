/* SPDX-License-Identifier: Apache-2.0 */
/* Reading files and folders, and output files that appear whole or not at all. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/system.h"

enum {
    OUT_BUFFER_BYTES = 1 << 16,
    MAX_CALL = 1 << 30, /* macOS refuses more than an int; Linux does a part of it */
};

static size_t call_size(size_t size)
{
    return size < MAX_CALL ? size : MAX_CALL;
}

static qk_status fail_errno(qk_error *err, const char *what, const char *path)
{
    int code = errno;
    qk_status status = code == ENOENT || code == ENOTDIR ? QK_ERR_NOT_FOUND
                       : code == ENOMEM                  ? QK_ERR_NOMEM
                                                         : QK_ERR_IO;
    return qk__fail(err, status, "%s: cannot %s: %s", path, what, strerror(code));
}

qk_status qk__read_at(int fd, void *data, size_t size, int64_t offset, qk_error *err)
{
    uint8_t *next = data;
    while (size > 0) {
        ssize_t got = pread(fd, next, call_size(size), (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return qk__fail(err, QK_ERR_IO, "cannot read at byte %lld: %s", (long long)offset,
                            strerror(errno));
        if (got == 0)
            return qk__fail(err, QK_ERR_MALFORMED, "file ends at byte %lld, %zu bytes too soon",
                            (long long)offset, size);
        next += got;
        offset += got;
        size -= (size_t)got;
    }
    return QK_OK;
}

qk_status qk__check_file(int fd, int64_t *size, qk_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return qk__fail(err, QK_ERR_IO, "cannot stat: %s", strerror(errno));
    *size = st.st_size;
    if (S_ISREG(st.st_mode))
        return QK_OK;
    return qk__fail(err, QK_ERR_IO, "is a %s, not a file",
                    S_ISDIR(st.st_mode)    ? "folder"
                    : S_ISFIFO(st.st_mode) ? "pipe"
                                           : "device");
}

/* What Git leaves where a large file was not fetched: a few lines of text. */
static bool is_lfs_pointer(int fd, int64_t size)
{
    enum { MAX_POINTER = 1024 };
    static const char BEGIN[] = "version https://git-lfs";
    char found[sizeof BEGIN - 1];
    return size <= MAX_POINTER && pread(fd, found, sizeof found, 0) == sizeof found &&
           memcmp(found, BEGIN, sizeof found) == 0;
}

qk_status qk__open_file(const char *path, int *fd, int64_t *size, qk_error *err)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0 && errno == ENXIO)
        return qk__fail(err, QK_ERR_IO, "%s: is a device or a socket, not a file", path);
    if (*fd < 0)
        return fail_errno(err, "open", path);
    qk_status status = qk__check_file(*fd, size, err);
    if (status == QK_OK && is_lfs_pointer(*fd, *size))
        status = qk__fail(err, QK_ERR_MALFORMED,
                          "is a pointer of Git LFS to a large file, not the file: fetch that "
                          "with git lfs pull, or with hf download");
    if (status != QK_OK) {
        close(*fd);
        *fd = -1;
    }
    return qk__context(err, status, "%s", path);
}

static qk_status read_whole(int fd, size_t size, qk__buffer *contents, qk_error *err)
{
    QK_TRY(qk__buffer_reserve(contents, size + 1, err));
    QK_TRY(qk__read_at(fd, contents->data, size, 0, err));
    contents->data[size] = 0;
    contents->size = size;
    return QK_OK;
}

qk_status qk__write_at(int fd, const void *data, size_t size, int64_t offset, qk_error *err)
{
    const uint8_t *next = data;
    while (size > 0) {
        ssize_t put = pwrite(fd, next, call_size(size), (off_t)offset);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return qk__fail(err, QK_ERR_IO, "cannot write: %s", strerror(errno));
        next += put;
        offset += put;
        size -= (size_t)put;
    }
    return QK_OK;
}

qk_status qk__read_file(const char *path, size_t limit, qk__buffer *contents, qk_error *err)
{
    int fd = -1;
    int64_t size = 0;
    *contents = (qk__buffer){0};
    QK_TRY(qk__open_file(path, &fd, &size, err));
    qk_status status =
        size < 0 || (uint64_t)size > limit
            ? qk__fail(err, QK_ERR_MALFORMED, "%lld bytes, more than the %zu allowed",
                       (long long)size, limit)
            : read_whole(fd, (size_t)size, contents, err);
    close(fd);
    if (status != QK_OK)
        qk__buffer_free(contents);
    return qk__context(err, status, "%s", path);
}

qk_status qk__map_file(const char *path, const uint8_t **bytes, size_t *size, qk_error *err)
{
    int fd = -1;
    int64_t length = 0;
    *bytes = NULL;
    *size = 0;
    QK_TRY(qk__open_file(path, &fd, &length, err));
    qk_status status = QK_OK;
    void *map = MAP_FAILED;
    if (length <= 0 || (uint64_t)length > SIZE_MAX)
        status =
            qk__fail(err, QK_ERR_MALFORMED, "%s: it has %lld bytes", path, (long long)length);
    else if ((map = mmap(NULL, (size_t)length, PROT_READ, MAP_PRIVATE, fd, 0)) == MAP_FAILED)
        status =
            qk__fail(err, errno == ENOMEM ? QK_ERR_NOMEM : QK_ERR_IO,
                     "%s: cannot map %lld bytes: %s", path, (long long)length, strerror(errno));
    close(fd);
    if (status == QK_OK) {
        *bytes = map;
        *size = (size_t)length;
    }
    return status;
}

void qk__unmap_file(const uint8_t *bytes, size_t size)
{
    if (bytes)
        munmap((void *)(uintptr_t)bytes, size);
}

qk_status qk__make_dirs(const char *path, qk_error *err)
{
    char *copy = qk__strdup(path);
    if (!copy)
        return qk__nomem(err);
    qk_status status = QK_OK;
    for (char *p = copy + 1; status == QK_OK; p++) {
        if (*p != '/' && *p != 0)
            continue;
        char end = *p;
        *p = 0;
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            status = fail_errno(err, "create folder", copy);
        else if (!qk__is_dir(copy))
            status = qk__fail(err, QK_ERR_EXISTS,
                              qk__is_there(copy) ? "%s: exists and is not a folder"
                                                 : "%s: is a link that leads nowhere",
                              copy);
        *p = end;
        if (end == 0)
            break;
    }
    free(copy);
    return status;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static qk_status add_name(qk__names *names, size_t *capacity, const char *name, qk_error *err)
{
    if (names->count == *capacity) {
        char **items = qk__grow(names->items, capacity, sizeof *items);
        if (!items)
            return qk__nomem(err);
        names->items = items;
    }
    char *copy = qk__strdup(name);
    if (copy)
        names->items[names->count++] = copy;
    return copy ? QK_OK : qk__nomem(err);
}

static qk_status list_entries(DIR *dir, const char *path, qk__names *names, qk_error *err)
{
    qk_status status = QK_OK;
    size_t capacity = 0;
    *names = (qk__names){0};
    for (struct dirent *entry; status == QK_OK;) {
        errno = 0;
        if (!(entry = readdir(dir))) {
            status = errno == 0 ? QK_OK : fail_errno(err, "list folder", path);
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = add_name(names, &capacity, entry->d_name, err);
    }
    if (status != QK_OK)
        qk__names_free(names);
    else if (names->count > 1)
        qsort(names->items, names->count, sizeof *names->items, compare_names);
    return status;
}

qk_status qk__list_dir(const char *path, qk__names *names, qk_error *err)
{
    *names = (qk__names){0};
    DIR *dir = opendir(path);
    if (!dir)
        return fail_errno(err, "open folder", path);
    qk_status status = list_entries(dir, path, names, err);
    closedir(dir);
    return status;
}

qk_status qk__list_open(int fd, const char *path, qk__names *names, qk_error *err)
{
    *names = (qk__names){0};
    /* an open file of its own, whose position belongs to no other */
    int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = own >= 0 ? fdopendir(own) : NULL;
    if (!dir) {
        qk_status status = fail_errno(err, "open folder", path);
        if (own >= 0)
            close(own);
        return status;
    }
    qk_status status = list_entries(dir, path, names, err);
    closedir(dir);
    return status;
}

void qk__names_free(qk__names *names)
{
    qk__strings_free(names->items, names->count);
    *names = (qk__names){0};
}

bool qk__is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool qk__is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool qk__is_file_in(const char *folder, const char *name)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", name);
    return length > 0 && (size_t)length < sizeof path && qk__is_file(path);
}

bool qk__is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

struct qk__outfile {
    int fd;
    char *path;
    char *temporary;
    int64_t size; /* bytes accepted so far */
    size_t pending;
    uint8_t buffer[OUT_BUFFER_BYTES];
};

/* Opens "<path>.tmp-qkscope-<pid>-<n>" for the first n not taken. The temporary lies in the same
 * folder, so that rename() cannot cross devices. */
static qk_status open_temporary(qk__outfile *file, qk_error *err)
{
    for (unsigned n = 0;; n++) {
        file->temporary =
            qk__format("%s" QK__TEMPORARY "%ld-%u", file->path, (long)getpid(), n);
        if (!file->temporary)
            return qk__nomem(err);
        file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->fd >= 0)
            return QK_OK;
        qk_status status = errno == EEXIST ? QK_OK : fail_errno(err, "create", file->path);
        free(file->temporary); /* not ours to remove */
        file->temporary = NULL;
        QK_TRY(status);
    }
}

qk_status qk__outfile_open(qk__outfile **file, const char *path, qk_error *err)
{
    *file = NULL;
    qk__outfile *f = calloc(1, sizeof *f);
    if (!f)
        return qk__nomem(err);
    f->fd = -1;
    f->path = qk__strdup(path);
    qk_status status = f->path ? open_temporary(f, err) : qk__nomem(err);
    if (status != QK_OK)
        qk__outfile_discard(&f);
    *file = f;
    return status;
}

qk_status qk__outfile_open_in(qk__outfile **file, const char *folder, const char *name,
                              qk_error *err)
{
    *file = NULL;
    char *path = qk__path_join(folder, name);
    qk_status status = path ? qk__outfile_open(file, path, err) : qk__nomem(err);
    free(path);
    return status;
}

static qk_status write_fully(qk__outfile *file, const uint8_t *data, size_t size, qk_error *err)
{
    while (size > 0) {
        ssize_t put = write(file->fd, data, call_size(size));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return fail_errno(err, "write", file->path);
        data += put;
        size -= (size_t)put;
    }
    return QK_OK;
}

static qk_status flush_pending(qk__outfile *file, qk_error *err)
{
    size_t size = file->pending;
    file->pending = 0;
    return write_fully(file, file->buffer, size, err);
}

qk_status qk__outfile_write(qk__outfile *file, const void *data, size_t size, qk_error *err)
{
    file->size += (int64_t)size;
    if (size > OUT_BUFFER_BYTES - file->pending)
        QK_TRY(flush_pending(file, err));
    if (size >= OUT_BUFFER_BYTES)
        return write_fully(file, data, size, err);
    if (size > 0) /* data may be NULL then */
        memcpy(file->buffer + file->pending, data, size);
    file->pending += size;
    return QK_OK;
}

int64_t qk__outfile_size(const qk__outfile *file)
{
    return file->size;
}

const char *qk__outfile_temporary(const qk__outfile *file)
{
    return file->temporary;
}

qk_status qk__outfile_finish(qk__outfile *file, qk_error *err)
{
    QK_TRY(flush_pending(file, err));
    if (qk__sync(file->fd) != 0)
        return fail_errno(err, "sync", file->path);
    int fd = file->fd;
    file->fd = -1;
    return close(fd) == 0 ? QK_OK : fail_errno(err, "close", file->path);
}

qk_status qk__outfile_commit(qk__outfile **file, qk_error *err)
{
    qk__outfile *f = *file;
    qk_status status = f->fd >= 0 ? qk__outfile_finish(f, err) : QK_OK;
    if (status == QK_OK && rename(f->temporary, f->path) != 0)
        status = fail_errno(err, "rename to its place", f->path);
    if (status == QK_OK) {
        free(f->temporary);
        f->temporary = NULL;
    }
    qk__outfile_discard(file);
    return status;
}

void qk__outfile_discard(qk__outfile **file)
{
    qk__outfile *f = *file;
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    if (f->temporary)
        unlink(f->temporary);
    free(f->temporary);
    free(f->path);
    free(f);
    *file = NULL;
}

qk_status qk__write_file(const char *path, const void *data, size_t size, qk_error *err)
{
    qk__outfile *file;
    QK_TRY(qk__outfile_open(&file, path, err));
    qk_status status = qk__outfile_write(file, data, size, err);
    if (status == QK_OK)
        return qk__outfile_commit(&file, err);
    qk__outfile_discard(&file);
    return status;
}

qk_status qk__write_file_in(const char *folder, const char *name, const void *data, size_t size,
                            qk_error *err)
{
    char *path = qk__path_join(folder, name);
    qk_status status = path ? qk__write_file(path, data, size, err) : qk__nomem(err);
    free(path);
    return status;
}
