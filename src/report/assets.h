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

extern const qk__asset qk__asset_style;    /* assets/report.css */
extern const qk__asset qk__asset_script;   /* assets/js, joined */
extern const qk__asset qk__asset_chart;    /* Chart.js */
extern const qk__asset qk__asset_top;      /* assets/top.html */
extern const qk__asset qk__asset_first;    /* assets/first.html */
extern const qk__asset qk__asset_findings; /* assets/findings.html */
extern const qk__asset qk__asset_methods;  /* assets/methods.html */
extern const qk__asset qk__asset_map;      /* assets/map.html */
extern const qk__asset qk__asset_explorer; /* assets/explorer.html */
extern const qk__asset qk__asset_extremes; /* assets/extremes.html */

#endif
