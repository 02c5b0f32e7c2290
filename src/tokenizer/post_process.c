/* SPDX-License-Identifier: Apache-2.0 */
/* Post-processors of tokenizer.json. For a single text all of them come down to ids before it
 * and ids after it. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/json_parts.h"

enum { MAX_SPECIAL = 1 << 12 };

/* Ids in the order of the file: those before the text, then those after. */
typedef struct surround {
    int32_t *ids;
    size_t count, capacity;
    size_t before;
    bool text; /* the text's place has come */
} surround;

static qk_status add_id(const qk_tokenizer *t, surround *s, const json_t *value,
                        const qk__json_place *at, qk_error *err)
{
    int32_t id;
    QK_TRY(qk__token_id(value, at, &id, err));
    if ((size_t)id >= t->num_names || !t->names[id])
        return qk__fail_at(at, err, QK_ERR_INCONSISTENT, "there is no token %d", id);
    if (s->count == MAX_SPECIAL)
        return qk__fail_at(at, err, QK_ERR_UNSUPPORTED, "more than %d ids", MAX_SPECIAL);
    if (s->count == s->capacity) {
        size_t capacity = 2 * s->capacity + 8;
        int32_t *ids = realloc(s->ids, capacity * sizeof *ids);
        if (!ids)
            return qk__nomem(err);
        s->ids = ids;
        s->capacity = capacity;
    }
    s->ids[s->count++] = id;
    return QK_OK;
}

/* What a part adds goes outside of what the parts before it have added. */
static qk_status enclose(qk_tokenizer *t, const surround *s, qk_error *err)
{
    size_t after = s->count - s->before;
    if (s->count == 0)
        return QK_OK;
    if (t->num_prefix + t->num_suffix + s->count > MAX_SPECIAL)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "post_processor: more than %d ids",
                        MAX_SPECIAL);
    int32_t *prefix = realloc(t->prefix, (t->num_prefix + s->before + 1) * sizeof *prefix);
    if (!prefix)
        return qk__nomem(err);
    t->prefix = prefix;
    memmove(prefix + s->before, prefix, t->num_prefix * sizeof *prefix);
    if (s->before > 0)
        memcpy(prefix, s->ids, s->before * sizeof *prefix);
    t->num_prefix += s->before;
    int32_t *suffix = realloc(t->suffix, (t->num_suffix + after + 1) * sizeof *suffix);
    if (!suffix)
        return qk__nomem(err);
    t->suffix = suffix;
    if (after > 0)
        memcpy(suffix + t->num_suffix, s->ids + s->before, after * sizeof *suffix);
    t->num_suffix += after;
    return QK_OK;
}

/* ---- TemplateProcessing ----------------------------------------------------------------- */

static qk_status add_special(const qk_tokenizer *t, surround *s, const json_t *special,
                             const char *name, const qk__json_place *at, qk_error *err)
{
    const json_t *token, *ids;
    const qk__json_place tokens = {at, "special_tokens", 0}, token_place = {&tokens, name, 0};
    QK_TRY(qk__need_object(special, name, &tokens, &token, err));
    QK_TRY(qk__need_list(token, "ids", &token_place, &ids, err));
    const qk__json_place list = {&token_place, "ids", 0};
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const qk__json_place item = {&list, NULL, i};
        QK_TRY(add_id(t, s, json_array_get(ids, i), &item, err));
    }
    return QK_OK;
}

static qk_status add_step(const qk_tokenizer *t, surround *s, const json_t *step,
                          const json_t *special, const qk__json_place *at,
                          const qk__json_place *item, qk_error *err)
{
    const json_t *token = json_object_get(step, "SpecialToken"), *sequence;
    const char *id;
    size_t length;
    if (token) {
        const qk__json_place place = {item, "SpecialToken", 0};
        QK_TRY(qk__need_string(token, "id", &place, &id, &length, err));
        return add_special(t, s, special, id, at, err);
    }
    QK_TRY(qk__need_object(step, "Sequence", item, &sequence, err));
    const qk__json_place place = {item, "Sequence", 0};
    QK_TRY(qk__need_string(sequence, "id", &place, &id, &length, err));
    if (strcmp(id, "A") != 0 || s->text)
        return qk__fail_at(&place, err, QK_ERR_UNSUPPORTED, "expected the text (A), once");
    s->text = true;
    s->before = s->count;
    return QK_OK;
}

static qk_status load_template(const qk_tokenizer *t, surround *s, const json_t *part,
                               const qk__json_place *at, qk_error *err)
{
    const json_t *single, *special;
    QK_TRY(qk__need_list(part, "single", at, &single, err));
    QK_TRY(qk__need_object(part, "special_tokens", at, &special, err));
    const qk__json_place place = {at, "single", 0};
    for (size_t i = 0; i < json_array_size(single); i++) {
        const qk__json_place item = {&place, NULL, i};
        QK_TRY(add_step(t, s, json_array_get(single, i), special, at, &item, err));
    }
    return s->text ? QK_OK
                   : qk__fail_at(&place, err, QK_ERR_UNSUPPORTED, "the text has no place");
}

/* ---- BertProcessing, RobertaProcessing -------------------------------------------------- */

/* ["[CLS]", 101] */
static qk_status add_pair(const qk_tokenizer *t, surround *s, const json_t *part,
                          const char *key, const qk__json_place *at, qk_error *err)
{
    const json_t *pair;
    QK_TRY(qk__need_list(part, key, at, &pair, err));
    const qk__json_place place = {at, key, 0}, item = {&place, NULL, 1};
    return add_id(t, s, json_array_get(pair, 1), &item, err);
}

static qk_status load_one(const qk_tokenizer *t, surround *s, const char *type,
                          const json_t *part, const qk__json_place *at, qk_error *err)
{
    if (strcmp(type, "TemplateProcessing") == 0)
        return load_template(t, s, part, at, err);
    if (strcmp(type, "ByteLevel") == 0)
        return QK_OK; /* offsets only */
    if (strcmp(type, "BertProcessing") != 0 && strcmp(type, "RobertaProcessing") != 0)
        return qk__fail_at(at, err, QK_ERR_UNSUPPORTED, "there is no support for \"%.60s\"",
                           type);
    QK_TRY(add_pair(t, s, part, "cls", at, err));
    s->before = s->count;
    return add_pair(t, s, part, "sep", at, err);
}

static qk_status add(void *target, const char *type, const json_t *part,
                     const qk__json_place *at, qk_error *err)
{
    qk_tokenizer *t = target;
    surround s = {0};
    qk_status status = load_one(t, &s, type, part, at, err);
    if (status == QK_OK)
        status = enclose(t, &s, err);
    free(s.ids);
    return status;
}

qk_status qk__post_load(qk_tokenizer *t, const json_t *part, qk_error *err)
{
    const qk__json_place place = {NULL, "post_processor", 0};
    if (!part || json_is_null(part))
        return QK_OK;
    return qk__part_each(part, &place, "processors", add, t, err);
}
