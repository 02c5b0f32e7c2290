/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: YAML keys to qk_study_settings, by one table. */
#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "study/config.h"
#include "study/index_list.h"

enum { MAX_THREADS = 4096, MAX_COMPONENTS = 4096 };

static qk_status note(qk_config *config, qk_error *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static qk_status note(qk_config *config, qk_error *err, const char *fmt, ...)
{
    char text[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (config->num_notes == QK__MAX_NOTES)
        return QK_OK;
    char *copy = qk__strdup(text);
    if (!copy)
        return qk__nomem(err);
    config->notes[config->num_notes++] = copy;
    return QK_OK;
}

/* ---- one function per kind of key -------------------------------------------------- */

static qk_status set_dataset(qk_config *config, const yaml_node_t *node, const char *key,
                             qk_error *err)
{
    return qk__yaml_string(node, key, &config->settings.capture, err);
}

static qk_status set_revision(qk_config *config, const yaml_node_t *node, const char *key,
                              qk_error *err)
{
    return qk__yaml_string(node, key, &config->settings.revision, err);
}

static qk_status set_local_root(qk_config *config, const yaml_node_t *node, const char *key,
                                qk_error *err)
{
    return qk__yaml_string(node, key, &config->settings.local_root, err);
}

static qk_status set_split(qk_config *config, const yaml_node_t *node, const char *key,
                           qk_error *err)
{
    return qk__yaml_string(node, key, &config->settings.prefix, err);
}

static qk_status set_results_dir(qk_config *config, const yaml_node_t *node, const char *key,
                                 qk_error *err)
{
    return qk__yaml_string(node, key, &config->settings.output, err);
}

static qk_status set_model_name(qk_config *config, const yaml_node_t *node, const char *key,
                                qk_error *err)
{
    return qk__yaml_string(node, key, &config->settings.model_name, err);
}

qk_status qk__config_int(const yaml_node_t *node, const char *key, int min, int max, int *value,
                         qk_error *err)
{
    int64_t wide;
    QK_TRY(qk__yaml_int(node, key, min, max, &wide, err));
    *value = (int)wide;
    return QK_OK;
}

static qk_status set_max_samples(qk_config *config, const yaml_node_t *node, const char *key,
                                 qk_error *err)
{
    return qk__yaml_int(node, key, 1, INT64_MAX, &config->settings.max_samples, err);
}

static qk_status set_sample_heads(qk_config *config, const yaml_node_t *node, const char *key,
                                  qk_error *err)
{
    return qk__config_int(node, key, 1, INT_MAX, &config->settings.sample_heads, err);
}

static qk_status set_seed(qk_config *config, const yaml_node_t *node, const char *key,
                          qk_error *err)
{
    return qk__yaml_int(node, key, INT64_MIN, INT64_MAX, &config->settings.seed, err);
}

static qk_status set_group(qk_config *config, const yaml_node_t *node, const char *key,
                           qk_error *err)
{
    return qk__config_int(node, key, 1, QK_MAX_INDEX, &config->settings.q_per_kv_group, err);
}

static qk_status set_components(qk_config *config, const yaml_node_t *node, const char *key,
                                qk_error *err)
{
    return qk__config_int(node, key, 1, MAX_COMPONENTS, &config->settings.pca.components, err);
}

static qk_status set_lda(qk_config *config, const yaml_node_t *node, const char *key,
                         qk_error *err)
{
    return qk__yaml_bool(node, key, &config->settings.lda, err);
}

static qk_status set_threshold(qk_config *config, const yaml_node_t *node, const char *key,
                               qk_error *err)
{
    return qk__yaml_decimal(node, key, 1, &config->settings.correlation_threshold, err);
}

static qk_status set_combined(qk_config *config, const yaml_node_t *node, const char *key,
                              qk_error *err)
{
    return qk__yaml_bool(node, key, &config->settings.combined, err);
}

static qk_status set_ci(qk_config *config, const yaml_node_t *node, const char *key,
                        qk_error *err)
{
    double *ci = &config->settings.ci;
    QK_TRY(qk__yaml_decimal(node, key, 99.999999, ci, err));
    if (*ci > 0 && *ci < 1)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "line %llu: %s: %g is a percentage; did you mean %g?",
                        qk__yaml_line(node), key, *ci, 100 * *ci);
    return QK_OK;
}

static qk_status set_ci_refit(qk_config *config, const yaml_node_t *node, const char *key,
                              qk_error *err)
{
    return qk__yaml_bool(node, key, &config->settings.ci_refit, err);
}

/* One of two words. */
static qk_status set_choice(const yaml_node_t *node, const char *key, const char *first,
                            const char *second, bool *is_second, qk_error *err)
{
    const char *text;
    QK_TRY(qk__yaml_string(node, key, &text, err));
    *is_second = strcmp(text, second) == 0;
    if (*is_second || strcmp(text, first) == 0)
        return QK_OK;
    return qk__fail(err, QK_ERR_ARGUMENT, "line %llu: %s: expected %s or %s, found \"%.60s\"",
                    qk__yaml_line(node), key, first, second, text);
}

static qk_status set_b_axis(qk_config *config, const yaml_node_t *node, const char *key,
                            qk_error *err)
{
    bool centroid;
    QK_TRY(set_choice(node, key, "pairs", "centroid", &centroid, err));
    config->settings.rotation.b_axis = centroid ? QK_B_CENTROID : QK_B_PAIRS;
    return QK_OK;
}

static qk_status set_planes(qk_config *config, const yaml_node_t *node, const char *key,
                            qk_error *err)
{
    return qk__config_int(node, key, 0, MAX_COMPONENTS / 2, &config->settings.rotation.planes,
                          err);
}

static qk_status set_variance(qk_config *config, const yaml_node_t *node, const char *key,
                              qk_error *err)
{
    bool full;
    QK_TRY(set_choice(node, key, "diag", "full", &full, err));
    config->settings.plasticity.variance = full ? QK_VARIANCE_FULL : QK_VARIANCE_DIAG;
    return QK_OK;
}

static qk_status set_convention(qk_config *config, const yaml_node_t *node, const char *key,
                                qk_error *err)
{
    bool published;
    QK_TRY(set_choice(node, key, "exact", "published", &published, err));
    config->settings.plasticity.convention =
        published ? QK_CONVENTION_PUBLISHED : QK_CONVENTION_EXACT;
    return QK_OK;
}

static qk_status set_max_pairs(qk_config *config, const yaml_node_t *node, const char *key,
                               qk_error *err)
{
    return qk__yaml_int(node, key, 0, INT64_MAX, &config->settings.plasticity.max_pairs, err);
}

static qk_status set_bucket_width(qk_config *config, const yaml_node_t *node, const char *key,
                                  qk_error *err)
{
    return qk__yaml_decimal(node, key, 1e12, &config->settings.plasticity.bucket_width, err);
}

static qk_status set_buckets(qk_config *config, const yaml_node_t *node, const char *key,
                             qk_error *err)
{
    const char *text = qk__yaml_text(node);
    if (!text || strcmp(text, "capture") != 0)
        return qk__config_int(node, key, 2, QK_MAX_BUCKETS, &config->settings.buckets, err);
    config->settings.buckets = QK_BUCKETS_CAPTURE;
    return QK_OK;
}

static qk_status set_ks_alpha(qk_config *config, const yaml_node_t *node, const char *key,
                              qk_error *err)
{
    return qk__yaml_decimal(node, key, 1, &config->settings.plasticity.ks_alpha, err);
}

static qk_status set_parallel(qk_config *config, const yaml_node_t *node, const char *key,
                              qk_error *err)
{
    bool enabled;
    QK_TRY(qk__yaml_bool(node, key, &enabled, err));
    config->parallel_off = !enabled;
    return QK_OK;
}

static qk_status set_threads(qk_config *config, const yaml_node_t *node, const char *key,
                             qk_error *err)
{
    return qk__config_int(node, key, 1, MAX_THREADS, &config->settings.threads, err);
}

static qk_status add_kind(const yaml_node_t *node, const char *key, unsigned *kinds,
                          qk_error *err)
{
    const char *text = qk__yaml_text(node);
    if (text && strcmp(text, "q") == 0)
        *kinds |= QK_KINDS_Q;
    else if (text && strcmp(text, "k") == 0)
        *kinds |= QK_KINDS_K;
    else
        return qk__fail(err, QK_ERR_ARGUMENT, "line %llu: %s: expected q or k, found %.60s",
                        qk__yaml_line(node), key, text ? text : "no text");
    return QK_OK;
}

static qk_status fail_empty(const yaml_node_t *node, const char *key, qk_error *err)
{
    return qk__fail(err, QK_ERR_ARGUMENT, "line %llu: %s: an empty list; write null for all",
                    qk__yaml_line(node), key);
}

static qk_status set_kinds(qk_config *config, const yaml_node_t *node, const char *key,
                           qk_error *err)
{
    unsigned kinds = 0;
    if (node->type != YAML_SEQUENCE_NODE) {
        QK_TRY(add_kind(node, key, &kinds, err));
    } else {
        yaml_node_item_t *item = node->data.sequence.items.start;
        for (; item < node->data.sequence.items.top; item++)
            QK_TRY(
                add_kind(yaml_document_get_node(&config->document, *item), key, &kinds, err));
    }
    if (kinds == 0)
        return fail_empty(node, key, err);
    config->settings.kinds = (qk_kinds)kinds;
    config->kinds_given = true;
    return QK_OK;
}

/* A list of numbers, or text as the command line takes it: 3 or "0,2,5-9". */
static qk_status set_indices(qk_config *config, const yaml_node_t *node, const char *key,
                             qk_index_list *list, qk_error *err)
{
    if (node->type != YAML_SEQUENCE_NODE) {
        const char *text;
        QK_TRY(qk__yaml_string(node, key, &text, err));
        qk_status status = qk_index_list_parse(text, list, err);
        if (status != QK_OK)
            qk__context(err, status, "line %llu: %s", qk__yaml_line(node), key);
        return status;
    }
    yaml_node_item_t *item = node->data.sequence.items.start;
    if (item == node->data.sequence.items.top)
        return fail_empty(node, key, err);
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
    return set_indices(config, node, key, &config->settings.layers, err);
}

static qk_status set_heads(qk_config *config, const yaml_node_t *node, const char *key,
                           qk_error *err)
{
    return set_indices(config, node, key, &config->settings.heads, err);
}

static qk_status set_pca_backend(qk_config *config, const yaml_node_t *node, const char *key,
                                 qk_error *err)
{
    const char *text;
    QK_TRY(qk__yaml_string(node, key, &text, err));
    if (strcmp(text, "sklearn") != 0 && strcmp(text, "torch") != 0)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "line %llu: %s: expected sklearn or torch, found \"%.60s\"",
                        qk__yaml_line(node), key, text);
    config->settings.pca_backend = text;
    return note(config, err, "%s: %.60s has no effect: qkscope has one exact solver", key,
                text);
}

static qk_status ignore(qk_config *config, const yaml_node_t *node, const char *key,
                        qk_error *err)
{
    const char *text;
    QK_TRY(qk__yaml_string(node, key, &text, err));
    return note(config, err, "%s: %.60s has no effect", key, text);
}

static qk_status set_device(qk_config *config, const yaml_node_t *node, const char *key,
                            qk_error *err)
{
    QK_TRY(qk__yaml_string(node, key, &config->settings.device, err));
    return ignore(config, node, key, err);
}

/* ---- the table ----------------------------------------------------------------------- */

static const qk__key KEYS[] = {
    {"data", NULL, false},
    {"data.dataset_name", set_dataset, true},
    {"data.revision", set_revision, true},
    {"data.local_root", set_local_root, false},
    {"data.split", set_split, true},
    {"data.kinds", set_kinds, true},
    {"data.layers", set_layers, false},
    {"data.heads", set_heads, false},
    {"data.max_samples", set_max_samples, false},
    {"data.sample_heads", set_sample_heads, false},
    {"data.seed", set_seed, false},
    {"data.q_per_kv_group", set_group, true},
    {"pca", NULL, false},
    {"pca.n_components", set_components, false},
    {"pca.lda", set_lda, false},
    {"pca.backend", set_pca_backend, false},
    {"analysis", NULL, false},
    {"analysis.correlation_threshold", set_threshold, false},
    {"analysis.combined", set_combined, false},
    {"analysis.ci", set_ci, false},
    {"analysis.ci_refit", set_ci_refit, false},
    {"analysis.parallel", NULL, false},
    {"analysis.parallel.enabled", set_parallel, false},
    {"analysis.parallel.max_workers", set_threads, false},
    {"analysis.parallel.backend", ignore, false},
    {"rotation", NULL, false},
    {"rotation.b_axis", set_b_axis, false},
    {"rotation.complement_pairs", set_planes, false},
    {"plasticity", NULL, false},
    {"plasticity.convention", set_convention, false},
    {"plasticity.variance", set_variance, false},
    {"plasticity.max_pairs", set_max_pairs, false},
    {"plasticity.bucket_width", set_bucket_width, false},
    {"plasticity.ks_alpha", set_ks_alpha, false},
    {"plasticity.buckets", set_buckets, false},
    {"output", NULL, false},
    {"output.results_dir", set_results_dir, false},
    {"output.model_name", set_model_name, false},
    {"device", set_device, false},
};
enum { NUM_KEYS = sizeof KEYS / sizeof KEYS[0] };

qk_status qk__config_section(qk_config *config, const yaml_node_t *node, const char *key,
                             qk_error *err)
{
    return qk__read_keys(config, KEYS, NUM_KEYS, node, key, err);
}

/* ---- loading -------------------------------------------------------------------------- */

static qk_status finish(qk_config *config, qk_error *err)
{
    qk_study_settings *settings = &config->settings;
    if (!settings->capture)
        return qk__fail(err, QK_ERR_ARGUMENT, "data.dataset_name is missing");
    if (config->parallel_off)
        settings->threads = 1;
    if (settings->combined && config->kinds_given)
        return note(config, err,
                    "data.kinds has no effect: analysis.combined takes both kinds");
    return QK_OK;
}

static qk_status load(qk_config *config, const char *path, qk_error *err)
{
    QK_TRY(qk__config_parse(config, path, err));
    qk_status status =
        qk__config_section(config, yaml_document_get_root_node(&config->document), "", err);
    if (status == QK_OK)
        status = finish(config, err);
    if (status != QK_OK)
        qk__context(err, status, "%s", path);
    return status;
}

qk_status qk_config_load(qk_config **config, const char *path, qk_error *err)
{
    QK_NEED(err, config);
    *config = NULL;
    QK_NEED(err, path);
    qk_config *loaded = calloc(1, sizeof *loaded);
    if (!loaded)
        return qk__nomem(err);
    qk_study_settings_default(&loaded->settings);
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
    if (config->has_document)
        yaml_document_delete(&config->document);
    qk_index_list_free(&config->settings.layers);
    qk_index_list_free(&config->settings.heads);
    for (size_t i = 0; i < config->num_notes; i++)
        free(config->notes[i]);
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
    return config->num_notes;
}

const char *qk_config_note(const qk_config *config, size_t i)
{
    assert(config && i < config->num_notes);
    return config->notes[i];
}
