/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the heads with the highest, the lowest and the middle numbers of a model. */
#include "report/extreme_heads.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "settings/head_set.h"

typedef enum place { HIGHEST, LOWEST, MIDDLE } place;

/* The first head with the highest number, the lowest, or that which is nearest to the middle; NULL: none
 * has it. */
static const qk__result_head *find_head(const qk__result_model *model, const qk__field *field,
                                        place which, double middle)
{
    const qk__result_head *best = NULL;
    double most = -INFINITY;
    for (size_t h = 0; h < model->num_heads; h++) {
        double value = qk__field_value(field, &model->heads[h].v);
        double rank = which == HIGHEST  ? value
                      : which == LOWEST ? -value
                                        : -fabs(value - middle);
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

static const struct {
    const char *field, *name;
} NUMBERS[] = {{"r_q", "<i>r</i><sub>q</sub>"},
               {"r_k", "<i>r</i><sub>k</sub>"},
               {"bias_strength", "bias"},
               {"ap_overall", "plasticity"}};

static qk_status add_one(const qk__result_model *model, size_t number, place which,
                         qk__extremes *extremes, qk_error *err)
{
    static const char *const WORDS[] = {"max", "min", "median"};
    const qk__field *field = qk__find_field(NUMBERS[number].field);
    qk__spread spread = {0};
    char what[40];
    if (which == MIDDLE)
        QK_TRY(qk__spread_of(model, field, false, &spread, err));
    const qk__result_head *head = find_head(model, field, which, spread.median);
    snprintf(what, sizeof what, "%s %s", WORDS[which], NUMBERS[number].name);
    if (head)
        add_extreme(extremes, head, what);
    return QK_OK;
}

qk_status qk__extreme_heads(const qk__result_model *model, qk__extremes *extremes,
                            qk_error *err)
{
    const size_t numbers = sizeof NUMBERS / sizeof *NUMBERS;
    *extremes = (qk__extremes){0};
    for (size_t f = 0; f < 2 * numbers; f++)
        QK_TRY(add_one(model, f / 2, f % 2 == 0 ? HIGHEST : LOWEST, extremes, err));
    for (size_t f = 0; f < numbers && extremes->count < QK__NUM_EXTREMES; f++)
        QK_TRY(add_one(model, f, MIDDLE, extremes, err));
    return QK_OK;
}
