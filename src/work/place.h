/* SPDX-License-Identifier: Apache-2.0 */
/* The place that a command writes to: an output folder, which the user named.
 *
 *     qk__hold place;
 *     QK_TRY(qk__place_claim(&place, output, err));               made if need be; nobody else may write
 *     QK_TRY(qk__place_sweep(output, err));                       what killed runs left
 *     QK_TRY(qk__make_below(output, "figures", err));             base/folder.h: no link is followed
 *     QK_TRY(qk__file_set_write(&set, output, name, ..., err));   beside their places
 *     QK_TRY(qk__file_set_install(&set, mark, clear, ..., err));  all, between two manifests
 *     qk__place_release(&place);                                  whatever happened
 *
 * What replaces a whole folder is made beside it, and changes places with it in one step:
 *
 *     char *beside = qk__place_beside(output, "new");             PARENT/.NAME.new
 *     QK_TRY(qk__place_exchange(&place, made, beside, &done, err));
 *     ... if done, the old folder is beside, to be removed
 *
 * One rule for all commands. Whoever writes holds the place: alone, or beside other shards of one run.
 * The kernel drops the lock when the process ends, however it ends. The output folder may be a link;
 * below it none is followed. It keeps its owner and rights. Where a file system has no locks, nobody is
 * kept out.
 *
 * claim.c holds, sweep.c tidies up, file_set.c and exchange.c put in place. */
#ifndef QK_WORK_PLACE_H
#define QK_WORK_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include <qkscope/common.h>

#include "base/folder.h"

typedef struct qk__hold {
    char *path; /* NULL: nothing is held */
    int lock;   /* open descriptor of the folder, which is locked; -1: it is somebody else's */
    size_t was; /* length of the part of path that was there before */
} qk__hold;

/* ---- holding (claim.c) ------------------------------------------------------------------ */

/* Makes the folder with its parents, and holds it: alone, or beside others that join it. QK_ERR_EXISTS
 * where another run does, of this process or another. */
QK_MUST_CHECK qk_status qk__place_claim(qk__hold *place, const char *path, qk_error *err);
QK_MUST_CHECK qk_status qk__place_join(qk__hold *place, const char *path, qk_error *err);

/* Holds a folder for reading, so that no run writes there meanwhile. Nothing is made. A folder
 * that `own` (may be NULL) holds already is not locked again. */
QK_MUST_CHECK qk_status qk__place_watch(qk__hold *place, const char *path, const qk__hold *own,
                                        qk_error *err);

/* Whether the folder that is held is still the one at its path. */
bool qk__place_is_there(const qk__hold *place);

/* Lets the folder go, and removes it if it was made and is empty. Does nothing
 * where none is held. */
void qk__place_release(qk__hold *place);

/* Opens and locks a folder that is no link, for as long as *lock is open: false where it is not there,
 * or somebody holds it. */
bool qk__place_try(const char *path, int *lock);

/* Whether somebody else has the lock of an open folder for longer than a moment; else it is taken. */
bool qk__place_is_held(int lock, bool shared);

/* ---- what a killed run left (sweep.c) --------------------------------------------------- */

/* Removes files that were being written ("NAME.tmp-qkscope-123-0"), from the folder and from figures/
 * in it. From figures/ also the hidden folders in which figures are drawn (".NAME.qkscope-ab12CD"),
 * unless a run is drawing there now. A folder that is not there is fine. Only who holds the folder may
 * call this. */
QK_MUST_CHECK qk_status qk__place_sweep(const char *path, qk_error *err);

/* The same where figures go to any folder, which is watched: removes the hidden folders of
 * these figures alone, unless another run watches the folder too and may be drawing them. */
QK_MUST_CHECK qk_status qk__place_sweep_figures(qk__hold *place, const char *const *names,
                                                size_t count, qk_error *err);

/* ---- files that are one whole (file_set.c) ---------------------------------------------- */

/* Files that are written in full beside their places, and their names, which are constants. Zeros: none. */
enum { QK__SET_FILES = 16 };
typedef struct qk__file_set {
    size_t count;
    const char *names[QK__SET_FILES];
    qk__outfile *files[QK__SET_FILES];
} qk__file_set;

/* Takes a finished file, or discards it where status is not QK_OK. Returns status. */
QK_MUST_CHECK qk_status qk__file_set_add(qk__file_set *set, const char *name, qk__outfile *file,
                                         qk_status status);
/* Writes a file and takes it. */
QK_MUST_CHECK qk_status qk__file_set_write(qk__file_set *set, const char *folder,
                                           const char *name, const void *data, size_t size,
                                           qk_error *err);
bool qk__file_set_has(const qk__file_set *set, const char *name);

/* Gives the files their places, in the order in which they were taken. A process that is killed meanwhile
 * must not leave what looks whole: `mark`, a file that says that the folder is not complete, goes first
 * and is used up; what gives way is removed by `clear`; the file that says otherwise is the set's last.
 * Without mark and clear (NULL) the files need no word of it. */
typedef qk_status qk__clear_fn(const void *context, qk_error *err);
QK_MUST_CHECK qk_status qk__file_set_install(qk__file_set *set, qk__outfile *mark,
                                             qk__clear_fn *clear, const void *context,
                                             qk_error *err);

/* Drops what has no place yet. */
void qk__file_set_discard(qk__file_set *set);

/* Adds size and hash of the file at path to {"qk.csv": {"bytes": 1, "xxh3_128": "..."}}, which
 * becomes NULL where memory runs out. */
QK_MUST_CHECK qk_status qk__describe_table(json_t **contents, const char *name,
                                           const char *path, qk_error *err);
/* What describes the tables of a folder, and is none. */
#define QK__SCHEMA_NAME "schema.json"

/* Adds "tables" and "contents" of files that are not yet in their places, pages left out. *entry is NULL
 * where that fails. */
QK_MUST_CHECK qk_status qk__describe_files(json_t **entry, const qk__file_set *files,
                                           qk_error *err);

/* ---- putting in place (exchange.c) ------------------------------------------------------ */

/* "/path/.name.WORD" of "/path/name", links resolved. NULL where there is nothing of the kind, or
 * memory ran out. */
char *qk__place_beside(const char *path, const char *word);

/* Has the folder `made` change places with the one that is held, by way of `beside` (it may be there
 * already: then they are the same). It gets owner and rights of the old one, which is beside then, or
 * gone if it was empty; the new one is held. Without `replaces` the old one has to be empty. *done is
 * false where there is no such step, or rights cannot be kept, or this process works in the old one,
 * or that is no longer in its place: then errno says why, and both are as they were. */
QK_MUST_CHECK qk_status qk__place_exchange(qk__hold *place, const char *made,
                                           const char *beside, bool replaces, bool *done,
                                           qk_error *err);

#endif
