/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of a text's attention, one after the other. */
#include "stats/attention_rows.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/block_rows.h"
#include "stats/project.h"
#include "stats/text_groups.h"

typedef qk__attention_row row;

bool qk__attention_weights(const double *q, const double *keys, size_t dim, double scale,
                           const qk__attention_row *r)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t j = r->low; j <= r->i; j++) {
        r->ln[j] = scale * qk__dot(q, keys + (size_t)j * dim, dim);
        if (!isfinite(r->ln[j]))
            return false;
        largest = r->ln[j] > largest ? r->ln[j] : largest;
    }
    for (int64_t j = r->low; j <= r->i; j++)
        sum += r->a[j] = exp(r->ln[j] - largest);
    const double log_sum = log(sum);
    for (int64_t j = r->low; j <= r->i; j++) {
        r->a[j] /= sum;
        r->ln[j] -= largest + log_sum;
    }
    return true;
}

static void add_top(const row *r, int64_t top, double *sums)
{
    int64_t offset = r->i - top;
    if (top == 0 && r->i > 0)
        sums[QK_ATTENTION_TOP_SINK]++;
    else if (offset < QK_TOP_OFFSETS)
        sums[QK_ATTENTION_TOP_OFFSETS + offset]++;
    else
        sums[QK_ATTENTION_TOP_BINS + qk_distance_bin(offset) - 5]++;
}

static void add_row(const row *r, double *sums)
{
    double entropy = 0, squares = 0, first = 0;
    int64_t top = r->low;
    for (int64_t j = r->low; j <= r->i; j++) {
        entropy -= r->a[j] * r->ln[j];
        squares += r->a[j] * r->a[j];
        first += j < QK_SINK_KEYS ? r->a[j] : 0;
        top = r->a[j] > r->a[top] ? j : top;
    }
    sums[QK_ATTENTION_ROWS]++;
    sums[QK_ATTENTION_SINK] += r->low == 0 ? r->a[0] : 0;
    sums[QK_ATTENTION_FIRST] += first;
    sums[QK_ATTENTION_SELF] += r->a[r->i];
    sums[QK_ATTENTION_PREVIOUS] += r->i > r->low ? r->a[r->i - 1] : 0;
    sums[QK_ATTENTION_ENTROPY] += entropy;
    sums[QK_ATTENTION_SQUARES] += squares;
    sums[QK_ATTENTION_VISIBLE] += log((double)(r->i - r->low + 1));
    add_top(r, top, sums);
}

/* Weights of the keys whose token, or the one before them (shift 1), is the row's; sums begin with the
 * number of rows that have such keys. */
static void add_matches(const row *r, const int32_t *tokens, int64_t shift, double *sums)
{
    int64_t matches = 0;
    double mass = 0;
    for (int64_t j = r->low > shift ? r->low : shift; j <= r->i && j < r->i + shift; j++)
        if (tokens[j - shift] == tokens[r->i]) {
            matches++;
            mass += r->a[j];
        }
    sums[0] += matches > 0;
    sums[1] += mass;
    sums[2] += (double)matches / (double)(r->i - r->low + 1);
}

/* Keys from 4 on, of rows from position 8 on. */
static void add_far(const row *r, double *sums)
{
    int64_t low = r->low > QK_SINK_KEYS ? r->low : QK_SINK_KEYS;
    double weight = 0, entropy = 0, distance = 0, bins[QK_DISTANCE_BINS] = {0};
    int64_t keys[QK_DISTANCE_BINS] = {0};
    if (r->i < QK_FAR_POSITION)
        return;
    for (int64_t d = 0, bin = 0; d <= r->i - low; d++) {
        double a = r->a[r->i - d];
        bin += d == (int64_t)1 << bin && bin < QK_DISTANCE_BINS - 1; /* qk_distance_bin(d) */
        weight += a;
        entropy -= a * r->ln[r->i - d];
        distance += a * (double)d;
        bins[bin] += a;
        keys[bin]++;
    }
    sums[QK_ATTENTION_FAR_ROWS]++;
    sums[QK_ATTENTION_FAR] += weight;
    sums[QK_ATTENTION_FAR_VISIBLE] += weight * log((double)(r->i - low + 1));
    sums[QK_ATTENTION_FAR_ENTROPY] += entropy + (weight > 0 ? weight * log(weight) : 0);
    sums[QK_ATTENTION_FAR_DISTANCE] += distance;
    sums[QK_ATTENTION_LAST_BINS + qk_distance_bin(r->i - low)] += weight;
    for (int b = 0; b < QK_DISTANCE_BINS; b++)
        if (keys[b] > 0) {
            sums[QK_ATTENTION_FAR_BINS + b] += bins[b];
            sums[QK_ATTENTION_FAR_KEYS] += bins[b] * log((double)keys[b]);
        }
}

qk_status qk__attention_add_text(const qk__attention_text *text, double *sums, qk_error *err)
{
    double *a = qk__calloc(2 * text->rows + 1, sizeof *a);
    if (!a)
        return qk__nomem(err);
    for (int64_t i = 0; i < (int64_t)text->rows; i++) {
        const bool bounded = text->window > 0 && text->window <= i;
        const row r = {
            .i = i, .low = bounded ? i - text->window + 1 : 0, .a = a, .ln = a + text->rows};
        double *own = sums + (size_t)qk_distance_bin(i) * QK_ATTENTION_SUMS;
        if (!qk__attention_weights(text->q + (size_t)i * text->dim, text->k, text->dim,
                                   text->scale, &r)) {
            free(a);
            return qk__fail(err, QK_ERR_MALFORMED, "a score of position %lld is not finite",
                            (long long)i);
        }
        add_row(&r, own);
        add_far(&r, own);
        if (text->tokens) {
            own[QK_ATTENTION_TOKENS]++;
            add_matches(&r, text->tokens, 0, own + QK_ATTENTION_DUPLICATE_ROWS);
            add_matches(&r, text->tokens, 1, own + QK_ATTENTION_INDUCTION_ROWS);
        }
    }
    free(a);
    return QK_OK;
}

/* ---- all texts of a head ---------------------------------------------------------------- */

bool qk__are_whole_texts(const qk_block *q, const qk_block *k)
{
    int64_t last = 0;
    if (q->rows != k->rows || q->dim != k->dim || !q->example || !k->example)
        return false;
    for (size_t r = 0; r < q->rows; r++) {
        bool follows = r > 0 && q->example[r] == q->example[r - 1] &&
                       q->position[r] == q->position[r - 1] + 1;
        if (q->position[r] != k->position[r] || q->example[r] != k->example[r] ||
            q->example[r] == QK_NO_EXAMPLE || !(follows || q->position[r] == 0))
            return false;
        last = q->position[r] > last ? q->position[r] : last;
    }
    return last >= QK_FAR_POSITION;
}

/* A text's rows from `first` on. */
static size_t count_rows(const qk_block *rows, size_t first)
{
    size_t end = first + 1;
    while (end < rows->rows && rows->position[end] > 0)
        end++;
    return end - first;
}

/* Groups as they are once all texts are known, and rows of the longest text. */
static qk_status group_texts(const qk_block *rows, qk__text_groups *groups, size_t *longest,
                             qk_error *err)
{
    uint32_t group, move[QK_MOST_GROUPS];
    bool joined;
    for (size_t r = 0, count; r < rows->rows; r += count) {
        count = count_rows(rows, r);
        *longest = count > *longest ? count : *longest;
        QK_TRY(qk__text_groups_find(groups, rows->example[r], &group, &joined, move, err));
    }
    return QK_OK;
}

/* Of one text, whose sums come to those of its group and of its rows' buckets. q, k: room for its rows. */
static qk_status add_text(const qk_block *const of[2], size_t first, double *const rows[2],
                          double scale, uint32_t group, qk__attention_head *head, qk_error *err)
{
    double sums[QK_DISTANCE_BINS * QK_ATTENTION_SUMS] = {0};
    const qk__attention_text text = {.rows = count_rows(of[0], first),
                                     .dim = of[0]->dim,
                                     .q = rows[0],
                                     .k = rows[1],
                                     .scale = scale,
                                     .window = of[0]->window ? of[0]->window[first] : 0};
    for (int side = 0; side < 2; side++)
        for (size_t r = 0; r < text.rows; r++)
            qk__row_of(of[side], first + r, rows[side] + r * text.dim);
    QK_TRY(qk__context(err, qk__attention_add_text(&text, sums, err), "text %lld",
                       (long long)of[0]->example[first]));
    for (size_t i = 0; i < QK_DISTANCE_BINS * QK_ATTENTION_SUMS; i++) {
        head->by_bucket[i] += sums[i];
        head->group[group * QK_ATTENTION_SUMS + i % QK_ATTENTION_SUMS] += sums[i];
    }
    head->texts++;
    return QK_OK;
}

static qk_status add_texts(const qk_block *const of[2], double scale, qk__text_groups *groups,
                           qk__attention_head *head, qk_error *err)
{
    const size_t sums = QK_ATTENTION_SUMS, dim = of[0]->dim;
    size_t longest = 0;
    double *room[2];
    uint32_t group, move[QK_MOST_GROUPS];
    bool joined;
    QK_TRY(group_texts(of[0], groups, &longest, err));
    head->num_groups = groups->count;
    head->num_buckets = QK_DISTANCE_BINS;
    QK_TRY(QK__CREATE_ARRAYS(err, {&head->group, head->num_groups * sums, sizeof(double)},
                             {&head->bucket, head->num_buckets, sizeof(int64_t)},
                             {&head->by_bucket, head->num_buckets * sums, sizeof(double)},
                             {&room[0], longest * dim, sizeof(double)},
                             {&room[1], longest * dim, sizeof(double)}));
    qk_status status = QK_OK;
    for (size_t b = 0; b < head->num_buckets; b++)
        head->bucket[b] = (int64_t)b;
    for (size_t r = 0; r < of[0]->rows && status == QK_OK; r += count_rows(of[0], r)) {
        status = qk__text_groups_find(groups, of[0]->example[r], &group, &joined, move, err);
        if (status == QK_OK)
            status = add_text(of, r, room, scale, group, head, err);
    }
    free(room[0]);
    free(room[1]);
    return status;
}

qk_status qk__attention_of_rows(const qk_block *queries, const qk_block *keys, double scale,
                                qk__attention_head *head, qk_error *err)
{
    qk__text_groups groups;
    *head = (qk__attention_head){.rows = (int64_t)queries->rows};
    if (!qk__are_whole_texts(queries, keys))
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "queries and keys are not those of every position of the same texts");
    const qk_block *const of[2] = {queries, keys};
    qk__text_groups_start(&groups, QK_TEXT_GROUPS);
    qk_status status = add_texts(of, scale, &groups, head, err);
    qk__text_groups_free(&groups);
    return status;
}
