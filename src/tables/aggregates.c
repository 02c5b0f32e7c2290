/* SPDX-License-Identifier: Apache-2.0 */
/* Aggregates that SQLite lacks: median, quantile, corr, slope, sd; and an avg without visible rounding errors. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"
#include "tables/store.h"

/* ---- order statistics ------------------------------------------------------------------- */

typedef struct values {
    double *items, share;
    size_t count, capacity;
} values;

/* Whether a value counts: an empty one does not. A text, which SQLite would take for 0, is a mistake. */
static bool is_number(sqlite3_context *context, sqlite3_value *value)
{
    const int type = sqlite3_value_numeric_type(value);
    if (type == SQLITE_TEXT || type == SQLITE_BLOB)
        sqlite3_result_error(
            context, "a mean, median or the like is of numbers, and this is a text", -1);
    return type == SQLITE_INTEGER || type == SQLITE_FLOAT;
}

/* NaN: it is no number. */
static double share_of(sqlite3_value *value)
{
    const int type = sqlite3_value_type(value);
    return type == SQLITE_FLOAT || type == SQLITE_INTEGER ? sqlite3_value_double(value) : NAN;
}

/* quantile(x, p), or median(x). */
static void add_value(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    values *v = sqlite3_aggregate_context(context, sizeof *v);
    if (!v || !is_number(context, arguments[0]))
        return;
    if (v->count == v->capacity) { /* counts as SQLite's memory */
        size_t room = v->capacity > 0 ? 2 * v->capacity : 64;
        double *grown = sqlite3_realloc64(v->items, room * sizeof *grown);
        if (!grown) {
            sqlite3_result_error_nomem(context);
            return;
        }
        v->items = grown;
        v->capacity = room;
    }
    double share = count > 1 ? share_of(arguments[1]) : 0.5;
    v->share =
        v->count == 0 || share == v->share ? share : NAN; /* must be the same in all rows */
    v->items[v->count++] = sqlite3_value_double(arguments[0]);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Linear between order statistics, as in NumPy. */
static void end_values(sqlite3_context *context)
{
    values *v = sqlite3_aggregate_context(context, 0);
    if (!v || v->count == 0) {
        sqlite3_result_null(context);
    } else if (!(v->share >= 0 && v->share <= 1)) {
        sqlite3_result_error(
            context, "quantile: the share is a number from 0 to 1, the same for all rows", -1);
    } else {
        qsort(v->items, v->count, sizeof *v->items, compare);
        double at = v->share * (double)(v->count - 1);
        size_t below = (size_t)at, above = below + 1 < v->count ? below + 1 : below;
        double low = v->items[below];
        sqlite3_result_double(context, low + (v->items[above] - low) * (at - (double)below));
    }
    if (v)
        sqlite3_free(v->items);
}

/* ---- sums ------------------------------------------------------------------------------- */

/* Sums deviations from the first pair, so that large means cost no digits; errors are carried (Neumaier). */
typedef struct sum {
    double total, error;
} sum;
typedef struct moments {
    int64_t count;
    double x0, y0;
    sum x, y, xx, xy, yy;
} moments;

static void add(sum *s, double value)
{
    double total = s->total + value;
    s->error +=
        fabs(s->total) >= fabs(value) ? (s->total - total) + value : (value - total) + s->total;
    s->total = total;
}

static double value_of(const sum *s)
{
    return s->total + s->error;
}

static void add_pair(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    moments *m = sqlite3_aggregate_context(context, sizeof *m);
    for (int i = 0; i < count; i++)
        if (!is_number(context, arguments[i]))
            return;
    if (!m)
        return;
    double x = sqlite3_value_double(arguments[0]),
           y = count > 1 ? sqlite3_value_double(arguments[1]) : 0;
    if (m->count++ == 0) {
        m->x0 = x;
        m->y0 = y;
    }
    x -= m->x0;
    y -= m->y0;
    add(&m->x, x);
    add(&m->y, y);
    add(&m->xx, x * x);
    add(&m->xy, x * y);
    add(&m->yy, y * y);
}

/* avg sums the plain values, so that it equals sum over count. */
static void add_plain(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    moments *m = sqlite3_aggregate_context(context, sizeof *m);
    (void)count;
    if (!m || !is_number(context, arguments[0]))
        return;
    m->count++;
    add(&m->x, sqlite3_value_double(arguments[0]));
}

/* In a window: a row that leaves it. */
static void take_plain(sqlite3_context *context, int count, sqlite3_value **arguments)
{
    moments *m = sqlite3_aggregate_context(context, sizeof *m);
    (void)count;
    if (!m || !is_number(context, arguments[0]))
        return;
    m->count--;
    add(&m->x, -sqlite3_value_double(arguments[0]));
}

static double product(const sum *xy, const sum *x, const sum *y, int64_t count)
{
    return value_of(xy) - value_of(x) * value_of(y) / (double)count;
}

static void end_with(sqlite3_context *context, double value)
{
    if (isfinite(value))
        sqlite3_result_double(context, value);
    else
        sqlite3_result_null(context);
}

static const moments *moments_of(sqlite3_context *context, int64_t least)
{
    const moments *m = sqlite3_aggregate_context(context, 0);
    return m && m->count >= least ? m : NULL;
}

static void end_avg(sqlite3_context *context)
{
    const moments *m = moments_of(context, 1);
    end_with(context, m ? value_of(&m->x) / (double)m->count : NAN);
}

static void end_sd(sqlite3_context *context)
{
    const moments *m = moments_of(context, 2);
    const double square =
        m ? product(&m->xx, &m->x, &m->x, m->count) / (double)(m->count - 1) : NAN;
    end_with(context, sqrt(square < 0 ? 0 : square));
}

static void end_slope(sqlite3_context *context)
{
    const moments *m = moments_of(context, 2);
    end_with(context, m ? product(&m->xy, &m->x, &m->y, m->count) /
                              product(&m->xx, &m->x, &m->x, m->count)
                        : NAN);
}

static void end_corr(sqlite3_context *context)
{
    const moments *m = moments_of(context, 2);
    end_with(context, m ? product(&m->xy, &m->x, &m->y, m->count) /
                              sqrt(product(&m->xx, &m->x, &m->x, m->count) *
                                   product(&m->yy, &m->y, &m->y, m->count))
                        : NAN);
}

/* ---- all of them ------------------------------------------------------------------------ */

qk_status qk__sql_functions(qk__store *t, qk_error *err)
{
    static const struct {
        const char *name;
        int arguments;
        void (*step)(sqlite3_context *, int, sqlite3_value **);
        void (*end)(sqlite3_context *);
    } ALL[] = {{"median", 1, add_value, end_values},
               {"quantile", 2, add_value, end_values},
               {"sd", 1, add_pair, end_sd},
               {"slope", 2, add_pair, end_slope},
               {"corr", 2, add_pair, end_corr}};
    const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
    /* Replaces SQLite's avg, and works in windows, too. */
    int code = sqlite3_create_window_function(t->db, "avg", 1, flags, NULL, add_plain, end_avg,
                                              end_avg, take_plain, NULL);
    if (code != SQLITE_OK)
        return qk__sql_fail(t, code, err);
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++) {
        code = sqlite3_create_function_v2(t->db, ALL[i].name, ALL[i].arguments, flags, NULL,
                                          NULL, ALL[i].step, ALL[i].end, NULL);
        if (code != SQLITE_OK)
            return qk__sql_fail(t, code, err);
    }
    return QK_OK;
}
