/* SPDX-License-Identifier: Apache-2.0 */
/* Reads all texts before anything is run: checks each, hashes them, counts their tokens, and chooses the rate of the
 * sampler. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/buffer.h"
#include "base/error.h"
#include "recorder/recording.h"
#include "sampler/sampler.h"

/* ---- which rate of a sampler keeps so many rows ----------------------------------------- */

enum { LOGS = 62 };

/* Tokens of all windows. */
typedef struct token_counts {
    int64_t tokens, windows, longest;
    int64_t by_log[LOGS]; /* by floor(log2(position + 1)) */
} token_counts;

/* Positions that a sampler keeps with the same probability, min(1, rate / size). */
typedef struct rate_class {
    double size, positions;
} rate_class;

static void count_window(token_counts *counts, int64_t tokens)
{
    counts->tokens += tokens;
    counts->windows++;
    counts->longest = tokens > counts->longest ? tokens : counts->longest;
    for (int log = 0; (INT64_C(1) << log) - 1 < tokens; log++) {
        int64_t begin = (INT64_C(1) << log) - 1;
        int64_t end = 2 * begin + 1;
        counts->by_log[log] += (end < tokens ? end : tokens) - begin;
    }
}

/* In the order of their sizes. */
static size_t list_classes(const qk_sampler *sampler, const token_counts *counts,
                           rate_class classes[LOGS])
{
    double size = (double)qk_sampler_bucket_size(sampler);
    classes[0] = (rate_class){size, (double)counts->tokens};
    if (sampler->type != QK_SAMPLER_LOG_UNIFORM)
        return 1;
    size_t count = 1;
    classes[0].positions = 0;
    for (int log = 0; log < LOGS; log++) {
        double bucket = (double)(INT64_C(1) << log);
        if (bucket > size)
            classes[count++] = (rate_class){bucket, (double)counts->by_log[log]};
        else
            classes[0].positions += (double)counts->by_log[log];
    }
    while (count > 1 && classes[count - 1].positions == 0)
        count--;
    return count;
}

/* The smallest rate that keeps `rows` rows, fewer than there are: as the rate grows, class after class is kept whole. */
static double solve(const rate_class *classes, size_t count, double rows)
{
    double whole = 0;
    for (size_t first = 0; first < count; first++) {
        double slope = 0;
        for (size_t i = first; i < count; i++)
            slope += classes[i].positions / classes[i].size;
        double rate = (rows - whole) / slope;
        if (rate <= classes[first].size)
            return rate;
        whole += classes[first].positions;
    }
    return classes[count - 1].size;
}

/* To four digits, so that it can be typed. */
static double round_up(double rate)
{
    double scale = 1;
    double unit = 1;
    while (rate * scale < 1000)
        scale *= 10;
    while (rate / unit >= 10000)
        unit *= 10;
    double digits = rate * scale / unit;
    double floor = (double)(int64_t)digits;
    return (digits - floor > 1e-9 ? floor + 1 : floor) / scale * unit;
}

int64_t qk__choose_bucket(qk_sampler_type type, int64_t longest)
{
    enum { BUCKETS = 16 };
    qk_sampler usual;
    int64_t size = 1;
    qk__sampler_default(&usual);
    while ((longest - 1) / BUCKETS >= size)
        size *= 2;
    return type == QK_SAMPLER_LOG_UNIFORM ? usual.min_bucket_size : size;
}

/* Sets base_rate, and min_bucket_size if it is 0, so that about `rows` rows are kept; returns the expected number,
 * without max_rows. */
static double choose_rate(qk_sampler *sampler, const token_counts *counts, int64_t rows)
{
    rate_class classes[LOGS];
    if (sampler->min_bucket_size == 0)
        sampler->min_bucket_size = qk__choose_bucket(sampler->type, counts->longest);
    size_t count = list_classes(sampler, counts, classes);
    sampler->base_rate = classes[count - 1].size;
    if (rows >= counts->tokens)
        return (double)counts->tokens;
    double rate = round_up(solve(classes, count, (double)rows));
    if (rate < sampler->base_rate)
        sampler->base_rate = rate;
    double expected = 0;
    for (size_t i = 0; i < count; i++) {
        double share = sampler->base_rate / classes[i].size;
        expected += classes[i].positions * (share < 1 ? share : 1);
    }
    return expected;
}

/* ---- one text --------------------------------------------------------------------------- */

qk_status qk__name_source(const qk__input_text *text, qk__buffer *name, qk_error *err)
{
    name->size = 0;
    if (text->line > 0)
        return qk__buffer_printf(name, err, "%s:%" PRId64, text->path, text->line);
    return qk__buffer_printf(name, err, "%s", text->path);
}

/* A text's name in messages: its number where an engine's text is of no file. */
static const char *told_source(const qk__input_text *text, int64_t number, qk__buffer *name)
{
    bool of_file = text->path[0] != '\0';
    qk_status status = of_file ? qk__name_source(text, name, NULL)
                               : qk__buffer_printf(name, NULL, "text %" PRId64, number);
    return status == QK_OK ? (const char *)name->data : "";
}

/* At most so many texts get a notice of the same kind. */
enum { MAX_NOTICES = 5 };

static void tell(const qk__recording *r, const qk__input_text *text, const qk__encoded *e)
{
    const qk__survey_counts *c = &r->counts;
    qk__buffer name = {0};
    const char *source = told_source(text, c->texts - 1, &name);
    if (e->skipped && c->skipped <= MAX_NOTICES)
        qk__tell_notice(&r->settings->context, QK_NOTICE_WARNING,
                        "%s: more than %lld tokens, passed over", source,
                        (long long)r->max_length);
    if (!e->skipped && e->windows == 0 && c->empty <= MAX_NOTICES)
        qk__tell_notice(&r->settings->context, QK_NOTICE_WARNING,
                        "%s: no tokens in it, passed over", source);
    qk__buffer_free(&name);
}

/* Says how many further texts there were. */
static void tell_more(const qk__recording *r)
{
    const qk__survey_counts *c = &r->counts;
    const struct {
        int64_t count;
        const char *what;
    } kinds[] = {{c->skipped, "passed over"}, {c->empty, "without tokens"}};
    if (c->cut > 0) /* was asked for: told once */
        qk__tell_notice(&r->settings->context, QK_NOTICE_WARNING,
                        "cut after %lld tokens: %lld of %lld texts", (long long)r->max_length,
                        (long long)c->cut, (long long)c->texts);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].count > MAX_NOTICES)
            qk__tell_notice(&r->settings->context, QK_NOTICE_WARNING,
                            "%lld of %lld texts are %s in all", (long long)kinds[i].count,
                            (long long)c->texts, kinds[i].what);
    if (c->doubled > 0)
        qk__tell_notice(&r->settings->context, QK_NOTICE_WARNING,
                        "%lld of %lld texts begin or end with the special token that the "
                        "tokenizer adds to every text, and have it twice: leave it out of them",
                        (long long)c->doubled, (long long)c->texts);
}

static bool is_doubled(const qk__recording *r, const qk_tokens *t)
{
    size_t before = r->specials_before, after = r->specials_after;
    return t->count > before + after &&
           ((before > 0 && t->ids[before] == t->ids[0]) ||
            (after > 0 && t->ids[t->count - 1 - after] == t->ids[t->count - 1]));
}

/* A text without tokens is an example, too; it has no rows. */
static qk_status count_text(qk__recording *r, const qk__input_text *text, const qk__encoded *e,
                            token_counts *counts, qk_error *err)
{
    qk__survey_counts *c = &r->counts;
    bool empty = !e->skipped && e->windows == 0;
    int64_t sequences = empty ? 1 : (int64_t)e->windows;
    c->texts++;
    c->sequences += sequences;
    c->windows += (int64_t)e->windows;
    c->empty += empty;
    c->split += e->windows > 1;
    c->cut += e->cut;
    c->skipped += e->skipped;
    c->doubled += e->windows > 0 && is_doubled(r, &e->tokens);
    for (size_t i = 0; i < e->windows; i++) {
        const int64_t tokens = (int64_t)qk__window_tokens(r, e, i);
        count_window(counts, tokens);
        QK_TRY(qk__buffer_append(&r->lengths, &tokens, sizeof tokens, err));
    }
    const qk__text_print print = {
        XXH3_64bits_withSeed(
            e->tokens.ids, e->tokens.count * sizeof *e->tokens.ids,
            e->windows > 0 ? 0 : (uint64_t)c->texts), /* not run: equal to no other text */
        text->id, c->texts - 1, c->texts - 1, (int64_t)e->windows};
    QK_TRY(qk__buffer_append(&r->text_ids, &print, sizeof print, err));
    tell(r, text, e);
    return qk__buffer_append(&r->sequences, &sequences, sizeof sequences, err);
}

static qk_status count_tokens(qk__recording *r, const qk__input_text *text,
                              token_counts *counts, qk_error *err)
{
    qk__encoded encoded;
    qk_status status = qk__encode(r, text, &encoded, err);
    if (status != QK_OK) {
        qk__buffer source = {0};
        qk__context(err, status, "%s", told_source(text, r->counts.texts, &source));
        qk__buffer_free(&source);
        return status;
    }
    status = count_text(r, text, &encoded, counts, err);
    qk_tokens_free(&encoded.tokens);
    return status;
}

static void hash_text(XXH3_state_t *state, const qk__input_text *text)
{
    uint64_t words[3] = {(uint64_t)text->id, text->size, (uint64_t)text->line};
    XXH3_128bits_update(state, words, sizeof words);
    XXH3_128bits_update(state, text->path, strlen(text->path) + 1);
    XXH3_128bits_update(state, text->name, strlen(text->name) + 1);
    XXH3_128bits_update(state, text->data, text->size);
}

/* ---- ids -------------------------------------------------------------------------------- */

static int compare_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Leaves the ids that several texts have, each once, and returns the number of these texts. */
static size_t keep_shared(int64_t *ids, size_t *count)
{
    size_t kept = 0;
    size_t texts = 0;
    qsort(ids, *count, sizeof *ids, compare_numbers);
    for (size_t i = 0; i < *count;) {
        size_t end = i + 1;
        while (end < *count && ids[end] == ids[i])
            end++;
        if (end - i > 1) {
            texts += end - i;
            ids[kept++] = ids[i];
        }
        i = end;
    }
    *count = kept;
    return texts;
}

/* The tables take all texts with one id for one text. */
static qk_status warn_of_shared(qk__recording *r, qk__buffer *list, qk_error *err)
{
    int64_t *ids = (int64_t *)(void *)list->data;
    size_t count = list->size / sizeof *ids;
    size_t texts = count > 1 ? keep_shared(ids, &count) : 0;
    bool more = true;
    qk__input_text text = {.name = ""};
    if (texts == 0)
        return QK_OK;
    qk__texts_rewind(r->texts);
    do
        QK_TRY(qk__texts_next(r->texts, &text, &more, err));
    while (more && !bsearch(&text.id, ids, count, sizeof *ids, compare_numbers));
    qk__tell_notice(&r->settings->context, QK_NOTICE_WARNING,
                    "%s: %zu of %lld texts have an id that other texts have, too (%zu such "
                    "ids; the first is \"%.80s\"): all texts of an id count as one; choose "
                    "another --id-column, or none",
                    more ? text.path : "", texts, (long long)r->counts.texts, count,
                    more ? text.name : "");
    return QK_OK;
}

static int compare_prints(const void *a, const void *b)
{
    const qk__text_print *x = a, *y = b;
    int by_tokens = (x->tokens > y->tokens) - (x->tokens < y->tokens);
    return by_tokens ? by_tokens : (x->number > y->number) - (x->number < y->number);
}

static int compare_places(const void *a, const void *b)
{
    const qk__text_print *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static int compare_ids(const void *a, const void *b)
{
    const qk__text_print *x = a, *y = b;
    int by_id = (x->id > y->id) - (x->id < y->id);
    return by_id ? by_id : (x->number > y->number) - (x->number < y->number);
}

/* Gives texts of equal tokens the id of the first; then all texts of an id have one `first`. */
static void unite_equal(qk__recording *r)
{
    qk__text_print *print = (qk__text_print *)(void *)r->text_ids.data;
    size_t count = r->text_ids.size / sizeof *print, equal = 0;
    int64_t first = INT64_MAX;
    if (count == 0)
        return;
    qsort(print, count, sizeof *print, compare_prints);
    for (size_t i = 1; i < count; i++) {
        if (print[i].tokens != print[i - 1].tokens)
            continue;
        if (print[i].id == print[i - 1].id)
            continue;
        print[i].id = print[i - 1].id;
        first = print[i].number < first ? print[i].number : first;
        equal++;
    }
    qsort(print, count, sizeof *print, compare_ids);
    for (size_t i = 0; i < count; i++)
        print[i].first =
            i > 0 && print[i].id == print[i - 1].id ? print[i - 1].first : print[i].number;
    qsort(print, count, sizeof *print, compare_places);
    if (equal > 0)
        qk__tell_notice(&r->settings->context, QK_NOTICE_WARNING,
                        "%zu of %zu texts have the tokens of an earlier one (the first is text "
                        "%lld, counted from 0): equal texts count as one",
                        equal, count, (long long)first);
}

/* A fault of a text is found here, not after hours of work. */
static qk_status read_texts(qk__recording *r, XXH3_state_t *state, token_counts *counts,
                            qk__buffer *ids, qk_error *err)
{
    bool more = true;
    qk__texts_rewind(r->texts);
    while (more) {
        qk__input_text text;
        QK_TRY(qk__texts_next(r->texts, &text, &more, err));
        if (!more)
            break;
        hash_text(state, &text);
        if (text.has_id)
            QK_TRY(qk__buffer_append(ids, &text.id, sizeof text.id, err));
        QK_TRY(count_tokens(r, &text, counts, err));
        if (!qk__tell_progress(&r->settings->context,
                               &(qk_progress){.what = "texts", .done = r->counts.texts}))
            return qk__fail(err, QK_ERR_CANCELLED,
                            "stopped while the texts were read; nothing was written");
    }
    tell_more(r);
    unite_equal(r);
    return r->counts.texts > 0 ? QK_OK : qk__fail(err, QK_ERR_DEGENERATE, "there are no texts");
}

/* The width of a bucket is told, too: plasticity depends on it. */
static void tell_choice(const qk__recording *r)
{
    const qk_sampler *s = &r->sampler;
    const char *type = qk_sampler_type_name(s->type);
    const char *smallest = s->type == QK_SAMPLER_LOG_UNIFORM ? "smallest " : "";
    long long tokens = (long long)r->counts.tokens, size = (long long)qk_sampler_bucket_size(s);
    if (s->type == QK_SAMPLER_ALL)
        qk__tell_notice(&r->settings->context, QK_NOTICE_INFO,
                        "keeping all %lld positions of each head and kind, buckets of %lld "
                        "tokens",
                        tokens, size);
    else if (!r->chosen)
        qk__tell_notice(
            &r->settings->context, QK_NOTICE_INFO,
            "keeping some of %lld positions of each head and kind: %s, rate %g, %sbuckets of "
            "%lld tokens",
            tokens, type, s->base_rate, smallest, size);
    else
        qk__tell_notice(
            &r->settings->context, QK_NOTICE_INFO,
            "keeping %s%.0f of %lld positions of each head and kind: %s, rate %g, %sbuckets of "
            "%lld tokens",
            r->expected_rows < (double)tokens ? "about " : "all ", r->expected_rows, tokens,
            type, s->base_rate, smallest, size);
}

/* A sampler that keeps all positions ignores the rate. */
static void fill_in(qk_sampler *sampler, int64_t longest)
{
    qk_sampler usual;
    qk__sampler_default(&usual);
    if (sampler->base_rate == 0)
        sampler->base_rate = usual.base_rate;
    if (sampler->min_bucket_size == 0)
        sampler->min_bucket_size = qk__choose_bucket(sampler->type, longest);
}

qk_status qk__survey(qk__recording *r, qk_error *err)
{
    token_counts counts = {0};
    r->sampler = r->settings->sampler;
    r->chosen = r->sampler.base_rate == 0 && r->sampler.type != QK_SAMPLER_ALL;
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return qk__nomem(err);
    XXH3_128bits_reset(state);
    qk__buffer ids = {0}; /* int64_t of each text, where a column has them */
    qk_status status = read_texts(r, state, &counts, &ids, err);
    if (status == QK_OK)
        status = warn_of_shared(r, &ids, err);
    qk__buffer_free(&ids);
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    snprintf(r->texts_hash, sizeof r->texts_hash, "%016" PRIx64 "%016" PRIx64, hash.high64,
             hash.low64);
    r->counts.tokens = counts.tokens;
    if (r->sampler.type == QK_SAMPLER_ALL)
        fill_in(&r->sampler, counts.longest);
    if (status == QK_OK && r->chosen)
        r->expected_rows = choose_rate(&r->sampler, &counts, r->settings->rows);
    if (status == QK_OK)
        tell_choice(r);
    return status;
}
