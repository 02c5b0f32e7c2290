/* SPDX-License-Identifier: Apache-2.0 */
/* Settings structs by their tables: setting_struct.c, which leads, goes through a struct;
 * value.c reads, writes and checks one value. */
#ifndef QK_SETTINGS_SETTINGS_H
#define QK_SETTINGS_SETTINGS_H

#include <qkscope/settings.h>

/* Every value is one that its row allows, or its default, and not above that of the row that it may
 * not exceed. QK_ERR_ARGUMENT names the setting. */
QK_MUST_CHECK qk_status qk__settings_check(const qk_settings_table *table, const void *values,
                                           qk_error *err);

/* Copies the members whose rows have one of the traits. */
void qk__settings_copy(const qk_settings_table *table, void *to, const void *from,
                       unsigned traits);

/* Calls visit for every row that is no struct, and for those of nested tables. */
typedef void qk__settings_visit_fn(void *user, const qk_setting *row, const void *member);
void qk__settings_each(const qk_settings_table *table, const void *values,
                       qk__settings_visit_fn *visit, void *user);

/* The text of a choice's value, or of an integer's where it has a word; NULL where there is
 * none. */
const char *qk__setting_word(const qk_setting *row, const void *member);

/* "a, b or c": its words. Returns text. */
enum { QK__WORDS_SIZE = 200 };
const char *qk__setting_words(const qk_setting *row, char text[QK__WORDS_SIZE]);

/* An integer or choice of 4 or 8 bytes. */
int64_t qk__setting_integer(const qk_setting *row, const void *member);
void qk__setting_set_integer(const qk_setting *row, void *member, int64_t value);

/* As qk_settings_set, of a member anywhere. What was allocated for it, a text or the items of a
 * list, is in *owned, which held what an earlier call left there. Not for PATHS. */
QK_MUST_CHECK qk_status qk__setting_parse(const qk_setting *row, void *member, const char *text,
                                          void **owned, qk_error *err);

/* As qk_settings_get. */
size_t qk__setting_format(const qk_setting *row, const void *member, char *text, size_t size);

#endif
