/* SPDX-License-Identifier: Apache-2.0 */
/* Paths as text: joining them, and their endings. */
#ifndef QK_BASE_PATH_H
#define QK_BASE_PATH_H

#include <stdbool.h>

#include <qkscope/common.h>

/* A path on the stack, for a call or two: nothing to release, and memory cannot run out. */
typedef struct qk__path {
    char text[4096]; /* the system's limit */
} qk__path;

/* QK_ERR_IO: it is too long. The second is "dir/name". */
QK_MUST_CHECK qk_status qk__path_set(qk__path *path, qk_error *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
QK_MUST_CHECK qk_status qk__path_in(qk__path *path, const char *dir, const char *name,
                                    qk_error *err);

/* "dir/name" in a new string, NULL when out of memory. */
char *qk__path_join(const char *dir, const char *name);

/* What follows the last slash of a path with a slash. */
const char *qk__file_name(const char *path);

/* Whether a name ends with `end` and has something before it; the second ignores case. */
bool qk__ends_with(const char *name, const char *end);
bool qk__ends_with_any_case(const char *name, const char *end);

/* The folder of a path, "." if it names none, in a new string. */
QK_MUST_CHECK qk_status qk__parent_folder(const char *path, char **folder, qk_error *err);

#endif
