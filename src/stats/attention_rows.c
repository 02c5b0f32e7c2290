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
                           qk__attention_row *r)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t j = r->low; j <= r->i; j++) {
        r->ln[j] = scale * qk__dot(q, keys + (size_t)j * dim, dim);
        if (!isfinite(r->ln[j]))
            return false;
        largest = r->ln[j] > largest ? r->ln[j] : largest;
    }
    r->largest = largest;
    for (int64_t j = r->low; j <= r->i; j++)
        sum += r->a[j] = exp(r->ln[j] - largest);
    const double log_sum = log(sum);
    for (int64_t j = r->low; j <= r->i; j++) {
        r->a[j] /= sum;
        r->ln[j] -= largest + log_sum;
    }
    return true;
}

static void add_row(const row *r, double *sums)
{
    double entropy = 0, first = 0;
    for (int64_t j = r->low; j <= r->i; j++) {
        entropy -= r->a[j] * r->ln[j];
        first += j < QK_SINK_KEYS ? r->a[j] : 0;
    }
    if (sums[QK_ATTENTION_ROWS]++ == 0 || r->largest > sums[QK_ATTENTION_LOGIT_MAX])
        sums[QK_ATTENTION_LOGIT_MAX] = r->largest;
    sums[QK_ATTENTION_LOGIT] += r->largest;
    sums[QK_ATTENTION_SINK] += r->low == 0 ? r->a[0] : 0;
    sums[QK_ATTENTION_FIRST] += first;
    sums[QK_ATTENTION_SELF] += r->a[r->i];
    sums[QK_ATTENTION_PREVIOUS] += r->i > r->low ? r->a[r->i - 1] : 0;
    sums[QK_ATTENTION_ENTROPY] += entropy;
    sums[QK_ATTENTION_VISIBLE] += log((double)(r->i - r->low + 1));
}

/* Adds the weights of keys whose token, or the token before them (shift 1), is the row's; sums begin with the number
 * of rows that have such keys. */
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
    if (r->i < QK_FAR_POSITION)
        return;
    for (int64_t d = 0, bin = 0; d <= r->i - low; d++) {
        double a = r->a[r->i - d];
        bin += d == (int64_t)1 << bin && bin < QK_DISTANCE_BINS - 1; /* qk_distance_bin(d) */
        weight += a;
        entropy -= a * r->ln[r->i - d];
        distance += a * (double)d;
        bins[bin] += a;
    }
    sums[QK_ATTENTION_FAR_ROWS]++;
    sums[QK_ATTENTION_FAR] += weight;
    sums[QK_ATTENTION_FAR_VISIBLE] += weight * log((double)(r->i - low + 1));
    sums[QK_ATTENTION_FAR_ENTROPY] += entropy + (weight > 0 ? weight * log(weight) : 0);
    sums[QK_ATTENTION_FAR_DISTANCE] += distance;
    sums[QK_ATTENTION_LAST_BINS + qk_distance_bin(r->i - low)] += weight;
    for (int b = 0; b < QK_DISTANCE_BINS; b++)
        sums[QK_ATTENTION_FAR_BINS + b] += bins[b];
}

qk_status qk__attention_add_text(const qk__attention_text *text, double *sums, qk_error *err)
{
    double *a = qk__calloc(2 * text->rows + 1, sizeof *a);
    if (!a)
        return qk__nomem(err);
    for (int64_t i = 0; i < (int64_t)text->rows; i++) {
        const bool bounded = text->window > 0 && text->window <= i;
        row r = {
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
            add_matches(&r, text->tokens, 0, own + QK_ATTENTION_DUPLICATE_ROWS);
            add_matches(&r, text->tokens, 1, own + QK_ATTENTION_INDUCTION_ROWS);
        }
    }
    free(a);
    return QK_OK;
}

/* ---- all texts of a head ---------------------------------------------------------------- */

/* A row of a block, and where it belongs. */
typedef struct place {
    int64_t example, position;
    size_t row;
} place;

/* The rows of queries and keys, in the order of their places. */
typedef struct sides {
    const qk_block *of[2];
    place *at[2];
    const int64_t *texts; /* [rows of queries] of their examples */
} sides;

static int compare_places(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->example != y->example)
        return x->example < y->example ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

static bool are_whole(const place *q, const place *k, size_t rows)
{
    int64_t last = 0;
    for (size_t r = 0; r < rows; r++) {
        bool follows =
            r > 0 && q[r].example == q[r - 1].example && q[r].position == q[r - 1].position + 1;
        if (q[r].position != k[r].position || q[r].example != k[r].example ||
            q[r].example == QK_NO_EXAMPLE || !(follows || q[r].position == 0))
            return false;
        last = q[r].position > last ? q[r].position : last;
    }
    return last >= QK_FAR_POSITION;
}

static void free_sides(sides *s)
{
    free(s->at[0]);
    free(s->at[1]);
}

/* Rows may come in any order: then texts are in the order of their ids. */
static qk_status place_rows(const qk_block *q, const qk_block *k, sides *s, bool *whole,
                            qk_error *err)
{
    *s = (sides){.of = {q, k}};
    *whole = false;
    if (q->rows != k->rows || q->dim != k->dim || !q->example || !k->example)
        return QK_OK;
    QK_TRY(QK__CREATE_ARRAYS(err, {&s->at[0], q->rows, sizeof(place)},
                             {&s->at[1], k->rows, sizeof(place)}));
    for (int side = 0; side < 2; side++)
        for (size_t r = 0; r < q->rows; r++)
            s->at[side][r] = (place){s->of[side]->example[r], s->of[side]->position[r], r};
    *whole = are_whole(s->at[0], s->at[1], q->rows);
    for (int side = 0; side < 2 && !*whole; side++)
        qsort(s->at[side], q->rows, sizeof(place), compare_places);
    *whole = *whole || are_whole(s->at[0], s->at[1], q->rows);
    return QK_OK;
}

qk_status qk__are_whole_texts(const qk_block *queries, const qk_block *keys, bool *whole,
                              qk_error *err)
{
    sides s;
    qk_status status = place_rows(queries, keys, &s, whole, err);
    free_sides(&s);
    return status;
}

/* The number of a text's rows from `first` on. */
static size_t count_rows(const sides *s, size_t first)
{
    size_t end = first + 1;
    while (end < s->of[0]->rows && s->at[0][end].position > 0)
        end++;
    return end - first;
}

/* Finds the groups of all texts, and the rows of the longest text. */
static qk_status group_texts(const sides *s, qk__text_groups *groups, size_t *longest,
                             qk_error *err)
{
    uint32_t group, move[QK_MOST_GROUPS];
    bool joined;
    for (size_t r = 0, count; r < s->of[0]->rows; r += count) {
        count = count_rows(s, r);
        *longest = count > *longest ? count : *longest;
        QK_TRY(qk__text_groups_find(groups, s->texts[s->at[0][r].row], &group, &joined, move,
                                    err));
    }
    return QK_OK;
}

/* Adds one text to the sums of its group and of its rows' buckets. rows has room for its rows. */
static qk_status add_text(const sides *s, size_t first, double *const rows[2], double scale,
                          uint32_t group, qk__attention_head *head, qk_error *err)
{
    double sums[QK_DISTANCE_BINS * QK_ATTENTION_SUMS] = {0};
    const int64_t *window = s->of[0]->window;
    const qk__attention_text text = {.rows = count_rows(s, first),
                                     .dim = s->of[0]->dim,
                                     .q = rows[0],
                                     .k = rows[1],
                                     .scale = scale,
                                     .window = window ? window[s->at[0][first].row] : 0};
    for (int side = 0; side < 2; side++)
        for (size_t r = 0; r < text.rows; r++)
            qk__row_of(s->of[side], s->at[side][first + r].row, rows[side] + r * text.dim);
    QK_TRY(qk__context(err, qk__attention_add_text(&text, sums, err), "text %lld",
                       (long long)s->at[0][first].example));
    for (size_t i = 0; i < QK_DISTANCE_BINS * QK_ATTENTION_SUMS; i += QK_ATTENTION_SUMS) {
        qk__attention_add(head->by_bucket + i, sums + i);
        qk__attention_add(head->group + group * QK_ATTENTION_SUMS, sums + i);
    }
    head->texts++;
    return QK_OK;
}

static qk_status add_texts(const sides *s, double scale, qk__text_groups *groups,
                           qk__attention_head *head, qk_error *err)
{
    const size_t sums = QK_ATTENTION_SUMS, dim = s->of[0]->dim;
    size_t longest = 0;
    double *room[2];
    uint32_t group, move[QK_MOST_GROUPS];
    bool joined;
    QK_TRY(group_texts(s, groups, &longest, err));
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
    for (size_t r = 0; r < s->of[0]->rows && status == QK_OK; r += count_rows(s, r)) {
        status =
            qk__text_groups_find(groups, s->texts[s->at[0][r].row], &group, &joined, move, err);
        if (status == QK_OK)
            status = add_text(s, r, room, scale, group, head, err);
    }
    free(room[0]);
    free(room[1]);
    return status;
}

qk_status qk__attention_of_rows(const qk_block *queries, const qk_block *keys,
                                const int64_t *texts, double scale, qk__attention_head *head,
                                qk_error *err)
{
    qk__text_groups groups;
    sides s;
    bool whole;
    *head = (qk__attention_head){.rows = (int64_t)queries->rows};
    qk_status status = place_rows(queries, keys, &s, &whole, err);
    if (status == QK_OK && !whole)
        status = qk__fail(err, QK_ERR_INCONSISTENT,
                          "queries and keys are not those of every position of the same texts");
    s.texts = texts;
    qk__text_groups_start(&groups, QK_TEXT_GROUPS);
    if (status == QK_OK)
        status = add_texts(&s, scale, &groups, head, err);
    qk__text_groups_free(&groups);
    free_sides(&s);
    return status;
}
