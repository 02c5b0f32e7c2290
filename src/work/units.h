/* SPDX-License-Identifier: Apache-2.0 */
/* Work of many processes. It is cut into units, each a pure function of what it is made from, so
 * that it does not matter who computes one, nor how often. A unit appears whole, by a rename, and
 * whoever sees all of them puts them together. Nobody waits, nobody holds a lock.
 *
 *     DIR/.units/RUN/            RUN: a name that says what is computed, from what and how
 *         plan.json              files of the run as a whole have a dot in their names,
 *         l00k00/                units have none
 *             seal               the place it was made for, and what its files hold
 *         l00k01.tmp-HOST-...-0/ one that is being made, or was when its process died
 *         ranks/0-of-3           who has which number
 *
 * shard.c finds a process's number, share.c says who computes what, unit_folder.c keeps the units, seal.c
 * tells whether one is what was made for its place, rank.c notices two processes with one number, end.c
 * says who puts all together, owner.c tells processes apart. */
#ifndef QK_UNITS_UNITS_H
#define QK_UNITS_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

#include "base/file.h"

#define QK__UNITS_NAME ".units"

/* ---- the folder of a run (unit_folder.c) ------------------------------------------------------ */

typedef struct qk__unit_folder {
    char *folder; /* DIR */
    char *name;   /* .units/RUN */
    char *path;   /* DIR/.units/RUN */
} qk__unit_folder;

/* Names the folder; nothing is made. The run's name and those of units are letters, digits, '-'
 * and '_'. QK_ERR_EXISTS where a link is in its place. */
QK_MUST_CHECK qk_status qk__units_open(qk__unit_folder *units, const char *folder,
                                       const char *run, qk_error *err);
void qk__units_close(qk__unit_folder *units);

/* Makes the folder with its parents; it may be there. */
QK_MUST_CHECK qk_status qk__units_make(const qk__unit_folder *units, qk_error *err);

/* The runs that have units in a folder, and the sealed units of a run, sorted; none where there is no
 * such folder. A unit without a seal is of an older version: it is as if it were not there, and gives
 * way to one that is published. Release with qk__names_free. */
QK_MUST_CHECK qk_status qk__units_runs(const char *folder, qk__names *runs, qk_error *err);
QK_MUST_CHECK qk_status qk__units_list(const qk__unit_folder *units, qk__names *names,
                                       qk_error *err);
bool qk__names_have(const qk__names *names, const char *name);

/* The path of a unit, of a file in it, or of a file of the run; NULL when out of memory. */
char *qk__units_path(const qk__unit_folder *units, const char *unit, const char *file);

/* Begins a unit: makes an empty folder for its files, whose path the caller owns. Whoever writes
 * the files syncs them, as qk__outfile does. Publishing seals it, syncs the folder and gives it its
 * name, where nobody did so before; discarding removes it. A name that a crash of the machine takes back
 * is a unit to compute again.
 * Both free the path and set it to NULL. QK_ERR_NOT_FOUND from publishing: the run's folder has
 * gone, as it does when another process put the units together. */
QK_MUST_CHECK qk_status qk__unit_begin(const qk__unit_folder *units, const char *unit,
                                       char **path, qk_error *err);
QK_MUST_CHECK qk_status qk__unit_publish(const qk__unit_folder *units, const char *unit,
                                         char **path, qk_error *err);
void qk__unit_discard(char **path);

/* All of it: fill writes the files of the unit into its folder. What fails is discarded. */
typedef qk_status qk__fill_unit_fn(void *context, const char *folder, qk_error *err);
QK_MUST_CHECK qk_status qk__unit_put(const qk__unit_folder *units, const char *unit,
                                     qk__fill_unit_fn *fill, void *context, qk_error *err);

/* Removes a unit that is there; NULL: all of them, with what else the run has there. */
QK_MUST_CHECK qk_status qk__unit_remove(const qk__unit_folder *units, const char *unit,
                                        qk_error *err);

/* Removes what processes of this machine that are gone were making. */
QK_MUST_CHECK qk_status qk__units_sweep(const qk__unit_folder *units, qk_error *err);

/* Removes the run's folder, at once for all who look, and .units with it if that is empty then. */
QK_MUST_CHECK qk_status qk__units_remove(const qk__unit_folder *units, qk_error *err);

/* ---- what a unit is (seal.c) ------------------------------------------------------------ */

/* Writes the seal of a unit that is being made in a folder, of files alone. A copy has one. */
QK_MUST_CHECK qk_status qk__unit_seal(const qk__unit_folder *units, const char *unit,
                                      const char *folder, qk_error *err);
bool qk__unit_is_sealed(const qk__unit_folder *units, const char *unit);

/* Whether a unit was made for its place, and a file of it (NULL: none) holds what was written: to be
 * asked before the file is believed. QK_ERR_MALFORMED says what is wrong; the remedy is the caller's. */
QK_MUST_CHECK qk_status qk__unit_check(const qk__unit_folder *units, const char *unit,
                                       const char *file, qk_error *err);

/* ---- who computes what (share.c) -------------------------------------------------------- */

/* Units are alike, and neighbours stay together: those of a shard are *first to before *end. */
void qk__share_alike(int64_t count, const qk_shard *shard, int64_t *first, int64_t *end);

/* ---- who puts all together (end.c) ------------------------------------------------------ */

/* Of processes that see all units one puts them together: *mine says that it is this one. forced: whoever
 * said so before and is not known to be alive has died, the user says. */
QK_MUST_CHECK qk_status qk__end_claim(const qk__unit_folder *units, bool forced, bool *mine,
                                      qk_error *err);

/* ---- numbers of processes (shard.c, rank.c) --------------------------------------------- */

/* What a launcher calls the job that this process is part of; "" where there is none. */
enum { QK__JOB_SIZE = 256 };
void qk__launcher_job(char text[QK__JOB_SIZE]);

typedef struct qk__rank {
    char *path; /* ranks/1-of-3; NULL: not joined */
    char *text; /* what it says */
} qk__rank;

/* Says in the run's folder that this process has this number. QK_ERR_EXISTS where another one of the
 * same job has it: one of this machine that is alive, or one of another machine. Without a launcher
 * all processes of a machine are one job. */
QK_MUST_CHECK qk_status qk__rank_join(qk__rank *rank, const qk__unit_folder *units,
                                      const qk_shard *shard, qk_error *err);

/* Takes part in a run: makes its folder, removes what processes that are gone were making, and joins with
 * its number where there are several. */
QK_MUST_CHECK qk_status qk__units_enter(qk__rank *rank, const qk__unit_folder *units,
                                        const qk_shard *shard, qk_error *err);
void qk__rank_leave(qk__rank *rank);

/* QK_ERR_EXISTS where a process has a number in a run whose units lie in the folder, and is not known
 * to be gone: for who would remove them. own: not in this run; may be NULL. */
QK_MUST_CHECK qk_status qk__ranks_ask(const char *folder, const char *own, qk_error *err);

/* ---- processes (owner.c) ---------------------------------------------------------------- */

/* Host, machine and process as "HOST-0123456789abcdef-PID-START". Two containers with one host
 * name, and one host before and after a start, are different machines. */
enum { QK__OWNER_SIZE = 160 };
void qk__owner_self(char text[QK__OWNER_SIZE]);

typedef enum qk__life {
    QK__LIFE_GONE,
    QK__LIFE_ALIVE,
    QK__LIFE_ELSEWHERE, /* on another machine: nobody can tell; or no name of a process */
} qk__life;
qk__life qk__owner_life(const char *text);

#endif
