/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a study file: models, analyses, figures. */
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "figure/figure_settings.h"
#include "paths/path_kind.h"
#include "settings/settings.h"
#include "study/study.h"

enum { MAX_PANELS = 16, MAX_RANDOM_HEADS = 1024 };

/* ---- paths ------------------------------------------------------------------------------ */

/* The folder of a file, "./a" rather than "a". */
static qk_status find_folder(qk_study *plan, qk_error *err)
{
    const char *slash = strrchr(plan->path, '/');
    qk__buffer folder = {0};
    qk_status status =
        !slash ? qk__buffer_printf(&folder, err, ".")
               : qk__buffer_printf(&folder, err, "%s%.*s", *plan->path == '/' ? "" : "./",
                                   (int)(slash == plan->path ? 1 : slash - plan->path),
                                   plan->path);
    plan->folder = (char *)folder.data;
    return status;
}

/* ---- what stands in the file ------------------------------------------------------------ */

static qk_status set_scores(void *target, const qk__node *value, const qk__key *key,
                            qk_error *err)
{
    qk_study *plan = target;
    const char *path;
    (void)key;
    QK_TRY(qk__read_text(value, NULL, &path, err));
    return qk__study_resolve(plan, path, &plan->scores, err);
}

static const qk__key KEYS[] = {
    {"models", QK__KEY_READ, .read = qk__study_set_models},
    {"scores", QK__KEY_READ, .read = set_scores},
};

#define AT(member) QK_SETTING_AT(qk_study, member)

static const qk_setting ROWS[] = {
    {.type = QK_SETTING_TEXT, AT(title), .text = "", .yaml = "title"},
    {.type = QK_SETTING_TEXT, AT(score_metric), .yaml = "score_metric"},
    {.type = QK_SETTING_TEXT, AT(score_column), .yaml = "score_column"},
    QK_SETTING_PART(qk_study, figures, qk__figure_settings_table),
    {.type = QK_SETTING_INTEGER,
     AT(collage.rows),
     .number = 2,
     .min = 1,
     .max = MAX_PANELS,
     .yaml = "figures.collage.rows"},
    {.type = QK_SETTING_INTEGER,
     AT(collage.columns),
     .number = 2,
     .min = 1,
     .max = MAX_PANELS,
     .yaml = "figures.collage.columns"},
    {.type = QK_SETTING_INTEGER,
     AT(collage.seed),
     .number = 42,
     .yaml = "figures.collage.seed"},
    {.type = QK_SETTING_INTEGER,
     AT(collage.random),
     .min = 1,
     .max = MAX_RANDOM_HEADS,
     .yaml = "figures.collage.random"},
    {.type = QK_SETTING_HEADS, AT(collage.heads), .yaml = "figures.collage.heads"},
    {.type = QK_SETTING_INTEGER,
     AT(collage.max_points),
     .number = QK_SCATTER_FEW_POINTS,
     .min = 0,
     .max = 1e15,
     .yaml = "figures.collage.max_points"},
    QK_SETTING_PART(qk_study, config.settings, qk_analysis_settings_table),
};

static const qk_settings_table TABLE = {QK_SETTINGS_ROWS(qk_study, ROWS)};

/* ---- loading ---------------------------------------------------------------------------- */

/* The settings that a study file leaves open. */
static void set_defaults(qk_study *plan)
{
    qk_settings_default(&TABLE, plan);
    plan->config.parallel = true;
    plan->config.settings.analyses =
        QK_ANALYSE_PCA | QK_ANALYSE_ROTATION | QK_ANALYSE_PLASTICITY | QK_ANALYSE_ATTENTION;
    plan->config.settings.lda = true; /* how well queries and keys separate: a headline */
}

/* Gives each model what all share, whatever the order in the file. */
static qk_status share_settings(qk_study *plan, qk_error *err)
{
    qk_config *config = &plan->config;
    if (plan->num_models == 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "models is missing");
    if (!config->settings.combined)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "analysis.combined: a study takes queries and keys together");
    if (plan->collage.random && plan->collage.heads.count > 0)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "figures.collage: give random or heads, not both");
    if (!config->parallel)
        config->settings.context.threads = 1;
    for (size_t i = 0; i < plan->num_models; i++) {
        qk_study_model *model = &plan->models[i];
        qk_analysis_settings own = model->settings;
        own.model_name = model->name;
        model->settings = config->settings;
        qk__settings_copy(&qk_analysis_settings_table, &model->settings, &own,
                          QK_SETTING_PER_CAPTURE);
        if (plan->folders[i]) /* a folder stays where it is */
            model->settings.local_root = NULL;
    }
    return QK_OK;
}

static qk_status load_study_file(qk_study *plan, qk_error *err)
{
    qk_config *config = &plan->config;
    QK_TRY(qk__read_settings(plan->path, &config->tree, err));
    QK_TRY(qk__fingerprint_file(plan->path, &plan->file_bytes, plan->file_hash, err));
    QK_TRY(find_folder(plan, err));
    qk__keys more = QK__KEYS(KEYS);
    more.hidden = QK_SETTING_PER_CAPTURE;
    qk_status status = qk__config_read(config, &TABLE, 0, more, err);
    if (status == QK_OK && config->settings.local_root) {
        status = qk__study_resolve(plan, config->settings.local_root, &plan->local_root, err);
        config->settings.local_root = plan->local_root;
    }
    if (status == QK_OK)
        status = share_settings(plan, err);
    return status == QK_OK ? status : qk__context(err, status, "%s", plan->path);
}

qk_status qk_study_load(qk_study **plan, const char *path, qk_error *err)
{
    QK_NEED(err, plan);
    *plan = NULL;
    QK_NEED(err, path);
    qk_study *loaded = calloc(1, sizeof *loaded);
    if (!loaded)
        return qk__nomem(err);
    set_defaults(loaded);
    loaded->path = qk__strdup(path);
    qk_status status = loaded->path ? load_study_file(loaded, err) : qk__nomem(err);
    if (status != QK_OK) {
        qk_study_free(&loaded);
        status = qk__path_tell(path, QK__PATH_STUDY_FILE, status, err);
    }
    *plan = loaded;
    return status;
}

void qk_study_free(qk_study **plan)
{
    assert(plan);
    qk_study *p = *plan;
    if (!p)
        return;
    qk_head_set_free(&p->collage.heads);
    qk__strings_free(p->sources, p->num_models);
    qk__strings_free(p->folders, p->num_models);
    free(p->models);
    free(p->scores);
    free(p->local_root);
    free(p->folder);
    free(p->path);
    qk__config_release(&p->config);
    free(p);
    *plan = NULL;
}

const char *qk_study_title(const qk_study *plan)
{
    assert(plan);
    return plan->title;
}

size_t qk_study_num_models(const qk_study *plan)
{
    assert(plan);
    return plan->num_models;
}

const qk_study_model *qk_study_get(const qk_study *plan, size_t i)
{
    assert(plan && i < plan->num_models);
    return &plan->models[i];
}
