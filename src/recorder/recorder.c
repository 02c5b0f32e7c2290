/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a capture: the order of events of a run. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <qkscope/hub.h>
#include <qkscope/capture.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "paths/model_files.h"
#include "recorder/recording.h"
#include "sampler/sampler.h"
#include "sink/sink.h"
#include "tokenizer/tokenizer.h"

enum { MAX_LENGTH = 1 << 30 };

/* ---- opening ---------------------------------------------------------------------------- */

/* 0 is chosen later. */
static qk_status check_sampler(const qk_recorder_settings *s, qk_error *err)
{
    qk_sampler sampler = s->sampler;
    qk_sampler usual;
    qk__sampler_default(&usual);
    if (sampler.base_rate == 0 && s->rows < 1)
        return qk__fail(err, QK_ERR_ARGUMENT, "neither rows nor a rate of the sampler");
    bool whole = sampler.type == QK_SAMPLER_ALL;
    if (sampler.min_bucket_size == 0 && (sampler.base_rate == 0 || whole))
        sampler.min_bucket_size = usual.min_bucket_size;
    if (sampler.base_rate == 0)
        sampler.base_rate = usual.base_rate;
    return qk_sampler_check(&sampler, err);
}

static qk_status check_input(const qk_recorder_settings *s, qk_error *err)
{
    if (!s->model || !*s->model)
        return qk__fail(err, QK_ERR_ARGUMENT, "no model given");
    if (s->num_texts == 0 && !(s->engine && s->engine->next))
        return qk__fail(err, QK_ERR_ARGUMENT, "no texts given");
    if (s->max_length < 0 || s->max_length > MAX_LENGTH)
        return qk__fail(err, QK_ERR_ARGUMENT, "max_length %lld: give 1 to %d",
                        (long long)s->max_length, MAX_LENGTH);
    if (s->max_examples < 0 || s->sample_heads < 0 || s->tokens_at_once < 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "a negative number of texts, heads or tokens");
    if ((unsigned)s->long_texts > QK_LONG_SKIP)
        return qk__fail(err, QK_ERR_ARGUMENT, "long texts are split, cut or skipped");
    return QK_OK;
}

static qk_status check_recorder_settings(const qk_recorder_settings *s, qk_keep *keep,
                                         qk_error *err)
{
    QK_TRY(check_input(s, err));
    if (!s->engine && (!s->output || !*s->output))
        return qk__fail(err, QK_ERR_ARGUMENT, "no output folder given");
    if ((s->kinds & QK_KINDS_BOTH) == 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "neither queries nor keys are to be kept");
    keep->groups = s->groups;
    QK_TRY(qk__context(err, qk_keep_parse(s->keep ? s->keep : "rows,attention", keep, err),
                       "keep"));
    return check_sampler(s, err);
}

/* The last part of a path without a file's ending, or the name of a cached model as it is. */
static char *name_model(const qk_recorder_settings *s)
{
    if (s->model_name)
        return qk__strdup(s->model_name);
    size_t length = strlen(s->model);
    while (length > 1 && s->model[length - 1] == '/')
        length--;
    size_t begin = length;
    bool file = qk__is_file(s->model);
    while ((file || qk__is_dir(s->model)) && begin > 0 && s->model[begin - 1] != '/')
        begin--;
    if (begin == length)
        begin = 0;
    if (file && qk__is_whole_model(s->model + begin))
        length = (size_t)(strrchr(s->model, '.') - s->model);
    char *name = qk__strdup(s->model + begin);
    if (name)
        name[length - begin] = 0;
    return name;
}

/* The folder or file of a model or tokenizer; *path is allocated. */
static qk_status find_model(const qk__recording *r, const char *name, const char *revision,
                            qk_hub_part part, char **path, qk_error *err)
{
    const qk_hub_wanted wanted = {
        .name = name, .revision = revision, .part = part, .context = r->settings->context};
    qk_hub_place place;
    QK_TRY(qk_hub_get(&wanted, &place, err));
    *path = place.path;
    return QK_OK;
}

static size_t count_made(const qk_recorder_settings *s)
{
    size_t made = 0;
    for (size_t i = 0; i < s->num_texts; i++)
        made += qk__is_repeat(s->texts[i]);
    return made;
}

static qk_status open_tokenizer(qk__recording *r, const char *folder, qk_error *err)
{
    const char *path = r->settings->tokenizer;
    char *found = NULL;
    if (path && !qk__is_file(path))
        QK_TRY(find_model(r, path, NULL, QK_HUB_TOKENIZER, &found, err));
    qk_status status = qk_tokenizer_open(&r->tokenizer,
                                         found  ? found
                                         : path ? path
                                                : folder,
                                         err);
    free(found);
    if (status == QK_ERR_NOT_FOUND && !path &&
        count_made(r->settings) == r->settings->num_texts)
        return QK_OK; /* nothing has to be read */
    return status;
}

static qk_status open_engine(qk__recording *r, qk_error *err)
{
    r->model_name = name_model(r->settings);
    if (!r->model_name)
        return qk__nomem(err);
    r->facts = r->settings->engine->facts;
    return qk_recorder_select(r->settings, r->facts, &r->selection, err);
}

static qk_status open_model(qk__recording *r, qk_error *err)
{
    const qk_recorder_settings *s = r->settings;
    char *folder;
    if (s->engine)
        return open_engine(r, err);
    QK_TRY(find_model(r, s->model, s->revision, QK_HUB_MODEL, &folder, err));
    r->model_name = name_model(s);
    qk_status status =
        r->model_name ? qk_model_open(&r->model, folder, s->overrides, err) : qk__nomem(err);
    if (status == QK_OK) {
        r->facts = qk_model_get_facts(r->model);
        if (r->facts->notice)
            qk__tell_notice(&s->context, QK_NOTICE_WARNING, "%s: %s", r->model_name,
                            r->facts->notice);
        status = open_tokenizer(r, folder, err);
    }
    free(folder);
    if (status == QK_OK)
        status = qk_recorder_select(s, r->facts, &r->selection, err);
    return status;
}

qk_status qk__recording_open(qk__recording *r, qk_error *err)
{
    const qk_recorder_settings *s = r->settings;
    QK_TRY(check_input(s, err));
    QK_TRY(open_model(r, err));
    r->max_length = s->max_length > 0 ? s->max_length : r->facts->max_positions;
    if (r->max_length > r->facts->max_positions)
        qk__tell_notice(&r->settings->context, QK_NOTICE_WARNING,
                        "texts of up to %lld tokens are run, the model was made for %lld",
                        (long long)r->max_length, (long long)r->facts->max_positions);
    if (s->engine) {
        r->specials_before = s->engine->specials_before;
        r->specials_after = s->engine->specials_after;
    } else if (r->tokenizer) {
        qk__tokenizer_special(r->tokenizer, &r->specials_before, &r->specials_after);
    }
    QK_TRY(qk__texts_open(&r->texts, s, err));
    if (count_made(s) > 0)
        QK_TRY(qk__list_drawn(r, err));
    return qk__survey(r, err);
}

void qk__recording_close(qk__recording *r)
{
    qk__texts_close(&r->texts);
    qk__buffer_free(&r->sequences);
    qk__buffer_free(&r->text_ids);
    qk__buffer_free(&r->lengths);
    qk__buffer_free(&r->drawn);
    qk_recorder_selection_free(&r->selection);
    qk_tokenizer_close(&r->tokenizer);
    qk_model_close(&r->model);
    free(r->model_name);
}

/* ---- the sink --------------------------------------------------------------------------- */

static const char *token_string(void *user, int32_t token)
{
    const qk__recording *r = user;
    const char *piece = r->tokenizer ? qk_tokenizer_piece(r->tokenizer, token) : NULL;
    return piece ? piece : "";
}

/* The windows of the model's layers. */
static qk_status list_layers(const qk__recording *r, int64_t **windows,
                             qk_frequencies **frequencies, qk_error *err)
{
    size_t count = (size_t)r->facts->num_layers;
    *windows = qk__calloc(count, sizeof **windows);
    *frequencies = qk__calloc(count, sizeof **frequencies);
    if (!*windows || !*frequencies)
        return qk__nomem(err);
    for (size_t l = 0; l < count; l++) {
        const qk_layer_facts *layer = &r->facts->layers[l];
        (*windows)[l] = layer->window;
        if (layer->attends && layer->frequencies)
            (*frequencies)[l] = (qk_frequencies){layer->frequencies, layer->num_frequencies};
    }
    return QK_OK;
}

/* The text of each sequence. */
static qk_status list_text_ids(const qk__recording *r, int64_t **ids, qk_error *err)
{
    const int64_t *counts = (const int64_t *)(const void *)r->sequences.data;
    const qk__text_print *print = (const qk__text_print *)(const void *)r->text_ids.data;
    int64_t done = 0;
    *ids = qk__calloc((size_t)r->counts.sequences + 1, sizeof **ids);
    if (!*ids)
        return qk__nomem(err);
    for (int64_t text = 0; text < r->counts.texts; text++)
        for (int64_t i = 0; i < counts[text]; i++)
            (*ids)[done++] = print[text].id;
    return QK_OK;
}

static void set_sink(qk__recording *r, qk_sink_settings *s)
{
    const qk_recorder_settings *given = r->settings;
    qk_sink_settings_default(s);
    s->output = given->output;
    s->force = given->force;
    s->model_name = r->model_name;
    s->num_layers = r->facts->num_layers;
    s->num_q_heads = r->facts->num_q_heads;
    s->num_k_heads = r->facts->num_k_heads;
    s->head_dim = (size_t)r->facts->head_dim;
    s->q_heads = r->selection->q_heads;
    s->k_heads = r->selection->k_heads;
    s->rope_interleaved = r->facts->rope_interleaved;
    s->stage = given->stage;
    s->sampler = r->sampler;
    s->keep = r->keep;
    s->layout = given->layout;
    s->num_texts = r->counts.sequences;
    s->num_tokens = r->counts.tokens;
    s->source = given->engine ? given->engine->tool : "qkscope capture";
    s->token_strings = given->token_strings && (r->keep.rows || r->keep.reservoir > 0);
    s->token_string = token_string;
    s->user = r;
    s->shard = given->shard;
    s->context = given->context;
}

/* ---- running ---------------------------------------------------------------------------- */

static void sum_up(const qk__recording *r, const qk_sink_outcome *sunk)
{
    qk_recorder_outcome *o = r->outcome;
    const qk__survey_counts *c = &r->counts;
    o->complete = sunk->complete;
    o->blocks = sunk->blocks;
    o->blocks_there = sunk->blocks_there;
    o->heads = sunk->heads;
    o->rows = sunk->rows;
    o->summed = sunk->summed;
    o->bytes = sunk->bytes;
    o->texts = c->texts;
    o->tokens = c->tokens;
    o->windows = c->windows;
    o->empty = c->empty;
    o->split = c->split;
    o->cut = c->cut;
    o->skipped = c->skipped;
    o->sampler = r->sampler;
    o->expected_rows = r->expected_rows;
}

/* Says why nothing is kept, where that is known. */
static qk_status explain(const qk__recording *r, qk_status status, qk_error *err)
{
    const qk__survey_counts *c = &r->counts;
    if (status != QK_ERR_DEGENERATE)
        return status;
    if (c->tokens == 0 && c->skipped > 0)
        return qk__fail(err, status,
                        "no position was kept: %lld of %lld texts have more than %lld tokens "
                        "and were passed over; split or cut them",
                        (long long)c->skipped, (long long)c->texts, (long long)r->max_length);
    return qk__fail(
        err, status,
        c->tokens > 0
            ? "of %lld texts with %lld tokens no position was kept: the texts are too "
              "short for the sampler's rate; keep more rows, or all (sampler \"all\")"
            : "of %lld texts with %lld tokens no position was kept: there is nothing "
              "in the texts; give others",
        (long long)c->texts, (long long)c->tokens);
}

static qk_status open_sink(qk__recording *r, const qk_sink_settings *settings, qk_error *err)
{
    const qk_recorder_engine *engine = r->settings->engine;
    if (!engine)
        return qk_sink_open(&r->sink, settings, err);
    return engine->open(engine->user, settings, &r->sink) ? QK_OK
                                                          : qk__engine_failed(r, "open", err);
}

/* Of the whole program. */
static double processor_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static qk_status record_texts(qk__recording *r, const qk_sink_settings *settings, qk_error *err)
{
    qk_sink_outcome sunk = {0};
    QK_TRY(open_sink(r, settings, err));
    r->outcome->complete_already = qk_sink_is_complete(r->sink);
    if (r->outcome->complete_already) {
        r->outcome->complete = true;
        return QK_OK;
    }
    r->outcome->texts_before = qk_sink_texts_before(r->sink, &r->outcome->tokens_before);
    double begin = qk__now(), used = processor_seconds();
    qk_status status = qk__run_texts(r, err);
    double middle = qk__now(), used_running = processor_seconds();
    r->outcome->seconds_running = middle - begin;
    r->outcome->processor_running = used_running - used;
    QK_TRY(status);
    if (!r->settings->engine)
        status = qk_sink_finish(&r->sink, &sunk, err);
    if (status == QK_OK)
        sum_up(r, &sunk);
    r->outcome->seconds_writing = qk__now() - middle;
    r->outcome->processor_writing = processor_seconds() - used_running;
    return explain(r, status, err);
}

static qk_status record(qk__recording *r, qk_error *err)
{
    char *identity = NULL, *json = NULL, *card = NULL;
    int64_t *windows = NULL, *text_ids = NULL;
    qk_frequencies *frequencies = NULL;
    qk_sink_settings settings;
    qk_status status = qk__identify(r, &identity, err);
    if (status == QK_OK)
        status = qk__describe_capture(r, &json, &card, err);
    if (status == QK_OK)
        status = list_layers(r, &windows, &frequencies, err);
    if (status == QK_OK)
        status = list_text_ids(r, &text_ids, err);
    if (status == QK_OK) {
        set_sink(r, &settings);
        settings.windows = windows;
        settings.text_ids = text_ids;
        settings.frequencies = frequencies;
        settings.run = identity;
        settings.extra_json = json;
        settings.card = card;
        status = record_texts(r, &settings, err);
        if (!r->settings->engine)
            qk_sink_close(&r->sink);
    }
    free(identity);
    free(json);
    free(card);
    free(windows);
    free(text_ids);
    free(frequencies);
    return status;
}

qk_status qk_recorder_run(const qk_recorder_settings *settings, qk_recorder_outcome *outcome,
                          qk_error *err)
{
    QK_NEED(err, outcome);
    *outcome = (qk_recorder_outcome){0};
    QK_NEED(err, settings);
    qk__recording r = {.settings = settings, .outcome = outcome};
    QK_TRY(check_recorder_settings(settings, &r.keep, err));
    if (!settings->engine)
        QK_TRY(qk__output_glance(settings->output, settings->force, settings->stage, err));
    qk_status status = qk__recording_open(&r, err);
    if (status == QK_OK)
        status = record(&r, err);
    qk__recording_close(&r);
    return status;
}
