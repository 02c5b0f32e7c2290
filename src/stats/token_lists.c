/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of the tokens of a head's keys: those attended to, and those far out. */
#include "stats/token_lists.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/attention_rows.h"
#include "stats/block_rows.h"
#include "stats/jackknife.h"
#include "stats/project.h"
#include "stats/row_order.h"

enum {
    LEAST_QUERIES = 256,
    MOST_SCORES = 1 << 17, /* of a head, unless that is fewer queries */
    LEAST_TEXTS = 3        /* with their key 0, unless the others lack theirs no more */
};
/* A key that takes so much stands for those between it and the query, which were not captured. Of 20 heads of a sampled
 * capture, the three above this were the farthest from their shares in whole texts. */
static const double MOST_NEAREST = 1.0 / 3;

static const char *name_of(const qk__token_keys *of, int64_t token)
{
    return of->names.bytes + of->names.at[token];
}

/* Puts a token into a list of the largest values, the larger first and of equal ones the one that `precedes` the other. */
typedef bool precedes_fn(const qk__token_keys *of, const qk_listed_token *a,
                         const qk_listed_token *b);

static void put(const qk__token_keys *of, qk_listed_token *list, size_t *count,
                qk_listed_token token, precedes_fn *precedes)
{
    size_t at = *count;
    if (at == QK_TOKENS_LISTED && !precedes(of, &token, &list[at - 1]))
        return;
    at -= at == QK_TOKENS_LISTED;
    for (; at > 0 && precedes(of, &token, &list[at - 1]); at--)
        list[at] = list[at - 1];
    list[at] = token;
    *count += *count < QK_TOKENS_LISTED;
}

/* ---- keys ------------------------------------------------------------------------------- */

/* With most texts' key 0 known, the others are left out; else all texts count, and key 0 of none. */
static void find_examples(qk__token_keys *of, const int64_t *texts)
{
    const qk_block *keys = of->keys;
    size_t with_first = 0;
    of->is_whole = true;
    for (size_t i = 0; i < keys->rows; i++) {
        const uint32_t row = of->order[i];
        if (i == 0 || keys->example[row] != keys->example[of->order[i - 1]]) {
            of->text[of->num_examples] = (uint64_t)texts[row];
            of->start[of->num_examples++] = i;
            with_first += keys->position[row] == 0;
        }
        if (of->token[row] >= 0 && keys->position[row] > 0)
            of->keys_of[of->token[row]]++;
        of->is_whole &= (size_t)keys->position[row] == i - of->start[of->num_examples - 1];
    }
    of->start[of->num_examples] = keys->rows;
    of->knows_first = with_first == of->num_examples ||
                      (with_first >= LEAST_TEXTS && 2 * with_first >= of->num_examples);
}

static bool has_first(const qk__token_keys *of, size_t example)
{
    return of->keys->position[of->order[of->start[example]]] == 0;
}

/* Of the examples that have their key 0, or of all. */
static qk_status count_texts(const qk__token_keys *of, bool with_first, int64_t *count,
                             qk_error *err)
{
    uint64_t *texts, *scratch;
    size_t n = 0;
    *count = 0;
    QK_TRY(QK__CREATE_ARRAYS(err, {&texts, of->num_examples + 1, sizeof *texts},
                             {&scratch, of->num_examples + 1, sizeof *scratch}));
    for (size_t e = 0; e < of->num_examples; e++)
        if (!with_first || has_first(of, e))
            texts[n++] = of->text[e];
    qk__sort_u64(texts, n, scratch);
    for (size_t i = 0; i < n; i++)
        *count += i == 0 || texts[i] != texts[i - 1];
    free(texts);
    free(scratch);
    return QK_OK;
}

static bool is_farther(const qk__token_keys *of, const qk_listed_token *a,
                       const qk_listed_token *b)
{
    (void)of;
    if (a->distance != b->distance)
        return a->distance > b->distance;
    return a->example != b->example ? a->example < b->example : a->position < b->position;
}

/* The farthest key of each token: otherwise the first keys of ten texts would take all places. */
static qk_status list_far(qk__token_keys *of, const qk_moments *m, qk_error *err)
{
    const double scale = sqrt(qk__trace(m) / (double)m->count);
    qk_listed_token *farthest;
    double *x;
    if (!(scale > 0) || m->dim != of->keys->dim)
        return QK_OK;
    QK_TRY(QK__CREATE_ARRAYS(err, {&x, m->dim, sizeof *x},
                             {&farthest, of->names.count + 1, sizeof *farthest}));
    for (size_t r = 0; r < of->keys->rows; r++) {
        const int64_t token = of->token[r];
        if (token < 0)
            continue;
        qk__row_of(of->keys, r, x);
        for (size_t i = 0; i < m->dim; i++)
            x[i] -= m->mean[i];
        const qk_listed_token key = {.list = "far",
                                     .number = token,
                                     .position = of->keys->position[r],
                                     .example = of->keys->example[r],
                                     .distance = sqrt(qk__dot(x, x, m->dim)) / scale,
                                     .queries = QK_NO_EXAMPLE,
                                     .first_key = "",
                                     .nearest = NAN,
                                     .share = NAN,
                                     .lo = NAN,
                                     .hi = NAN,
                                     .lift = NAN};
        if (!farthest[token].list || is_farther(of, &key, &farthest[token]))
            farthest[token] = key;
    }
    for (size_t t = 0; t < of->names.count; t++)
        if (farthest[t].list)
            put(of, of->far, &of->num_far, farthest[t], is_farther);
    free(x);
    free(farthest);
    return QK_OK;
}

qk_status qk__token_keys_create(qk__token_keys *of, const qk_block *keys, const int64_t *texts,
                                const int64_t *token, qk__token_names names,
                                const qk_moments *moments, qk_error *err)
{
    *of = (qk__token_keys){.keys = keys, .token = token, .names = names};
    const int64_t *const columns[] = {keys->example, keys->position};
    qk_status status = qk__rows_in_order(&of->order, keys->rows, columns, 2, err);
    if (status == QK_OK)
        status = QK__CREATE_ARRAYS(err, {&of->start, keys->rows + 1, sizeof *of->start},
                                   {&of->text, keys->rows + 1, sizeof *of->text},
                                   {&of->keys_of, names.count + 1, sizeof *of->keys_of});
    if (status == QK_OK) {
        find_examples(of, texts);
        status = list_far(of, moments, err);
    }
    if (status != QK_OK)
        qk__token_keys_free(of);
    return status;
}

void qk__token_keys_free(qk__token_keys *of)
{
    free(of->order);
    free(of->start);
    free(of->keys_of);
    free(of->text);
    *of = (qk__token_keys){0};
}

/* ---- attention -------------------------------------------------------------------------- */

/* What the keys take, in the order of of->order, and what they would if a row gave all that it leaves key 0 alike. */
typedef struct tally {
    const qk__token_keys *of;
    const qk_block *queries;
    double scale;
    double *weight, *even;
    double nearest, nearest_even; /* what the nearest key before each query takes, and would */
    int64_t num_queries;
    uint64_t *chosen; /* queries: example << 32 | row */
    size_t num_chosen;
    /* of the example at hand */
    size_t first, count;
    double *k, *q, *row;
    int64_t *position;
} tally;

static bool find_example(const qk__token_keys *of, int64_t example, size_t *found)
{
    size_t low = 0, high = of->num_examples;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (of->keys->example[of->order[of->start[middle]]] < example)
            low = middle + 1;
        else
            high = middle;
    }
    *found = low;
    return low < of->num_examples && of->keys->example[of->order[of->start[low]]] == example;
}

/* Of the queries that count, as many as keep scores below the limit: those that a hash draws alike for all heads. */
static void choose_queries(tally *t)
{
    const qk__token_keys *of = t->of;
    double scores = 0;
    size_t all = 0;
    for (size_t r = 0; r < t->queries->rows; r++) {
        size_t e;
        if (t->queries->example[r] == QK_NO_EXAMPLE ||
            !find_example(of, t->queries->example[r], &e) ||
            (of->knows_first && !has_first(of, e)))
            continue;
        scores += (double)(of->start[e + 1] - of->start[e]) / 2;
        t->chosen[all++] = (uint64_t)e << 32 | r;
    }
    const double part = fmax(MOST_SCORES / scores, LEAST_QUERIES / (double)all);
    for (size_t i = 0; i < all; i++) {
        const uint32_t r = (uint32_t)t->chosen[i];
        const int64_t place[2] = {t->queries->example[r], t->queries->position[r]};
        if (!(part < 1) || ldexp((double)XXH3_64bits(place, sizeof place), -64) < part)
            t->chosen[t->num_chosen++] = t->chosen[i];
    }
}

static void load_example(tally *t, size_t e)
{
    const qk__token_keys *of = t->of;
    t->first = of->start[e];
    t->count = of->start[e + 1] - t->first;
    for (size_t i = 0; i < t->count; i++) {
        const uint32_t row = of->order[t->first + i];
        t->position[i] = of->keys->position[row];
        qk__row_of(of->keys, row, t->k + i * of->keys->dim);
    }
}

static qk_status add_query(tally *t, size_t r, qk_error *err)
{
    const int64_t position = t->queries->position[r],
                  window = t->queries->window ? t->queries->window[r] : 0;
    const size_t end = qk__count_below(t->position, t->count, position + 1);
    const size_t later = qk__count_below(t->position, end, 1),
                 before = qk__count_below(t->position, end, position);
    size_t low = window > 0 ? qk__count_below(t->position, end, position - window + 1) : 0;
    double beyond = 0;
    if (!t->of->knows_first)
        low = low > later ? low : later;
    if (low >= end)
        return QK_OK;
    qk__attention_row row = {
        .low = (int64_t)low, .i = (int64_t)end - 1, .a = t->row, .ln = t->row + t->count};
    qk__row_of(t->queries, r, t->q);
    if (!qk__attention_weights(t->q, t->k, t->queries->dim, t->scale, &row))
        return qk__fail(err, QK_ERR_MALFORMED, "a score of position %lld is not finite",
                        (long long)position);
    low = low > later ? low : later;
    t->num_queries++;
    for (size_t i = low; i < end; i++)
        beyond += row.a[i];
    for (size_t i = low; i < end; i++) {
        t->weight[t->first + i] += row.a[i];
        t->even[t->first + i] += beyond / (double)(end - low);
    }
    if (before > low) {
        t->nearest += row.a[before - 1];
        t->nearest_even += beyond / (double)(end - low);
    }
    return QK_OK;
}

static qk_status add_queries(tally *t, qk_error *err)
{
    size_t last = SIZE_MAX;
    for (size_t i = 0; i < t->num_chosen; i++) {
        const size_t e = (size_t)(t->chosen[i] >> 32);
        if (e != last)
            load_example(t, e);
        last = e;
        QK_TRY(add_query(t, (uint32_t)t->chosen[i], err));
    }
    return QK_OK;
}

static qk_status make_tally(tally *t, qk_error *err)
{
    const size_t rows = t->of->keys->rows, dim = t->of->keys->dim;
    uint64_t *scratch;
    size_t longest = 0;
    for (size_t e = 0; e < t->of->num_examples; e++) {
        const size_t keys = t->of->start[e + 1] - t->of->start[e];
        longest = keys > longest ? keys : longest;
    }
    QK_TRY(QK__CREATE_ARRAYS(
        err, {&t->weight, rows, sizeof(double)}, {&t->even, rows, sizeof(double)},
        {&t->chosen, t->queries->rows + 1, sizeof *t->chosen},
        {&scratch, t->queries->rows + 1, sizeof *scratch}, {&t->q, dim, sizeof(double)},
        {&t->k, longest * dim, sizeof(double)}, {&t->row, 2 * longest, sizeof(double)},
        {&t->position, longest, sizeof *t->position}));
    choose_queries(t);
    qk__sort_u64(t->chosen, t->num_chosen, scratch);
    free(scratch);
    return add_queries(t, err);
}

static void free_tally(tally *t)
{
    free(t->weight);
    free(t->even);
    free(t->chosen);
    free(t->k);
    free(t->q);
    free(t->row);
    free(t->position);
}

/* ---- the list of those attended to ------------------------------------------------------ */

static bool takes_more(const qk__token_keys *of, const qk_listed_token *a,
                       const qk_listed_token *b)
{
    if (a->share != b->share)
        return a->share > b->share;
    return strcmp(name_of(of, a->number), name_of(of, b->number)) < 0;
}

/* An interval over texts, from the shares without each group that has any attention. */
static void find_interval(const tally *t, const qk__token_groups *groups, double all,
                          qk_listed_token *token)
{
    double own[QK_MOST_GROUPS] = {0}, total[QK_MOST_GROUPS] = {0}, sum = 0;
    uint32_t count = 0;
    for (size_t i = 0; i < t->of->keys->rows; i++) {
        const uint32_t row = t->of->order[i], g = groups->of_key[row];
        if (g >= groups->count)
            continue;
        total[g] += t->weight[i];
        own[g] += t->of->token[row] == token->number ? t->weight[i] : 0;
    }
    for (uint32_t g = 0; g < groups->count; g++) {
        sum += own[g];
        if (total[g] > 0) {
            own[count] = own[g];
            total[count++] = total[g];
        }
    }
    for (uint32_t g = 0; g < count; g++)
        own[g] = (sum - own[g]) / (all - total[g]);
    qk__jackknife_interval(token->share, own, count, qk__degrees_per_token(total, count),
                           groups->level, false, &token->lo, &token->hi);
    token->lo = token->lo < 0 ? 0 : token->lo;
    token->hi = token->hi > 1 ? 1 : token->hi;
}

/* By token: its keys in the texts that count, what they take, and what they would. Returns what all keys take. */
static double sum_tokens(const tally *t, int64_t *keys, double *share, double *even)
{
    const qk__token_keys *of = t->of;
    double all = 0;
    for (size_t e = 0, i = 0; e < of->num_examples; e++) {
        const bool counts = !of->knows_first || has_first(of, e);
        for (; i < of->start[e + 1]; i++) {
            const uint32_t row = of->order[i];
            const int64_t token = of->token[row];
            all += t->weight[i];
            if (token < 0)
                continue;
            keys[token] += counts && of->keys->position[row] > 0;
            share[token] += t->weight[i];
            even[token] += t->even[i];
        }
    }
    return all;
}

/* Whether keys stand for those that were not captured; of few keys the nearest has much in any case. */
static bool is_near(const tally *t, double nearest)
{
    return !t->of->is_whole && nearest > MOST_NEAREST && t->nearest > 2 * t->nearest_even;
}

static qk_status list_attended(const tally *t, const qk__token_groups *groups,
                               qk_head_tokens *tokens, qk_error *err)
{
    const qk__token_keys *of = t->of;
    const size_t names = of->names.count;
    double *share, *even;
    int64_t *keys, texts;
    QK_TRY(count_texts(of, of->knows_first, &texts, err));
    QK_TRY(QK__CREATE_ARRAYS(err, {&share, names + 1, sizeof *share},
                             {&even, names + 1, sizeof *even},
                             {&keys, names + 1, sizeof *keys}));
    const double all = sum_tokens(t, keys, share, even);
    qk_listed_token token = {.list = "attended",
                             .number = -1,
                             .queries = t->num_queries,
                             .texts = texts,
                             .first_key = of->knows_first ? "known" : "unknown",
                             .nearest = t->nearest / all,
                             .share = NAN,
                             .lo = NAN,
                             .hi = NAN,
                             .lift = NAN,
                             .position = QK_NO_EXAMPLE,
                             .example = QK_NO_EXAMPLE,
                             .distance = NAN};
    const bool lists = !is_near(t, token.nearest);
    if (!lists) {
        token.list = "near";
        token.keys = QK_NO_EXAMPLE;
        tokens->items[tokens->count++] = token;
    }
    for (size_t n = 0; n < names && lists; n++)
        if (share[n] > 0) {
            token.number = (int64_t)n;
            token.keys = keys[n];
            token.share = share[n] / all;
            token.lift = share[n] / even[n];
            put(of, tokens->items, &tokens->count, token, takes_more);
        }
    free(share);
    free(even);
    free(keys);
    for (size_t i = 0; i < tokens->count && groups->count > 0 && lists; i++)
        find_interval(t, groups, all, &tokens->items[i]);
    return QK_OK;
}

/* ---- both ------------------------------------------------------------------------------- */

static qk_status fill(const qk__token_keys *of, const qk_block *queries, double scale,
                      const qk__token_groups *groups, qk_head_tokens *tokens, qk_error *err)
{
    tally t = {.of = of, .queries = queries, .scale = scale};
    if (scale > 0 && queries->rows > 0 && of->keys->rows > 0 && of->keys->dim == queries->dim) {
        qk_status status = make_tally(&t, err);
        if (status == QK_OK)
            status = list_attended(&t, groups, tokens, err);
        free_tally(&t);
        QK_TRY(status);
    }
    const size_t attended = tokens->count;
    int64_t texts;
    QK_TRY(count_texts(of, false, &texts, err));
    for (size_t i = 0; i < of->num_far; i++) {
        qk_listed_token *far = &tokens->items[tokens->count++];
        *far = of->far[i];
        far->keys = of->keys_of[far->number];
        far->texts = texts;
    }
    for (size_t i = 0; i < tokens->count; i++) {
        qk_listed_token *token = &tokens->items[i];
        token->rank = (int)(i < attended ? i : i - attended) + 1;
        token->token = qk__strdup(token->number < 0 ? "" : name_of(of, token->number));
        if (!token->token)
            return qk__nomem(err);
    }
    return QK_OK;
}

qk_status qk__tokens_list(const qk__token_keys *of, const qk_block *queries, double scale,
                          const qk__token_groups *groups, qk_head_tokens **tokens,
                          qk_error *err)
{
    qk_head_tokens *list = *tokens = qk__calloc(1, sizeof *list);
    if (list)
        list->items = qk__calloc((size_t)2 * QK_TOKENS_LISTED, sizeof *list->items);
    qk_status status =
        list && list->items ? fill(of, queries, scale, groups, list, err) : qk__nomem(err);
    if (status != QK_OK)
        qk__tokens_free(tokens);
    return status;
}

void qk__tokens_free(qk_head_tokens **tokens)
{
    qk_head_tokens *list = *tokens;
    for (size_t i = 0; list && i < list->count; i++)
        free(list->items[i].token);
    if (list)
        free(list->items);
    free(list);
    *tokens = NULL;
}
