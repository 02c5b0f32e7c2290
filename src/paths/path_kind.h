/* SPDX-License-Identifier: Apache-2.0 */
/* What a file or a folder is, by its signs: its name, the names in it, how it begins. For messages to
 * somebody who gave the wrong one. */
#ifndef QK_PATHS_PATH_KIND_H
#define QK_PATHS_PATH_KIND_H

#include <stdbool.h>

#include <qkscope/common.h>

typedef enum qk__path_kind {
    QK__PATH_OTHER, /* not known, or not there */
    QK__PATH_CAPTURE,
    QK__PATH_UNFINISHED, /* capture */
    QK__PATH_MODEL,
    QK__PATH_MODELS,  /* a folder of them */
    QK__PATH_RESULTS, /* of an analysis or a study */
    QK__PATH_STUDY_FILE,
    QK__PATH_SETTINGS, /* another YAML file */
    QK__PATH_TEXTS,
    QK__PATH_FILE_OF_CAPTURE, /* in the folder of a head, or capture.json */
    QK__PATH_FILE_OF_MODEL,
    QK__PATH_TABLE, /* of results */
} qk__path_kind;

qk__path_kind qk__path_look(const char *path);

/* Where the path is known to be something else than what is wanted, err says what it is, and which command
 * takes it: QK_ERR_NOT_FOUND, whoever asks. Else status and message stay. */
qk_status qk__path_tell(const char *path, qk__path_kind wanted, qk_status status,
                        qk_error *err);

/* The folders beside a path that is not there, for its message: "a, b, c". NULL: none, too many to name, or the
 * path names no folder to look in. */
char *qk__path_beside(const char *path);

#endif
