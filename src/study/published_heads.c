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

/* The original takes less than one for one. */
static qk_status set_workers(void *target, const qk__node *value, const qk__key *key,
                             qk_error *err)
{
    int *workers = &((qk_heads_settings *)target)->max_workers;
    (void)key;
    QK_TRY(qk__read_int(value, NULL, INT_MIN, MAX_THREADS, workers, err));
    *workers = *workers < 1 ? 1 : *workers;
    return QK_OK;
}

#define AT(field) .at = offsetof(qk_heads_settings, field)
static const qk__key KEYS[] = {
    {"model_dir", QK__KEY_TEXT, AT(model_dir)},
    {"dataset_name", QK__KEY_TEXT, AT(dataset_name)},
    {"dataset_cache_dir", QK__KEY_TEXT, AT(dataset_cache_dir)},
    {"dataset_local_root", QK__KEY_TEXT, AT(dataset_local_root)},
    {"download_max_workers", QK__KEY_INT, AT(download_max_workers), .whole = {1, INT_MAX}},
    {"num_layers", QK__KEY_INT, AT(num_layers), .whole = {1, QK_MAX_INDEX}},
    {"num_q_heads", QK__KEY_INT, AT(num_q_heads), .whole = {1, QK_MAX_INDEX}},
    {"num_k_heads", QK__KEY_INT, AT(num_k_heads), .whole = {1, QK_MAX_INDEX}},
    {"max_tokens_per_head", QK__KEY_INT64, AT(max_tokens_per_head), .whole = {1, INT64_MAX}},
    {"normality_max_dims", QK__KEY_INT, AT(normality_max_dims), .whole = {1, MAX_DIMS}},
    {"p_alpha", QK__KEY_REAL, AT(p_alpha), .real = {0, 1}},
    {"output_csv", QK__KEY_TEXT, AT(output_csv)},
    {"bucket_csv", QK__KEY_TEXT, AT(bucket_csv)},
    {"component_csv", QK__KEY_TEXT, AT(component_csv)},
    {"seed", QK__KEY_INT64, AT(seed), .whole = {0, UINT32_MAX}},
    {"max_workers", QK__KEY_READ, .read = set_workers},
};

qk_status qk_published_load_heads(qk_published **file, const char *path,
                                  qk_heads_settings *settings, qk_error *err)
{
    QK_NEED(err, file);
    *file = NULL;
    QK_NEED(err, path, settings);
    qk_heads_settings_default(settings);
    qk_status status = qk__published_read(file, path, QK__KEYS(KEYS), settings, err);
    qk_config *other = NULL;
    if (status == QK_ERR_ARGUMENT && qk_config_load(&other, path, NULL) == QK_OK)
        status = qk__fail(err, status,
                          "%s: settings of another command: qkscope analyze --config %s", path,
                          path);
    qk_config_free(&other);
    QK_TRY(status);
    /* Everywhere else null is "not given"; here it is "no limit". */
    qk__node root = qk__tree_root((*file)->tree);
    qk__node limit = qk__node_member(&root, "max_tokens_per_head");
    if (qk__node_kind_of(&limit) == QK__NULL)
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
