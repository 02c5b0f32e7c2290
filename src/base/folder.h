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
    size_t was; /* length of the part of path that was there before */
} qk__folder;

/* Makes the folder with its parents, and holds it. QK_ERR_EXISTS where another run does. */
QK_MUST_CHECK qk_status qk__folder_claim(qk__folder *folder, const char *path, qk_error *err);

/* Holds a folder for reading, so that no run writes there meanwhile. Nothing is made. A folder
 * that `own` (may be NULL) holds already is not locked again. */
QK_MUST_CHECK qk_status qk__folder_watch(qk__folder *folder, const char *path,
                                         const qk__folder *own, qk_error *err);

/* Lets the folder go, and removes it if qk__folder_claim made it and it is empty. Does nothing
 * where none is held. */
void qk__folder_release(qk__folder *folder);

/* Removes files that were being written ("NAME.tmp-123-0"), from the folder and from figures/
 * in it. From figures/ also the hidden folders in which figures are drawn (".NAME.ab12CD"),
 * unless a run is drawing there now. Links are not followed; a folder that is not there is
 * fine. Only who holds the folder may call this. */
QK_MUST_CHECK qk_status qk__folder_sweep(const char *path, qk_error *err);

/* The same where figures go to any folder, which is watched: removes the hidden folders of
 * these figures alone, unless another run watches the folder too and may be drawing them. */
QK_MUST_CHECK qk_status qk__folder_sweep_figures(qk__folder *folder, const char *const *names,
                                                 size_t count, qk_error *err);

/* The length of NAME in "NAME.tmp-123-0", as qk__outfile calls a file until it is complete; 0
 * for other names. */
size_t qk__temporary_stem(const char *name);

/* Removes a hidden folder with the files and hidden folders in it, as far as that is
 * possible. */
void qk__remove_staging(const char *path);
/* Removes a folder and all that is below it, or a file. Links are removed, not followed; what cannot be
 * removed stays. */
void qk__remove_tree(const char *path);

/* Removes a file if it is there. */
QK_MUST_CHECK qk_status qk__remove_file(const char *folder, const char *name, qk_error *err);

#endif
