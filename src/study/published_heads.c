/* SPDX-License-Identifier: Apache-2.0 */
/* analyze-heads: its keys, and what they mean for a run. */
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/expand.h"
#include "base/file.h"
#include "study/index_list.h"
#include "study/published.h"

enum { MAX_THREADS = 4096, MAX_DIMS = 4096 };

void qk_heads_settings_default(qk_heads_settings *settings)
{
    assert(settings);
    *settings = (qk_heads_settings){.dataset_name = "viktoroo/sniffed-qk",
                                    .max_tokens_per_head = 50000,
                                    .normality_max_dims = 64,
                                    .p_alpha = 0.01,
                                    .output_csv = "head_metrics.csv",
                                    .bucket_csv = "head_bucket_plasticity.csv",
                                    .component_csv = "head_component_information.csv"};
}

/* ---- keys ------------------------------------------------------------------------------- */

static qk_heads_settings *settings_of(const qk_config *config)
{
    return config->owner;
}

static qk_status set_text(qk_config *config, const yaml_node_t *node, const char *key,
                          qk_error *err)
{
    qk_heads_settings *s = settings_of(config);
    const struct {
        const char *key, **value;
    } PLACES[] = {
        {"model_dir", &s->model_dir},
        {"dataset_name", &s->dataset_name},
        {"dataset_cache_dir", &s->dataset_cache_dir},
        {"dataset_local_root", &s->dataset_local_root},
        {"output_csv", &s->output_csv},
        {"bucket_csv", &s->bucket_csv},
        {"component_csv", &s->component_csv},
    };
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++)
        if (strcmp(key, PLACES[i].key) == 0)
            return qk__yaml_string(node, key, PLACES[i].value, err);
    return qk__fail(err, QK_ERR_ARGUMENT, "%s: no text", key);
}

static qk_status set_count(qk_config *config, const yaml_node_t *node, const char *key,
                           qk_error *err)
{
    qk_heads_settings *s = settings_of(config);
    const struct {
        const char *key;
        int most, *value;
    } PLACES[] = {
        {"num_layers", QK_MAX_INDEX, &s->num_layers},
        {"num_q_heads", QK_MAX_INDEX, &s->num_q_heads},
        {"num_k_heads", QK_MAX_INDEX, &s->num_k_heads},
        {"normality_max_dims", MAX_DIMS, &s->normality_max_dims},
        {"download_max_workers", INT_MAX, &s->download_max_workers},
    };
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++)
        if (strcmp(key, PLACES[i].key) == 0)
            return qk__config_int(node, key, 1, PLACES[i].most, PLACES[i].value, err);
    return qk__fail(err, QK_ERR_ARGUMENT, "%s: no number", key);
}

static qk_status set_tokens(qk_config *config, const yaml_node_t *node, const char *key,
                            qk_error *err)
{
    return qk__yaml_int(node, key, 1, INT64_MAX, &settings_of(config)->max_tokens_per_head,
                        err);
}

static qk_status set_seed(qk_config *config, const yaml_node_t *node, const char *key,
                          qk_error *err)
{
    return qk__yaml_int(node, key, 0, UINT32_MAX, &settings_of(config)->seed, err);
}

static qk_status set_alpha(qk_config *config, const yaml_node_t *node, const char *key,
                           qk_error *err)
{
    return qk__published_real(node, key, 0, 1, &settings_of(config)->p_alpha, err);
}

/* The original takes less than one for one. */
static qk_status set_workers(qk_config *config, const yaml_node_t *node, const char *key,
                             qk_error *err)
{
    int *workers = &settings_of(config)->max_workers;
    QK_TRY(qk__config_int(node, key, INT_MIN, MAX_THREADS, workers, err));
    *workers = *workers < 1 ? 1 : *workers;
    return QK_OK;
}

static const qk__key KEYS[] = {
    {"model_dir", set_text, false},
    {"dataset_name", set_text, false},
    {"dataset_cache_dir", set_text, false},
    {"dataset_local_root", set_text, false},
    {"download_max_workers", set_count, false},
    {"num_layers", set_count, false},
    {"num_q_heads", set_count, false},
    {"num_k_heads", set_count, false},
    {"max_tokens_per_head", set_tokens, false},
    {"normality_max_dims", set_count, false},
    {"p_alpha", set_alpha, false},
    {"output_csv", set_text, false},
    {"bucket_csv", set_text, false},
    {"component_csv", set_text, false},
    {"seed", set_seed, false},
    {"max_workers", set_workers, false},
};

/* Everywhere else null is "not given"; here it is "no limit". */
static bool has_no_limit(qk_config *config)
{
    const yaml_node_t *root = yaml_document_get_root_node(&config->document);
    for (yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top;
         p++) {
        const char *key = qk__yaml_text(yaml_document_get_node(&config->document, p->key));
        if (key && strcmp(key, "max_tokens_per_head") == 0)
            return qk__yaml_is_null(yaml_document_get_node(&config->document, p->value));
    }
    return false;
}

qk_status qk_published_load_heads(qk_published **file, const char *path,
                                  qk_heads_settings *settings, qk_error *err)
{
    QK_NEED(err, file);
    *file = NULL;
    QK_NEED(err, path, settings);
    qk_heads_settings_default(settings);
    qk_status status =
        qk__published_read(file, path, settings, KEYS, sizeof KEYS / sizeof *KEYS, err);
    qk_config *other = NULL;
    if (status == QK_ERR_ARGUMENT && qk_config_load(&other, path, NULL) == QK_OK)
        status = qk__fail(err, status,
                          "%s: settings of another command: qkscope analyze --config %s", path,
                          path);
    qk_config_free(&other);
    QK_TRY(status);
    if (has_no_limit(&(*file)->config))
        settings->max_tokens_per_head = 0;
    return QK_OK;
}

/* ---- running ---------------------------------------------------------------------------- */

static qk_status check(const qk_heads_settings *s, qk_error *err)
{
    const char *missing = !s->model_dir     ? "model_dir"
                          : !s->num_layers  ? "num_layers"
                          : !s->num_q_heads ? "num_q_heads"
                          : !s->num_k_heads ? "num_k_heads"
                                            : NULL;
    if (missing)
        return qk__fail(err, QK_ERR_ARGUMENT, "%s is missing", missing);
    if (s->num_q_heads % s->num_k_heads != 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "num_q_heads %d is no multiple of num_k_heads %d",
                        s->num_q_heads, s->num_k_heads);
    if (strcmp(s->output_csv, s->bucket_csv) == 0 ||
        strcmp(s->output_csv, s->component_csv) == 0 ||
        strcmp(s->bucket_csv, s->component_csv) == 0)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "output_csv, bucket_csv and component_csv must be three files");
    return QK_OK;
}

static qk_status count_to(int count, qk_index_list *list, qk_error *err)
{
    list->items = qk__calloc((size_t)count, sizeof *list->items);
    if (!list->items)
        return qk__nomem(err);
    for (int i = 0; i < count; i++)
        list->items[i] = i;
    list->count = (size_t)count;
    return QK_OK;
}

/* "~/x" as the shell has it. */
static qk_status expand_home(const char *path, char **expanded, qk_error *err)
{
    const char *home = path[0] == '~' && path[1] == '/' ? qk__environment("HOME") : NULL;
    *expanded = home ? qk__path_join(home, path + 2) : qk__strdup(path);
    return *expanded ? QK_OK : qk__nomem(err);
}

static void settle(const qk_heads_settings *s, const qk_published_tables *tables,
                   qk_study_settings *study)
{
    study->analyses = QK_ANALYSE_PLASTICITY;
    study->published_tables = tables;
    study->plasticity.convention = QK_CONVENTION_PUBLISHED;
    study->plasticity.ks_alpha = s->p_alpha;
    study->plasticity.ks_dims = s->normality_max_dims;
    study->buckets = QK_BUCKETS_CAPTURE;
    study->random_rows = s->max_tokens_per_head;
    study->seed = s->seed;
    study->q_per_kv_group = s->num_q_heads / s->num_k_heads;
    study->threads = s->max_workers;
    study->command_line = s->command_line;
    study->notice = s->notice;
    study->progress = s->progress;
    study->user = s->user;
}

qk_status qk_heads_run(const qk_heads_settings *settings, qk_study_report **report,
                       qk_error *err)
{
    QK_NEED(err, report);
    *report = NULL;
    QK_NEED(err, settings);
    const qk_heads_settings *s = settings;
    QK_TRY(check(s, err));
    const qk_published_tables tables = {s->output_csv, s->bucket_csv, s->component_csv};
    bool local = s->dataset_local_root || s->model_dir[0] == '/';
    char *root = NULL, *folder = NULL;
    qk_study_settings study;
    qk_study_settings_default(&study);
    settle(s, &tables, &study);
    qk_status status = QK_OK;
    /* A folder of the cache is searched like any other. */
    const char *given = s->dataset_local_root ? s->dataset_local_root : s->dataset_cache_dir;
    if (given)
        status = expand_home(given, &root, err);
    if (status == QK_OK)
        status = qk__parent_folder(s->output_csv, &folder, err);
    if (status == QK_OK)
        status = count_to(s->num_layers, &study.layers, err);
    if (status == QK_OK)
        status = count_to(s->num_q_heads, &study.heads, err);
    if (status == QK_OK) {
        study.output = folder;
        study.capture = s->model_dir[0] == '/' ? s->model_dir : local ? root : s->dataset_name;
        study.prefix = s->model_dir[0] == '/' ? NULL : s->model_dir;
        study.local_root = local ? NULL : root;
        status = qk_study_run(&study, report, err);
    }
    qk_index_list_free(&study.layers);
    qk_index_list_free(&study.heads);
    free(folder);
    free(root);
    return status;
}
