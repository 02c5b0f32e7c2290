/* SPDX-License-Identifier: Apache-2.0 */
/* Running texts in groups: tokens, forward pass, and the rows kept into the spool. Where in its
 * file a row belongs is known before the forward pass, so that blocks may come from any thread
 * in any order. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_build.h"
#include "recorder/layer_rows.h"
#include "recorder/recording.h"

/* Small groups cost another conversion of the weights, large ones memory. */
enum { DEFAULT_TOKENS = 8192, MAX_GROUP_TEXTS = 4096 };

/* Notices of one kind are given for the first few texts. */
enum { MAX_NOTICES = 5 };

/* Checkpoints may take one part in so many of a run. */
enum { CHECKPOINT_SHARE = 20 };

/* A text that is being run, perhaps in several groups. What it points to lasts: no other text
 * is asked for until this one is through. */
typedef struct open_text {
    bool is_open;
    qk__input_text text;
    qk__buffer source; /* "file" or "file:line" */
    qk__encoded encoded;
    size_t next; /* window */
    int64_t weight;
} open_text;

typedef struct group {
    qk__recording *r;
    open_text open;
    int64_t skip; /* windows of the first text that an earlier run has done */
    qk_sequence *sequences;
    int64_t *ids; /* of the texts behind the sequences */
    qk_tokens *tokens;
    size_t count; /* at most MAX_GROUP_TEXTS */
    int64_t num_tokens, weight;
    int64_t num_texts, empty, split, cut, skipped; /* texts that end in it */
    qk__buffer examples;
} group;

/* ---- progress --------------------------------------------------------------------------- */

/* `more`: tokens beyond those that the journal has. */
static bool tell_progress(const qk__recording *r, int64_t more)
{
    const qk__journal *j = &r->journal;
    if (!r->settings->progress)
        return true;
    double total = r->total_tokens > 0 ? (double)r->total_tokens
                   : j->done_weight > 0
                       ? (double)j->tokens / (double)j->done_weight * (double)r->total_weight
                       : 0;
    return r->settings->progress(r->settings->user, &(qk_progress){.what = "tokens",
                                                                   .done = j->tokens + more,
                                                                   .total = (int64_t)total,
                                                                   .texts = j->texts});
}

/* ---- one group -------------------------------------------------------------------------- */

static void clear_group(group *g)
{
    for (size_t i = 0; i < g->count; i++)
        qk_tokens_free(&g->tokens[i]);
    g->examples.size = 0;
    g->count = 0;
    g->num_tokens = g->weight = 0;
    g->num_texts = g->empty = g->split = g->cut = g->skipped = 0;
}

static void close_text(open_text *o)
{
    qk_tokens_free(&o->encoded.tokens);
    qk__buffer_free(&o->source);
    *o = (open_text){0};
}

static void free_group(group *g)
{
    clear_group(g);
    close_text(&g->open);
    free(g->sequences);
    free(g->ids);
    free(g->tokens);
    qk__buffer_free(&g->examples);
}

static bool pass_progress(void *user, const qk_progress *layers)
{
    const qk__layer_rows *rows = user;
    int64_t tokens = 0;
    for (size_t i = 0; i < rows->count; i++)
        tokens += rows->sequences[i].count;
    return tell_progress(rows->r, tokens * layers->done / layers->total);
}

static qk_status run_model(group *g, int64_t *kept, qk_error *err)
{
    qk__recording *r = g->r;
    qk__layer_rows rows;
    qk_prefill_settings settings;
    QK_TRY(qk__layer_rows_init(&rows, r, g->sequences, g->ids, g->count, kept, err));
    qk_prefill_settings_default(&settings);
    settings.arithmetic = r->settings->arithmetic;
    settings.threads = r->threads;
    settings.after_rope = r->stages[QK__POST];
    settings.before_rope = r->stages[QK__PRE];
    settings.q_heads = r->selection->q_heads;
    settings.k_heads = r->selection->k_heads;
    settings.sink = qk__layer_rows_take;
    settings.progress = pass_progress;
    settings.user = &rows;
    qk_status status = qk_prefill(r->model, &settings, g->sequences, g->count, err);
    if (status == QK_OK)
        status = qk__layer_rows_end(&rows, err);
    qk__layer_rows_free(&rows);
    return status;
}

/* The journal moves on only when everything of the group is in the spool. */
static qk_status run_group(group *g, qk_error *err)
{
    qk__journal *j = &g->r->journal;
    size_t parts = 2 * (size_t)g->r->facts->num_layers;
    int64_t *rows = qk__calloc(parts, sizeof *rows);
    if (!rows)
        return qk__nomem(err);
    qk_status status = g->count > 0 ? run_model(g, rows, err) : QK_OK;
    if (status == QK_OK)
        status = qk__spool_examples(g->r, &g->examples, err);
    for (size_t i = 0; status == QK_OK && i < parts; i++)
        j->rows[i] += rows[i];
    if (status == QK_OK) {
        j->texts += g->num_texts;
        j->tokens += g->num_tokens;
        j->empty += g->empty;
        j->split += g->split;
        j->cut += g->cut;
        j->skipped += g->skipped;
        j->windows += (int64_t)g->count;
        j->window = (int64_t)g->open.next;
        j->done_weight += g->weight;
        j->example_bytes += (int64_t)g->examples.size;
    }
    free(rows);
    return status;
}

/* ---- texts into groups ------------------------------------------------------------------ */

static qk_status init_group(group *g, qk__recording *r, qk_error *err)
{
    *g = (group){.r = r};
    g->sequences = qk__calloc(MAX_GROUP_TEXTS, sizeof *g->sequences);
    g->ids = qk__calloc(MAX_GROUP_TEXTS, sizeof *g->ids);
    g->tokens = qk__calloc(MAX_GROUP_TEXTS, sizeof *g->tokens);
    return g->sequences && g->ids && g->tokens ? QK_OK : qk__nomem(err);
}

/* Of windows of the same text. A number cannot be made part of an id of 64 bits, so both are
 * hashed. */
static qk_status window_id(const open_text *o, size_t window, int64_t *id, qk_error *err)
{
    qk__buffer name = {0};
    *id = o->text.id;
    if (o->encoded.windows < 2)
        return QK_OK;
    qk_status status = qk__buffer_printf(&name, err, "%" PRId64 "#%zu", o->text.id, window);
    if (status == QK_OK)
        *id = qk_example_id_of_text((const char *)name.data, name.size);
    qk__buffer_free(&name);
    return status;
}

/* "NAME", or "NAME#2" of a window. */
static json_t *name_window(const open_text *o, const char *name, size_t window)
{
    json_t *whole = qk__json_text(name);
    if (o->encoded.windows < 2 || !whole)
        return whole;
    json_t *part = json_sprintf("%s#%zu", json_string_value(whole), window);
    json_decref(whole);
    return part;
}

static qk_status add_example(group *g, size_t window, size_t tokens, int64_t *id, qk_error *err)
{
    const open_text *o = &g->open;
    QK_TRY(window_id(o, window, id, err));
    json_t *source = name_window(o, (const char *)o->source.data, window);
    json_t *source_id = o->text.has_id ? name_window(o, o->text.name, window) : json_string("");
    json_t *line =
        json_pack("{s:I, s:o, s:o, s:I, s:b, s:I, s:I}", "example_id", (json_int_t)*id,
                  "source", source, "source_id", source_id, "tokens", (json_int_t)tokens,
                  "truncated", o->encoded.cut, "window", (json_int_t)window, "first_token",
                  (json_int_t)qk__window_start(g->r, window));
    char *dump = qk__json_dumps(line, JSON_COMPACT);
    qk_status status =
        dump ? qk__buffer_printf(&g->examples, err, "%s\n", dump) : qk__nomem(err);
    free(dump);
    json_decref(line);
    return status;
}

static void tell(const group *g)
{
    const qk__recording *r = g->r;
    const char *source = (const char *)g->open.source.data;
    const qk__encoded *e = &g->open.encoded;
    if (e->cut && r->journal.cut + g->cut <= MAX_NOTICES)
        qk__recorder_notice(r, QK_NOTICE_WARNING, "%s: cut after %lld tokens", source,
                            (long long)r->max_length);
    if (e->skipped && r->journal.skipped + g->skipped <= MAX_NOTICES)
        qk__recorder_notice(r, QK_NOTICE_WARNING, "%s: more than %lld tokens, passed over",
                            source, (long long)r->max_length);
    if (!e->skipped && e->windows == 0 && r->journal.empty + g->empty <= MAX_NOTICES)
        qk__recorder_notice(r, QK_NOTICE_WARNING, "%s: no tokens in it, passed over", source);
}

/* *more is false behind the last text. */
static qk_status open_next(group *g, bool *more, qk_error *err)
{
    open_text *o = &g->open;
    QK_TRY(qk__texts_next(g->r->texts, &o->text, more, err));
    if (!*more)
        return QK_OK;
    QK_TRY(qk__name_source(&o->text, &o->source, err));
    QK_TRY(qk__context(err, qk__encode(g->r, &o->text, &o->encoded, err), "%s",
                       (const char *)o->source.data));
    o->is_open = true;
    o->weight = qk__text_weight(g->r, &o->text);
    o->next = (size_t)g->skip;
    g->skip = 0;
    return QK_OK;
}

/* A text without tokens is an example, too, of which there are no rows. */
static qk_status end_text(group *g, qk_error *err)
{
    open_text *o = &g->open;
    int64_t id;
    bool empty = o->encoded.windows == 0 && !o->encoded.skipped;
    if (empty)
        QK_TRY(add_example(g, 0, 0, &id, err));
    g->num_texts++;
    g->empty += empty;
    g->split += o->encoded.windows > 1;
    g->cut += o->encoded.cut;
    g->skipped += o->encoded.skipped;
    if (o->encoded.windows == 0)
        g->weight += o->weight;
    tell(g);
    close_text(o);
    return QK_OK;
}

static qk_status add_window(group *g, qk_error *err)
{
    open_text *o = &g->open;
    size_t k = o->next;
    int64_t windows = (int64_t)o->encoded.windows;
    qk_tokens *tokens = &g->tokens[g->count];
    QK_TRY(add_example(g, k, qk__window_tokens(g->r, &o->encoded, k), &g->ids[g->count], err));
    QK_TRY(qk__take_window(g->r, &o->encoded, k, tokens, err));
    g->sequences[g->count++] = (qk_sequence){tokens->ids, (int64_t)tokens->count};
    g->num_tokens += (int64_t)tokens->count;
    g->weight += o->weight / windows + ((int64_t)k < o->weight % windows);
    o->next++;
    return QK_OK;
}

/* How texts are grouped depends on the texts alone, counted from where the journal stands,
 * which is always between two groups. */
static qk_status fill_group(group *g, bool *more, qk_error *err)
{
    int64_t limit = g->r->settings->tokens_at_once;
    limit = limit > 0 ? limit : DEFAULT_TOKENS;
    *more = true;
    while (g->num_tokens < limit && g->num_texts < MAX_GROUP_TEXTS &&
           g->count < MAX_GROUP_TEXTS) {
        if (!g->open.is_open)
            QK_TRY(open_next(g, more, err));
        if (!*more)
            return QK_OK;
        if (g->open.next < g->open.encoded.windows)
            QK_TRY(add_window(g, err));
        if (g->open.next >= g->open.encoded.windows)
            QK_TRY(end_text(g, err));
    }
    return QK_OK;
}

static qk_status checkpoint(const qk__recording *r, qk_error *err)
{
    QK_TRY(qk__spool_sync(r, err));
    return qk__journal_write(r, err);
}

static qk_status run_groups(group *g, qk_error *err)
{
    bool more = true;
    double last = qk__now();
    double cost = 0;
    while (more) {
        clear_group(g);
        QK_TRY(fill_group(g, &more, err));
        if (g->num_texts == 0 && g->count == 0)
            break;
        qk_error why = {0};
        qk_status status = run_group(g, &why);
        bool stop = status != QK_OK || !tell_progress(g->r, 0);
        double begin = qk__now();
        if (stop || begin - last >= CHECKPOINT_SHARE * cost) {
            QK_TRY(checkpoint(g->r, err));
            last = qk__now();
            cost = last - begin;
        }
        if (status != QK_OK && status != QK_ERR_CANCELLED)
            return qk__fail(err, status, "%s", why.message);
        if (stop)
            return qk__fail(err, QK_ERR_CANCELLED,
                            "stopped after %" PRId64 " of %" PRId64
                            " texts; the same command resumes it",
                            g->r->journal.texts, g->r->num_texts);
    }
    return QK_OK;
}

qk_status qk__run_texts(qk__recording *r, qk_error *err)
{
    group g;
    qk__texts_rewind(r->texts);
    qk_status status = init_group(&g, r, err);
    bool more = true;
    g.skip = r->journal.window;
    for (int64_t i = 0; status == QK_OK && more && i < r->journal.texts; i++) {
        qk__input_text text;
        status = qk__texts_next(r->texts, &text, &more, err);
    }
    if (status == QK_OK)
        status = run_groups(&g, err);
    if (status == QK_OK) {
        r->journal.writing = true;
        status = checkpoint(r, err);
    }
    free_group(&g);
    return status;
}
