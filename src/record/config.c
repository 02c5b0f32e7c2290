/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files of the original capture tool: YAML keys to qk_record_settings, by one
 * table. */
#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <qkscope/record.h>

#include "base/buffer.h"
#include "base/error.h"
#include "record/yaml_json.h"
#include "study/config.h"
#include "study/index_list.h"

enum { MAX_NOTES = 32 };

struct qk_record_config {
    qk_config file;
    qk_record_settings settings;
    const char *text; /* what settings.texts has */
    int64_t head_count, batch_size;
    bool queries, keys, before_rope, left_padding;
    char *overrides;
    char *notes[MAX_NOTES];
    size_t num_notes;
};

static qk_record_config *of(const qk_config *config)
{
    return config->owner;
}

static qk_status note(qk_config *config, qk_error *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static qk_status note(qk_config *config, qk_error *err, const char *fmt, ...)
{
    qk_record_config *c = of(config);
    char text[240];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (c->num_notes == MAX_NOTES)
        return QK_OK;
    char *copy = qk__strdup(text);
    if (!copy)
        return qk__nomem(err);
    c->notes[c->num_notes++] = copy;
    return QK_OK;
}

/* ---- keys that are texts, numbers, true or false ---------------------------------------- */

typedef enum value_type { VALUE_TEXT, VALUE_BOOL, VALUE_INT, VALUE_DECIMAL } value_type;

/* Where the value goes, and which whole numbers are allowed. */
typedef struct plain_key {
    const char *name;
    value_type type;
    size_t offset; /* in qk_record_config */
    int64_t min, max;
} plain_key;

#define AT(field) offsetof(qk_record_config, field)

static const plain_key PLAIN_KEYS[] = {
    {"dataset.path", VALUE_TEXT, AT(text), 0, 0},
    {"dataset.name", VALUE_TEXT, AT(settings.dataset_name), 0, 0},
    {"dataset.split", VALUE_TEXT, AT(settings.dataset_split), 0, 0},
    {"dataset.text_column", VALUE_TEXT, AT(settings.text_column), 0, 0},
    {"dataset.id_column", VALUE_TEXT, AT(settings.id_column), 0, 0},
    {"dataset.max_samples", VALUE_INT, AT(settings.max_examples), 1, INT64_MAX},
    {"model.name", VALUE_TEXT, AT(settings.model), 0, 0},
    {"model.revision", VALUE_TEXT, AT(settings.revision), 0, 0},
    {"tokenizer.name", VALUE_TEXT, AT(settings.tokenizer), 0, 0},
    {"tokenizer.max_length", VALUE_INT, AT(settings.max_length), 1, 1 << 30},
    {"capture.capture_queries", VALUE_BOOL, AT(queries), 0, 0},
    {"capture.capture_keys", VALUE_BOOL, AT(keys), 0, 0},
    {"capture.head_sampling.count", VALUE_INT, AT(head_count), 1, INT_MAX},
    {"capture.head_sampling.seed", VALUE_INT, AT(settings.head_seed), INT64_MIN, INT64_MAX},
    {"capture.full_attention_only", VALUE_BOOL, AT(settings.full_attention_only), 0, 0},
    {"capture.sampler.base_rate", VALUE_DECIMAL, AT(settings.sampler.base_rate), 0, 0},
    {"capture.max_rows_per_batch", VALUE_INT, AT(settings.sampler.max_rows), INT64_MIN,
     INT64_MAX},
    {"capture.min_bucket_size", VALUE_INT, AT(settings.sampler.min_bucket_size), 1,
     (int64_t)1 << 40},
    {"capture.capture_pre_rope", VALUE_BOOL, AT(before_rope), 0, 0},
    {"capture.capture_token_strings", VALUE_BOOL, AT(settings.token_strings), 0, 0},
    {"output.data_root", VALUE_TEXT, AT(settings.output), 0, 0},
};

static qk_status set_plain(qk_config *config, const yaml_node_t *node, const char *key,
                           qk_error *err)
{
    enum { MAX_RATE = 1000000000 };
    const plain_key *p = PLAIN_KEYS;
    while (strcmp(p->name, key) != 0)
        p++;
    void *target = (char *)of(config) + p->offset;
    switch (p->type) {
    case VALUE_TEXT:
        return qk__yaml_string(node, key, target, err);
    case VALUE_BOOL:
        return qk__yaml_bool(node, key, target, err);
    case VALUE_INT:
        return qk__yaml_int(node, key, p->min, p->max, target, err);
    case VALUE_DECIMAL:
        break;
    }
    return qk__yaml_decimal(node, key, MAX_RATE, target, err);
}

/* ---- keys of other kinds ---------------------------------------------------------------- */

static qk_status fail_word(const yaml_node_t *node, const char *key, const char *expected,
                           qk_error *err)
{
    const char *text = qk__yaml_text(node);
    return qk__fail(err, QK_ERR_ARGUMENT, "line %llu: %s: expected %s, found \"%.60s\"",
                    qk__yaml_line(node), key, expected, text ? text : "something else");
}

static qk_status set_sampler_type(qk_config *config, const yaml_node_t *node, const char *key,
                                  qk_error *err)
{
    const char *text;
    QK_TRY(qk__yaml_string(node, key, &text, err));
    return qk_sampler_type_parse(text, &of(config)->settings.sampler.type)
               ? QK_OK
               : fail_word(node, key, "log_uniform, uniform or all", err);
}

/* An empty list means all, as null does. */
static qk_status set_indices(qk_config *config, const yaml_node_t *node, const char *key,
                             qk_index_list *list, qk_error *err)
{
    if (node->type != YAML_SEQUENCE_NODE)
        return qk__fail(err, QK_ERR_ARGUMENT, "line %llu: %s: expected a list of numbers",
                        qk__yaml_line(node), key);
    yaml_node_item_t *item = node->data.sequence.items.start;
    if (item == node->data.sequence.items.top)
        QK_TRY(note(config, err, "%s: an empty list means all", key));
    for (; item < node->data.sequence.items.top; item++) {
        int value;
        QK_TRY(qk__config_int(yaml_document_get_node(&config->document, *item), key, 0,
                              QK_MAX_INDEX, &value, err));
        QK_TRY(qk__index_list_add(list, value, value, err));
    }
    qk__index_list_sort(list);
    return QK_OK;
}

static qk_status set_layers(qk_config *config, const yaml_node_t *node, const char *key,
                            qk_error *err)
{
    return set_indices(config, node, key, &of(config)->settings.layers, err);
}

static qk_status set_heads(qk_config *config, const yaml_node_t *node, const char *key,
                           qk_error *err)
{
    return set_indices(config, node, key, &of(config)->settings.heads, err);
}

static qk_status set_dtype(qk_config *config, const yaml_node_t *node, const char *key,
                           qk_error *err)
{
    static const char *const NAMES[] = {"float16", "fp16",    "bfloat16",
                                        "bf16",    "float32", "fp32"};
    const char *text;
    QK_TRY(qk__yaml_string(node, key, &text, err));
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcasecmp(text, NAMES[i]) == 0)
            return i >= 4 ? QK_OK
                          : note(config, err,
                                 "%s: %s has no effect: computed in float32 (--dtype %s "
                                 "rounds as such a run does)",
                                 key, text, i < 2 ? "f16-sim" : "bf16-sim");
    return fail_word(node, key, "float16, bfloat16 or float32", err);
}

static qk_status set_padding_side(qk_config *config, const yaml_node_t *node, const char *key,
                                  qk_error *err)
{
    const char *text;
    QK_TRY(qk__yaml_string(node, key, &text, err));
    of(config)->left_padding = strcmp(text, "left") == 0;
    return of(config)->left_padding || strcmp(text, "right") == 0
               ? QK_OK
               : fail_word(node, key, "right or left", err);
}

/* Settings of how the original runs, which say nothing about what comes out. */
static qk_status ignore_bool(qk_config *config, const yaml_node_t *node, const char *key,
                             qk_error *err)
{
    bool yes;
    QK_TRY(qk__yaml_bool(node, key, &yes, err));
    return yes ? note(config, err, "%s has no effect", key) : QK_OK;
}

static qk_status ignore_text(qk_config *config, const yaml_node_t *node, const char *key,
                             qk_error *err)
{
    const char *text;
    QK_TRY(qk__yaml_string(node, key, &text, err));
    return note(config, err, "%s: %.60s has no effect", key, text);
}

static qk_status ignore_any(qk_config *config, const yaml_node_t *node, const char *key,
                            qk_error *err)
{
    (void)node;
    return note(config, err, "%s has no effect", key);
}

static qk_status ignore_int(qk_config *config, const yaml_node_t *node, const char *key,
                            qk_error *err)
{
    int64_t value;
    QK_TRY(qk__yaml_int(node, key, INT64_MIN, INT64_MAX, &value, err));
    return note(config, err, "%s has no effect", key);
}

static qk_status ignore_upload(qk_config *config, const yaml_node_t *node, const char *key,
                               qk_error *err)
{
    const char *text;
    QK_TRY(qk__yaml_string(node, key, &text, err));
    return note(config, err, "%s: %.60s: nothing is uploaded; hf upload does it", key, text);
}

static qk_status ignore_readme(qk_config *config, const yaml_node_t *node, const char *key,
                               qk_error *err)
{
    const char *text;
    QK_TRY(qk__yaml_string(node, key, &text, err));
    return note(config, err, "%s has no effect: the card is README.md in output.data_root",
                key);
}

/* The original drops keys of this section that it does not know; batches change nothing here.
 */
static qk_status set_inference(qk_config *config, const yaml_node_t *node, const char *key,
                               qk_error *err)
{
    if (node->type != YAML_MAPPING_NODE)
        return qk__fail(err, QK_ERR_ARGUMENT, "line %llu: %s: expected keys and values",
                        qk__yaml_line(node), key);
    yaml_node_pair_t *pair = node->data.mapping.pairs.start;
    for (; pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *name = yaml_document_get_node(&config->document, pair->key);
        const yaml_node_t *value = yaml_document_get_node(&config->document, pair->value);
        const char *text = qk__yaml_text(name);
        if (text && strcmp(text, "batch_size") == 0 && !qk__yaml_is_null(value))
            QK_TRY(qk__yaml_int(value, "inference.batch_size", 1, INT_MAX,
                                &of(config)->batch_size, err));
        QK_TRY(note(config, err, "%s.%.60s has no effect", key, text ? text : "?"));
    }
    return QK_OK;
}

static qk_status set_overrides(qk_config *config, const yaml_node_t *node, const char *key,
                               qk_error *err)
{
    if (node->type != YAML_MAPPING_NODE)
        return qk__fail(err, QK_ERR_ARGUMENT, "line %llu: %s: expected keys and values",
                        qk__yaml_line(node), key);
    of(config)->overrides = qk__yaml_to_json(&config->document, node);
    if (!of(config)->overrides)
        return qk__fail(err, QK_ERR_ARGUMENT, "line %llu: %s: cannot be put as JSON",
                        qk__yaml_line(node), key);
    of(config)->settings.overrides = of(config)->overrides;
    return QK_OK;
}

/* ---- the table -------------------------------------------------------------------------- */

static const qk__key KEYS[] = {
    {"dataset", NULL, false},
    {"dataset.path", set_plain, false},
    {"dataset.name", set_plain, false},
    {"dataset.split", set_plain, false},
    {"dataset.text_column", set_plain, false},
    {"dataset.id_column", set_plain, false},
    {"dataset.max_samples", set_plain, false},
    {"dataset.streaming", ignore_bool, false},
    {"model", NULL, false},
    {"model.name", set_plain, false},
    {"model.revision", set_plain, false},
    {"model.dtype", set_dtype, false},
    {"model.device_map", ignore_any, false},
    {"model.trust_remote_code", ignore_bool, false},
    {"model.attn_implementation", ignore_text, false},
    {"model.config_overrides", set_overrides, false},
    {"tokenizer", NULL, false},
    {"tokenizer.name", set_plain, false},
    {"tokenizer.max_length", set_plain, false},
    {"tokenizer.padding", ignore_text, false},
    {"tokenizer.padding_side", set_padding_side, false},
    {"tokenizer.trust_remote_code", ignore_bool, false},
    {"inference", set_inference, false},
    {"capture", NULL, false},
    {"capture.capture_queries", set_plain, false},
    {"capture.capture_keys", set_plain, false},
    {"capture.layers", set_layers, false},
    {"capture.heads", set_heads, false},
    {"capture.head_sampling", NULL, false},
    {"capture.head_sampling.count", set_plain, false},
    {"capture.head_sampling.seed", set_plain, false},
    {"capture.full_attention_only", set_plain, false},
    {"capture.sampler", NULL, false},
    {"capture.sampler.type", set_sampler_type, false},
    {"capture.sampler.base_rate", set_plain, false},
    {"capture.max_rows_per_batch", set_plain, false},
    {"capture.min_bucket_size", set_plain, false},
    {"capture.capture_pre_rope", set_plain, false},
    {"capture.capture_token_strings", set_plain, false},
    {"output", NULL, false},
    {"output.data_root", set_plain, false},
    {"output.readme_path", ignore_readme, false},
    {"output.hf_repo_id", ignore_upload, false},
    {"output.hf_branch", ignore_text, false},
    {"output.private", ignore_bool, false},
    {"output.write_batch_size", ignore_int, false},
};
enum { NUM_KEYS = sizeof KEYS / sizeof KEYS[0] };

/* ---- loading ---------------------------------------------------------------------------- */

/* All six must be there, if only as a name. */
static qk_status check_sections(qk_config *config, qk_error *err)
{
    static const char *const SECTIONS[] = {"dataset",   "model",   "tokenizer",
                                           "inference", "capture", "output"};
    const yaml_node_t *root = yaml_document_get_root_node(&config->document);
    for (size_t i = 0; i < sizeof SECTIONS / sizeof *SECTIONS; i++) {
        bool found = false;
        yaml_node_pair_t *pair = root->data.mapping.pairs.start;
        for (; root->type == YAML_MAPPING_NODE && pair < root->data.mapping.pairs.top; pair++) {
            const char *text =
                qk__yaml_text(yaml_document_get_node(&config->document, pair->key));
            found |= text && strcmp(text, SECTIONS[i]) == 0;
        }
        if (!found)
            return qk__fail(err, QK_ERR_ARGUMENT, "the section %s is missing", SECTIONS[i]);
    }
    return QK_OK;
}

static qk_status finish(qk_record_config *c, qk_error *err)
{
    qk_record_settings *s = &c->settings;
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
    s->sample_heads = (int)c->head_count;
    s->texts = &c->text;
    s->num_texts = 1;
    qk_status status = qk_sampler_check(&s->sampler, err);
    return status == QK_OK ? QK_OK : qk__context(err, status, "capture.sampler");
}

static qk_status load(qk_record_config *c, const char *path, qk_error *err)
{
    QK_TRY(qk__config_parse(&c->file, path, err));
    qk_status status = check_sections(&c->file, err);
    if (status == QK_OK)
        status = qk__read_keys(&c->file, KEYS, NUM_KEYS,
                               yaml_document_get_root_node(&c->file.document), "", err);
    if (status == QK_OK)
        status = finish(c, err);
    return status == QK_OK ? QK_OK : qk__context(err, status, "%s", path);
}

qk_status qk_record_config_load(qk_record_config **config, const char *path, qk_error *err)
{
    QK_NEED(err, config);
    *config = NULL;
    QK_NEED(err, path);
    qk_record_config *c = calloc(1, sizeof *c);
    if (!c)
        return qk__nomem(err);
    c->file.owner = c;
    qk_record_settings_default(&c->settings);
    /* What the original does where its file is silent. */
    c->queries = c->keys = true;
    c->settings.compat = true;
    c->settings.long_texts = QK_LONG_CUT;
    qk_sampler_default(&c->settings.sampler);
    c->settings.max_length = 4096;
    c->settings.output = "data";
    c->settings.dataset_split = "train";
    qk_status status = load(c, path, err);
    if (status != QK_OK)
        qk_record_config_free(&c);
    *config = c;
    return status;
}

void qk_record_config_free(qk_record_config **config)
{
    assert(config);
    qk_record_config *c = *config;
    if (!c)
        return;
    qk__config_release(&c->file);
    qk_index_list_free(&c->settings.layers);
    qk_index_list_free(&c->settings.heads);
    for (size_t i = 0; i < c->num_notes; i++)
        free(c->notes[i]);
    free(c->overrides);
    free(c);
    *config = NULL;
}

const qk_record_settings *qk_record_config_settings(const qk_record_config *config)
{
    assert(config);
    return &config->settings;
}

size_t qk_record_config_num_notes(const qk_record_config *config)
{
    assert(config);
    return config->num_notes;
}

const char *qk_record_config_note(const qk_record_config *config, size_t i)
{
    assert(config && i < config->num_notes);
    return config->notes[i];
}
