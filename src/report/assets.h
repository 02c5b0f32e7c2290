/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are part of the program: style sheet, scripts, text of the methods. The
 * definitions are made by tools/embed.py when the program is built. */
#ifndef QK_REPORT_ASSETS_H
#define QK_REPORT_ASSETS_H

#include <stddef.h>

typedef struct qk__asset {
    const unsigned char *data;
    size_t size;
    const char *hash; /* "sha256-...", as a content security policy names it */
} qk__asset;

extern const qk__asset qk__asset_style;
extern const qk__asset qk__asset_script; /* assets/js, joined */
extern const qk__asset qk__asset_chart;
extern const qk__asset qk__asset_top;
extern const qk__asset qk__asset_first;
extern const qk__asset qk__asset_findings;
extern const qk__asset qk__asset_methods;
extern const qk__asset qk__asset_map;
extern const qk__asset qk__asset_explorer;
extern const qk__asset qk__asset_extremes;

#endif
