/* SPDX-License-Identifier: Apache-2.0 */
/* Temporary files and folders that nobody writes any more.
 *
 * A lock rather than the number of a process: that may be of another machine or container that
 * shares the folder. Where a file system has no locks nothing is taken for left over. */
#include "base/leftover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"

size_t qk__temporary_stem(const char *name)
{
    static const char MARK[] = ".tmp-", DIGITS[] = "0123456789";
    const char *mark = NULL;
    for (const char *p = name; (p = strstr(p, MARK)); p++)
        mark = p;
    if (!mark)
        return 0;
    const char *p = mark + sizeof MARK - 1;
    size_t process = strspn(p, DIGITS);
    size_t number = p[process] == '-' ? strspn(p + process + 1, DIGITS) : 0;
    return process > 0 && number > 0 && p[process + 1 + number] == 0 ? (size_t)(mark - name)
                                                                     : 0;
}

bool qk__claim_temporary(int fd)
{
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return false;
    return fstat(fd, &st) != 0 || st.st_nlink > 0;
}

/* A descriptor that holds the lock of what nobody uses; -1: somebody does, or no one can tell.
 */
static int open_unused(const char *path, int flags)
{
    int fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void sweep_file(const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return;
    int fd = open_unused(path, O_RDWR); /* network file systems lock what may be written */
    if (fd < 0)
        return;
    unlink(path);
    close(fd);
}

/* Of what lies in a folder ".NAME.ab12CD" only files called NAME.something can be ours. */
static void sweep_folder(const char *path)
{
    qk_names names;
    const char *own = strrchr(path, '/') + 2;
    size_t length = strlen(own) - 6;
    int fd = open_unused(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return;
    if (qk__list_dir(path, &names, NULL) == QK_OK) {
        for (size_t i = 0; i < names.count; i++) {
            bool ours = strncmp(names.items[i], own, length) == 0;
            char *file = ours ? qk__path_join(path, names.items[i]) : NULL;
            if (file)
                unlink(file);
            free(file);
        }
        qk__names_free(&names);
    }
    rmdir(path);
    close(fd);
}

/* Calls `sweep` for what lies in `folder` and is called prefix and something. */
static void sweep_matching(const char *folder, const char *prefix,
                           bool (*is_ours)(const char *name, size_t prefix),
                           void (*sweep)(const char *path))
{
    qk_names names;
    size_t length = strlen(prefix);
    if (qk__list_dir(folder, &names, NULL) != QK_OK)
        return;
    for (size_t i = 0; i < names.count; i++) {
        if (strncmp(names.items[i], prefix, length) != 0 || !is_ours(names.items[i], length))
            continue;
        char *path = qk__path_join(folder, names.items[i]);
        if (path)
            sweep(path);
        free(path);
    }
    qk__names_free(&names);
}

static bool is_temporary_of(const char *name, size_t prefix)
{
    return qk__temporary_stem(name) == prefix;
}

static bool has_six_more(const char *name, size_t prefix)
{
    return strlen(name) == prefix + 6;
}

void qk__sweep_files(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    char *folder = qk__strdup(slash ? path : ".");
    if (!folder)
        return;
    if (slash)
        folder[slash == path ? 1 : slash - path] = 0;
    if (*name)
        sweep_matching(folder, name, is_temporary_of, sweep_file);
    free(folder);
}

void qk__sweep_folders(const char *folder, const char *prefix)
{
    sweep_matching(folder, prefix, has_six_more, sweep_folder);
}
