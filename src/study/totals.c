/* SPDX-License-Identifier: Apache-2.0 */
/* What a run found over all its heads: counts, and means by depth. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include <qkscope/study.h>

typedef struct mean {
    double sum;
    size_t count;
} mean;

static void add(mean *of, double value)
{
    if (isfinite(value)) {
        of->sum += value;
        of->count++;
    }
}

static double value_of(const mean *of)
{
    return of->count ? of->sum / (double)of->count : NAN;
}

static void values_of(const mean of[QK_DEPTHS], double values[QK_DEPTHS])
{
    for (int i = 0; i < QK_DEPTHS; i++)
        values[i] = value_of(&of[i]);
}

/* The last layer itself belongs to the last tenth. */
static int depth_of(int layer, int last)
{
    int64_t tenth = last > 0 ? (int64_t)QK_DEPTHS * layer / last : 0;
    return tenth < QK_DEPTHS ? (int)tenth : QK_DEPTHS - 1;
}

typedef struct sums {
    mean r_q[QK_DEPTHS], r_k[QK_DEPTHS];
    mean r_q_a[QK_DEPTHS], r_k_a[QK_DEPTHS], all_r_q_a, all_r_k_a, plane;
    mean ap[QK_DEPTHS];
} sums;

static void add_rotation(qk_study_totals *totals, sums *s, const qk_rotation *rotation,
                         int depth)
{
    if (rotation->degenerate) {
        totals->degenerate++;
        return;
    }
    totals->rotated++;
    totals->bias_positive += rotation->bias_strength > 0;
    add(&s->all_r_q_a, fabs(rotation->r_q_a));
    add(&s->all_r_k_a, fabs(rotation->r_k_a));
    add(&s->r_q_a[depth], fabs(rotation->r_q_a));
    add(&s->r_k_a[depth], fabs(rotation->r_k_a));
    add(&s->plane, rotation->plane_var_fraction);
}

/* ---- how much the numbers rest on ------------------------------------------------------ */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Fewest and median of what is not 0, of both kinds of all heads. */
static void sizes_of(const qk_study_report *report, bool texts, double *least, double *median)
{
    size_t count = 0;
    *least = *median = NAN;
    double *values = malloc((2 * report->num_heads + 1) * sizeof *values);
    for (size_t i = 0; values && i < report->num_heads; i++) {
        const qk_head_report *h = &report->heads[i];
        double q = texts ? (double)h->texts_q : (double)h->rows_q;
        double k = texts ? (double)h->texts_k : (double)h->rows_k;
        if (q > 0)
            values[count++] = q;
        if (k > 0)
            values[count++] = k;
    }
    if (count > 0) {
        qsort(values, count, sizeof *values, compare);
        *least = values[0];
        *median = (values[(count - 1) / 2] + values[count / 2]) / 2;
    }
    free(values);
}

static void add_sizes(qk_study_totals *totals, const qk_head_report *head)
{
    bool q = head->rows_q > 0, k = head->rows_k > 0;
    totals->few_rows += (q && head->rows_q < QK_FEW_ROWS) || (k && head->rows_k < QK_FEW_ROWS);
    if ((q && head->texts_q == 0) || (k && head->texts_k == 0))
        totals->no_texts++;
    else if ((q && head->texts_q < QK_FEW_TEXTS) || (k && head->texts_k < QK_FEW_TEXTS))
        totals->few_texts++;
}

static void add_certainty(qk_study_totals *totals, const qk_head_report *head)
{
    const qk_certainty *c = &head->certainty;
    double width = c->r_q_hi - c->r_q_lo;
    if (isfinite(c->category_share)) {
        totals->judged++;
        totals->uncertain += c->category_share < QK_CERTAIN_SHARE;
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

/* ---- all of it ------------------------------------------------------------------------- */

void qk_study_totals_of(const qk_study_report *report, qk_study_totals *totals)
{
    assert(report && totals);
    sums s = {0};
    int last = report->num_layers > 0 ? report->num_layers - 1 : 0;
    *totals = (qk_study_totals){.widest_r_q = NAN};
    sizes_of(report, false, &totals->rows_least, &totals->rows_median);
    sizes_of(report, true, &totals->texts_least, &totals->texts_median);
    for (size_t i = 0; i < report->num_heads; i++)
        if (report->heads[i].id.layer > last)
            last = report->heads[i].id.layer;
    for (size_t i = 0; i < report->num_heads; i++) {
        const qk_head_report *head = &report->heads[i];
        int depth = depth_of(head->id.layer, last);
        add_sizes(totals, head);
        if (head->pca && head->k_head >= 0)
            add_certainty(totals, head);
        if (head->pca && head->pca->num_components > 0) {
            totals->categories[head->pca->category]++;
            add(&s.r_q[depth], head->pca->components[0].r_q);
            add(&s.r_k[depth], head->pca->components[0].r_k);
        }
        if (head->rotation)
            add_rotation(totals, &s, head->rotation, depth);
        if (head->plasticity)
            add(&s.ap[depth], head->plasticity->ap_overall);
    }
    values_of(s.r_q, totals->r_q);
    values_of(s.r_k, totals->r_k);
    values_of(s.r_q_a, totals->abs_r_q_a_by_depth);
    values_of(s.r_k_a, totals->abs_r_k_a_by_depth);
    values_of(s.ap, totals->ap);
    totals->abs_r_q_a = value_of(&s.all_r_q_a);
    totals->abs_r_k_a = value_of(&s.all_r_k_a);
    totals->plane_var_fraction = value_of(&s.plane);
}
