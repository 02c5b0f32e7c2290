/* SPDX-License-Identifier: Apache-2.0 */
/* A unit is one file, written beside its place and renamed. Its last line says that it is whole, and whose it is:
 *
 *     ...                    what the user wrote
 *     HEAD                   one line of his, for who asks what is there
 *     qkscope unit 1 RUN NAME BYTES FINGERPRINT
 *
 * with the length of HEAD, and XXH3-128 of all bytes before the last line. While it is being written its file is locked:
 * so what a killed process left is told from what another one is at. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "base/lock.h"
#include "base/system.h"
#include "work/units.h"

#define FORMAT "qkscope unit 1 "
enum { MAX_LAST_LINE = 256, MAX_HEAD = 1 << 24 };

/* ---- writing ---------------------------------------------------------------------------- */

static qk_status fail_errno(qk_error *err, const char *path, const char *what)
{
    return qk__fail(err, errno == ENOENT ? QK_ERR_NOT_FOUND : QK_ERR_IO, "%s: cannot %s: %s",
                    path, what, strerror(errno));
}

/* Whether an open file still has a name: one that was swept before it was locked has none. */
static bool has_name(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

static qk_status open_temporary(qk__unit *unit, qk_error *err)
{
    for (unsigned n = 0;; n++) {
        free(unit->temporary);
        unit->temporary =
            qk__format("%s" QK__TEMPORARY "%ld-%u", unit->place, (long)getpid(), n);
        if (!unit->temporary)
            return qk__nomem(err);
        unit->fd =
            open(unit->temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (unit->fd < 0 && errno != EEXIST)
            return fail_errno(err, unit->temporary, "open for writing");
        if (unit->fd >= 0 && qk__lock_try(unit->fd, false) != QK__LOCK_HELD &&
            has_name(unit->fd))
            return QK_OK;
        if (unit->fd >= 0)
            close(unit->fd);
        unit->fd = -1;
    }
}

qk_status qk__unit_begin(qk__unit *unit, const char *folder, const char *name, qk_error *err)
{
    *unit = (qk__unit){.fd = -1, .place = qk__path_join(folder, name)};
    qk_status status = unit->place ? open_temporary(unit, err) : qk__nomem(err);
    if (status != QK_OK)
        qk__unit_discard(unit);
    return status;
}

int64_t qk__unit_reserve(qk__unit *unit, size_t size)
{
    int64_t offset = unit->size;
    unit->size += (int64_t)((size + 7) / 8 * 8);
    return offset;
}

qk_status qk__unit_write(const qk__unit *unit, int64_t offset, const void *data, size_t size,
                         qk_error *err)
{
    return qk__context(err, qk__write_at(unit->fd, data, size, offset, err), "%s",
                       unit->temporary);
}

qk_status qk__unit_append(qk__unit *unit, const void *data, size_t size, int64_t *offset,
                          qk_error *err)
{
    *offset = qk__unit_reserve(unit, size);
    return qk__unit_write(unit, *offset, data, size, err);
}

static void release(qk__unit *unit)
{
    if (unit->fd >= 0)
        close(unit->fd);
    free(unit->place);
    free(unit->temporary);
    *unit = (qk__unit){.fd = -1};
}

void qk__unit_discard(qk__unit *unit)
{
    if (unit->fd >= 0)
        unlink(unit->temporary);
    release(unit);
}

/* The head and the last line. */
static qk_status close_lines(qk__unit *unit, const char *run, const char *head, qk_error *err)
{
    char hash[QK__FINGERPRINT_SIZE], line[MAX_LAST_LINE];
    const char *name = strrchr(unit->place, '/') + 1;
    const int64_t size = (int64_t)strlen(head);
    QK_TRY(qk__unit_write(unit, unit->size, head, (size_t)size, err));
    QK_TRY(qk__unit_write(unit, unit->size + size, "\n", 1, err));
    QK_TRY(qk__context(err, qk__fingerprint_fd(unit->fd, unit->size + size + 1, hash, err),
                       "%s", unit->temporary));
    int length =
        snprintf(line, sizeof line, FORMAT "%s %s %" PRId64 " %s\n", run, name, size, hash);
    if (length < 0 || (size_t)length >= sizeof line || size > MAX_HEAD)
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: cannot be the name of a unit of %s", name,
                        run);
    return qk__unit_write(unit, unit->size + size + 1, line, (size_t)length, err);
}

/* On the disk, and under its name. It is gone afterwards. */
static qk_status take_place(qk__unit *unit, qk_error *err)
{
    qk_status status =
        qk__sync(unit->fd) == 0 ? QK_OK : fail_errno(err, unit->temporary, "write");
    if (status == QK_OK && rename(unit->temporary, unit->place) != 0)
        status = errno == ENOENT
                     ? qk__fail(err, QK_ERR_NOT_FOUND,
                                "%s: gone meanwhile: another process with the same "
                                "number has ended the run, or its folder was removed",
                                unit->place)
                     : fail_errno(err, unit->place, "rename to its place");
    if (status == QK_OK)
        release(unit);
    else
        qk__unit_discard(unit);
    return status;
}

qk_status qk__unit_finish(qk__unit *unit, const char *run, const char *head, qk_error *err)
{
    qk_status status = close_lines(unit, run, head, err);
    if (status == QK_OK)
        return take_place(unit, err);
    qk__unit_discard(unit);
    return status;
}

/* ---- reading ---------------------------------------------------------------------------- */

/* What the last line says. */
typedef struct last_line {
    int64_t bytes, head; /* before it, and of the head */
    char hash[QK__FINGERPRINT_SIZE];
} last_line;

/* Reads "FORMAT RUN NAME BYTES FINGERPRINT\n"; false where it is another one. */
static bool read_line(const char *line, const char *run, const char *name, last_line *last)
{
    char begin[MAX_LAST_LINE];
    int end = 0, length = snprintf(begin, sizeof begin, FORMAT "%s %s ", run, name);
    if (length < 0 || (size_t)length >= sizeof begin ||
        strncmp(line, begin, (size_t)length) != 0)
        return false;
    return sscanf(line + length, "%" SCNd64 " %32[0-9a-f]%n", &last->head, last->hash, &end) ==
               2 &&
           strlen(last->hash) == QK__FINGERPRINT_SIZE - 1 &&
           strcmp(line + length + end, "\n") == 0;
}

static qk_status find_last(int fd, int64_t size, const char *run, const char *name,
                           last_line *last, qk_error *err)
{
    char text[MAX_LAST_LINE + 1] = "";
    size_t read = size < MAX_LAST_LINE ? (size_t)size : MAX_LAST_LINE;
    QK_TRY(qk__read_at(fd, text, read, size - (int64_t)read, err));
    size_t at = read > 0 ? read - 1 : 0;
    while (at > 0 && text[at - 1] != '\n')
        at--;
    last->bytes = size - (int64_t)(read - at);
    if (!read_line(text + at, run, name, last) || last->head < 0 || last->head > MAX_HEAD ||
        last->head >= last->bytes)
        return qk__fail(err, QK_ERR_MALFORMED,
                        "it is not whole, or was made for another place");
    return QK_OK;
}

static qk_status read_head(int fd, const last_line *last, qk__buffer *head, qk_error *err)
{
    const size_t size = (size_t)last->head;
    QK_TRY(qk__buffer_reserve(head, size + 1, err));
    QK_TRY(qk__read_at(fd, head->data, size, last->bytes - 1 - last->head, err));
    head->data[size] = 0;
    head->size = size;
    return QK_OK;
}

static qk_status check_bytes(int fd, const last_line *last, qk_error *err)
{
    char hash[QK__FINGERPRINT_SIZE];
    QK_TRY(qk__fingerprint_fd(fd, last->bytes, hash, err));
    return strcmp(hash, last->hash) == 0
               ? QK_OK
               : qk__fail(err, QK_ERR_MALFORMED, "its bytes are not those that were written");
}

/* Its descriptor where all is right. */
static qk_status open_unit(const char *folder, const char *name, const char *run, bool whole,
                           int *fd, qk__buffer *head, qk_error *err)
{
    int64_t size;
    last_line last;
    char *path = qk__path_join(folder, name);
    qk_status status = path ? qk__open_file(path, fd, &size, err) : qk__nomem(err);
    free(path);
    QK_TRY(status);
    status = find_last(*fd, size, run, name, &last, err);
    if (status == QK_OK && whole)
        status = check_bytes(*fd, &last, err);
    if (status == QK_OK && head)
        status = read_head(*fd, &last, head, err);
    if (status != QK_OK) {
        close(*fd);
        *fd = -1;
    }
    return status;
}

qk_status qk__unit_open(const char *folder, const char *name, const char *run, int *fd,
                        qk__buffer *head, qk_error *err)
{
    *fd = -1;
    return open_unit(folder, name, run, true, fd, head, err);
}

qk_status qk__unit_look(const char *folder, const char *name, const char *run, qk__buffer *head,
                        bool *there, qk_error *err)
{
    int fd = -1;
    qk_error why = {0};
    qk_status status = open_unit(folder, name, run, false, &fd, head, &why);
    *there = status == QK_OK;
    if (fd >= 0)
        close(fd);
    return status == QK_ERR_NOMEM || status == QK_ERR_IO
               ? qk__fail(err, status, "%s", why.message)
               : QK_OK;
}

/* ---- to another folder ------------------------------------------------------------------ */

static bool is_same_file(const char *one, const char *other)
{
    struct stat a, b;
    return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/* All bytes, to a unit that takes its place. */
static qk_status copy_unit(int fd, const char *name, const char *to, qk_error *err)
{
    enum { PIECE = 1 << 20 };
    qk__unit unit;
    int64_t size = lseek(fd, 0, SEEK_END);
    uint8_t *piece = malloc(PIECE);
    qk_status status = piece ? qk__unit_begin(&unit, to, name, err) : qk__nomem(err);
    if (status != QK_OK) {
        free(piece);
        return status;
    }
    for (int64_t at = 0; status == QK_OK && at < size; at += PIECE) {
        size_t take = size - at < PIECE ? (size_t)(size - at) : PIECE;
        status = qk__read_at(fd, piece, take, at, err);
        if (status == QK_OK)
            status = qk__unit_write(&unit, at, piece, take, err);
    }
    free(piece);
    if (status == QK_OK)
        return take_place(&unit, err);
    qk__unit_discard(&unit);
    return status;
}

qk_status qk__unit_give(const char *folder, const char *name, const char *run, const char *to,
                        qk_error *err)
{
    int fd = -1;
    char *from = qk__path_join(folder, name), *place = qk__path_join(to, name);
    qk_status status = from && place ? QK_OK : qk__nomem(err);
    if (status == QK_OK && !is_same_file(from, place)) {
        status = qk__unit_open(folder, name, run, &fd, NULL, err);
        if (status == QK_OK && unlink(place) != 0 && errno != ENOENT) /* it may be damaged */
            status = fail_errno(err, place, "replace");
        if (status == QK_OK && link(from, place) != 0)
            status = copy_unit(fd, name, to, err);
    }
    if (fd >= 0)
        close(fd);
    free(from);
    free(place);
    return status;
}

/* ---- what killed processes left --------------------------------------------------------- */

/* One that is being written is locked by who writes it. */
static bool is_left(const char *name, const void *context)
{
    if (qk__temporary_stem(name) == 0)
        return false;
    char *path = qk__path_join(context, name);
    int fd = path ? open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    bool left = fd >= 0 && qk__lock_try(fd, false) == QK__LOCK_TAKEN;
    if (left) /* while it is locked: nobody begins with what is about to go */
        unlink(path);
    if (fd >= 0)
        close(fd);
    free(path);
    return left;
}

qk_status qk__units_sweep(const char *top, const char *name, qk_error *err)
{
    char *folder = qk__path_join(top, name);
    qk_status status =
        folder ? qk__empty_below(top, name, is_left, folder, err) : qk__nomem(err);
    free(folder);
    return status;
}
