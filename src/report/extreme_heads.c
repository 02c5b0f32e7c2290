/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the heads with the highest, the lowest and the middle numbers of a model. */
#include "report/extreme_heads.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "settings/head_set.h"

enum { MEDIAN = 2 };
static const char *const WORDS[] = {"max", "min", "median"};

/* The first head of a model in some order of a number. */
static const char FIRST[] =
    "WITH own AS (SELECT head_id, layer, q_head, \"%w\" AS number FROM head_numbers,"
    " (SELECT model_id FROM models WHERE model = %Q) WHERE number IS NOT NULL"
    " AND head_id BETWEEN model_id << 42 AND ((model_id + 1) << 42) - 1)"
    " SELECT layer, q_head FROM own ORDER BY %s, head_id LIMIT 1";
static const char *const ORDERS[] = {"number DESC", "number",
                                     "abs(number - (SELECT median(number) FROM own))"};

static void add_extreme(qk__extremes *all, int layer, int head, const char *what)
{
    size_t i = 0;
    while (i < all->count && !qk__range_has(&all->heads[i], layer, head))
        i++;
    if (i == QK__NUM_EXTREMES)
        return;
    char *about = all->about[i];
    const size_t length = i < all->count ? strlen(about) : 0;
    snprintf(about + length, sizeof all->about[i] - length, "%s%s", length ? ", " : "", what);
    all->heads[i] = (qk_head_range){layer, layer, head, head};
    all->count += i == all->count;
}

static const struct {
    const char *field, *name;
} NUMBERS[] = {{"r_q", "<i>r</i><sub>q</sub>"},
               {"r_k", "<i>r</i><sub>k</sub>"},
               {"bias_strength", "bias"},
               {"ap_overall", "plasticity"}};

static qk_status add_one(qk__store *tables, const char *model, size_t number, size_t which,
                         qk__extremes *extremes, qk_error *err)
{
    const char *field = NUMBERS[number].field;
    char what[40];
    qk_columns *rows;
    QK_TRY(qk__store_ask(tables, &rows, err, FIRST, field, model, ORDERS[which]));
    snprintf(what, sizeof what, "%s %s", WORDS[which], NUMBERS[number].name);
    if (qk_columns_num_rows(rows) > 0)
        add_extreme(extremes, (int)qk_columns_integers(rows, "layer")[0],
                    (int)qk_columns_integers(rows, "q_head")[0], what);
    qk_columns_free(&rows);
    return QK_OK;
}

qk_status qk__extreme_heads(qk__store *tables, const char *model, qk__extremes *extremes,
                            qk_error *err)
{
    const size_t numbers = sizeof NUMBERS / sizeof *NUMBERS;
    *extremes = (qk__extremes){0};
    for (size_t f = 0; f < 2 * numbers; f++) /* max and min of each number */
        QK_TRY(add_one(tables, model, f / 2, f % 2, extremes, err));
    for (size_t f = 0; f < numbers && extremes->count < QK__NUM_EXTREMES; f++)
        QK_TRY(add_one(tables, model, f, MEDIAN, extremes, err));
    return QK_OK;
}
