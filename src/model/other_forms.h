/* SPDX-License-Identifier: Apache-2.0 */
/* Folders that are no model in the form that is read here. */
#ifndef QK_MODEL_OTHER_FORMS_H
#define QK_MODEL_OTHER_FORMS_H

#include <stdbool.h>

#include <qkscope/common.h>

/* Whether there is nothing at all at path, though there is the folder. */
bool qk__folder_lacks(const char *folder, const char *path);

/* Fails: `missing` is not in the folder. Of what is there instead, says what it is and what to
 * do about it. */
QK_MUST_CHECK qk_status qk__refuse_folder(const char *folder, const char *missing,
                                          qk_error *err);

#endif
