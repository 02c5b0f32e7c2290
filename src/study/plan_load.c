/* SPDX-License-Identifier: Apache-2.0 */
/* Study files: which models, which analyses, which figures. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "study/index_list.h"
#include "study/plan.h"

enum { MAX_PANELS = 16, MAX_RANDOM_HEADS = 1024 };

static qk_plan *plan_of(const qk_config *config)
{
    return config->owner;
}

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

/* ---- paths ----------------------------------------------------------------------------- */

/* A path counts from the study file's folder. Never of the form "a/b": that could also be the
 * name of a dataset. */
static qk_status resolve(const qk_plan *plan, const char *path, char **resolved, qk_error *err)
{
    *resolved = *path == '/' ? qk__strdup(path) : qk__path_join(plan->folder, path);
    return *resolved ? QK_OK : qk__nomem(err);
}

/* The folder of a file, "./a" rather than "a". */
static qk_status find_folder(qk_plan *plan, qk_error *err)
{
    const char *slash = strrchr(plan->path, '/');
    qk_buffer folder = {0};
    qk_status status =
        !slash ? qk__buffer_printf(&folder, err, ".")
               : qk__buffer_printf(&folder, err, "%s%.*s", *plan->path == '/' ? "" : "./",
                                   (int)(slash == plan->path ? 1 : slash - plan->path),
                                   plan->path);
    plan->folder = (char *)folder.data;
    return status;
}

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
    QK_TRY(resolve(plan, entry->folder, &plan->folders[i], err));
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

static qk_status set_models(qk_config *config, const yaml_node_t *node, const char *key,
                            qk_error *err)
{
    qk_plan *plan = plan_of(config);
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

/* ---- the rest of the file -------------------------------------------------------------- */

static qk_status set_title(qk_config *config, const yaml_node_t *node, const char *key,
                           qk_error *err)
{
    return qk__yaml_string(node, key, &plan_of(config)->title, err);
}

/* Calls add for a text, or for each text of a list. */
typedef qk_status add_fn(qk_plan *plan, const char *word, qk_error *err);

static qk_status each_word(qk_config *config, const yaml_node_t *node, const char *key,
                           add_fn *add, qk_error *err)
{
    bool is_list = node->type == YAML_SEQUENCE_NODE;
    yaml_node_item_t *item = is_list ? node->data.sequence.items.start : NULL;
    yaml_node_item_t *end = is_list ? node->data.sequence.items.top : NULL;
    if (is_list && item == end)
        return qk__fail(err, QK_ERR_ARGUMENT, "line %llu: %s: an empty list",
                        qk__yaml_line(node), key);
    do {
        const yaml_node_t *one =
            is_list ? yaml_document_get_node(&config->document, *item) : node;
        const char *word;
        QK_TRY(qk__yaml_string(one, key, &word, err));
        qk_status status = add(plan_of(config), word, err);
        if (status != QK_OK)
            return qk__context(err, status, "line %llu: %s", qk__yaml_line(one), key);
    } while (is_list && ++item < end);
    return QK_OK;
}

static qk_status add_analysis(qk_plan *plan, const char *word, qk_error *err)
{
    static const char *const NAMES[] = {"pca", "rotation", "plasticity"};
    for (unsigned i = 0; i < 3; i++)
        if (strcmp(word, NAMES[i]) == 0) {
            plan->config.settings.analyses |= 1U << i;
            return QK_OK;
        }
    return qk__fail(err, QK_ERR_ARGUMENT,
                    "expected pca, rotation or plasticity, found \"%.60s\"", word);
}

static qk_status set_analyses(qk_config *config, const yaml_node_t *node, const char *key,
                              qk_error *err)
{
    config->settings.analyses = 0;
    return each_word(config, node, key, add_analysis, err);
}

static qk_status set_scores(qk_config *config, const yaml_node_t *node, const char *key,
                            qk_error *err)
{
    const char *path;
    QK_TRY(qk__yaml_string(node, key, &path, err));
    return resolve(plan_of(config), path, &plan_of(config)->scores, err);
}

static qk_status set_score_metric(qk_config *config, const yaml_node_t *node, const char *key,
                                  qk_error *err)
{
    return qk__yaml_string(node, key, &plan_of(config)->score_metric, err);
}

static qk_status set_score_column(qk_config *config, const yaml_node_t *node, const char *key,
                                  qk_error *err)
{
    return qk__yaml_string(node, key, &plan_of(config)->score_column, err);
}

static qk_status add_formats(qk_plan *plan, const char *word, qk_error *err)
{
    unsigned formats;
    QK_TRY(qk_figure_formats_parse(word, &formats, err));
    plan->formats |= formats;
    return QK_OK;
}

static qk_status set_formats(qk_config *config, const yaml_node_t *node, const char *key,
                             qk_error *err)
{
    plan_of(config)->formats = 0;
    return each_word(config, node, key, add_formats, err);
}

static qk_status set_theme(qk_config *config, const yaml_node_t *node, const char *key,
                           qk_error *err)
{
    const char *word;
    QK_TRY(qk__yaml_string(node, key, &word, err));
    qk_status status = qk_figure_theme_parse(word, &plan_of(config)->theme, err);
    return status == QK_OK
               ? status
               : qk__context(err, status, "line %llu: %s", qk__yaml_line(node), key);
}

static qk_status set_rows(qk_config *config, const yaml_node_t *node, const char *key,
                          qk_error *err)
{
    return qk__config_int(node, key, 1, MAX_PANELS, &plan_of(config)->collage.rows, err);
}

static qk_status set_columns(qk_config *config, const yaml_node_t *node, const char *key,
                             qk_error *err)
{
    return qk__config_int(node, key, 1, MAX_PANELS, &plan_of(config)->collage.columns, err);
}

static qk_status set_collage_seed(qk_config *config, const yaml_node_t *node, const char *key,
                                  qk_error *err)
{
    return qk__yaml_int(node, key, INT64_MIN, INT64_MAX, &plan_of(config)->collage.seed, err);
}

static qk_status set_random(qk_config *config, const yaml_node_t *node, const char *key,
                            qk_error *err)
{
    return qk__config_int(node, key, 1, MAX_RANDOM_HEADS, &plan_of(config)->collage.random,
                          err);
}

static qk_status set_collage_heads(qk_config *config, const yaml_node_t *node, const char *key,
                                   qk_error *err)
{
    const char *text;
    qk_scatter_head *heads;
    size_t count;
    QK_TRY(qk__yaml_string(node, key, &text, err));
    qk_status status = qk_scatter_heads_parse(text, &heads, &count, err);
    if (status != QK_OK)
        return qk__context(err, status, "line %llu: %s", qk__yaml_line(node), key);
    free(heads);
    plan_of(config)->collage.heads = text;
    return QK_OK;
}

static qk_status set_max_points(qk_config *config, const yaml_node_t *node, const char *key,
                                qk_error *err)
{
    return qk__yaml_int(node, key, 0, INT64_MAX, &plan_of(config)->collage.max_points, err);
}

static const qk__key PLAN_KEYS[] = {
    {"title", set_title, false},
    {"models", set_models, false},
    {"analyses", set_analyses, false},
    {"data", qk__config_section, false},
    {"pca", qk__config_section, false},
    {"analysis", qk__config_section, false},
    {"rotation", qk__config_section, false},
    {"plasticity", qk__config_section, false},
    {"scores", set_scores, false},
    {"score_metric", set_score_metric, false},
    {"score_column", set_score_column, false},
    {"figures", NULL, false},
    {"figures.formats", set_formats, false},
    {"figures.theme", set_theme, false},
    {"figures.collage", NULL, false},
    {"figures.collage.rows", set_rows, false},
    {"figures.collage.columns", set_columns, false},
    {"figures.collage.seed", set_collage_seed, false},
    {"figures.collage.random", set_random, false},
    {"figures.collage.heads", set_collage_heads, false},
    {"figures.collage.max_points", set_max_points, false},
};

/* ---- loading --------------------------------------------------------------------------- */

/* What a study file is silent about. */
static void set_defaults(qk_plan *plan)
{
    qk_figure_settings figures;
    qk_figure_settings_default(&figures);
    qk_study_settings_default(&plan->config.settings);
    plan->config.of_study = true;
    plan->config.owner = plan;
    plan->config.settings.analyses =
        QK_ANALYSE_PCA | QK_ANALYSE_ROTATION | QK_ANALYSE_PLASTICITY;
    plan->config.settings.lda = true; /* how well queries and keys separate: a headline */
    plan->title = "";
    plan->formats = figures.formats;
    plan->theme = figures.theme;
    plan->collage = (qk__plan_collage){
        .rows = 2, .columns = 2, .seed = 42, .max_points = QK_SCATTER_FEW_POINTS};
}

/* Each model gets what all share, whatever the order in the file. */
static qk_status share_settings(qk_plan *plan, qk_error *err)
{
    qk_config *config = &plan->config;
    if (plan->num_models == 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "models is missing");
    if (!config->settings.combined)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "analysis.combined: a study takes queries and keys together");
    if (config->settings.ci_refit && !(config->settings.ci > 0))
        return qk__fail(err, QK_ERR_ARGUMENT, "analysis.ci_refit needs analysis.ci");
    if (plan->collage.random && plan->collage.heads)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "figures.collage: give random or heads, not both");
    if (config->parallel_off)
        config->settings.threads = 1;
    for (size_t i = 0; i < plan->num_models; i++) {
        qk_plan_model *model = &plan->models[i];
        qk_study_settings own = model->settings;
        model->settings = config->settings;
        model->settings.capture = own.capture;
        model->settings.revision = own.revision;
        model->settings.prefix = own.prefix;
        model->settings.q_per_kv_group = own.q_per_kv_group;
        model->settings.model_name = model->name;
        if (plan->folders[i]) /* a folder is where it is */
            model->settings.local_root = NULL;
    }
    return QK_OK;
}

static qk_status load(qk_plan *plan, qk_error *err)
{
    qk_config *config = &plan->config;
    QK_TRY(qk__config_parse(config, plan->path, err));
    QK_TRY(qk__fingerprint_file(plan->path, &plan->file_bytes, plan->file_hash, err));
    QK_TRY(find_folder(plan, err));
    qk_status status = qk__read_keys(config, PLAN_KEYS, sizeof PLAN_KEYS / sizeof *PLAN_KEYS,
                                     yaml_document_get_root_node(&config->document), "", err);
    if (status == QK_OK && config->settings.local_root) {
        status = resolve(plan, config->settings.local_root, &plan->local_root, err);
        config->settings.local_root = plan->local_root;
    }
    if (status == QK_OK)
        status = share_settings(plan, err);
    return status == QK_OK ? status : qk__context(err, status, "%s", plan->path);
}

qk_status qk_plan_load(qk_plan **plan, const char *path, qk_error *err)
{
    *plan = NULL;
    qk_plan *loaded = calloc(1, sizeof *loaded);
    if (!loaded)
        return qk__nomem(err);
    set_defaults(loaded);
    loaded->path = qk__strdup(path);
    qk_status status = loaded->path ? load(loaded, err) : qk__nomem(err);
    if (status != QK_OK)
        qk_plan_free(&loaded);
    *plan = loaded;
    return status;
}

void qk_plan_free(qk_plan **plan)
{
    qk_plan *p = *plan;
    if (!p)
        return;
    for (size_t i = 0; p->sources && p->folders && i < p->num_models; i++) {
        free(p->sources[i]);
        free(p->folders[i]);
    }
    free(p->sources);
    free(p->folders);
    free(p->models);
    free(p->scores);
    free(p->local_root);
    free(p->folder);
    free(p->path);
    qk__config_release(&p->config);
    free(p);
    *plan = NULL;
}

const char *qk_plan_title(const qk_plan *plan)
{
    return plan->title;
}

size_t qk_plan_num_models(const qk_plan *plan)
{
    return plan->num_models;
}

const qk_plan_model *qk_plan_get(const qk_plan *plan, size_t i)
{
    return &plan->models[i];
}
