/* SPDX-License-Identifier: Apache-2.0 */
/* The models of a study file. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "study/index_list.h"
#include "study/plan.h"

/* ---- one model ------------------------------------------------------------------------- */

/* The model being read: the last one. */
typedef struct model_entry {
    qk_plan_model *model;
    const char *folder, *dataset;
} model_entry;

static model_entry *entry_of(const qk_config *config)
{
    return config->owner;
}

static qk_status set_name(qk_config *config, const yaml_node_t *node, const char *key,
                          qk_error *err)
{
    return qk__yaml_string(node, key, &entry_of(config)->model->name, err);
}

static qk_status set_label(qk_config *config, const yaml_node_t *node, const char *key,
                           qk_error *err)
{
    return qk__yaml_string(node, key, &entry_of(config)->model->label, err);
}

static qk_status set_family(qk_config *config, const yaml_node_t *node, const char *key,
                            qk_error *err)
{
    return qk__yaml_string(node, key, &entry_of(config)->model->family, err);
}

static qk_status set_phase(qk_config *config, const yaml_node_t *node, const char *key,
                           qk_error *err)
{
    return qk__yaml_string(node, key, &entry_of(config)->model->phase, err);
}

static qk_status set_group(qk_config *config, const yaml_node_t *node, const char *key,
                           qk_error *err)
{
    return qk__config_int(node, key, 1, QK_MAX_INDEX,
                          &entry_of(config)->model->settings.q_per_kv_group, err);
}

static qk_status set_folder(qk_config *config, const yaml_node_t *node, const char *key,
                            qk_error *err)
{
    return qk__yaml_string(node, key, &entry_of(config)->folder, err);
}

static qk_status set_dataset(qk_config *config, const yaml_node_t *node, const char *key,
                             qk_error *err)
{
    return qk__yaml_string(node, key, &entry_of(config)->dataset, err);
}

static qk_status set_revision(qk_config *config, const yaml_node_t *node, const char *key,
                              qk_error *err)
{
    return qk__yaml_string(node, key, &entry_of(config)->model->settings.revision, err);
}

static qk_status set_prefix(qk_config *config, const yaml_node_t *node, const char *key,
                            qk_error *err)
{
    return qk__yaml_string(node, key, &entry_of(config)->model->settings.prefix, err);
}

static const qk__key SOURCE_KEYS[] = {
    {"models.source.folder", set_folder, false},
    {"models.source.dataset", set_dataset, false},
    {"models.source.revision", set_revision, false},
    {"models.source.prefix", set_prefix, false},
};

/* A folder, or where it lies in more words. */
static qk_status set_source(qk_config *config, const yaml_node_t *node, const char *key,
                            qk_error *err)
{
    model_entry *entry = entry_of(config);
    if (node->type != YAML_MAPPING_NODE)
        return set_folder(config, node, key, err);
    QK_TRY(qk__read_keys(config, SOURCE_KEYS, sizeof SOURCE_KEYS / sizeof *SOURCE_KEYS, node,
                         key, err));
    if (!entry->folder == !entry->dataset)
        return qk__fail(err, QK_ERR_ARGUMENT, "line %llu: %s: give a folder or a dataset%s",
                        qk__yaml_line(node), key, entry->folder ? ", not both" : "");
    if (entry->folder && entry->model->settings.revision)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "line %llu: %s: a revision belongs to a dataset, not to a folder",
                        qk__yaml_line(node), key);
    return QK_OK;
}

static const qk__key MODEL_KEYS[] = {
    {"models.name", set_name, false},     {"models.label", set_label, false},
    {"models.family", set_family, false}, {"models.phase", set_phase, false},
    {"models.source", set_source, false}, {"models.q_per_kv_group", set_group, false},
};

/* Where a capture comes from, in one text: "folder", "org/name@revision", with "/prefix". */
static qk_status describe_source(qk_plan *plan, const model_entry *entry, qk_error *err)
{
    qk_plan_model *model = entry->model;
    size_t i = (size_t)(model - plan->models);
    const char *revision = model->settings.revision, *prefix = model->settings.prefix;
    qk_buffer text = {0};
    qk_status status = qk__buffer_printf(
        &text, err, "%s%s%s%s%s", entry->dataset ? entry->dataset : entry->folder,
        revision ? "@" : "", revision ? revision : "", prefix ? "/" : "", prefix ? prefix : "");
    plan->sources[i] = (char *)text.data;
    model->source = plan->sources[i];
    if (status != QK_OK || entry->dataset) {
        model->settings.capture = entry->dataset;
        return status;
    }
    QK_TRY(qk__plan_resolve(plan, entry->folder, &plan->folders[i], err));
    model->settings.capture = plan->folders[i];
    return QK_OK;
}

/* ---- all models ------------------------------------------------------------------------ */

static qk_status fail_missing(const yaml_node_t *node, const char *key, qk_error *err)
{
    return qk__fail(err, QK_ERR_ARGUMENT, "line %llu: a model without %s", qk__yaml_line(node),
                    key);
}

static qk_status add_model(qk_plan *plan, const yaml_node_t *node, qk_error *err)
{
    qk_plan_model *model = &plan->models[plan->num_models++];
    model_entry entry = {.model = model};
    *model = (qk_plan_model){.family = "", .phase = "", .source = ""};
    plan->config.owner = &entry;
    qk_status status = qk__read_keys(
        &plan->config, MODEL_KEYS, sizeof MODEL_KEYS / sizeof *MODEL_KEYS, node, "models", err);
    plan->config.owner = plan;
    QK_TRY(status);
    if (!model->name)
        return fail_missing(node, "models.name", err);
    if (!entry.folder && !entry.dataset)
        return fail_missing(node, "models.source", err);
    if (!model->label)
        model->label = model->name;
    for (size_t i = 0; i + 1 < plan->num_models; i++)
        if (strcmp(plan->models[i].name, model->name) == 0)
            return qk__fail(err, QK_ERR_ARGUMENT,
                            "line %llu: models.name: there is a model \"%.100s\" before this "
                            "one",
                            qk__yaml_line(node), model->name);
    return describe_source(plan, &entry, err);
}

qk_status qk__plan_set_models(qk_config *config, const yaml_node_t *node, const char *key,
                              qk_error *err)
{
    qk_plan *plan = config->owner;
    if (node->type != YAML_SEQUENCE_NODE ||
        node->data.sequence.items.start == node->data.sequence.items.top)
        return qk__fail(err, QK_ERR_ARGUMENT, "line %llu: %s: expected a list of models",
                        qk__yaml_line(node), key);
    yaml_node_item_t *item = node->data.sequence.items.start;
    size_t count = (size_t)(node->data.sequence.items.top - item);
    plan->models = qk__calloc(count, sizeof *plan->models);
    plan->sources = qk__calloc(count, sizeof *plan->sources);
    plan->folders = qk__calloc(count, sizeof *plan->folders);
    if (!plan->models || !plan->sources || !plan->folders)
        return qk__nomem(err);
    for (; item < node->data.sequence.items.top; item++)
        QK_TRY(add_model(plan, yaml_document_get_node(&config->document, *item), err));
    return QK_OK;
}
