/* SPDX-License-Identifier: Apache-2.0 */
/* What a download leaves in the cache: blobs by their hashes, snapshots of links to them, refs. Each
 * appears by a rename or a link, so other programs see it whole or not at all, and nothing depends on
 * locks: on some network file systems a lock is granted to everybody. */
#define _XOPEN_SOURCE   700
#define _DEFAULT_SOURCE /* flock */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "hub/hub.h"

enum { SECONDS_LEFT = 60 };

static const char TAG[] = "Signature: 8a477f597d28d172789f06886806bc55\n"
                          "# This file is a cache directory tag created by huggingface_hub.\n"
                          "# For information about cache directory tags, see:\n"
                          "#\thttps://bford.info/cachedir/\n";

static qk_status fail_errno(qk_error *err, const char *what, const char *path)
{
    return qk__fail(err, QK_ERR_IO, "%s: cannot %s: %s", path, what, strerror(errno));
}

/* ---- what killed downloads left ---------------------------------------------------------- */

/* A file of the cache that was being written for a minute: it is of a few kB, so its writer is dead. Its
 * number says nothing, for the cache may be shared with other machines. */
static bool is_left(const char *name, const void *context)
{
    const char *path = context, *slash = strrchr(path, '/');
    size_t stem = qk__temporary_stem(name), folder = (size_t)(slash + 1 - path);
    struct stat st;
    if (stem == 0 || strlen(slash + 1) != stem || memcmp(slash + 1, name, stem) != 0)
        return false;
    char *file = qk__format("%.*s%s", (int)folder, path, name);
    bool left = file && lstat(file, &st) == 0 && time(NULL) - st.st_mtime > SECONDS_LEFT;
    free(file);
    return left;
}

qk_status qk__cache_sweep(const char *path, qk_error *err)
{
    char *folder;
    QK_TRY(qk__parent_folder(path, &folder, err));
    qk_status status = qk__empty_below(folder, "", is_left, path, err);
    free(folder);
    return status;
}

/* ---- folders and refs -------------------------------------------------------------------- */

qk_status qk__hub_prepare(const char *cache, const char *folder, qk_error *err)
{
    char *tag = qk__path_join(cache, "CACHEDIR.TAG");
    char *blobs = qk__path_join(folder, "blobs");
    qk_status status = tag && blobs ? qk__make_dirs(blobs, err) : qk__nomem(err);
    if (status == QK_OK)
        status = qk__cache_sweep(tag, err);
    if (status == QK_OK && !qk__is_there(tag))
        status = qk__write_file(tag, TAG, sizeof TAG - 1, err);
    free(blobs);
    free(tag);
    return status;
}

qk_status qk__hub_write_ref(const char *folder, const char *revision, const char *commit,
                            qk_error *err)
{
    if (strcmp(revision, commit) == 0)
        return QK_OK;
    char *path = qk__format("%s/refs/%s", folder, revision), *parent = NULL;
    qk_status status = path ? qk__parent_folder(path, &parent, err) : qk__nomem(err);
    qk__buffer text = {0};
    bool same = false;
    if (status == QK_OK && qk__is_file(path)) {
        status = qk__read_file(path, 4096, &text, err);
        same = status == QK_OK && strcmp((char *)text.data, commit) == 0;
        status = status == QK_ERR_MALFORMED ? QK_OK : status; /* too long for one */
    }
    if (status == QK_OK)
        status = qk__make_dirs(parent, err);
    if (status == QK_OK)
        status = qk__cache_sweep(path, err);
    if (status == QK_OK && !same)
        status = qk__write_file(path, commit, strlen(commit), err);
    qk__buffer_free(&text);
    free(parent);
    free(path);
    return status;
}

/* ---- links ------------------------------------------------------------------------------- */

static char *link_path(const char *folder, const char *commit, const qk__repo_file *file)
{
    return qk__format("%s/snapshots/%s/%s", folder, commit, file->path);
}

bool qk__snapshot_has(const char *folder, const char *commit, const qk__repo_file *file)
{
    struct stat st;
    char *path = link_path(folder, commit, file);
    bool has = path && stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == file->size;
    free(path);
    return has;
}

bool qk__snapshot_has_other(const char *folder, const char *commit, const qk__repo_file *file)
{
    char *path = link_path(folder, commit, file);
    bool has = path && qk__is_file(path) && !qk__snapshot_has(folder, commit, file);
    free(path);
    return has;
}

/* "../../../blobs/<etag>" */
static char *link_target(const qk__repo_file *file)
{
    qk__buffer target = {0};
    qk_status status = qk__buffer_printf(&target, NULL, "../../");
    for (const char *p = file->path; *p && status == QK_OK; p++)
        if (*p == '/')
            status = qk__buffer_printf(&target, NULL, "../");
    if (status == QK_OK)
        status = qk__buffer_printf(&target, NULL, "blobs/%s", qk__repo_file_etag(file));
    if (status == QK_OK)
        return (char *)target.data;
    qk__buffer_free(&target);
    return NULL;
}

qk_status qk__snapshot_link(const char *folder, const char *commit, const qk__repo_file *file,
                            qk_error *err)
{
    char *path = link_path(folder, commit, file), *target = link_target(file), *parent = NULL;
    qk_status status = path && target ? qk__parent_folder(path, &parent, err) : qk__nomem(err);
    if (status == QK_OK)
        status = qk__make_dirs(parent, err);
    if (status == QK_OK && symlink(target, path) != 0) {
        char *beside = errno == EEXIST ? qk__format("%s.%ld.tmp", path, (long)getpid()) : NULL;
        if (errno != EEXIST)
            status = fail_errno(err, "make this link", path);
        else if (qk__snapshot_has(folder, commit, file)) /* another process was first */
            status = QK_OK;
        else if (!beside)
            status = qk__nomem(err);
        else if ((unlink(beside) != 0 && errno != ENOENT) || symlink(target, beside) != 0 ||
                 rename(beside, path) != 0)
            status = fail_errno(err, "replace this link", path);
        free(beside);
    }
    free(parent);
    free(target);
    free(path);
    return status;
}

/* ---- the shared store -------------------------------------------------------------------- */

/* Whether the store is one, and of the layout that is known. */
static bool is_store(const char *store)
{
    char *path = qk__path_join(store, ".huggingface-shared-blobs");
    qk__buffer text = {0};
    bool yes = path && qk__is_file(path) && qk__read_file(path, 64, &text, NULL) == QK_OK &&
               strcmp((char *)text.data, "1\n") == 0;
    qk__buffer_free(&text);
    free(path);
    return yes;
}

/* Adds the line that keeps the bytes from being removed as long as the link is there. */
static bool add_reference(const char *path, const char *line)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return false;
    struct stat st;
    size_t size = strlen(line);
    bool done = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if (done && (st.st_mode & 0777) != 0666 && fchmod(fd, 0666) != 0)
        errno = 0; /* another user's */
    done = done && write(fd, line, size) == (ssize_t)size && fsync(fd) == 0;
    close(fd);
    return done;
}

/* The lock that huggingface_hub takes while it removes bytes that nobody refers to. Where locks do
 * not work, nothing but that is lost. */
static int take_lock(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0 && (fchmod(fd, 0666) != 0 || flock(fd, LOCK_EX) != 0))
        errno = 0;
    return fd;
}

static bool link_from_store(const char *bytes, const char *blob, const char *repo,
                            const qk__repo_file *file)
{
    const char *etag = qk__repo_file_etag(file);
    char *lock = qk__format("%s.lock", bytes), *refs = qk__format("%s.refs", bytes);
    char *line = qk__format("%s/blobs/%s\n", repo, etag);
    char *target = qk__format("../../blobs/%.2s/%s", file->xet, file->xet);
    char *beside = qk__format("%s.%ld.shared", blob, (long)getpid());
    bool done = lock && refs && line && target && beside;
    int fd = done ? take_lock(lock) : -1;
    struct stat st;
    done = done && lstat(bytes, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == file->size &&
           access(bytes, R_OK) == 0 && symlink(target, beside) == 0;
    if (done && !(add_reference(refs, line) && rename(beside, blob) == 0)) {
        unlink(beside);
        done = false;
    }
    if (fd >= 0)
        close(fd);
    free(beside);
    free(target);
    free(line);
    free(refs);
    free(lock);
    return done;
}

bool qk__shared_store_link(const char *cache, const char *folder, const qk__repo_file *file)
{
    if (!*file->xet)
        return false;
    const char *repo = strrchr(folder, '/');
    char *store = qk__path_join(cache, "blobs");
    char *bytes = store ? qk__format("%s/%.2s/%s", store, file->xet, file->xet) : NULL;
    char *blob = qk__format("%s/blobs/%s", folder, qk__repo_file_etag(file));
    bool done = bytes && blob && repo && qk__is_file(bytes) && is_store(store) &&
                link_from_store(bytes, blob, repo + 1, file);
    free(blob);
    free(bytes);
    free(store);
    return done;
}

/* ---- what is of a repository ------------------------------------------------------------- */

bool qk__hub_is_of_repository(const char *folder, const char *file)
{
    const char *snapshots = strstr(folder, "/snapshots/");
    int length = snapshots ? (int)(snapshots - folder) : 0;
    char *repo = length > 0 ? qk__format("%.*s", length, folder) : NULL;
    const char *slash = repo ? strrchr(repo, '/') : NULL;
    if (!slash ||
        (strncmp(slash, "/datasets--", 11) != 0 && strncmp(slash, "/models--", 9) != 0)) {
        free(repo);
        return false;
    }
    char *blobs = qk__format("%s/blobs/", repo);
    char *store = qk__format("%.*s/blobs", (int)(slash - repo), repo);
    bool is = blobs && strncmp(file, blobs, strlen(blobs)) == 0;
    if (!is && store && strncmp(file, store, strlen(store)) == 0 && file[strlen(store)] == '/')
        is = is_store(store);
    free(store);
    free(blobs);
    free(repo);
    return is;
}
