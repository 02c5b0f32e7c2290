/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: YAML keys to qk_study_settings, by one table. */
#include "study/config.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "study/index_list.h"

enum { MAX_THREADS = 4096, MAX_COMPONENTS = 4096 };

/* ---- keys of their own kind ---- */

static qk_status set_ci(void *target, const qk__node *value, const qk__key *key, qk_error *err)
{
    (void)key;
    qk_config *config = target;
    double *ci = &config->settings.ci;
    QK_TRY(qk__read_real(value, NULL, 0, 99.999999, ci, err));
    if (*ci > 0 && *ci < 1)
        return qk__fail_at(value, err, QK_ERR_ARGUMENT, "%g is a percentage; did you mean %g?",
                           *ci, 100 * *ci);
    return QK_OK;
}

static qk_status set_buckets(void *target, const qk__node *value, const qk__key *key,
                             qk_error *err)
{
    static const char *const CAPTURE[] = {"capture", NULL};
    qk_config *config = target;
    int word;
    (void)key;
    if (qk__read_word(value, NULL, CAPTURE, &word, NULL) != QK_OK)
        return qk__read_int(value, NULL, 2, QK_MAX_BUCKETS, &config->settings.buckets, err);
    config->settings.buckets = QK_BUCKETS_CAPTURE;
    return QK_OK;
}

static qk_status fail_empty(const qk__node *value, qk_error *err)
{
    return qk__fail_at(value, err, QK_ERR_ARGUMENT, "an empty list; write null for all");
}

static qk_status set_kinds(void *target, const qk__node *value, const qk__key *key,
                           qk_error *err)
{
    static const char *const NAMES[] = {"q", "k", NULL};
    static const unsigned KINDS[] = {QK_KINDS_Q, QK_KINDS_K};
    qk_config *config = target;
    unsigned kinds = 0;
    (void)key;
    for (size_t i = 0; i < qk__node_count(value); i++) {
        qk__node item = qk__node_item(value, i);
        int kind = -1;
        QK_TRY(qk__read_word(&item, NULL, NAMES, &kind, err));
        if (kind < 0)
            return qk__fail_expected(&item, "q or k", err);
        kinds |= KINDS[kind];
    }
    if (kinds == 0)
        return fail_empty(value, err);
    config->settings.kinds = (qk_kinds)kinds;
    config->kinds_given = true;
    return QK_OK;
}

qk_status qk__config_indices(const qk__node *list, qk_index_list *indices, qk_error *err)
{
    for (size_t i = 0; i < qk__node_count(list); i++) {
        qk__node item = qk__node_item(list, i);
        int index = -1;
        QK_TRY(qk__read_int(&item, NULL, 0, QK_MAX_INDEX, &index, err));
        if (index < 0)
            return qk__fail_expected(&item, "a whole number", err);
        QK_TRY(qk__index_list_add(indices, index, index, err));
    }
    qk__index_list_sort(indices);
    return QK_OK;
}

/* A list of numbers, or text as the command line takes it: 3 or "0,2,5-9". */
static qk_status set_indices(void *target, const qk__node *value, const qk__key *key,
                             qk_error *err)
{
    qk_index_list *list = (void *)((char *)target + key->at);
    const char *text = NULL;
    if (qk__node_kind_of(value) == QK__LIST)
        return qk__node_count(value) > 0 ? qk__config_indices(value, list, err)
                                         : fail_empty(value, err);
    QK_TRY(qk__read_text(value, NULL, &text, err));
    return qk__context_at(value, err, qk_index_list_parse(text, list, err));
}

static qk_status set_backend(void *target, const qk__node *value, const qk__key *key,
                             qk_error *err)
{
    static const char *const NAMES[] = {"sklearn", "torch", NULL};
    qk_config *config = target;
    int name = 0;
    QK_TRY(qk__read_word(value, NULL, NAMES, &name, err));
    config->settings.pca_backend = NAMES[name];
    return qk__tree_note(value->tree, err, "%s: %s has no effect: qkscope has one exact solver",
                         key->name, NAMES[name]);
}

static qk_status set_device(void *target, const qk__node *value, const qk__key *key,
                            qk_error *err)
{
    qk_config *config = target;
    QK_TRY(qk__read_text(value, NULL, &config->settings.device, err));
    return qk__tree_note(value->tree, err, "%s: %.60s has no effect", key->name,
                         config->settings.device);
}

/* ---- the table ---- */

enum { ONE_CAPTURE = 1 }; /* not in a study, which has many */

#define AT(field) .at = offsetof(qk_config, field)
static const char *const B_AXES[] = {
    [QK_B_PAIRS] = "pairs", [QK_B_CENTROID] = "centroid", NULL};
static const char *const CONVENTIONS[] = {
    [QK_CONVENTION_EXACT] = "exact", [QK_CONVENTION_PUBLISHED] = "published", NULL};
static const char *const VARIANCES[] = {
    [QK_VARIANCE_DIAG] = "diag", [QK_VARIANCE_FULL] = "full", NULL};

static const qk__key KEYS[] = {
    {.name = "data"},
    {"data.dataset_name", QK__KEY_TEXT, AT(settings.capture), .only = ONE_CAPTURE},
    {"data.revision", QK__KEY_TEXT, AT(settings.revision), .only = ONE_CAPTURE},
    {"data.local_root", QK__KEY_TEXT, AT(settings.local_root)},
    {"data.split", QK__KEY_TEXT, AT(settings.prefix), .only = ONE_CAPTURE},
    {"data.kinds", QK__KEY_READ, .read = set_kinds, .only = ONE_CAPTURE},
    {"data.layers", QK__KEY_READ, AT(settings.layers), .read = set_indices},
    {"data.heads", QK__KEY_READ, AT(settings.heads), .read = set_indices},
    {"data.max_samples", QK__KEY_INT64, AT(settings.max_samples), .whole = {1, INT64_MAX}},
    {"data.sample_heads", QK__KEY_INT, AT(settings.sample_heads), .whole = {1, INT_MAX}},
    {"data.seed", QK__KEY_INT64, AT(settings.seed), .whole = {INT64_MIN, INT64_MAX}},
    {"data.q_per_kv_group", QK__KEY_INT, AT(settings.q_per_kv_group),
     .whole = {1, QK_MAX_INDEX}, .only = ONE_CAPTURE},
    {.name = "pca"},
    {"pca.n_components", QK__KEY_INT, AT(settings.pca.components),
     .whole = {1, MAX_COMPONENTS}},
    {"pca.lda", QK__KEY_BOOL, AT(settings.lda)},
    {"pca.backend", QK__KEY_READ, .read = set_backend},
    {.name = "analysis"},
    {"analysis.correlation_threshold", QK__KEY_REAL, AT(settings.correlation_threshold),
     .real = {0, 1}},
    {"analysis.combined", QK__KEY_BOOL, AT(settings.combined)},
    {"analysis.ci", QK__KEY_READ, .read = set_ci},
    {"analysis.ci_refit", QK__KEY_BOOL, AT(settings.ci_refit)},
    {.name = "analysis.parallel"},
    {"analysis.parallel.enabled", QK__KEY_BOOL, AT(parallel)},
    {"analysis.parallel.max_workers", QK__KEY_INT, AT(settings.threads),
     .whole = {1, MAX_THREADS}},
    {"analysis.parallel.backend", .type = QK__KEY_IGNORED},
    {.name = "rotation"},
    {"rotation.b_axis", QK__KEY_WORD, AT(settings.rotation.b_axis), .words = B_AXES},
    {"rotation.complement_pairs", QK__KEY_INT, AT(settings.rotation.planes),
     .whole = {0, MAX_COMPONENTS / 2}},
    {.name = "plasticity"},
    {"plasticity.convention", QK__KEY_WORD, AT(settings.plasticity.convention),
     .words = CONVENTIONS},
    {"plasticity.variance", QK__KEY_WORD, AT(settings.plasticity.variance), .words = VARIANCES},
    {"plasticity.max_pairs", QK__KEY_INT64, AT(settings.plasticity.max_pairs),
     .whole = {0, INT64_MAX}},
    {"plasticity.bucket_width", QK__KEY_REAL, AT(settings.plasticity.bucket_width),
     .real = {0, 1e12}},
    {"plasticity.ks_alpha", QK__KEY_REAL, AT(settings.plasticity.ks_alpha), .real = {0, 1}},
    {"plasticity.buckets", QK__KEY_READ, .read = set_buckets},
    {"output", .only = ONE_CAPTURE},
    {"output.results_dir", QK__KEY_TEXT, AT(settings.output), .only = ONE_CAPTURE},
    {"output.model_name", QK__KEY_TEXT, AT(settings.model_name), .only = ONE_CAPTURE},
    {"device", QK__KEY_READ, .read = set_device, .only = ONE_CAPTURE},
};

qk_status qk__config_section(qk_config *config, const qk__node *section, qk_error *err)
{
    qk__keys keys = QK__KEYS(KEYS);
    keys.hidden = ONE_CAPTURE;
    return qk__read_keys(section, keys, config, err);
}

/* ---- loading ---- */

static qk_status finish(qk_config *config, qk_error *err)
{
    qk_study_settings *settings = &config->settings;
    if (!settings->capture)
        return qk__fail(err, QK_ERR_ARGUMENT, "data.dataset_name is missing");
    if (!config->parallel)
        settings->threads = 1;
    if (settings->combined && config->kinds_given)
        return qk__tree_note(config->tree, err,
                             "data.kinds has no effect: analysis.combined takes both kinds");
    return QK_OK;
}

static qk_status load(qk_config *config, const char *path, qk_error *err)
{
    QK_TRY(qk__read_settings(path, &config->tree, err));
    qk__node root = qk__tree_root(config->tree);
    qk_status status = qk__read_keys(&root, QK__KEYS(KEYS), config, err);
    if (status == QK_OK)
        status = finish(config, err);
    if (status != QK_OK)
        qk__context(err, status, "%s", path);
    return status;
}

void qk__config_init(qk_config *config)
{
    *config = (qk_config){.parallel = true};
    qk_study_settings_default(&config->settings);
}

qk_status qk_config_load(qk_config **config, const char *path, qk_error *err)
{
    QK_NEED(err, config);
    *config = NULL;
    QK_NEED(err, path);
    qk_config *loaded = malloc(sizeof *loaded);
    if (!loaded)
        return qk__nomem(err);
    qk__config_init(loaded);
    /* What the original tool does where its file is silent. */
    loaded->settings.combined = false;
    loaded->settings.output = "results";
    qk_status status = load(loaded, path, err);
    if (status != QK_OK)
        qk_config_free(&loaded);
    *config = loaded;
    return status;
}

void qk__config_release(qk_config *config)
{
    qk__tree_free(&config->tree);
    qk_index_list_free(&config->settings.layers);
    qk_index_list_free(&config->settings.heads);
}

void qk_config_free(qk_config **config)
{
    assert(config);
    if (!*config)
        return;
    qk__config_release(*config);
    free(*config);
    *config = NULL;
}

const qk_study_settings *qk_config_settings(const qk_config *config)
{
    assert(config);
    return &config->settings;
}

size_t qk_config_num_notes(const qk_config *config)
{
    assert(config);
    return qk__tree_num_notes(config->tree);
}

const char *qk_config_note(const qk_config *config, size_t i)
{
    assert(config && i < qk__tree_num_notes(config->tree));
    return qk__tree_get_note(config->tree, i);
}
