/* SPDX-License-Identifier: Apache-2.0 */
/* Normalizers of tokenizer.json: what is done to a text before it is cut up.
 *
 *     normalize_load.c   reads them
 *     normalize.c        applies them; it leads normalize_form.c
 *     normalize_form.c   Unicode's normal forms */
#ifndef QK_TOKENIZER_NORMALIZE_H
#define QK_TOKENIZER_NORMALIZE_H

#include <stdbool.h>
#include <stddef.h>

#include <qkscope/common.h>

#include "base/buffer.h"
#include "base/tree.h"
#include "tokenizer/regex.h"

typedef enum qk__unicode_form { QK__NFC, QK__NFD, QK__NFKC, QK__NFKD } qk__unicode_form;

typedef enum qk__normalizer_kind {
    QK__NORMALIZE_FORM,
    QK__NORMALIZE_REPLACE,
    QK__NORMALIZE_PREPEND,
    QK__NORMALIZE_LOWERCASE,
    QK__NORMALIZE_STRIP,
} qk__normalizer_kind;

typedef struct qk__normalizer {
    qk__normalizer_kind kind;
    qk__unicode_form form;
    qk__regex *regex; /* replace */
    char *text;       /* replace, prepend */
    size_t length;
    bool left, right; /* strip */
} qk__normalizer;

/* Sequences are one list. */
typedef struct qk__normalizers {
    qk__normalizer items[64];
    size_t count;
} qk__normalizers;

/* Fills a list of zeros. part: "normalizer" of the file, NULL and null are none. On failure, too,
 * released by qk__normalizers_free. */
QK_MUST_CHECK qk_status qk__normalizers_load(qk__normalizers *normalizers, const qk__node *part,
                                             qk_error *err);
void qk__normalizers_free(qk__normalizers *normalizers);

/* Normalizes *text in place; other is scratch of the caller. *at_start, which says that the
 * text begins where the whole text does, becomes false when its beginning is cut off:
 * Metaspace's "first" asks. */
QK_MUST_CHECK qk_status qk__normalize(const qk__normalizers *normalizers, qk__regex_run *run,
                                      qk__buffer *text, qk__buffer *other, bool *at_start,
                                      qk_error *err);

/* One form of text, appended to out. */
QK_MUST_CHECK qk_status qk__normal_form(qk__unicode_form form, const uint8_t *text, size_t size,
                                        qk__buffer *out, qk_error *err);

#endif
