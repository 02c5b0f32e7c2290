/* SPDX-License-Identifier: Apache-2.0 */
/* Reads settings from YAML and JSON files, by the keys that their tables name. */
#ifndef QK_YAML_SETTING_FILES_H
#define QK_YAML_SETTING_FILES_H

#include <qkscope/settings.h>

#include "yaml/tree_keys.h"

/* Reads the members of an object into a struct at target + at, and by `own` rows into target;
 * these count where both have a key. Keys of settings that belong to one capture are unknown
 * where own.hidden has QK_SETTING_PER_CAPTURE. Texts belong to the tree, lists to the caller.
 * Otherwise as qk__read_keys; sections need no rows. */
QK_MUST_CHECK qk_status qk__settings_read(const qk__node *object,
                                          const qk_settings_table *table, size_t at,
                                          qk__keys own, void *target, qk_error *err);

/* Adds the numbers of a list. */
QK_MUST_CHECK qk_status qk__read_indices(const qk__node *list, qk_index_list *indices,
                                         qk_error *err);
/* A list of heads, as numbers or as texts without "@", appended. */
QK_MUST_CHECK qk_status qk__read_heads(const qk__node *list, qk_head_set *set, qk_error *err);

#endif
