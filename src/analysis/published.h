/* SPDX-License-Identifier: Apache-2.0 */
/* Files of settings of the original tool of attention plasticity: flat keys. */
#ifndef QK_ANALYSIS_PUBLISHED_H
#define QK_ANALYSIS_PUBLISHED_H

#include <qkscope/published.h>

#include "yaml/setting_files.h"

struct qk_published {
    qk__tree *tree;
};

/* Reads the file into settings, by their table and rows of its own. */
QK_MUST_CHECK qk_status qk__published_read(qk_published **file, const char *path,
                                           const qk_settings_table *table, qk__keys own,
                                           void *settings, qk_error *err);

#endif
