/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of tokenizer.json have in common: sequences of parts, patterns, token ids. */
#ifndef QK_TOKENIZER_JSON_PARTS_H
#define QK_TOKENIZER_JSON_PARTS_H

#include <stdint.h>

#include <qkscope/common.h>

#include "base/tree.h"
#include "tokenizer/regex.h"

/* Calls add for the part, or, where it is a "Sequence", for each of those in its list (`key`)
 * and so on below. None where the part is absent or null. */
typedef qk_status qk__add_part(void *target, const char *type, const qk__node *part,
                               qk_error *err);
QK_MUST_CHECK qk_status qk__part_each(const qk__node *part, const char *key, qk__add_part *add,
                                      void *target, qk_error *err);

/* part["pattern"]: {"Regex": "..."} or {"String": "..."}. */
QK_MUST_CHECK qk_status qk__part_pattern(const qk__node *part, qk__regex **regex,
                                         qk_error *err);

/* 0 .. QK__MAX_ID. */
enum { QK__MAX_ID = (1 << 24) - 1 };
QK_MUST_CHECK qk_status qk__token_id(const qk__node *at, const char *name, int32_t *id,
                                     qk_error *err);

#endif
