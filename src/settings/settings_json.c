/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the settings that decide results into a manifest, each where its row says. */
#include "settings/settings_json.h"

#include <stdio.h>
#include <string.h>

#include "base/json_build.h"
#include "settings/head_set.h"
#include "settings/settings.h"

enum { MAX_WORD = 100 };

json_t *qk__json_at(json_t *root, const char *path, json_t *value)
{
    const char *dot = strchr(path, '.');
    if (!dot)
        return qk__json_set(root, path, value);
    char section[MAX_WORD];
    snprintf(section, sizeof section, "%.*s", (int)(dot - path), path);
    json_t *inner = json_object_get(root, section);
    inner = inner ? json_incref(inner) : json_object();
    return qk__json_set(root, section, qk__json_at(inner, dot + 1, value));
}

static json_t *list_numbers(const qk_index_list *list)
{
    if (list->count == 0)
        return json_null();
    json_t *array = json_array();
    for (size_t i = 0; i < list->count; i++)
        array = qk__json_append(array, json_integer(list->items[i]));
    return array;
}

json_t *qk__json_head_set(const qk_head_set *set)
{
    char text[QK__HEAD_RANGE_SIZE];
    qk_index_list numbers;
    bool plain;
    if (qk__head_set_numbers(set, &plain, &numbers, NULL) != QK_OK)
        return NULL;
    json_t *array = plain ? list_numbers(&numbers) : json_array();
    for (size_t i = 0; i < set->count && !plain; i++)
        array = qk__json_append(array, json_string(qk__head_range_text(&set->items[i], text)));
    qk_index_list_free(&numbers);
    return array;
}

static json_t *setting_json(const qk_setting *row, const void *member)
{
    bool null = row->type == QK_SETTING_PERCENT || (row->traits & QK_SETTING_ZERO_IS_NULL);
    const char *word;
    double number;
    int64_t integer;
    char text[MAX_WORD];
    switch (row->type) {
    case QK_SETTING_FLAG:
        return json_boolean(*(const bool *)member);
    case QK_SETTING_INTEGER:
    case QK_SETTING_CHOICE:
        word = qk__setting_word(row, member);
        integer = qk__setting_integer(row, member);
        return word                   ? json_string(word)
               : null && integer == 0 ? json_null()
                                      : json_integer(integer);
    case QK_SETTING_REAL:
    case QK_SETTING_PERCENT:
        number = *(const double *)member;
        return null && !(number > 0) ? json_null() : qk__json_number(number);
    case QK_SETTING_LIST:
        return list_numbers(member);
    case QK_SETTING_HEADS:
        return qk__json_head_set(member);
    case QK_SETTING_TEXT:
    case QK_SETTING_PATH:
        return *(const char *const *)member ? qk__json_text(*(const char *const *)member)
                                            : json_null();
    default:
        qk__setting_format(row, member, text, sizeof text);
        return json_string(text);
    }
}

static void add_setting(void *user, const qk_setting *row, const void *member)
{
    json_t **root = user;
    if (row->manifest)
        *root = qk__json_at(*root, row->manifest, setting_json(row, member));
}

json_t *qk__json_settings(json_t *root, const qk_settings_table *table, const void *values)
{
    qk__settings_each(table, values, add_setting, &root);
    return root;
}
