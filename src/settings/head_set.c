/* SPDX-License-Identifier: Apache-2.0 */
/* The one reader of heads that are named, on the command line and elsewhere. */
#include "settings/head_set.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"

enum {
    MAX_ITEMS = 4 * (QK_MAX_INDEX + 1),
    MAX_FILE = 1 << 22,
    MAX_ITEM = 80, /* of its bytes, with spaces */
};

bool qk__all_layers(const qk_head_range *range)
{
    return range->first_layer == 0 && range->last_layer == QK_MAX_INDEX;
}

bool qk__all_heads(const qk_head_range *range)
{
    return range->first_head == 0 && range->last_head == QK_MAX_INDEX;
}

bool qk__range_has(const qk_head_range *range, int layer, int head)
{
    return layer >= range->first_layer && layer <= range->last_layer &&
           head >= range->first_head && head <= range->last_head;
}

bool qk_head_set_has(const qk_head_set *set, int layer, int head)
{
    assert(set);
    for (size_t i = 0; i < set->count; i++)
        if (qk__range_has(&set->items[i], layer, head))
            return true;
    return set->count == 0;
}

void qk_head_set_free(qk_head_set *set)
{
    assert(set);
    free(set->items);
    *set = (qk_head_set){0};
}

/* Room doubles, so that its size follows from the count. */
qk_status qk__head_set_add(qk_head_set *set, qk_head_range range, qk_error *err)
{
    if (set->count == MAX_ITEMS)
        return qk__fail(err, QK_ERR_ARGUMENT, "more than %d heads", MAX_ITEMS);
    if ((set->count & (set->count - 1)) == 0) {
        size_t room = set->count ? 2 * set->count : 1;
        qk_head_range *items = realloc(set->items, room * sizeof *items);
        if (!items)
            return qk__nomem(err);
        set->items = items;
    }
    set->items[set->count++] = range;
    return QK_OK;
}

/* ---- from text -------------------------------------------------------------------------- */

/* "*", "3" or "0-3", and moves behind it; false: it is none of these. */
static bool take_numbers(const char **text, int *first, int *last)
{
    const char *p = *text + strspn(*text, " \t");
    if (*p == '*') {
        *first = 0;
        *last = QK_MAX_INDEX;
        *text = p + 1 + strspn(p + 1, " \t");
        return true;
    }
    *first = *last = qk__take_index(text);
    if (*first >= 0 && **text == '-') {
        ++*text;
        *last = qk__take_index(text);
    }
    return *first >= 0 && *last >= 0;
}

static qk_status add_item(qk_head_set *set, const char *item, size_t length, qk_error *err)
{
    char text[MAX_ITEM + 1];
    qk_head_range range = {0, QK_MAX_INDEX, 0, 0};
    snprintf(text, sizeof text, "%.*s", (int)(length < MAX_ITEM ? length : MAX_ITEM), item);
    const char *p = text;
    bool good = length < MAX_ITEM && take_numbers(&p, &range.first_head, &range.last_head);
    if (good && *p == ':') {
        p++;
        range.first_layer = range.first_head;
        range.last_layer = range.last_head;
        good = take_numbers(&p, &range.first_head, &range.last_head);
    }
    if (!good || *p)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "\"%.60s\": expected heads as LAYER:HEAD, such as 2:1, 2:0-3, 14-23:*, "
                        "or 5 for head 5 of every layer; numbers go from 0 to %d",
                        text, QK_MAX_INDEX);
    if (range.last_layer < range.first_layer || range.last_head < range.first_head)
        return qk__fail(err, QK_ERR_ARGUMENT, "\"%.60s\": a range that runs backwards", text);
    return qk__head_set_add(set, range, err);
}

qk_status qk__head_set_add_text(qk_head_set *set, const char *text, qk_error *err)
{
    for (const char *item = text;; item++) {
        size_t length = strcspn(item, ",");
        QK_TRY(add_item(set, item, length, err));
        item += length;
        if (*item == 0)
            return QK_OK;
    }
}

/* Lines as qk__head_set_add_text takes them; empty ones and comments are left out. */
static qk_status add_lines(qk_head_set *set, char *text, size_t size, qk_error *err)
{
    if (memchr(text, 0, size))
        return qk__fail(err, QK_ERR_ARGUMENT, "has a zero byte in it: it is no text");
    int number = 1;
    for (char *line = text, *next; line; line = next, number++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        line[strcspn(line, "#\r")] = 0;
        if (line[strspn(line, " \t")] != 0)
            QK_TRY(qk__context(err, qk__head_set_add_text(set, line, err), "line %d", number));
    }
    return set->count > 0 ? QK_OK : qk__fail(err, QK_ERR_ARGUMENT, "names no heads");
}

/* Whatever is wrong with the file, the argument that names it is. */
static qk_status add_file(qk_head_set *set, const char *path, qk_error *err)
{
    qk__buffer text;
    qk_error why;
    qk_status status = qk__read_file(path, MAX_FILE, &text, &why);
    if (status == QK_ERR_NOMEM)
        return qk__nomem(err);
    if (status != QK_OK)
        return qk__fail(err, QK_ERR_ARGUMENT, "@%s", why.message);
    const size_t mark = qk__utf8_mark(text.data, text.size);
    status = qk__buffer_append(&text, "", 1, err);
    if (status == QK_OK)
        status = qk__context(
            err, add_lines(set, (char *)text.data + mark, text.size - 1 - mark, err), "@%s",
            path);
    qk__buffer_free(&text);
    return status;
}

qk_status qk_head_set_parse(const char *text, qk_head_set *set, qk_error *err)
{
    QK_NEED(err, set);
    *set = (qk_head_set){0};
    QK_NEED(err, text);
    const char *start = text + strspn(text, " \t");
    qk_status status =
        *start == '@' ? add_file(set, start + 1, err) : qk__head_set_add_text(set, text, err);
    if (status != QK_OK)
        qk_head_set_free(set);
    return status;
}

/* ---- back to text ----------------------------------------------------------------------- */

static size_t put_numbers(int first, int last, char *text, size_t size)
{
    if (first == 0 && last == QK_MAX_INDEX)
        return (size_t)snprintf(text, size, "*");
    return (size_t)(first == last ? snprintf(text, size, "%d", first)
                                  : snprintf(text, size, "%d-%d", first, last));
}

const char *qk__head_range_text(const qk_head_range *range, char text[QK__HEAD_RANGE_SIZE])
{
    size_t used = 0;
    if (!qk__all_layers(range)) {
        used = put_numbers(range->first_layer, range->last_layer, text, QK__HEAD_RANGE_SIZE);
        text[used++] = ':';
    }
    put_numbers(range->first_head, range->last_head, text + used, QK__HEAD_RANGE_SIZE - used);
    return text;
}

qk_status qk__head_set_numbers(const qk_head_set *set, bool *plain, qk_index_list *numbers,
                               qk_error *err)
{
    *numbers = (qk_index_list){0};
    *plain = true;
    for (size_t i = 0; i < set->count; i++)
        *plain = *plain && qk__all_layers(&set->items[i]) && !qk__all_heads(&set->items[i]);
    qk_status status = QK_OK;
    for (size_t i = 0; i < set->count && *plain && status == QK_OK; i++)
        status =
            qk__index_list_add(numbers, set->items[i].first_head, set->items[i].last_head, err);
    if (status != QK_OK)
        qk_index_list_free(numbers);
    qk__index_list_sort(numbers);
    return status;
}
