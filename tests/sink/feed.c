/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the texts of made.h into a sink, in one of many ways that should all end in the same bytes:
 *
 *     feed OUTPUT [NAME=VALUE ...]
 *
 *     texts=N keep=WORDS groups=N stage=post|pre|both layout=heads|packed seed=N sampler=TYPE rate=X
 *     max_rows=N tokens=1 (their number is told) ids=1 (so are their ids) strings=1   what is captured
 *     order=SEED     0: text after text, all heads and rows at once; else all texts are begun, blocks in any
 *                    order, and their vectors come in pieces of any size, shuffled
 *     threads=N type=float32|float16|bfloat16 kept=1 (only positions that are kept) force=1
 *     shard=I/N stop=N (closes the sink after so many texts)
 *
 * Prints the numbers of the outcome. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sink/made.h"

typedef struct options {
    int64_t texts, stop;
    uint64_t order;
    int threads;
    qk_number_type type;
    bool kept;
} options;

/* Vectors that are put at once. */
typedef struct piece {
    int64_t text;
    int layer;
    qk_kind kind;
    bool before, attention;
    int heads[Q_HEADS];
    size_t num_heads;
    int64_t first, rows; /* of the list, or positions */
} piece;

typedef struct feeding {
    options o;
    qk_sink *sink;
    qk_rope_stage stage;
    bool attention; /* is kept */
    piece *pieces;
    size_t count, room;
    atomic_size_t next;
    atomic_int *left; /* [texts] pieces */
    atomic_bool failed;
    pthread_mutex_t lock;
    qk_error error;
} feeding;

static void give_up(const char *what)
{
    fprintf(stderr, "feed: %s\n", what);
    exit(2);
}

static uint64_t draw(uint64_t *state)
{
    return made_mix(*state += UINT64_C(0x9E3779B97F4A7C15));
}

/* ---- what is put ------------------------------------------------------------------------ */

static void add_piece(feeding *f, const piece *p)
{
    if (f->count == f->room) {
        f->room = 2 * f->room + 64;
        f->pieces = realloc(f->pieces, f->room * sizeof *f->pieces);
        if (!f->pieces)
            give_up("out of memory");
    }
    f->pieces[f->count++] = *p;
    atomic_fetch_add(&f->left[p->text], 1);
}

/* Rows of one or all heads, whole or in pieces. */
static void cut(feeding *f, piece p, int64_t rows, uint64_t *state)
{
    for (int64_t at = 0; at < rows; at += p.rows) {
        p.first = at;
        p.rows = rows - at;
        if (f->o.order > 0 && draw(state) % 4 > 0) {
            int64_t size = 1 + (int64_t)(draw(state) % (draw(state) % 2 ? 300 : 40));
            p.rows = size < p.rows ? size : p.rows;
        }
        add_piece(f, &p);
    }
}

static int64_t count_rows(const feeding *f, int64_t text, int layer, qk_kind kind)
{
    int64_t *list;
    size_t count;
    qk_error err;
    if (!f->o.kept)
        return made_tokens(text);
    if (qk_sink_positions(f->sink, text, layer, kind, &list, &count, &err) != QK_OK)
        give_up(err.message);
    free(list);
    return (int64_t)count;
}

static void list_pieces(feeding *f, int64_t text, uint64_t *state)
{
    for (int i = 0; i < LAYERS * 2 * 2; i++) {
        piece p = {.text = text, .layer = i / 4, .kind = (qk_kind)(i / 2 % 2), .before = i % 2};
        int heads = p.kind == QK_QUERY ? Q_HEADS : K_HEADS, step = heads;
        int64_t rows = count_rows(f, text, p.layer, p.kind);
        if (p.before ? f->stage == QK_ROPE_AFTER : f->stage == QK_ROPE_BEFORE)
            continue;
        if (f->o.order > 0)
            step = 1 + (int)(draw(state) % (uint64_t)heads);
        for (int head = 0; head < heads; head += step) {
            p.num_heads = 0;
            for (int h = head; h < heads && h < head + step; h++)
                p.heads[p.num_heads++] = h;
            cut(f, p, rows, state);
        }
    }
}

static void list_attention(feeding *f, int64_t text)
{
    piece p = {.text = text, .attention = true, .num_heads = Q_HEADS, .heads = {3, 2, 1, 0}};
    for (p.layer = 0; f->attention && made_tokens(text) > 0 && p.layer < LAYERS; p.layer++)
        add_piece(f, &p);
}

static void shuffle(feeding *f, uint64_t *state)
{
    for (size_t i = f->count; i > 1; i--) {
        size_t j = draw(state) % i;
        piece p = f->pieces[j];
        f->pieces[j] = f->pieces[i - 1];
        f->pieces[i - 1] = p;
    }
}

/* ---- putting ---------------------------------------------------------------------------- */

static void store(void *data, qk_number_type type, size_t at, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (type == QK_FLOAT32)
        ((float *)data)[at] = value;
    else if (type == QK_BFLOAT16)
        ((uint16_t *)data)[at] = (uint16_t)(bits >> 16);
    else /* zero, or a normal number in both types */
        ((uint16_t *)data)[at] =
            (uint16_t)((bits & 0x7fffffff) == 0
                           ? 0
                           : (bits >> 16 & 0x8000) |
                                 (((bits >> 23 & 0xff) - 112) << 10 | (bits >> 13 & 0x3ff)));
}

static qk_status put(feeding *f, const piece *p, qk_error *err)
{
    int64_t *list = NULL;
    size_t count, rows = (size_t)p->rows;
    if (f->o.kept &&
        qk_sink_positions(f->sink, p->text, p->layer, p->kind, &list, &count, err) != QK_OK)
        return QK_ERR_INCONSISTENT;
    qk_sink_rows r = {.text = p->text,
                      .layer = p->layer,
                      .kind = p->kind,
                      .before_rope = p->before,
                      .heads = p->heads,
                      .num_heads = p->num_heads,
                      .positions = list ? list + p->first : NULL,
                      .first_position = p->first,
                      .rows = rows,
                      .type = f->o.type};
    switch (f->o.order == 0 ? 0 : (p->first + p->heads[0] + p->layer) % 3) {
    case 1: /* head by head within a row, with a gap */
        r.head_stride = DIM + 3;
        r.row_stride = (ptrdiff_t)(p->num_heads * (DIM + 3));
        break;
    case 2:
        r.head_stride = (ptrdiff_t)(rows * (DIM + 1));
        r.row_stride = DIM + 1;
        break;
    default:
        break;
    }
    ptrdiff_t by_head = r.head_stride ? r.head_stride : (ptrdiff_t)(rows * DIM);
    ptrdiff_t by_row = r.row_stride ? r.row_stride : DIM;
    size_t numbers = p->num_heads * rows * (DIM + 3);
    void *data = calloc(numbers, r.type == QK_FLOAT32 ? 4 : 2);
    if (!data)
        give_up("out of memory");
    for (size_t h = 0; h < p->num_heads; h++)
        for (size_t t = 0; t < rows; t++)
            for (size_t i = 0; i < DIM; i++)
                store(
                    data, r.type, (size_t)((ptrdiff_t)h * by_head + (ptrdiff_t)t * by_row) + i,
                    made_value(p->text, p->layer, p->kind, p->before, p->heads[h],
                               list ? list[p->first + (int64_t)t] : p->first + (int64_t)t, i));
    r.data = data;
    qk_status status = qk_sink_put(f->sink, &r, err);
    free(data);
    free(list);
    return status;
}

/* All sums of a bin are its rows times one number, and its maximum is one. */
static qk_status put_attention(feeding *f, const piece *p, qk_error *err)
{
    static const size_t SUMS = QK_ATTENTION_SUMS;
    int64_t rows[QK_DISTANCE_BINS] = {0};
    for (int64_t t = 0; t < made_tokens(p->text); t++)
        rows[qk_distance_bin(t)]++;
    size_t bins = (size_t)qk_distance_bin(made_tokens(p->text) - 1) + 1;
    double *sums = calloc(p->num_heads * bins * SUMS, sizeof *sums), *to = sums;
    if (!sums)
        give_up("out of memory");
    for (size_t h = 0; h < p->num_heads; h++)
        for (size_t b = 0; b < bins; b++)
            for (size_t i = 0; i < SUMS; i++)
                *to++ = (i == QK_ATTENTION_LOGIT_MAX ? 1 : (double)rows[b]) *
                        made_value(p->text, p->layer, QK_QUERY, false, p->heads[h], (int64_t)b,
                                   i % DIM);
    const qk_sink_attention all = {.text = p->text,
                                   .layer = p->layer,
                                   .heads = p->heads,
                                   .num_heads = p->num_heads,
                                   .num_buckets = bins,
                                   .bucket_rows = rows,
                                   .sums = sums};
    qk_status status = qk_sink_put_attention(f->sink, &all, err);
    free(sums);
    return status;
}

static void *work(void *context)
{
    feeding *f = context;
    for (size_t i;
         !atomic_load(&f->failed) && (i = atomic_fetch_add(&f->next, 1)) < f->count;) {
        const piece *p = &f->pieces[i];
        qk_error err;
        qk_status status = p->attention ? put_attention(f, p, &err) : put(f, p, &err);
        if (status == QK_OK && atomic_fetch_sub(&f->left[p->text], 1) == 1)
            status = qk_sink_text_done(f->sink, p->text, &err);
        if (status == QK_OK)
            continue;
        pthread_mutex_lock(&f->lock);
        if (!atomic_exchange(&f->failed, true))
            f->error = err;
        pthread_mutex_unlock(&f->lock);
    }
    return NULL;
}

static void run(feeding *f)
{
    pthread_t threads[64];
    int count = f->o.threads < 64 ? f->o.threads : 64;
    atomic_store(&f->next, 0);
    for (int i = 1; i < count; i++)
        if (pthread_create(&threads[i], NULL, work, f) != 0)
            give_up("no thread");
    work(f);
    for (int i = 1; i < count; i++)
        pthread_join(threads[i], NULL);
    f->count = 0;
    if (atomic_load(&f->failed))
        give_up(f->error.message);
}

static void begin(feeding *f, int64_t number)
{
    static int32_t ids[1024];
    char source[32];
    qk_error err;
    for (int32_t i = 0; i < 1024; i++)
        ids[i] = i % 26;
    snprintf(source, sizeof source, "text %lld", (long long)number);
    qk_sink_text text = {.number = number,
                         .example_id = made_example(number),
                         .tokens = made_tokens(number),
                         .ids = ids,
                         .source = source,
                         .truncated = number % 5 == 0};
    if (qk_sink_begin(f->sink, &text, &err) != QK_OK)
        give_up(err.message);
}

/* Whether the sink wants a text before another one of its block. */
static bool comes_before(const feeding *f, int64_t number, int64_t other)
{
    int64_t i = number;
    while (i >= 0 && i != other && qk_sink_block(f->sink, i) == qk_sink_block(f->sink, other))
        i = qk_sink_next(f->sink, i);
    return i == other;
}

static void order_blocks(const feeding *f, int64_t *numbers, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < i; j++)
            if (qk_sink_block(f->sink, numbers[i]) == qk_sink_block(f->sink, numbers[j]) &&
                comes_before(f, numbers[i], numbers[j])) {
                int64_t n = numbers[i];
                numbers[i] = numbers[j];
                numbers[j] = n;
            }
}

static void feed(feeding *f)
{
    uint64_t state = f->o.order;
    int64_t run_now = 0, *numbers = calloc((size_t)f->o.texts + 1, sizeof *numbers);
    f->left = calloc((size_t)f->o.texts + 1, sizeof *f->left);
    if (!numbers || !f->left)
        give_up("out of memory");
    for (int64_t i = qk_sink_next(f->sink, -1); i >= 0 && run_now < f->o.stop;
         i = qk_sink_next(f->sink, i))
        numbers[run_now++] = i;
    for (int64_t i = run_now; f->o.order > 0 && i > 1; i--) {
        int64_t j = (int64_t)(draw(&state) % (uint64_t)i), n = numbers[j];
        numbers[j] = numbers[i - 1];
        numbers[i - 1] = n;
    }
    order_blocks(f, numbers, run_now);
    for (int64_t i = 0; i < run_now; i++) {
        qk_error err;
        size_t before = f->count;
        begin(f, numbers[i]);
        list_pieces(f, numbers[i], &state);
        list_attention(f, numbers[i]);
        if (f->count == before && qk_sink_text_done(f->sink, numbers[i], &err) != QK_OK)
            give_up(err.message);
        if (f->o.order == 0)
            run(f);
    }
    shuffle(f, &state);
    run(f);
    free(numbers);
    free(f->left);
    free(f->pieces);
}

/* ---- arguments -------------------------------------------------------------------------- */

static const char *letter(void *user, int32_t token)
{
    static const char all[26][2] = {"a", "b", "c", "d", "e", "f", "g", "h", "i",
                                    "j", "k", "l", "m", "n", "o", "p", "q", "r",
                                    "s", "t", "u", "v", "w", "x", "y", "z"};
    (void)user;
    return token < 26 ? all[token] : "?"; /* of damaged files another may be asked for */
}

static void note(void *user, qk_notice_level level, const char *message)
{
    (void)user;
    (void)level;
    fprintf(stderr, "note: %s\n", message);
}

static bool take_text(qk_sink_settings *s, const char *name, const char *value)
{
    qk_error err;
    if (strcmp(name, "keep") == 0) {
        if (qk_keep_parse(value, &s->keep, &err) != QK_OK)
            give_up(err.message);
    } else if (strcmp(name, "stage") == 0) {
        s->stage = strcmp(value, "both") == 0  ? QK_ROPE_BOTH
                   : strcmp(value, "pre") == 0 ? QK_ROPE_BEFORE
                                               : QK_ROPE_AFTER;
    } else if (strcmp(name, "layout") == 0) {
        s->layout = strcmp(value, "packed") == 0 ? QK_LAYOUT_PACKED : QK_LAYOUT_HEADS;
    } else if (strcmp(name, "sampler") == 0) {
        if (!qk_sampler_type_parse(value, &s->sampler.type))
            give_up("no such sampler");
    } else if (strcmp(name, "run") == 0) {
        s->run = value;
    } else {
        return false;
    }
    return true;
}

static const int64_t *list_ids(int64_t texts)
{
    static int64_t ids[64];
    if (texts > 64)
        give_up("too many texts");
    for (int64_t i = 0; i < texts; i++)
        ids[i] = made_example(i);
    return ids;
}

static bool take_number(qk_sink_settings *s, const char *name, const char *value)
{
    long long number = atoll(value);
    if (strcmp(name, "groups") == 0)
        s->keep.groups = (int)number;
    else if (strcmp(name, "seed") == 0)
        s->reservoir_seed = (uint64_t)number;
    else if (strcmp(name, "rate") == 0)
        s->sampler.base_rate = atof(value);
    else if (strcmp(name, "max_rows") == 0)
        s->sampler.max_rows = number;
    else if (strcmp(name, "tokens") == 0)
        for (int64_t i = 0; i < s->num_texts; i++)
            s->num_tokens += made_tokens(i);
    else if (strcmp(name, "ids") == 0)
        s->text_ids = list_ids(s->num_texts);
    else if (strcmp(name, "strings") == 0)
        s->token_strings = true;
    else if (strcmp(name, "force") == 0)
        s->force = true;
    else if (strcmp(name, "shard") == 0)
        s->shard = (qk_shard){.index = number, .count = atoll(strchr(value, '/') + 1)};
    else
        return false;
    return true;
}

static void take(qk_sink_settings *s, options *o, char *word)
{
    char *value = strchr(word, '=');
    if (!value)
        give_up(word);
    *value++ = 0;
    if (strcmp(word, "texts") == 0)
        s->num_texts = o->texts = atoll(value);
    else if (strcmp(word, "stop") == 0)
        o->stop = atoll(value);
    else if (strcmp(word, "order") == 0)
        o->order = strtoull(value, NULL, 10);
    else if (strcmp(word, "threads") == 0)
        s->context.threads = o->threads = atoi(value);
    else if (strcmp(word, "kept") == 0)
        o->kept = true;
    else if (strcmp(word, "type") == 0)
        o->type = strcmp(value, "float16") == 0    ? QK_FLOAT16
                  : strcmp(value, "bfloat16") == 0 ? QK_BFLOAT16
                                                   : QK_FLOAT32;
    else if (!take_text(s, word, value) && !take_number(s, word, value))
        give_up(word);
}

int main(int argc, char **argv)
{
    static feeding f;
    qk_sink_settings s;
    qk_sink_outcome outcome = {0};
    qk_error err;
    if (argc < 2)
        give_up("no output folder");
    made_settings(&s, argv[1], 8);
    f.o = (options){.texts = 8, .stop = INT64_MAX, .threads = 1};
    s.token_string = letter;
    s.context.notice = note;
    for (int i = 2; i < argc; i++)
        take(&s, &f.o, argv[i]);
    f.stage = s.stage;
    f.attention = s.keep.attention;
    pthread_mutex_init(&f.lock, NULL);
    if (qk_sink_open(&f.sink, &s, &err) != QK_OK)
        give_up(err.message);
    feed(&f);
    if (f.o.stop < f.o.texts)
        qk_sink_close(&f.sink);
    else if (qk_sink_finish(&f.sink, &outcome, &err) != QK_OK)
        give_up(err.message);
    printf(
        "{\"complete\": %s, \"blocks\": %lld, \"there\": %lld, \"heads\": %zu, \"rows\": %lld, "
        "\"summed\": %lld}\n",
        outcome.complete ? "true" : "false", (long long)outcome.blocks,
        (long long)outcome.blocks_there, outcome.heads, (long long)outcome.rows,
        (long long)outcome.summed);
    return 0;
}
