/* SPDX-License-Identifier: Apache-2.0 */
/* Reads normalizers from tokenizer.json. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "tokenizer/json_parts.h"
#include "tokenizer/normalize.h"

static qk_status copy_text(qk__normalizer *n, const qk__node *part, const char *key,
                           qk_error *err)
{
    const char *text;
    QK_TRY(qk__need_text(part, key, &text, err));
    n->text = qk__strdup(text);
    n->length = strlen(text);
    return n->text ? QK_OK : qk__nomem(err);
}

static qk_status load_one(qk__normalizer *n, const char *type, const qk__node *part,
                          qk_error *err)
{
    static const char *const FORMS[] = {"NFC", "NFD", "NFKC", "NFKD"};
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        if (strcmp(type, FORMS[i]) == 0) {
            n->form = (qk__unicode_form)i;
            return QK_OK;
        }
    }
    if (strcmp(type, "Replace") == 0) {
        n->kind = QK__NORMALIZE_REPLACE;
        QK_TRY(copy_text(n, part, "content", err));
        return qk__part_pattern(part, &n->regex, err);
    }
    if (strcmp(type, "Prepend") == 0) {
        n->kind = QK__NORMALIZE_PREPEND;
        return copy_text(n, part, "prepend", err);
    }
    if (strcmp(type, "Lowercase") == 0) {
        n->kind = QK__NORMALIZE_LOWERCASE;
        return QK_OK;
    }
    if (strcmp(type, "Strip") == 0) {
        n->kind = QK__NORMALIZE_STRIP;
        QK_TRY(qk__need_bool(part, "strip_left", &n->left, err));
        return qk__need_bool(part, "strip_right", &n->right, err);
    }
    return qk__fail_at(part, err, QK_ERR_UNSUPPORTED, "there is no support for \"%.60s\"",
                       type);
}

static qk_status add_normalizer(void *target, const char *type, const qk__node *part,
                                qk_error *err)
{
    qk__normalizers *normalizers = target;
    enum { MOST = sizeof normalizers->items / sizeof *normalizers->items };
    if (normalizers->count == MOST)
        return qk__fail_at(part, err, QK_ERR_UNSUPPORTED, "more than %d parts", MOST);
    return load_one(&normalizers->items[normalizers->count++], type, part, err);
}

qk_status qk__normalizers_load(qk__normalizers *normalizers, const qk__node *part,
                               qk_error *err)
{
    return qk__part_each(part, "normalizers", add_normalizer, normalizers, err);
}

void qk__normalizers_free(qk__normalizers *normalizers)
{
    for (size_t i = 0; i < normalizers->count; i++) {
        qk__regex_free(normalizers->items[i].regex);
        free(normalizers->items[i].text);
    }
    *normalizers = (qk__normalizers){0};
}
