/* SPDX-License-Identifier: Apache-2.0 */
/* DuoAttention's score as kvpress has it "on the fly": a text whose queries all are the mean query, whose keys the
 * mean key; where the attention of its last row lies. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/hub.h>
#include <qkscope/model.h>

#include "analysis/attention_source.h"
#include "base/buffer.h"
#include "base/error.h"
#include "capture/capture.h"
#include "export/export.h"
#include "stats/attention_profile.h"

typedef struct means {
    qk__grid grid;
    qk_model *model; /* NULL: the capture tells of RoPE */
    double *of[2];   /* [heads][d] before RoPE, by qk_kind */
    double *scores;  /* [length] by distance */
    size_t length;
} means;

static qk_status take_mean(void *user, size_t place, const qk_moments *m, qk_error *err)
{
    (void)err;
    memcpy((double *)user + place * m->dim, m->mean, m->dim * sizeof *m->mean);
    return QK_OK;
}

/* ---- RoPE ------------------------------------------------------------------------------- */

/* By its config.json; weights need not be there. */
static qk_status open_model(means *m, const char *name, qk_error *err)
{
    const qk__grid *g = &m->grid;
    char *path;
    QK_TRY(qk_hub_find_model(name, NULL, &path, err));
    qk_status status = qk_model_open_shape(&m->model, path, NULL, err);
    free(path);
    if (status != QK_OK)
        return status;
    const qk_model_facts *f = qk_model_get_facts(m->model);
    if ((size_t)f->num_layers == g->layers && (size_t)f->num_q_heads == g->heads[QK_QUERY] &&
        (size_t)f->num_k_heads == g->heads[QK_KEY] && (size_t)f->head_dim == g->dim)
        return QK_OK;
    return qk__fail(
        err, QK_ERR_INCONSISTENT,
        "%s: %zu layers of %zu query and %zu key heads of %zu values, and the model "
        "has %d of %d and %d of %d",
        qk_capture_path(g->run.capture), g->layers, g->heads[QK_QUERY], g->heads[QK_KEY],
        g->dim, f->num_layers, f->num_q_heads, f->num_k_heads, f->head_dim);
}

/* How a layer turns. scale: of scores, with what RoPE multiplies queries and keys by. */
static qk_status find_rotation(const means *m, size_t layer, qk__pairing *pairing,
                               double *scale, qk_error *err)
{
    const qk_capture *capture = m->grid.run.capture;
    const qk_capture_info *info = qk_capture_get_info(capture);
    double factor = info->rope_factor;
    *scale = qk__attention_scale(&m->grid.run, m->grid.dim);
    *pairing = (qk__pairing){.interleaved = info->rope_interleaved};
    pairing->frequencies =
        qk__capture_frequencies_to_come(capture, (int)layer, &pairing->pairs);
    if (m->model) {
        const qk_model_facts *facts = qk_model_get_facts(m->model);
        const qk_layer_facts *own = &facts->layers[layer];
        *pairing =
            (qk__pairing){own->num_frequencies, facts->rope_interleaved, own->frequencies};
        factor = own->attention_factor;
        *scale = facts->attention_scale > 0 ? facts->attention_scale : *scale;
    }
    *scale *= factor * factor;
    if (!m->model && capture->to_come.count == 0)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s: capture.json has no rope.frequencies, by which the model turns "
                        "these vectors: give --model MODEL",
                        qk_capture_path(capture));
    if (pairing->pairs > 0 && !(factor > 0))
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s: capture.json has no rope.attention_factor, by which this kind of "
                        "RoPE multiplies: give --model MODEL",
                        qk_capture_path(capture));
    return 2 * pairing->pairs <= m->grid.dim
               ? QK_OK
               : qk__fail(err, QK_ERR_INCONSISTENT,
                          "%s: vectors of %zu values have no room for the %zu rotary pairs of "
                          "layer %zu",
                          qk_capture_path(capture), m->grid.dim, pairing->pairs, layer);
}

/* ---- scores ----------------------------------------------------------------------------- */

/* The mean of the cumulated weights of the last row: a key at distance t counts in t + 1 sums. */
static double area(const double *scores, size_t length)
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

/* heads: places of the query head and its key head, by qk_kind. */
static qk_status score_head(means *m, const qk__phasors *phasors, double scale,
                            const size_t heads[2], double *score, qk_error *err)
{
    const int64_t position = 0;
    const size_t d = m->grid.dim;
    qk__pair_means pairs[2] = {{0}, {0}};
    qk_status status = QK_OK;
    for (int kind = 0; kind < 2 && status == QK_OK; kind++) {
        const qk_block row = {
            .rows = 1, .dim = d, .f64 = m->of[kind] + heads[kind] * d, .position = &position};
        status = qk__pair_means_of(&row, phasors->pairing, NULL, 0, &pairs[kind], err);
    }
    if (status == QK_OK)
        status = qk__scores_of_pairs(&pairs[QK_QUERY], &pairs[QK_KEY], phasors, scale,
                                     m->length, m->scores, err);
    *score = area(m->scores, m->length);
    qk__pair_means_free(&pairs[0]);
    qk__pair_means_free(&pairs[1]);
    return status;
}

static qk_status score_layer(means *m, size_t layer, double *of, qk_error *err)
{
    const qk__grid *grid = &m->grid;
    const size_t width = grid->heads[QK_QUERY];
    qk__pairing pairing;
    qk__phasors phasors = {0};
    double scale;
    QK_TRY(find_rotation(m, layer, &pairing, &scale, err));
    memset(m->scores, 0, m->length * sizeof *m->scores);
    const double alike = area(m->scores, m->length); /* without RoPE all keys have one score */
    qk_status status = QK_OK;
    if (pairing.pairs > 0)
        status = qk__phasors_init(&phasors, &pairing, (int64_t)m->length, err);
    for (size_t h = 0; h < width && status == QK_OK; h++) {
        double score = alike;
        const size_t q = layer * width + h, heads[] = {q, q / grid->group};
        if (pairing.pairs > 0)
            status = score_head(m, &phasors, scale, heads, &score, err);
        of[h / grid->group] += score / (double)grid->group;
    }
    qk__phasors_free(&phasors);
    return status;
}

static qk_status score(means *m, const char *model, qk__duo_scores *scores, qk_error *err)
{
    qk__grid *grid = &m->grid;
    const size_t q = grid->layers * grid->heads[QK_QUERY];
    if (model)
        QK_TRY(open_model(m, model, err));
    scores->layers = grid->layers;
    scores->heads = grid->heads[QK_KEY];
    QK_TRY(QK__CREATE_ARRAYS(err, {&m->of[QK_QUERY], q * grid->dim, sizeof(double)},
                             {&m->of[QK_KEY], q * grid->dim, sizeof(double)},
                             {&m->scores, m->length, sizeof(double)},
                             {&scores->of, q, sizeof(double)}));
    QK_TRY(qk__grid_each(grid, QK_QUERY, take_mean, m->of[QK_QUERY], err));
    QK_TRY(qk__grid_each(grid, QK_KEY, take_mean, m->of[QK_KEY], err));
    for (size_t l = 0; l < grid->layers; l++)
        QK_TRY(score_layer(m, l, scores->of + l * scores->heads, err));
    return QK_OK;
}

qk_status qk__scores_by_means(const qk_export_settings *settings, qk__duo_scores *scores,
                              qk_error *err)
{
    means m = {.length = (size_t)settings->length};
    qk_status status = qk__export_open(&m.grid, settings, QK_STAGE_PRE_ROPE, true, 0, err);
    if (status == QK_OK)
        status = score(&m, settings->model, scores, err);
    qk__grid_close(&m.grid);
    qk_model_close(&m.model);
    free(m.of[QK_QUERY]);
    free(m.of[QK_KEY]);
    free(m.scores);
    return status;
}
