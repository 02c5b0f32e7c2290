/* SPDX-License-Identifier: Apache-2.0 */
/* A head before and after RoPE: its rows on both sides, whether they belong together, and its numbers. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "analysis/stages.h"
#include "base/buffer.h"
#include "base/error.h"

/* Rows rounded to bfloat16 at each step stay within this; other angles do not. */
#define MAX_DEVIATION 0.02

/* ---- both sides ------------------------------------------------------------------------- */

static const char *file_of(const qk__head_data *data)
{
    return data->head->files[0];
}

/* Row for row, in the order of the files. */
static qk_status compare_rows(const qk__stage_data *data, qk_error *err)
{
    const qk_block *a = &data->before.rows, *b = &data->after.rows;
    const char *file = file_of(&data->after);
    if (a->dim != b->dim)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: vectors of %zu values, and of %zu before RoPE (%s): these are "
                        "captures of other models",
                        file, b->dim, a->dim, file_of(&data->before));
    size_t rows = a->rows < b->rows ? a->rows : b->rows;
    for (size_t r = 0; r < rows; r++)
        if (a->position[r] != b->position[r] || a->example[r] != b->example[r])
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "%s: row %zu is position %" PRId64 " of text %" PRId64
                            ", and before RoPE position %" PRId64 " of text %" PRId64
                            ": capture both stages in one run (qkscope capture --stage both)",
                            file, r, b->position[r], b->example[r], a->position[r],
                            a->example[r]);
    if (a->rows != b->rows)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: %zu rows, and %zu before RoPE (%s): capture both stages in one "
                        "run (qkscope capture --stage both)",
                        file, b->rows, a->rows, file_of(&data->before));
    for (size_t r = 0; r < rows; r++)
        if (b->position[r] < 0 || b->position[r] >= QK__MAX_POSITION)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "%s: column 'position': row %zu is %" PRId64
                            ", expected 0 or more, and below 2^40",
                            file, r, b->position[r]);
    return QK_OK;
}

qk_status qk__stage_data_read(qk__run *run, int worker, qk_head_id id, qk__stage_data *data,
                              qk_error *err)
{
    *data = (qk__stage_data){0};
    qk__run *before = run->before_rope;
    QK_TRY(
        qk__head_data_read(run, worker, qk_capture_find(run->capture, id), &data->after, err));
    qk_status status = qk__head_data_read(before, worker, qk_capture_find(before->capture, id),
                                          &data->before, err);
    if (status == QK_OK)
        status = compare_rows(data, err);
    if (status != QK_OK)
        qk__stage_data_free(run, data);
    return status;
}

void qk__stage_data_free(qk__run *run, qk__stage_data *data)
{
    qk__head_data_free(run->before_rope, &data->before);
    qk__head_data_free(run, &data->after);
}

/* ---- rotation --------------------------------------------------------------------------- */

/* What would explain the rows: the other pairing, or the two stages swapped; "" = neither does. */
static qk_status explain(const qk__stage_data *data, const qk__phasors *phasors,
                         const char **why, qk_error *err)
{
    qk__turned turned;
    qk__pairing other = *phasors->pairing;
    qk__phasors as = *phasors;
    other.interleaved = !other.interleaved;
    as.pairing = &other;
    *why = "; the two captures may be of other texts, or the frequencies of another model, or "
           "depend on the length of a text (dynamic, longrope)";
    QK_TRY(qk__compare_turned(&data->before.rows, &data->after.rows, &as, false, &turned, err));
    if (turned.deviation <= MAX_DEVIATION)
        *why = other.interleaved
                   ? "; dimensions 2j and 2j + 1 turn together here: capture.json "
                     "needs \"rope\": {\"pairing\": \"interleaved\"}"
                   : "; dimensions j and j + pairs turn together here: "
                     "capture.json needs \"rope\": {\"pairing\": \"half\"}";
    QK_TRY(
        qk__compare_turned(&data->before.rows, &data->after.rows, phasors, true, &turned, err));
    if (turned.deviation <= MAX_DEVIATION)
        *why = "; they turn backwards: the two captures are swapped";
    return QK_OK;
}

static qk_status check_rotation(const qk__stage_data *data, const qk__phasors *phasors,
                                qk__turned *turned, qk_error *err)
{
    const char *why;
    QK_TRY(
        qk__compare_turned(&data->before.rows, &data->after.rows, phasors, false, turned, err));
    if (turned->deviation <= MAX_DEVIATION)
        return QK_OK;
    QK_TRY(explain(data, phasors, &why, err));
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "%s: not the rows before RoPE, turned by the frequencies of capture.json: "
                    "row %zu is off by %.3g %% of its length%s",
                    file_of(&data->after), turned->row, 100 * turned->deviation, why);
}

/* ---- keys ------------------------------------------------------------------------------- */

/* Means of the dimensions from `first` on. */
static double *mean_from(const qk_moments *moments, size_t first)
{
    double *mean = qk__calloc(moments->dim - first + 1, sizeof *mean);
    for (size_t i = first; mean && i < moments->dim; i++)
        mean[i - first] = moments->mean[i];
    return mean;
}

static int64_t last_position(const qk_block *rows)
{
    int64_t last = 0;
    for (size_t r = 0; r < rows->rows; r++)
        last = rows->position[r] > last ? rows->position[r] : last;
    return last;
}

static qk_status prepare_keys(qk__stage_keys *keys, qk_error *err)
{
    const qk_block *rows = &keys->data.after.rows;
    if (2 * keys->pairing.pairs > rows->dim)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: vectors of %zu values have room for %zu rotary pairs, and "
                        "rope_frequencies of capture.json has %zu for this layer",
                        file_of(&keys->data.after), rows->dim, rows->dim / 2,
                        keys->pairing.pairs);
    QK_TRY(qk__phasors_init(&keys->phasors, &keys->pairing, last_position(rows), err));
    qk_status status = check_rotation(&keys->data, &keys->phasors, &keys->turned, err);
    keys->not_turned = keys->turned.deviation > MAX_DEVIATION;
    QK_TRY(status);
    QK_TRY(
        qk__pair_means_of(&keys->data.before.rows, &keys->pairing, NULL, 0, &keys->means, err));
    QK_TRY(qk__key_sums_init(&keys->sums, rows, &keys->phasors, err));
    keys->rest = mean_from(keys->data.after.moments, 2 * keys->pairing.pairs);
    return keys->rest ? QK_OK : qk__nomem(err);
}

qk_status qk__stage_keys_read(qk__run *run, int worker, qk_head_id id,
                              const double *frequencies, size_t pairs, qk__stage_keys *keys,
                              qk_error *err)
{
    *keys = (qk__stage_keys){
        .pairing = {pairs, qk_capture_get_info(run->capture)->rope_interleaved, frequencies}};
    qk_status status = qk__stage_data_read(run, worker, id, &keys->data, err);
    if (status == QK_OK)
        status = prepare_keys(keys, err);
    if (status != QK_OK)
        qk__stage_keys_free(run, keys);
    return status;
}

void qk__stage_keys_free(qk__run *run, qk__stage_keys *keys)
{
    qk__key_sums_free(&keys->sums);
    qk__pair_means_free(&keys->means);
    qk__phasors_free(&keys->phasors);
    free(keys->rest);
    keys->rest = NULL;
    qk__stage_data_free(run, &keys->data);
}

/* ---- one query head --------------------------------------------------------------------- */

static qk_status fit_side(const qk__run *run, const qk__head_data *q, const qk__head_data *k,
                          const char *when, qk_stage_numbers *numbers, qk_error *err)
{
    qk_pca *pca;
    qk_pca_settings settings = run->settings->pca;
    settings.components = 1;
    qk_status status = qk_pca_combined(q->moments, k->moments, &settings, &pca, err);
    if (status != QK_OK)
        return qk__context(err, status, "%s RoPE", when);
    *numbers = (qk_stage_numbers){pca->components[0].r_q, pca->components[0].r_k,
                                  pca->components[0].explained_variance, pca->category};
    qk_pca_free(&pca);
    return QK_OK;
}

static double product_of_rests(const qk__stage_data *queries, const qk__stage_keys *keys)
{
    size_t first = 2 * keys->pairing.pairs;
    const qk_moments *q = queries->after.moments;
    double sum = 0;
    for (size_t i = first; i < q->dim; i++)
        sum += q->mean[i] * keys->rest[i - first];
    return sum;
}

static qk_status predict(const qk__stage_data *queries, const qk__stage_keys *keys,
                         const qk__score_curve *curve, qk_head_stages *s, qk_error *err)
{
    qk__pair_means means;
    QK_TRY(qk__pair_means_of(&queries->before.rows, &keys->pairing, NULL, 0, &means, err));
    double *contributions =
        qk__calloc(curve->num_bins + 1, s->num_pairs * sizeof *contributions);
    s->bins = qk__calloc(curve->num_bins + 1, sizeof *s->bins);
    s->num_bins = curve->num_bins;
    qk_status status = contributions && s->bins ? QK_OK : qk__nomem(err);
    if (status == QK_OK)
        qk__score_curve_predict(curve, &keys->pairing, &means, &keys->means,
                                s->scale_q * s->scale_k, product_of_rests(queries, keys), s,
                                contributions);
    free(contributions);
    qk__pair_means_free(&means);
    return status;
}

static qk_status measure_curve(const qk__run *run, const qk_block *queries,
                               const qk__stage_keys *keys, qk__score_curve *curve,
                               qk_error *err)
{
    qk__buffer room = {0};
    qk_block seen;
    qk_status status = qk__text_ids_see(&run->text_ids, queries, &room, &seen, err);
    if (status == QK_OK)
        status = qk__score_curve_measure(queries, seen.example, &keys->sums, &keys->phasors,
                                         curve, err);
    qk__buffer_free(&room);
    return status;
}

static qk_status analyse(const qk__run *after, const qk__stage_data *queries,
                         const qk__stage_keys *keys, qk_head_stages *s, qk_error *err)
{
    const qk__stage_data *k = &keys->data;
    const qk_block *rows = &queries->after.rows;
    qk__turned turned;
    qk__score_curve curve;
    if (rows->dim != k->after.rows.dim)
        return qk__fail(err, QK_ERR_INCONSISTENT, "%s: vectors of %zu values, and of %zu in %s",
                        file_of(&queries->after), rows->dim, k->after.rows.dim,
                        file_of(&k->after));
    QK_TRY(check_rotation(queries, &keys->phasors, &turned, err));
    QK_TRY(fit_side(after, &queries->before, &k->before, "before", &s->before, err));
    QK_TRY(fit_side(after, &queries->after, &k->after, "after", &s->after, err));
    s->num_pairs = keys->pairing.pairs;
    s->pairs = qk__calloc(s->num_pairs, sizeof *s->pairs);
    if (!s->pairs)
        return qk__nomem(err);
    s->rotation_deviation = fmax(turned.deviation, keys->turned.deviation);
    s->scale_q = turned.scale;
    s->scale_k = keys->turned.scale;
    int64_t last_q = last_position(rows), last_k = last_position(&k->after.rows);
    s->context = (last_q > last_k ? last_q : last_k) + 1;
    s->rows_q = (int64_t)rows->rows;
    s->rows_k = (int64_t)k->after.rows.rows;
    QK_TRY(measure_curve(after, rows, keys, &curve, err));
    s->row_pairs = curve.pairs;
    s->texts = curve.texts;
    qk_status status = predict(queries, keys, &curve, s, err);
    qk__score_curve_free(&curve);
    return status;
}

qk_status qk__stage_head_analyse(const qk__run *after, const qk__stage_data *queries,
                                 const qk__stage_keys *keys, qk_head_stages **stages,
                                 qk_error *err)
{
    *stages = qk__calloc(1, sizeof **stages);
    if (!*stages)
        return qk__nomem(err);
    qk_status status = analyse(after, queries, keys, *stages, err);
    if (status != QK_OK)
        qk__head_stages_free(stages);
    return status;
}

void qk__head_stages_free(qk_head_stages **stages)
{
    qk_head_stages *s = *stages;
    if (!s)
        return;
    free(s->pairs);
    free(s->bins);
    free(s);
    *stages = NULL;
}
