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

/* ---- what stands in the file ---- */

/* Calls add for a text, or for each text of a list. */
typedef qk_status add_fn(qk_plan *plan, const char *word, qk_error *err);

static qk_status each_word(qk_plan *plan, const qk__node *value, add_fn *add, qk_error *err)
{
    size_t count = qk__node_count(value);
    if (count == 0)
        return qk__fail_at(value, err, QK_ERR_ARGUMENT, "an empty list");
    for (size_t i = 0; i < count; i++) {
        qk__node item = qk__node_item(value, i);
        const char *word = NULL;
        QK_TRY(qk__read_text(&item, NULL, &word, err));
        if (!word)
            return qk__fail_expected(&item, "a text", err);
        QK_TRY(qk__context_at(&item, err, add(plan, word, err)));
    }
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

static qk_status set_analyses(void *target, const qk__node *value, const qk__key *key,
                              qk_error *err)
{
    qk_plan *plan = target;
    (void)key;
    plan->config.settings.analyses = 0;
    return each_word(plan, value, add_analysis, err);
}

static qk_status set_section(void *target, const qk__node *value, const qk__key *key,
                             qk_error *err)
{
    qk_plan *plan = target;
    (void)key;
    return qk__config_section(&plan->config, value, err);
}

static qk_status set_scores(void *target, const qk__node *value, const qk__key *key,
                            qk_error *err)
{
    qk_plan *plan = target;
    const char *path;
    (void)key;
    QK_TRY(qk__read_text(value, NULL, &path, err));
    return qk__plan_resolve(plan, path, &plan->scores, err);
}

static qk_status add_formats(qk_plan *plan, const char *word, qk_error *err)
{
    unsigned formats;
    QK_TRY(qk_figure_formats_parse(word, &formats, err));
    plan->formats |= formats;
    return QK_OK;
}

static qk_status set_formats(void *target, const qk__node *value, const qk__key *key,
                             qk_error *err)
{
    qk_plan *plan = target;
    (void)key;
    plan->formats = 0;
    return each_word(plan, value, add_formats, err);
}

static qk_status set_theme(void *target, const qk__node *value, const qk__key *key,
                           qk_error *err)
{
    qk_plan *plan = target;
    const char *word;
    (void)key;
    QK_TRY(qk__read_text(value, NULL, &word, err));
    return qk__context_at(value, err, qk_figure_theme_parse(word, &plan->theme, err));
}

static qk_status set_collage_heads(void *target, const qk__node *value, const qk__key *key,
                                   qk_error *err)
{
    qk_plan *plan = target;
    qk_scatter_head *heads;
    size_t count;
    (void)key;
    QK_TRY(qk__read_text(value, NULL, &plan->collage.heads, err));
    qk_status status = qk_scatter_heads_parse(plan->collage.heads, &heads, &count, err);
    if (status == QK_OK)
        free(heads);
    return qk__context_at(value, err, status);
}

#define AT(field) .at = offsetof(qk_plan, field)
static const qk__key KEYS[] = {
    {"title", QK__KEY_TEXT, AT(title)},
    {"models", QK__KEY_READ, .read = qk__plan_set_models},
    {"analyses", QK__KEY_READ, .read = set_analyses},
    {"data", QK__KEY_READ, .read = set_section},
    {"pca", QK__KEY_READ, .read = set_section},
    {"analysis", QK__KEY_READ, .read = set_section},
    {"rotation", QK__KEY_READ, .read = set_section},
    {"plasticity", QK__KEY_READ, .read = set_section},
    {"scores", QK__KEY_READ, .read = set_scores},
    {"score_metric", QK__KEY_TEXT, AT(score_metric)},
    {"score_column", QK__KEY_TEXT, AT(score_column)},
    {.name = "figures"},
    {"figures.formats", QK__KEY_READ, .read = set_formats},
    {"figures.theme", QK__KEY_READ, .read = set_theme},
    {.name = "figures.collage"},
    {"figures.collage.rows", QK__KEY_INT, AT(collage.rows), .whole = {1, MAX_PANELS}},
    {"figures.collage.columns", QK__KEY_INT, AT(collage.columns), .whole = {1, MAX_PANELS}},
    {"figures.collage.seed", QK__KEY_INT64, AT(collage.seed), .whole = {INT64_MIN, INT64_MAX}},
    {"figures.collage.random", QK__KEY_INT, AT(collage.random), .whole = {1, MAX_RANDOM_HEADS}},
    {"figures.collage.heads", QK__KEY_READ, .read = set_collage_heads},
    {"figures.collage.max_points", QK__KEY_INT64, AT(collage.max_points),
     .whole = {0, INT64_MAX}},
};

/* ---- loading --------------------------------------------------------------------------- */

/* What a study file is silent about. */
static void set_defaults(qk_plan *plan)
{
    qk_figure_settings figures;
    qk_figure_settings_default(&figures);
    qk__config_init(&plan->config);
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
    if (!config->parallel)
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
    QK_TRY(qk__read_settings(plan->path, &config->tree, err));
    QK_TRY(qk__fingerprint_file(plan->path, &plan->file_bytes, plan->file_hash, err));
    QK_TRY(find_folder(plan, err));
    qk__node root = qk__tree_root(config->tree);
    qk_status status = qk__read_keys(&root, QK__KEYS(KEYS), plan, err);
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
