/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of tokenizer.json have in common: sequences of parts, and patterns. */
#ifndef QK_TOKENIZER_JSON_PARTS_H
#define QK_TOKENIZER_JSON_PARTS_H

#include <jansson.h>

#include <qkscope/status.h>

#include "tokenizer/checked_json.h"
#include "tokenizer/regex.h"

/* Calls add for the part, or, where it is a "Sequence", for each of those in its list (`key`)
 * and so on below. */
typedef qk_status qk__add_part(void *target, const char *type, const json_t *part,
                               const qk__json_place *at, qk_error *err);
QK_MUST_CHECK qk_status qk__part_each(const json_t *part, const qk__json_place *at,
                                      const char *key, qk__add_part *add, void *target,
                                      qk_error *err);

/* part["pattern"]: {"Regex": "..."} or {"String": "..."}. */
QK_MUST_CHECK qk_status qk__part_pattern(const json_t *part, const qk__json_place *at,
                                         qk__regex **regex, qk_error *err);

#endif
