/* SPDX-License-Identifier: Apache-2.0 */
/* Reads lists of numbers of layers, such as "0,2,5-9". */
#include "settings/index_list.h"

#include <assert.h>
#include <stdlib.h>

#include "base/error.h"

/* Room for a list with repeats, far above any real one. */
enum { MAX_COUNT = 4 * (QK_MAX_INDEX + 1) };

/* Lists grow to powers of two, so the room a list has follows from its count. */
static size_t room_for(size_t count)
{
    size_t room = count > 0;
    while (room < count)
        room *= 2;
    return room;
}

qk_status qk__index_list_add(qk_index_list *list, int first, int last, qk_error *err)
{
    size_t more = (size_t)(last - first) + 1;
    if (more > MAX_COUNT - list->count)
        return qk__fail(err, QK_ERR_ARGUMENT, "a list of more than %d numbers", MAX_COUNT);
    size_t room = room_for(list->count + more);
    if (room > room_for(list->count)) {
        int *items = realloc(list->items, room * sizeof *items);
        if (!items)
            return qk__nomem(err);
        list->items = items;
    }
    for (int value = first; value <= last; value++)
        list->items[list->count++] = value;
    return QK_OK;
}

static int compare_ints(const void *a, const void *b)
{
    int x = *(const int *)a;
    int y = *(const int *)b;
    return (x > y) - (x < y);
}

void qk__index_list_sort(qk_index_list *list)
{
    if (list->count < 2)
        return;
    qsort(list->items, list->count, sizeof *list->items, compare_ints);
    size_t kept = 1;
    for (size_t i = 1; i < list->count; i++)
        if (list->items[i] != list->items[kept - 1])
            list->items[kept++] = list->items[i];
    list->count = kept;
}

static const char *skip_spaces(const char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}

int qk__take_index(const char **text)
{
    const char *p = skip_spaces(*text);
    int value = -1;
    for (; *p >= '0' && *p <= '9'; p++) {
        value = (value < 0 ? 0 : value) * 10 + (*p - '0');
        if (value > QK_MAX_INDEX)
            return -1;
    }
    *text = skip_spaces(p);
    return value;
}

static qk_status parse(const char *text, qk_index_list *list, qk_error *err)
{
    for (const char *p = text;; p++) {
        int first = qk__take_index(&p);
        int last = first;
        if (first >= 0 && *p == '-') {
            p++;
            last = qk__take_index(&p);
        }
        if (first < 0 || last < 0 || (*p != ',' && *p != 0))
            return qk__fail(err, QK_ERR_ARGUMENT,
                            "\"%.60s\": expected numbers from 0 to %d and ranges, such as "
                            "0,2,5-9",
                            text, QK_MAX_INDEX);
        if (last < first)
            return qk__fail(err, QK_ERR_ARGUMENT, "\"%.60s\": the range %d-%d runs backwards",
                            text, first, last);
        QK_TRY(qk__index_list_add(list, first, last, err));
        if (*p == 0)
            return QK_OK;
    }
}

qk_status qk_index_list_parse(const char *text, qk_index_list *list, qk_error *err)
{
    QK_NEED(err, list);
    *list = (qk_index_list){0};
    QK_NEED(err, text);
    qk_status status = parse(text, list, err);
    if (status != QK_OK)
        qk_index_list_free(list);
    qk__index_list_sort(list);
    return status;
}

bool qk_index_list_has(const qk_index_list *list, int value)
{
    assert(list);
    return list->count == 0 ||
           bsearch(&value, list->items, list->count, sizeof value, compare_ints) != NULL;
}

void qk_index_list_free(qk_index_list *list)
{
    assert(list);
    free(list->items);
    *list = (qk_index_list){0};
}
