/* SPDX-License-Identifier: Apache-2.0 */
/* Reads configuration files of the original capture tool. */
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <qkscope/recorder.h>

#include "base/error.h"
#include "sampler/sampler.h"
#include "yaml/setting_files.h"

struct qk_recorder_config {
    qk__tree *tree;
    qk_recorder_settings settings;
    const char *text; /* what settings.texts points to */
    int64_t batch_size;
    bool queries, keys, before_rope, left_padding;
    char *overrides;
};

/* ---- keys of their own kind ------------------------------------------------------------- */

/* An empty list means all, like null. */
static qk_status check_list(const qk__node *value, const qk__key *key, qk_error *err)
{
    if (qk__node_kind_of(value) != QK__LIST)
        return qk__fail_expected(value, "a list of numbers", err);
    if (qk__node_count(value) == 0)
        return qk__tree_note(value->tree, err, "%s: an empty list means all", key->name);
    return QK_OK;
}

static qk_status set_layers(void *target, const qk__node *value, const qk__key *key,
                            qk_error *err)
{
    QK_TRY(check_list(value, key, err));
    return qk__read_indices(value, (void *)((char *)target + key->at), err);
}

static qk_status set_heads(void *target, const qk__node *value, const qk__key *key,
                           qk_error *err)
{
    QK_TRY(check_list(value, key, err));
    return qk__read_heads(value, (void *)((char *)target + key->at), err);
}

static qk_status set_dtype(void *target, const qk__node *value, const qk__key *key,
                           qk_error *err)
{
    static const char *const NAMES[] = {"float16", "fp16",    "bfloat16",
                                        "bf16",    "float32", "fp32"};
    const char *text;
    (void)target;
    QK_TRY(qk__read_text(value, NULL, &text, err));
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcasecmp(text, NAMES[i]) == 0)
            return i >= 4 ? QK_OK
                          : qk__tree_note(value->tree, err,
                                          "%s: %s has no effect: computed in float32 (--dtype "
                                          "%s rounds as such a run does)",
                                          key->name, text, i < 2 ? "f16-sim" : "bf16-sim");
    return qk__fail_expected(value, "float16, bfloat16 or float32", err);
}

static qk_status set_padding_side(void *target, const qk__node *value, const qk__key *key,
                                  qk_error *err)
{
    static const char *const SIDES[] = {"right", "left", NULL};
    int side = 0;
    (void)key;
    QK_TRY(qk__read_word(value, NULL, SIDES, &side, err));
    ((qk_recorder_config *)target)->left_padding = side == 1;
    return QK_OK;
}

/* A text without effect; key->data says why. */
static qk_status ignore_text(void *target, const qk__node *value, const qk__key *key,
                             qk_error *err)
{
    const char *text, *why = key->data;
    (void)target;
    QK_TRY(qk__read_text(value, NULL, &text, err));
    return qk__tree_note(value->tree, err, "%s: %.60s has no effect: %s", key->name, text, why);
}

/* The original drops keys of this section that it does not know; batches change nothing here. */
static qk_status set_inference(void *target, const qk__node *value, const qk__key *key,
                               qk_error *err)
{
    qk_recorder_config *config = target;
    qk__node member = {0};
    if (qk__node_kind_of(value) != QK__OBJECT)
        return qk__fail_expected(value, "keys and values", err);
    QK_TRY(qk__read_int64(value, "batch_size", 1, INT_MAX, &config->batch_size, err));
    while (qk__node_next(value, &member))
        QK_TRY(
            qk__tree_note(value->tree, err, "%s.%.60s has no effect", key->name, member.name));
    return QK_OK;
}

static qk_status set_overrides(void *target, const qk__node *value, const qk__key *key,
                               qk_error *err)
{
    qk_recorder_config *config = target;
    (void)key;
    if (qk__node_kind_of(value) != QK__OBJECT)
        return qk__fail_expected(value, "keys and values", err);
    QK_TRY(qk__node_to_json(value, &config->overrides, err));
    config->settings.overrides = config->overrides;
    return QK_OK;
}

/* ---- the table -------------------------------------------------------------------------- */

#define AT(field) .at = offsetof(qk_recorder_config, field)

/* Keys that are no settings of this program, or have another meaning in the original. */
static const qk__key OWN[] = {
    {"dataset.path", QK__KEY_TEXT, AT(text)},
    {"dataset.streaming", .type = QK__KEY_IGNORED},
    {"model.dtype", QK__KEY_READ, .read = set_dtype},
    {"model.device_map", .type = QK__KEY_IGNORED},
    {"model.trust_remote_code", .type = QK__KEY_IGNORED},
    {"model.attn_implementation", .type = QK__KEY_IGNORED},
    {"model.config_overrides", QK__KEY_READ, .read = set_overrides},
    {"tokenizer.padding", .type = QK__KEY_IGNORED},
    {"tokenizer.padding_side", QK__KEY_READ, .read = set_padding_side},
    {"tokenizer.trust_remote_code", .type = QK__KEY_IGNORED},
    {"inference", QK__KEY_READ, .read = set_inference},
    {"capture.capture_queries", QK__KEY_BOOL, AT(queries)},
    {"capture.capture_keys", QK__KEY_BOOL, AT(keys)},
    {"capture.layers", QK__KEY_READ, AT(settings.layers), .read = set_layers},
    {"capture.heads", QK__KEY_READ, AT(settings.heads), .read = set_heads},
    {"capture.max_rows_per_batch", QK__KEY_INT64, AT(settings.sampler.max_rows),
     .whole = {INT64_MIN, INT64_MAX}},
    {"capture.capture_pre_rope", QK__KEY_BOOL, AT(before_rope)},
    {"output.readme_path", QK__KEY_READ, .read = ignore_text,
     .data = "the card is README.md in output.data_root"},
    {"output.hf_repo_id", QK__KEY_READ, .read = ignore_text,
     .data = "nothing is uploaded; hf upload does it"},
    {"output.hf_branch", .type = QK__KEY_IGNORED},
    {"output.private", .type = QK__KEY_IGNORED},
    {"output.write_batch_size", .type = QK__KEY_IGNORED},
};

/* ---- loading ---------------------------------------------------------------------------- */

/* All six sections must be there, if only as a name. */
static qk_status check_sections(const qk__node *root, qk_error *err)
{
    static const char *const SECTIONS[] = {"dataset",   "model",   "tokenizer",
                                           "inference", "capture", "output"};
    for (size_t i = 0; i < sizeof SECTIONS / sizeof *SECTIONS; i++) {
        qk__node section = qk__node_member(root, SECTIONS[i]);
        if (qk__node_kind_of(&section) == QK__NOTHING)
            return qk__fail(err, QK_ERR_ARGUMENT, "the section %s is missing", SECTIONS[i]);
    }
    return QK_OK;
}

static qk_status finish_config(qk_recorder_config *c, qk_error *err)
{
    qk_recorder_settings *s = &c->settings;
    if (!c->text)
        return qk__fail(err, QK_ERR_ARGUMENT, "dataset.path is missing");
    if (!s->model)
        return qk__fail(err, QK_ERR_ARGUMENT, "model.name is missing");
    if (c->left_padding && c->batch_size > 1)
        return qk__fail(
            err, QK_ERR_ARGUMENT,
            "tokenizer.padding_side: left, with inference.batch_size above 1, makes "
            "the original capture padding in place of text");
    if (!c->queries && !c->keys)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "capture.capture_queries and capture_keys are both false");
    s->kinds = !c->queries ? QK_KINDS_K : !c->keys ? QK_KINDS_Q : QK_KINDS_BOTH;
    s->stage = c->before_rope ? QK_ROPE_BEFORE : QK_ROPE_AFTER;
    s->texts = &c->text;
    s->num_texts = 1;
    qk_status status = qk_sampler_check(&s->sampler, err);
    return qk__context(err, status, "capture.sampler");
}

static qk_status load_sniff_config(qk_recorder_config *c, const char *path, qk_error *err)
{
    QK_TRY(qk__read_settings(path, &c->tree, err));
    qk__node root = qk__tree_root(c->tree);
    qk_status status = check_sections(&root, err);
    if (status == QK_OK)
        status =
            qk__settings_read(&root, &qk_recorder_settings_table,
                              offsetof(qk_recorder_config, settings), QK__KEYS(OWN), c, err);
    if (status == QK_OK)
        status = finish_config(c, err);
    return qk__context(err, status, "%s", path);
}

qk_status qk_recorder_config_load(qk_recorder_config **config, const char *path, qk_error *err)
{
    QK_NEED(err, config);
    *config = NULL;
    QK_NEED(err, path);
    qk_recorder_config *c = calloc(1, sizeof *c);
    if (!c)
        return qk__nomem(err);
    qk_recorder_settings_default(&c->settings);
    c->settings.keep = "rows"; /* as in the original tool */
    /* What the original does where its file says nothing. */
    c->queries = c->keys = true;
    c->settings.compat = true;
    c->settings.long_texts = QK_LONG_CUT;
    qk__sampler_default(&c->settings.sampler);
    c->settings.max_length = 4096;
    c->settings.output = "data";
    c->settings.dataset_split = "train";
    qk_status status = load_sniff_config(c, path, err);
    if (status != QK_OK)
        qk_recorder_config_free(&c);
    *config = c;
    return status;
}

void qk_recorder_config_free(qk_recorder_config **config)
{
    assert(config);
    qk_recorder_config *c = *config;
    if (!c)
        return;
    qk__tree_free(&c->tree);
    qk_index_list_free(&c->settings.layers);
    qk_head_set_free(&c->settings.heads);
    free(c->overrides);
    free(c);
    *config = NULL;
}

const qk_recorder_settings *qk_recorder_config_settings(const qk_recorder_config *config)
{
    assert(config);
    return &config->settings;
}

size_t qk_recorder_config_num_notes(const qk_recorder_config *config)
{
    assert(config);
    return qk__tree_num_notes(config->tree);
}

const char *qk_recorder_config_note(const qk_recorder_config *config, size_t i)
{
    assert(config && i < qk__tree_num_notes(config->tree));
    return qk__tree_get_note(config->tree, i);
}
