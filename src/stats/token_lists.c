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
    MOST_SCORES = 1 << 17 /* of a head, unless that is fewer queries */
};

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

static void find_examples(qk__token_keys *of)
{
    const qk_block *keys = of->keys;
    for (size_t i = 0; i < keys->rows; i++) {
        const uint32_t row = of->order[i];
        if (i == 0 || keys->example[row] != keys->example[of->order[i - 1]])
            of->start[of->num_examples++] = i;
        of->has_first |= keys->position[row] == 0;
    }
    of->start[of->num_examples] = keys->rows;
}

/* Keys beyond the first of their text, and the texts that have them. */
static qk_status count_keys(qk__token_keys *of, const int64_t *texts, qk_error *err)
{
    const int64_t *const columns[] = {of->token, texts};
    int64_t token = -1, text = 0;
    uint32_t *order;
    QK_TRY(qk__rows_in_order(&order, of->keys->rows, columns, 2, err));
    for (size_t i = 0; i < of->keys->rows; i++) {
        const uint32_t row = order[i];
        if (of->token[row] < 0 || of->keys->position[row] == 0)
            continue;
        const bool same = of->token[row] == token && texts[row] == text;
        token = of->token[row];
        text = texts[row];
        of->keys_of[token]++;
        of->texts_of[token] += !same;
    }
    free(order);
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
                                   {&of->keys_of, names.count + 1, sizeof *of->keys_of},
                                   {&of->texts_of, names.count + 1, sizeof *of->texts_of});
    if (status == QK_OK) {
        find_examples(of);
        status = count_keys(of, texts, err);
    }
    if (status == QK_OK)
        status = list_far(of, moments, err);
    if (status != QK_OK)
        qk__token_keys_free(of);
    return status;
}

void qk__token_keys_free(qk__token_keys *of)
{
    free(of->order);
    free(of->start);
    free(of->keys_of);
    free(of->texts_of);
    *of = (qk__token_keys){0};
}

/* ---- attention -------------------------------------------------------------------------- */

/* What the keys take, in the order of of->order, and what they would if a row gave all that it leaves key 0 alike. */
typedef struct tally {
    const qk__token_keys *of;
    const qk_block *queries;
    double scale;
    double *weight, *even;
    uint64_t *chosen; /* queries: example << 32 | row */
    size_t num_chosen;
    /* of the example at hand */
    size_t first, count;
    double *k, *q, *row;
    int64_t *position;
} tally;

/* Every how many-th query, of those that a hash draws alike for all heads, keeps scores below the limit. */
static uint64_t find_step(const tally *t)
{
    double pairs = 0;
    for (size_t e = 0; e < t->of->num_examples; e++) {
        const double keys = (double)(t->of->start[e + 1] - t->of->start[e]);
        pairs += keys * keys / 2;
    }
    const double step =
        ceil(pairs / (double)t->of->keys->rows * (double)t->queries->rows / MOST_SCORES);
    const size_t most = t->queries->rows / LEAST_QUERIES;
    return (uint64_t)fmax(1, fmin(step, (double)most));
}

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

/* Where key 0 is missing its part of a row is not known: such examples count only where all are so. */
static void choose_queries(tally *t)
{
    const qk__token_keys *of = t->of;
    const uint64_t step = find_step(t);
    for (size_t r = 0; r < t->queries->rows; r++) {
        const int64_t place[2] = {t->queries->example[r], t->queries->position[r]};
        size_t e;
        if (place[0] == QK_NO_EXAMPLE ||
            (step > 1 && XXH3_64bits(place, sizeof place) % step != 0) ||
            !find_example(of, place[0], &e))
            continue;
        if (!of->has_first || of->keys->position[of->order[of->start[e]]] == 0)
            t->chosen[t->num_chosen++] = (uint64_t)e << 32 | r;
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
    size_t low = window > 0 ? qk__count_below(t->position, end, position - window + 1) : 0;
    double beyond = 0;
    if (low == end)
        return QK_OK;
    qk__attention_row row = {
        .low = (int64_t)low, .i = (int64_t)end - 1, .a = t->row, .ln = t->row + t->count};
    qk__row_of(t->queries, r, t->q);
    if (!qk__attention_weights(t->q, t->k, t->queries->dim, t->scale, &row))
        return qk__fail(err, QK_ERR_MALFORMED, "a score of position %lld is not finite",
                        (long long)position);
    while (low < end && t->position[low] == 0)
        low++;
    for (size_t i = low; i < end; i++)
        beyond += row.a[i];
    for (size_t i = low; i < end; i++) {
        t->weight[t->first + i] += row.a[i];
        t->even[t->first + i] += beyond / (double)(end - low);
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

static qk_status list_attended(const tally *t, const qk__token_groups *groups,
                               qk_head_tokens *tokens, qk_error *err)
{
    const qk__token_keys *of = t->of;
    const size_t names = of->names.count;
    double *sums, all = 0;
    QK_TRY(QK__CREATE_ARRAYS(err, {&sums, 2 * names + 1, sizeof *sums}));
    for (size_t i = 0; i < of->keys->rows; i++) {
        const int64_t token = of->token[of->order[i]];
        all += t->weight[i];
        if (token < 0)
            continue;
        sums[token] += t->weight[i];
        sums[names + (size_t)token] += t->even[i];
    }
    for (size_t n = 0; n < names && all > 0; n++)
        if (sums[n] > 0)
            put(of, tokens->items, &tokens->count,
                (qk_listed_token){.list = "attended",
                                  .number = (int64_t)n,
                                  .keys = of->keys_of[n],
                                  .texts = of->texts_of[n],
                                  .share = sums[n] / all,
                                  .lo = NAN,
                                  .hi = NAN,
                                  .lift = sums[n] / sums[names + n],
                                  .position = QK_NO_EXAMPLE,
                                  .example = QK_NO_EXAMPLE,
                                  .distance = NAN},
                takes_more);
    free(sums);
    for (size_t i = 0; i < tokens->count && groups->count > 0; i++)
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
    for (size_t i = 0; i < of->num_far; i++) {
        qk_listed_token *far = &tokens->items[tokens->count++];
        *far = of->far[i];
        far->keys = of->keys_of[far->number];
        far->texts = of->texts_of[far->number];
    }
    for (size_t i = 0; i < tokens->count; i++) {
        qk_listed_token *token = &tokens->items[i];
        token->rank = (int)(i < attended ? i : i - attended) + 1;
        token->token = qk__strdup(name_of(of, token->number));
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
