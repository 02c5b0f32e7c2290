/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command and prints its wall-clock seconds, processor seconds and peak memory as one
 * line of JSON, after what the command prints. The peak that the kernel reports for a child
 * counts what its parent held when it forked: hence this small program, and not the Python that
 * asks. */
#define _DEFAULT_SOURCE /* wait4 */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "Usage: timed COMMAND [ARGUMENT ...]\n");
        return 2;
    }
    double start = now();
    pid_t child = fork();
    if (child == 0) {
        execvp(argv[1], argv + 1);
        perror(argv[1]);
        _exit(127);
    }
    int status;
    struct rusage usage;
    if (child < 0 || wait4(child, &status, 0, &usage) < 0) {
        perror("timed");
        return 1;
    }
    printf("{\"seconds\": %.6f, \"processor_seconds\": %.6f, \"peak_mib\": %.3f}\n",
           now() - start, seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime),
           (double)usage.ru_maxrss / 1024);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
