/* SPDX-License-Identifier: Apache-2.0 */
/* Unicode's normal forms. ASCII is left alone and the rest done in stretches between; utf8proc
 * knows the characters, but the order of marks is made here, since its own sorting takes
 * quadratic time on a long run of marks. */
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/error.h"
#include "model/normalize.h"
#include "model/tok_text.h"

typedef struct characters {
    utf8proc_int32_t *items;
    size_t count, capacity;
} characters;

static qk_status reserve(characters *list, size_t count, qk_error *err)
{
    if (count <= list->capacity)
        return QK_OK;
    size_t capacity = count + count / 2;
    if (capacity > SIZE_MAX / sizeof *list->items)
        return qk__nomem(err);
    utf8proc_int32_t *items = realloc(list->items, capacity * sizeof *items);
    if (!items)
        return qk__nomem(err);
    list->items = items;
    list->capacity = capacity;
    return QK_OK;
}

static int combining_class(utf8proc_int32_t c)
{
    return utf8proc_get_property(c)->combining_class;
}

/* Sorts a run of marks by class, stably: by counting when it is long. */
static qk_status sort_marks(utf8proc_int32_t *marks, size_t count, qk_error *err)
{
    enum { SHORT = 24 };
    if (count <= SHORT) {
        for (size_t i = 1; i < count; i++) {
            utf8proc_int32_t mark = marks[i];
            size_t j = i;
            for (; j > 0 && combining_class(marks[j - 1]) > combining_class(mark); j--)
                marks[j] = marks[j - 1];
            marks[j] = mark;
        }
        return QK_OK;
    }
    utf8proc_int32_t *copy = malloc(count * sizeof *copy);
    if (!copy)
        return qk__nomem(err);
    memcpy(copy, marks, count * sizeof *copy);
    size_t place[257] = {0};
    for (size_t i = 0; i < count; i++)
        place[(combining_class(copy[i]) & 0xff) + 1]++;
    for (size_t i = 1; i < 257; i++)
        place[i] += place[i - 1];
    for (size_t i = 0; i < count; i++)
        marks[place[combining_class(copy[i]) & 0xff]++] = copy[i];
    free(copy);
    return QK_OK;
}

static qk_status order_marks(characters *list, qk_error *err)
{
    for (size_t i = 0; i < list->count;) {
        size_t end = i;
        while (end < list->count && combining_class(list->items[end]) != 0)
            end++;
        if (end - i > 1)
            QK_TRY(sort_marks(list->items + i, end - i, err));
        i = end + 1;
    }
    return QK_OK;
}

static qk_status decompose(const uint8_t *text, size_t size, bool compatible, characters *list,
                           qk_error *err)
{
    enum { LONGEST = 32 }; /* U+FDFA makes 18 */
    utf8proc_option_t options =
        UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
    size_t length;
    list->count = 0;
    for (size_t i = 0; i < size; i += length) {
        utf8proc_int32_t c = (utf8proc_int32_t)qk__utf8_read(text + i, &length);
        QK_TRY(reserve(list, list->count + LONGEST, err));
        utf8proc_ssize_t made =
            utf8proc_decompose_char(c, list->items + list->count, LONGEST, options, NULL);
        if (made < 0 || made > LONGEST)
            return qk__fail(err, QK_ERR_UNSUPPORTED, "cannot normalize U+%04X", (unsigned)c);
        list->count += (size_t)made;
    }
    return QK_OK;
}

/* A stretch that nothing around it combines with. */
static qk_status normalize_stretch(qk_normal_form form, const uint8_t *text, size_t size,
                                   characters *list, qk_buffer *out, qk_error *err)
{
    bool compatible = form == QK__NFKC || form == QK__NFKD;
    QK_TRY(decompose(text, size, compatible, list, err));
    QK_TRY(order_marks(list, err));
    if (form == QK__NFC || form == QK__NFKC) {
        utf8proc_ssize_t count = utf8proc_normalize_utf32(
            list->items, (utf8proc_ssize_t)list->count, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        if (count < 0)
            return qk__fail(err, QK_ERR_UNSUPPORTED, "cannot compose characters");
        list->count = (size_t)count;
    }
    QK_TRY(qk__buffer_reserve(out, out->size + 4 * list->count, err));
    for (size_t i = 0; i < list->count; i++)
        out->size += qk__utf8_write((uint32_t)list->items[i], out->data + out->size);
    return QK_OK;
}

qk_status qk__normal_form(qk_normal_form form, const uint8_t *text, size_t size, qk_buffer *out,
                          qk_error *err)
{
    characters list = {0};
    qk_status status = QK_OK;
    for (size_t at = 0; at < size && status == QK_OK;) {
        size_t ascii = at;
        while (ascii < size && text[ascii] < 0x80)
            ascii++;
        /* A mark that follows may combine with the last of them. */
        size_t plain = ascii < size && ascii > at ? ascii - 1 : ascii;
        status = qk__buffer_append(out, text + at, plain - at, err);
        size_t end = ascii;
        while (end < size && text[end] >= 0x80)
            end++;
        if (status == QK_OK && end > ascii)
            status = normalize_stretch(form, text + plain, end - plain, &list, out, err);
        at = end;
    }
    free(list.items);
    return status;
}
