/* SPDX-License-Identifier: Apache-2.0 */
/* Delete-a-group jackknife over examples. */
#include "stats/jackknife.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/moments.h"
#include "stats/row_order.h"
#include "stats/student.h"

/* ---- who is in which group -------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts and drops repeats; returns how many are left. */
static size_t make_set(int64_t *ids, size_t count)
{
    size_t kept = 0;
    qsort(ids, count, sizeof *ids, compare_ids);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || ids[i] != ids[kept - 1])
            ids[kept++] = ids[i];
    return kept;
}

qk_status qk__example_groups_create(qk__example_groups **groups, const qk_block *sample,
                                    qk_error *err)
{
    qk__example_groups *g = malloc(sizeof *g + sample->rows * sizeof(int64_t));
    *groups = g;
    if (!g)
        return qk__nomem(err);
    int64_t *ids = (int64_t *)(g + 1);
    size_t count = 0;
    for (size_t i = 0; i < sample->rows; i++) /* rows of an example are mostly neighbours */
        if (count == 0 || sample->example[i] != ids[count - 1])
            ids[count++] = sample->example[i];
    g->ids = ids;
    g->num_ids = make_set(ids, count);
    g->count = g->num_ids < QK_MAX_GROUPS ? (uint32_t)g->num_ids : QK_MAX_GROUPS;
    return QK_OK;
}

void qk__example_groups_free(qk__example_groups **groups)
{
    free(*groups);
    *groups = NULL;
}

qk_status qk__example_groups_assign(const qk__example_groups *groups, const qk_block *sample,
                                    uint32_t **group, qk_error *err)
{
    *group = qk__calloc(sample->rows, sizeof **group);
    if (!*group)
        return qk__nomem(err);
    for (size_t i = 0; i < sample->rows; i++) {
        if (i > 0 && sample->example[i] == sample->example[i - 1])
            (*group)[i] = (*group)[i - 1];
        else
            (*group)[i] =
                (uint32_t)(qk__count_below(groups->ids, groups->num_ids, sample->example[i]) %
                           groups->count);
    }
    return QK_OK;
}

/* ---- moments of each group -------------------------------------------------------------- */

qk_status qk__group_moments(const qk_block *sample, uint32_t groups,
                            qk_moments *parts[QK_MAX_GROUPS], qk_error *err)
{
    qk_status status = QK_OK;
    memset(parts, 0, QK_MAX_GROUPS * sizeof *parts);
    for (uint32_t g = 0; g < groups && status == QK_OK; g++) {
        qk_accumulator *acc;
        status = qk_accumulator_create(&acc, sample->dim, err);
        for (size_t i = 0; i < sample->rows && status == QK_OK; i++)
            if (sample->group[i] == g)
                status = qk__accumulator_add_row(acc, sample, i, err);
        if (status == QK_OK)
            status = qk_accumulator_finish(&acc, &parts[g], err);
        else
            qk_accumulator_free(&acc);
    }
    for (uint32_t g = 0; g < groups && status != QK_OK; g++)
        qk_moments_free(&parts[g]);
    return status;
}

/* ---- the interval ----------------------------------------------------------------------- */

void qk__jackknife_interval(double estimate, const double *values, uint32_t groups,
                            double level, bool is_correlation, double *lo, double *hi)
{
    double transformed[QK_MAX_GROUPS], mean = 0, sum = 0, largest = 0;
    int exponent;
    *lo = *hi = NAN;
    if (groups < 2)
        return;
    for (uint32_t g = 0; g < groups; g++) {
        transformed[g] = is_correlation ? atanh(values[g]) : values[g];
        mean += transformed[g] / groups;
    }
    for (uint32_t g = 0; g < groups; g++) {
        transformed[g] -= mean;
        if (!isfinite(transformed[g]))
            return;
        largest = fmax(largest, fabs(transformed[g]));
    }
    /* By a power of two, so that squares neither overflow nor vanish. */
    frexp(largest, &exponent);
    for (uint32_t g = 0; g < groups; g++) {
        double deviation = ldexp(transformed[g], -exponent);
        sum += deviation * deviation;
    }
    double center = is_correlation ? atanh(estimate) : estimate;
    double reach = ldexp(sqrt(sum * (groups - 1) / groups) *
                             qk__student_quantile((1 + level) / 2, (double)groups - 1),
                         exponent);
    if (!isfinite(center) || !isfinite(reach))
        return;
    *lo = is_correlation ? tanh(center - reach) : center - reach;
    *hi = is_correlation ? tanh(center + reach) : center + reach;
}
