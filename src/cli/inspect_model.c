/* SPDX-License-Identifier: Apache-2.0 */
/* What a model is, what a capture of it would keep, and what that costs. */
#include "inspect_model.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <qkscope/capture.h>
#include <qkscope/hub.h>
#include <qkscope/model.h>
#include <qkscope/recorder.h>
#include <qkscope/sink.h>

#include "tell.h"

/* Bytes of memory for the program, its tokenizer and the files that it writes, measured on small models. */
enum { PROGRAM = 20 << 20 };

/* A model and the costs of texts, with the default settings of qkscope capture. */
typedef struct view {
    const char *name;
    const qk_model_facts *facts;
    const qk_recorder_selection *selection;
    int64_t texts, length; /* texts of `length` tokens */
    int64_t window;        /* a text is run in pieces of so many tokens */
    int64_t bytes;
    double flops;
    int64_t wanted, rows;       /* of each head and kind */
    const cli_inspect_run *run; /* what was asked for */
    qk_keep keep;
    qk_recorder_sizes sizes;
    bool measured;
    qk_recorder_forecast forecast;
} view;

/* The path itself, or what the cache has under the name; nothing is fetched. */
static qk_status find_here(const char *name, const char *revision, qk_hub_part part,
                           char **path, qk_error *err)
{
    qk_hub_place place;
    qk_status status = qk_hub_get(
        &(qk_hub_wanted){.name = name, .revision = revision, .part = part, .as_it_is = true},
        &place, err);
    *path = place.path;
    return status;
}

bool cli_is_model(const char *name, const char *revision)
{
    struct stat st;
    char *found = NULL;
    if (stat(name, &st) == 0)
        return qk_model_is_there(name);
    bool dataset = find_here(name, revision, QK_HUB_CAPTURE, &found, NULL) == QK_OK;
    free(found);
    if (dataset)
        return false;
    bool model = find_here(name, revision, QK_HUB_MODEL, &found, NULL) == QK_OK;
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

/* The bytes of all that --keep names; moments and attention are the bytes of sums. */
static double bytes_with(const view *v, int64_t moments, int64_t attention)
{
    double bytes = v->keep.moments ? (double)moments : 0;
    bytes += v->keep.attention ? (double)attention : 0;
    bytes += v->keep.rows ? vector_bytes(v, v->rows) : 0;
    return bytes + vector_bytes(v, v->sizes.reservoir_rows);
}

static double kept_bytes(const view *v)
{
    return bytes_with(v, v->sizes.moment_bytes, v->sizes.attention_bytes);
}

/* The bytes on disk until the capture is complete: the same rows, and the sums of all blocks. */
static double block_bytes(const view *v)
{
    return bytes_with(v, v->sizes.moment_block_bytes, v->sizes.attention_block_bytes);
}

/* ---- as text and as JSON ------------------------------------------------------------------ */

static const char MODEL[] =
    "model       {model}\n"
    "shape       {architecture}, {num_layers} layer{s} of {query_heads} query head{s} and "
    "{key_heads} key head{s}, d = {head_dim}\n"
    "group size  {q_per_kv_group} query head{s} per key head\n"
    "[{dtype?}parameters  {millions:.2f} million in {dtype}, {weight_bytes:MB}; "
    "[fingerprint {fingerprint}][on the Hub{fingerprint!}]\n]"
    "[weights{dtype!}     not there: by config.json {millions:.2f} million parameters, "
    "{in_bfloat16:B} in bfloat16\n]"
    "context     {max_positions} token{s}, vocabulary of {vocab_size}\n"
    "RoPE        {rope_type}, theta {rope_theta:.15g}[ and {rope_theta_sliding:.15g} where "
    "windows slide], in {rotating} of {num_layers} layers\n"
    "[{defaults?}defaults    of {architecture}, for what config.json lacks: {defaults}\n]"
    "[note        {notice}\n]"
    "windows     [none: full attention{sliding!}][{least}[{ranges?} to {most}] tokens in "
    "{sliding} of {num_layers} layers]\n"
    "captured    {capture.query_heads} query heads and {capture.key_heads} key heads in "
    "{attending} layers\n"
    "\n{capture.texts} text{s} of {capture.length} token{s}[{alone?} (--texts N for more)]"
    "[{split?}, in {capture.windows} windows of at most {capture.window}]:\n"
    "run         {gflop:.3g} GFLOP, {capture.memory_bytes:.0MB} of memory[, "
    "{capture.memory_with_weights_bytes:.0MB} with program and weights][{dtype!} in bfloat16]\n"
    "[{measured?}time        about {time}, {processor_time} of processor (measured here in "
    "{capture.forecast.measuring:.1f} s with one layer[{made?} of made-up weights] and texts of up to "
    "{capture.forecast.tokens} token{s})\n]"
    "rows        {capture.rows_per_head} a head, {capture.vector_bytes:B} of vectors"
    "[{fewer?}; of more such texts up to {wanted}]\n"
    "all rows    {all_rows} a head, {all_bytes:B} (--sampler all)\n"
    "[\nKept with --keep {capture.kept.keep} of {capture.texts} text{s}, "
    "{capture.kept.bytes:B} {state}:\n"
    "[{keeps_rows?}rows        {capture.rows_per_head} a head, {capture.kept.row_bytes:B} of "
    "vectors\n]"
    "[{keeps_attention?}attention   {capture.kept.attention_bytes:B}\n]"
    "[{keeps_moments?}moments     {capture.kept.moment_bytes:B} in {capture.kept.moment_files} "
    "file{s}; {capture.kept.query_head_bytes:B} of a query head, "
    "{capture.kept.key_head_bytes:B} of a key head\n"
    "groups      [{capture.kept.groups} of texts][none{capture.kept.groups!}], "
    "{capture.kept.buckets} bucket{s} of queries\n]"
    "meanwhile   {capture.kept.blocks} block{s} of texts, each finished by itself, "
    "{capture.kept.block_bytes:B} at most\n"
    "[{keeps_reservoir?}reservoir   up to {capture.kept.reservoir_rows_per_head} rows a head, "
    "{capture.kept.reservoir_bytes:B} of vectors\n]]";

static json_t *list_layers(const view *v)
{
    json_t *list = json_array();
    for (int l = 0; l < v->facts->num_layers; l++) {
        const qk_layer_facts *layer = &v->facts->layers[l];
        size_t frequencies = layer->frequencies ? layer->num_frequencies : 0;
        json_array_append_new(
            list, cli_object(CLI_ROWS(
                      CLI_ROW("layer", l), CLI_OF(layer, attends), CLI_OF(layer, rope),
                      CLI_ROW_OR_NULL(layer->window > 0, "window", layer->window),
                      CLI_OF(layer, sliding),
                      CLI_ROW("rope_frequencies",
                              cli_json_numbers(layer->frequencies, (int)frequencies)))));
    }
    return list;
}

static json_t *keep_json(const view *v)
{
    const qk_recorder_sizes *s = &v->sizes;
    bool moments = v->keep.moments;
    return cli_object(
        CLI_ROWS(CLI_OF(v->run, keep), CLI_OF(s, groups), CLI_OF(s, buckets),
                 CLI_ROW("moment_bytes", moments ? s->moment_bytes : 0),
                 CLI_ROW("moment_files", moments ? s->moment_files : 0),
                 CLI_ROW("query_head_bytes", moments ? s->query_bytes : 0),
                 CLI_ROW("key_head_bytes", moments ? s->key_bytes : 0),
                 CLI_ROW("reservoir_rows_per_head", s->reservoir_rows),
                 CLI_ROW("reservoir_bytes", vector_bytes(v, s->reservoir_rows)),
                 CLI_ROW("row_bytes", v->keep.rows ? vector_bytes(v, v->rows) : 0.0),
                 CLI_ROW("attention_bytes", v->keep.attention ? s->attention_bytes : 0),
                 CLI_ROW("blocks", s->blocks), CLI_ROW("block_bytes", block_bytes(v)),
                 CLI_ROW("bytes", kept_bytes(v))));
}

static json_t *forecast_json(const view *v)
{
    const qk_recorder_forecast *f = &v->forecast;
    return cli_object(CLI_ROWS(CLI_OF(f, seconds), CLI_OF(f, processor_seconds),
                               CLI_OF(f, measuring), CLI_OF(f, tokens),
                               CLI_OF(f, made_weights)));
}

static const char *tell_time(double seconds, char text[24])
{
    if (seconds < 90)
        snprintf(text, 24, "%.2g s", seconds);
    else if (seconds < 90 * 60)
        snprintf(text, 24, "%.2g min", seconds / 60);
    else
        snprintf(text, 24, "%.1f h", seconds / 3600);
    return text;
}

/* Of weights that are not there, in bfloat16. */
static int64_t weight_bytes(const view *v)
{
    const qk_model_facts *f = v->facts;
    return f->weight_bytes > 0 ? f->weight_bytes : 2 * f->parameters;
}

static json_t *capture_json(const view *v)
{
    return cli_object(CLI_ROWS(
        CLI_ROW("query_heads", v->selection->num_q), CLI_ROW("key_heads", v->selection->num_k),
        CLI_OF(v, texts), CLI_OF(v, length), CLI_OF(v, window),
        CLI_ROW("windows", num_windows(v)), CLI_OF(v, flops), CLI_ROW("memory_bytes", v->bytes),
        CLI_ROW("memory_with_weights_bytes", v->bytes + weight_bytes(v) + PROGRAM),
        CLI_ROW_IF(v->measured, "forecast", forecast_json(v)),
        CLI_ROW("rows_per_head", v->rows),
        CLI_ROW("vector_bytes", (int64_t)vector_bytes(v, v->rows)),
        CLI_ROW_IF(v->run->keep, "kept", keep_json(v))));
}

/* The smallest and the largest sliding window of the layers; 0 = there is none. */
static void find_windows(const view *v, int64_t *least, int64_t *most)
{
    *least = *most = 0;
    for (int l = 0; l < v->facts->num_layers; l++) {
        int64_t window = attends(&v->facts->layers[l]) ? v->facts->layers[l].window : 0;
        if (window > 0 && (*least == 0 || window < *least))
            *least = window;
        *most = window > *most ? window : *most;
    }
}

/* What is unknown without the model's weights is null. */
static void tell_view(const view *v, const cli_common *common)
{
    const qk_model_facts *f = v->facts;
    bool weights = f->weight_bytes > 0;
    int64_t least, most;
    char fingerprint[17], time[24], processor_time[24];
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, f->fingerprint);
    find_windows(v, &least, &most);
    cli_tell(
        common, MODEL,
        CLI_ROWS(
            CLI_ROW("model", v->name), CLI_OF(f, architecture),
            CLI_ROW("fingerprint", fingerprint), CLI_OF(f, num_layers),
            CLI_ROW("query_heads", f->num_q_heads), CLI_ROW("key_heads", f->num_k_heads),
            CLI_ROW("q_per_kv_group", f->num_q_heads / f->num_k_heads), CLI_OF(f, head_dim),
            CLI_OF(f, hidden_size), CLI_OF(f, vocab_size), CLI_OF(f, max_positions),
            CLI_OF(f, parameters), CLI_ROW_OR_NULL(weights, "weight_bytes", f->weight_bytes),
            CLI_ROW_OR_NULL(weights, "dtype", f->dtype),
            CLI_ROW("rope_type", f->rope_type ? f->rope_type : "none"), CLI_OF(f, rope_theta),
            CLI_ROW_OR_NULL(f->rope_theta_sliding > 0, "rope_theta_sliding",
                            f->rope_theta_sliding),
            CLI_ROW_OR_NULL(f->defaults, "defaults", f->defaults),
            CLI_ROW_OR_NULL(f->notice, "notice", f->notice), CLI_ROW("layers", list_layers(v)),
            CLI_ROW("capture", capture_json(v)),
            CLI_SAY("millions", (double)f->parameters / 1e6),
            CLI_SAY("in_bfloat16", weight_bytes(v)),
            CLI_SAY("state",
                    v->keep.rows || v->keep.reservoir ? "before compression" : "on disk"),
            CLI_SAY("rotating", count_layers(v, rotates)),
            CLI_SAY("sliding", count_layers(v, slides)),
            CLI_SAY("attending", count_layers(v, attends)), CLI_SAY("least", least),
            CLI_SAY("most", most), CLI_SAY("ranges", least < most),
            CLI_SAY("measured", v->measured), CLI_SAY("made", v->forecast.made_weights),
            CLI_SAY("gflop", v->flops / 1e9),
            CLI_SAY("time", tell_time(v->forecast.seconds, time)),
            CLI_SAY("processor_time", tell_time(v->forecast.processor_seconds, processor_time)),
            CLI_SAY("alone", v->texts == 1), CLI_SAY("split", v->length > v->window),
            CLI_SAY("fewer", v->rows < v->wanted), CLI_SAY("wanted", v->wanted),
            CLI_SAY("all_rows", v->sizes.rows),
            CLI_SAY("all_bytes", vector_bytes(v, v->sizes.rows)),
            CLI_SAY("keeps_rows", v->keep.rows), CLI_SAY("keeps_moments", v->keep.moments),
            CLI_SAY("keeps_attention", v->keep.attention),
            CLI_SAY("keeps_reservoir", v->keep.reservoir)));
}

/* ---- both ------------------------------------------------------------------------------- */

/* A failure leaves out the time only, unless it was an interrupt. */
static qk_status measure_time(view *v, const qk_recorder_settings *settings,
                              const qk_model *model, const cli_common *common, qk_error *err)
{
    const double texts = (double)v->texts * (double)v->length;
    const int64_t tokens = v->length < v->window ? v->length : v->window;
    if (v->run->no_measure)
        return QK_OK;
    qk_status status = qk_recorder_foresee(
        settings, model, (int64_t)ceil(texts / (double)tokens), tokens, &v->forecast, err);
    v->measured = status == QK_OK;
    if (status == QK_ERR_CANCELLED)
        return status;
    if (!v->measured && !common->quiet)
        cli_error("note: time was not measured: %s", err->message);
    return QK_OK;
}

/* The memory for so many texts, or windows, as capture runs together. */
static int64_t memory_bytes(const view *v, const qk_model *model,
                            const qk_prefill_settings *run, int64_t tokens)
{
    const int64_t panel = (tokens + 31) / 32 * 32, windows = num_windows(v);
    int64_t texts = (QK_TOKENS_AT_ONCE + tokens - 1) / tokens;
    texts = texts < windows ? texts : windows;
    int64_t bytes = qk_prefill_bytes(model, run, texts * panel);
    if (v->keep.moments) /* for a block of texts, which may have all groups */
        bytes += v->sizes.moment_bytes;
    return v->keep.attention ? bytes + v->sizes.attention_bytes : bytes;
}

static double count_flops(const view *v, const qk_model *model, const qk_prefill_settings *run)
{
    const int64_t whole = v->length / v->window, rest = v->length % v->window;
    const double flops = (double)whole * qk_prefill_flops(model, run, v->window);
    return (double)v->texts * (rest > 0 ? flops + qk_prefill_flops(model, run, rest) : flops);
}

static qk_status look_at_model(view *v, const qk_model *model, qk_recorder_settings *settings,
                               const cli_common *common, qk_error *err)
{
    qk_prefill_settings run;
    qk_recorder_selection *selection;
    qk_prefill_settings_default(&run);
    v->facts = qk_model_get_facts(model);
    qk_status status = qk_recorder_select(settings, v->facts, &selection, err);
    if (status != QK_OK)
        return status;
    v->selection = selection;
    v->window = v->window > 0 ? v->window : v->facts->max_positions;
    v->length = v->length > 0 ? v->length : v->window;
    v->wanted = v->wanted > 0 ? v->wanted : settings->rows;
    const qk_recorder_amount amount = {.texts = v->texts,
                                       .tokens = v->length,
                                       .window = v->window,
                                       .reservoir = v->keep.reservoir,
                                       .groups = v->run->groups,
                                       .buckets = v->run->buckets,
                                       .first = v->keep.first,
                                       .moments = v->keep.moments};
    qk_recorder_measure(selection, v->facts, &amount, &v->sizes);
    v->rows = v->sizes.rows < v->wanted ? v->sizes.rows : v->wanted;
    run.context = settings->context;
    run.q_heads = selection->q_heads;
    run.k_heads = selection->k_heads;
    v->flops = count_flops(v, model, &run);
    v->bytes = memory_bytes(v, model, &run, v->length < v->window ? v->length : v->window);
    settings->rows = v->wanted;
    status = measure_time(v, settings, model, common, err);
    if (status == QK_OK)
        tell_view(v, common);
    qk_recorder_selection_free(&selection);
    return status;
}

/* Says what is missing of the weights: a capture needs them. */
static qk_status open_shape(qk_model **model, const char *folder, const cli_common *common,
                            qk_error *err)
{
    qk_error why = *err;
    qk_status status = qk_model_open_shape(model, folder, NULL, err);
    if (status == QK_OK && !common->quiet)
        cli_error("note: %s", why.message);
    return status;
}

static bool go_on(void *user, const qk_progress *progress)
{
    (void)user;
    (void)progress;
    return !cli_is_interrupted();
}

/* found is to be freed. */
static qk_status open_model(qk_model **model, char **found, const qk_inspect_settings *settings,
                            const cli_common *common, const qk_error *otherwise, qk_error *err)
{
    qk_status status =
        find_here(settings->capture, settings->revision, QK_HUB_MODEL, found, err);
    if (status == QK_ERR_NOT_FOUND && otherwise) { /* the name does not say which */
        cli_error("%s", otherwise->message);
        snprintf(err->message, sizeof err->message,
                 "if it is a model: hf download %s config.json --revision %s",
                 settings->capture, settings->revision ? settings->revision : "main");
    }
    if (status != QK_OK)
        return status;
    status = qk_model_open(model, *found, NULL, err);
    return status == QK_ERR_NOT_FOUND && !qk_model_has_weights(*found)
               ? open_shape(model, *found, common, err)
               : status;
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
    char *found = NULL;
    qk_recorder_settings of_capture;
    qk_status status = open_model(&model, &found, settings, common, otherwise, &err);
    qk_recorder_settings_default(&of_capture);
    of_capture.model = found;
    of_capture.keep = run->keep;
    of_capture.groups = run->groups;
    of_capture.context = (qk_context){.threads = settings->context.threads, .progress = go_on};
    if (status == QK_OK)
        status = look_at_model(&v, model, &of_capture, common, &err);
    free(found);
    if (status != QK_OK)
        cli_error("%s", err.message);
    qk_model_close(&model);
    return cli_exit_code(status);
}
