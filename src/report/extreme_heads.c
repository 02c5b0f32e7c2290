/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the heads with the highest and the lowest numbers of a model. */
#include "report/extreme_heads.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

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

static bool is_in(const qk_head_range *heads, size_t count, const qk__result_head *head)
{
    for (size_t i = 0; i < count; i++)
        if (qk__range_has(&heads[i], head->layer, head->q_head))
            return true;
    return false;
}

static int compare_heads(const void *a, const void *b)
{
    const qk_head_range *x = a, *y = b;
    return x->first_layer != y->first_layer ? x->first_layer - y->first_layer
                                            : x->first_head - y->first_head;
}

size_t qk__extreme_heads(const qk__result_model *model, qk_head_range heads[QK__NUM_EXTREMES])
{
    static const char *const FIELDS[] = {"r_q", "r_k", "bias_strength", "ap_overall"};
    size_t count = 0;
    for (size_t f = 0; f < sizeof FIELDS / sizeof *FIELDS; f++)
        for (int highest = 1; highest >= 0; highest--) {
            const qk__result_head *head = extreme(model, qk__find_field(FIELDS[f]), highest);
            if (head && count < QK__NUM_EXTREMES && !is_in(heads, count, head))
                heads[count++] =
                    (qk_head_range){head->layer, head->layer, head->q_head, head->q_head};
        }
    qsort(heads, count, sizeof *heads, compare_heads);
    return count;
}
