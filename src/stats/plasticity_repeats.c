/* SPDX-License-Identifier: Apache-2.0 */
/* Which keys are enough, and the numbers without a group. */
#include "stats/plasticity_repeats.h"

#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"

enum { LEAST_KEYS = 16 /* of a text, on average; fewer texts instead of fewer keys */ };
static const uint32_t NO_GROUP = UINT32_MAX;

/* ---- some of the keys ------------------------------------------------------------------- */

/* Every `step`th key of every `stride`th text of a group. */
typedef struct share {
    uint32_t step, stride;
} share;

/* The share with about `wanted` of `pairs`. With pairs of near keys, all keys of a text: the keys between are the near
 * ones. */
static share find_share(const qk__key_index *index, double pairs, double wanted, bool near)
{
    double mean = near ? 0 : (double)index->rows / (double)index->num_examples;
    double step = fmin(ceil(sqrt(pairs / wanted)), fmax(floor(mean / LEAST_KEYS), 1));
    double stride = fmax(ceil(pairs / wanted / (step * step)), 1);
    return (share){(uint32_t)step, (uint32_t)fmin(stride, UINT32_MAX)};
}

/* The first text of a group is always among them. Texts begin at different keys, so that together they have
 * all positions. */
static qk_status choose_keys(qk__key_index **some, const qk__key_index *index,
                             const qk_block *keys, const qk__ap_parts *parts, share part,
                             qk_error *err)
{
    uint32_t *dropped, *texts;
    qk_block chosen = *keys;
    QK_TRY(QK__CREATE_ARRAYS(err, {&dropped, keys->rows + 1, sizeof *dropped},
                             {&texts, parts->groups + 1, sizeof *texts}));
    for (size_t e = 0; e < index->num_examples; e++) {
        uint32_t text = texts[parts->group[index->row[index->start[e]]]]++;
        for (size_t i = index->start[e]; i < index->start[e + 1]; i++)
            dropped[index->row[i]] =
                text % part.stride != 0 || (i - index->start[e]) % part.step != e % part.step;
    }
    chosen.group = dropped;
    chosen.left_out = 1;
    qk_status status = qk__key_index_select(some, index, &chosen, err);
    free(dropped);
    free(texts);
    return status;
}

/* ---- sums over all pairs of these keys -------------------------------------------------- */

/* ap: room for the means of the source's buckets; parts: for its sums, or NULL. */
static qk_status sum_all(const qk__pair_source *source, const qk__query_model *model,
                         const qk__plasticity_input *in, double *ap, qk__ap_parts *parts,
                         qk_error *err)
{
    qk_plasticity_settings settings = *in->settings;
    qk__plasticity_input all = *in;
    settings.max_pairs = 0;
    all.settings = &settings;
    qk__tally tally = {.ap = ap, .parts = parts};
    tally.pairs = qk__calloc(source->grid->num + 1, sizeof *tally.pairs);
    if (!tally.pairs)
        return qk__nomem(err);
    qk_status status = qk__sum_pairs(source, model, &all, &tally, err);
    free(tally.pairs);
    return status;
}

/* Opens a source with these keys. */
static qk_status open_some(qk__pair_source *source, const qk__plasticity_input *in,
                           const qk__key_index *keys, double **ap, qk_error *err)
{
    qk__plasticity_input some = *in;
    some.index = keys;
    *ap = NULL;
    QK_TRY(qk__pair_source_open(source, &some, err));
    *ap = qk__calloc(source->grid->num + 1, sizeof **ap);
    return *ap ? QK_OK : qk__nomem(err);
}

/* ---- what is kept of all texts ---------------------------------------------------------- */

static qk_status see_all(qk__plasticity_repeats *r, const qk__query_model *model,
                         const qk__plasticity_input *in, qk_error *err)
{
    qk__pair_source source = {0};
    double *ap;
    qk_status status = open_some(&source, in, r->keys, &ap, err);
    r->some.group = r->drawn.group;
    r->some.groups = r->drawn.groups;
    if (status == QK_OK)
        status = qk__ap_parts_create(&r->some, source.grid, err);
    if (status == QK_OK)
        status = sum_all(&source, model, in, ap, &r->some, err);
    free(ap);
    qk__pair_source_close(&source);
    return status;
}

/* The pairs of the bucket with the most. */
static qk_status count_most(const qk__plasticity_input *in, int64_t *most, qk_error *err)
{
    qk__pair_source source = {0};
    int64_t *pairs = NULL;
    *most = 0;
    qk_status status = qk__pair_source_open(&source, in, err);
    if (status == QK_OK && !(pairs = qk__calloc(source.grid->num + 1, sizeof *pairs)))
        status = qk__nomem(err);
    if (status == QK_OK) {
        qk__count_pairs(&source.space, pairs);
        for (size_t j = 0; j < source.grid->num; j++)
            *most = pairs[j] > *most ? pairs[j] : *most;
    }
    free(pairs);
    qk__pair_source_close(&source);
    return status;
}

qk_status qk__plasticity_repeats_open(qk__plasticity_repeats *repeats, const qk_moments *q,
                                      const qk__plasticity_input *in, int sign, qk_error *err)
{
    const int64_t wanted = in->settings->max_pairs;
    qk_block queries = *in->queries, keys = *in->keys;
    qk__plasticity_input all = *in;
    int64_t most;
    queries.left_out = keys.left_out = NO_GROUP;
    all.queries = &queries;
    all.keys = &keys;
    QK_TRY(count_most(&all, &most, err));
    if (wanted <= 0 || most <= wanted)
        return QK_OK;
    QK_TRY(choose_keys(
        &repeats->keys, in->index, &keys, &repeats->drawn,
        find_share(in->index, (double)most, (double)wanted, qk__pairs_are_near(in->settings)),
        err));
    qk__query_model *model;
    QK_TRY(qk__query_model_create(&model, q, NULL, sign, err));
    qk_status status = see_all(repeats, model, &all, err);
    qk__query_model_free(&model);
    return status;
}

void qk__plasticity_repeats_free(qk__plasticity_repeats *repeats)
{
    qk__ap_parts_free(&repeats->drawn);
    qk__ap_parts_free(&repeats->some);
    qk__key_index_free(&repeats->keys);
}

/* ---- a repetition ----------------------------------------------------------------------- */

/* The place of a bucket at or after *at, in ascending order; SIZE_MAX: it is not there. */
static size_t find_bucket(const qk__ap_parts *parts, int64_t id, size_t *at)
{
    while (*at < parts->buckets && parts->id[*at] < id)
        ++*at;
    return *at < parts->buckets && parts->id[*at] == id ? *at : SIZE_MAX;
}

/* Turns means over the chosen keys, by the source's buckets, into means over all. */
static void to_all(const qk__plasticity_repeats *r, const qk__query_grid *grid, size_t group,
                   double *ap)
{
    size_t at = 0, in_some = 0;
    for (size_t j = 0; j < grid->num; j++) {
        size_t drawn = find_bucket(&r->drawn, grid->bucket[j].id, &at);
        size_t some = find_bucket(&r->some, grid->bucket[j].id, &in_some);
        double all = drawn < SIZE_MAX ? qk__ap_without(&r->drawn, drawn, group) : NAN;
        double change = some < SIZE_MAX ? ap[j] - qk__ap_without(&r->some, some, group) : NAN;
        ap[j] = isnan(change) ? all
                              : all + change; /* no pair of these keys, so no change is seen */
    }
}

qk_status qk__plasticity_without(const qk__plasticity_repeats *repeats,
                                 const qk__query_model *model, const qk__plasticity_input *in,
                                 double *ap_overall, double fifths[QK_FIFTHS], qk_error *err)
{
    if (!repeats->keys)
        return qk__plasticity_profile(model, in, ap_overall, fifths, err);
    qk__pair_source source = {0};
    double *ap;
    qk_status status = open_some(&source, in, repeats->keys, &ap, err);
    if (status == QK_OK)
        status = sum_all(&source, model, in, ap, NULL, err);
    if (status == QK_OK) {
        to_all(repeats, source.grid, in->keys->left_out, ap);
        qk__summarise_profile(source.grid, ap, ap_overall, fifths, NULL);
    }
    free(ap);
    qk__pair_source_close(&source);
    return status;
}
