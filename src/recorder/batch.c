/* SPDX-License-Identifier: Apache-2.0 */
/* Runs texts in batches: tokens, forward pass, and the rows into the sink, from whatever thread has them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "recorder/recording.h"

enum { MAX_BATCH_TEXTS = 4096 };

/* A text that is being run, perhaps in several batches. What it points to stays valid: no other text is asked for
 * until it is closed. */
typedef struct open_text {
    bool is_open;
    qk__input_text text;
    qk__buffer source; /* "file" or "file:line" */
    qk__encoded encoded;
    int64_t first; /* number of its first sequence */
} open_text;

typedef struct batch {
    qk__recording *r;
    open_text open;
    int64_t next;     /* sequence to run; -1: none */
    int64_t opened;   /* texts that were opened */
    int64_t texts;    /* texts read since the first one */
    int64_t numbered; /* sequences of these texts */
    qk_sequence *sequences;
    int64_t *numbers; /* of the sequences */
    qk_tokens *tokens;
    size_t count; /* at most MAX_BATCH_TEXTS */
    int64_t num_tokens;
    int64_t tokens_before;  /* of earlier batches and earlier runs */
    int64_t tokens_of_runs; /* of earlier runs */
    int64_t total;          /* about how many tokens there are */
} batch;

/* ---- progress --------------------------------------------------------------------------- */

static bool tell_progress(const batch *b, int64_t more)
{
    return qk__tell_progress(&b->r->settings->context,
                             &(qk_progress){.what = "tokens",
                                            .done = b->tokens_before + more,
                                            .total = b->total,
                                            .before = b->tokens_of_runs,
                                            .texts = b->opened - b->open.is_open});
}

/* Counts the tokens of earlier runs and estimates those to come, which are about as long on average. */
static void expect_tokens(batch *b)
{
    const qk__survey_counts *c = &b->r->counts;
    int64_t wanted = 0;
    for (int64_t i = b->next; i >= 0; i = qk_sink_next(b->r->sink, i))
        wanted++;
    qk_sink_texts_before(b->r->sink, &b->tokens_before);
    b->tokens_of_runs = b->tokens_before;
    double share = c->sequences > 0 ? (double)wanted / (double)c->sequences : 0;
    b->total = b->r->settings->shard.count > 1
                   ? b->tokens_before + (int64_t)(share * (double)c->tokens)
                   : c->tokens;
}

/* ---- one batch -------------------------------------------------------------------------- */

static void clear_batch(batch *b)
{
    for (size_t i = 0; i < b->count; i++)
        qk_tokens_free(&b->tokens[i]);
    b->count = 0;
    b->num_tokens = 0;
}

static void close_text(open_text *o)
{
    qk_tokens_free(&o->encoded.tokens);
    qk__buffer_free(&o->source);
    *o = (open_text){0};
}

static void free_batch(batch *b)
{
    clear_batch(b);
    close_text(&b->open);
    free(b->sequences);
    free(b->numbers);
    free(b->tokens);
}

static bool tell_layers(void *user, const qk_progress *layers)
{
    const batch *b = user;
    return tell_progress(b, b->num_tokens * layers->done / layers->total);
}

static qk_status take_rows(void *user, const qk_prefill_block *block, qk_error *err)
{
    const batch *b = user;
    return qk_sink_put(
        b->r->sink,
        &(qk_sink_rows){.text = b->numbers[block->sequence],
                        .layer = block->layer,
                        .kind = block->kind,
                        .before_rope = !block->rotated,
                        .heads = block->heads,
                        .num_heads = block->num_heads,
                        .first_position = block->first_token,
                        .rows = (size_t)block->num_tokens,
                        .data = block->rows,
                        .head_stride = block->head_dim,
                        .row_stride = (ptrdiff_t)block->num_heads * block->head_dim},
        err);
}

static qk_status take_attention(void *user, const qk_prefill_attention *sums, qk_error *err)
{
    const batch *b = user;
    return qk_sink_put_attention(b->r->sink,
                                 &(qk_sink_attention){.text = b->numbers[sums->sequence],
                                                      .layer = sums->layer,
                                                      .heads = sums->heads,
                                                      .num_heads = sums->num_heads,
                                                      .num_buckets = sums->num_buckets,
                                                      .bucket_rows = sums->bucket_rows,
                                                      .sums = sums->sums},
                                 err);
}

static qk_status run_model(batch *b, qk_error *err)
{
    qk__recording *r = b->r;
    const qk_recorder_engine *engine = r->settings->engine;
    if (engine)
        return engine->run(engine->user, b->sequences, b->numbers, b->count)
                   ? QK_OK
                   : qk__engine_failed(r, "run", err);
    qk_prefill_settings settings;
    qk_prefill_settings_default(&settings);
    settings.arithmetic = r->settings->arithmetic;
    settings.after_rope = r->settings->stage != QK_ROPE_BEFORE;
    settings.before_rope = r->settings->stage != QK_ROPE_AFTER;
    settings.q_heads = r->selection->q_heads;
    settings.k_heads = r->selection->k_heads;
    settings.sink = take_rows;
    settings.attention = r->keep.attention ? take_attention : NULL;
    settings.user = b;
    settings.context = (qk_context){
        .threads = r->settings->context.threads, .progress = tell_layers, .user = b};
    qk_error why = {0};
    qk_status status = qk_prefill(r->model, &settings, b->sequences, b->count, &why);
    if (status == QK_OK)
        return QK_OK;
    bool overflow =
        status == QK_ERR_DEGENERATE && r->settings->arithmetic == QK_ARITHMETIC_F16_SIM;
    return qk__fail(err, status, "%s%s", why.message, overflow ? " (try --dtype f32)" : "");
}

static qk_status run_batch(batch *b, qk_error *err)
{
    QK_TRY(run_model(b, err));
    for (size_t i = 0; i < b->count; i++)
        QK_TRY(qk_sink_text_done(b->r->sink, b->numbers[i], err));
    b->tokens_before += b->num_tokens;
    b->num_tokens = 0;
    return QK_OK;
}

/* ---- texts into batches ------------------------------------------------------------------ */

static qk_status init_batch(batch *b, qk__recording *r, qk_error *err)
{
    *b = (batch){.r = r};
    b->sequences = qk__calloc(MAX_BATCH_TEXTS, sizeof *b->sequences);
    b->numbers = qk__calloc(MAX_BATCH_TEXTS, sizeof *b->numbers);
    b->tokens = qk__calloc(MAX_BATCH_TEXTS, sizeof *b->tokens);
    return b->sequences && b->numbers && b->tokens ? QK_OK : qk__nomem(err);
}

/* Windows of one text differ in their number. A number cannot be made part of an id of 64 bits, so both are hashed. */
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
static qk_status name_window(const open_text *o, const char *name, size_t window,
                             qk__buffer *text, qk_error *err)
{
    if (o->encoded.windows < 2)
        return qk__buffer_printf(text, err, "%s", name);
    return qk__buffer_printf(text, err, "%s#%zu", name, window);
}

/* Tells the sink of a window that is run next, or of a text without tokens. */
static qk_status begin_sequence(const batch *b, size_t window, const qk_tokens *tokens,
                                qk_error *err)
{
    const open_text *o = &b->open;
    qk__buffer source = {0}, source_id = {0};
    const qk__text_print *print =
        (const qk__text_print *)(const void *)b->r->text_ids.data + (b->texts - 1);
    qk_sink_text text = {.checksum = &print->tokens,
                         .number = o->first + (int64_t)window,
                         .tokens = (int64_t)tokens->count,
                         .ids = tokens->ids,
                         .truncated = o->encoded.cut,
                         .window = (int64_t)window,
                         .first_token = (int64_t)qk__window_start(b->r, window)};
    qk_status status = window_id(o, window, &text.example_id, err);
    if (status == QK_OK)
        status = name_window(o, (const char *)o->source.data, window, &source, err);
    if (status == QK_OK && o->text.has_id)
        status = name_window(o, o->text.name, window, &source_id, err);
    text.source = (const char *)source.data;
    text.source_id = (const char *)source_id.data;
    if (status == QK_OK)
        status = qk_sink_begin(b->r->sink, &text, err);
    qk__buffer_free(&source);
    qk__buffer_free(&source_id);
    return status;
}

/* Reads up to the text that a sequence belongs to; begins at the first text again where that text lies behind. */
static qk_status find_text(batch *b, int64_t number, qk_error *err)
{
    open_text *o = &b->open;
    const int64_t *counts = (const int64_t *)(const void *)b->r->sequences.data;
    bool more = true;
    if (number < b->numbered) {
        qk__texts_rewind(b->r->texts);
        b->texts = b->numbered = 0;
    }
    while (b->numbered <= number) {
        QK_TRY(qk__texts_next(b->r->texts, &o->text, &more, err));
        if (!more)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "the texts have changed since the run began: there are %" PRId64
                            " of %" PRId64,
                            b->texts, b->r->counts.texts);
        o->first = b->numbered;
        b->numbered += counts[b->texts++];
    }
    return QK_OK;
}

static qk_status open_text_of(batch *b, int64_t number, qk_error *err)
{
    open_text *o = &b->open;
    QK_TRY(find_text(b, number, err));
    QK_TRY(qk__name_source(&o->text, &o->source, err));
    QK_TRY(qk__context(err, qk__encode(b->r, &o->text, &o->encoded, err), "%s",
                       (const char *)o->source.data));
    const int64_t windows =
        o->encoded.windows == 0 && !o->encoded.skipped
            ? 1
            : (int64_t)o->encoded.windows; /* a text without tokens is one sequence */
    if (o->first + windows != b->numbered)
        return qk__fail(err, QK_ERR_INCONSISTENT, "%s: has changed since the run began",
                        (const char *)o->source.data);
    o->is_open = true;
    b->opened++;
    return QK_OK;
}

static qk_status add_window(batch *b, int64_t number, qk_error *err)
{
    open_text *o = &b->open;
    const size_t window = (size_t)(number - o->first);
    if (o->encoded.windows == 0) {
        QK_TRY(begin_sequence(b, 0, &(qk_tokens){0}, err));
        return qk_sink_text_done(b->r->sink, number, err);
    }
    qk_tokens *tokens = &b->tokens[b->count];
    QK_TRY(qk__take_window(b->r, &o->encoded, window, tokens, err));
    b->sequences[b->count] = (qk_sequence){tokens->ids, (int64_t)tokens->count};
    b->numbers[b->count] = number;
    b->count++;
    b->num_tokens += (int64_t)tokens->count;
    return begin_sequence(b, window, tokens, err);
}

/* Sums of a block take memory, so a batch does not begin another block. Nor does it where an engine may run sequences
 * side by side: then a sequence has the same neighbours in a resumed run. */
static bool fits(const batch *b, int64_t number)
{
    return b->count == 0 || (!b->r->keep.moments && !b->r->settings->engine) ||
           qk_sink_block(b->r->sink, b->numbers[b->count - 1]) ==
               qk_sink_block(b->r->sink, number);
}

static qk_status fill_batch(batch *b, qk_error *err)
{
    open_text *o = &b->open;
    int64_t limit = b->r->settings->tokens_at_once;
    limit = limit > 0 ? limit : QK_TOKENS_AT_ONCE;
    while (b->next >= 0 && b->num_tokens < limit && b->count < MAX_BATCH_TEXTS &&
           fits(b, b->next)) {
        if (o->is_open && (b->next < o->first || b->next >= b->numbered))
            close_text(o);
        if (!o->is_open)
            QK_TRY(open_text_of(b, b->next, err));
        QK_TRY(add_window(b, b->next, err));
        if (b->next + 1 == b->numbered)
            close_text(o);
        b->next = qk_sink_next(b->r->sink, b->next);
    }
    return QK_OK;
}

static qk_status run_batches(batch *b, qk_error *err)
{
    while (b->next >= 0) {
        clear_batch(b);
        QK_TRY(fill_batch(b, err));
        if (b->count == 0)
            continue;
        qk_error why = {0};
        qk_status status = run_batch(b, &why);
        if (status != QK_OK && status != QK_ERR_CANCELLED)
            return qk__fail(err, status, "%s", why.message);
        if (status != QK_OK || !tell_progress(b, 0))
            return qk__fail(err, QK_ERR_CANCELLED,
                            "stopped after %" PRId64 " of %" PRId64
                            " tokens; the same command resumes it",
                            b->tokens_before, b->total);
    }
    return QK_OK;
}

qk_status qk__run_texts(qk__recording *r, qk_error *err)
{
    batch b;
    qk__texts_rewind(r->texts);
    qk_status status = init_batch(&b, r, err);
    b.next = qk_sink_next(r->sink, -1);
    expect_tokens(&b);
    if (status == QK_OK)
        status = run_batches(&b, err);
    free_batch(&b);
    return status;
}
