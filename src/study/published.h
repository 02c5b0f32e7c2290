/* SPDX-License-Identifier: Apache-2.0 */
/* Files of settings of the original tool of attention plasticity: flat keys. */
#ifndef QK_STUDY_PUBLISHED_H
#define QK_STUDY_PUBLISHED_H

#include <qkscope/published.h>

#include "base/tree_keys.h"

struct qk_published {
    qk__tree *tree;
};

/* Reads the file by a table of keys into settings. */
QK_MUST_CHECK qk_status qk__published_read(qk_published **file, const char *path, qk__keys keys,
                                           void *settings, qk_error *err);

#endif
