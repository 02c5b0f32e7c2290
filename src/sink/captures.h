/* SPDX-License-Identifier: Apache-2.0 */
/* Captures in an output folder: which files are theirs, and removing them (captures.c); what else is in their folders
 * (strangers.c). */
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

/* Refuses links in the place of our folders: .partial, post, pre. */
QK_MUST_CHECK qk_status qk__check_links(const char *output, qk_error *err);

/* Whether a name is that of a part of a capture. capture.json is none: it goes last, or is replaced. */
bool qk__is_part_of_capture(const char *name);

/* By its manifest, or by its heads: captures of the original tool have no manifest. */
bool qk__holds_capture(const char *folder);

/* Whether any place of an output folder holds a capture. */
bool qk__holds_captures(const char *output);

/* Whether the finished capture of a run is there. */
bool qk__is_capture_of(const char *folder, const char *fingerprint);

/* Whether a run is moving its parts there, or was when it was killed. */
bool qk__is_changing(const char *folder);

/* What decided the contents of the captures in an output folder; NULL if no capture says. To be released with
 * json_decref. A capture.json that cannot be read is an error that names it. */
struct json_t;
QK_MUST_CHECK qk_status qk__captured_identity(const char *output, struct json_t **identity,
                                              qk_error *err);

/* Whether a killed process was writing a capture's file of this name. */
bool qk__is_left_of_capture(const char *file);

/* Refuses to replace captures whose folders hold other files: these would be removed with them. *alone: besides
 * captures and .partial the output folder is empty. */
QK_MUST_CHECK qk_status qk__check_strangers(const char *output, bool *alone, qk_error *err);

/* Calls function for each place of an output folder that holds a capture, until it fails. Removes post/ and pre/ where
 * they are empty then. */
typedef qk_status qk__capture_fn(const char *output, int place, qk_error *err);
QK_MUST_CHECK qk_status qk__each_capture(const char *output, qk__capture_fn *function,
                                         qk_error *err);

/* Makes all readers refuse what is in the place. */
qk__capture_fn qk__capture_mark;

/* Removes a capture from a place, and nothing else. What cannot be removed stays, without an error. */
qk__capture_fn qk__capture_remove;

/* Removes what a killed process has left beside the files of a capture in TOP/NAME. */
void qk__output_sweep(const char *top, const char *name);

/* Empties .partial, beginning with the journal, without which the rest is nothing. */
void qk__partial_empty(const char *output);

/* The folder in .partial that has the units. */
#define QK__UNITS_NAME "units"

/* Removes captures in .partial that are not in their place yet. */
void qk__partial_unbuild(const char *output);

/* Removes .partial, where an unfinished run cannot be continued. */
void qk__partial_drop(const char *output);

/* Removes captures, .partial, and the folder itself if nothing else was in it. */
void qk__output_remove(const char *output);

#endif
