/* SPDX-License-Identifier: Apache-2.0 */
/* What goes to the user: errors and notices on stderr, JSON on stdout; and how signals end a run. */
#include "tell.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_int interrupted; /* the signal; set by a handler, hence global */

/* The first signal asks the run to stop. A thread that does not come to look cannot be asked:
 * the second, of either kind, ends the program as if nobody had caught it. What files were
 * being written then, the next run that writes them removes. */
static void on_interrupt(int number)
{
    if (atomic_exchange(&interrupted, number) == 0)
        return;
    sigset_t this_one;
    sigemptyset(&this_one);
    sigaddset(&this_one, number);
    signal(number, SIG_DFL);
    raise(number); /* is held back until the handler is left, or: */
    pthread_sigmask(SIG_UNBLOCK, &this_one, NULL);
}

double cli_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int cli_exit_code(qk_status status)
{
    return status == QK_OK            ? EXIT_CODE_OK
           : status == QK_ERR_PARTIAL ? EXIT_CODE_PARTIAL
                                      : EXIT_CODE_FAILURE;
}

int cli_settings_code(qk_status status)
{
    return status == QK_ERR_ARGUMENT ? EXIT_CODE_USAGE : cli_exit_code(status);
}

int cli_finish(int exit_code)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        cli_error("cannot write to standard output");
        return EXIT_CODE_FAILURE;
    }
    if (atomic_load(&cli_json_is_lost)) {
        cli_error("out of memory");
        return EXIT_CODE_FAILURE;
    }
    return exit_code;
}

void cli_catch_interrupts(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

void cli_clear(cli_messages *messages)
{
    if (messages->drawn)
        fputs("\r\033[K", stderr);
    messages->drawn = false;
}

void cli_messages_end(cli_messages *messages, qk_status status, const qk_error *err)
{
    cli_clear(messages);
    if (status != QK_OK)
        cli_error("%s", err->message);
}

void cli_notice(void *user, qk_notice_level level, const char *message)
{
    cli_messages *messages = user;
    if (level == QK_NOTICE_INFO && !messages->common->verbose)
        return;
    if (level != QK_NOTICE_ERROR && messages->common->quiet)
        return;
    cli_clear(messages);
    cli_error("%s%s", level == QK_NOTICE_WARNING ? "warning: " : "", message);
}

bool cli_is_interrupted(void)
{
    return atomic_load(&interrupted) != 0;
}

int cli_leave(int exit_code)
{
    int number = atomic_load(&interrupted);
    if (number != 0 && exit_code == EXIT_CODE_FAILURE) {
        signal(number, SIG_DFL);
        raise(number);
        return 128 + number; /* the first process of a container does not die by it */
    }
    return exit_code;
}

static void append_word(char **out, const char *word)
{
    bool plain = *word && !strpbrk(word, " \t\n\"'\\$`!*?[]{}()<>|&;#~");
    char *p = *out;
    if (!plain)
        *p++ = '\'';
    for (; *word; word++) {
        if (*word == '\'' && !plain)
            p += sprintf(p, "'\\''");
        else
            *p++ = *word;
    }
    if (!plain)
        *p++ = '\'';
    *out = p;
}

char *cli_words(const char *first, int count, char **words)
{
    size_t size = strlen(first) + 1;
    for (int i = 0; i < count; i++)
        size += 4 * strlen(words[i]) + 3;
    char *line = malloc(size);
    if (!line)
        return NULL;
    char *p = line + snprintf(line, size, "%s", first);
    for (int i = 0; i < count; i++) {
        *p++ = ' ';
        append_word(&p, words[i]);
    }
    *p = 0;
    return line;
}

/* What follows "figure NAME: ". */
static const char *reason_of(const char *failure)
{
    const char *colon = strncmp(failure, "figure ", 7) == 0 ? strstr(failure, ": ") : NULL;
    return colon ? colon : failure;
}

void cli_print_failures(char *const *failures, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t before = 0, after = 0;
        for (size_t k = 0; k < count; k++)
            if (k != i && strcmp(reason_of(failures[k]), reason_of(failures[i])) == 0)
                ++*(k < i ? &before : &after);
        if (before == 0 && after > 0)
            cli_error("%s (and %zu more)", failures[i], after);
        else if (before == 0)
            cli_error("%s", failures[i]);
    }
}
