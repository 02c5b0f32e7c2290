/* SPDX-License-Identifier: Apache-2.0 */
/* analyze-heads, a command of the original tool: its settings, and the run that they mean. */
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/published.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/expand.h"
#include "base/file.h"
#include "settings/head_set.h"
#include "settings/settings.h"

enum { MAX_THREADS = 4096, MAX_DIMS = 4096 };

#define AT(member) QK_SETTING_AT(qk_heads_settings, member)

/* Files have the keys that the options are called by. */
static const qk_setting ROWS[] = {
    {"model_dir", QK_SETTING_PATH, AT(model_dir), .value = "DIR",
     .help = "folder in the dataset that holds the heads", .section = "Input",
     .yaml = "model_dir"},
    {"dataset_name", QK_SETTING_TEXT, AT(dataset_name), .text = "viktoroo/sniffed-qk",
     .value = "NAME", .help = "dataset (org/name) on the Hugging Face Hub", .section = "Input",
     .yaml = "dataset_name"},
    {"dataset_cache_dir", QK_SETTING_PATH, AT(dataset_cache_dir), .value = "DIR",
     .help = "folder of the Hugging Face cache", .section = "Input",
     .yaml = "dataset_cache_dir"},
    {"dataset_local_root", QK_SETTING_PATH, AT(dataset_local_root), .value = "DIR",
     .help = "folder to read instead of the cache", .section = "Input",
     .yaml = "dataset_local_root"},
    {"download_max_workers", QK_SETTING_INTEGER, AT(context.hub_jobs), .min = 1, .max = INT_MAX,
     .value = "N", .help = "fetch so many files at a time (at most 64)", .unset = "4",
     .section = "Input", .yaml = "download_max_workers"},
    {"num_layers", QK_SETTING_INTEGER, AT(num_layers), .min = 1, .max = QK_MAX_INDEX,
     .value = "N", .help = "layers", .section = "Heads and rows", .yaml = "num_layers"},
    {"num_q_heads", QK_SETTING_INTEGER, AT(num_q_heads), .min = 1, .max = QK_MAX_INDEX,
     .value = "N", .help = "query heads a layer", .section = "Heads and rows",
     .yaml = "num_q_heads"},
    {"num_k_heads", QK_SETTING_INTEGER, AT(num_k_heads), .min = 1, .max = QK_MAX_INDEX,
     .value = "N", .help = "key heads a layer", .section = "Heads and rows",
     .yaml = "num_k_heads"},
    {"max_tokens_per_head", QK_SETTING_INTEGER, AT(max_tokens_per_head), .number = 50000,
     .min = 0, .max = 1e15, .value = "N", .unit = "rows",
     .help = "largest number of rows per head and kind; of more, so many are drawn; 0: all",
     .section = "Heads and rows", .yaml = "max_tokens_per_head"},
    {"seed", QK_SETTING_INTEGER, AT(seed), .min = 0, .max = UINT32_MAX, .value = "S",
     .help = "seed of the draws", .unset = "0", .section = "Heads and rows", .yaml = "seed"},
    {"normality_max_dims", QK_SETTING_INTEGER, AT(normality_max_dims), .number = 64, .min = 1,
     .max = 4096, .value = "N", .help = "dimensions with a Kolmogorov-Smirnov test",
     .section = "Plasticity", .yaml = "normality_max_dims"},
    {"p_alpha", QK_SETTING_REAL, AT(p_alpha), .number = 0.01, .min = 0, .max = 1, .value = "P",
     .help = "p-values below P count as significant in these tests", .section = "Plasticity",
     .yaml = "p_alpha"},
    {"output_csv", QK_SETTING_PATH, AT(output_csv), .text = "head_metrics.csv", .value = "FILE",
     .help = "table of heads", .section = "Output", .yaml = "output_csv"},
    {"bucket_csv", QK_SETTING_PATH, AT(bucket_csv), .text = "head_bucket_plasticity.csv",
     .value = "FILE", .help = "table of pairs of buckets", .section = "Output",
     .yaml = "bucket_csv"},
    {"component_csv", QK_SETTING_PATH, AT(component_csv),
     .text = "head_component_information.csv", .value = "FILE", .help = "table of dimensions",
     .section = "Output", .yaml = "component_csv"},
    {"max_workers", QK_SETTING_INTEGER, AT(context.threads), .min = 1, .max = MAX_THREADS,
     .value = "N", .help = "threads", .unset = "all processors", .section = "Running",
     .yaml = "max_workers"},
};

const qk_settings_table qk_heads_settings_table = {QK_SETTINGS_ROWS(qk_heads_settings, ROWS)};

void qk_heads_settings_default(qk_heads_settings *settings)
{
    qk__settings_default(&qk_heads_settings_table, settings);
}

/* ---- keys ------------------------------------------------------------------------------- */

/* The original takes less than one for one. */
static qk_status set_workers(void *target, const qk__node *value, const qk__key *key,
                             qk_error *err)
{
    int *workers = &((qk_heads_settings *)target)->context.threads;
    (void)key;
    QK_TRY(qk__read_int(value, NULL, INT_MIN, MAX_THREADS, workers, err));
    *workers = *workers < 1 ? 1 : *workers;
    return QK_OK;
}

static const qk__key OWN[] = {{"max_workers", QK__KEY_READ, .read = set_workers}};

qk_status qk_published_load_heads(qk_published **file, const char *path,
                                  qk_heads_settings *settings, qk_error *err)
{
    QK_NEED(err, file);
    *file = NULL;
    QK_NEED(err, path, settings);
    qk_heads_settings_default(settings);
    qk_status status =
        qk__published_read(file, path, &qk_heads_settings_table, QK__KEYS(OWN), settings, err);
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

static qk_status check_heads_settings(const qk_heads_settings *s, qk_error *err)
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

/* "~/x" as the shell has it. */
static qk_status expand_home(const char *path, char **expanded, qk_error *err)
{
    const char *home = path[0] == '~' && path[1] == '/' ? qk__environment("HOME") : NULL;
    *expanded = home ? qk__path_join(home, path + 2) : qk__strdup(path);
    return *expanded ? QK_OK : qk__nomem(err);
}

static void settle_run(const qk_heads_settings *s, const qk_published_tables *tables,
                       qk_analysis_settings *run)
{
    run->analyses = QK_ANALYSE_PLASTICITY;
    run->published_tables = tables;
    run->plasticity.convention = QK_CONVENTION_PUBLISHED;
    run->plasticity.ks_alpha = s->p_alpha;
    run->plasticity.ks_dims = s->normality_max_dims;
    run->buckets = QK_BUCKETS_CAPTURE;
    run->random_rows = s->max_tokens_per_head;
    run->seed = s->seed;
    run->q_per_kv_group = s->num_q_heads / s->num_k_heads;
    run->command_line = s->command_line;
    run->context = s->context;
}

qk_status qk_heads_run(const qk_heads_settings *settings, qk_analysis_results **results,
                       qk_error *err)
{
    QK_NEED(err, results);
    *results = NULL;
    QK_NEED(err, settings);
    const qk_heads_settings *s = settings;
    QK_TRY(check_heads_settings(s, err));
    const qk_published_tables tables = {s->output_csv, s->bucket_csv, s->component_csv};
    bool local = s->dataset_local_root || s->model_dir[0] == '/';
    char *root = NULL, *folder = NULL;
    qk_analysis_settings run;
    qk_analysis_settings_default(&run);
    settle_run(s, &tables, &run);
    qk_status status = QK_OK;
    const char *given = s->dataset_local_root ? s->dataset_local_root : s->dataset_cache_dir;
    if (given)
        status = expand_home(given, &root, err);
    if (status == QK_OK)
        status = qk__parent_folder(s->output_csv, &folder, err);
    if (status == QK_OK)
        status = qk__index_list_add(&run.layers, 0, s->num_layers - 1, err);
    if (status == QK_OK)
        status = qk__head_set_add(&run.heads,
                                  (qk_head_range){0, QK_MAX_INDEX, 0, s->num_q_heads - 1}, err);
    if (status == QK_OK) {
        run.output = folder;
        run.capture = s->model_dir[0] == '/' ? s->model_dir : local ? root : s->dataset_name;
        run.prefix = s->model_dir[0] == '/' ? NULL : s->model_dir;
        run.context.hub_cache = local ? NULL : root;
        status = qk_analysis_run(&run, results, err);
    }
    qk_index_list_free(&run.layers);
    qk_head_set_free(&run.heads);
    free(folder);
    free(root);
    return status;
}
