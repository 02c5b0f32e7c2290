/* SPDX-License-Identifier: Apache-2.0 */
/* Scores by distance alone, from which attention over distance is predicted. */
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/attention_profile.h"
#include "stats/score_curve.h"

/* A key one token further away is one token earlier. */
void qk__scores_of_drift(double bias_strength, double scale, size_t reach, double *scores)
{
    for (size_t d = 0; d < reach; d++)
        scores[d] = -scale * bias_strength * (double)d;
}

/* The last position that angles are needed for. */
static int64_t last_position(const qk_block *rows, int64_t last)
{
    for (size_t r = 0; r < rows->rows; r++)
        last = rows->position[r] > last ? rows->position[r] : last;
    return last;
}

/* Scores of known means, of the dimensions that turn: the others add the same at every distance. */
static qk_status scores_of_pairs(const qk__pair_means *q, const qk__pair_means *k,
                                 const qk__phasors *phasors, double scale, size_t reach,
                                 double *scores, qk_error *err)
{
    size_t pairs = phasors->pairing->pairs;
    double *turns = qk__calloc(2 * pairs + 1, sizeof *turns);
    if (!turns)
        return qk__nomem(err);
    for (size_t d = 0; d < reach; d++) {
        double sum = 0;
        qk__phasors_at(phasors, (int64_t)d, turns);
        for (size_t p = 0; p < pairs; p++)
            sum += qk__pair_score(q, k, p, turns, pairs);
        scores[d] = scale * sum;
    }
    free(turns);
    return QK_OK;
}

qk_status qk__scores_of_means(const qk_block *queries, const qk_block *keys,
                              const qk__pairing *pairing, double scale, size_t reach,
                              double *scores, qk_error *err)
{
    qk__phasors phasors = {0};
    qk__pair_means q = {0}, k = {0};
    int64_t last = last_position(keys, last_position(queries, (int64_t)reach));
    QK_TRY(qk__phasors_init(&phasors, pairing, last, err));
    qk_status status = qk__pair_means_of(queries, pairing, &phasors, QK_FAR_POSITION, &q, err);
    if (status == QK_OK)
        status = qk__pair_means_of(keys, pairing, &phasors, QK_SINK_KEYS, &k, err);
    if (status == QK_OK)
        status = scores_of_pairs(&q, &k, &phasors, scale, reach, scores, err);
    qk__pair_means_free(&q);
    qk__pair_means_free(&k);
    qk__phasors_free(&phasors);
    return status;
}
