/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the numbers of two folders were computed in one way. */
#ifndef QK_TABLES_RUN_DIFFERENCES_H
#define QK_TABLES_RUN_DIFFERENCES_H

#include "tables/manifest.h"

/* The settings that decide numbers of tables in both folders and differ, the stage and the sampler of the captures among
 * them, each with both values, in words; NULL: none. sides: names of the two. The text is the caller's. */
QK_MUST_CHECK qk_status qk__runs_differ(const qk__manifest *const of[2],
                                        const char *const sides[2], char **text, qk_error *err);

#endif
