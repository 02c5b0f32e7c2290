/* SPDX-License-Identifier: Apache-2.0 */
/* Normalizers from tokenizer.json. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tokenizer/normalize.h"
#include "tokenizer/json_parts.h"

enum { MAX_NORMALIZERS = 64 };

static qk_status copy_text(qk__normalizer *n, const char *text, size_t length, qk_error *err)
{
    n->text = malloc(length + 1);
    if (!n->text)
        return qk__nomem(err);
    memcpy(n->text, text, length);
    n->text[length] = 0;
    n->length = length;
    return QK_OK;
}

static qk_status load_replace(qk__normalizer *n, const json_t *part, const qk__json_place *at,
                              qk_error *err)
{
    const char *text;
    size_t length;
    n->kind = QK__NORMALIZE_REPLACE;
    QK_TRY(qk__need_string(part, "content", at, &text, &length, err));
    QK_TRY(copy_text(n, text, length, err));
    return qk__part_pattern(part, at, &n->regex, err);
}

static qk_status load_one(qk__normalizer *n, const char *type, const json_t *part,
                          const qk__json_place *at, qk_error *err)
{
    static const char *const FORMS[] = {"NFC", "NFD", "NFKC", "NFKD"};
    const char *text;
    size_t length;
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        if (strcmp(type, FORMS[i]) == 0) {
            n->form = (qk__unicode_form)i;
            return QK_OK;
        }
    }
    if (strcmp(type, "Replace") == 0)
        return load_replace(n, part, at, err);
    if (strcmp(type, "Prepend") == 0) {
        n->kind = QK__NORMALIZE_PREPEND;
        QK_TRY(qk__need_string(part, "prepend", at, &text, &length, err));
        return copy_text(n, text, length, err);
    }
    if (strcmp(type, "Lowercase") == 0) {
        n->kind = QK__NORMALIZE_LOWERCASE;
        return QK_OK;
    }
    if (strcmp(type, "Strip") == 0) {
        n->kind = QK__NORMALIZE_STRIP;
        QK_TRY(qk__need_bool(part, "strip_left", at, &n->left, err));
        return qk__need_bool(part, "strip_right", at, &n->right, err);
    }
    return qk__fail_at(at, err, QK_ERR_UNSUPPORTED, "there is no support for \"%.60s\"", type);
}

static qk_status add(void *target, const char *type, const json_t *part,
                     const qk__json_place *at, qk_error *err)
{
    qk__normalizers *normalizers = target;
    if (normalizers->count == MAX_NORMALIZERS)
        return qk__fail_at(at, err, QK_ERR_UNSUPPORTED, "more than %d parts", MAX_NORMALIZERS);
    return load_one(&normalizers->items[normalizers->count++], type, part, at, err);
}

qk_status qk__normalizers_load(qk__normalizers *normalizers, const json_t *part, qk_error *err)
{
    const qk__json_place place = {NULL, "normalizer", 0};
    *normalizers = (qk__normalizers){0};
    if (!part || json_is_null(part))
        return QK_OK;
    normalizers->items = qk__calloc(MAX_NORMALIZERS, sizeof *normalizers->items);
    if (!normalizers->items)
        return qk__nomem(err);
    return qk__part_each(part, &place, "normalizers", add, normalizers, err);
}

void qk__normalizers_free(qk__normalizers *normalizers)
{
    for (size_t i = 0; i < normalizers->count; i++) {
        qk__regex_free(normalizers->items[i].regex);
        free(normalizers->items[i].text);
    }
    free(normalizers->items);
    *normalizers = (qk__normalizers){0};
}
