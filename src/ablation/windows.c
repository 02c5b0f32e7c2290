/* SPDX-License-Identifier: Apache-2.0 */
/* Texts, and windows of long ones, in order; and the groups of texts that they are of. */
#include "ablation/ablation.h"
#include "base/error.h"

static qk_status visit_text(qk__ablation *a, qk__encoded *encoded, size_t *number,
                            int64_t first, int64_t end, qk__visit_window *visit, qk_error *err)
{
    for (size_t w = 0; w < encoded->windows; w++, ++*number) {
        qk_tokens tokens = {0};
        if ((int64_t)*number < first || (int64_t)*number >= end)
            continue;
        QK_TRY(qk__take_window(&a->recording, encoded, w, &tokens, err));
        QK_TRY(visit(a, *number, &tokens, err));
    }
    return QK_OK;
}

qk_status qk__visit_windows(qk__ablation *a, int64_t first, int64_t end,
                            qk__visit_window *visit, qk_error *err)
{
    qk__buffer source = {0};
    qk__input_text text;
    bool more = true;
    size_t number = 0;
    qk_status status = QK_OK;
    qk__texts_rewind(a->recording.texts);
    while (status == QK_OK && more && (int64_t)number < end) {
        status = qk__texts_next(a->recording.texts, &text, &more, err);
        if (status != QK_OK || !more)
            break;
        qk__encoded encoded = {0};
        status = qk__name_source(&text, &source, err);
        if (status == QK_OK)
            status = qk__context(err, qk__encode(&a->recording, &text, &encoded, err), "%s",
                                 (const char *)source.data);
        if (status == QK_OK)
            status = visit_text(a, &encoded, &number, first, end, visit, err);
        qk_tokens_free(&encoded.tokens);
    }
    qk__buffer_free(&source);
    return status;
}

/* Which group of texts each window is of: windows of one text, and equal texts, stay together. */
qk_status qk__group_texts(qk__ablation *a, qk_error *err)
{
    const qk__text_print *print =
        (const qk__text_print *)(const void *)a->recording.text_ids.data;
    qk__input_text text;
    bool more = true;
    int64_t texts = 0;
    a->group_of = qk__calloc((size_t)a->recording.counts.windows + 1, sizeof *a->group_of);
    a->lengths = qk__calloc((size_t)a->recording.counts.windows + 1, sizeof *a->lengths);
    a->group_of_text = qk__calloc((size_t)a->recording.counts.texts + 1, sizeof *a->group_of);
    if (!a->group_of || !a->lengths || !a->group_of_text)
        return qk__nomem(err);
    qk__texts_rewind(a->recording.texts);
    for (;; print++) {
        qk__encoded encoded = {0};
        QK_TRY(qk__texts_next(a->recording.texts, &text, &more, err));
        if (!more)
            break;
        QK_TRY(qk__encode(&a->recording, &text, &encoded, err));
        const bool own = print->first == print->number;
        const uint32_t group =
            own ? (uint32_t)(texts % QK__ABLATION_GROUPS) : a->group_of_text[print->first];
        a->group_of_text[print->number] = group;
        for (size_t w = 0; w < encoded.windows; w++) {
            a->lengths[a->num_texts] = (int64_t)qk__window_tokens(&a->recording, &encoded, w);
            a->group_of[a->num_texts++] = group;
        }
        texts += own && encoded.windows > 0;
        qk_tokens_free(&encoded.tokens);
    }
    a->text_groups = (int32_t)(texts < QK__ABLATION_GROUPS ? texts : QK__ABLATION_GROUPS);
    if (a->text_groups == 1)
        qk__tell_notice(&a->recorder.context, QK_NOTICE_WARNING,
                        "there is one text: what holds for others is not known, and there are "
                        "no intervals");
    return QK_OK;
}
