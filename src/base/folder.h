/* SPDX-License-Identifier: Apache-2.0 */
/* Folders below a folder that the user named. That folder may be a link. Below it no link is followed: each name is
 * opened in the folder above it, so that what is made, listed or removed is where it seems to be. NAME is one name or
 * several, "a/b"; "" is TOP itself. A name of no folder, such as a link, is QK_ERR_EXISTS and named. */
#ifndef QK_BASE_FOLDER_H
#define QK_BASE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include <qkscope/common.h>

#include "base/file.h"

/* Whether TOP/NAME is there. */
QK_MUST_CHECK qk_status qk__look_below(const char *top, const char *name, bool *there,
                                       qk_error *err);

/* Makes the missing folders of TOP/NAME; TOP exists. */
QK_MUST_CHECK qk_status qk__make_below(const char *top, const char *name, qk_error *err);

/* Makes TOP/NAME, and in it a hidden folder ".WORD.qkscope-ab12CD" for this call alone, whose path the caller owns.
 * qk__remove_staging removes it. */
QK_MUST_CHECK qk_status qk__stage_below(const char *top, const char *name, const char *word,
                                        char **path, qk_error *err);

/* Removes TOP/NAME, the last name a file, a link or a folder with all that is in it. A missing name is fine; what
 * cannot be removed stays, and the rest is removed. */
QK_MUST_CHECK qk_status qk__remove_below(const char *top, const char *name, qk_error *err);

/* Removes in the same way the chosen contents of TOP/NAME; `context` is passed on. */
typedef bool qk__choose_name(const char *name, const void *context);
QK_MUST_CHECK qk_status qk__empty_below(const char *top, const char *name,
                                        qk__choose_name *choose, const void *context,
                                        qk_error *err);

/* The length of WORD in a name that qk__stage_below gives; 0 for other names. */
size_t qk__staging_stem(const char *name);

/* Removes a staging folder with the files and staging folders in it, as far as that is possible. */
void qk__remove_staging(const char *path);

/* The length of NAME in "NAME.tmp-qkscope-123-0", as qk__outfile calls a file until it is complete; 0
 * for other names. */
size_t qk__temporary_stem(const char *name);

/* Removes a file if it is there. */
QK_MUST_CHECK qk_status qk__remove_file(const char *folder, const char *name, qk_error *err);

#endif
