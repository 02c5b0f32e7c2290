/* SPDX-License-Identifier: Apache-2.0 */
/* Heads as they are named: "2:1", "14-23:*", "5", "@FILE" (docs/commands.md#naming-heads). */
#ifndef QK_SETTINGS_HEAD_SET_H
#define QK_SETTINGS_HEAD_SET_H

#include <qkscope/settings.h>

#include "settings/index_list.h"

enum { QK__HEAD_RANGE_SIZE = 48 };

/* Heads of all layers that there are; all heads of a layer. */
bool qk__all_layers(const qk_head_range *range);
bool qk__all_heads(const qk_head_range *range);
bool qk__range_has(const qk_head_range *range, int layer, int head);

QK_MUST_CHECK qk_status qk__head_set_add(qk_head_set *set, qk_head_range range, qk_error *err);
/* What has no "@" in front: one item, or several with commas. */
QK_MUST_CHECK qk_status qk__head_set_add_text(qk_head_set *set, const char *text,
                                              qk_error *err);

/* As it is named. */
const char *qk__head_range_text(const qk_head_range *range, char text[QK__HEAD_RANGE_SIZE]);
/* Of numbers that are the same in all layers, these, sorted; *plain is false for other sets, and
 * numbers empty. Release with qk_index_list_free. */
QK_MUST_CHECK qk_status qk__head_set_numbers(const qk_head_set *set, bool *plain,
                                             qk_index_list *numbers, qk_error *err);

#endif
