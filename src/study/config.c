/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: YAML keys to qk_study_settings, by one table. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/study.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/expand.h"
#include "base/file.h"
#include "study/index_list.h"
#include "study/spelling.h"
#include "study/yaml_node.h"

/* A configuration is a page of text. */
enum { MAX_CONFIG_BYTES = 256 << 10 };
enum { MAX_NOTES = 16, MAX_THREADS = 4096, MAX_COMPONENTS = 4096 };

/* settings' strings point into document, which lives as long as the config. */
struct qk_config {
    yaml_document_t document;
    bool has_document;
    qk_study_settings settings;
    char *notes[MAX_NOTES];
    size_t num_notes;
    bool kinds_given;
    bool parallel_off;
};

/* Reads one value: `key` is its full name, for messages. */
typedef qk_status set_fn(qk_config *config, const yaml_node_t *node, const char *key,
                         qk_error *err);

static qk_status note(qk_config *config, qk_error *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static qk_status note(qk_config *config, qk_error *err, const char *fmt, ...)
{
    char text[200];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (config->num_notes == MAX_NOTES)
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

static qk_status set_int(const yaml_node_t *node, const char *key, int min, int max, int *value,
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
    return set_int(node, key, 1, INT_MAX, &config->settings.sample_heads, err);
}

static qk_status set_seed(qk_config *config, const yaml_node_t *node, const char *key,
                          qk_error *err)
{
    return qk__yaml_int(node, key, INT64_MIN, INT64_MAX, &config->settings.seed, err);
}

static qk_status set_group(qk_config *config, const yaml_node_t *node, const char *key,
                           qk_error *err)
{
    return set_int(node, key, 1, QK_MAX_INDEX, &config->settings.q_per_kv_group, err);
}

static qk_status set_components(qk_config *config, const yaml_node_t *node, const char *key,
                                qk_error *err)
{
    return set_int(node, key, 1, MAX_COMPONENTS, &config->settings.pca.components, err);
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
    return qk__yaml_decimal(node, key, 99.999999, &config->settings.ci, err);
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
    return set_int(node, key, 0, MAX_COMPONENTS / 2, &config->settings.rotation.planes, err);
}

static qk_status set_variance(qk_config *config, const yaml_node_t *node, const char *key,
                              qk_error *err)
{
    bool full;
    QK_TRY(set_choice(node, key, "diag", "full", &full, err));
    config->settings.plasticity.variance = full ? QK_VARIANCE_FULL : QK_VARIANCE_DIAG;
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
    return set_int(node, key, 1, MAX_THREADS, &config->settings.threads, err);
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
        QK_TRY(set_int(yaml_document_get_node(&config->document, *item), key, 0, QK_MAX_INDEX,
                       &value, err));
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

/* ---- the table ----------------------------------------------------------------------- */

/* A row without a function is a section: what lies in it has "section." before its name. */
static const struct {
    const char *name;
    set_fn *set;
} KEYS[] = {
    {"data", NULL},
    {"data.dataset_name", set_dataset},
    {"data.revision", set_revision},
    {"data.local_root", set_local_root},
    {"data.split", set_split},
    {"data.kinds", set_kinds},
    {"data.layers", set_layers},
    {"data.heads", set_heads},
    {"data.max_samples", set_max_samples},
    {"data.sample_heads", set_sample_heads},
    {"data.seed", set_seed},
    {"data.q_per_kv_group", set_group},
    {"pca", NULL},
    {"pca.n_components", set_components},
    {"pca.backend", set_pca_backend},
    {"analysis", NULL},
    {"analysis.correlation_threshold", set_threshold},
    {"analysis.combined", set_combined},
    {"analysis.ci", set_ci},
    {"analysis.ci_refit", set_ci_refit},
    {"analysis.parallel", NULL},
    {"analysis.parallel.enabled", set_parallel},
    {"analysis.parallel.max_workers", set_threads},
    {"analysis.parallel.backend", ignore},
    {"rotation", NULL},
    {"rotation.b_axis", set_b_axis},
    {"rotation.complement_pairs", set_planes},
    {"plasticity", NULL},
    {"plasticity.variance", set_variance},
    {"plasticity.max_pairs", set_max_pairs},
    {"plasticity.bucket_width", set_bucket_width},
    {"plasticity.ks_alpha", set_ks_alpha},
    {"output", NULL},
    {"output.results_dir", set_results_dir},
    {"output.model_name", set_model_name},
    {"device", ignore},
};
enum { NUM_KEYS = sizeof KEYS / sizeof KEYS[0], MAX_KEY = QK_MAX_WORD };

static int find_key(const char *name)
{
    for (int i = 0; i < NUM_KEYS; i++)
        if (strcmp(KEYS[i].name, name) == 0)
            return i;
    return -1;
}

/* The known key that a wrong one most likely means: the same name in another section, or
 * one a few letters off. */
static const char *nearest_key(const char *name)
{
    const char *nearest = NULL;
    int least = 4;
    const char *dot = strrchr(name, '.');
    const char *last = dot ? dot + 1 : name;
    for (int i = 0; i < NUM_KEYS; i++) {
        dot = strrchr(KEYS[i].name, '.');
        if (strcmp(dot ? dot + 1 : KEYS[i].name, last) == 0)
            return KEYS[i].name;
        int distance = qk__edit_distance(name, KEYS[i].name);
        if (distance < least) {
            least = distance;
            nearest = KEYS[i].name;
        }
    }
    return nearest;
}

static qk_status fail_unknown(const yaml_node_t *node, const char *name, qk_error *err)
{
    const char *nearest = nearest_key(name);
    return qk__fail(err, QK_ERR_ARGUMENT, "line %llu: unknown key %s%s%s%s",
                    qk__yaml_line(node), name, nearest ? " (did you mean " : "",
                    nearest ? nearest : "", nearest ? "?)" : "");
}

/* Sections nest as deep as the table does, so this recursion ends. */
static qk_status read_section(qk_config *config, const yaml_node_t *node, const char *section,
                              qk_error *err)
{
    if (node->type != YAML_MAPPING_NODE)
        return qk__fail(err, QK_ERR_ARGUMENT, "line %llu: %s: expected keys and values",
                        qk__yaml_line(node), *section ? section : "the file");
    bool seen[NUM_KEYS] = {false};
    yaml_node_pair_t *pair = node->data.mapping.pairs.start;
    for (; pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(&config->document, pair->key);
        const yaml_node_t *value = yaml_document_get_node(&config->document, pair->value);
        const char *text = qk__yaml_text(key);
        char name[MAX_KEY];
        int length = snprintf(name, sizeof name, "%s%s%s", section, *section ? "." : "",
                              text ? text : "that is no text");
        int k = length < (int)sizeof name && text ? find_key(name) : -1;
        if (k < 0)
            return fail_unknown(key, name, err);
        if (seen[k])
            return qk__fail(err, QK_ERR_ARGUMENT, "line %llu: %s is given twice",
                            qk__yaml_line(key), name);
        seen[k] = true;
        if (qk__yaml_is_null(value))
            continue;
        QK_TRY(KEYS[k].set ? KEYS[k].set(config, value, name, err)
                           : read_section(config, value, name, err));
    }
    return QK_OK;
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
    qk_buffer raw;
    qk_buffer text = {0};
    QK_TRY(qk__read_file(path, MAX_CONFIG_BYTES, &raw, err));
    qk_status status =
        qk__expand_variables((const char *)raw.data, raw.size, MAX_CONFIG_BYTES, &text, err);
    if (status == QK_OK)
        status = qk__yaml_parse(&text, &config->document, err);
    config->has_document = status == QK_OK;
    if (status == QK_OK)
        status = read_section(config, yaml_document_get_root_node(&config->document), "", err);
    if (status == QK_OK)
        status = finish(config, err);
    if (status != QK_OK)
        qk__context(err, status, "%s", path);
    qk__buffer_free(&raw);
    qk__buffer_free(&text);
    return status;
}

qk_status qk_config_load(qk_config **config, const char *path, qk_error *err)
{
    *config = NULL;
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

void qk_config_free(qk_config **config)
{
    qk_config *c = *config;
    if (!c)
        return;
    if (c->has_document)
        yaml_document_delete(&c->document);
    qk_index_list_free(&c->settings.layers);
    qk_index_list_free(&c->settings.heads);
    for (size_t i = 0; i < c->num_notes; i++)
        free(c->notes[i]);
    free(c);
    *config = NULL;
}

const qk_study_settings *qk_config_settings(const qk_config *config)
{
    return &config->settings;
}

size_t qk_config_num_notes(const qk_config *config)
{
    return config->num_notes;
}

const char *qk_config_note(const qk_config *config, size_t i)
{
    return config->notes[i];
}
