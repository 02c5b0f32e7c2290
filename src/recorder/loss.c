/* SPDX-License-Identifier: Apache-2.0 */
/* How well a model predicts texts. Texts are read, counted and split as those of a capture, and run in batches. */
#include <qkscope/loss.h>

#include <math.h>
#include <stdlib.h>

#include <qkscope/attention.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "recorder/recording.h"

enum { BATCH_TOKENS = 8192, BATCH_TEXTS = 4096 };

/* Sums over tokens. */
typedef struct loss_sum {
    int64_t tokens;
    double loss;
} loss_sum;

typedef struct losing {
    qk__recording recording;
    qk__buffer texts; /* qk_text_loss, whose loss is a sum until all texts are run */
    loss_sum all, by_bin[QK_DISTANCE_BINS];
    qk_sequence sequences[BATCH_TEXTS]; /* of the current batch */
    qk_tokens tokens[BATCH_TEXTS];
    size_t count;
    int64_t num_tokens, tokens_before;
} losing;

static qk_text_loss *texts_of(const losing *l)
{
    return (qk_text_loss *)(void *)l->texts.data;
}

static size_t count_texts(const losing *l)
{
    return l->texts.size / sizeof(qk_text_loss);
}

/* ---- a batch ----------------------------------------------------------------------------- */

static qk_status take_losses(void *user, const qk_prefill_losses *losses, qk_error *err)
{
    losing *l = user;
    qk_text_loss *text = &texts_of(l)[count_texts(l) - l->count + losses->sequence];
    (void)err;
    for (int64_t i = 0; i < losses->count; i++) {
        loss_sum *bin = &l->by_bin[qk_distance_bin(i + 1)];
        text->loss += (double)losses->of[i];
        bin->loss += (double)losses->of[i];
        bin->tokens++;
    }
    text->tokens = losses->count;
    return QK_OK;
}

static bool tell_tokens(const losing *l, int64_t more)
{
    const qk__recording *r = &l->recording;
    return qk__tell_progress(&r->settings->context,
                             &(qk_progress){.what = "tokens",
                                            .done = l->tokens_before + more,
                                            .total = r->counts.tokens,
                                            .texts = (int64_t)(count_texts(l) - l->count)});
}

static bool tell_layers(void *user, const qk_progress *layers)
{
    const losing *l = user;
    return tell_tokens(l, l->num_tokens * layers->done / layers->total);
}

static void clear_batch(losing *l)
{
    for (size_t i = 0; i < l->count; i++)
        qk_tokens_free(&l->tokens[i]);
    l->tokens_before += l->num_tokens;
    l->count = 0;
    l->num_tokens = 0;
}

static qk_status run_batch(losing *l, qk_error *err)
{
    const qk_recorder_settings *s = l->recording.settings;
    const qk_prefill_settings settings = {
        .arithmetic = s->arithmetic,
        .loss = take_losses,
        .user = l,
        .context = {.threads = s->context.threads, .progress = tell_layers, .user = l}};
    qk_status status = qk_prefill(l->recording.model, &settings, l->sequences, l->count, err);
    if (status == QK_ERR_CANCELLED)
        return qk__fail(err, status, "stopped after %lld of %lld tokens",
                        (long long)l->tokens_before, (long long)l->recording.counts.tokens);
    clear_batch(l);
    return status;
}

/* Takes the tokens over. */
static qk_status add_window(void *user, qk__window *window, qk_error *err)
{
    losing *l = user;
    const int64_t wanted = l->recording.settings->tokens_at_once;
    qk_text_loss text = {.source = qk__strdup(window->source),
                         .window = (int64_t)window->window};
    qk_status status =
        text.source ? qk__buffer_append(&l->texts, &text, sizeof text, err) : qk__nomem(err);
    if (status != QK_OK) {
        qk_tokens_free(&window->tokens);
        free((char *)(uintptr_t)text.source);
        return status;
    }
    l->tokens[l->count] = window->tokens;
    l->sequences[l->count++] = (qk_sequence){window->tokens.ids, (int64_t)window->tokens.count};
    l->num_tokens += (int64_t)window->tokens.count;
    return l->num_tokens < (wanted > 0 ? wanted : BATCH_TOKENS) && l->count < BATCH_TEXTS
               ? QK_OK
               : run_batch(l, err);
}

static qk_status run_texts(losing *l, qk_error *err)
{
    qk_status status = qk__visit_windows(&l->recording, 0, INT64_MAX, add_window, l, err);
    if (status == QK_OK && l->count > 0)
        status = run_batch(l, err);
    clear_batch(l);
    return status;
}

/* ---- the outcome ------------------------------------------------------------------------- */

static double mean_of(double sum, int64_t tokens)
{
    return tokens > 0 ? sum / (double)tokens : NAN;
}

static void add_positions(const losing *l, qk_losses *out, qk_position_loss *positions)
{
    for (int bin = 1; bin < QK_DISTANCE_BINS; bin++) {
        const loss_sum *sum = &l->by_bin[bin];
        const int64_t first = INT64_C(1) << (bin - 1), longest = l->recording.max_length;
        const int64_t last = bin + 1 < QK_DISTANCE_BINS ? 2 * first - 1 : INT64_MAX;
        if (sum->tokens > 0)
            positions[out->num_positions++] =
                (qk_position_loss){first, last < longest ? last : longest - 1, sum->tokens,
                                   mean_of(sum->loss, sum->tokens)};
    }
}

/* The memory of the texts, and the model's name, become the outcome's. */
static qk_status conclude(losing *l, qk_losses *out, qk_error *err)
{
    qk_text_loss *texts = texts_of(l);
    qk_position_loss *positions = qk__calloc(QK_DISTANCE_BINS, sizeof *positions);
    if (!positions)
        return qk__nomem(err);
    out->positions = positions;
    out->texts = texts;
    out->num_texts = count_texts(l);
    l->texts = (qk__buffer){0};
    for (size_t i = 0; i < out->num_texts; i++) {
        l->all.tokens += texts[i].tokens;
        l->all.loss += texts[i].loss;
        texts[i].loss = mean_of(texts[i].loss, texts[i].tokens);
    }
    add_positions(l, out, positions);
    out->model = l->recording.model_name;
    l->recording.model_name = NULL;
    out->tokens = l->all.tokens;
    out->loss = mean_of(l->all.loss, l->all.tokens);
    out->perplexity = exp(out->loss);
    out->cut = l->recording.counts.cut;
    out->skipped = l->recording.counts.skipped;
    out->empty = l->recording.counts.empty;
    if (out->tokens == 0)
        return qk__fail(err, QK_ERR_DEGENERATE,
                        "of %lld texts none has two tokens: there is nothing to predict",
                        (long long)l->recording.counts.texts);
    return QK_OK;
}

static void free_texts(qk_text_loss *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free((char *)(uintptr_t)texts[i].source);
    free(texts);
}

qk_status qk_loss_run(const qk_recorder_settings *settings, qk_losses **losses, qk_error *err)
{
    QK_NEED(err, losses);
    *losses = NULL;
    QK_NEED(err, settings);
    if (settings->engine)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "losses are of models that this library runs");
    losing *l = qk__calloc(1, sizeof *l);
    qk_losses *out = qk__calloc(1, sizeof *out);
    qk_recorder_outcome ignored = {0};
    qk_status status = l && out ? QK_OK : qk__nomem(err);
    if (status == QK_OK) {
        l->recording = (qk__recording){.settings = settings, .outcome = &ignored};
        const double begin = qk__now();
        status = qk__recording_open(&l->recording, err);
        if (status == QK_OK)
            status = run_texts(l, err);
        if (status == QK_OK)
            status = conclude(l, out, err);
        out->seconds = qk__now() - begin;
        free_texts(texts_of(l), count_texts(l));
        qk__recording_close(&l->recording);
    }
    free(l);
    if (status == QK_OK)
        *losses = out;
    else
        qk_losses_free(&out);
    return status;
}

void qk_losses_free(qk_losses **losses)
{
    qk_losses *l = *losses;
    if (!l)
        return;
    free_texts((qk_text_loss *)(uintptr_t)l->texts, l->num_texts);
    free((void *)(uintptr_t)l->positions);
    free((char *)(uintptr_t)l->model);
    free(l);
    *losses = NULL;
}
