/* SPDX-License-Identifier: Apache-2.0 */
/* DuoAttention's score as kvpress has it "on the fly": a text whose queries all are the mean query, whose keys the
 * mean key; where the attention of its last row lies. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/attention_source.h"
#include "base/buffer.h"
#include "base/error.h"
#include "capture/capture.h"
#include "export/duo_scores.h"
#include "export/head_grid.h"
#include "stats/attention_profile.h"

typedef struct means {
    qk__grid grid;
    const qk_model_facts *model; /* NULL: the capture tells */
    double *q, *k;               /* [heads][d] before RoPE */
    double *scores;              /* [length] by distance */
    size_t length;
} means;

static qk_status take_mean(void *user, size_t place, const qk_moments *m, qk_error *err)
{
    (void)err;
    memcpy((double *)user + place * m->dim, m->mean, m->dim * sizeof *m->mean);
    return QK_OK;
}

/* ---- RoPE ------------------------------------------------------------------------------- */

/* How a layer turns; factor: on scores, which is on queries and keys. */
static qk_status find_rotation(const means *m, size_t layer, qk__pairing *pairing,
                               double *factor, qk_error *err)
{
    const qk_capture *capture = m->grid.run.capture;
    const qk_capture_info *info = qk_capture_get_info(capture);
    double one = info->rope_factor;
    *pairing = (qk__pairing){.interleaved = info->rope_interleaved};
    pairing->frequencies =
        qk__capture_frequencies_to_come(capture, (int)layer, &pairing->pairs);
    if (m->model) {
        const qk_layer_facts *facts = &m->model->layers[layer];
        *pairing = (qk__pairing){facts->num_frequencies, m->model->rope_interleaved,
                                 facts->frequencies};
        one = facts->attention_factor;
    }
    *factor = one * one;
    if (pairing->pairs > 0 && !(one > 0))
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s: capture.json has no rope.attention_factor, by which this kind of "
                        "RoPE multiplies: give --model MODEL",
                        qk_capture_path(capture));
    if (2 * pairing->pairs > m->grid.dim)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: vectors of %zu values have no room for the %zu rotary pairs of "
                        "layer %zu",
                        qk_capture_path(capture), m->grid.dim, pairing->pairs, layer);
    return QK_OK;
}

static qk_status check_rotation(const means *m, qk_error *err)
{
    const qk_capture *capture = m->grid.run.capture;
    if (m->model)
        return qk__grid_fits(&m->grid, "the model", m->model->num_layers, m->model->num_q_heads,
                             m->model->num_k_heads, m->model->head_dim, err);
    if (capture->to_come.count > 0)
        return QK_OK;
    return qk__fail(err, QK_ERR_NOT_FOUND,
                    "%s: capture.json has no rope.frequencies, by which the model turns these "
                    "vectors: give --model MODEL",
                    qk_capture_path(capture));
}

/* ---- scores ----------------------------------------------------------------------------- */

/* The mean of the cumulated weights of the last row: a key at distance t counts in the t + 1 sums from itself on. */
static double area(double *scores, size_t length)
{
    double most = -INFINITY, total = 0, sum = 0;
    for (size_t t = 0; t < length; t++)
        most = fmax(most, scores[t]);
    for (size_t t = 0; t < length; t++) {
        const double weight = exp(scores[t] - most);
        total += weight;
        sum += weight * (double)(t + 1);
    }
    return sum / total / (double)length;
}

static qk_status score_head(means *m, const qk__phasors *phasors, double scale, const double *q,
                            const double *k, double *score, qk_error *err)
{
    const int64_t position = 0;
    qk_block rows = {.rows = 1, .dim = m->grid.dim, .f64 = q, .position = &position};
    qk__pair_means of_q = {0}, of_k = {0};
    qk_status status = qk__pair_means_of(&rows, phasors->pairing, NULL, 0, &of_q, err);
    rows.f64 = k;
    if (status == QK_OK)
        status = qk__pair_means_of(&rows, phasors->pairing, NULL, 0, &of_k, err);
    if (status == QK_OK)
        status = qk__scores_of_pairs(&of_q, &of_k, phasors, scale, m->length, m->scores, err);
    if (status == QK_OK)
        *score = area(m->scores, m->length);
    qk__pair_means_free(&of_q);
    qk__pair_means_free(&of_k);
    return status;
}

static qk_status score_layer(means *m, size_t layer, double *of, qk_error *err)
{
    const qk__grid *grid = &m->grid;
    qk__pairing pairing;
    qk__phasors phasors = {0};
    double factor, scale = m->model ? m->model->attention_scale : 0;
    QK_TRY(find_rotation(m, layer, &pairing, &factor, err));
    memset(m->scores, 0, m->length * sizeof *m->scores);
    const double alike = area(m->scores, m->length); /* without RoPE all keys have one score */
    if (!(scale > 0))
        scale = qk__attention_scale(&grid->run, grid->dim);
    qk_status status = pairing.pairs > 0
                           ? qk__phasors_init(&phasors, &pairing, (int64_t)m->length, err)
                           : QK_OK;
    for (size_t h = 0; h < grid->q_heads && status == QK_OK; h++) {
        double score = alike;
        const size_t place = layer * grid->k_heads + h / grid->group;
        if (pairing.pairs > 0)
            status = score_head(m, &phasors, scale * factor,
                                m->q + (layer * grid->q_heads + h) * grid->dim,
                                m->k + place * grid->dim, &score, err);
        of[h / grid->group] += score / (double)grid->group;
    }
    qk__phasors_free(&phasors);
    return status;
}

static qk_status score(means *m, qk__duo_scores *scores, qk_error *err)
{
    qk__grid *grid = &m->grid;
    const size_t heads = grid->layers * grid->q_heads, keys = grid->layers * grid->k_heads;
    QK_TRY(check_rotation(m, err));
    QK_TRY(QK__CREATE_ARRAYS(
        err, {&m->q, heads * grid->dim, sizeof *m->q}, {&m->k, keys * grid->dim, sizeof *m->k},
        {&m->scores, m->length, sizeof *m->scores}, {&scores->of, keys, sizeof *scores->of}));
    scores->layers = grid->layers;
    scores->q_heads = grid->q_heads;
    scores->k_heads = grid->k_heads;
    scores->dim = grid->dim;
    QK_TRY(qk__grid_each(grid, QK_QUERY, take_mean, m->q, err));
    QK_TRY(qk__grid_each(grid, QK_KEY, take_mean, m->k, err));
    for (size_t l = 0; l < grid->layers; l++)
        QK_TRY(score_layer(m, l, scores->of + l * grid->k_heads, err));
    return QK_OK;
}

qk_status qk__duo_of_means(const qk_export_settings *settings, const qk_model_facts *model,
                           qk__duo_scores *scores, qk_error *err)
{
    const int64_t from = settings->from_position;
    const qk__grid_wish wish = {
        .stage = QK_STAGE_PRE_ROPE, .groups = true, .keys = true, .from = from < 0 ? 0 : from};
    means m = {.model = model, .length = (size_t)settings->length};
    qk_status status = qk__grid_open(&m.grid, settings, &wish, err);
    if (status == QK_OK)
        status = score(&m, scores, err);
    qk__grid_close(&m.grid);
    free(m.q);
    free(m.k);
    free(m.scores);
    return status;
}
