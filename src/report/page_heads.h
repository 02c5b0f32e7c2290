/* SPDX-License-Identifier: Apache-2.0 */
/* The heads that the page shows, in its order, with every number that it shows of them: one SELECT. */
#ifndef QK_REPORT_PAGE_HEADS_H
#define QK_REPORT_PAGE_HEADS_H

#include "figure/ask.h"
#include "schema/schema.h"

typedef struct qk__page_heads {
    /* columns: model_id, head_id, layer, q_head, k_head, category, then numbers */
    qk_columns *rows;
    qk__found found; /* all numbers */
    const int64_t *model, *id, *layer, *q_head;
} qk__page_heads;

/* Announces what will be asked, so that each table is read once. */
QK_MUST_CHECK qk_status qk__page_heads_expect(qk__store *tables, qk_error *err);
QK_MUST_CHECK qk_status qk__page_heads_ask(qk__store *tables, qk__page_heads *heads,
                                           qk_error *err);
void qk__page_heads_free(qk__page_heads *heads);

/* The column of this name and ending: "", "_lo", "_hi", "_cv"; SIZE_MAX: there is none. */
size_t qk__page_column(const qk__page_heads *heads, const char *name, const char *ending);
/* The number of rows of a model, which begin at *first. */
size_t qk__page_model(const qk__page_heads *heads, int64_t model, size_t *first);

#endif
