/* SPDX-License-Identifier: Apache-2.0 */
/* Captures as they lie in an output folder: which files are theirs, and removing them. */
#ifndef QK_SINK_PLACE_H
#define QK_SINK_PLACE_H

#include <stdbool.h>

#include <qkscope/common.h>

/* An output folder holds captures in itself (0), in post/ (1), in pre/ (2). */
enum { QK__PLACES = 3 };

/* NULL when out of memory. */
char *qk__place(const char *output, int place);

/* Whether a name is that of a part of a capture. capture.json is none: it goes last, or is
 * replaced. */
bool qk__is_part_of_capture(const char *name);

/* By its manifest, or by its heads: those of the original tool have no manifest. */
bool qk__holds_capture(const char *folder);

/* Whether any place of an output folder does. */
bool qk__holds_captures(const char *output);

/* Whether the finished capture of a run is there. */
bool qk__is_capture_of(const char *folder, const char *fingerprint);

/* What decided the contents of the captures in an output folder, NULL if none tells. To be
 * released with json_decref. */
struct json_t;
struct json_t *qk__captured_identity(const char *output);

/* Whether the output folder holds captures, .partial, and nothing else. */
bool qk__holds_captures_alone(const char *output);

/* Calls function for each place of an output folder that holds a capture, until it fails. post/
 * and pre/ are removed where they are, or have become, empty. */
typedef qk_status qk__capture_fn(const char *folder, qk_error *err);
QK_MUST_CHECK qk_status qk__each_capture(const char *output, qk__capture_fn *function,
                                         qk_error *err);

/* Lets all readers refuse what is in the folder. */
qk__capture_fn qk__capture_mark;

/* Removes a capture from a folder, and nothing else. What cannot be removed stays: QK_OK. */
qk__capture_fn qk__capture_remove;

/* Removes what a killed process has left beside the files of a capture. */
void qk__output_sweep(const char *folder);

/* Removes everything in a folder .partial, beginning with the journal, without which the rest
 * is nothing. The lock stays: others respect it. */
void qk__partial_empty(const char *partial);

/* Removes captures in it that are not in their place yet. */
void qk__partial_unbuild(const char *partial);

/* Removes .partial of an output folder, where nothing can become of an unfinished run. */
void qk__partial_drop(const char *output);

/* Removes captures, .partial and the folder itself if that is all there was in it. */
void qk__output_remove(const char *output);

#endif
