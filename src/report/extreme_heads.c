/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the heads with the highest and the lowest numbers of a model. */
#include "report/extreme_heads.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "settings/head_set.h"

/* The first head with the highest (or lowest) number; NULL: none has it. */
static const qk__result_head *extreme(const qk__result_model *model, const qk__field *field,
                                      bool highest)
{
    const qk__result_head *best = NULL;
    double most = -INFINITY;
    for (size_t h = 0; h < model->num_heads; h++) {
        double value = qk__field_value(field, &model->heads[h].v);
        double rank = highest ? value : -value;
        if (isfinite(rank) && (!best || rank > most)) {
            best = &model->heads[h];
            most = rank;
        }
    }
    return best;
}

static void add_extreme(qk__extremes *all, const qk__result_head *head, const char *what)
{
    size_t i = 0;
    while (i < all->count && !qk__range_has(&all->heads[i], head->layer, head->q_head))
        i++;
    if (i == QK__NUM_EXTREMES)
        return;
    char *about = all->about[i];
    const size_t length = i < all->count ? strlen(about) : 0;
    snprintf(about + length, sizeof all->about[i] - length, "%s%s", length ? ", " : "", what);
    all->heads[i] = (qk_head_range){head->layer, head->layer, head->q_head, head->q_head};
    all->count += i == all->count;
}

void qk__extreme_heads(const qk__result_model *model, qk__extremes *extremes)
{
    static const struct {
        const char *field, *name;
    } NUMBERS[] = {{"r_q", "{/:Italic r}_q"},
                   {"r_k", "{/:Italic r}_k"},
                   {"bias_strength", "bias"},
                   {"ap_overall", "plasticity"}};
    *extremes = (qk__extremes){0};
    for (size_t f = 0; f < sizeof NUMBERS / sizeof *NUMBERS; f++)
        for (int highest = 1; highest >= 0; highest--) {
            const qk__result_head *head =
                extreme(model, qk__find_field(NUMBERS[f].field), highest);
            char what[40];
            snprintf(what, sizeof what, "%s %s", highest ? "max" : "min", NUMBERS[f].name);
            if (head)
                add_extreme(extremes, head, what);
        }
}
