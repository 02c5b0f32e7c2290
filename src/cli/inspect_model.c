/* SPDX-License-Identifier: Apache-2.0 */
/* What a model is, what a capture of it would keep, and what that costs. */
#include "inspect_model.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <qkscope/capture.h>
#include <qkscope/recorder.h>

/* A model and the costs of one text, with the settings that qkscope capture has by itself. */
typedef struct view {
    const char *name;
    const qk_model_facts *facts;
    const qk_recorder_selection *selection;
    int64_t length; /* tokens of the text */
    int64_t window; /* it is run in pieces of so many */
    int64_t bytes;
    double flops;
    int64_t wanted, rows; /* of each head and kind */
} view;

static bool ends_with(const char *name, const char *end)
{
    size_t length = strlen(name), tail = strlen(end);
    return length >= tail && strcmp(name + length - tail, end) == 0;
}

/* Also of forms that are not read: what to do about them is said where a model is opened. */
static bool is_model_file(const char *name)
{
    return strcmp(name, "config.json") == 0 || strcmp(name, "adapter_config.json") == 0 ||
           ends_with(name, ".safetensors") || ends_with(name, ".gguf") ||
           ends_with(name, ".pth");
}

static bool has_model_file(const char *folder)
{
    DIR *dir = opendir(folder);
    bool found = false;
    for (struct dirent *entry; dir && !found && (entry = readdir(dir)) != NULL;)
        found = is_model_file(entry->d_name);
    if (dir)
        closedir(dir);
    return found;
}

bool cli_is_model(const char *name, const char *revision)
{
    struct stat st;
    char *found = NULL;
    if (stat(name, &st) == 0)
        return S_ISDIR(st.st_mode) ? has_model_file(name) : is_model_file(name);
    bool dataset = qk_hub_find_dataset(name, revision, NULL, &found, NULL) == QK_OK;
    free(found);
    if (dataset)
        return false;
    bool model = qk_hub_find_model(name, revision, &found, NULL) == QK_OK;
    free(found);
    return model;
}

static int count_layers(const view *v, bool (*has)(const qk_layer_facts *layer))
{
    int count = 0;
    for (int l = 0; l < v->facts->num_layers; l++)
        count += has(&v->facts->layers[l]);
    return count;
}

static bool attends(const qk_layer_facts *layer)
{
    return layer->attends;
}

static bool rotates(const qk_layer_facts *layer)
{
    return layer->attends && layer->rope;
}

static bool slides(const qk_layer_facts *layer)
{
    return layer->attends && layer->window > 0;
}

static int64_t vector_bytes(const view *v)
{
    int64_t heads = (int64_t)(v->selection->num_q + v->selection->num_k);
    return v->rows * heads * v->facts->head_dim * (int64_t)sizeof(float);
}

static int64_t num_windows(const view *v)
{
    return (v->length - 1) / v->window + 1;
}

/* ---- text ------------------------------------------------------------------------------- */

static void print_windows(const view *v)
{
    int sliding = count_layers(v, slides);
    int64_t least = 0;
    int64_t most = 0;
    for (int l = 0; l < v->facts->num_layers; l++) {
        int64_t window = attends(&v->facts->layers[l]) ? v->facts->layers[l].window : 0;
        if (window > 0 && (least == 0 || window < least))
            least = window;
        most = window > most ? window : most;
    }
    if (sliding == 0)
        cli_print("%-12snone: full attention\n", "windows");
    else if (least == most)
        cli_print("%-12s%" PRId64 " tokens in %d of %d layers\n", "windows", least, sliding,
                  v->facts->num_layers);
    else
        cli_print("%-12s%" PRId64 " to %" PRId64 " tokens in %d of %d layers\n", "windows",
                  least, most, sliding, v->facts->num_layers);
}

static void print_view(const view *v)
{
    const qk_model_facts *f = v->facts;
    cli_print("%-12s%s\n", "model", v->name);
    int group = f->num_q_heads / f->num_k_heads;
    cli_print("%-12s%s, %d layer%s of %d query head%s and %d key head%s, d = %d\n", "shape",
              f->architecture, f->num_layers, cli_s(f->num_layers), f->num_q_heads,
              cli_s(f->num_q_heads), f->num_k_heads, cli_s(f->num_k_heads), f->head_dim);
    cli_print("%-12s%d query head%s per key head\n", "group size", group, cli_s(group));
    cli_print("%-12s%.2f million in %s, %.1f MB; fingerprint %016" PRIx64 "\n", "parameters",
              (double)f->parameters / 1e6, f->dtype, (double)f->weight_bytes / 1e6,
              f->fingerprint);
    cli_print("%-12s%" PRId64 " tokens, vocabulary of %d\n", "context", f->max_positions,
              f->vocab_size);
    cli_print("%-12s%s, theta %.15g, in %d of %d layers\n", "RoPE",
              f->rope_type ? f->rope_type : "none", f->rope_theta, count_layers(v, rotates),
              f->num_layers);
    print_windows(v);
    cli_print("%-12s%zu query heads and %zu key heads in %d layers\n", "captured",
              v->selection->num_q, v->selection->num_k, count_layers(v, attends));
    cli_print("\nTexts of %" PRId64 " tokens", v->length);
    if (v->length > v->window)
        cli_print(", in %" PRId64 " windows of at most %" PRId64, num_windows(v), v->window);
    cli_print(":\n%-12s%.3g GFLOP, %.0f MB of memory\n", "run", v->flops / 1e9,
              (double)v->bytes / 1e6);
    cli_print("%-12s%" PRId64 " a head, %.2f MB of vectors", "rows", v->rows,
              (double)vector_bytes(v) / 1e6);
    if (v->rows < v->wanted)
        cli_print("; of more such texts up to %" PRId64, v->wanted);
    cli_print("\n%-12s%" PRId64 " a head, %.2f MB (--sampler all)\n", "all rows", v->length,
              (double)vector_bytes(v) / (double)v->rows * (double)v->length / 1e6);
}

/* ---- JSON ------------------------------------------------------------------------------- */

static json_t *list_layers(const view *v)
{
    json_t *list = json_array();
    for (int l = 0; l < v->facts->num_layers; l++) {
        const qk_layer_facts *layer = &v->facts->layers[l];
        json_t *frequencies = json_array();
        for (size_t i = 0; layer->frequencies && i < layer->num_frequencies; i++)
            json_array_append_new(frequencies, json_real(layer->frequencies[i]));
        json_array_append_new(
            list, json_pack("{s:i, s:b, s:b, s:o, s:b, s:o}", "layer", l, "attends",
                            layer->attends, "rope", layer->rope, "window",
                            layer->window > 0 ? json_integer(layer->window) : json_null(),
                            "sliding", layer->sliding, "rope_frequencies", frequencies));
    }
    return list;
}

static void print_view_json(const view *v)
{
    const qk_model_facts *f = v->facts;
    char fingerprint[17];
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, f->fingerprint);
    json_t *root = json_pack(
        "{s:o, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:s, s:s, s:f, s:o}",
        "model", cli_json_text(v->name), "architecture", f->architecture, "fingerprint",
        fingerprint, "num_layers", f->num_layers, "query_heads", f->num_q_heads, "key_heads",
        f->num_k_heads, "q_per_kv_group", f->num_q_heads / f->num_k_heads, "head_dim",
        f->head_dim, "hidden_size", f->hidden_size, "vocab_size", f->vocab_size,
        "max_positions", (json_int_t)f->max_positions, "parameters", (json_int_t)f->parameters,
        "weight_bytes", (json_int_t)f->weight_bytes, "dtype", f->dtype, "rope_type",
        f->rope_type ? f->rope_type : "none", "rope_theta", f->rope_theta, "layers",
        list_layers(v));
    json_object_set_new(root, "capture",
                        json_pack("{s:i, s:i, s:I, s:I, s:I, s:f, s:I, s:I, s:I}",
                                  "query_heads", (int)v->selection->num_q, "key_heads",
                                  (int)v->selection->num_k, "length", (json_int_t)v->length,
                                  "window", (json_int_t)v->window, "windows",
                                  (json_int_t)num_windows(v), "flops", v->flops, "memory_bytes",
                                  (json_int_t)v->bytes, "rows_per_head", (json_int_t)v->rows,
                                  "vector_bytes", (json_int_t)vector_bytes(v)));
    cli_json_print(root);
}

/* ---- both ------------------------------------------------------------------------------- */

static qk_status look(view *v, const qk_model *model, const cli_common *common, qk_error *err)
{
    qk_recorder_settings settings;
    qk_prefill_settings run;
    qk_recorder_selection *selection;
    qk_recorder_settings_default(&settings);
    qk_prefill_settings_default(&run);
    v->facts = qk_model_get_facts(model);
    qk_status status = qk_recorder_select(&settings, v->facts, &selection, err);
    if (status != QK_OK)
        return status;
    v->selection = selection;
    v->window = v->window > 0 ? v->window : v->facts->max_positions;
    v->length = v->length > 0 ? v->length : v->window;
    v->wanted = v->wanted > 0 ? v->wanted : settings.rows;
    v->rows = v->length < v->wanted ? v->length : v->wanted;
    run.q_heads = selection->q_heads;
    run.k_heads = selection->k_heads;
    int64_t whole = v->length / v->window;
    int64_t rest = v->length % v->window;
    int64_t longest = v->length < v->window ? v->length : v->window;
    v->flops = (double)whole * qk_prefill_flops(model, &run, v->window);
    if (rest > 0)
        v->flops += qk_prefill_flops(model, &run, rest);
    v->bytes = qk_prefill_bytes(model, &run, longest);
    if (common->json)
        print_view_json(v);
    else if (!common->quiet)
        print_view(v);
    qk_recorder_selection_free(&selection);
    return QK_OK;
}

int cli_inspect_model(const char *name, const char *revision, const cli_inspect_run *run,
                      const cli_common *common)
{
    char *folder;
    qk_error err;
    qk_model *model = NULL;
    view v = {
        .name = name, .length = run->length, .window = run->max_length, .wanted = run->rows};
    qk_status status = qk_hub_find_model(name, revision, &folder, &err);
    if (status == QK_OK) {
        status = qk_model_open(&model, folder, NULL, &err);
        free(folder);
    }
    if (status == QK_OK)
        status = look(&v, model, common, &err);
    if (status != QK_OK)
        cli_error("%s", err.message);
    qk_model_close(&model);
    return cli_exit_code(status);
}
