/* SPDX-License-Identifier: Apache-2.0 */
/* A run that several processes share. Its heads are cut into units, a GQA group each, or a head of
 * a kind by itself; a process computes those that are its own and not there yet, and whoever sees all
 * of them takes in the others' results and goes on as if it had computed them itself. So tables are
 * written by the same code, and are the same bytes.
 *
 * share_run.c leads; plan_file.c says what a run was asked for, unit_name.c names runs and units by
 * what they are made from, unit_file.c keeps the results of a unit. A run of one process has units,
 * too, all its own, and keeps none, unless it finds some that an earlier run left. */
#ifndef QK_ANALYSIS_SHARING_H
#define QK_ANALYSIS_SHARING_H

#include "analysis/run.h"
#include "base/buffer.h"

/* ---- share_run.c ------------------------------------------------------------------------ */

/* Settles run->units, which has name, first, count and keys of each, and which of them this
 * process computes. Takes over the array. */
QK_MUST_CHECK qk_status qk__sharing_plan(qk__run *run, qk__unit *units, size_t count,
                                         qk_error *err);

/* The bytes and rows of a head that was read for a unit, and the warnings it gave rise to. */
void qk__sharing_add(qk__run *run, qk__unit *unit, int64_t bytes, int64_t rows, bool constant);

/* All heads of a unit are done. Any thread. What fails stops the run. */
void qk__sharing_publish(qk__run *run, qk__unit *unit);

/* Once no more is computed: if all units are there, holds the output folder, takes in the results
 * of the others, and sets *whole. Else the run's part is done: another process, or a later one,
 * writes the tables. */
QK_MUST_CHECK qk_status qk__sharing_gather(qk__run *run, bool *whole, qk_error *err);

/* Removes the units once the tables are in their places. */
QK_MUST_CHECK qk_status qk__sharing_end(qk__run *run, qk_error *err);
void qk__sharing_free(qk__run *run);

/* ---- plan_file.c ------------------------------------------------------------------------ */

/* Writes what `qkscope merge` has to know, if it is not there yet. */
QK_MUST_CHECK qk_status qk__plan_write(const qk__run *run, qk_error *err);

/* Warns of units of other runs of the same analyses in the output folder, whose processes were
 * given something else: what this one computes never comes together with them. Once a run. */
QK_MUST_CHECK qk_status qk__plan_tell_others(qk__run *run, qk_error *err);

/* ---- unit_name.c ------------------------------------------------------------------------ */

/* Calls see with each setting that has a name and a value. */
typedef qk_status qk__see_setting_fn(void *user, const char *name, const char *text,
                                     qk_error *err);
QK_MUST_CHECK qk_status qk__each_setting(const qk_analysis_settings *settings,
                                         qk__see_setting_fn *see, void *user, qk_error *err);

/* What decides the bytes of every unit: settings, version, the layout of results, capture.json, names
 * and sizes of all files. */
enum { QK__RUN_NAME_SIZE = 17 };
bool qk__setting_decides(const char *name); /* some bytes of the results */
QK_MUST_CHECK qk_status qk__name_run(const qk__run *run, char name[QK__RUN_NAME_SIZE],
                                     qk_error *err);

/* Appends to unit->name what its files hold, as far as some bytes of each tell. */
QK_MUST_CHECK qk_status qk__name_unit(const qk__run *run, qk__unit *unit, qk_error *err);

/* ---- unit_file.c ------------------------------------------------------------------------ */

/* Appends what files of results follow from: their version, and sizes and places of what they hold in
 * the structs of this program. */
QK_MUST_CHECK qk_status qk__unit_layout(qk__buffer *text, qk_error *err);

/* The results of a unit, and what the run counted and noted for it: into the folder in which the unit is
 * made, and from the unit. Reading trusts nothing: QK_ERR_MALFORMED, QK_ERR_UNSUPPORTED (of a later
 * version). */
QK_MUST_CHECK qk_status qk__unit_write(qk__run *run, const qk__unit *unit, const char *folder,
                                       qk_error *err);
QK_MUST_CHECK qk_status qk__unit_read(qk__run *run, qk__unit *unit, qk_error *err);

#endif
