/* SPDX-License-Identifier: Apache-2.0 */
/* One table of two results side by side, in memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/compare.h>

#include "base/buffer.h"
#include "base/error.h"
#include "schema/columns.h"
#include "stats/difference.h"

/* What a row is of, where a table has it. */
static const char *const KEYS[] = {
    "layer", "q_head",    "k_head",   "head",     "kind",         "pc",      "pca_dim",
    "pair",  "component", "q_bucket", "k_bucket", "distance_bin", "lag_bin", "bin"};
enum { NUM_KEYS = sizeof KEYS / sizeof *KEYS };

/* Where a row is in a and in b. */
typedef struct place {
    size_t row[2];
} place;
static const size_t NOWHERE = SIZE_MAX;

typedef struct joining {
    const qk_columns *side[2];
    const char *table;
    size_t keys[2][NUM_KEYS], num_keys; /* columns */
    size_t *order[2];                   /* rows by their keys */
    place *places;
    size_t num_places;
    qk_column_info *infos; /* of the columns to make */
    void **values;
    char **texts; /* names and sentences of the infos, two each */
    size_t count;
} joining;

static size_t find_column(const qk_columns *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->columns[i]->info.name, name) == 0)
            return i;
    return NOWHERE;
}

static qk_column_type type_of(const qk_columns *c, size_t column)
{
    return c->columns[column]->info.type;
}

/* ---- rows ------------------------------------------------------------------------------- */

static int compare_rows(const joining *j, int side_x, size_t x, int side_y, size_t y)
{
    for (size_t k = 0; k < j->num_keys; k++) {
        const qk_columns *a = j->side[side_x], *b = j->side[side_y];
        size_t of_a = j->keys[side_x][k], of_b = j->keys[side_y][k];
        const qk__value *u = &a->values[of_a][x], *v = &b->values[of_b][y];
        int order = type_of(a, of_a) == QK_COLUMN_TEXT
                        ? strcmp(u->text ? u->text : "", v->text ? v->text : "")
                        : (u->integer > v->integer) - (u->integer < v->integer);
        if (order != 0)
            return order;
    }
    return 0;
}

/* Merging runs, since most tables are in order already. */
static qk_status sort_rows(joining *j, int side, qk_error *err)
{
    size_t n = j->side[side]->num_rows;
    size_t *from = qk__calloc(n + 1, sizeof *from), *to = qk__calloc(n + 1, sizeof *to);
    if (!from || !to) {
        free(from);
        free(to);
        return qk__nomem(err);
    }
    for (size_t i = 0; i < n; i++)
        from[i] = i;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t first = 0; first < n; first += 2 * width) {
            size_t middle = first + width < n ? first + width : n;
            size_t end = first + 2 * width < n ? first + 2 * width : n;
            for (size_t x = first, y = middle, at = first; at < end; at++)
                to[at] = y == end || (x < middle &&
                                      compare_rows(j, side, from[x], side, from[y]) <= 0)
                             ? from[x++]
                             : from[y++];
        }
        size_t *swapped = from;
        from = to;
        to = swapped;
    }
    free(to);
    j->order[side] = from;
    for (size_t i = 1; i < n; i++)
        if (compare_rows(j, side, from[i - 1], side, from[i]) == 0)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "%s: has several rows of one head, as tables of several models "
                            "have; compare those of one model",
                            j->table);
    return QK_OK;
}

static qk_status find_keys(joining *j, qk_error *err)
{
    for (size_t k = 0; k < NUM_KEYS; k++) {
        size_t a = find_column(j->side[0], KEYS[k]), b = find_column(j->side[1], KEYS[k]);
        if (a == NOWHERE || b == NOWHERE || type_of(j->side[0], a) == QK_COLUMN_REAL ||
            type_of(j->side[0], a) != type_of(j->side[1], b))
            continue;
        j->keys[0][j->num_keys] = a;
        j->keys[1][j->num_keys++] = b;
    }
    if (j->num_keys > 0 && strcmp(j->side[0]->columns[j->keys[0][0]]->info.name, "layer") == 0)
        return QK_OK;
    return qk__fail(err, QK_ERR_INCONSISTENT, "%s: has no rows of heads that could be compared",
                    j->table);
}

static qk_status join_rows(joining *j, qk_error *err)
{
    QK_TRY(sort_rows(j, 0, err));
    QK_TRY(sort_rows(j, 1, err));
    size_t n = j->side[0]->num_rows, m = j->side[1]->num_rows;
    j->places = qk__calloc(n + m + 1, sizeof *j->places);
    if (!j->places)
        return qk__nomem(err);
    for (size_t x = 0, y = 0; x < n || y < m;) {
        int order = x == n   ? 1
                    : y == m ? -1
                             : compare_rows(j, 0, j->order[0][x], 1, j->order[1][y]);
        place *p = &j->places[j->num_places++];
        p->row[0] = order <= 0 ? j->order[0][x++] : NOWHERE;
        p->row[1] = order >= 0 ? j->order[1][y++] : NOWHERE;
    }
    return QK_OK;
}

/* ---- columns ---------------------------------------------------------------------------- */

/* A new column like another; its values, 8 bytes each, are the caller's to set. */
static qk_status add_column(joining *j, const qk_column_info *like, const char *end,
                            const char *about, void **values, qk_error *err)
{
    char *name = qk__format("%s%s", like->name, end);
    char *sentence = qk__format("%s%s", about, *end ? like->about : "");
    *values = qk__calloc(j->num_places + 1, sizeof(qk__value));
    j->infos[j->count] = *like;
    j->infos[j->count].name = name;
    if (*end) {
        j->infos[j->count].about = sentence;
        j->infos[j->count].label = NULL;
    }
    j->texts[2 * j->count] = name;
    j->texts[2 * j->count + 1] = sentence;
    j->values[j->count++] = *values;
    return name && sentence && *values ? QK_OK : qk__nomem(err);
}

static qk__value nothing(qk_column_type type)
{
    qk__value none = {.real = NAN};
    if (type == QK_COLUMN_INTEGER)
        none.integer = QK_NO_INTEGER;
    if (type == QK_COLUMN_TEXT)
        none.text = NULL;
    return none;
}

static qk__value value_at(const qk_columns *c, size_t column, size_t row)
{
    qk_column_type type = type_of(c, column);
    bool empty = row == NOWHERE || (type == QK_COLUMN_INTEGER && c->empty && c->empty[column] &&
                                    c->empty[column][row]);
    return empty ? nothing(type) : c->values[column][row];
}

static double number(qk_column_type type, qk__value value)
{
    if (type == QK_COLUMN_REAL)
        return value.real;
    return value.integer == QK_NO_INTEGER ? NAN : (double)value.integer;
}

static bool is_key(const joining *j, size_t column)
{
    for (size_t k = 0; k < j->num_keys; k++)
        if (j->keys[0][k] == column)
            return true;
    return false;
}

/* An end of an interval of another column, or what that is about: the difference of that column says all. */
static bool is_bound(const qk_columns *c, const char *name)
{
    size_t length = strlen(name);
    char of[96];
    if (length < 4 || length >= sizeof of ||
        (strcmp(name + length - 3, "_lo") != 0 && strcmp(name + length - 3, "_hi") != 0 &&
         strcmp(name + length - 3, "_cv") != 0))
        return false;
    snprintf(of, sizeof of, "%.*s", (int)length - 3, name);
    return find_column(c, of) != NOWHERE;
}

static qk_status add_both(joining *j, size_t in_a, size_t in_b, qk_error *err)
{
    const qk_column_info *info = &j->side[0]->columns[in_a]->info;
    qk__value *a, *b;
    double *difference;
    QK_TRY(add_column(j, info, "_a", "of a: ", (void **)&a, err));
    QK_TRY(add_column(j, info, "_b", "of b: ", (void **)&b, err));
    for (size_t i = 0; i < j->num_places; i++) {
        a[i] = value_at(j->side[0], in_a, j->places[i].row[0]);
        b[i] = value_at(j->side[1], in_b, j->places[i].row[1]);
    }
    if (info->type == QK_COLUMN_TEXT || is_bound(j->side[0], info->name))
        return QK_OK;
    qk_column_info real = *info;
    real.type = QK_COLUMN_REAL;
    real.range = NULL;
    QK_TRY(add_column(j, &real, "_diff", "b - a: ", (void **)&difference, err));
    for (size_t i = 0; i < j->num_places; i++)
        difference[i] = number(info->type, b[i]) - number(info->type, a[i]);
    return QK_OK;
}

/* ---- intervals -------------------------------------------------------------------------- */

static double real_at(const joining *j, int side, size_t column, size_t i)
{
    return value_at(j->side[side], column, j->places[i].row[side]).real;
}

static qk_status add_interval(joining *j, const qk_column_info *info, qk_error *err)
{
    size_t at[2][3];
    char name[3][96];
    snprintf(name[0], sizeof *name, "%s_cv",
             info->name); /* which the interval is about, or the number itself */
    if (find_column(j->side[0], name[0]) == NOWHERE ||
        find_column(j->side[1], name[0]) == NOWHERE)
        snprintf(name[0], sizeof *name, "%s", info->name);
    snprintf(name[1], sizeof *name, "%s_lo", info->name);
    snprintf(name[2], sizeof *name, "%s_hi", info->name);
    for (int s = 0; s < 2; s++)
        for (int n = 0; n < 3; n++) {
            at[s][n] = find_column(j->side[s], name[n]);
            if (at[s][n] == NOWHERE || type_of(j->side[s], at[s][n]) != QK_COLUMN_REAL)
                return QK_OK;
        }
    double *lo, *hi;
    qk_column_info of = *info;
    of.range = NULL;
    of.about = "";
    char low[160], high[160];
    snprintf(low, sizeof low, "lower end of the interval of %.90s_diff", info->name);
    snprintf(high, sizeof high, "upper end of the interval of %.90s_diff", info->name);
    QK_TRY(add_column(j, &of, "_diff_lo", low, (void **)&lo, err));
    QK_TRY(add_column(j, &of, "_diff_hi", high, (void **)&hi, err));
    for (size_t i = 0; i < j->num_places; i++) {
        const qk__ranged a = {real_at(j, 0, at[0][0], i), real_at(j, 0, at[0][1], i),
                              real_at(j, 0, at[0][2], i)};
        const qk__ranged b = {real_at(j, 1, at[1][0], i), real_at(j, 1, at[1][1], i),
                              real_at(j, 1, at[1][2], i)};
        qk__difference d = qk__difference_of(&a, &b);
        lo[i] = d.lo;
        hi[i] = d.hi;
    }
    return QK_OK;
}

/* ---- the whole -------------------------------------------------------------------------- */

static qk_status join_columns(joining *j, bool intervals, qk_columns **joined, qk_error *err)
{
    const qk_columns *a = j->side[0];
    size_t most = 5 * a->count + 1; /* a, b, difference and its interval */
    j->infos = qk__calloc(most, sizeof *j->infos);
    j->values = qk__calloc(most, sizeof *j->values);
    j->texts = qk__calloc(most, 2 * sizeof *j->texts);
    if (!j->infos || !j->values || !j->texts)
        return qk__nomem(err);
    QK_TRY(find_keys(j, err));
    QK_TRY(join_rows(j, err));
    for (size_t k = 0; k < j->num_keys; k++) {
        qk__value *values;
        QK_TRY(add_column(j, &a->columns[j->keys[0][k]]->info, "", "", (void **)&values, err));
        for (size_t i = 0; i < j->num_places; i++) {
            int s = j->places[i].row[0] == NOWHERE;
            values[i] = value_at(j->side[s], j->keys[s][k], j->places[i].row[s]);
        }
    }
    for (size_t i = 0; i < a->count; i++) {
        const char *name = a->columns[i]->info.name;
        size_t other = find_column(j->side[1], name);
        if (!is_key(j, i) && strcmp(name, "model") != 0 && other != NOWHERE &&
            type_of(j->side[1], other) == type_of(a, i))
            QK_TRY(add_both(j, i, other, err));
    }
    for (size_t i = 0; i < a->count && intervals; i++)
        if (!is_key(j, i) && !is_bound(a, a->columns[i]->info.name))
            QK_TRY(add_interval(j, &a->columns[i]->info, err));
    return qk_columns_make(joined, j->infos, j->count, j->num_places,
                           (const void *const *)j->values, err);
}

qk_status qk_compare_columns(const qk_columns *a, const qk_columns *b, const char *table,
                             bool intervals, qk_columns **joined, qk_error *err)
{
    QK_NEED(err, joined);
    *joined = NULL;
    QK_NEED(err, a, b, table);
    joining j = {.side = {a, b}, .table = table};
    qk_status status = join_columns(&j, intervals, joined, err);
    for (size_t i = 0; i < j.count; i++) {
        free(j.values[i]);
        free(j.texts[2 * i]);
        free(j.texts[2 * i + 1]);
    }
    free(j.values);
    free(j.texts);
    free(j.infos);
    free(j.order[0]);
    free(j.order[1]);
    free(j.places);
    return status;
}
