/* SPDX-License-Identifier: Apache-2.0 */
/* A folder for one test: made before it, filled by it, removed after it. */
#ifndef QK_TESTS_BASE_TREE_H
#define QK_TESTS_BASE_TREE_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef P_tmpdir
#define TREE_BASE P_tmpdir
#else
#define TREE_BASE "."
#endif

static char tree_root[256];

/* Path inside the folder; each call reuses one of a few buffers. */
static inline const char *tree_path(const char *name)
{
    static char paths[8][1024];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s%s%s", tree_root, *name ? "/" : "", name);
    return path;
}

static inline void tree_make_parents(char *path)
{
    for (char *p = path + strlen(tree_root) + 1; (p = strchr(p, '/')) != NULL; p++) {
        *p = 0;
        mkdir(path, 0777);
        *p = '/';
    }
}

/* Writes a file, creating its folders; a name that ends in '/' is a folder alone. */
static inline void tree_add(const char *name, const char *text)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", tree_path(name));
    tree_make_parents(path);
    if (path[strlen(path) - 1] == '/')
        return;
    FILE *file = fopen(path, "wb");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        abort();
}

/* What a file holds, to be freed; "" where it is not there. */
static inline char *tree_text(const char *name)
{
    const size_t most = 1 << 17;
    char *text = calloc(1, most);
    int fd = open(tree_path(name), O_RDONLY);
    if (!text || (fd >= 0 && (read(fd, text, most - 1) < 0 || close(fd) != 0)))
        abort();
    return text;
}

static inline void tree_link(const char *target, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", tree_path(name));
    tree_make_parents(path);
    if (symlink(target, path) != 0)
        abort();
}

static inline void tree_remove(const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return;
    DIR *dir = S_ISDIR(st.st_mode) ? opendir(path) : NULL;
    if (!dir) {
        unlink(path);
        return;
    }
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char child[4096];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(child, sizeof child, "%.3000s/%.300s", path, entry->d_name);
        tree_remove(child);
    }
    closedir(dir);
    rmdir(path);
}

static inline int tree_setup_in(const char *base)
{
    snprintf(tree_root, sizeof tree_root, "%.200s/qkscope-test-XXXXXX", base);
    return mkdtemp(tree_root) ? 0 : -1;
}

/* For cmocka_unit_test_setup_teardown. */
static inline int tree_setup(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    return tree_setup_in(base && *base ? base : TREE_BASE);
}

/* In memory where that can be: thousands of runs that each make and remove a few small folders wait
 * minutes for a disk, even if they sync nothing. */
static inline int tree_setup_in_memory(void **state)
{
    return tree_setup_in("/dev/shm") == 0 ? 0 : tree_setup(state);
}

static inline int tree_teardown(void **state)
{
    (void)state;
    tree_remove(tree_root);
    return 0;
}

#endif
