/* SPDX-License-Identifier: Apache-2.0 */
/* What a model is, what a capture of it would keep, and what that costs. */
#include "inspect_model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <qkscope/capture.h>
#include <qkscope/hub.h>
#include <qkscope/model.h>
#include <qkscope/recorder.h>
#include <qkscope/sink.h>

/* A model and the costs of texts, with the settings that qkscope capture has by itself. */
typedef struct view {
    const char *name;
    const qk_model_facts *facts;
    const qk_recorder_selection *selection;
    int64_t texts, length; /* of so many tokens */
    int64_t window;        /* one is run in pieces of so many */
    int64_t bytes;
    double flops;
    int64_t wanted, rows;       /* of each head and kind */
    const cli_inspect_run *run; /* what was asked for */
    qk_keep keep;
    qk_recorder_sizes sizes;
    bool outline; /* headers of its files alone: what is in them is not known */
} view;

bool cli_is_model(const char *name, const char *revision)
{
    struct stat st;
    char *found = NULL;
    if (stat(name, &st) == 0)
        return qk_model_is_there(name);
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

static double vector_bytes(const view *v, int64_t rows)
{
    return (double)rows * (double)v->sizes.row_bytes;
}

static int64_t num_windows(const view *v)
{
    return v->texts * ((v->length - 1) / v->window + 1);
}

/* Everything that --keep names. */
static double kept_bytes(const view *v)
{
    double bytes = v->keep.moments ? (double)v->sizes.moment_bytes : 0;
    bytes += v->keep.rows ? vector_bytes(v, v->rows) : 0;
    return bytes + vector_bytes(v, v->sizes.reservoir_rows);
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

/* 1.23 of the unit that leaves three digits or so before the point. */
static const char *in_units(double bytes, char text[24])
{
    static const char *const UNITS[] = {"kB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;
    for (bytes /= 1e3; bytes >= 1000 && unit < 4; unit++)
        bytes /= 1e3;
    snprintf(text, 24, bytes < 10 ? "%.2f %s" : "%.1f %s", bytes, UNITS[unit]);
    return text;
}

static void print_kept(const view *v)
{
    char text[24];
    char query[24];
    char key[24];
    cli_print("\nKept with --keep %s of %" PRId64 " text%s, %s on disk:\n", v->run->keep,
              v->texts, cli_s(v->texts), in_units(kept_bytes(v), text));
    if (v->keep.rows)
        cli_print("%-12s%" PRId64 " a head, %s of vectors\n", "rows", v->rows,
                  in_units(vector_bytes(v, v->rows), text));
    if (v->keep.moments)
        cli_print("%-12s%s in %" PRId64 " file%s; %s of a query head, %s of a key head\n",
                  "moments", in_units((double)v->sizes.moment_bytes, text),
                  v->sizes.moment_files, cli_s(v->sizes.moment_files),
                  in_units((double)v->sizes.query_bytes, query),
                  in_units((double)v->sizes.key_bytes, key));
    if (v->keep.moments && v->run->groups > 0)
        cli_print("%-12s%d of texts, %d buckets of queries\n", "groups", v->run->groups,
                  v->run->buckets);
    else if (v->keep.moments)
        cli_print("%-12snone, %d buckets of queries\n", "groups", v->run->buckets);
    if (v->keep.reservoir > 0)
        cli_print("%-12sup to %" PRId64 " rows a head, %s of vectors\n", "reservoir",
                  v->sizes.reservoir_rows,
                  in_units(vector_bytes(v, v->sizes.reservoir_rows), text));
}

static void print_costs(const view *v)
{
    char text[24];
    cli_print("\n%" PRId64 " text%s of %" PRId64 " tokens", v->texts, cli_s(v->texts),
              v->length);
    if (v->texts == 1)
        cli_print(" (--texts N for more)");
    if (v->length > v->window)
        cli_print(", in %" PRId64 " windows of at most %" PRId64, num_windows(v), v->window);
    cli_print(":\n%-12s%.3g GFLOP, %.0f MB of memory\n", "run", v->flops / 1e9,
              (double)v->bytes / 1e6);
    cli_print("%-12s%" PRId64 " a head, %s of vectors", "rows", v->rows,
              in_units(vector_bytes(v, v->rows), text));
    if (v->rows < v->wanted)
        cli_print("; of more such texts up to %" PRId64, v->wanted);
    cli_print("\n%-12s%" PRId64 " a head, %s (--sampler all)\n", "all rows", v->sizes.rows,
              in_units(vector_bytes(v, v->sizes.rows), text));
    if (v->run->keep)
        print_kept(v);
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
    if (f->parameters > 0)
        cli_print(v->outline ? "%-12s%.2f million in %s, %.1f MB; on the Hub\n"
                             : "%-12s%.2f million in %s, %.1f MB; fingerprint %016" PRIx64 "\n",
                  "parameters", (double)f->parameters / 1e6, f->dtype,
                  (double)f->weight_bytes / 1e6, f->fingerprint);
    else
        cli_print("%-12snot there: this is what config.json says\n", "weights");
    cli_print("%-12s%" PRId64 " tokens, vocabulary of %d\n", "context", f->max_positions,
              f->vocab_size);
    cli_print("%-12s%s, theta %.15g, in %d of %d layers\n", "RoPE",
              f->rope_type ? f->rope_type : "none", f->rope_theta, count_layers(v, rotates),
              f->num_layers);
    print_windows(v);
    cli_print("%-12s%zu query heads and %zu key heads in %d layers\n", "captured",
              v->selection->num_q, v->selection->num_k, count_layers(v, attends));
    print_costs(v);
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

/* What is not known of a model without its weights is null. */
static json_t *weight_number(const qk_model_facts *f, int64_t number)
{
    return f->parameters > 0 ? json_integer((json_int_t)number) : json_null();
}

static json_t *keep_json(const view *v)
{
    return json_pack("{s:s, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f}", "keep",
                     v->run->keep, "groups", v->run->groups, "buckets", v->run->buckets,
                     "moment_bytes", (json_int_t)(v->keep.moments ? v->sizes.moment_bytes : 0),
                     "moment_files", (json_int_t)(v->keep.moments ? v->sizes.moment_files : 0),
                     "query_head_bytes",
                     (json_int_t)(v->keep.moments ? v->sizes.query_bytes : 0), "key_head_bytes",
                     (json_int_t)(v->keep.moments ? v->sizes.key_bytes : 0),
                     "reservoir_rows_per_head", (json_int_t)v->sizes.reservoir_rows,
                     "reservoir_bytes", vector_bytes(v, v->sizes.reservoir_rows), "row_bytes",
                     v->keep.rows ? vector_bytes(v, v->rows) : 0, "bytes", kept_bytes(v));
}

static void print_view_json(const view *v)
{
    const qk_model_facts *f = v->facts;
    char fingerprint[17];
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, f->fingerprint);
    json_t *root = json_pack(
        "{s:o, s:s, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:o, s:o, s:o, s:s, s:f, s:o}",
        "model", cli_json_text(v->name), "architecture", f->architecture, "fingerprint",
        v->outline ? json_null() : json_string(fingerprint), "num_layers", f->num_layers,
        "query_heads", f->num_q_heads, "key_heads", f->num_k_heads, "q_per_kv_group",
        f->num_q_heads / f->num_k_heads, "head_dim", f->head_dim, "hidden_size", f->hidden_size,
        "vocab_size", f->vocab_size, "max_positions", (json_int_t)f->max_positions,
        "parameters", weight_number(f, f->parameters), "weight_bytes",
        weight_number(f, f->weight_bytes), "dtype",
        f->parameters > 0 ? json_string(f->dtype) : json_null(), "rope_type",
        f->rope_type ? f->rope_type : "none", "rope_theta", f->rope_theta, "layers",
        list_layers(v));
    json_t *capture =
        json_pack("{s:i, s:i, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:I}", "query_heads",
                  (int)v->selection->num_q, "key_heads", (int)v->selection->num_k, "texts",
                  (json_int_t)v->texts, "length", (json_int_t)v->length, "window",
                  (json_int_t)v->window, "windows", (json_int_t)num_windows(v), "flops",
                  v->flops, "memory_bytes", (json_int_t)v->bytes, "rows_per_head",
                  (json_int_t)v->rows, "vector_bytes", (json_int_t)vector_bytes(v, v->rows));
    if (v->run->keep)
        json_object_set_new(capture, "kept", keep_json(v));
    json_object_set_new(root, "capture", capture);
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
    qk_recorder_amount amount = {v->texts, v->length, v->keep.reservoir, v->run->groups,
                                 v->run->buckets};
    qk_recorder_measure(selection, v->facts, &amount, &v->sizes);
    v->rows = v->sizes.rows < v->wanted ? v->sizes.rows : v->wanted;
    run.q_heads = selection->q_heads;
    run.k_heads = selection->k_heads;
    int64_t whole = v->length / v->window;
    int64_t rest = v->length % v->window;
    int64_t longest = v->length < v->window ? v->length : v->window;
    v->flops = (double)whole * qk_prefill_flops(model, &run, v->window);
    if (rest > 0)
        v->flops += qk_prefill_flops(model, &run, rest);
    v->flops *= (double)v->texts;
    v->bytes = qk_prefill_bytes(model, &run, longest);
    if (v->keep.moments) /* of a block of texts, which may have as many groups as all */
        v->bytes += v->sizes.moment_bytes;
    if (common->json)
        print_view_json(v);
    else if (!common->quiet)
        print_view(v);
    qk_recorder_selection_free(&selection);
    return QK_OK;
}

/* What is missing of the weights is said: a capture needs them. */
static qk_status open_shape(qk_model **model, const char *folder, const cli_common *common,
                            qk_error *err)
{
    qk_error why = *err;
    qk_status status = qk_model_open_shape(model, folder, NULL, err);
    if (status == QK_OK && !common->quiet)
        cli_error("note: %s", why.message);
    return status;
}

/* Where the model is, or an outline of what is on the Hub. */
static qk_status find_model(const qk_inspect_settings *s, char **path,
                            qk_hub_snapshot **snapshot, qk_error *err)
{
    *snapshot = NULL;
    if (!qk_hub_is_remote(s->capture))
        return qk_hub_find_model(s->capture, s->revision, path, err);
    const qk_hub_settings what = {.name = s->capture,
                                  .revision = s->revision,
                                  .model = true,
                                  .part = QK_HUB_MODEL,
                                  .cached = true,
                                  .context = s->context};
    return qk_hub_outline(&what, snapshot, err);
}

static qk_status open_model(view *v, qk_model **model, const qk_inspect_settings *settings,
                            const cli_common *common, const qk_error *otherwise, qk_error *err)
{
    char *found = NULL;
    qk_hub_snapshot *snapshot;
    qk_status status = find_model(settings, &found, &snapshot, err);
    if (status == QK_ERR_NOT_FOUND && otherwise &&
        !strstr(err->message, "the model is gated")) {
        bool offline = strstr(otherwise->message, "qkscope get ") != NULL;
        *err = *otherwise;
        char *advice = strstr(err->message, "; a model is fetched with --model");
        if (advice) /* it was looked for */
            snprintf(advice, sizeof err->message - (size_t)(advice - err->message),
                     "; nor is there a model of this name");
        if (offline)
            cli_error("%s", err->message);
        if (offline)
            snprintf(err->message, sizeof err->message,
                     "if it is a model: qkscope get --model %s%s%s", settings->capture,
                     settings->revision ? " --revision " : "",
                     settings->revision ? settings->revision : "");
        return status;
    }
    if (status != QK_OK)
        return status;
    const char *folder = !snapshot ? found : snapshot->gguf ? snapshot->gguf : snapshot->path;
    v->outline = snapshot && snapshot->is_outline;
    status = qk_model_open(model, folder, NULL, err);
    if (status == QK_ERR_NOT_FOUND)
        status = open_shape(model, folder, common, err);
    qk_hub_snapshot_free(&snapshot);
    free(found);
    return status;
}

int cli_inspect_model(const qk_inspect_settings *settings, const cli_inspect_run *run,
                      const cli_common *common, const qk_error *otherwise)
{
    qk_error err;
    qk_model *model = NULL;
    view v = {.name = settings->capture,
              .texts = run->texts,
              .length = run->length,
              .window = run->max_length,
              .wanted = run->rows,
              .run = run};
    if (run->keep && qk_keep_parse(run->keep, &v.keep, &err) != QK_OK)
        return cli_usage("--keep: %s", err.message);
    if (run->groups == 1)
        return cli_usage("--groups 1: give 0, or 2 to 64");
    qk_status status = open_model(&v, &model, settings, common, otherwise, &err);
    if (status == QK_OK)
        status = look(&v, model, common, &err);
    if (status != QK_OK)
        cli_error("%s", err.message);
    qk_model_close(&model);
    return cli_exit_code(status);
}
