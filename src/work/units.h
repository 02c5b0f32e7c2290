/* SPDX-License-Identifier: Apache-2.0 */
/* Work of many processes. It is cut into units, each a pure function of what it is made from, so that it does not
 * matter who computes one, nor how often. A unit is one file that appears whole, by a rename, and says whose it is.
 * Process i of n makes those with number % n == i; whoever sees all of them puts them together. Nobody waits, and a
 * unit that two have made is the same.
 *
 *     qk__unit unit;
 *     QK_TRY(qk__unit_begin(&unit, folder, "b000003", err));
 *     int64_t at = qk__unit_reserve(&unit, size);              one thread at a time
 *     QK_TRY(qk__unit_write(&unit, at, data, size, err));      any thread
 *     QK_TRY(qk__unit_finish(&unit, run, "{...}", err));
 *
 * shard.c finds a process's number, unit.c keeps the units. */
#ifndef QK_WORK_UNITS_H
#define QK_WORK_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

#include "base/file.h"
#include "base/folder.h"

/* One that is being made. Zeros with fd -1: none. */
typedef struct qk__unit {
    char *place, *temporary;
    int fd;
    int64_t size; /* reserved so far, in steps of 8 bytes */
} qk__unit;

/* Makes its file, beside its place in a folder that is there. QK_ERR_NOT_FOUND: it has gone, as it does when another
 * process put the units together. */
QK_MUST_CHECK qk_status qk__unit_begin(qk__unit *unit, const char *folder, const char *name,
                                       qk_error *err);

/* Room behind what was reserved before. What of it is not written are zeros. */
int64_t qk__unit_reserve(qk__unit *unit, size_t size);
QK_MUST_CHECK qk_status qk__unit_write(const qk__unit *unit, int64_t offset, const void *data,
                                       size_t size, qk_error *err);
QK_MUST_CHECK qk_status qk__unit_append(qk__unit *unit, const void *data, size_t size,
                                        int64_t *offset, qk_error *err);

/* Gives it its name, in place of what has that. run: of what it is; head: a line without its end, for
 * qk__unit_look. It is gone afterwards, whatever happened, as by qk__unit_discard. */
QK_MUST_CHECK qk_status qk__unit_finish(qk__unit *unit, const char *run, const char *head,
                                        qk_error *err);
void qk__unit_discard(qk__unit *unit);

/* Whether a unit of a run is there, by its last line; its bytes are not compared. head may be NULL. */
QK_MUST_CHECK qk_status qk__unit_look(const char *folder, const char *name, const char *run,
                                      qk__buffer *head, bool *there, qk_error *err);

/* Opens one that is to be believed: QK_ERR_MALFORMED says why it is not; messages do not name it. */
QK_MUST_CHECK qk_status qk__unit_open(const char *folder, const char *name, const char *run,
                                      int *fd, qk__buffer *head, qk_error *err);

/* Gives it to another folder, in place of what has its name there: another name for the file, or, on another disk, a
 * copy. Errors are those of qk__unit_open, and of writing. */
QK_MUST_CHECK qk_status qk__unit_give(const char *folder, const char *name, const char *run,
                                      const char *to, qk_error *err);

/* Removes what killed processes were making in TOP/NAME; who is at work there keeps his. */
QK_MUST_CHECK qk_status qk__units_sweep(const char *top, const char *name, qk_error *err);

/* Whether a unit is of this process. */
static inline bool qk__is_own(int64_t number, const qk_shard *shard)
{
    return shard->count < 2 || number % shard->count == shard->index;
}

#endif
