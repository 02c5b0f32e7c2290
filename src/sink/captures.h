/* SPDX-License-Identifier: Apache-2.0 */
/* Captures as they lie in an output folder: which files are theirs, and removing them (captures.c); what in
 * their folders is not theirs (strangers.c). */
#ifndef QK_SINK_CAPTURES_H
#define QK_SINK_CAPTURES_H

#include <stdbool.h>

#include <qkscope/common.h>

/* After and before RoPE. */
enum { QK__POST, QK__PRE, QK__STAGES };

/* Sets of sums: the moments of each stage, and attention. */
enum { QK__ATTENTION = QK__STAGES, QK__SUM_SETS };

/* "post", "pre"; "attention" of QK__ATTENTION. */
const char *qk__stage_name(int stage);

/* An output folder holds captures in itself (0), in post/ (1), in pre/ (2). */
enum { QK__PLACES = 3 };

/* "", "post", "pre". */
const char *qk__place_name(int place);

/* NULL when out of memory. */
char *qk__place_folder(const char *output, int place);

/* Refuses what a run would write into and is no folder of ours: .partial, post, pre that are links. */
QK_MUST_CHECK qk_status qk__check_links(const char *output, qk_error *err);

/* Whether a name is that of a part of a capture. capture.json is none: it goes last, or is
 * replaced. */
bool qk__is_part_of_capture(const char *name);

/* By its manifest, or by its heads: those of the original tool have no manifest. */
bool qk__holds_capture(const char *folder);

/* Whether any place of an output folder does. */
bool qk__holds_captures(const char *output);

/* Whether the finished capture of a run is there. */
bool qk__is_capture_of(const char *folder, const char *fingerprint);

/* Whether a run is, or was when it was killed, moving its parts there. */
bool qk__is_changing(const char *folder);

/* What decided the contents of the captures in an output folder, NULL if none tells. To be
 * released with json_decref. A capture.json that is there and cannot be read is an error that names it. */
struct json_t;
QK_MUST_CHECK qk_status qk__captured_identity(const char *output, struct json_t **identity,
                                              qk_error *err);

/* Whether a name is that of a file of a capture that a killed process was writing. */
bool qk__is_left_of_capture(const char *file);

/* Refuses to replace captures in an output folder where something in their folders is no file of a
 * capture: it would be removed with them. *alone: besides them and .partial the output folder holds nothing. */
QK_MUST_CHECK qk_status qk__check_strangers(const char *output, bool *alone, qk_error *err);

/* Calls function for each place of an output folder that holds a capture, until it fails. post/
 * and pre/ are removed where they are, or have become, empty. */
typedef qk_status qk__capture_fn(const char *output, int place, qk_error *err);
QK_MUST_CHECK qk_status qk__each_capture(const char *output, qk__capture_fn *function,
                                         qk_error *err);

/* Lets all readers refuse what is in the place. */
qk__capture_fn qk__capture_mark;

/* Removes a capture from a place, and nothing else. What cannot be removed stays: QK_OK. */
qk__capture_fn qk__capture_remove;

/* Removes what a killed process has left beside the files of a capture in TOP/NAME. */
void qk__output_sweep(const char *top, const char *name);

/* Removes everything in .partial, beginning with the journal, without which the rest is nothing. */
void qk__partial_empty(const char *output);

/* The folder in .partial that has the units. */
#define QK__UNITS_NAME "units"

/* Removes captures in it that are not in their place yet. */
void qk__partial_unbuild(const char *output);

/* Removes .partial of an output folder, where nothing can become of an unfinished run. */
void qk__partial_drop(const char *output);

/* Removes captures, .partial and the folder itself if that is all there was in it. */
void qk__output_remove(const char *output);

#endif
