/* SPDX-License-Identifier: Apache-2.0 */
/* Runs another program by posix_spawn, and reads its messages. */
#define _XOPEN_SOURCE 700 /* realpath */
#ifdef QK_HAVE_ADDCHDIR
#define _GNU_SOURCE /* posix_spawn_file_actions_addchdir_np */
#endif
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/expand.h"
#include "base/file.h"
#include "base/system.h"

extern char **environ;

enum {
    MAX_MESSAGES = 64 << 10,
    MOMENT = 100, /* milliseconds between two questions */
    PATIENCE = 2, /* seconds that an interrupted program has to end */
};

/* Keeps the last half of the limit where a program says more. */
static qk_status keep(qk__buffer *messages, const char *chunk, size_t size, qk_error *err)
{
    size_t half = MAX_MESSAGES / 2;
    if (messages->size + size > MAX_MESSAGES) {
        memmove(messages->data, messages->data + messages->size - half, half);
        messages->size = half;
    }
    return qk__buffer_append(messages, chunk, size, err);
}

/* Waits for something to read; ends the program meanwhile if it must stop. */
static void wait_for_word(const qk__program *program, pid_t child, int fd, double *stopped)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    while (program->goes_on) {
        if (*stopped > 0 && qk__now() - *stopped > PATIENCE)
            kill(child, SIGTERM);
        else if (*stopped == 0 && !program->goes_on(program->user)) {
            kill(child, SIGINT);
            *stopped = qk__now();
        }
        if (poll(&one, 1, MOMENT) > 0)
            return;
    }
}

/* Reads until the other end is closed, even without memory for it, so that the program does not wait for a reader. */
static qk_status drain(const qk__program *program, pid_t child, int fd, qk__buffer *messages,
                       qk_error *err)
{
    char chunk[4096];
    double stopped = 0;
    qk_status status = QK_OK;
    for (;;) {
        wait_for_word(program, child, fd, &stopped);
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return status;
        if (program->echoes && write(STDERR_FILENO, chunk, (size_t)got) < 0)
            errno = 0; /* nobody reads it */
        if (status == QK_OK)
            status = keep(messages, chunk, (size_t)got, err);
    }
}

/* Standard error first: where this process has closed its own, the pipe may be at 0 or 1. */
static int add_actions(posix_spawn_file_actions_t *actions, int stderr_fd)
{
    int failed = posix_spawn_file_actions_adddup2(actions, stderr_fd, 2);
    if (!failed)
        failed = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    if (!failed)
        failed = posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0);
    return failed;
}

/* A program starts with no signal blocked, whatever the starting thread blocks: otherwise it could not be interrupted. */
static int set_attributes(posix_spawnattr_t *attributes)
{
    short flags = POSIX_SPAWN_SETSIGMASK;
#ifdef POSIX_SPAWN_CLOEXEC_DEFAULT
    /* nor any open file but 0, 1 and 2: see qk__open_pipe in system_portable.c */
    flags |= POSIX_SPAWN_CLOEXEC_DEFAULT;
#endif
    sigset_t none;
    sigemptyset(&none);
    int failed = posix_spawnattr_setsigmask(attributes, &none);
    return failed ? failed : posix_spawnattr_setflags(attributes, flags);
}

/* The environment without one variable and with another, to free(); NULL when out of memory. */
static char **make_environment(const char *hidden, const char *added)
{
    size_t count = 0, kept = 0, length = hidden ? strlen(hidden) : 0;
    while (environ[count])
        count++;
    char **variables = qk__calloc(count + 2, sizeof *variables);
    if (variables && added) /* the first of a name counts */
        memcpy(&variables[kept++], &added, sizeof added);
    for (size_t i = 0; variables && i < count; i++)
        if (!hidden || strncmp(environ[i], hidden, length) != 0 || environ[i][length] != '=')
            variables[kept++] = environ[i];
    return variables;
}

/* A program, and how it is started. */
typedef struct launch {
    char *const *arguments;
    char *const *variables;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
} launch;

#ifdef QK_HAVE_ADDCHDIR

static int spawn_in(launch *l, const char *directory, const char *path, pid_t *child)
{
    int failed = directory ? posix_spawn_file_actions_addchdir_np(&l->actions, directory) : 0;
    return failed ? failed
                  : posix_spawnp(child, path, &l->actions, &l->attributes, l->arguments,
                                 l->variables);
}

#else

/* Whether there is such a program; a shell does not distinguish a missing program from one that fails. */
static bool is_program(const char *path)
{
    const char *folders = qk__environment("PATH");
    bool found = access(path, X_OK) == 0;
    if (strchr(path, '/'))
        return found;
    found = false;
    for (const char *at = folders ? folders : "/bin:/usr/bin"; !found;) {
        int length = (int)strcspn(at, ":");
        char *file = qk__format("%.*s%s%s", length, at, length > 0 ? "/" : "", path);
        found = !file || (qk__is_file(file) && access(file, X_OK) == 0);
        free(file);
        if (!at[length])
            break;
        at += length + 1;
    }
    return found;
}

/* By a shell, which changes the folder and becomes the program. */
static int spawn_in(launch *l, const char *directory, const char *path, pid_t *child)
{
    enum { FRONT = 5 };
    size_t count = 0;
    if (!directory)
        return posix_spawnp(child, path, &l->actions, &l->attributes, l->arguments,
                            l->variables);
    if (!is_program(path))
        return ENOENT;
    while (l->arguments[count])
        count++;
    char *folder = realpath(directory, NULL); /* a shell gives "" and CDPATH a meaning */
    const char **words = qk__calloc(FRONT + count + 1, sizeof *words);
    int failed = folder && words ? 0 : ENOMEM;
    if (!failed) {
        const char *front[FRONT] = {"sh", "-c", "cd \"$0\" && exec \"$@\"", folder, path};
        memcpy(words, front, sizeof front);
        for (size_t i = 1; i < count; i++)
            words[FRONT + i - 1] = l->arguments[i];
        char *const *arguments;
        memcpy(&arguments, &words, sizeof arguments);
        failed =
            posix_spawn(child, "/bin/sh", &l->actions, &l->attributes, arguments, l->variables);
    }
    free(words);
    free(folder);
    return failed;
}

#endif

/* 0 or an errno. path replaces argv[0]. */
static int spawn(const char *path, const char *const *argv, const char *directory,
                 char **variables, int stderr_fd, pid_t *child)
{
    launch l = {.variables = variables};
    /* the interface is older than const; it does not write to them */
    memcpy(&l.arguments, &argv, sizeof l.arguments);
    int failed = posix_spawn_file_actions_init(&l.actions);
    if (failed)
        return failed;
    failed = posix_spawnattr_init(&l.attributes);
    if (!failed) {
        failed = add_actions(&l.actions, stderr_fd);
        if (!failed)
            failed = set_attributes(&l.attributes);
        if (!failed)
            failed = spawn_in(&l, directory, path, child);
        posix_spawnattr_destroy(&l.attributes);
    }
    posix_spawn_file_actions_destroy(&l.actions);
    return failed;
}

static qk_status start_program(const qk__program *program, int stderr_fd, pid_t *child,
                               qk_error *err)
{
    const char *const *argv = program->argv;
    char **variables = make_environment(program->hidden, program->added);
    if (!variables)
        return qk__nomem(err);
    /* "tools/x" means x in this folder, not in the folder that the program will run in. */
    char *resolved =
        program->directory && strchr(argv[0], '/') ? realpath(argv[0], NULL) : NULL;
    int failed = spawn(resolved ? resolved : argv[0], argv, program->directory, variables,
                       stderr_fd, child);
    free(resolved);
    free(variables);
    if (failed == ENOENT)
        return qk__fail(err, QK_ERR_NOT_FOUND, "there is no program '%s'", argv[0]);
    if (failed)
        return qk__fail(err, QK_ERR_IO, "cannot start '%s': %s", argv[0], strerror(failed));
    return QK_OK;
}

static qk_status await(pid_t child, const char *name, int *exit_code, qk_error *err)
{
    int state;
    while (waitpid(child, &state, 0) < 0)
        if (errno != EINTR) /* a host program that ignores SIGCHLD never gets it */
            return qk__fail(err, QK_ERR_IO, "cannot learn how '%s' ended: %s", name,
                            strerror(errno));
    *exit_code = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    return QK_OK;
}

qk_status qk__process_run(const qk__program *program, qk__buffer *messages, int *exit_code,
                          qk_error *err)
{
    const char *name = program->argv[0];
    if (program->directory && !qk__is_dir(program->directory))
        return qk__fail(err, QK_ERR_IO, "'%s' is not a folder", program->directory);
    int ends[2];
    if (qk__open_pipe(ends) != 0)
        return qk__fail(err, QK_ERR_IO, "cannot start '%s': %s", name, strerror(errno));
    pid_t child;
    qk_status status = start_program(program, ends[1], &child, err);
    close(ends[1]);
    if (status == QK_OK) {
        qk_status drained = drain(program, child, ends[0], messages, err);
        status = await(child, name, exit_code, drained == QK_OK ? err : NULL);
        status = drained == QK_OK ? status : drained;
    }
    close(ends[0]);
    return status;
}
