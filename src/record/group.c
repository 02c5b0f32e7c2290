/* SPDX-License-Identifier: Apache-2.0 */
/* Running texts in groups: tokens, forward pass, and the rows kept into the spool. Where in its
 * file a row belongs is known before the forward pass, so that blocks may come from any thread
 * in any order. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "record/layer_rows.h"
#include "record/run.h"
#include "study/json.h"

/* Small groups cost another conversion of the weights, large ones memory. */
enum { DEFAULT_TOKENS = 8192, MAX_GROUP_TEXTS = 4096 };

/* Notices of one kind are given for the first few texts. */
enum { MAX_NOTICES = 5 };

/* Checkpoints may take one part in so many of a run. */
enum { CHECKPOINT_SHARE = 20 };

typedef struct group {
    qk_recording *r;
    qk_sequence *sequences;
    int64_t *ids; /* of the texts behind the sequences */
    qk_tokens *tokens;
    size_t count; /* at most MAX_GROUP_TEXTS */
    int64_t num_tokens, num_texts, empty, cut, weight;
    qk_buffer examples;
} group;

/* ---- progress ---------------------------------------------------------------------- */

static bool tell_progress(const qk_recording *r, int64_t more)
{
    const qk_journal *j = &r->journal;
    if (!r->settings->progress)
        return true;
    double total = j->done_weight > 0
                       ? (double)j->tokens / (double)j->done_weight * (double)r->total_weight
                       : 0;
    return r->settings->progress(r->settings->user, j->tokens + more, (int64_t)total, j->texts);
}

static bool pass_progress(void *user, int layer, int num_layers, int64_t tokens)
{
    const qk_layer_rows *rows = user;
    return tell_progress(rows->r, num_layers > 0 ? tokens * layer / num_layers : 0);
}

/* ---- one group
 * ------------------------------------------------------------------------------- */

static void clear_group(group *g)
{
    for (size_t i = 0; i < g->count; i++)
        qk_tokens_free(&g->tokens[i]);
    g->examples.size = 0;
    g->count = 0;
    g->num_tokens = g->num_texts = g->empty = g->cut = g->weight = 0;
}

static void free_group(group *g)
{
    clear_group(g);
    free(g->sequences);
    free(g->ids);
    free(g->tokens);
    qk__buffer_free(&g->examples);
}

static qk_status run_model(group *g, int64_t *kept, qk_error *err)
{
    qk_recording *r = g->r;
    qk_layer_rows rows;
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
    qk_journal *j = &g->r->journal;
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
        j->cut += g->cut;
        j->done_weight += g->weight;
        j->example_bytes += (int64_t)g->examples.size;
    }
    free(rows);
    return status;
}

/* ---- texts into groups ---------------------------------------------------------------------
 */

static qk_status init_group(group *g, qk_recording *r, qk_error *err)
{
    *g = (group){.r = r};
    g->sequences = qk__calloc(MAX_GROUP_TEXTS, sizeof *g->sequences);
    g->ids = qk__calloc(MAX_GROUP_TEXTS, sizeof *g->ids);
    g->tokens = qk__calloc(MAX_GROUP_TEXTS, sizeof *g->tokens);
    return g->sequences && g->ids && g->tokens ? QK_OK : qk__nomem(err);
}

static qk_status encode(const qk_recording *r, const qk_text *text, qk_tokens *tokens,
                        bool *cut, qk_error *err)
{
    size_t limit = (size_t)r->max_length;
    *tokens = (qk_tokens){0};
    QK_TRY(qk_tokenizer_encode(r->tokenizer, text->data, text->size, true, limit + 1, tokens,
                               err));
    *cut = tokens->count > limit;
    if (*cut) {
        qk_tokens_free(tokens);
        QK_TRY(qk_tokenizer_encode(r->tokenizer, text->data, text->size, true, limit, tokens,
                                   err));
    }
    for (size_t i = 0; i < tokens->count; i++)
        if (tokens->ids[i] < 0 || tokens->ids[i] >= r->facts->vocab_size) {
            qk_status status = qk__fail(
                err, QK_ERR_INCONSISTENT,
                "token %d of the tokenizer is not in the model's vocabulary of %d: is it this "
                "model's tokenizer?",
                tokens->ids[i], r->facts->vocab_size);
            qk_tokens_free(tokens);
            return status;
        }
    return QK_OK;
}

/* "file" or "file:line" */
static qk_status name_source(const qk_text *text, qk_buffer *name, qk_error *err)
{
    if (text->line > 0)
        return qk__buffer_printf(name, err, "%s:%" PRId64, text->path, text->line);
    return qk__buffer_printf(name, err, "%s", text->path);
}

static qk_status add_example(group *g, const qk_text *text, const char *source, size_t tokens,
                             bool cut, qk_error *err)
{
    json_t *line =
        json_pack("{s:I, s:o, s:o, s:I, s:b}", "example_id", (json_int_t)text->id, "source",
                  qk__json_text(source), "source_id", qk__json_text(text->name), "tokens",
                  (json_int_t)tokens, "truncated", cut);
    char *dump = line ? json_dumps(line, JSON_COMPACT) : NULL;
    qk_status status =
        dump ? qk__buffer_printf(&g->examples, err, "%s\n", dump) : qk__nomem(err);
    free(dump);
    json_decref(line);
    return status;
}

static void tell(const group *g, const char *source, bool cut)
{
    const qk_recording *r = g->r;
    if (cut && r->journal.cut + g->cut <= MAX_NOTICES)
        qk__record_notice(r, QK_NOTICE_WARNING, "%s: cut after %lld tokens", source,
                          (long long)r->max_length);
    if (!cut && r->journal.empty + g->empty <= MAX_NOTICES)
        qk__record_notice(r, QK_NOTICE_WARNING, "%s: no tokens in it, passed over", source);
}

static qk_status add_text(group *g, const qk_text *text, const char *source, qk_error *err)
{
    qk_tokens tokens;
    bool cut;
    qk_status status = encode(g->r, text, &tokens, &cut, err);
    if (status != QK_OK)
        return qk__context(err, status, "%s", source);
    status = add_example(g, text, source, tokens.count, cut, err);
    if (status != QK_OK) {
        qk_tokens_free(&tokens);
        return status;
    }
    g->num_texts++;
    g->weight += qk__text_weight(g->r, text);
    g->cut += cut;
    g->empty += tokens.count == 0;
    if (cut || tokens.count == 0)
        tell(g, source, cut);
    if (tokens.count == 0) {
        qk_tokens_free(&tokens);
        return QK_OK;
    }
    g->num_tokens += (int64_t)tokens.count;
    g->tokens[g->count] = tokens;
    g->sequences[g->count] = (qk_sequence){tokens.ids, (int64_t)tokens.count};
    g->ids[g->count++] = text->id;
    return QK_OK;
}

/* How texts are grouped depends on the texts alone, counted from where the journal stands,
 * which is always between two groups. */
static qk_status fill_group(group *g, bool *more, qk_error *err)
{
    int64_t limit = g->r->settings->tokens_at_once;
    limit = limit > 0 ? limit : DEFAULT_TOKENS;
    *more = true;
    while (g->num_tokens < limit && g->num_texts < MAX_GROUP_TEXTS) {
        qk_text text;
        qk_buffer source = {0};
        QK_TRY(qk__texts_next(g->r->texts, &text, more, err));
        if (!*more)
            return QK_OK;
        qk_status status = name_source(&text, &source, err);
        if (status == QK_OK)
            status = add_text(g, &text, (const char *)source.data, err);
        qk__buffer_free(&source);
        QK_TRY(status);
    }
    return QK_OK;
}

static qk_status checkpoint(const qk_recording *r, qk_error *err)
{
    QK_TRY(qk__spool_sync(r, err));
    return qk__journal_write(r, err);
}

static qk_status run_groups(group *g, qk_error *err)
{
    bool more = true;
    double last = qk__seconds();
    double cost = 0;
    while (more) {
        clear_group(g);
        QK_TRY(fill_group(g, &more, err));
        if (g->num_texts == 0)
            break;
        qk_error why = {0};
        qk_status status = run_group(g, &why);
        bool stop = status != QK_OK || !tell_progress(g->r, 0);
        double begin = qk__seconds();
        if (stop || begin - last >= CHECKPOINT_SHARE * cost) {
            QK_TRY(checkpoint(g->r, err));
            last = qk__seconds();
            cost = last - begin;
        }
        if (status != QK_OK && status != QK_ERR_CANCELLED)
            return qk__fail(err, status, "%s", why.message);
        if (stop)
            return qk__fail(err, QK_ERR_CANCELLED,
                            "stopped after %" PRId64 " of %" PRId64
                            " texts; the same command goes on from there",
                            g->r->journal.texts, g->r->num_texts);
    }
    return QK_OK;
}

qk_status qk__run_texts(qk_recording *r, qk_error *err)
{
    group g;
    qk__texts_rewind(r->texts);
    qk_status status = init_group(&g, r, err);
    bool more = true;
    for (int64_t i = 0; status == QK_OK && more && i < r->journal.texts; i++) {
        qk_text text;
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
