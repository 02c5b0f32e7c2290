/* SPDX-License-Identifier: Apache-2.0 */
/* Writes settings into manifests. */
#ifndef QK_SETTINGS_SETTINGS_JSON_H
#define QK_SETTINGS_SETTINGS_JSON_H

#include <jansson.h>

#include <qkscope/settings.h>

/* Sets "a.b" in root: its member a gets the key b. As qk__json_set. */
QK_MUST_CHECK json_t *qk__json_at(json_t *root, const char *path, json_t *value);

/* Adds every setting that decides results to root, where its row says. As qk__json_set. */
QK_MUST_CHECK json_t *qk__json_settings(json_t *root, const qk_settings_table *table,
                                        const void *values);

/* Numbers where these are of all layers, else texts such as "2:1"; null where there are none. */
json_t *qk__json_head_set(const qk_head_set *set);

#endif
