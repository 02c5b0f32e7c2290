/* SPDX-License-Identifier: Apache-2.0 */
/* A folder that one run at a time writes into, and what a killed run has left in it. */
#ifndef QK_BASE_FOLDER_H
#define QK_BASE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include <qkscope/common.h>

/* The kernel drops the lock when the process ends, however it ends. */
typedef struct qk__folder {
    char *path; /* NULL: nothing is held */
    int lock;   /* open descriptor of the folder */
    size_t was; /* bytes of path that were there before */
} qk__folder;

/* Makes the folder with its parents, and holds it. QK_ERR_EXISTS where another run does. */
QK_MUST_CHECK qk_status qk__folder_claim(qk__folder *folder, const char *path, qk_error *err);

/* Holds a folder for reading, so that no run writes there meanwhile. Nothing is made; one that
 * is held by `own` (may be NULL) already is not locked again. */
QK_MUST_CHECK qk_status qk__folder_watch(qk__folder *folder, const char *path,
                                         const qk__folder *own, qk_error *err);

/* Lets it go. A folder that was made and is empty is removed. Takes one that holds nothing. */
void qk__folder_release(qk__folder *folder);

/* Removes files that were being written ("NAME.tmp-123-0"), also from figures/ below, and there
 * hidden folders in which figures are drawn (".NAME.ab12CD"), unless a run is drawing there
 * now. Links are not followed; a folder that is not there is fine. Only for who holds the
 * folder. */
QK_MUST_CHECK qk_status qk__folder_sweep(const char *path, qk_error *err);

/* Removes the hidden folders of these figures in a folder that is watched, unless another run
 * holds it as well: that may be drawing them. Others are left alone, as the folder may be any. */
QK_MUST_CHECK qk_status qk__folder_sweep_figures(qk__folder *folder, const char *const *names,
                                                 size_t count, qk_error *err);

/* The length of NAME in "NAME.tmp-123-0", as qk__outfile calls a file until it is complete; 0
 * for other names. */
size_t qk__temporary_stem(const char *name);

/* Removes a hidden folder, and the files and hidden folders in it. What cannot be removed
 * stays. */
void qk__remove_staging(const char *path);

/* Removes a file if it is there. */
QK_MUST_CHECK qk_status qk__remove_file(const char *folder, const char *name, qk_error *err);

#endif
