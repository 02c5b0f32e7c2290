/* SPDX-License-Identifier: Apache-2.0 */
/* What a download leaves in the cache: blobs by their hashes, snapshots of links to them, refs. Each
 * appears by a rename or a link, so other programs see it whole or not at all, and nothing depends on
 * locks: on some network file systems a lock is granted to everybody. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/lock.h"
#include "base/system.h"
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
    qk__path file;
    return qk__path_set(&file, NULL, "%.*s%s", (int)folder, path, name) == QK_OK &&
           lstat(file.text, &st) == 0 && time(NULL) - st.st_mtime > SECONDS_LEFT;
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
    qk__path tag, blobs;
    QK_TRY(qk__path_in(&tag, cache, "CACHEDIR.TAG", err));
    QK_TRY(qk__path_in(&blobs, folder, "blobs", err));
    QK_TRY(qk__make_dirs(blobs.text, err));
    QK_TRY(qk__cache_sweep(tag.text, err));
    return qk__is_there(tag.text) ? QK_OK : qk__write_file(tag.text, TAG, sizeof TAG - 1, err);
}

qk_status qk__hub_write_ref(const char *folder, const char *revision, const char *commit,
                            qk_error *err)
{
    if (strcmp(revision, commit) == 0)
        return QK_OK;
    qk__path path;
    qk_status status = QK_OK;
    qk__buffer text = {0};
    bool same = false;
    QK_TRY(qk__path_set(&path, err, "%s/refs/%s", folder, revision));
    if (qk__is_file(path.text)) {
        status = qk__read_file(path.text, 4096, &text, err);
        same = status == QK_OK && strcmp((char *)text.data, commit) == 0;
        qk__buffer_free(&text);
        if (status != QK_OK && status != QK_ERR_MALFORMED) /* too long for one */
            return status;
    }
    QK_TRY(qk__make_parents(path.text, err));
    QK_TRY(qk__cache_sweep(path.text, err));
    return same ? QK_OK : qk__write_file(path.text, commit, strlen(commit), err);
}

/* ---- links ------------------------------------------------------------------------------- */

static qk_status find_link(qk__path *path, const char *folder, const char *commit,
                           const qk__repo_file *file, qk_error *err)
{
    return qk__path_set(path, err, "%s/snapshots/%s/%s", folder, commit, file->path);
}

bool qk__snapshot_has(const char *folder, const char *commit, const qk__repo_file *file)
{
    struct stat st;
    qk__path path;
    return find_link(&path, folder, commit, file, NULL) == QK_OK && stat(path.text, &st) == 0 &&
           S_ISREG(st.st_mode) && st.st_size == file->size;
}

bool qk__snapshot_has_other(const char *folder, const char *commit, const qk__repo_file *file)
{
    qk__path path;
    return find_link(&path, folder, commit, file, NULL) == QK_OK && qk__is_file(path.text) &&
           !qk__snapshot_has(folder, commit, file);
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
    qk__path at, beside;
    const char *path = at.text;
    QK_TRY(find_link(&at, folder, commit, file, err));
    QK_TRY(qk__path_set(&beside, err, "%s.%ld.tmp", path, (long)getpid()));
    QK_TRY(qk__make_parents(path, err));
    char *target = link_target(file);
    qk_status status = target ? QK_OK : qk__nomem(err);
    if (status == QK_OK && symlink(target, path) != 0) {
        if (errno != EEXIST)
            status = fail_errno(err, "make this link", path);
        else if (qk__snapshot_has(folder, commit, file)) /* another process was first */
            status = QK_OK;
        else if ((unlink(beside.text) != 0 && errno != ENOENT) ||
                 symlink(target, beside.text) != 0 || rename(beside.text, path) != 0)
            status = fail_errno(err, "replace this link", path);
    }
    free(target);
    return status;
}

/* ---- the shared store -------------------------------------------------------------------- */

/* Whether the store is one, and of the layout that is known. */
static bool is_store(const char *store)
{
    qk__path path;
    qk__buffer text = {0};
    bool yes = qk__path_in(&path, store, ".huggingface-shared-blobs", NULL) == QK_OK &&
               qk__is_file(path.text) && qk__read_file(path.text, 64, &text, NULL) == QK_OK &&
               strcmp((char *)text.data, "1\n") == 0;
    qk__buffer_free(&text);
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
    done = done && write(fd, line, size) == (ssize_t)size && qk__sync(fd) == 0;
    close(fd);
    return done;
}

/* The lock that huggingface_hub takes while it removes bytes that nobody refers to. Where locks do
 * not work, nothing but that is lost. */
static int take_lock(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0 && fchmod(fd, 0666) == 0)
        qk__lock_wait(fd);
    return fd;
}

static bool link_from_store(const char *bytes, const char *blob, const char *repo,
                            const qk__repo_file *file)
{
    const char *etag = qk__repo_file_etag(file);
    qk__path lock, refs, line, target, beside;
    bool done =
        qk__path_set(&lock, NULL, "%s.lock", bytes) == QK_OK &&
        qk__path_set(&refs, NULL, "%s.refs", bytes) == QK_OK &&
        qk__path_set(&line, NULL, "%s/blobs/%s\n", repo, etag) == QK_OK &&
        qk__path_set(&target, NULL, "../../blobs/%.2s/%s", file->xet, file->xet) == QK_OK &&
        qk__path_set(&beside, NULL, "%s.%ld.shared", blob, (long)getpid()) == QK_OK;
    if (!done)
        return false;
    int fd = take_lock(lock.text);
    struct stat st;
    done = lstat(bytes, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == file->size &&
           access(bytes, R_OK) == 0 && symlink(target.text, beside.text) == 0;
    if (done && !(add_reference(refs.text, line.text) && rename(beside.text, blob) == 0)) {
        unlink(beside.text);
        done = false;
    }
    if (fd >= 0)
        close(fd);
    return done;
}

bool qk__shared_store_link(const char *cache, const char *folder, const qk__repo_file *file)
{
    if (!*file->xet)
        return false;
    const char *repo = strrchr(folder, '/');
    qk__path store, bytes, blob;
    return repo && qk__path_in(&store, cache, "blobs", NULL) == QK_OK &&
           qk__path_set(&bytes, NULL, "%s/%.2s/%s", store.text, file->xet, file->xet) ==
               QK_OK &&
           qk__path_set(&blob, NULL, "%s/blobs/%s", folder, qk__repo_file_etag(file)) ==
               QK_OK &&
           qk__is_file(bytes.text) && is_store(store.text) &&
           link_from_store(bytes.text, blob.text, repo + 1, file);
}

/* ---- what is of a repository ------------------------------------------------------------- */

bool qk__hub_is_of_repository(const char *folder, const char *file)
{
    const char *snapshots = strstr(folder, "/snapshots/");
    qk__path repo, blobs, store;
    if (!snapshots ||
        qk__path_set(&repo, NULL, "%.*s", (int)(snapshots - folder), folder) != QK_OK)
        return false;
    const char *slash = strrchr(repo.text, '/');
    if (!slash ||
        (strncmp(slash, "/datasets--", 11) != 0 && strncmp(slash, "/models--", 9) != 0) ||
        qk__path_set(&blobs, NULL, "%s/blobs/", repo.text) != QK_OK ||
        qk__path_set(&store, NULL, "%.*s/blobs", (int)(slash - repo.text), repo.text) != QK_OK)
        return false;
    size_t length = strlen(store.text);
    return strncmp(file, blobs.text, strlen(blobs.text)) == 0 ||
           (strncmp(file, store.text, length) == 0 && file[length] == '/' &&
            is_store(store.text));
}
