/* SPDX-License-Identifier: Apache-2.0 */
/* Reads settings from YAML and JSON: a table of settings becomes a table of keys
 * (tree_keys.h). */
#include "yaml/setting_files.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "settings/head_set.h"
#include "settings/settings.h"

/* ---- one value -------------------------------------------------------------------------- */

/* Whether it is a word, or a number with its unit ("85mm"). */
static bool is_worded(const qk_setting *row, const char *text)
{
    size_t length = strlen(text), unit = row->unit ? strlen(row->unit) : 0;
    return row->words ||
           (unit > 0 && length > unit && !strcmp(text + length - unit, row->unit));
}

static qk_status read_integer(const qk__node *value, const qk_setting *row, void *member,
                              qk_error *err)
{
    bool wide = row->size == sizeof(int64_t), bounded = row->min != 0 || row->max != 0;
    int64_t least = !bounded ? wide ? INT64_MIN : INT32_MIN : (int64_t)row->min;
    int64_t most = !bounded ? wide ? INT64_MAX : INT32_MAX : (int64_t)row->max;
    const char *text = NULL;
    int64_t number = 0;
    if (row->traits & QK_SETTING_ZERO_IN_FILES)
        least = 0;
    if ((row->words || row->unit) && qk__read_text(value, NULL, &text, NULL) == QK_OK && text &&
        is_worded(row, text) && qk__setting_parse(row, member, text, NULL, NULL) == QK_OK)
        return QK_OK;
    QK_TRY(qk__read_int64(value, NULL, least, most, &number, err));
    qk__setting_set_integer(row, member, number);
    return QK_OK;
}

static qk_status read_real(const qk__node *value, const qk_setting *row, double *member,
                           qk_error *err)
{
    bool zero = row->type == QK_SETTING_PERCENT || (row->traits & QK_SETTING_ZERO_IS_NULL);
    QK_TRY(qk__read_real(value, NULL, zero ? 0 : row->min, row->max, member, err));
    if (row->type == QK_SETTING_PERCENT && *member > 0 && *member < 1)
        return qk__fail_at(value, err, QK_ERR_ARGUMENT, "%g is a percentage; did you mean %g?",
                           *member, 100 * *member);
    return QK_OK;
}

static qk_status read_word(const qk__node *value, const qk_setting *row, void *member,
                           qk_error *err)
{
    const char *text = NULL;
    char words[QK__WORDS_SIZE];
    QK_TRY(qk__read_text(value, NULL, &text, err));
    if (!text || qk__setting_parse(row, member, text, NULL, NULL) != QK_OK)
        return qk__fail_expected(value, qk__setting_words(row, words), err);
    return QK_OK;
}

static qk_status fail_empty(const qk__node *value, qk_error *err)
{
    return qk__fail_at(value, err, QK_ERR_ARGUMENT, "an empty list; write null for all");
}

/* A word, or a list of them. */
static qk_status read_words(const qk__node *value, const qk_setting *row, unsigned *member,
                            qk_error *err)
{
    unsigned sum = 0, one = 0;
    for (size_t i = 0; i < qk__node_count(value); i++) {
        qk__node item = qk__node_item(value, i);
        QK_TRY(read_word(&item, row, &one, err));
        sum |= one;
    }
    if (sum == 0)
        return fail_empty(value, err);
    *member = sum;
    return QK_OK;
}

qk_status qk__read_indices(const qk__node *list, qk_index_list *indices, qk_error *err)
{
    for (size_t i = 0; i < qk__node_count(list); i++) {
        qk__node item = qk__node_item(list, i);
        int index = -1;
        QK_TRY(qk__read_int(&item, NULL, 0, QK_MAX_INDEX, &index, err));
        if (index < 0)
            return qk__fail_expected(&item, "a whole number", err);
        QK_TRY(qk__index_list_add(indices, index, index, err));
    }
    qk__index_list_sort(indices);
    return QK_OK;
}

/* A list of numbers, or text as the command line takes it: 3 or "0,2,5-9". */
static qk_status read_list(const qk__node *value, qk_index_list *list, qk_error *err)
{
    const char *text = NULL;
    if (qk__node_kind_of(value) == QK__LIST)
        return qk__node_count(value) > 0 ? qk__read_indices(value, list, err)
                                         : fail_empty(value, err);
    QK_TRY(qk__read_text(value, NULL, &text, err));
    return qk__context_at(value, err, qk_index_list_parse(text, list, err));
}

qk_status qk__read_heads(const qk__node *list, qk_head_set *set, qk_error *err)
{
    for (size_t i = 0; i < qk__node_count(list); i++) {
        qk__node item = qk__node_item(list, i);
        const char *text = NULL;
        int number = -1;
        qk_head_range range = {0, QK_MAX_INDEX, 0, 0};
        if (qk__read_int(&item, NULL, 0, QK_MAX_INDEX, &number, NULL) == QK_OK && number >= 0) {
            range.first_head = range.last_head = number;
            QK_TRY(qk__head_set_add(set, range, err));
            continue;
        }
        QK_TRY(qk__read_text(&item, NULL, &text, err));
        if (!text)
            return qk__fail_expected(&item, "heads, such as 5 or 2:1", err);
        QK_TRY(qk__context_at(&item, err, qk__head_set_add_text(set, text, err)));
    }
    return QK_OK;
}

/* A list of heads, or text as the command line takes it: 3 or "2:1,14-23:*". */
static qk_status read_head_set(const qk__node *value, qk_head_set *set, qk_error *err)
{
    const char *text = NULL;
    if (qk__node_kind_of(value) == QK__LIST)
        return qk__node_count(value) > 0 ? qk__read_heads(value, set, err)
                                         : fail_empty(value, err);
    QK_TRY(qk__read_text(value, NULL, &text, err));
    return qk__context_at(value, err, qk_head_set_parse(text, set, err));
}

static qk_status read_setting(void *target, const qk__node *value, const qk__key *key,
                              qk_error *err)
{
    const qk_setting *row = key->data;
    void *member = (char *)target + key->at;
    switch (row->type) {
    case QK_SETTING_FLAG:
        return qk__read_bool(value, NULL, member, err);
    case QK_SETTING_INTEGER:
        return read_integer(value, row, member, err);
    case QK_SETTING_REAL:
    case QK_SETTING_PERCENT:
        return read_real(value, row, member, err);
    case QK_SETTING_CHOICE:
        return read_word(value, row, member, err);
    case QK_SETTING_SET:
        return read_words(value, row, member, err);
    case QK_SETTING_LIST:
        return read_list(value, member, err);
    case QK_SETTING_HEADS:
        return read_head_set(value, member, err);
    default:
        return qk__read_text(value, NULL, member, err);
    }
}

/* ---- the table of keys ------------------------------------------------------------------ */

typedef struct builder {
    qk__key *rows; /* NULL: they are counted */
    size_t count;
} builder;

static void add_settings(builder *b, const qk_settings_table *table, size_t at)
{
    for (size_t i = 0; i < table->count; i++) {
        const qk_setting *row = &table->rows[i];
        if (row->type == QK_SETTING_NESTED)
            add_settings(b, row->table, at + row->offset);
        else if (row->yaml && b->rows)
            b->rows[b->count++] = (qk__key){row->yaml,        QK__KEY_READ,
                                            at + row->offset, .read = read_setting,
                                            .data = row,      .only = row->traits};
        else if (row->yaml)
            b->count++;
    }
}

qk_status qk__settings_read(const qk__node *object, const qk_settings_table *table, size_t at,
                            qk__keys own, void *target, qk_error *err)
{
    builder b = {.count = own.count};
    add_settings(&b, table, at);
    b.rows = qk__calloc(b.count, sizeof *b.rows);
    if (!b.rows)
        return qk__nomem(err);
    if (own.count > 0)
        memcpy(b.rows, own.rows, own.count * sizeof *b.rows);
    b.count = own.count;
    add_settings(&b, table, at);
    qk_status status =
        qk__read_keys(object, (qk__keys){b.rows, b.count, own.hidden}, target, err);
    free(b.rows);
    return status;
}
