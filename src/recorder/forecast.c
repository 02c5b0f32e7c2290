/* SPDX-License-Identifier: Apache-2.0 */
/* How long a capture takes here: small captures are made and removed. They have the heads of the first layer, and one
 * head of the next layer, so that all of the first layer is run. */
#include <math.h>
#include <stdlib.h>

#include <qkscope/recorder.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/folder.h"
#include "model/made_weights.h"
#include "recorder/recording.h"

enum {
    SHORT = 32,     /* tokens of the first captures, whose time is mostly that of the weights */
    MORE = 8,       /* the next capture has so many times the tokens, however long that takes */
    LEAST_ROWS = 8, /* of a head, so that even a short text has some */
};

static const double SECONDS = 4.0; /* for all captures, where the weights allow it */

/* Operations that grow with the number of tokens, and those of attention. */
typedef struct work {
    double linear, attention;
} work;

/* A small capture: how many texts of how many tokens, and how long it took. */
typedef struct trial {
    int64_t texts, tokens;
    work work;
    qk_recorder_outcome outcome;
} trial;

typedef struct measuring {
    const qk_model *model;
    qk_recorder_settings settings; /* of the small captures */
    qk_head_range heads[2];        /* heads of the small captures */
    qk_recorder_selection *all, *some;
    bool attention;
    int64_t texts, tokens; /* of the capture that is asked for */
    int64_t batch;         /* texts that it runs together */
    double rows;           /* of a head and kind */
    char *folder;          /* where the small captures are made */
    char *made;            /* in it, a model with made-up weights; NULL: not needed */
    trial first, before, last;
    double seconds, processor; /* of all trials, without opening model and tokenizer */
} measuring;

static qk_status ignore_attention(void *user, const qk_prefill_attention *sums, qk_error *err)
{
    (void)user;
    (void)sums;
    (void)err;
    return QK_OK;
}

/* The work of one text. A text of one token has one pair of query and key a head, a text of two tokens three. */
static work count_work(const measuring *m, const qk_recorder_selection *heads, int64_t tokens)
{
    const qk_prefill_settings run = {.after_rope = true,
                                     .q_heads = heads->q_heads,
                                     .k_heads = heads->k_heads,
                                     .attention = m->attention ? ignore_attention : NULL};
    const double one = qk_prefill_flops(m->model, &run, 1);
    const double pair = qk_prefill_flops(m->model, &run, 2) - 2 * one;
    const double linear = (one - pair) * (double)tokens;
    return (work){linear, qk_prefill_flops(m->model, &run, tokens) - linear};
}

/* ---- small captures --------------------------------------------------------------------- */

static qk_status run_trial(measuring *m, int64_t texts, int64_t tokens, qk_error *err)
{
    const double share = m->rows / ((double)m->texts * (double)m->tokens);
    char source[64];
    const char *list[] = {source};
    qk_recorder_settings s = m->settings;
    trial *t = &m->last;
    snprintf(source, sizeof source, "repeat:%lldx1:%lld", (long long)tokens, (long long)texts);
    s.texts = list;
    s.num_texts = 1;
    s.max_length = tokens;
    s.rows = (int64_t)fmax(LEAST_ROWS, share * (double)texts * (double)tokens);
    *t = (trial){.texts = texts, .tokens = tokens, .work = count_work(m, m->some, tokens)};
    t->work.linear *= (double)texts;
    t->work.attention *= (double)texts;
    qk_status status = qk_recorder_run(&s, &t->outcome, err);
    m->seconds += t->outcome.seconds_running + t->outcome.seconds_writing;
    m->processor += t->outcome.processor_running + t->outcome.processor_writing;
    qk_status removed = qk__remove_below(m->folder, "capture", status == QK_OK ? err : NULL);
    if (status == QK_ERR_CANCELLED)
        return qk__fail(err, status, "stopped while the time of a capture was measured");
    return status == QK_OK ? removed : status;
}

/* Makes the text `times` as long, or takes `times` as many texts; false: nothing larger is run together. */
static bool enlarge(const measuring *m, int64_t times, int64_t *texts, int64_t *tokens)
{
    if (*tokens < m->tokens)
        *tokens = times * *tokens < m->tokens ? times * *tokens : m->tokens;
    else if (*texts < m->batch)
        *texts = times * *texts < m->batch ? times * *texts : m->batch;
    else
        return false;
    return true;
}

/* cold: how much longer a first run takes than a second one. */
static qk_status run_trials(measuring *m, double *cold, qk_error *err)
{
    const double begin = qk__now();
    int64_t texts = 1, tokens = m->tokens < SHORT ? m->tokens : SHORT, times = MORE;
    QK_TRY(run_trial(m, texts, tokens, err));
    *cold = m->last.outcome.seconds_running;
    m->seconds = m->processor = 0;
    QK_TRY(run_trial(m, texts, tokens, err));
    m->first = m->last;
    *cold = fmax(0, *cold - m->first.outcome.seconds_running);
    double last = 0;
    while ((last == 0 || qk__now() - begin + 2.5 * last < SECONDS) &&
           enlarge(m, times, &texts, &tokens)) {
        const double start = qk__now();
        m->before = m->last;
        QK_TRY(run_trial(m, texts, tokens, err));
        last = qk__now() - start;
        times = 2;
    }
    return QK_OK;
}

/* ---- extrapolation ---------------------------------------------------------------------- */

/* Seconds of processor for an operation of either kind. Both kinds get one rate where the last text is as long as
 * those asked for, or the data do not separate them. */
static work find_rates(const measuring *m)
{
    const trial *a = &m->first, *b = &m->before, *c = &m->last;
    const double t = c->outcome.processor_running - a->outcome.processor_running;
    const double linear = c->work.linear - a->work.linear;
    const double attention = c->work.attention - a->work.attention;
    const double same = linear > 0 ? fmax(0, t) / (linear + attention) : 0;
    if (c->tokens == m->tokens || b->tokens == a->tokens)
        return (work){same, same};
    const double u = b->outcome.processor_running - a->outcome.processor_running;
    const double linear_b = b->work.linear - a->work.linear;
    const double attention_b = b->work.attention - a->work.attention;
    const double determinant = linear * attention_b - linear_b * attention;
    const work rates = {(t * attention_b - u * attention) / determinant,
                        (u * linear - t * linear_b) / determinant};
    return rates.linear > 0 && rates.attention > 0 ? rates : (work){same, same};
}

/* The work of a token in all layers, as a multiple of the first layer's. */
static double count_layers(const measuring *m)
{
    return count_work(m, m->all, 1).linear / count_work(m, m->some, 1).linear;
}

static double processor_running(const measuring *m)
{
    const work all = count_work(m, m->all, m->tokens), rates = find_rates(m);
    const double batches = ceil((double)m->texts / (double)m->batch);
    return batches * count_layers(m) * m->first.outcome.processor_running +
           (double)m->texts * (rates.linear * all.linear + rates.attention * all.attention);
}

/* A file of a head takes some time, and each of its rows takes some. */
static double processor_writing(const measuring *m)
{
    const qk_recorder_outcome *a = &m->first.outcome, *b = &m->last.outcome;
    const double more = (double)(b->rows - a->rows);
    const double row =
        more > 0 ? fmax(0, b->processor_writing - a->processor_writing) / more : 0;
    const double heads = (double)(m->all->num_q + m->all->num_k);
    const double files = heads / (double)(m->some->num_q + m->some->num_k);
    const double rows = b->rows > 0 ? heads * m->rows : 0;
    return files * a->processor_writing + row * fmax(0, rows - files * (double)a->rows);
}

/* ---- models without weights ------------------------------------------------------------- */

/* With a vocabulary that takes no room. */
static qk_status make_model(measuring *m, int last_layer, qk_error *err)
{
    m->made = qk__path_join(m->folder, "model");
    if (!m->made)
        return qk__nomem(err);
    m->settings.overrides = "{\"vocab_size\": 256}";
    QK_TRY(
        qk__make_weights(m->settings.model, m->settings.overrides, last_layer, m->made, err));
    m->settings.model = m->made;
    return QK_OK;
}

/* ---- the whole -------------------------------------------------------------------------- */

static int next_layer(const qk_recorder_selection *all, int layer)
{
    const size_t heads = (size_t)all->num_q_heads;
    for (; layer < all->num_layers; layer++)
        for (size_t h = 0; h < heads; h++)
            if (all->q_heads[(size_t)layer * heads + h])
                return layer;
    return layer;
}

static qk_status foresee(measuring *m, qk_recorder_forecast *forecast, qk_error *err)
{
    const qk_model_facts *facts = qk_model_get_facts(m->model);
    QK_TRY(qk_recorder_select(&m->settings, facts, &m->all, err));
    const int first = next_layer(m->all, 0), second = next_layer(m->all, first + 1);
    m->heads[0] = (qk_head_range){first, first, 0, m->all->num_q_heads - 1};
    m->heads[1] = (qk_head_range){second, second, 0, 0};
    m->settings.heads = (qk_head_set){m->heads, second < m->all->num_layers ? 2 : 1};
    QK_TRY(qk_recorder_select(&m->settings, facts, &m->some, err));
    const double begin = qk__now();
    double cold = 0;
    forecast->made_weights = facts->weight_bytes == 0;
    if (forecast->made_weights)
        QK_TRY(make_model(m, second < m->all->num_layers ? second : first, err));
    QK_TRY(run_trials(m, &cold, err));
    forecast->measuring = qk__now() - begin;
    forecast->tokens = m->last.tokens;
    forecast->processor_seconds = processor_running(m) + processor_writing(m);
    forecast->seconds =
        forecast->processor_seconds * m->seconds / m->processor + cold * count_layers(m);
    return QK_OK;
}

qk_status qk_recorder_foresee(const qk_recorder_settings *settings, const qk_model *model,
                              int64_t texts, int64_t tokens, qk_recorder_forecast *forecast,
                              qk_error *err)
{
    QK_NEED(err, settings, model, forecast);
    const char *folder = getenv("TMPDIR");
    qk_keep keep = {.rows = false};
    *forecast = (qk_recorder_forecast){0};
    if (texts < 1 || tokens < 1)
        return qk__fail(err, QK_ERR_ARGUMENT, "a forecast for no text, or for no token");
    QK_TRY(qk_keep_parse(settings->keep ? settings->keep : "rows,attention", &keep, err));
    const double total = (double)texts * (double)tokens;
    measuring m = {.model = model,
                   .settings = *settings,
                   .attention = keep.attention,
                   .texts = texts,
                   .tokens = tokens,
                   .batch = (QK_TOKENS_AT_ONCE + tokens - 1) / tokens,
                   .rows = fmin((double)settings->rows, total)};
    m.batch = m.batch < texts ? m.batch : texts;
    m.settings.context.notice = NULL;
    m.settings.context.offline = true;
    QK_TRY(
        qk__stage_below(folder && *folder ? folder : "/tmp", "", "forecast", &m.folder, err));
    char *output = qk__path_join(m.folder, "capture");
    m.settings.output = output;
    qk_status status = output ? foresee(&m, forecast, err) : qk__nomem(err);
    qk_recorder_selection_free(&m.all);
    qk_recorder_selection_free(&m.some);
    qk_status removed = qk__remove_below(m.folder, "model", status == QK_OK ? err : NULL);
    qk__remove_staging(m.folder);
    free(m.folder);
    free(m.made);
    free(output);
    return status == QK_OK ? removed : status;
}
