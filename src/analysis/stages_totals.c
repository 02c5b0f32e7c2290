/* SPDX-License-Identifier: Apache-2.0 */
/* What compare-stages found over all heads. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include <qkscope/analysis.h>

#include "results/means.h"

/* NaN without memory, too. */
static double median_r_squared(const qk_stages_report *report)
{
    size_t count = 0;
    double *values = malloc((report->run->num_heads + 1) * sizeof *values);
    for (size_t i = 0; values && i < report->run->num_heads; i++)
        if (report->heads[i] && isfinite(report->heads[i]->r_squared_predicted))
            values[count++] = report->heads[i]->r_squared_predicted;
    double median = count > 0 ? qk__median(values, count) : NAN;
    free(values);
    return median;
}

void qk_stages_totals_of(const qk_stages_report *report, qk_stages_totals *totals)
{
    assert(report && totals);
    qk__mean energy_q = {0}, energy_k = {0}, share = {0};
    *totals = (qk_stages_totals){.r_squared_median = median_r_squared(report),
                                 .rotation_deviation = NAN};
    for (size_t i = 0; i < report->run->num_heads; i++) {
        const qk_head_stages *s = report->heads[i];
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
