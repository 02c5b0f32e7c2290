/* SPDX-License-Identifier: Apache-2.0 */
#include "prefill/tally.h"

#include <math.h>
#include <string.h>

#include <qkscope/attention.h>

static const double ln2 = 0x1.62e42fefa39efp-1;

/* ---- through the keys -------------------------------------------------------------------- */

void qk__tally_start(qk__head_tally *tally)
{
    memset(tally, 0, sizeof *tally);
    for (size_t k = 0; k < QK_SINK_KEYS; k++)
        for (size_t lane = 0; lane < QK_LANES; lane++)
            tally->first_scores[k][lane] = -INFINITY;
}

/* The least distance of a bin. */
static int64_t least_distance(int bin)
{
    return 0 < bin && bin < QK_DISTANCE_BINS ? (int64_t)1 << (bin - 1) : 0;
}

/* Bins of a panel of keys that begins so many keys before the queries. */
static int first_bin(int64_t ahead)
{
    return qk_distance_bin(ahead - (QK_LANES - 1));
}

static int last_bin(int64_t ahead)
{
    return qk_distance_bin(ahead + QK_LANES - 1);
}

/* Adds its weights to several bins. */
static void add_bands(const qk__panel_kernel *kernel, int64_t ahead, const float *weights,
                      size_t passed, float (*bins)[QK_LANES])
{
    for (int bin = first_bin(ahead); bin <= last_bin(ahead); bin++) {
        int64_t past = bin + 1 < QK_DISTANCE_BINS ? least_distance(bin + 1) : INT32_MAX;
        kernel->band(weights, passed, (float)(least_distance(bin) - ahead),
                     (float)(past - ahead), bins[bin]);
    }
}

void qk__tally_scores(const qk__panel_kernel *kernel, const qk__tally_text *text,
                      size_t query_panel, size_t from, size_t to, float *scores,
                      const qk__softmax *softmax, qk__head_tally *tally)
{
    size_t keys = (to - from) * QK_LANES, size = sizeof tally->first_scores;
    int64_t ahead = (int64_t)(query_panel - from) * QK_LANES;
    float(*bins)[QK_LANES] = tally->sums + QK_TALLY_BINS;
    qk__tally_block block = {
        .scores = scores,
        .keys = keys,
        .passed = from == 0 ? QK_SINK_KEYS : 0,
        .ahead = (float)ahead,
        .query_tokens = text->tokens + query_panel * QK_LANES,
        .key_tokens = text->tokens + from * QK_LANES,
        .num_sums = QK_TALLY_BINS + 1 + (size_t)last_bin((int64_t)(query_panel * QK_LANES)),
    };
    for (size_t p = 0; p < to - from; p++) {
        int64_t panel_ahead = ahead - (int64_t)(p * QK_LANES);
        int bin = first_bin(panel_ahead);
        block.bins[p] = bin == last_bin(panel_ahead) ? bins[bin] : NULL;
    }
    if (from == 0)
        memcpy(tally->first_scores, scores, size);
    kernel->tally(&block, softmax->top, softmax->total, softmax->sums, softmax->width, tally);
    if (from == 0)
        memcpy(tally->sums[QK_TALLY_FIRST], scores, size);
    for (size_t p = 0; p < to - from; p++)
        if (!block.bins[p])
            add_bands(kernel, ahead - (int64_t)(p * QK_LANES), scores + p * QK_LANES * QK_LANES,
                      p == 0 ? block.passed : 0, bins);
}

/* ---- rows -------------------------------------------------------------------------------- */

/* A row of a head, whose sums go to `sums`. */
typedef struct row {
    const qk__tally_text *text;
    const qk__head_tally *tally;
    size_t lane;
    int64_t position, seen;   /* keys that it sees */
    double top, total, share; /* 1 / total */
    double *sums;             /* [QK_ATTENTION_SUMS] */
} row;

static double weight(const row *r, size_t sum)
{
    return (double)r->tally->sums[sum][r->lane] * r->share;
}

/* Of the key so far before the query: 0 is its own, 1 the one before. */
static double weight_at(const row *r, int64_t distance)
{
    int64_t key = r->position - distance;
    if (key < 0)
        return 0;
    return weight(r, key < QK_SINK_KEYS ? QK_TALLY_FIRST + (size_t)key
                                        : QK_TALLY_BINS + (size_t)distance);
}

static void add_all_keys(const row *r)
{
    const qk__head_tally *t = r->tally;
    double logs = (double)t->logs[r->lane] * r->share; /* sum of a log2(a total) */
    for (size_t k = 0; k < QK_SINK_KEYS; k++) {
        double a = weight(r, QK_TALLY_FIRST + k);
        r->sums[QK_ATTENTION_FIRST] += a;
        logs += a == 0 ? 0 : a * ((double)t->first_scores[k][r->lane] - r->top);
    }
    r->sums[QK_ATTENTION_ROWS] += 1;
    r->sums[QK_ATTENTION_SINK] += weight(r, QK_TALLY_FIRST);
    r->sums[QK_ATTENTION_SELF] += weight_at(r, 0);
    r->sums[QK_ATTENTION_PREVIOUS] += weight_at(r, 1);
    r->sums[QK_ATTENTION_ENTROPY] += ln2 * (log2(r->total) - logs);
    r->sums[QK_ATTENTION_VISIBLE] += r->text->logs[r->seen];
}

/* Of n earlier copies of the row's token, or of the keys behind them, which have this weight. */
static void add_copies(const row *r, size_t sum, int64_t n, double a)
{
    r->sums[sum] += n > 0;
    r->sums[sum + 1] += a;
    r->sums[sum + 2] += (double)n / (double)r->seen;
}

static void add_tokens(const row *r)
{
    const qk__tally_text *text = r->text;
    const int32_t *tokens = text->tokens, own = tokens[r->position];
    double duplicate = weight(r, QK_TALLY_DUPLICATE), induction = weight(r, QK_TALLY_INDUCTION);
    if (r->position >= QK_SINK_KEYS)
        duplicate -= weight_at(r, 0);
    const int64_t keys = r->position < QK_SINK_KEYS ? r->position + 1 : QK_SINK_KEYS;
    for (int64_t k = 0; k < keys; k++) {
        double a = weight(r, QK_TALLY_FIRST + (size_t)k);
        if (k < r->position && tokens[k] == own)
            duplicate += a;
        if (tokens[k - 1] == own)
            induction += a;
    }
    /* Behind each copy is a key, and behind one just out of sight. */
    int64_t copies = text->repeats[r->position];
    bool behind = r->seen < r->position + 1 && tokens[r->position - text->window] == own;
    add_copies(r, QK_ATTENTION_DUPLICATE_ROWS, copies, duplicate);
    add_copies(r, QK_ATTENTION_INDUCTION_ROWS, copies + behind, induction);
}

static void add_far(const row *r)
{
    int64_t keys = r->position + 1 - QK_SINK_KEYS;
    keys = keys < r->seen ? keys : r->seen;
    int last = qk_distance_bin(keys - 1);
    double w = weight(r, QK_TALLY_WEIGHT);
    r->sums[QK_ATTENTION_FAR_ROWS] += 1;
    if (w == 0)
        return;
    double logs = (double)r->tally->logs[r->lane] * r->share;
    r->sums[QK_ATTENTION_FAR] += w;
    r->sums[QK_ATTENTION_FAR_VISIBLE] += w * r->text->logs[keys];
    r->sums[QK_ATTENTION_FAR_ENTROPY] += ln2 * (w * log2(w * r->total) - logs);
    r->sums[QK_ATTENTION_FAR_DISTANCE] += weight(r, QK_TALLY_DISTANCE);
    r->sums[QK_ATTENTION_LAST_BINS + last] += w;
    for (int bin = 0; bin <= last; bin++)
        r->sums[QK_ATTENTION_FAR_BINS + bin] += weight(r, QK_TALLY_BINS + (size_t)bin);
}

void qk__tally_add_rows(const qk__tally_text *text, size_t query_panel,
                        const qk__softmax *softmax, const qk__head_tally *tally,
                        int first_bucket, float *sums)
{
    int64_t first = (int64_t)(query_panel * QK_LANES), end = first + QK_LANES;
    end = end < text->count ? end : text->count;
    for (int64_t position = first; position < end;) {
        int bucket = qk_distance_bin(position);
        double of_rows[QK_ATTENTION_SUMS] = {0}, most = -INFINITY;
        for (; position < end && qk_distance_bin(position) == bucket; position++) {
            size_t lane = (size_t)(position - first);
            row r = {
                .text = text,
                .tally = tally,
                .lane = lane,
                .position = position,
                .seen = position + 1,
                .top = (double)softmax->top[lane],
                .total = (double)softmax->total[lane],
                .share = 1 / (double)softmax->total[lane],
                .sums = of_rows,
            };
            if (text->window > 0 && text->window < r.seen)
                r.seen = text->window;
            of_rows[QK_ATTENTION_LOGIT] += ln2 * r.top;
            most = fmax(most, ln2 * r.top);
            add_all_keys(&r);
            add_tokens(&r);
            if (position >= QK_FAR_POSITION)
                add_far(&r);
        }
        float *to = sums + (bucket - first_bucket) * QK_ATTENTION_SUMS;
        for (size_t i = 0; i < QK_ATTENTION_LOGIT_MAX; i++)
            to[i] += (float)of_rows[i];
        to[QK_ATTENTION_LOGIT_MAX] = fmaxf(to[QK_ATTENTION_LOGIT_MAX], (float)most);
    }
}
