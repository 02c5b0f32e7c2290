/* SPDX-License-Identifier: Apache-2.0 */
/* Files of settings of the original tool of attention plasticity: flat keys. */
#ifndef QK_STUDY_PUBLISHED_H
#define QK_STUDY_PUBLISHED_H

#include <qkscope/published.h>

#include "study/config.h"

struct qk_published {
    qk_config config;
};

/* Reads the file by a table of keys; `owner` is what its functions fill (config->owner). */
QK_MUST_CHECK qk_status qk__published_read(qk_published **file, const char *path, void *owner,
                                           const qk__key *keys, size_t count, qk_error *err);

/* A number from low to high, with an exponent if need be. */
QK_MUST_CHECK qk_status qk__published_real(const yaml_node_t *node, const char *key, double low,
                                           double high, double *value, qk_error *err);

#endif
