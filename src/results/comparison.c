/* SPDX-License-Identifier: Apache-2.0 */
/* Two models beside each other: which heads belong together, and their differences. */
#include "results/comparison.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/cross_fit.h"
#include "stats/difference.h"
#include "stats/jackknife.h"
#include "stats/text_groups.h"
#include "tables/text_lengths.h"

/* ---- heads ------------------------------------------------------------------------------ */

static const char *category_name(const qk__result_head *head)
{
    return head && head->category >= 0 ? qk_category_name((qk_category)head->category) : "";
}

static double number_of(const qk__result_head *head, size_t offset)
{
    double value = NAN;
    if (head)
        memcpy(&value, (const char *)&head->v + offset, sizeof value);
    return value;
}

/* a, b: NULL where that one has no such head; one: either. */
static void compare_head(const qk__comparison *c, const qk__result_head *a,
                         const qk__result_head *b, const qk__result_head *one,
                         qk__compared_head *head)
{
    *head = (qk__compared_head){
        .layer = one->layer,
        .q_head = one->q_head,
        .k_head = one->k_head,
        .in = a && b ? "both"
              : a    ? "a"
                     : "b",
        .category_a = category_name(a),
        .category_b = category_name(b),
        .category_probability_a =
            number_of(a, offsetof(qk__head_numbers, category_probability)),
        .category_probability_b =
            number_of(b, offsetof(qk__head_numbers, category_probability)),
        .rows_a = a ? fmin(a->n_q, a->n_k) : NAN,
        .rows_b = b ? fmin(b->n_q, b->n_k) : NAN,
        .texts_a = number_of(a, offsetof(qk__head_numbers, texts)),
        .texts_b = number_of(b, offsetof(qk__head_numbers, texts)),
        .text_tokens_a = c->sides[0].model->lengths.median,
        .text_tokens_b = c->sides[1].model->lengths.median,
        .top_metric = "",
        .top_difference = NAN,
        .top_size = NAN,
        .top_p_corrected = NAN,
    };
}

static qk_status check_keys(const qk__result_head *a, const qk__result_head *b, qk_error *err)
{
    if (a->k_head == b->k_head)
        return QK_OK;
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "layer %d, query head %d has key head %d in a and %d in b: these are of "
                    "different architectures, or one of them was analysed with a wrong group "
                    "size (--q-per-kv-group)",
                    a->layer, a->q_head, a->k_head, b->k_head);
}

static qk_status pair_heads(qk__comparison *c, qk_error *err)
{
    const qk__result_model *a = c->sides[0].model, *b = c->sides[1].model;
    const qk__result_head *pair[2];
    for (size_t at[2] = {0}; qk__next_pair(a, b, at, pair);) {
        const qk__result_head *of_a = pair[0], *of_b = pair[1];
        compare_head(c, of_a, of_b, of_a ? of_a : of_b, &c->heads[c->num_heads++]);
        if (!of_a || !of_b) {
            c->only[of_a ? 0 : 1]++;
            continue;
        }
        QK_TRY(check_keys(of_a, of_b, err));
        c->pairs[0][c->num_paired] = of_a;
        c->pairs[1][c->num_paired] = of_b;
        c->num_paired++;
        if (of_a->category >= 0 && of_b->category >= 0 && !c->silent)
            c->categories[of_a->category][of_b->category]++;
    }
    return c->num_paired > 0 ? QK_OK
                             : qk__fail(err, QK_ERR_INCONSISTENT,
                                        "no head is in both: a has %zu, b has %zu; compare "
                                        "models of one architecture, or the same --layers",
                                        a->num_heads, b->num_heads);
}

/* ---- differences ------------------------------------------------------------------------ */

/* What the sign of PC0 is in. */
static bool turns(const qk__field *field)
{
    static const char *const names[] = {"r_q", "r_k", "mu_q", "mu_k", "alpha", "beta"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(field->info.name, names[i]) == 0)
            return true;
    return false;
}

bool qk__sign_is_open(const qk__comparison *c, size_t i)
{
    const qk__head_numbers *a = &c->pairs[0][i]->v, *b = &c->pairs[1][i]->v;
    return a->r_k * b->r_k < 0 && a->r_q * b->r_q + a->r_k * b->r_k < 0;
}

static bool is_correlation(const qk__field *field)
{
    return field->info.unit && strcmp(field->info.unit, "correlation") == 0;
}

/* Of freedom, of the jackknife behind a head's intervals; 0: nobody knows. A table has how many of up to 16 groups
 * of texts count; weights of twice as many groups spread twice as much. */
static double degrees_of(const qk__field *field, const qk__result_head *head)
{
    double most =
        strcmp(field->file, "attention.csv") == 0 ? QK_TEXT_GROUPS : QK_INTERVAL_GROUPS;
    double texts = head->v.texts, groups = fmin(texts, most),
           fewer = fmin(texts, QK_TEXT_GROUPS);
    if (isfinite(head->v.effective_texts))
        groups /= 1 + groups / head->v.effective_texts - groups / fewer;
    return isfinite(texts) ? groups - 1 : 0;
}

static bool has_level(const qk__comparison *c, const qk__field *field)
{
    for (int s = 0; s < 2; s++) {
        const qk__side *side = &c->sides[s];
        if (!(fabs(side->level(side, field->file) - c->level) < 1e-9))
            return false;
    }
    return true;
}

/* The interval and the number that it is about. */
static qk__ranged about(const qk__field *field, const qk__result_head *head)
{
    double crossed = qk__field_value(field, &head->cv);
    return (qk__ranged){isfinite(crossed) ? crossed : qk__field_value(field, &head->v),
                        qk__field_value(field, &head->lo), qk__field_value(field, &head->hi)};
}

/* ---- of the same texts ------------------------------------------------------------------ */

/* The rows of a head, which are in order; returns how many. */
static size_t find_repeats(const qk_columns *rows, const qk__result_head *head, size_t *first)
{
    const int64_t *layer = qk_columns_integers(rows, "layer"),
                  *q_head = qk_columns_integers(rows, "q_head");
    size_t low = 0, count = 0, high = layer && q_head ? qk_columns_num_rows(rows) : 0,
           all = high;
    while (low < high) {
        size_t at = low + (high - low) / 2;
        if (layer[at] < head->layer || (layer[at] == head->layer && q_head[at] < head->q_head))
            low = at + 1;
        else
            high = at;
    }
    for (*first = low; low + count < all && layer[low + count] == head->layer &&
                       q_head[low + count] == head->q_head;)
        count++;
    return count;
}

/* Repetitions of a head in a and b, the first of which is at[side]: 0 where they are not of the same texts. */
static uint32_t find_pairs(const qk__comparison *c, size_t i, size_t at[2])
{
    size_t count[2] = {0};
    const int64_t *group[2], *texts[2];
    for (int s = 0; s < 2; s++) {
        const qk_columns *rows = c->sides[s].repeats;
        if (!rows)
            return 0;
        count[s] = find_repeats(rows, c->pairs[s][i], &at[s]);
        group[s] = qk_columns_integers(rows, "text_group");
        texts[s] = qk_columns_integers(rows, "texts");
        if (!group[s] || !texts[s])
            return 0;
    }
    if (count[0] != count[1] || count[0] > QK_INTERVAL_GROUPS)
        return 0;
    for (size_t g = 0; g < count[0]; g++)
        if (group[0][at[0] + g] != group[1][at[1] + g] || texts[0][at[0] + g] == 0 ||
            texts[0][at[0] + g] != texts[1][at[1] + g])
            return 0;
    return (uint32_t)count[0];
}

/* Of the differences of a column of repetitions, times scale[side]; NaN: there is none. */
static double paired_error(const qk__comparison *c, const char *column, const double scale[2],
                           const size_t at[2], uint32_t groups)
{
    double difference[QK_INTERVAL_GROUPS];
    const double *a = qk_columns_reals(c->sides[0].repeats, column),
                 *b = qk_columns_reals(c->sides[1].repeats, column);
    for (uint32_t g = 0; a && b && g < groups; g++)
        difference[g] = scale[1] * b[at[1] + g] - scale[0] * a[at[0] + g];
    return a && b ? qk__jackknife_error(difference, groups, false) : NAN;
}

/* What is repeated of a number: bias_over_context is bias_strength times a length, which stays. */
static const char *repeated(const qk__comparison *c, const qk__field *field, size_t i,
                            double scale[2])
{
    bool over_context = strcmp(field->info.name, "bias_over_context") == 0;
    for (int s = 0; s < 2; s++) {
        const qk__head_numbers *v = &c->pairs[s][i]->v;
        scale[s] = over_context ? v->bias_over_context / v->bias_strength : 1;
    }
    return over_context ? "bias_strength" : field->info.name;
}

static bool is_paired(const qk__comparison *c, const qk__field *field, size_t i,
                      double difference, qk__difference *d)
{
    char nested[80];
    size_t at[2] = {0};
    double scale[2];
    uint32_t groups = find_pairs(c, i, at);
    const char *name = repeated(c, field, i, scale);
    double error = groups > 1 ? paired_error(c, name, scale, at, groups) : NAN;
    if (!isfinite(error))
        return false;
    snprintf(nested, sizeof nested, "%.70s_nested", name);
    if (qk_columns_reals(c->sides[0].repeats, nested))
        error = qk__joined_error(error, paired_error(c, nested, scale, at, groups));
    const double *of_a = qk_columns_reals(c->sides[0].repeats, "degrees"),
                 *of_b = qk_columns_reals(c->sides[1].repeats, "degrees");
    if (!of_a || !of_b)
        return false;
    *d = qk__difference_paired(difference, error, fmin(of_a[at[0]], of_b[at[1]]), c->level);
    return isfinite(d->p);
}

static void take_interval(const qk__comparison *c, const qk__field *field, size_t i,
                          qk__change *change)
{
    const qk__result_head *of_a = c->pairs[0][i], *of_b = c->pairs[1][i];
    const qk__ranged a = about(field, of_a), b = about(field, of_b);
    if (!isfinite(a.lo) || !isfinite(b.lo) || !isfinite(a.hi) || !isfinite(b.hi))
        return;
    qk__difference d;
    change->paired = is_paired(c, field, i, b.value - a.value, &d);
    if (change->paired == 0) {
        d = qk__difference_of(&a, &b);
        qk__difference_test(&d, &a, &b, is_correlation(field), c->level,
                            fmin(degrees_of(field, of_a), degrees_of(field, of_b)));
    }
    change->difference_lo = d.lo;
    change->difference_hi = d.hi;
    change->p = d.p;
}

bool qk__pair_has_tie(const qk__comparison *c, size_t i)
{
    return c->pairs[0][i]->v.near_tie == 1 || c->pairs[1][i]->v.near_tie == 1;
}

static void take_change(qk__comparison *c, const qk__field *field, size_t i,
                        bool with_intervals, qk__change *change)
{
    const qk__result_head *of_a = c->pairs[0][i], *of_b = c->pairs[1][i];
    double a = qk__field_value(field, &of_a->v), b = qk__field_value(field, &of_b->v);
    *change = (qk__change){.layer = of_a->layer,
                           .q_head = of_a->q_head,
                           .k_head = of_a->k_head,
                           .metric = field->info.name,
                           .a = a,
                           .b = b,
                           .difference = b - a,
                           .difference_lo = NAN,
                           .difference_hi = NAN,
                           .paired = NAN,
                           .size = NAN,
                           .p = NAN,
                           .p_corrected = NAN,
                           .text_tokens_a = c->sides[0].model->lengths.median,
                           .text_tokens_b = c->sides[1].model->lengths.median,
                           .open = turns(field) && qk__sign_is_open(c, i)};
    if (isfinite(change->difference) && with_intervals)
        take_interval(c, field, i, change);
}

/* ---- metrics ---------------------------------------------------------------------------- */

static bool is_in_both(const qk__comparison *c, const qk__field *field)
{
    for (size_t i = 0; i < c->num_paired; i++)
        if (isfinite(qk__field_value(field, &c->pairs[0][i]->v)) &&
            isfinite(qk__field_value(field, &c->pairs[1][i]->v)))
            return true;
    return false;
}

static qk_status take_changes(qk__comparison *c, qk_error *err)
{
    c->metrics = qk__calloc(qk__num_fields, sizeof *c->metrics);
    if (!c->metrics)
        return qk__nomem(err);
    for (size_t f = 0; f < qk__num_fields; f++)
        if (qk__fields[f].use == QK__COMPARED && is_in_both(c, &qk__fields[f]))
            c->metrics[c->num_metrics++].field = &qk__fields[f];
    if (c->num_metrics == 0)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "no number is in both: run the same analyses on both");
    c->changes = qk__calloc(c->num_metrics, c->num_paired * sizeof *c->changes);
    if (!c->changes)
        return qk__nomem(err);
    c->num_changes = c->num_metrics * c->num_paired;
    for (size_t m = 0; m < c->num_metrics; m++) {
        bool with_intervals = has_level(c, c->metrics[m].field);
        c->metrics[m].first = m * c->num_paired;
        for (size_t i = 0; i < c->num_paired; i++)
            take_change(c, c->metrics[m].field, i, with_intervals,
                        &c->changes[m * c->num_paired + i]);
    }
    for (size_t i = 0; c->silent && i < c->num_changes; i++)
        c->changes[i].p = NAN;
    return QK_OK;
}

/* ---- the whole -------------------------------------------------------------------------- */

static qk_status make_comparison(qk__comparison *c, qk_error *err)
{
    size_t most = c->sides[0].model->num_heads + c->sides[1].model->num_heads;
    c->heads = qk__calloc(most + 1, sizeof *c->heads);
    c->pairs[0] = qk__calloc(most + 1, sizeof *c->pairs[0]);
    c->pairs[1] = qk__calloc(most + 1, sizeof *c->pairs[1]);
    c->top = qk__calloc(most + 1, sizeof *c->top);
    if (!c->heads || !c->pairs[0] || !c->pairs[1] || !c->top)
        return qk__nomem(err);
    QK_TRY(pair_heads(c, err));
    QK_TRY(take_changes(c, err));
    return qk__compare_means(c, err);
}

qk_status qk__compare(const qk__side sides[2], double level, bool any_length,
                      qk__comparison *comparison, qk_error *err)
{
    const bool unlike = qk__lengths_differ(&sides[0].model->lengths, &sides[1].model->lengths);
    *comparison = (qk__comparison){.sides = {sides[0], sides[1]}, .level = level};
    comparison->unlike = unlike;
    comparison->silent = unlike && !any_length;
    qk_status status = make_comparison(comparison, err);
    if (status != QK_OK)
        qk__comparison_free(comparison);
    return status;
}

void qk__comparison_free(qk__comparison *c)
{
    free(c->heads);
    free(c->pairs[0]);
    free(c->pairs[1]);
    free(c->metrics);
    free(c->changes);
    free(c->top);
    *c = (qk__comparison){.level = 0};
}
