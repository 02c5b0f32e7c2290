/* SPDX-License-Identifier: Apache-2.0 */
/* What POSIX lacks: every system has its own way, or something replaces it. Meson picks one of
 *     system_linux.c      Linux's own ways
 *     system_portable.c   those of macOS, and of whatever else has POSIX; -Dlinux_ways=false tries it on Linux
 * What returns an int returns 0 or a descriptor, or -1 and errno. */
#ifndef QK_BASE_SYSTEM_H
#define QK_BASE_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Processors that this process may use. */
int qk__count_processors(void);

/* The bytes of an open file or folder are on the disk. */
int qk__sync(int fd);

/* Two names of one file system change places in one step. Not every system or file system can. */
int qk__exchange_names(const char *a, const char *b);

/* Lets the pages of a mapped file that were read leave memory until they are read again. */
void qk__let_go(const void *at, size_t size);

/* A pipe that programs do not inherit. */
int qk__open_pipe(int ends[2]);

#endif
