/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a capture: the order of events of a run. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <qkscope/capture.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "recorder/place.h"
#include "recorder/recording.h"

enum { MAX_LENGTH = 1 << 30 };

/* ---- opening ---------------------------------------------------------------------------- */

/* What is 0 is chosen later. */
static qk_status check_sampler(const qk_recorder_settings *s, qk_error *err)
{
    qk_sampler sampler = s->sampler;
    qk_sampler usual;
    qk_sampler_default(&usual);
    if (sampler.base_rate == 0 && s->rows < 1)
        return qk__fail(err, QK_ERR_ARGUMENT, "neither rows nor a rate of the sampler");
    if (sampler.base_rate == 0) {
        sampler.base_rate = usual.base_rate;
        if (sampler.min_bucket_size == 0)
            sampler.min_bucket_size = usual.min_bucket_size;
    }
    return qk_sampler_check(&sampler, err);
}

static qk_status check(const qk_recorder_settings *s, qk_error *err)
{
    if (!s->model || !*s->model)
        return qk__fail(err, QK_ERR_ARGUMENT, "no model given");
    if (s->num_texts == 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "no texts given");
    if (!s->output || !*s->output)
        return qk__fail(err, QK_ERR_ARGUMENT, "no output folder given");
    if ((s->kinds & QK_KINDS_BOTH) == 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "neither queries nor keys are to be kept");
    if (s->max_length < 0 || s->max_length > MAX_LENGTH)
        return qk__fail(err, QK_ERR_ARGUMENT, "max_length %lld: give 1 to %d",
                        (long long)s->max_length, MAX_LENGTH);
    if (s->max_examples < 0 || s->sample_heads < 0 || s->tokens_at_once < 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "a negative number of texts, heads or tokens");
    if ((unsigned)s->long_texts > QK_LONG_SKIP)
        return qk__fail(err, QK_ERR_ARGUMENT, "long texts are split, cut or skipped");
    return check_sampler(s, err);
}

/* The last part of a path, without the ending of a file, or the name of a cached model as it
 * is. */
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
    if (file && length - begin > strlen(".gguf")) /* the only files that are models */
        length -= strlen(".gguf");
    char *name = qk__strdup(s->model + begin);
    if (name)
        name[length - begin] = 0;
    return name;
}

static qk_status open_tokenizer(qk__recording *r, const char *folder, qk_error *err)
{
    const char *path = r->settings->tokenizer;
    char *found = NULL;
    if (path && !qk__is_file(path))
        QK_TRY(qk_hub_find_model(path, NULL, &found, err));
    qk_status status = qk_tokenizer_open(&r->tokenizer,
                                         found  ? found
                                         : path ? path
                                                : folder,
                                         err);
    free(found);
    return status;
}

static qk_status open_model(qk__recording *r, qk_error *err)
{
    const qk_recorder_settings *s = r->settings;
    char *folder;
    QK_TRY(qk_hub_find_model(s->model, s->revision, &folder, err));
    r->model_name = name_model(s);
    qk_status status =
        r->model_name ? qk_model_open(&r->model, folder, s->overrides, err) : qk__nomem(err);
    if (status == QK_OK) {
        r->facts = qk_model_get_facts(r->model);
        status = open_tokenizer(r, folder, err);
    }
    free(folder);
    if (status == QK_OK)
        status = qk_recorder_select(s, r->facts, &r->selection, err);
    return status;
}

static qk_status prepare(qk__recording *r, qk_error *err)
{
    const qk_recorder_settings *s = r->settings;
    QK_TRY(open_model(r, err));
    r->max_length = s->max_length > 0 ? s->max_length : r->facts->max_positions;
    if (r->max_length > r->facts->max_positions)
        qk__recorder_notice(r, QK_NOTICE_WARNING,
                            "texts of up to %lld tokens are run, the model was made for %lld",
                            (long long)r->max_length, (long long)r->facts->max_positions);
    r->journal.rows = qk__calloc(2 * (size_t)r->facts->num_layers, sizeof *r->journal.rows);
    if (!r->journal.rows)
        return qk__nomem(err);
    qk_tokenizer_special(r->tokenizer, &r->specials_before, &r->specials_after);
    QK_TRY(qk__texts_open(&r->texts, s, err));
    QK_TRY(qk__survey(r, err));
    return qk__identify(r, err);
}

static void release(qk__recording *r)
{
    if (r->lock >= 0)
        close(r->lock);
    qk__texts_close(&r->texts);
    json_decref(r->identity);
    qk_recorder_selection_free(&r->selection);
    qk_tokenizer_close(&r->tokenizer);
    qk_model_close(&r->model);
    free(r->journal.rows);
    free(r->model_name);
    free(r->partial);
    free(r->spool);
    free(r->fresh);
}

/* ---- running ---------------------------------------------------------------------------- */

static void count_bytes(qk_recorder_outcome *outcome, const char *folder)
{
    qk_capture *capture;
    if (qk_capture_open(&capture, folder, "", NULL) != QK_OK) /* others may lie deeper */
        return;
    for (size_t i = 0; i < qk_capture_num_heads(capture); i++) {
        struct stat st;
        if (stat(qk_capture_head(capture, i)->files[0], &st) == 0)
            outcome->bytes += st.st_size;
    }
    qk_capture_close(&capture);
}

static void sum_up(const qk__recording *r)
{
    qk_recorder_outcome *o = r->outcome;
    const qk__journal *j = &r->journal;
    o->texts = j->texts;
    o->tokens = j->tokens;
    o->windows = j->windows;
    o->empty = j->empty;
    o->split = j->split;
    o->cut = j->cut;
    o->skipped = j->skipped;
    o->sampler = r->sampler;
    o->expected_rows = r->expected_rows;
    for (int stage = 0; stage < QK__STAGES; stage++) {
        char *folder = qk__stage_folder(r, r->settings->output, stage);
        if (folder && r->stages[stage])
            count_bytes(o, folder);
        free(folder);
    }
}

static qk_status run(qk__recording *r, qk_error *err)
{
    bool complete;
    QK_TRY(qk__output_open(r, &complete, err));
    r->outcome->complete_already = complete;
    if (complete)
        return QK_OK;
    double begin = qk__now();
    qk_status status = r->journal.writing ? QK_OK : qk__run_texts(r, err);
    double middle = qk__now();
    bool ran = status == QK_OK;
    r->outcome->seconds_running = middle - begin;
    if (ran)
        status = qk__write_captures(r, err);
    /* To resume it would not help: the same would come again. */
    if (status == QK_ERR_DEGENERATE && (ran || r->journal.texts == 0)) {
        qk__partial_drop(r->settings->output);
        rmdir(r->settings->output);
    }
    if (status == QK_OK)
        status = qk__output_publish(r, err);
    if (status == QK_OK)
        sum_up(r);
    r->outcome->seconds_writing = qk__now() - middle;
    return status;
}

qk_status qk_recorder_run(const qk_recorder_settings *settings, qk_recorder_outcome *outcome,
                          qk_error *err)
{
    QK_NEED(err, outcome);
    *outcome = (qk_recorder_outcome){0};
    QK_NEED(err, settings);
    QK_TRY(check(settings, err));
    QK_TRY(qk__output_glance(settings, err));
    qk__recording r = {.settings = settings, .outcome = outcome, .lock = -1};
    r.threads = settings->threads > 0 ? settings->threads : qk__available_threads();
    r.stages[QK__POST] = settings->stage != QK_ROPE_BEFORE;
    r.stages[QK__PRE] = settings->stage != QK_ROPE_AFTER;
    qk_status status = prepare(&r, err);
    if (status == QK_OK)
        status = run(&r, err);
    release(&r);
    return status;
}
