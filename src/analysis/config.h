/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files, and what study files and files of the recorder share with them. */
#ifndef QK_ANALYSIS_CONFIG_H
#define QK_ANALYSIS_CONFIG_H

#include <qkscope/analysis.h>

#include "yaml/tree_keys.h"

/* Strings of the settings point into the tree, which lives as long as the config. */
struct qk_config {
    qk__tree *tree;
    qk_analysis_settings settings;
    bool parallel;
};

/* Reads the keys of config->tree: those of a table of settings, into the struct `at` bytes behind config; those of the
 * original tool, which have no settings; and `more`, whose places count from config, too. */
enum { QK__MAX_MORE = 8 };
QK_MUST_CHECK qk_status qk__config_read(qk_config *config, const qk_settings_table *table,
                                        size_t at, qk__keys more, qk_error *err);

/* Frees what config holds, not itself. */
void qk__config_release(qk_config *config);

#endif
