/* SPDX-License-Identifier: Apache-2.0 */
/* Post-processors of tokenizer.json. For a single text all of them come down to ids before it
 * and ids after it. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tokenizer/json_parts.h"
#include "tokenizer/tokenizer.h"

enum { MAX_SPECIAL = 1 << 12 };

/* Ids in the order of the file: those before the text, then those after. */
typedef struct surround {
    int32_t ids[MAX_SPECIAL];
    size_t count, before;
    bool text; /* the text's place has come */
} surround;

static qk_status add_id(const qk_tokenizer *t, surround *s, const qk__node *at, qk_error *err)
{
    int32_t id;
    QK_TRY(qk__token_id(at, NULL, &id, err));
    if ((size_t)id >= t->num_names || !t->names[id])
        return qk__fail_at(at, err, QK_ERR_INCONSISTENT, "there is no token %d", id);
    if (s->count == MAX_SPECIAL)
        return qk__fail_at(at, err, QK_ERR_UNSUPPORTED, "more than %d ids", MAX_SPECIAL);
    s->ids[s->count++] = id;
    return QK_OK;
}

static qk_status lengthen(int32_t **ids, size_t count, qk_error *err)
{
    int32_t *longer = realloc(*ids, (count + 1) * sizeof *longer);
    if (!longer)
        return qk__nomem(err);
    *ids = longer;
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
    QK_TRY(lengthen(&t->prefix, t->num_prefix + s->before, err));
    QK_TRY(lengthen(&t->suffix, t->num_suffix + after, err));
    memmove(t->prefix + s->before, t->prefix, t->num_prefix * sizeof *s->ids);
    memcpy(t->prefix, s->ids, s->before * sizeof *s->ids);
    memcpy(t->suffix + t->num_suffix, s->ids + s->before, after * sizeof *s->ids);
    t->num_prefix += s->before;
    t->num_suffix += after;
    return QK_OK;
}

/* ---- TemplateProcessing ----------------------------------------------------------------- */

static qk_status add_special(const qk_tokenizer *t, surround *s, const qk__node *special,
                             const char *name, qk_error *err)
{
    qk__node token, ids;
    QK_TRY(qk__need_kind(special, name, QK__OBJECT, &token, err));
    QK_TRY(qk__need_kind(&token, "ids", QK__LIST, &ids, err));
    for (size_t i = 0; i < qk__node_count(&ids); i++) {
        qk__node item = qk__node_item(&ids, i);
        QK_TRY(add_id(t, s, &item, err));
    }
    return QK_OK;
}

static qk_status add_step(const qk_tokenizer *t, surround *s, const qk__node *step,
                          const qk__node *special, qk_error *err)
{
    const char *id;
    qk__node part = qk__node_member(step, "SpecialToken");
    if (qk__node_kind_of(&part) != QK__NOTHING) {
        QK_TRY(qk__need_text(&part, "id", &id, err));
        return add_special(t, s, special, id, err);
    }
    QK_TRY(qk__need_kind(step, "Sequence", QK__OBJECT, &part, err));
    QK_TRY(qk__need_text(&part, "id", &id, err));
    if (strcmp(id, "A") != 0 || s->text)
        return qk__fail_at(&part, err, QK_ERR_UNSUPPORTED, "expected the text (A), once");
    s->text = true;
    s->before = s->count;
    return QK_OK;
}

static qk_status load_template(const qk_tokenizer *t, surround *s, const qk__node *part,
                               qk_error *err)
{
    qk__node single, special;
    QK_TRY(qk__need_kind(part, "single", QK__LIST, &single, err));
    QK_TRY(qk__need_kind(part, "special_tokens", QK__OBJECT, &special, err));
    for (size_t i = 0; i < qk__node_count(&single); i++) {
        qk__node step = qk__node_item(&single, i);
        QK_TRY(add_step(t, s, &step, &special, err));
    }
    return s->text ? QK_OK
                   : qk__fail_at(&single, err, QK_ERR_UNSUPPORTED, "the text has no place");
}

/* ---- BertProcessing, RobertaProcessing -------------------------------------------------- */

/* ["[CLS]", 101] */
static qk_status add_pair(const qk_tokenizer *t, surround *s, const qk__node *part,
                          const char *key, qk_error *err)
{
    qk__node pair;
    QK_TRY(qk__need_kind(part, key, QK__LIST, &pair, err));
    qk__node id = qk__node_item(&pair, 1);
    return add_id(t, s, &id, err);
}

static qk_status load_one(const qk_tokenizer *t, surround *s, const char *type,
                          const qk__node *part, qk_error *err)
{
    if (strcmp(type, "TemplateProcessing") == 0)
        return load_template(t, s, part, err);
    if (strcmp(type, "ByteLevel") == 0)
        return QK_OK; /* offsets only */
    if (strcmp(type, "BertProcessing") != 0 && strcmp(type, "RobertaProcessing") != 0)
        return qk__fail_at(part, err, QK_ERR_UNSUPPORTED, "there is no support for \"%.60s\"",
                           type);
    QK_TRY(add_pair(t, s, part, "cls", err));
    s->before = s->count;
    return add_pair(t, s, part, "sep", err);
}

static qk_status add_processor(void *target, const char *type, const qk__node *part,
                               qk_error *err)
{
    qk_tokenizer *t = target;
    surround s = {0};
    QK_TRY(load_one(t, &s, type, part, err));
    return enclose(t, &s, err);
}

qk_status qk__post_load(qk_tokenizer *t, const qk__node *part, qk_error *err)
{
    return qk__part_each(part, "processors", add_processor, t, err);
}
