/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of a head: from the sums that the capture keeps, else from rows that are whole texts; and its prediction.
 * docs/behaviour.md#attention */
#include "analysis/head_analyses.h"

#include <math.h>
#include <stdlib.h>

#include "analysis/attention_source.h"
#include "analysis/run_states.h"
#include "base/buffer.h"
#include "base/error.h"
#include "stats/attention_profile.h"
#include "stats/attention_rows.h"
#include "stats/rotation.h"

/* ---- predictions ------------------------------------------------------------------------ */

/* The drift of keys that the mean query sees. */
static qk_status predict_by_rotation(const qk__run *run, const qk_head_results *head,
                                     const qk__head_data *q, const qk__head_data *k,
                                     double scale, double *scores, qk_attention *attention,
                                     qk_error *err)
{
    qk_rotation *own = NULL;
    const qk_rotation *rotation = head->rotation;
    qk_rotation_settings settings = run->settings->rotation;
    settings.planes = 0;
    if (!rotation) {
        QK_TRY(qk__rotation_fit(q->moments, k->moments, &settings, &own, err));
        rotation = own;
    }
    if (!rotation->degenerate) {
        qk__scores_of_drift(rotation->bias_strength, scale, qk__attention_reach(attention),
                            scores);
        qk__attention_predict(attention, QK__BY_ROTATION, scores);
    }
    qk__rotation_free(&own);
    return QK_OK;
}

/* Mean query and key before RoPE, from rows after it, as far as the capture says how they were turned. */
static qk_status predict_by_means(const qk__run *run, int layer, const qk_block *q,
                                  const qk_block *k, double scale, double *scores,
                                  qk_attention *attention, qk_error *err)
{
    const qk_capture_info *info = qk_capture_get_info(run->capture);
    size_t pairs;
    const double *frequencies = qk_capture_rope_frequencies(run->capture, layer, &pairs);
    const qk__pairing pairing = {pairs, info->rope_interleaved, frequencies};
    if (pairs == 0 || 2 * pairs > q->dim || q->dim != k->dim || run->states.count > 0 ||
        info->stage == QK_STAGE_PRE_ROPE)
        return QK_OK;
    QK_TRY(qk__scores_of_means(q, k, &pairing, scale, qk__attention_reach(attention), scores,
                               err));
    qk__attention_predict(attention, QK__BY_MEANS, scores);
    return QK_OK;
}

static qk_status predict(const qk__run *run, const qk_head_results *head,
                         const qk__head_data *q, const qk__head_data *k, double scale,
                         qk_attention *attention, qk_error *err)
{
    double *scores = qk__calloc(qk__attention_reach(attention) + 1, sizeof *scores);
    if (!scores)
        return qk__nomem(err);
    qk_status status = predict_by_rotation(run, head, q, k, scale, scores, attention, err);
    if (status == QK_OK)
        status = predict_by_means(run, head->id.layer, &q->rows, &k->rows, scale, scores,
                                  attention, err);
    free(scores);
    return status;
}

/* ---- a head ----------------------------------------------------------------------------- */

static qk_status sum_rows(const qk__run *run, const qk_block *queries, const qk_block *keys,
                          double scale, qk__attention_head *sums, qk_error *err)
{
    qk__buffer room = {0};
    qk_block seen;
    qk_status status = qk__text_ids_see(&run->text_ids, queries, &room, &seen, err);
    if (status == QK_OK)
        status = qk__attention_of_rows(queries, keys, seen.example, scale, sums, err);
    qk__buffer_free(&room);
    return status;
}

/* Sums by windows of texts do not tell texts. */
static void count_texts(const qk__run *run, qk_attention *attention)
{
    attention->texts = (int64_t)qk__run_count_texts(run, (size_t)attention->texts);
    for (int i = 0; run->text_ids.unknown && i < QK_NUM_HEAD_NUMBERS; i++)
        attention->lo[i] = attention->hi[i] = NAN;
    for (int i = 0; run->text_ids.unknown && i < QK_NUM_HEAD_NAMES; i++)
        attention->probability[i] = NAN;
    if (run->text_ids.unknown)
        attention->names[0] = '\0';
}

qk_status qk__analyse_attention(qk__run *run, int worker, qk_head_results *head,
                                const qk__head_data *queries, const qk__key_data *keys,
                                qk__head_repeats *repeats, qk_error *err)
{
    (void)worker;
    (void)repeats;
    const qk__head_data *k = &keys->data;
    qk__attention_head sums = {0};
    qk_attention *attention = qk__calloc(1, sizeof *attention);
    if (!attention)
        return qk__nomem(err);
    const double scale = qk__attention_scale(run, queries->moments->dim);
    qk_status status = run->attention_of_rows
                           ? sum_rows(run, &queries->rows, &k->rows, scale, &sums, err)
                           : qk__states_read_attention(run, queries->head, &sums, err);
    if (status == QK_OK)
        status = qk__attention_numbers(&sums, run->settings->ci / 100, attention, err);
    if (status == QK_OK)
        count_texts(run, attention);
    if (status == QK_OK)
        status = predict(run, head, queries, k, scale, attention, err);
    qk__attention_head_clear(&sums);
    if (status != QK_OK)
        qk__attention_free(&attention);
    head->attention = attention;
    return status;
}
