/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/head_lengths.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/parse_number.h"
#include "tables/text_lengths.h"
#include "stats/first_tokens.h"
#include "stats/moments.h"

/* ---- which lengths ---------------------------------------------------------------------- */

static int compare_lengths(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

qk_status qk__run_set_lengths(qk__run *run, qk_error *err)
{
    size_t count = 0;
    for (const char *text = run->settings->lengths; text;) {
        char number[24];
        const size_t size = strcspn(text, ",");
        int64_t length = 0;
        snprintf(number, sizeof number, "%.*s", size < sizeof number ? (int)size : 0, text);
        if (!qk__parse_integer(number, &length) || length < 1 || count == QK_MOST_LENGTHS)
            return qk__fail(err, QK_ERR_ARGUMENT,
                            "lengths \"%.60s\": expected up to %d numbers of tokens, such as "
                            "256,1024,4096",
                            run->settings->lengths, QK_MOST_LENGTHS);
        run->lengths[count++] = length;
        text = text[size] ? text + size + 1 : NULL;
    }
    if (count > 0)
        qsort(run->lengths, count, sizeof *run->lengths, compare_lengths);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || run->lengths[i] != run->lengths[i - 1])
            run->lengths[run->num_lengths++] = run->lengths[i];
    return QK_OK;
}

/* ---- the rows of a head ----------------------------------------------------------------- */

qk_status qk__length_sums_begin(const qk__run *run, size_t dim, qk__length_sums *sums,
                                qk_error *err)
{
    *sums = (qk__length_sums){.run = run, .positions = QK__NO_RANGE};
    for (size_t i = 0; i < run->num_lengths; i++)
        QK_TRY(qk_accumulator_create(&sums->part[i], dim, err));
    return QK_OK;
}

void qk__length_sums_free(qk__length_sums *sums)
{
    for (size_t i = 0; i < QK_MOST_LENGTHS; i++)
        qk_accumulator_free(&sums->part[i]);
    free(sums->ends);
}

static int compare_ends(const void *a, const void *b)
{
    const qk__text_end *x = a, *y = b;
    return (x->text > y->text) - (x->text < y->text);
}

/* Leaves one end for each text, in the order of texts. */
static void merge_ends(qk__length_sums *sums)
{
    size_t kept = 0;
    if (sums->num_ends > 0)
        qsort(sums->ends, sums->num_ends, sizeof *sums->ends, compare_ends);
    for (size_t i = 0; i < sums->num_ends; i++)
        if (kept > 0 && sums->ends[kept - 1].text == sums->ends[i].text)
            sums->ends[kept - 1].tokens =
                fmax(sums->ends[kept - 1].tokens, sums->ends[i].tokens);
        else
            sums->ends[kept++] = sums->ends[i];
    sums->num_ends = kept;
}

static bool grow_ends(qk__length_sums *sums)
{
    qk__text_end *ends = qk__grow(sums->ends, &sums->room, sizeof *ends);
    sums->ends = ends ? ends : sums->ends;
    return ends != NULL;
}

/* Rows of a text are mostly neighbours; where a text comes back, its ends are merged when room runs out. */
static qk_status add_end(qk__length_sums *sums, int64_t text, double tokens, qk_error *err)
{
    qk__text_end *last = sums->num_ends > 0 ? &sums->ends[sums->num_ends - 1] : NULL;
    if (last && last->text == text) {
        last->tokens = fmax(last->tokens, tokens);
        return QK_OK;
    }
    if (!sums->ends || sums->num_ends == sums->room) {
        merge_ends(sums);
        if ((!sums->ends || sums->num_ends >= sums->room / 2) && !grow_ends(sums))
            return qk__nomem(err);
    }
    sums->ends[sums->num_ends++] = (qk__text_end){text, tokens};
    return QK_OK;
}

qk_status qk__length_sums_add(qk__length_sums *sums, const qk_block *block, qk_error *err)
{
    const int64_t *lengths = sums->run->lengths;
    for (size_t i = 0, end = 0; i < block->rows; i = end) { /* rows of one text */
        int64_t low = block->position[i], high = low;
        for (;
             end < block->rows && (!block->example || block->example[end] == block->example[i]);
             end++) {
            low = block->position[end] < low ? block->position[end] : low;
            high = block->position[end] > high ? block->position[end] : high;
        }
        qk__range_add(&sums->positions, (double)low);
        qk__range_add(&sums->positions, (double)high);
        if (!block->example)
            continue;
        QK_TRY(add_end(sums, block->example[i], (double)high + 1, err));
    }
    for (size_t i = 0; i < sums->run->num_lengths; i++)
        QK_TRY(qk__add_positions(&sums->part[i], i > 0 ? lengths[i - 1] : INT64_MIN, lengths[i],
                                 block, err));
    return QK_OK;
}

static void set_texts(qk_text_lengths *lengths, double *tokens, size_t count)
{
    if (count > 0) /* else they stay as they are */
        qk__least_and_median(tokens, count, &lengths->least, &lengths->median);
    if (count > 0)
        lengths->most = tokens[count - 1]; /* they are sorted */
}

static qk_status sum_below(qk__length_sums *sums, qk_moments *below[QK_MOST_LENGTHS],
                           qk_error *err)
{
    for (size_t i = 0; i < sums->run->num_lengths && sums->part[i]; i++) {
        qk_moments *part;
        QK_TRY(qk_accumulator_finish(&sums->part[i], &part, err));
        qk_status status =
            i > 0 ? qk__moments_merge(below[i - 1], part, &below[i], err) : QK_OK;
        if (i > 0)
            qk_moments_free(&part);
        else
            below[0] = part;
        QK_TRY(status);
    }
    return QK_OK;
}

qk_status qk__length_sums_end(qk__length_sums *sums, double mean, qk_text_lengths *lengths,
                              qk_moments *below[QK_MOST_LENGTHS], qk_error *err)
{
    merge_ends(sums);
    double *tokens = qk__calloc(sums->num_ends + 1, sizeof *tokens);
    if (!tokens)
        return qk__nomem(err);
    *lengths = qk__lengths_up_to(sums->positions.low, sums->positions.high, mean);
    for (size_t i = 0; i < sums->num_ends; i++)
        tokens[i] = sums->ends[i].tokens;
    set_texts(lengths, tokens, sums->num_ends);
    free(tokens);
    return sum_below(sums, below, err);
}

/* ---- of all heads ----------------------------------------------------------------------- */

qk_text_lengths qk__lengths_up_to(double first, double last, double mean)
{
    return (qk_text_lengths){NAN, NAN, last + 1, first, mean, last};
}

void qk__lengths_widen(qk_text_lengths *lengths, const qk_text_lengths *other)
{
    lengths->median = fmax(lengths->median, other->median); /* fmax ignores NaN */
    lengths->least = fmax(lengths->least, other->least);
    lengths->most = fmax(lengths->most, other->most);
    lengths->position_least = fmin(lengths->position_least, other->position_least);
    lengths->position_most = fmax(lengths->position_most, other->position_most);
    if (isnan(lengths->position_mean))
        lengths->position_mean = other->position_mean;
    else if (isfinite(other->position_mean))
        lengths->position_mean = (lengths->position_mean + other->position_mean) / 2;
}

/* Rows are a sample of a text, and may lack its end: examples.csv may have all its tokens. */
static qk_status set_told(const qk__text_ids *ids, qk_text_lengths *lengths, qk_error *err)
{
    size_t count = 0;
    double *tokens = qk__calloc(ids->count + 1, sizeof *tokens);
    if (!tokens)
        return qk__nomem(err);
    for (size_t i = 0; i < ids->count; i++)
        if (ids->of[i].tokens > 0) /* an empty text has no rows */
            tokens[count++] = ids->of[i].tokens;
    set_texts(lengths, tokens, count);
    free(tokens);
    return QK_OK;
}

qk_status qk__find_lengths(qk__run *run, qk_error *err)
{
    qk_analysis_results *results = run->results;
    qk_text_lengths *lengths = &results->lengths;
    qk__mean mean = {0};
    *lengths = qk__no_lengths;
    for (size_t i = 0; i < results->num_heads; i++) {
        const qk_head_results *head = &results->heads[i];
        if (head->rows_q + head->rows_k == 0)
            continue;
        qk__lengths_widen(lengths, &head->lengths);
        qk__mean_add(&mean, head->lengths.position_mean);
    }
    lengths->position_mean = qk__mean_of(&mean);
    /* The first rows of a head may be of some texts only. */
    return run->settings->max_samples > 0 ? QK_OK : set_told(&run->text_ids, lengths, err);
}
