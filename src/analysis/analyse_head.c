/* SPDX-License-Identifier: Apache-2.0 */
/* The analyses of one query head with its key head. */
#include "analysis/head_analyses.h"

#include <math.h>
#include <stdlib.h>

#include "analysis/head_lengths.h"
#include "base/buffer.h"
#include "base/error.h"
#include "stats/certainty.h"
#include "stats/first_tokens.h"
#include "stats/interaction.h"
#include "stats/key_weights.h"
#include "stats/lda.h"
#include "stats/moments.h"
#include "stats/rotation.h"

/* ---- keys ------------------------------------------------------------------------------- */

/* What the keys of a reservoir stand for; known only with the buckets that chose them. */
static qk_status weigh_keys(const qk__run *run, qk__key_data *keys, qk_error *err)
{
    const qk__head_state *state = keys->data.state;
    int64_t *counts = qk__calloc(state->num_groups + 1, sizeof *counts);
    if (!counts)
        return qk__nomem(err);
    for (size_t g = 0; g < state->num_groups; g++)
        counts[g] = state->parts[g]->count;
    const qk__reservoir reservoir = {.most = qk_capture_get_info(run->capture)->reservoir,
                                     .mask = state->mask,
                                     .num_groups = state->num_groups,
                                     .label = state->labels,
                                     .count = counts};
    qk__buffer room = {0};
    qk_block seen; /* groups are of texts */
    qk_status status = qk__text_ids_see(&run->text_ids, &keys->data.rows, &room, &seen, err);
    if (status == QK_OK)
        status = qk__reservoir_weigh(keys->index, &seen, &reservoir, err);
    qk__buffer_free(&room);
    free(counts);
    return status == QK_OK ? status : qk__context(err, status, "%s", keys->data.head->files[0]);
}

qk_status qk__key_data_read(qk__run *run, int worker, const qk_head *head, qk__key_data *keys,
                            qk_error *err)
{
    *keys = (qk__key_data){0};
    QK_TRY(qk__head_data_read(run, worker, head, &keys->data, err));
    qk_status status = QK_OK;
    if (qk__run_does(run, QK_ANALYSE_PLASTICITY))
        status = qk__key_index_create(&keys->index, &keys->data.rows, err);
    if (status == QK_OK)
        status = qk__text_moments_correlate(keys->data.texts, &keys->told, err);
    if (status == QK_OK && keys->index && keys->data.state && run->buckets.count == 0)
        status = weigh_keys(run, keys, err);
    if (status == QK_OK)
        status = qk__key_data_list_tokens(run, keys, err);
    if (status != QK_OK)
        qk__key_data_free(run, keys);
    return status;
}

void qk__key_data_free(qk__run *run, qk__key_data *keys)
{
    qk__key_index_free(&keys->index);
    qk__token_keys_free(&keys->tokens);
    qk__head_data_free(run, &keys->data);
}

/* ---- PCA -------------------------------------------------------------------------------- */

typedef struct lda_count {
    const qk__lda *lda;
    int64_t on_q_side, rows;
} lda_count;

static qk_status count_sides(void *context, const qk_block *block, qk_error *err)
{
    (void)err;
    lda_count *count = context;
    count->rows += (int64_t)block->rows;
    count->on_q_side += qk__lda_count_q(count->lda, block);
    return QK_OK;
}

/* The fraction of rows on their own side of the line. */
static qk_status measure_lda(qk__run *run, int worker, const qk__head_data *q,
                             const qk__head_data *k, qk_pca *pca, qk_error *err)
{
    qk__lda *lda;
    QK_TRY(qk__pca_lda(pca, q->moments, k->moments, &lda, err));
    lda_count in_q = {.lda = lda}, in_k = {.lda = lda};
    qk_status status = qk__head_data_scan(run, worker, q, count_sides, &in_q, err);
    if (status == QK_OK)
        status = qk__head_data_scan(run, worker, k, count_sides, &in_k, err);
    if (status == QK_OK)
        pca->lda_accuracy = (double)(in_q.on_q_side + in_k.rows - in_k.on_q_side) /
                            (double)(in_q.rows + in_k.rows);
    qk__lda_free(&lda);
    return status;
}

static qk_status run_pca(qk__run *run, int worker, qk_head_results *head,
                         const qk__head_data *q, const qk__key_data *keys,
                         qk__head_repeats *repeats, qk_error *err)
{
    (void)repeats;
    const qk__head_data *k = &keys->data;
    qk_pca *pca;
    qk_status status = qk_pca_combined(q->moments, k->moments, &run->settings->pca, &pca, err);
    if (status != QK_OK)
        return qk__context(err, status, "column 'vector'");
    status =
        qk__pca_certainty(pca, &run->settings->pca, q->texts, k->texts, &head->certainty, err);
    if (status == QK_OK)
        status = qk__text_moments_correlate(q->texts, &head->told_q, err);
    if (status == QK_OK)
        status = qk__pca_first_tokens(pca, &run->settings->pca, q->moments, k->moments,
                                      q->first, k->first, &head->first_tokens, err);
    if (status == QK_OK)
        status = qk__score_rank(q->moments, k->moments, &pca->score_rank, err);
    if (status == QK_OK && run->settings->lda)
        status = measure_lda(run, worker, q, k, pca, err);
    if (status != QK_OK)
        qk_pca_free(&pca);
    head->pca = pca;
    head->told_k = keys->told;
    return status;
}

/* ---- at other lengths ------------------------------------------------------------------- */

/* Too few rows say nothing. */
static qk_status analyse_length(const qk__run *run, const qk_moments *q, const qk_moments *k,
                                qk_at_length *at, qk_error *err)
{
    qk_pca *pca;
    qk_pca_settings one = run->settings->pca;
    one.components = 1;
    at->n_q = q ? q->count : 0;
    at->n_k = k ? k->count : 0;
    if (at->n_q == 0 || at->n_k == 0)
        return QK_OK;
    qk_status status = qk_pca_combined(q, k, &one, &pca, err);
    if (status == QK_ERR_DEGENERATE)
        return QK_OK;
    QK_TRY(status);
    at->category = (int)pca->category;
    at->r_q = pca->components[0].r_q;
    at->r_k = pca->components[0].r_k;
    at->ev0 = pca->components[0].explained_variance;
    qk_pca_free(&pca);
    return QK_OK;
}

static qk_status run_lengths(qk__run *run, int worker, qk_head_results *head,
                             const qk__head_data *q, const qk__key_data *keys,
                             qk__head_repeats *repeats, qk_error *err)
{
    (void)worker;
    (void)repeats;
    qk_head_lengths *all = head->at_lengths = calloc(1, sizeof *all);
    if (!all)
        return qk__nomem(err);
    all->items = qk__calloc(run->num_lengths, sizeof *all->items);
    if (!all->items)
        return qk__nomem(err);
    for (; all->count < run->num_lengths; all->count++) {
        qk_at_length *at = &all->items[all->count];
        *at = (qk_at_length){run->lengths[all->count], -1, NAN, NAN, NAN, 0, 0};
        QK_TRY(
            analyse_length(run, q->below[all->count], keys->data.below[all->count], at, err));
    }
    return QK_OK;
}

/* ---- rotation --------------------------------------------------------------------------- */

/* Limit on the angles of a scan, unless a single plane needs more. */
static const int64_t MAX_SCAN_BYTES = (int64_t)64 << 20;

typedef struct rotation_pass {
    qk__rotation_scan *scan;
    bool queries;
} rotation_pass;

static qk_status see_rotation(void *context, const qk_block *block, qk_error *err)
{
    const rotation_pass *pass = context;
    return qk__rotation_scan_add(pass->scan, pass->queries, block, err);
}

qk_status qk__scan_rotation(qk__run *run, int worker, const qk__head_data *q,
                            const qk__head_data *k, qk_rotation *rotation, size_t first,
                            size_t count, qk_error *err)
{
    rotation_pass pass = {.queries = true};
    size_t known;
    const double *frequencies =
        qk_capture_rope_frequencies(run->capture, q->head->id.layer, &known);
    QK_TRY(
        qk__rotation_scan_create(&pass.scan, rotation, first, count, frequencies, known, err));
    qk_status status = qk__head_data_scan(run, worker, q, see_rotation, &pass, err);
    pass.queries = false;
    if (status == QK_OK)
        status = qk__head_data_scan(run, worker, k, see_rotation, &pass, err);
    if (status == QK_OK)
        return qk__rotation_scan_finish(&pass.scan, rotation, err);
    qk__rotation_scan_free(&pass.scan);
    return status;
}

/* Reads the rows a second time, in as many passes as memory takes. */
static qk_status scan_rows(qk__run *run, int worker, const qk__head_data *q,
                           const qk__head_data *k, qk_rotation *rotation, qk_error *err)
{
    int64_t rows = rotation->n_q + rotation->n_k;
    int64_t fit = MAX_SCAN_BYTES / (rows * (int64_t)sizeof(double));
    size_t step = fit > 1 ? (size_t)fit : 1, first = 0;
    do {
        size_t left = rotation->num_planes - first, count = left < step ? left : step;
        QK_TRY(qk__scan_rotation(run, worker, q, k, rotation, first, count, err));
        first += count;
    } while (first < rotation->num_planes);
    return QK_OK;
}

static qk_status run_rotation(qk__run *run, int worker, qk_head_results *head,
                              const qk__head_data *q, const qk__key_data *keys,
                              qk__head_repeats *repeats, qk_error *err)
{
    (void)repeats;
    const qk__head_data *k = &keys->data;
    qk_rotation *rotation;
    qk_status status =
        qk__rotation_fit(q->moments, k->moments, &run->settings->rotation, &rotation, err);
    if (status != QK_OK)
        return qk__context(err, status, "column 'vector'");
    rotation->bias_over_context = rotation->bias_strength * (head->lengths.position_most + 1);
    if (!rotation->degenerate && !q->state)
        status = scan_rows(run, worker, q, k, rotation, err);
    if (status != QK_OK)
        qk__rotation_free(&rotation);
    head->rotation = rotation;
    return status;
}

/* ---- plasticity ------------------------------------------------------------------------- */

/* What the moments say of all rows, where only some are here. integers and reals have room for the queries' buckets.
 * Buckets that were cut from positions have no moments. */
static void find_totals(const qk__run *run, const qk__head_data *q, const qk__head_data *k,
                        qk__totals *totals, int64_t *integers, double *reals)
{
    const qk__head_state *state = q->state;
    size_t count = run->buckets.count > 0 ? 0 : state->num_buckets;
    *totals = (qk__totals){.queries = q->moments->count,
                           .keys = k->moments->count,
                           .last_position = state->last_position,
                           .num_buckets = count,
                           .bucket = integers,
                           .count = integers + count,
                           .mean_t = reals};
    for (size_t i = 0; i < count; i++) {
        integers[i] = state->buckets[i].bucket;
        integers[count + i] = state->buckets[i].count;
        reals[i] = state->buckets[i].mean_t;
    }
}

static qk_status run_plasticity(qk__run *run, int worker, qk_head_results *head,
                                const qk__head_data *q, const qk__key_data *k,
                                qk__head_repeats *repeats, qk_error *err)
{
    (void)worker;
    qk_plasticity_settings settings = qk__run_plasticity(run);
    const uint64_t stream[2] = {(uint64_t)head->id.layer, (uint64_t)head->id.head};
    qk__totals totals;
    const qk__plasticity_input in = {&q->rows,
                                     &k->data.rows,
                                     k->index,
                                     q->state ? &totals : NULL,
                                     &settings,
                                     stream,
                                     repeats->labels.count > 0 ? &repeats->plasticity.drawn
                                                               : NULL};
    size_t buckets = q->state ? q->state->num_buckets : 0;
    double *reals = qk__calloc(buckets + 1, sizeof *reals);
    int64_t *integers = qk__calloc(2 * buckets + 1, sizeof *integers);
    qk_status status = reals && integers ? QK_OK : qk__nomem(err);
    if (status == QK_OK && q->state)
        find_totals(run, q, &k->data, &totals, integers, reals);
    if (status == QK_OK)
        status = qk__plasticity_fit(q->moments, &in, k->data.sign, &head->plasticity, err);
    if (status == QK_OK && q->state)
        head->plasticity->reservoir = qk_capture_get_info(run->capture)->reservoir;
    free(reals);
    free(integers);
    return status;
}

/* ---- intervals -------------------------------------------------------------------------- */

/* First of all: plasticity keeps its sums apart by these groups. */
static qk_status find_groups(qk__run *run, int worker, qk_head_results *head,
                             const qk__head_data *q, const qk__key_data *k,
                             qk__head_repeats *repeats, qk_error *err)
{
    (void)run;
    (void)worker;
    (void)head;
    return qk__head_repeats_open(repeats, &run->text_ids, q, k, err);
}

static qk_status run_intervals(qk__run *run, int worker, qk_head_results *head,
                               const qk__head_data *q, const qk__key_data *k,
                               qk__head_repeats *repeats, qk_error *err)
{
    (void)worker;
    return qk__head_intervals(run, head, q, k, repeats, err);
}

/* ---- all of them ------------------------------------------------------------------------ */

typedef qk_status run_analysis(qk__run *run, int worker, qk_head_results *head,
                               const qk__head_data *q, const qk__key_data *k,
                               qk__head_repeats *repeats, qk_error *err);

void qk__analyse_head(qk__run *run, int worker, size_t i, const qk__head_data *queries,
                      const qk__key_data *keys)
{
    const struct {
        bool wanted;
        run_analysis *run;
    } analyses[] = {
        {run->settings->ci > 0, find_groups},
        {qk__run_does(run, QK_ANALYSE_PCA), run_pca},
        {run->num_lengths > 0, run_lengths},
        {qk__run_does(run, QK_ANALYSE_ROTATION), run_rotation},
        {qk__run_does(run, QK_ANALYSE_PLASTICITY), run_plasticity},
        {qk__run_does(run, QK_ANALYSE_ATTENTION),
         qk__analyse_attention}, /* uses the rotation */
        {run->lists_tokens, qk__analyse_tokens},
        {run->settings->ci > 0, run_intervals}, /* repeats the others, so it is last */
    };
    qk_head_results *head = &run->results->heads[i];
    qk__head_repeats repeats = {0};
    head->rows_q = queries->moments->count;
    head->rows_k = keys->data.moments->count;
    head->texts_q = qk__run_count_texts(run, queries->num_texts);
    head->texts_k = qk__run_count_texts(run, keys->data.num_texts);
    head->lengths = queries->lengths;
    qk__lengths_widen(&head->lengths, &keys->data.lengths);
    for (size_t a = 0; a < sizeof analyses / sizeof *analyses; a++) {
        qk_error err = {0};
        if (!analyses[a].wanted)
            continue;
        if (a > 0 && qk__run_stopped(run))
            break;
        qk_status status = analyses[a].run(run, worker, head, queries, keys, &repeats, &err);
        if (status == QK_OK)
            continue;
        qk__context(&err, status, "%s with %s", queries->head->files[0],
                    keys->data.head->files[0]);
        qk__run_fail_head(run, i, status, err.message);
    }
    qk__head_repeats_free(&repeats);
}
