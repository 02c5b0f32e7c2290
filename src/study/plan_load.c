/* SPDX-License-Identifier: Apache-2.0 */
/* Study files: which models, which analyses, which figures. */
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "study/plan.h"

enum { MAX_PANELS = 16, MAX_RANDOM_HEADS = 1024 };

static qk_plan *plan_of(const qk_config *config)
{
    return config->owner;
}

/* ---- paths ----------------------------------------------------------------------------- */

qk_status qk__plan_resolve(const qk_plan *plan, const char *path, char **resolved,
                           qk_error *err)
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

/* ---- what stands in the file ------------------------------------------------------------- */

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
    return qk__plan_resolve(plan_of(config), path, &plan_of(config)->scores, err);
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
    {"models", qk__plan_set_models, false},
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
        status = qk__plan_resolve(plan, config->settings.local_root, &plan->local_root, err);
        config->settings.local_root = plan->local_root;
    }
    if (status == QK_OK)
        status = share_settings(plan, err);
    return status == QK_OK ? status : qk__context(err, status, "%s", plan->path);
}

qk_status qk_plan_load(qk_plan **plan, const char *path, qk_error *err)
{
    QK_NEED(err, plan);
    *plan = NULL;
    QK_NEED(err, path);
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
    assert(plan);
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
    assert(plan);
    return plan->title;
}

size_t qk_plan_num_models(const qk_plan *plan)
{
    assert(plan);
    return plan->num_models;
}

const qk_plan_model *qk_plan_get(const qk_plan *plan, size_t i)
{
    assert(plan && i < plan->num_models);
    return &plan->models[i];
}
