/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of an ablation that are the first so many heads of an order, beside random ones: ablation_groups.csv. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/parse_number.h"
#include "results/builder.h"

/* "top 8 by -r_q" -> "by -r_q"; NULL: another group. */
static const char *order_of(const char *group)
{
    const char *by = strncmp(group, "top ", 4) == 0 ? strstr(group, " by ") : NULL;
    return by ? by + 1 : NULL;
}

static qk_status add_row(qk__builder *builder, const qk__feed *feed, const size_t *columns,
                         qk_error *err)
{
    qk__results *r = builder->results;
    const char *order = order_of(qk__feed_text(feed, columns[0]));
    qk__ablated_group group = {0};
    double *const numbers[] = {&group.heads,  &group.delta, &group.lo,  &group.hi,
                               &group.random, &group.least, &group.most};
    if (!order)
        return QK_OK;
    group.order = qk__arena_strdup(builder->arena, order);
    group.what = qk__arena_strdup(builder->arena, qk__feed_text(feed, columns[1]));
    if (!group.order || !group.what)
        return qk__nomem(err);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        QK_TRY(qk__feed_number(feed, columns[2 + i], numbers[i], err));
    if (r->num_groups == builder->group_capacity) {
        qk__ablated_group *groups =
            qk__grow(builder->groups, &builder->group_capacity, sizeof *groups);
        if (!groups)
            return qk__nomem(err);
        builder->groups = groups;
    }
    builder->groups[r->num_groups++] = group;
    return QK_OK;
}

static int by_curve(const void *a, const void *b)
{
    const qk__ablated_group *one = a, *other = b;
    int differs = strcmp(one->order, other->order);
    if (differs == 0)
        differs = strcmp(one->what, other->what);
    return differs ? differs : (one->heads > other->heads) - (one->heads < other->heads);
}

static qk_status read_rows(qk__builder *builder, qk__feed *feed, qk_error *err)
{
    static const char *const NAMES[] = {"group",  "what",         "heads",
                                        "delta",  "delta_lo",     "delta_hi",
                                        "random", "random_least", "random_most"};
    enum { COUNT = sizeof NAMES / sizeof *NAMES };
    qk__results *r = builder->results;
    size_t columns[COUNT];
    bool more = true;
    for (size_t i = 0; i < COUNT; i++)
        QK_TRY(qk__feed_find(feed, NAMES[i], true, &columns[i], err));
    for (;;) {
        QK_TRY(qk__feed_next(feed, &more, err));
        if (!more)
            break;
        QK_TRY(add_row(builder, feed, columns, err));
    }
    if (r->num_groups == 0)
        return QK_OK;
    qsort(builder->groups, r->num_groups, sizeof *builder->groups, by_curve);
    r->groups = qk__arena_alloc(builder->arena, r->num_groups, sizeof *r->groups);
    if (!r->groups)
        return qk__nomem(err);
    memcpy(r->groups, builder->groups, r->num_groups * sizeof *r->groups);
    return QK_OK;
}

qk_status qk__read_group_table(qk__builder *builder, qk_error *err)
{
    qk__feed feed;
    QK_TRY(qk__open_table(builder, "ablation_groups.csv", &feed, err));
    qk_status status =
        qk__feed_is_there(&feed) && feed.csv ? read_rows(builder, &feed, err) : QK_OK;
    qk__feed_close(&feed);
    return status;
}
