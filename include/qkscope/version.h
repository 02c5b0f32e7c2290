/* SPDX-License-Identifier: Apache-2.0 */
/* Release and API version. The API version changes only when a declaration in
 * these headers changes in a way that old callers would notice. */
#ifndef QKSCOPE_VERSION_H
#define QKSCOPE_VERSION_H

#include <qkscope/status.h>

#define QK_VERSION     "0.1.0"
#define QK_RELEASED    "2026-11-21" /* day of the release, as in CITATION.cff */
#define QK_API_VERSION 1

QK_BEGIN_DECLS

/* Version of the library at run time, a static string such as "0.1.0". */
QK_API const char *qk_version(void);

/* QK_API_VERSION the library was built with. */
QK_API int qk_api_version(void);

QK_END_DECLS

#endif
