/* SPDX-License-Identifier: Apache-2.0 */
/* How a run ends: its exit code, whether all its text was written, and signals. */
#include "tell.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

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

/* ---- signals ---------------------------------------------------------------------------- */

static atomic_int interrupted; /* the signal; a handler sets it, hence global */

/* The first signal asks the run to stop. A thread that does not come to look cannot be asked: so the second signal, of
 * either kind, ends the program at once. The next run that writes the same files removes what is left half-written. */
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

void cli_catch_interrupts(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
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
