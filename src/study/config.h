/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files, and what study files and files of the recorder share with them. */
#ifndef QK_STUDY_CONFIG_H
#define QK_STUDY_CONFIG_H

#include <qkscope/study.h>

#include "base/tree_keys.h"

/* Strings of the settings point into the tree, which lives as long as the config. */
struct qk_config {
    qk__tree *tree;
    qk_study_settings settings;
    bool kinds_given;
    bool parallel;
};

/* Default settings and no tree. */
void qk__config_init(qk_config *config);

/* A section of a study file, e.g. "rotation", that holds settings of all its models; keys that
 * belong to one capture are unknown there. */
QK_MUST_CHECK qk_status qk__config_section(qk_config *config, const qk__node *section,
                                           qk_error *err);

/* Adds the numbers of a list. */
QK_MUST_CHECK qk_status qk__config_indices(const qk__node *list, qk_index_list *indices,
                                           qk_error *err);

/* Frees what config holds, not itself. */
void qk__config_release(qk_config *config);

#endif
