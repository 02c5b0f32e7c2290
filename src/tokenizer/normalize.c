/* SPDX-License-Identifier: Apache-2.0 */
/* Applies normalizers to a text. */
#include "tokenizer/normalize.h"

#include <utf8proc.h>

#include "base/error.h"
#include "tokenizer/characters.h"

static qk_status too_long(size_t limit, qk_error *err)
{
    return qk__fail(err, QK_ERR_UNSUPPORTED,
                    "normalizer: it makes more than %zu bytes of a text, %d times its length",
                    limit, QK__MAX_GROWTH);
}

static qk_status replace(const qk__normalizer *n, qk__regex_run *run, const qk__buffer *text,
                         size_t limit, qk__buffer *out, bool *at_start, qk_error *err)
{
    qk__matches matches = {
        .regex = n->regex, .run = run, .text = text->data, .size = text->size};
    size_t start, end, done = 0;
    bool found;
    for (;;) {
        QK_TRY(qk__matches_next(&matches, &found, &start, &end, err));
        if (!found)
            break;
        /* What replaces several characters counts as coming from the last of them. */
        if (start == 0 && (end > qk__utf8_length(text->data) || (end > 0 && n->length == 0)))
            *at_start = false;
        QK_TRY(qk__buffer_append(out, text->data + done, start - done, err));
        QK_TRY(qk__buffer_append(out, n->text, n->length, err));
        if (out->size > limit)
            return too_long(limit, err);
        done = end;
    }
    return qk__buffer_append(out, text->data + done, text->size - done, err);
}

static qk_status prepend(const qk__normalizer *n, const qk__buffer *text, qk__buffer *out,
                         qk_error *err)
{
    QK_TRY(qk__buffer_reserve(out, n->length + text->size, err));
    QK_TRY(qk__buffer_append(out, n->text, n->length, err));
    return qk__buffer_append(out, text->data, text->size, err);
}

static qk_status lowercase(const qk__buffer *text, qk__buffer *out, qk_error *err)
{
    size_t length;
    for (size_t i = 0; i < text->size; i += length) {
        uint8_t bytes[4];
        uint32_t c = qk__utf8_read(text->data + i, &length);
        if (c == 0x130) { /* the only one that becomes two characters */
            QK_TRY(qk__buffer_append(out, "i\xcc\x87", 3, err));
            continue;
        }
        c = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
        QK_TRY(qk__buffer_append(out, bytes, qk__utf8_write(c, bytes), err));
    }
    return QK_OK;
}

static qk_status strip(const qk__normalizer *n, const qk__buffer *text, qk__buffer *out,
                       bool *at_start, qk_error *err)
{
    size_t length, start = 0, end = text->size;
    while (n->left && start < end && qk__is_space(qk__utf8_read(text->data + start, &length)))
        start += length;
    while (n->right && end > start) {
        const uint8_t *last = qk__utf8_previous(text->data + start, text->data + end);
        if (!qk__is_space(qk__utf8_read(last, &length)))
            break;
        end = (size_t)(last - text->data);
    }
    if (start > 0)
        *at_start = false;
    return qk__buffer_append(out, text->data + start, end - start, err);
}

static qk_status apply(const qk__normalizer *n, qk__regex_run *run, const qk__buffer *text,
                       size_t limit, qk__buffer *out, bool *at_start, qk_error *err)
{
    switch (n->kind) {
    case QK__NORMALIZE_FORM:
        return qk__normal_form(n->form, text->data, text->size, out, err);
    case QK__NORMALIZE_REPLACE:
        return replace(n, run, text, limit, out, at_start, err);
    case QK__NORMALIZE_PREPEND:
        return prepend(n, text, out, err);
    case QK__NORMALIZE_LOWERCASE:
        return lowercase(text, out, err);
    case QK__NORMALIZE_STRIP:
        return strip(n, text, out, at_start, err);
    }
    return QK_OK;
}

qk_status qk__normalize(const qk__normalizers *normalizers, qk__regex_run *run,
                        qk__buffer *text, qk__buffer *other, bool *at_start, qk_error *err)
{
    size_t limit = qk__growth_limit(text->size);
    for (size_t i = 0; i < normalizers->count && text->size > 0; i++) {
        other->size = 0;
        QK_TRY(apply(&normalizers->items[i], run, text, limit, other, at_start, err));
        if (other->size > limit)
            return too_long(limit, err);
        qk__buffer swap = *text;
        *text = *other;
        *other = swap;
        if (text->size > UINT32_MAX / 8)
            return qk__fail(err, QK_ERR_UNSUPPORTED, "the normalized text is too long");
    }
    return QK_OK;
}
