/* SPDX-License-Identifier: Apache-2.0 */
/* Confidence intervals of one head: its numbers are computed again without each group of examples
 * in turn (a jackknife). */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "analysis/head_analyses.h"
#include "base/buffer.h"
#include "base/error.h"
#include "stats/cross_fit.h"
#include "stats/jackknife.h"
#include "stats/moments.h"
#include "stats/project.h"
#include "stats/query_model.h"
#include "stats/rotation.h"

/* A head with its full analyses, and the group that is left out. */
typedef struct repetition {
    const qk__run *run;
    qk_head_results *full;
    int sign; /* of the keys, in the published convention */
    const qk__key_index *index;
    uint64_t stream[2];
    qk__head_repeats *of;
    qk_block queries, keys;            /* with groups, and left_out set */
    const qk_moments *q_rest, *k_rest; /* of the rows that are not left out */
    double *scratch;                   /* [dim] */
    qk__cross_fit crossed;
    double values[QK__NUM_REPEATED][QK_MOST_GROUPS];
    double nested[QK__NUM_CROSSED][QK_INTERVAL_GROUPS];
} repetition;

static qk__axis_view project(const repetition *r, const qk_moments *m, const double *axis)
{
    return qk__project(m, qk__trace(m), axis, r->scratch);
}

static void set(repetition *r, int number, double value)
{
    r->values[number][r->queries.left_out] = value;
}

/* PC0 of the rest, with the sign of PC0 of all rows; the group that is left out is projected on it. */
static qk_status repeat_pca(repetition *r, qk_error *err)
{
    const qk_pca *full = r->full->pca;
    qk_pca *own;
    qk_pca_settings settings = r->run->settings->pca;
    settings.components = 1;
    qk_status status = qk_pca_combined(r->q_rest, r->k_rest, &settings, &own, err);
    if (status == QK_ERR_DEGENERATE)
        return QK_OK; /* the numbers stay NaN */
    QK_TRY(status);
    double sign = qk__dot(full->axes, own->axes, full->dim) < 0 ? -1 : 1;
    set(r, QK__R_Q, sign * project(r, r->q_rest, own->axes).r);
    set(r, QK__R_K, sign * project(r, r->k_rest, own->axes).r);
    set(r, QK__KEY_SHARE, own->key_share);
    qk__cross_fit_see(&r->crossed, QK__ON_PC0, r->queries.left_out, own->axes, full->axes,
                      r->scratch);
    qk_pca_free(&own);
    return QK_OK;
}

static qk_status repeat_rotation(repetition *r, qk_error *err)
{
    const qk_rotation *full = r->full->rotation;
    qk_rotation *own;
    qk_rotation_settings settings = r->run->settings->rotation;
    settings.planes = 0;
    QK_TRY(qk__rotation_fit(r->q_rest, r->k_rest, &settings, &own, err));
    if (!own->degenerate) {
        double sign = qk__dot(full->a, own->a, full->dim) < 0 ? -1 : 1;
        qk__axis_view on_q = project(r, r->q_rest, own->a);
        qk__axis_view on_k = project(r, r->k_rest, own->a);
        set(r, QK__R_Q_A, sign * on_q.r);
        set(r, QK__R_K_A, sign * on_k.r);
        set(r, QK__ALPHA_Q, sign * on_q.slope);
        set(r, QK__ALPHA_K, sign * on_k.slope);
        set(r, QK__SEPARATION, own->separation_strength);
        set(r, QK__BIAS, on_q.mu * on_k.slope); /* both change sign with the axis */
        qk__cross_fit_see(&r->crossed, QK__ON_A, r->queries.left_out, own->a, full->a,
                          r->scratch);
        if (own->b && full->b)
            qk__cross_fit_see(&r->crossed, QK__ON_B, r->queries.left_out, own->b, full->b,
                              r->scratch);
    }
    qk__rotation_free(&own);
    return QK_OK;
}

static qk__plasticity_input plasticity_input(const repetition *r,
                                             const qk_plasticity_settings *settings)
{
    return (qk__plasticity_input){.queries = &r->queries,
                                  .keys = &r->keys,
                                  .index = r->index,
                                  .settings = settings,
                                  .stream = r->stream};
}

static qk_status repeat_plasticity(repetition *r, qk_error *err)
{
    const qk_plasticity_settings settings = qk__run_plasticity(r->run);
    const qk__plasticity_input in = plasticity_input(r, &settings);
    qk__query_model *model;
    double overall, fifths[QK_FIFTHS];
    QK_TRY(qk__query_model_create(&model, r->q_rest, NULL, r->sign, err));
    qk_status status =
        qk__plasticity_without(&r->of->plasticity, model, &in, &overall, fifths, err);
    if (status == QK_OK) {
        set(r, QK__AP, overall);
        set(r, QK__AP_DROP, fifths[0] - fifths[QK_FIFTHS - 1]);
    }
    qk__query_model_free(&model);
    return status;
}

static qk_status open_plasticity(repetition *r, const qk_moments *q, qk_error *err)
{
    const qk_plasticity_settings settings = qk__run_plasticity(r->run);
    const qk__plasticity_input in = plasticity_input(r, &settings);
    return r->full->plasticity && r->of->labels.count > 0
               ? qk__plasticity_repeats_open(&r->of->plasticity, q, &in, r->sign, err)
               : QK_OK;
}

static qk_status repeat(repetition *r, qk_error *err)
{
    if (r->q_rest->count == 0 || r->k_rest->count == 0)
        return QK_OK;
    if (r->full->pca)
        QK_TRY(repeat_pca(r, err));
    if (r->full->rotation && !r->full->rotation->degenerate)
        QK_TRY(repeat_rotation(r, err));
    if (r->full->plasticity)
        QK_TRY(repeat_plasticity(r, err));
    return QK_OK;
}

/* All rows without a part; *own stays NULL if none are left. */
static qk_status take_out(const qk_moments *all, const qk_moments *part,
                          const qk_moments **rest, qk_moments **own, qk_error *err)
{
    *own = NULL;
    *rest = all;
    if (!part)
        return QK_OK;
    QK_TRY(qk__moments_without(all, part, own, err));
    *rest = *own;
    return QK_OK;
}

static qk_status leave_out(repetition *r, uint32_t g, const qk_moments *q, const qk_moments *k,
                           qk_error *err)
{
    qk_moments *own_q, *own_k;
    uint64_t label = r->of->labels.label[g];
    r->queries.left_out = r->keys.left_out = g;
    for (int i = 0; i < QK__NUM_REPEATED; i++)
        set(r, i, NAN);
    QK_TRY(take_out(q, qk__text_parts_find(r->of->q_of, label), &r->q_rest, &own_q, err));
    qk_status status =
        take_out(k, qk__text_parts_find(r->of->k_of, label), &r->k_rest, &own_k, err);
    if (status == QK_OK)
        status = repeat(r, err);
    qk_moments_free(&own_k);
    qk_moments_free(&own_q);
    return status;
}

/* Degrees of freedom of errors over groups of texts, by their shares of the spread of positions. */
static double count_degrees(const qk_moments *all, const qk_moments *const *parts,
                            uint32_t count)
{
    double weight[QK_INTERVAL_GROUPS];
    for (uint32_t g = 0; g < count; g++) {
        double step = parts[g] ? parts[g]->mean_t - all->mean_t : 0;
        weight[g] = parts[g] ? parts[g]->sum_tt + (double)parts[g]->count * step * step : 0;
    }
    return qk__jackknife_degrees(weight, count);
}

/* ---- the intervals ---------------------------------------------------------------------- */

static const size_t INTERVALS[QK__NUM_REPEATED] = {
    [QK__R_Q] = offsetof(qk_head_intervals, r_q),
    [QK__R_K] = offsetof(qk_head_intervals, r_k),
    [QK__R_Q_A] = offsetof(qk_head_intervals, r_q_a),
    [QK__R_K_A] = offsetof(qk_head_intervals, r_k_a),
    [QK__ALPHA_Q] = offsetof(qk_head_intervals, alpha_q),
    [QK__ALPHA_K] = offsetof(qk_head_intervals, alpha_k),
    [QK__BIAS] = offsetof(qk_head_intervals, bias_strength),
    [QK__SEPARATION] = offsetof(qk_head_intervals, separation_strength),
    [QK__AP] = offsetof(qk_head_intervals, ap_overall),
    [QK__AP_DROP] = offsetof(qk_head_intervals, ap_drop),
    [QK__KEY_SHARE] = offsetof(qk_head_intervals, key_share),
};

static qk_status conclude(repetition *r, qk_head_intervals *out, qk_error *err)
{
    const qk_rotation *rotation = r->full->rotation;
    const qk_plasticity *plasticity = r->full->plasticity;
    double level = r->run->settings->ci / 100;
    const double estimates[QK__NUM_REPEATED] = {
        [QK__AP] = plasticity ? plasticity->ap_overall : NAN,
        [QK__AP_DROP] = plasticity ? plasticity->ap_drop : NAN,
        [QK__KEY_SHARE] = r->full->pca ? r->full->pca->key_share : NAN,
    };
    const double *refitted[QK__NUM_CROSSED];
    for (int i = 0; i < QK__NUM_CROSSED; i++)
        refitted[i] = r->values[i];
    qk__crossed_number crossed[QK__NUM_CROSSED];
    QK_TRY(qk__cross_fit_end(&r->crossed, rotation ? rotation->a : NULL, refitted, level,
                             r->nested, crossed, err));
    for (int i = 0; i < QK__NUM_REPEATED; i++) {
        qk_interval interval = {NAN, NAN, NAN};
        if (i < QK__NUM_CROSSED)
            interval = (qk_interval){crossed[i].lo, crossed[i].hi, crossed[i].value};
        else
            qk__jackknife_interval(estimates[i], r->values[i], r->of->labels.count,
                                   r->crossed.degrees, level, false, &interval.lo,
                                   &interval.hi);
        memcpy((char *)out + INTERVALS[i], &interval, sizeof interval);
    }
    for (int i = 0; i < 2; i++) {
        qk_interval *share = i == 0 ? &out->ap_overall : &out->key_share;
        share->lo = share->lo < 0 ? 0 : share->lo;
        share->hi = share->hi > 1 ? 1 : share->hi;
    }
    const qk_interval bias = out->bias_strength;
    const double context = r->full->lengths.position_most + 1;
    out->bias_over_context =
        (qk_interval){context * bias.lo, context * bias.hi, context * bias.cv};
    return QK_OK;
}

/* ---- for differences -------------------------------------------------------------------- */

_Static_assert(QK_REPEATED == (int)QK__NUM_REPEATED && QK_NESTED == QK__BIAS - QK__R_Q_A + 1,
               "as many numbers as there are");

/* The texts of a group: their ids number the texts of any list, and the capture says how many texts there are. */
static int64_t texts_of(const repetition *r, uint64_t label)
{
    const char *all = qk_capture_get_info(r->run->capture)->texts;
    uint64_t ids =
        qk__text_parts_texts(r->of->q_of, label) + 3 * qk__text_parts_texts(r->of->k_of, label);
    if (ids == 0 && !*all)
        return 0;
    return (int64_t)(ids + (*all ? (uint64_t)XXH3_64bits(all, strlen(all)) : 0));
}

static qk_status keep_repeats(const repetition *r, qk_head_repeats **kept, qk_error *err)
{
    const qk__text_labels *labels = &r->of->labels;
    qk_head_repeats *out = *kept = qk__calloc(1, sizeof *out);
    if (!out || !(out->items = qk__calloc(labels->count + 1, sizeof *out->items)))
        return qk__nomem(err);
    out->count = labels->count;
    for (uint32_t g = 0; g < labels->count; g++) {
        qk_repeat *item = &out->items[g];
        item->group = (int64_t)labels->label[g];
        item->texts = texts_of(r, labels->label[g]);
        item->degrees = r->crossed.degrees;
        for (int i = 0; i < QK_REPEATED; i++)
            item->without[i] = r->values[i][g];
        for (int i = 0; i < QK_NESTED; i++)
            item->nested[i] = r->nested[QK__R_Q_A + i][g];
    }
    return QK_OK;
}

static qk_status keep(repetition *r, qk_error *err)
{
    qk_head_results *head = r->full;
    head->intervals = qk__calloc(1, sizeof *head->intervals);
    qk_status status = head->intervals ? conclude(r, head->intervals, err) : qk__nomem(err);
    if (status == QK_OK)
        status = keep_repeats(r, &head->repeats, err);
    if (status != QK_OK) {
        free(head->intervals);
        head->intervals = NULL;
    }
    return status;
}

/* ---- groups of a query head and its key head -------------------------------------------- */

static qk_status join_parts(qk__text_parts *own, const qk__text_parts *parts, uint64_t mask,
                            const qk__text_parts **used, qk_error *err)
{
    *used = parts;
    if (parts->mask == mask)
        return QK_OK;
    *used = own;
    return qk__text_parts_join(own, parts, mask, err);
}

static qk_status label_rows(const qk__text_ids *ids, const qk__text_labels *labels,
                            const qk_block *rows, uint32_t **group, qk_error *err)
{
    qk__buffer room = {0};
    qk_block seen;
    qk_status status = qk__text_ids_see(ids, rows, &room, &seen, err);
    if (status == QK_OK)
        status = qk__text_labels_of_rows(labels, &seen, group, err);
    qk__buffer_free(&room);
    return status;
}

static qk_status find_groups(qk__head_repeats *repeats, const qk__text_ids *ids,
                             const qk__head_data *queries, const qk__key_data *keys,
                             qk_error *err)
{
    const qk__text_parts *q = &queries->parts, *k = &keys->data.parts;
    qk__text_labels *labels = &repeats->labels;
    qk__text_labels_unite(labels, q->label, q->count, q->mask, k->label, k->count, k->mask,
                          QK_INTERVAL_GROUPS);
    QK_TRY(join_parts(&repeats->q_parts, q, labels->mask, &repeats->q_of, err));
    QK_TRY(join_parts(&repeats->k_parts, k, labels->mask, &repeats->k_of, err));
    QK_TRY(label_rows(ids, labels, &queries->rows, &repeats->group_of_query, err));
    return label_rows(ids, labels, &keys->data.rows, &repeats->group_of_key, err);
}

qk_status qk__head_repeats_open(qk__head_repeats *repeats, const qk__text_ids *ids,
                                const qk__head_data *queries, const qk__key_data *keys,
                                qk_error *err)
{
    qk_status status = find_groups(repeats, ids, queries, keys, err);
    if (status != QK_OK) {
        qk__head_repeats_free(repeats);
        return status;
    }
    repeats->plasticity.drawn.group = repeats->group_of_key;
    /* one more group: rows of texts that are not listed */
    repeats->plasticity.drawn.groups = repeats->labels.count + 1;
    return QK_OK;
}

void qk__head_repeats_free(qk__head_repeats *repeats)
{
    qk__plasticity_repeats_free(&repeats->plasticity);
    qk__text_parts_free(&repeats->q_parts);
    qk__text_parts_free(&repeats->k_parts);
    free(repeats->group_of_query);
    free(repeats->group_of_key);
    *repeats = (qk__head_repeats){0};
}

qk_status qk__head_intervals(qk__run *run, qk_head_results *results,
                             const qk__head_data *queries, const qk__key_data *keys,
                             qk__head_repeats *repeats, qk_error *err)
{
    const qk_moments *q = queries->moments, *k = keys->data.moments;
    const qk__text_labels *labels = &repeats->labels;
    repetition *r = malloc(sizeof *r + q->dim * sizeof(double));
    if (!r)
        return qk__nomem(err);
    *r = (repetition){.run = run,
                      .full = results,
                      .index = keys->index,
                      .sign = keys->data.sign,
                      .stream = {(uint64_t)results->id.layer, (uint64_t)results->id.head},
                      .of = repeats,
                      .queries = queries->rows,
                      .keys = keys->data.rows,
                      .scratch = (double *)(r + 1)};
    r->queries.group = repeats->group_of_query;
    r->keys.group = repeats->group_of_key;
    r->crossed.count = labels->count;
    for (uint32_t g = 0; g < labels->count; g++) {
        r->crossed.q[g] = qk__text_parts_find(repeats->q_of, labels->label[g]);
        r->crossed.k[g] = qk__text_parts_find(repeats->k_of, labels->label[g]);
    }
    r->crossed.degrees = fmin(count_degrees(q, r->crossed.q, labels->count),
                              count_degrees(k, r->crossed.k, labels->count));
    qk_status status = open_plasticity(r, q, err);
    for (uint32_t g = 0; g < labels->count && status == QK_OK; g++)
        status = qk__run_stopped(run) ? QK_ERR_CANCELLED : leave_out(r, g, q, k, err);
    if (status == QK_OK)
        status = keep(r, err);
    free(r);
    return status;
}
