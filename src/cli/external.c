/* SPDX-License-Identifier: Apache-2.0 */
/* `qkscope NAME` of a NAME that is no command runs the program qkscope-NAME, as git and cargo do. */
#include "cli.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char PREFIX[] = "qkscope-";

enum { LONGEST_NAME = 64, MOST_LISTED = 64 };

void cli_run_external(char **argv)
{
    char *name = argv[0], program[sizeof PREFIX + LONGEST_NAME];
    if (strlen(name) > LONGEST_NAME || strchr(name, '/'))
        return;
    snprintf(program, sizeof program, "%s%s", PREFIX, name);
    argv[0] = program;
    execvp(program, argv);
    argv[0] = name;
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
        cli_error("cannot run %s: %s", program, strerror(errno));
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
            faccessat(dirfd(dir), entry->d_name, X_OK, 0) == 0)
            add_name(l, entry->d_name + sizeof PREFIX - 1);
    closedir(dir);
}

void cli_print_externals(FILE *out)
{
    listing *l = calloc(1, sizeof *l);
    const char *path = getenv("PATH");
    char *folders = path ? strdup(path) : NULL, *rest = NULL;
    for (char *at = folders; l && folders && (at = strtok_r(at, ":", &rest)) != NULL; at = NULL)
        look_in(l, at);
    if (l && l->count > 0) {
        qsort(l->name, l->count, sizeof *l->name, compare_names);
        void (*say)(const char *fmt, ...) = out == stdout ? cli_print : cli_draw;
        say("\nPrograms on the path:\n");
        for (size_t i = 0; i < l->count; i++)
            say("  %s\n", l->name[i]);
    }
    free(folders);
    free(l);
}
