/* SPDX-License-Identifier: Apache-2.0 */
/* Texts, and windows of long ones, in order. */
#include "base/error.h"
#include "recorder/recording.h"

static qk_status visit_text(qk__recording *r, qk__encoded *encoded, qk__window *next,
                            int64_t first, int64_t end, qk__visit_window *visit, void *user,
                            qk_error *err)
{
    for (next->window = 0; next->window < encoded->windows; next->window++, next->number++) {
        if (next->number < first || next->number >= end)
            continue;
        next->tokens = (qk_tokens){0};
        QK_TRY(qk__take_window(r, encoded, next->window, &next->tokens, err));
        QK_TRY(visit(user, next, err));
    }
    return QK_OK;
}

qk_status qk__visit_windows(qk__recording *r, int64_t first, int64_t end,
                            qk__visit_window *visit, void *user, qk_error *err)
{
    qk__buffer source = {0};
    qk__input_text text;
    qk__window next = {0};
    bool more = true;
    qk_status status = QK_OK;
    qk__texts_rewind(r->texts);
    while (status == QK_OK && next.number < end) {
        qk__encoded encoded = {0};
        status = qk__texts_next(r->texts, &text, &more, err);
        if (status != QK_OK || !more)
            break;
        status = qk__name_source(&text, &source, err);
        next.source = (const char *)source.data;
        if (status == QK_OK)
            status = qk__context(err, qk__encode(r, &text, &encoded, err), "%s", next.source);
        if (status == QK_OK)
            status = visit_text(r, &encoded, &next, first, end, visit, user, err);
        qk_tokens_free(&encoded.tokens);
    }
    qk__buffer_free(&source);
    return status;
}
