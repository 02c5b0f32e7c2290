/* SPDX-License-Identifier: Apache-2.0 */
/* From a query model and samples to the plasticity of every query bucket. */
#include "stats/plasticity_core.h"

#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/pair_sets.h"
#include "stats/pairs.h"
#include "stats/whitening.h"

/* Keys of a text are in the order of buckets, and within a bucket in that of positions. */
static qk_status find_near(qk__pair_source *source, const qk_plasticity_settings *settings,
                           qk_error *err)
{
    const qk__key_index *index = source->space.index;
    const double *at = index->position;
    size_t *near = source->near = qk__calloc(index->rows + 1, sizeof *near);
    if (!near)
        return qk__nomem(err);
    source->space.near = near;
    for (size_t e = 0; e < index->num_examples; e++) {
        const size_t first = index->start[e], end = index->start[e + 1];
        double most = settings->max_distance > 0 ? settings->max_distance : INFINITY;
        if (settings->max_share > 0)
            most = fmin(most, settings->max_share * (at[end - 1] + 1));
        for (size_t i = first; i < end; i++) {
            near[i] = i > first ? near[i - 1] : first;
            if (i > first && at[i] < at[i - 1] && most < INFINITY)
                return qk__fail(err, QK_ERR_INCONSISTENT,
                                "position %.0f is in a later bucket than position %.0f: pairs "
                                "within a distance need --buckets N",
                                at[i], at[i - 1]);
            while (at[i] - at[near[i]] > most)
                near[i]++;
        }
    }
    return QK_OK;
}

qk_status qk__pair_source_open(qk__pair_source *source, const qk__plasticity_input *in,
                               qk_error *err)
{
    const qk__key_index *index = in->index;
    *source = (qk__pair_source){0};
    if (!index) {
        QK_TRY(qk__key_index_create(&source->own_index, in->keys, err));
        index = source->own_index;
    }
    if (in->keys->group) {
        QK_TRY(qk__key_index_select(&source->present, index, in->keys, err));
        index = source->present;
    }
    bool published = in->settings->convention == QK_CONVENTION_PUBLISHED;
    QK_TRY(qk__query_grid_create(&source->grid, in->queries, published, in->totals, err));
    source->space = (qk__pair_space){in->keys, index, source->grid, NULL};
    return find_near(source, in->settings, err);
}

void qk__pair_source_close(qk__pair_source *source)
{
    qk__query_grid_free(&source->grid);
    qk__key_index_free(&source->present);
    qk__key_index_free(&source->own_index);
    free(source->near);
}

typedef struct run {
    const qk__pair_space *space;
    const qk__query_model *model;
    const qk__plasticity_input *in;
    qk__tally *tally;
    qk__whitening *whitening;
} run;

enum {
    SET_WORDS = 1 << 20, /* drawn at a time */
    LOOK_UP_COST = 64,   /* of a pair, over one that is met in order */
};

static qk_status draw_cells(const run *r, const qk__pair_sums *sums, size_t j, qk_error *err)
{
    const qk__cell_table *cells = r->tally->cells;
    for (size_t c = cells->at[j]; c < cells->at[j + 1]; c++)
        if (cells->cell[c].pairs > r->tally->limit)
            QK_TRY(qk__add_drawn_pairs(sums, j, c, cells->cell[c].pairs, r->in->settings->seed,
                                       r->in->stream, err));
    return QK_OK;
}

/* Buckets buckets[0..count-1] that draw, together as far as their sets fit in SET_WORDS; how
 * many. 0 if the first had better look up its pairs one by one: where a set has few members,
 * since forming all pairs costs a small part of looking up that many; or a window lets through
 * other keys for each bucket; or pairs within a distance are not numbered as all are. */
static size_t count_together(const run *r, const size_t *buckets, size_t count)
{
    const int64_t *pairs = r->tally->pairs, limit = r->tally->limit;
    size_t n = 0, words = 0;
    if (r->space->grid->window || qk__pairs_are_near(r->in->settings))
        return 0;
    while (n < count && qk__set_fits(pairs[buckets[n]], limit)) {
        words += qk__set_words(pairs[buckets[n]]);
        if (n > 0 && words > SET_WORDS)
            break;
        n++;
    }
    return n > 0 && pairs[buckets[n - 1]] / LOOK_UP_COST / (int64_t)n <= limit ? n : 0;
}

/* Meets all pairs once for buckets that draw. */
static qk_status add_together(const run *r, const qk__pair_sums *sums, const size_t *buckets,
                              size_t count, qk_error *err)
{
    const int64_t *pairs = r->tally->pairs;
    size_t words = 0;
    qk__pair_set *sets;
    const uint64_t **of;
    uint64_t *bits;
    for (size_t i = 0; i < count; i++)
        words += qk__set_words(pairs[buckets[i]]);
    QK_TRY(QK__CREATE_ARRAYS(err, {&sets, count, sizeof *sets}, {&of, count, sizeof *of},
                             {&bits, words, sizeof *bits}));
    words = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t id = (uint64_t)r->space->grid->bucket[buckets[i]].id;
        sets[i] = (qk__pair_set){.count = pairs[buckets[i]],
                                 .words = {r->in->stream[0], r->in->stream[1], id},
                                 .bits = bits + words};
        of[i] = sets[i].bits;
        words += qk__set_words(pairs[buckets[i]]);
    }
    r->tally->sampled += (int64_t)count;
    qk_status status =
        qk__draw_sets(sets, count, 3, (size_t)r->tally->limit, r->in->settings->seed, err);
    if (status == QK_OK)
        status = qk__add_all_pairs(sums, buckets, of, count, false, err);
    free(sets);
    free(of);
    free(bits);
    return status;
}

/* Sums the buckets whose pairs are drawn. Their cells are summed separately. */
static qk_status add_drawn(const run *r, const qk__pair_sums *sums, const size_t *buckets,
                           size_t count, qk_error *err)
{
    qk__tally *tally = r->tally;
    for (size_t i = 0, n; i < count; i += n) {
        n = count_together(r, buckets + i, count - i);
        if (n > 0) {
            QK_TRY(add_together(r, sums, buckets + i, n, err));
        } else {
            n = 1;
            QK_TRY(qk__add_drawn_pairs(sums, buckets[i], SIZE_MAX, tally->pairs[buckets[i]],
                                       r->in->settings->seed, r->in->stream, err));
        }
    }
    if (!tally->cells)
        return QK_OK;
    QK_TRY(qk__add_all_pairs(sums, buckets, NULL, count, true, err));
    for (size_t i = 0; i < count; i++)
        QK_TRY(draw_cells(r, sums, buckets[i], err));
    return QK_OK;
}

/* The buckets of buckets[count]; scratch has as many places. A cell
 * never has more pairs than its query bucket: what is enumerated for a bucket serves its
 * cells, and only of a bucket that is drawn from are the cells met by themselves. */
static qk_status add_buckets(const run *r, const size_t *buckets, size_t count, size_t *scratch,
                             qk_error *err)
{
    const qk__pair_sums sums = {r->space, r->whitening, r->model->mean_t, r->tally};
    const qk__tally *tally = r->tally;
    size_t whole = 0, n = 0;
    for (int drawn = 0; drawn < 2; drawn++) {
        for (size_t i = 0; i < count; i++)
            if (tally->pairs[buckets[i]] > 0 &&
                (tally->pairs[buckets[i]] > tally->limit) == (drawn == 1))
                scratch[n++] = buckets[i];
        if (!drawn)
            whole = n;
    }
    QK_TRY(qk__add_all_pairs(&sums, scratch, NULL, whole, false, err));
    return n > whole ? add_drawn(r, &sums, scratch + whole, n - whole, err) : QK_OK;
}

/* weight: of the pairs in the sum; NULL: one each. */
static void to_mean(double *ap, int64_t *pairs, int64_t limit, const double *weight)
{
    *pairs = *pairs < limit ? *pairs : limit;
    *ap = *pairs > 0 ? *ap / (weight ? *weight : (double)*pairs) : NAN;
}

/* scratch has 2 grid->num + 1 places. */
static qk_status add_sums(run *r, size_t *scratch, qk_error *err)
{
    const qk__query_grid *grid = r->space->grid;
    size_t *all = scratch + grid->num;
    for (size_t j = 0; j < grid->num; j++)
        all[j] = j;
    qk__count_pairs(r->space, r->tally->pairs);
    QK_TRY(qk__whitening_create(&r->whitening, r->model, err));
    qk_status status = add_buckets(r, all, grid->num, scratch, err);
    qk__whitening_free(&r->whitening);
    return status;
}

qk_status qk__sum_pairs(const qk__pair_source *source, const qk__query_model *model,
                        const qk__plasticity_input *in, qk__tally *tally, qk_error *err)
{
    const size_t num = source->grid->num;
    const qk__cell_table *cells = tally->cells;
    run r = {&source->space, model, in, tally, NULL};
    size_t *scratch;
    tally->limit = in->settings->max_pairs > 0 ? in->settings->max_pairs : INT64_MAX;
    QK_TRY(QK__CREATE_ARRAYS(err, {&scratch, 2 * num + 1, sizeof *scratch},
                             {&tally->weight, num + 1, sizeof *tally->weight}));
    qk_status status = add_sums(&r, scratch, err);
    for (size_t j = 0; j < num && status == QK_OK; j++)
        to_mean(&tally->ap[j], &tally->pairs[j], tally->limit, &tally->weight[j]);
    for (size_t c = 0; cells && c < cells->num_cells; c++)
        to_mean(&cells->cell[c].ap, &cells->cell[c].pairs, tally->limit,
                cells->weight ? &cells->weight[c] : NULL);
    free(scratch);
    free(tally->weight);
    tally->weight = NULL;
    return status;
}

void qk__summarise_profile(const qk__query_grid *grid, const double *ap, double *overall,
                           double fifths[QK_FIFTHS], double *tenths)
{
    double sum[1 + QK_TENTHS + QK_FIFTHS] = {0}, weight[1 + QK_TENTHS + QK_FIFTHS] = {0};
    for (size_t j = 0; j < grid->num; j++) {
        if (isnan(ap[j]))
            continue;
        double queries = (double)grid->bucket[j].total;
        sum[0] += queries * ap[j];
        weight[0] += queries;
        for (size_t i = 0; i < QK_TENTHS; i++) {
            double n = grid->bucket[j].tenths[i];
            size_t fifth = 1 + QK_TENTHS + i / 2;
            sum[1 + i] += n * ap[j];
            weight[1 + i] += n;
            sum[fifth] += n * ap[j];
            weight[fifth] += n;
        }
    }
    for (size_t i = 0; i < sizeof sum / sizeof *sum; i++)
        sum[i] = weight[i] > 0 ? sum[i] / weight[i] : NAN;
    *overall = sum[0];
    for (size_t i = 0; i < QK_TENTHS && tenths; i++)
        tenths[i] = sum[1 + i];
    for (size_t i = 0; i < QK_FIFTHS; i++)
        fifths[i] = sum[1 + QK_TENTHS + i];
}

qk_status qk__plasticity_profile(const qk__query_model *model, const qk__plasticity_input *in,
                                 double *ap_overall, double fifths[QK_FIFTHS], qk_error *err)
{
    qk__pair_source source;
    qk__tally tally = {0};
    qk_status status = qk__pair_source_open(&source, in, err);
    if (status == QK_OK) {
        const size_t buckets = source.grid->num + 1;
        status = QK__CREATE_ARRAYS(err, {&tally.ap, buckets, sizeof *tally.ap},
                                   {&tally.pairs, buckets, sizeof *tally.pairs});
    }
    if (status == QK_OK)
        status = qk__sum_pairs(&source, model, in, &tally, err);
    if (status == QK_OK)
        qk__summarise_profile(source.grid, tally.ap, ap_overall, fifths, NULL);
    free(tally.ap);
    free(tally.pairs);
    qk__pair_source_close(&source);
    return status;
}
