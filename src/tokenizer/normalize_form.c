/* SPDX-License-Identifier: Apache-2.0 */
/* Unicode's normal forms. ASCII is left alone and the rest done in stretches between; utf8proc
 * knows the characters, but the order of marks is made here, since its own sorting takes
 * quadratic time on a long run of marks. */
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/error.h"
#include "base/utf8.h"
#include "tokenizer/normalize.h"

/* Characters that came with Unicode 10 and later, or in places free in Unicode 9, and have a
 * decomposition or a combining class. The tables of Hugging Face's tokenizers are of Unicode 9:
 * there these pass unchanged, and nothing combines across them. Sorted. */
static const struct {
    uint32_t first, last;
} UNKNOWN[] = {{0x7fd, 0x7fd},     {0x897, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},
               {0xc3c, 0xc3c},     {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x1715, 0x1715},
               {0x1abf, 0x1aff},   {0x1df6, 0x1dfa},   {0x32ff, 0x32ff},   {0xa7f1, 0xa7f4},
               {0xa82c, 0xa82c},   {0xab69, 0xab69},   {0x105c0, 0x105ff}, {0x10780, 0x107bf},
               {0x10d24, 0x10d27}, {0x10d69, 0x10d6d}, {0x10eab, 0x10eac}, {0x10efa, 0x10eff},
               {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b},
               {0x11380, 0x113ff}, {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11930, 0x11943},
               {0x119e0, 0x119e0}, {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99},
               {0x11d42, 0x11d45}, {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x16100, 0x1613f},
               {0x16d40, 0x16d7f}, {0x16ff0, 0x16ff1}, {0x1ccd6, 0x1ccf9}, {0x1e030, 0x1e08f},
               {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef},
               {0x1e5ee, 0x1e5ef}, {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9}};

static bool is_unknown(uint32_t c)
{
    return bsearch(&c, UNKNOWN, sizeof UNKNOWN / sizeof *UNKNOWN, sizeof *UNKNOWN,
                   qk__compare_characters) != NULL;
}

/* A list of characters in a buffer. */
static utf8proc_int32_t *items_of(const qk__buffer *list)
{
    return (utf8proc_int32_t *)(void *)list->data;
}

static size_t count_of(const qk__buffer *list)
{
    return list->size / sizeof(utf8proc_int32_t);
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

static qk_status order_marks(utf8proc_int32_t *items, size_t count, qk_error *err)
{
    for (size_t i = 0; i < count;) {
        size_t end = i;
        while (end < count && combining_class(items[end]) != 0)
            end++;
        if (end - i > 1)
            QK_TRY(sort_marks(items + i, end - i, err));
        i = end + 1;
    }
    return QK_OK;
}

static qk_status decompose(const uint8_t *text, size_t size, bool compatible, qk__buffer *list,
                           qk_error *err)
{
    enum { LONGEST = 32 }; /* U+FDFA makes 18 */
    utf8proc_option_t options =
        UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
    size_t length;
    list->size = 0;
    for (size_t i = 0; i < size; i += length) {
        utf8proc_int32_t c = (utf8proc_int32_t)qk__utf8_read(text + i, &length);
        QK_TRY(qk__buffer_reserve(list, list->size + LONGEST * sizeof c, err));
        utf8proc_ssize_t made =
            utf8proc_decompose_char(c, items_of(list) + count_of(list), LONGEST, options, NULL);
        if (made < 0 || made > LONGEST)
            return qk__fail(err, QK_ERR_UNSUPPORTED, "cannot normalize U+%04X", (unsigned)c);
        list->size += (size_t)made * sizeof c;
    }
    return QK_OK;
}

/* A stretch that nothing around it combines with. */
static qk_status normalize_stretch(qk__unicode_form form, const uint8_t *text, size_t size,
                                   qk__buffer *list, qk__buffer *out, qk_error *err)
{
    bool compatible = form == QK__NFKC || form == QK__NFKD;
    QK_TRY(decompose(text, size, compatible, list, err));
    utf8proc_int32_t *items = items_of(list);
    size_t count = count_of(list);
    QK_TRY(order_marks(items, count, err));
    if (form == QK__NFC || form == QK__NFKC) {
        utf8proc_ssize_t left = utf8proc_normalize_utf32(items, (utf8proc_ssize_t)count,
                                                         UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        if (left < 0)
            return qk__fail(err, QK_ERR_UNSUPPORTED, "cannot compose characters");
        count = (size_t)left;
    }
    QK_TRY(qk__buffer_reserve(out, out->size + 4 * count, err));
    for (size_t i = 0; i < count; i++)
        out->size += qk__utf8_write((uint32_t)items[i], out->data + out->size);
    return QK_OK;
}

/* Where the characters from `at` on that are known and not ASCII end. */
static size_t stretch_end(const uint8_t *text, size_t size, size_t at)
{
    size_t length;
    while (at < size && text[at] >= 0x80 && !is_unknown(qk__utf8_read(text + at, &length)))
        at += length;
    return at;
}

qk_status qk__normal_form(qk__unicode_form form, const uint8_t *text, size_t size,
                          qk__buffer *out, qk_error *err)
{
    qk__buffer list = {0};
    qk_status status = QK_OK;
    for (size_t at = 0; at < size && status == QK_OK;) {
        size_t ascii = at;
        while (ascii < size && text[ascii] < 0x80)
            ascii++;
        /* A mark that follows may combine with the last of them. */
        size_t plain = ascii < size && ascii > at ? ascii - 1 : ascii;
        status = qk__buffer_append(out, text + at, plain - at, err);
        size_t end = stretch_end(text, size, ascii);
        if (status == QK_OK && end > plain)
            status = normalize_stretch(form, text + plain, end - plain, &list, out, err);
        at = end;
        if (status == QK_OK && at < size && text[at] >= 0x80) {
            size_t unknown = qk__utf8_length(text + at);
            status = qk__buffer_append(out, text + at, unknown, err);
            at += unknown;
        }
    }
    qk__buffer_free(&list);
    return status;
}
