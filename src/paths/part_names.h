/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are parts of one set, by their names: data-00000-of-00003.parquet, and as `datasets` writes
 * them with a hash behind the number, from 0 or from 1 on. */
#ifndef QK_PATHS_PART_NAMES_H
#define QK_PATHS_PART_NAMES_H

#include <stddef.h>

#include <qkscope/common.h>

/* Whether every set is whole, and alone under its name. The paths are in the order of their names.
 * QK_ERR_NOT_FOUND names a part that is missing, QK_ERR_INCONSISTENT two files of different sets. */
QK_MUST_CHECK qk_status qk__parts_check(char *const *paths, size_t count, qk_error *err);

#endif
