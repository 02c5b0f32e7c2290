/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the models of a study file: their names, and where their captures are. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "settings/index_list.h"
#include "study/study.h"

qk_status qk__study_resolve(const qk_study *plan, const char *path, char **resolved,
                            qk_error *err)
{
    *resolved = *path == '/' ? qk__strdup(path) : qk__path_join(plan->folder, path);
    return *resolved ? QK_OK : qk__nomem(err);
}

/* ---- one model -------------------------------------------------------------------------- */

/* The model being read. */
typedef struct model_entry {
    qk_study_model model;
    const char *folder, *dataset;
} model_entry;

#define AT(field) .at = offsetof(model_entry, field)

/* A folder, or where it is in more words. */
static qk_status set_source(void *target, const qk__node *value, const qk__key *key,
                            qk_error *err)
{
    static const qk__key KEYS[] = {
        {"models.source.folder", QK__KEY_TEXT, AT(folder)},
        {"models.source.dataset", QK__KEY_TEXT, AT(dataset)},
        {"models.source.revision", QK__KEY_TEXT, AT(model.settings.revision)},
        {"models.source.prefix", QK__KEY_TEXT, AT(model.settings.prefix)},
    };
    model_entry *entry = target;
    (void)key;
    if (qk__node_kind_of(value) != QK__OBJECT)
        return qk__read_text(value, NULL, &entry->folder, err);
    QK_TRY(qk__read_keys(value, QK__KEYS(KEYS), entry, err));
    if (!entry->folder == !entry->dataset)
        return qk__fail_at(value, err, QK_ERR_ARGUMENT, "give a folder or a dataset%s",
                           entry->folder ? ", not both" : "");
    if (entry->folder && entry->model.settings.revision)
        return qk__fail_at(value, err, QK_ERR_ARGUMENT,
                           "a revision belongs to a dataset, not to a folder");
    return QK_OK;
}

static const qk__key MODEL_KEYS[] = {
    {"models.name", QK__KEY_TEXT, AT(model.name)},
    {"models.label", QK__KEY_TEXT, AT(model.label)},
    {"models.family", QK__KEY_TEXT, AT(model.family)},
    {"models.phase", QK__KEY_TEXT, AT(model.phase)},
    {"models.source", QK__KEY_READ, .read = set_source},
    {"models.q_per_kv_group", QK__KEY_INT, AT(model.settings.q_per_kv_group),
     .whole = {1, QK_MAX_INDEX}},
};

/* Where a capture comes from, in one text: "folder", "org/name@revision", with "/prefix". */
static qk_status describe_source(qk_study *plan, const model_entry *entry, qk_error *err)
{
    size_t i = plan->num_models - 1;
    qk_study_model *model = &plan->models[i];
    const char *revision = model->settings.revision, *prefix = model->settings.prefix;
    qk__buffer text = {0};
    qk_status status = qk__buffer_printf(
        &text, err, "%s%s%s%s%s", entry->dataset ? entry->dataset : entry->folder,
        revision ? "@" : "", revision ? revision : "", prefix ? "/" : "", prefix ? prefix : "");
    plan->sources[i] = (char *)text.data;
    model->source = plan->sources[i];
    if (status != QK_OK || entry->dataset) {
        model->settings.capture = entry->dataset;
        return status;
    }
    QK_TRY(qk__study_resolve(plan, entry->folder, &plan->folders[i], err));
    model->settings.capture = plan->folders[i];
    return QK_OK;
}

/* ---- all models ------------------------------------------------------------------------- */

static qk_status add_model(qk_study *plan, const qk__node *node, qk_error *err)
{
    model_entry entry = {.model = {.family = "", .phase = "", .source = ""}};
    qk_analysis_settings_default(&entry.model.settings);
    QK_TRY(qk__read_keys(node, QK__KEYS(MODEL_KEYS), &entry, err));
    qk__node name = qk__node_member(node, "name"), source = qk__node_member(node, "source");
    if (!entry.model.name || (!entry.folder && !entry.dataset))
        return qk__fail_at(entry.model.name ? &source : &name, err, QK_ERR_ARGUMENT, "missing");
    if (!entry.model.label)
        entry.model.label = entry.model.name;
    for (size_t i = 0; i < plan->num_models; i++)
        if (strcmp(plan->models[i].name, entry.model.name) == 0)
            return qk__fail_at(&name, err, QK_ERR_ARGUMENT,
                               "there is a model \"%.100s\" before this one", entry.model.name);
    plan->models[plan->num_models++] = entry.model;
    return describe_source(plan, &entry, err);
}

qk_status qk__study_set_models(void *target, const qk__node *models, const qk__key *key,
                               qk_error *err)
{
    qk_study *plan = target;
    size_t count = qk__node_kind_of(models) == QK__LIST ? qk__node_count(models) : 0;
    (void)key;
    if (count == 0)
        return qk__fail_at(models, err, QK_ERR_ARGUMENT, "expected a list of models");
    plan->models = qk__calloc(count, sizeof *plan->models);
    plan->sources = qk__calloc(count, sizeof *plan->sources);
    plan->folders = qk__calloc(count, sizeof *plan->folders);
    if (!plan->models || !plan->sources || !plan->folders)
        return qk__nomem(err);
    for (size_t i = 0; i < count; i++) {
        qk__node item = qk__node_item(models, i);
        QK_TRY(add_model(plan, &item, err));
    }
    return QK_OK;
}
