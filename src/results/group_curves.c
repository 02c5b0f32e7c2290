/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of ablation_groups.csv whose names differ in their number of heads alone, as curves over it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json_build.h"
#include "results/builder.h"

static const struct number {
    const char *column;
    size_t offset;
} NUMBERS[] = {{"delta", offsetof(qk__group_point, delta)},
               {"delta_lo", offsetof(qk__group_point, delta_lo)},
               {"delta_hi", offsetof(qk__group_point, delta_hi)},
               {"random", offsetof(qk__group_point, random)},
               {"random_least", offsetof(qk__group_point, random_least)},
               {"random_most", offsetof(qk__group_point, random_most)}};
enum { NUM_NUMBERS = sizeof NUMBERS / sizeof *NUMBERS };

typedef struct group_row {
    size_t curve;
    qk__group_point point;
} group_row;

typedef struct group_table {
    qk__builder *builder;
    qk__csv_reader *csv;
    size_t group, what, heads, columns[NUM_NUMBERS];
    qk__text_set curves; /* "COLUMN\nCHANGE": a column has no line feed in its name */
    group_row *rows;
    size_t count, capacity;
} group_table;

/* COLUMN of "top N by COLUMN"; NULL: it is another group. */
static const char *find_column(const char *group)
{
    static const char TOP[] = "top ", BY[] = " by ";
    if (strncmp(group, TOP, strlen(TOP)) != 0)
        return NULL;
    const char *number = group + strlen(TOP), *by = number + strspn(number, "0123456789");
    return by > number && strncmp(by, BY, strlen(BY)) == 0 ? by + strlen(BY) : NULL;
}

static qk_status read_row(group_table *t, int num_heads, qk_error *err)
{
    group_row row;
    int64_t heads;
    const char *column = find_column(qk__reader_text(t->csv, t->group));
    if (!column)
        return QK_OK;
    char *name = qk__format("%s\n%s", column, qk__reader_text(t->csv, t->what));
    qk_status status =
        name ? qk__text_set_add(&t->curves, t->builder->arena, name, &row.curve, err)
             : qk__nomem(err);
    free(name);
    QK_TRY(status);
    QK_TRY(qk__reader_integer(t->csv, t->heads, 1, num_heads > 0 ? num_heads : INT32_MAX,
                              &heads, err));
    row.point.heads = (double)heads;
    for (size_t i = 0; i < NUM_NUMBERS; i++) {
        double value;
        QK_TRY(qk__reader_number(t->csv, t->columns[i], &value, err));
        memcpy((char *)&row.point + NUMBERS[i].offset, &value, sizeof value);
    }
    if (!isfinite(row.point.delta))
        return QK_OK;
    if (t->count == t->capacity) {
        group_row *rows = qk__grow(t->rows, &t->capacity, sizeof *rows);
        if (!rows)
            return qk__nomem(err);
        t->rows = rows;
    }
    t->rows[t->count++] = row;
    return QK_OK;
}

static int compare_rows(const void *a, const void *b)
{
    const group_row *x = a, *y = b;
    if (x->curve != y->curve)
        return x->curve < y->curve ? -1 : 1;
    return (x->point.heads > y->point.heads) - (x->point.heads < y->point.heads);
}

/* One number of heads makes no curve. */
static qk_status make_curves(group_table *t, qk__group_curves *groups, qk_error *err)
{
    qk__arena *arena = t->builder->arena;
    qk__group_point *points = qk__arena_alloc(arena, t->count, sizeof *points);
    qk__group_curve *items = qk__arena_alloc(arena, t->curves.count, sizeof *items);
    if (!points || !items)
        return qk__nomem(err);
    if (t->count > 0)
        qsort(t->rows, t->count, sizeof *t->rows, compare_rows);
    for (size_t first = 0, end; first < t->count; first = end) {
        for (end = first; end < t->count && t->rows[end].curve == t->rows[first].curve; end++)
            points[end] = t->rows[end].point;
        if (points[first].heads == points[end - 1].heads)
            continue;
        char *column = qk__arena_strdup(arena, t->curves.items[t->rows[first].curve]);
        if (!column)
            return qk__nomem(err);
        char *cut = strchr(column, '\n');
        *cut = 0;
        items[groups->count++] =
            (qk__group_curve){cut + 1, column, end - first, points + first};
    }
    groups->items = items;
    return QK_OK;
}

/* The table does not say of which model it is. */
static qk_status read_table(group_table *t, qk_error *err)
{
    qk__builder *builder = t->builder;
    qk__group_curves *groups = &builder->results->groups;
    const qk__manifest *of = builder->ablation.root ? &builder->ablation : &builder->manifest;
    groups->num_heads = qk__manifest_query_heads(of);
    groups->model = qk__arena_strdup(builder->arena, qk__json_string(of->root, "model"));
    if (!groups->model)
        return qk__nomem(err);
    QK_TRY(qk__reader_find(t->csv, "group", true, &t->group, err));
    QK_TRY(qk__reader_find(t->csv, "what", true, &t->what, err));
    QK_TRY(qk__reader_find(t->csv, "heads", true, &t->heads, err));
    for (size_t i = 0; i < NUM_NUMBERS; i++)
        QK_TRY(qk__reader_find(t->csv, NUMBERS[i].column, i == 0, &t->columns[i], err));
    for (;;) {
        bool more;
        QK_TRY(qk__reader_next(t->csv, &more, err));
        if (!more)
            break;
        QK_TRY(read_row(t, groups->num_heads, err));
    }
    QK_TRY(make_curves(t, groups, err));
    return groups->count > 0 && builder->names.count > 0 && *groups->model &&
                   qk__text_set_find(&builder->names, groups->model) == QK__NOT_THERE
               ? qk__refuse_ablation(builder, qk__reader_path(t->csv), groups->model, err)
               : QK_OK;
}

qk_status qk__read_group_curves(qk__builder *builder, qk_error *err)
{
    group_table t = {.builder = builder};
    QK_TRY(qk__open_table(builder, "ablation_groups.csv", &t.csv, err));
    qk_status status = t.csv ? read_table(&t, err) : QK_OK;
    qk__reader_close(&t.csv);
    qk__text_set_free(&t.curves);
    free(t.rows);
    return status;
}
