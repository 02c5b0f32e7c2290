/* SPDX-License-Identifier: Apache-2.0 */
/* `qkscope NAME`, where NAME is no command, runs the program qkscope-NAME, as git and cargo do. */
#include "cli.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char PREFIX[] = "qkscope-";

enum { LONGEST_NAME = 64, MOST_LISTED = 64 };

static bool is_program(int folder, const char *name)
{
    struct stat st;
    return fstatat(folder, name, &st, 0) == 0 && S_ISREG(st.st_mode) &&
           faccessat(folder, name, X_OK, 0) == 0;
}

static const char *path_variable(void)
{
    const char *path = getenv("PATH");
    return path ? path : "";
}

/* Takes the first folder from *path. An empty one, which means this folder to a shell, is skipped. */
static bool next_folder(const char **path, char folder[PATH_MAX])
{
    size_t length;
    do {
        *path += strspn(*path, ":");
        length = strcspn(*path, ":");
        snprintf(folder, PATH_MAX, "%.*s", (int)length, *path);
        *path += length;
    } while (length >= PATH_MAX);
    return length > 0;
}

/* execvp does not distinguish a program that cannot run from a missing one, so the path is searched here. */
static bool find_program(const char *program, char path[PATH_MAX])
{
    char folder[PATH_MAX];
    for (const char *rest = path_variable(); next_folder(&rest, folder);)
        if (snprintf(path, PATH_MAX, "%s/%s", folder, program) < PATH_MAX &&
            is_program(AT_FDCWD, path))
            return true;
    return false;
}

int cli_run_external(char **argv)
{
    char *name = argv[0], program[sizeof PREFIX + LONGEST_NAME], path[PATH_MAX];
    if (strlen(name) > LONGEST_NAME || strchr(name, '/'))
        return -1;
    snprintf(program, sizeof program, "%s%s", PREFIX, name);
    if (!find_program(program, path))
        return -1;
    argv[0] = program;
    execvp(path, argv);
    cli_error("cannot run %s: %s%s", path, strerror(errno),
              errno == ENOENT ? " (the program that its first line names)" : "");
    return EXIT_CODE_FAILURE;
}

typedef struct listing {
    char name[MOST_LISTED][LONGEST_NAME];
    size_t count;
} listing;

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void add_name(listing *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->name[i], name) == 0)
            return;
    size_t size = strlen(name) + 1;
    if (l->count < MOST_LISTED && size <= LONGEST_NAME)
        memcpy(l->name[l->count++], name, size);
}

static void look_in(listing *l, const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) == 0 &&
            is_program(dirfd(dir), entry->d_name))
            add_name(l, entry->d_name + sizeof PREFIX - 1);
    closedir(dir);
}

void cli_print_externals(FILE *out)
{
    listing *l = calloc(1, sizeof *l);
    char folder[PATH_MAX];
    for (const char *rest = path_variable(); l && next_folder(&rest, folder);)
        look_in(l, folder);
    if (l && l->count > 0) {
        qsort(l->name, l->count, sizeof *l->name, compare_names);
        void (*say)(const char *fmt, ...) = out == stdout ? cli_print : cli_draw;
        say("\nPrograms on the path:\n");
        for (size_t i = 0; i < l->count; i++)
            say("  %s\n", l->name[i]);
    }
    free(l);
}
