/* SPDX-License-Identifier: Apache-2.0 */
/* Files and folders under a temporary name, which a program that is killed leaves behind. Their
 * maker holds a lock on them for as long as it lives, so that the next one can tell what is
 * left over from what another program is writing now. */
#ifndef QK_BASE_LEFTOVER_H
#define QK_BASE_LEFTOVER_H

#include <stdbool.h>
#include <stddef.h>

/* The length of NAME in "NAME.tmp-123-0", as qk__outfile calls a file until it is complete; 0
 * for other names. */
size_t qk__temporary_stem(const char *name);

/* Marks an open temporary file or folder as in use until fd is closed. false: another program
 * has just taken it for left over; close it and make another one. */
bool qk__claim_temporary(int fd);

/* Removes the temporary files for `path` that nobody writes any more. What cannot be locked or
 * removed stays. */
void qk__sweep_files(const char *path);

/* The same of folders in `folder` called ".NAME.ab12CD", as mkdtemp makes them of prefix =
 * ".NAME." and six characters, with the files called NAME.something in them. */
void qk__sweep_folders(const char *folder, const char *prefix);

#endif
