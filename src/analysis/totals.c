/* SPDX-License-Identifier: Apache-2.0 */
/* What a run, or a comparison of stages, finds over all its heads: counts and means, some by depth. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "analysis/run.h"
#include "stats/means.h"

typedef struct sums {
    qk__depth_means r_q, r_k, abs_r_k, r_q_a, r_k_a, ap;
    qk__mean all_r_q_a, all_r_k_a, plane, sink_mass, distance_share;
} sums;

static void add_rotation(qk_analysis_totals *totals, sums *s, const qk_head_results *head,
                         double depth)
{
    const qk_rotation *rotation = head->rotation;
    if (rotation->degenerate) {
        totals->degenerate++;
        return;
    }
    totals->rotated++;
    totals->bias_positive += rotation->bias_strength > 0;
    if (head->intervals && isfinite(head->intervals->bias_strength.lo)) {
        totals->bias_told++;
        totals->bias_certain += head->intervals->bias_strength.lo > 0;
    }
    qk__mean_add(&s->all_r_q_a, fabs(rotation->r_q_a));
    qk__mean_add(&s->all_r_k_a, fabs(rotation->r_k_a));
    qk__depth_add(&s->r_q_a, depth, fabs(rotation->r_q_a));
    qk__depth_add(&s->r_k_a, depth, fabs(rotation->r_k_a));
    qk__mean_add(&s->plane, rotation->plane_var_fraction);
}

static void add_attention(qk_analysis_totals *totals, sums *s, const qk_attention *attention)
{
    totals->attended++;
    for (int i = 0; i < QK_NUM_HEAD_NAMES; i++)
        totals->named[i] += attention->probability[i] >= QK_CERTAIN;
    qk__mean_add(&s->sink_mass, attention->value[QK_HEAD_SINK_MASS]);
    qk__mean_add(&s->distance_share, attention->value[QK_HEAD_DISTANCE_SHARE]);
}

/* ---- how much the numbers rest on ------------------------------------------------------- */

/* The median of the numbers that are not 0, over both kinds of all heads. NaN even without memory: no file has it. */
static double median_size(const qk_analysis_results *results, bool texts)
{
    size_t count = 0;
    double *values = malloc((2 * results->num_heads + 1) * sizeof *values);
    for (size_t i = 0; values && i < results->num_heads; i++) {
        const qk_head_results *h = &results->heads[i];
        double q = texts ? (double)h->texts_q : (double)h->rows_q;
        double k = texts ? (double)h->texts_k : (double)h->rows_k;
        if (q > 0)
            values[count++] = q;
        if (k > 0)
            values[count++] = k;
    }
    double median = qk__median(values, count);
    free(values);
    return median;
}

static void add_least(double *least, int64_t count)
{
    if (count > 0)
        *least = fmin(*least, (double)count); /* fmin ignores NaN */
}

static void add_sizes(qk_analysis_totals *totals, const qk_head_results *head)
{
    bool q = head->rows_q > 0, k = head->rows_k > 0;
    add_least(&totals->rows_least, (int64_t)head->rows_q);
    add_least(&totals->rows_least, (int64_t)head->rows_k);
    add_least(&totals->texts_least, (int64_t)head->texts_q);
    add_least(&totals->texts_least, (int64_t)head->texts_k);
    totals->few_rows += (q && head->rows_q < QK_FEW_ROWS) || (k && head->rows_k < QK_FEW_ROWS);
    if ((q && head->texts_q == 0) || (k && head->texts_k == 0))
        totals->no_texts++;
    else if ((q && head->texts_q < QK_FEW_TEXTS) || (k && head->texts_k < QK_FEW_TEXTS))
        totals->few_texts++;
}

static void add_certainty(qk_analysis_totals *totals, const qk_head_results *head)
{
    const qk_certainty *c = &head->certainty;
    double width = c->r_q_hi - c->r_q_lo;
    int rest = head->first_tokens.category;
    totals->other_without_first += rest >= 0 && rest != (int)head->pca->category;
    if (isfinite(c->category_probability)) {
        totals->judged++;
        totals->uncertain += c->category_probability < QK_CERTAIN;
    } else {
        totals->not_judged++;
    }
    if (!isfinite(width))
        return;
    totals->wide_r_q += width > QK_WIDE_INTERVAL;
    if (!totals->widest || width > totals->widest_r_q) {
        totals->widest_r_q = width;
        totals->widest = head;
    }
}

static void add_position(qk_analysis_totals *totals, const qk_head_results *head)
{
    double told = fmax(head->told_q.position, head->told_k.position);
    if (head->pca->category != QK_CONTENT_FOCUSED || !isfinite(told))
        return;
    totals->content_told++;
    totals->position_off_pc0 += told > QK_TELLS_POSITION;
}

/* ---- all of it -------------------------------------------------------------------------- */

void qk_analysis_totals_of(const qk_analysis_results *results, qk_analysis_totals *totals)
{
    assert(results && totals);
    sums s = {0};
    const qk_head_results *before[QK_NUM_CATEGORIES] = {
        NULL}; /* heads that share keys are neighbours */
    int last = results->num_layers > 0 ? results->num_layers - 1 : 0;
    *totals = (qk_analysis_totals){.rows_least = NAN,
                                   .rows_median = median_size(results, false),
                                   .texts_least = NAN,
                                   .texts_median = median_size(results, true),
                                   .widest_r_q = NAN};
    for (size_t i = 0; i < results->num_heads; i++)
        if (results->heads[i].id.layer > last)
            last = results->heads[i].id.layer;
    for (size_t i = 0; i < results->num_heads; i++) {
        const qk_head_results *head = &results->heads[i];
        double depth = last > 0 ? (double)head->id.layer / last : 0;
        add_sizes(totals, head);
        if (head->pca && head->k_head >= 0) {
            add_certainty(totals, head);
            add_position(totals, head);
        }
        if (head->pca && head->pca->num_components > 0) {
            const qk_head_results **same = &before[head->pca->category];
            totals->categories[head->pca->category]++;
            totals->key_heads[head->pca->category] += !*same ||
                                                      (*same)->id.layer != head->id.layer ||
                                                      (*same)->k_head != head->k_head;
            *same = head;
            qk__depth_add(&s.r_q, depth, head->pca->components[0].r_q);
            qk__depth_add(&s.r_k, depth, head->pca->components[0].r_k);
            qk__depth_add(&s.abs_r_k, depth, fabs(head->pca->components[0].r_k));
        }
        if (head->rotation)
            add_rotation(totals, &s, head, depth);
        if (head->plasticity)
            qk__depth_add(&s.ap, depth, head->plasticity->ap_overall);
        if (head->attention)
            add_attention(totals, &s, head->attention);
    }
    qk__depth_values(&s.r_q, totals->r_q);
    qk__depth_values(&s.r_k, totals->r_k);
    qk__depth_values(&s.abs_r_k, totals->abs_r_k);
    qk__depth_values(&s.r_q_a, totals->abs_r_q_a_by_depth);
    qk__depth_values(&s.r_k_a, totals->abs_r_k_a_by_depth);
    qk__depth_values(&s.ap, totals->ap);
    totals->abs_r_q_a = qk__mean_of(&s.all_r_q_a);
    totals->abs_r_k_a = qk__mean_of(&s.all_r_k_a);
    totals->plane_var_fraction = qk__mean_of(&s.plane);
    totals->sink_mass = qk__mean_of(&s.sink_mass);
    totals->distance_share = qk__mean_of(&s.distance_share);
}

/* ---- of compare-stages ------------------------------------------------------------------ */

/* NaN even without memory. */
static double median_r_squared(const qk_stages_results *results)
{
    size_t count = 0;
    double *values = malloc((results->run->num_heads + 1) * sizeof *values);
    for (size_t i = 0; values && i < results->run->num_heads; i++)
        if (results->heads[i] && isfinite(results->heads[i]->r_squared_predicted))
            values[count++] = results->heads[i]->r_squared_predicted;
    double median = qk__median(values, count);
    free(values);
    return median;
}

void qk_stages_totals_of(const qk_stages_results *results, qk_stages_totals *totals)
{
    assert(results && totals);
    qk__mean energy_q = {0}, energy_k = {0}, share = {0};
    *totals = (qk_stages_totals){.r_squared_median = median_r_squared(results),
                                 .rotation_deviation = NAN};
    for (size_t i = 0; i < results->run->num_heads; i++) {
        const qk_head_stages *s = results->heads[i];
        if (!s)
            continue;
        totals->heads++;
        totals->predicted += isfinite(s->r_squared_predicted);
        totals->explained += s->r_squared_predicted >= 0;
        totals->before[s->before.category]++;
        totals->after[s->after.category]++;
        totals->rotation_deviation = fmax(totals->rotation_deviation, s->rotation_deviation);
        qk__mean_add(&energy_q, s->slow_energy_q);
        qk__mean_add(&energy_k, s->slow_energy_k);
        qk__mean_add(&share, s->slow_score_share);
    }
    totals->slow_energy_q = qk__mean_of(&energy_q);
    totals->slow_energy_k = qk__mean_of(&energy_k);
    totals->slow_score_share = qk__mean_of(&share);
}

/* ---- kept in the results ---------------------------------------------------------------- */

/* Mean over heads of a member of qk_plasticity. */
static double mean_plasticity(const qk_analysis_results *results, size_t offset)
{
    qk__mean mean = {0};
    for (size_t i = 0; i < results->num_heads; i++) {
        const char *p = (const char *)results->heads[i].plasticity;
        if (p)
            qk__mean_add(&mean, *(const double *)(const void *)(p + offset));
    }
    return qk__mean_plain(&mean);
}

static void find_plasticity(qk_analysis_results *results)
{
    qk_model_plasticity *model = &results->plasticity;
    model->bucket_width = NAN;
    for (size_t i = 0; i < results->num_heads; i++) {
        const qk_plasticity *head = results->heads[i].plasticity;
        if (!head)
            continue;
        bool same = model->heads == 0 || model->bucket_width == head->bucket_width;
        model->bucket_width = same ? head->bucket_width : NAN;
        model->heads++;
        model->reservoir = head->reservoir;
    }
    for (size_t i = 0; i < QK_FIFTHS; i++)
        model->fifths[i] =
            mean_plasticity(results, offsetof(qk_plasticity, fifths) + i * sizeof(double));
    for (size_t i = 0; i < QK_TENTHS; i++)
        model->tenths[i] =
            mean_plasticity(results, offsetof(qk_plasticity, tenths) + i * sizeof(double));
    model->ap_overall = mean_plasticity(results, offsetof(qk_plasticity, ap_overall));
    model->ap_drop = mean_plasticity(results, offsetof(qk_plasticity, ap_drop));
    model->ap_overall_se = mean_plasticity(results, offsetof(qk_plasticity, ap_overall_se));
    model->ap_mean = mean_plasticity(results, offsetof(qk_plasticity, ap_mean));
}

/* Counts what reaches the threshold. */
static qk_high_correlations count_high(const qk_analysis_results *results, double threshold)
{
    qk_high_correlations n = {0};
    for (size_t i = 0; i < results->num_heads; i++) {
        const qk_pca *pca = results->heads[i].pca;
        size_t high = 0, negative = 0;
        for (size_t pc = 0; pca && pc < pca->num_components; pc++) {
            double r = pca->components[pc].r_q;
            high += fabs(r) >= threshold;
            negative += fabs(r) >= threshold && r < 0;
        }
        n.heads += pca != NULL;
        n.components += pca ? pca->num_components : 0;
        n.high += high;
        n.high_negative += negative;
        n.heads_high += high > 0;
        n.heads_high_negative += negative > 0;
    }
    return n;
}

void qk__find_totals(qk__run *run)
{
    if (qk__run_does(run, QK_ANALYSE_PLASTICITY))
        find_plasticity(run->results);
    if (!run->settings->combined)
        run->results->high = count_high(run->results, run->settings->correlation_threshold);
}
