/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a qk_index_list number by number. */
#ifndef QK_SETTINGS_INDEX_LIST_H
#define QK_SETTINGS_INDEX_LIST_H

#include <qkscope/settings.h>

/* Largest number a list takes: no model has as many layers or heads. */
enum { QK_MAX_INDEX = 65535 };

/* Appends first, first + 1, ... last. The list must be empty or built by this function alone;
 * qk__index_list_sort comes last. */
QK_MUST_CHECK qk_status qk__index_list_add(qk_index_list *list, int first, int last,
                                           qk_error *err);

/* Reads a number at *text and moves behind it and any spaces; -1 if there is none or it is above
 * QK_MAX_INDEX. */
int qk__take_index(const char **text);

/* Sorts and drops repeats. */
void qk__index_list_sort(qk_index_list *list);

#endif
