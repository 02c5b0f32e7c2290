/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs the heads of a and b, and puts the difference of each number, with its interval and p-value, into the table
 * `compare`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "compare/compare.h"
#include "schema/schema.h"
#include "stats/cross_fit.h"
#include "stats/difference.h"
#include "stats/false_discovery.h"
#include "stats/jackknife.h"
#include "stats/text_groups.h"

/* One number of a head; NaN where it is not known. */
typedef struct change {
    double a, b, difference, lo, hi, p, p_corrected;
    double paired; /* 1: the interval is of the same texts, 0: it is not; NaN: there is none */
} change;

enum { VALUE, LO, HI, CROSSED, NUM_ENDINGS }; /* of a column's name */
static const char *const ENDINGS[NUM_ENDINGS] = {"", "_lo", "_hi", "_cv"};

typedef struct metric {
    const qk__field *field;
    const double *of[2][NUM_ENDINGS]; /* by side; NULL: there are none */
    change *changes;                  /* of each pair of heads */
} metric;

typedef struct comparison {
    qk__comparing *of;
    size_t pairs, count;
    metric *metrics;
    change *changes; /* of all metrics */
} comparison;

/* ---- heads ------------------------------------------------------------------------------ */

static bool is_in_table(const char *file, const char *name)
{
    const qk__table *table = qk__find_table(file);
    for (size_t i = 0; i < table->num_columns; i++)
        if (strcmp(table->columns[i].info.name, name) == 0)
            return true;
    return false;
}

/* Columns of head_numbers `n`: each number that is compared, and its interval. */
static qk_status put_columns(qk__buffer *sql, qk_error *err)
{
    QK_TRY(qk__buffer_printf(sql, err,
                             "1.0 * n.texts AS texts, 1.0 * n.effective_texts AS "
                             "effective_texts"));
    for (size_t f = 0; f < qk__num_fields; f++)
        for (size_t e = 0; e < NUM_ENDINGS && qk__fields[f].use == QK__COMPARED; e++) {
            char name[80];
            snprintf(name, sizeof name, "%.70s%s", qk__fields[f].info.name, ENDINGS[e]);
            if (is_in_table(qk__fields[f].file, name))
                QK_TRY(qk__buffer_printf(sql, err, ", 1.0 * n.\"%s\" AS \"%s\"", name, name));
        }
    return QK_OK;
}

static qk_status ask_heads(qk__comparing *c, int s, const char *columns, qk_error *err)
{
    qk__opened *side = &c->sides[s];
    return qk__store_ask(c->tables, &side->heads, err,
                         "SELECT p.layer, p.q_head, p.k_head, p.open, %s FROM temp.pairs p "
                         "JOIN \"%w\".head_numbers n ON n.head_id = p.%s_id ORDER BY p.rowid",
                         columns, side->letter, side->letter);
}

static qk_status pair_heads(qk__comparing *c, qk_error *err)
{
    return qk__store_do(
        c->tables, err,
        "CREATE TABLE temp.pairs AS SELECT a.head_id AS a_id, b.head_id AS b_id, a.layer, "
        "a.q_head, a.k_head, b.k_head AS other_key, coalesce(a.r_k * b.r_k < 0 "
        "AND a.r_q * b.r_q + a.r_k * b.r_k < 0, 0) AS open, coalesce(a.near_tie = 1 "
        "OR b.near_tie = 1, 0) AS tie FROM a.head_numbers a "
        "JOIN b.head_numbers b ON b.layer = a.layer AND b.q_head = a.q_head "
        "WHERE a.model = %Q AND b.model = %Q ORDER BY a.layer, a.q_head",
        c->sides[0].model, c->sides[1].model);
}

/* Announces what will be asked, so that the tables of a and b are read once. */
static qk_status expect(qk__comparing *c, const char *columns, qk_error *err)
{
    for (int s = 0; s < 2; s++) {
        char *sql = qk__format("SELECT %s, n.category, n.category_probability, n.n_q, "
                               "n.n_k, n.near_tie FROM %s.head_numbers n",
                               columns, c->sides[s].letter);
        qk_status status = sql ? qk__store_expect(c->tables, sql, err) : qk__nomem(err);
        free(sql);
        QK_TRY(status);
    }
    return QK_OK;
}

static qk_status check_keys(qk__comparing *c, qk_error *err)
{
    qk_columns *rows;
    QK_TRY(qk__store_ask(c->tables, &rows, err,
                         "SELECT layer, q_head, k_head, other_key FROM temp.pairs "
                         "WHERE k_head <> other_key LIMIT 1"));
    qk_status status = QK_OK;
    if (qk_columns_num_rows(rows) > 0)
        status = qk__fail(
            err, QK_ERR_INCONSISTENT,
            "layer %lld, query head %lld has key head %lld in a and %lld in b: these are of "
            "different architectures, or one of them was analysed with a wrong group "
            "size (--q-per-kv-group)",
            (long long)qk_columns_integers(rows, "layer")[0],
            (long long)qk_columns_integers(rows, "q_head")[0],
            (long long)qk_columns_integers(rows, "k_head")[0],
            (long long)qk_columns_integers(rows, "other_key")[0]);
    qk_columns_free(&rows);
    return status;
}

static qk_status fail_without_pairs(qk__comparing *c, qk_error *err)
{
    qk_columns *rows;
    QK_TRY(qk__store_ask(c->tables, &rows, err,
                         "SELECT (SELECT count(*) FROM a.head_ids WHERE model = %Q) AS a, "
                         "(SELECT count(*) FROM b.head_ids WHERE model = %Q) AS b",
                         c->sides[0].model, c->sides[1].model));
    qk_status status =
        qk__fail(err, QK_ERR_INCONSISTENT,
                 "no head is in both: a has %lld, b has %lld; compare models of one "
                 "architecture, or the same --layers",
                 (long long)qk_columns_integers(rows, "a")[0],
                 (long long)qk_columns_integers(rows, "b")[0]);
    qk_columns_free(&rows);
    return status;
}

static qk_status take_heads(qk__comparing *c, size_t *pairs, qk_error *err)
{
    qk__buffer columns = {0};
    qk_status status = put_columns(&columns, err);
    if (status == QK_OK)
        status = expect(c, (const char *)columns.data, err);
    if (status == QK_OK)
        status = pair_heads(c, err);
    if (status == QK_OK)
        status = check_keys(c, err);
    for (int s = 0; s < 2 && status == QK_OK; s++)
        status = ask_heads(c, s, (const char *)columns.data, err);
    qk__buffer_free(&columns);
    QK_TRY(status);
    *pairs = qk_columns_num_rows(c->sides[0].heads);
    return *pairs > 0 ? QK_OK : fail_without_pairs(c, err);
}

static void find_columns(const comparison *c, metric *m)
{
    for (int s = 0; s < 2; s++)
        for (size_t e = 0; e < NUM_ENDINGS; e++) {
            char name[80];
            snprintf(name, sizeof name, "%.70s%s", m->field->info.name, ENDINGS[e]);
            m->of[s][e] = qk_columns_reals(c->of->sides[s].heads, name);
        }
}

/* NaN: there is none. */
static double number_of(const metric *m, int s, int ending, size_t i)
{
    return m->of[s][ending] ? m->of[s][ending][i] : NAN;
}

/* ---- differences ------------------------------------------------------------------------ */

static bool is_correlation(const qk__field *field)
{
    return field->info.unit && strcmp(field->info.unit, "correlation") == 0;
}

/* Degrees of freedom of the jackknife behind a head's intervals; 0: unknown. A table says how many of up to 16 groups
 * of texts count; the weights of twice as many groups spread twice as much. */
static double degrees_of(const qk__field *field, const qk_columns *heads, size_t i)
{
    double most =
        strcmp(field->file, "attention.csv") == 0 ? QK_TEXT_GROUPS : QK_INTERVAL_GROUPS;
    double texts = qk_columns_reals(heads, "texts")[i], groups = fmin(texts, most),
           fewer = fmin(texts, QK_TEXT_GROUPS);
    double effective = qk_columns_reals(heads, "effective_texts")[i];
    if (isfinite(effective))
        groups /= 1 + groups / effective - groups / fewer;
    return isfinite(texts) ? groups - 1 : 0;
}

static bool has_level(const comparison *c, const qk__field *field)
{
    for (int s = 0; s < 2; s++)
        if (!(fabs(qk__side_level(&c->of->sides[s], field->file) - c->of->level) < 1e-9))
            return false;
    return true;
}

/* The interval and the number that it is about. */
static qk__ranged about(const metric *m, int s, size_t i)
{
    double crossed = number_of(m, s, CROSSED, i);
    return (qk__ranged){isfinite(crossed) ? crossed : number_of(m, s, VALUE, i),
                        number_of(m, s, LO, i), number_of(m, s, HI, i)};
}

/* ---- of the same texts ------------------------------------------------------------------ */

/* Finds the rows of a head, which are in order; returns their number. */
static size_t find_repeats(const qk_columns *rows, int64_t of_layer, int64_t of_head,
                           size_t *first)
{
    const int64_t *layer = qk_columns_integers(rows, "layer"),
                  *q_head = qk_columns_integers(rows, "q_head");
    size_t low = 0, count = 0, high = layer && q_head ? qk_columns_num_rows(rows) : 0,
           all = high;
    while (low < high) {
        size_t at = low + (high - low) / 2;
        if (layer[at] < of_layer || (layer[at] == of_layer && q_head[at] < of_head))
            low = at + 1;
        else
            high = at;
    }
    for (*first = low;
         low + count < all && layer[low + count] == of_layer && q_head[low + count] == of_head;)
        count++;
    return count;
}

/* The number of repetitions of a head in a and b, which begin at at[side]; 0 where they are not of the same texts. */
static uint32_t find_pairs(const comparison *c, size_t i, size_t at[2])
{
    size_t count[2] = {0};
    const int64_t *group[2], *texts[2];
    for (int s = 0; s < 2; s++) {
        const qk__opened *side = &c->of->sides[s];
        if (!side->repeats)
            return 0;
        count[s] = find_repeats(side->repeats, qk_columns_integers(side->heads, "layer")[i],
                                qk_columns_integers(side->heads, "q_head")[i], &at[s]);
        group[s] = qk_columns_integers(side->repeats, "text_group");
        texts[s] = qk_columns_integers(side->repeats, "texts");
        if (!group[s] || !texts[s])
            return 0;
    }
    if (count[0] != count[1] || count[0] > QK_INTERVAL_GROUPS)
        return 0;
    for (size_t g = 0; g < count[0]; g++)
        if (group[0][at[0] + g] != group[1][at[1] + g] || texts[0][at[0] + g] == 0 ||
            texts[0][at[0] + g] != texts[1][at[1] + g])
            return 0;
    return (uint32_t)count[0];
}

/* The error of the differences of a column of repetitions, times scale[side]; NaN: there is none. */
static double paired_error(const comparison *c, const char *column, const double scale[2],
                           const size_t at[2], uint32_t groups)
{
    double difference[QK_INTERVAL_GROUPS];
    const double *a = qk_columns_reals(c->of->sides[0].repeats, column),
                 *b = qk_columns_reals(c->of->sides[1].repeats, column);
    for (uint32_t g = 0; a && b && g < groups; g++)
        difference[g] = scale[1] * b[at[1] + g] - scale[0] * a[at[0] + g];
    return a && b ? qk__jackknife_error(difference, groups, false) : NAN;
}

/* The repeated column behind a number: bias_over_context is bias_strength times a length, which stays. */
static const char *repeated(const comparison *c, const qk__field *field, size_t i,
                            double scale[2])
{
    bool over_context = strcmp(field->info.name, "bias_over_context") == 0;
    for (int s = 0; s < 2; s++) {
        const qk_columns *heads = c->of->sides[s].heads;
        scale[s] = over_context ? qk_columns_reals(heads, "bias_over_context")[i] /
                                      qk_columns_reals(heads, "bias_strength")[i]
                                : 1;
    }
    return over_context ? "bias_strength" : field->info.name;
}

static bool is_paired(const comparison *c, const qk__field *field, size_t i, double difference,
                      qk__difference *d)
{
    const qk_columns *of_a = c->of->sides[0].repeats, *of_b = c->of->sides[1].repeats;
    char nested[80];
    size_t at[2] = {0};
    double scale[2];
    uint32_t groups = find_pairs(c, i, at);
    const char *name = repeated(c, field, i, scale);
    double error = groups > 1 ? paired_error(c, name, scale, at, groups) : NAN;
    if (!isfinite(error))
        return false;
    snprintf(nested, sizeof nested, "%.70s_nested", name);
    if (qk_columns_reals(of_a, nested))
        error = qk__joined_error(error, paired_error(c, nested, scale, at, groups));
    const double *degrees_a = qk_columns_reals(of_a, "degrees"),
                 *degrees_b = qk_columns_reals(of_b, "degrees");
    if (!degrees_a || !degrees_b)
        return false;
    *d = qk__difference_paired(difference, error, fmin(degrees_a[at[0]], degrees_b[at[1]]),
                               c->of->level);
    return isfinite(d->p);
}

static void take_interval(const comparison *c, const metric *m, size_t i, change *x)
{
    const qk__opened *sides = c->of->sides;
    const qk__ranged a = about(m, 0, i), b = about(m, 1, i);
    if (!isfinite(a.lo) || !isfinite(b.lo) || !isfinite(a.hi) || !isfinite(b.hi))
        return;
    qk__difference d = {NAN, NAN, NAN, NAN};
    const bool paired = is_paired(c, m->field, i, b.value - a.value, &d);
    x->paired = paired;
    if (paired && is_correlation(m->field)) {
        qk__difference_limit(&d, &a, &b);
    } else if (!paired) {
        d = qk__difference_of(&a, &b);
        qk__difference_test(&d, &a, &b, is_correlation(m->field), c->of->level,
                            fmin(degrees_of(m->field, sides[0].heads, i),
                                 degrees_of(m->field, sides[1].heads, i)));
    }
    x->lo = d.lo;
    x->hi = d.hi;
    x->p = c->of->silent ? NAN : d.p;
}

static bool has_sign_of_axis(const qk__field *field)
{
    char name[80];
    snprintf(name, sizeof name, "'%.70s'", field->info.name);
    return strstr(QK__SIGNED_ON_PC0, name) != NULL;
}

/* Where the sign is open, the difference has no interval and is not tested. */
static void take_changes(const comparison *c, const metric *m)
{
    const bool with_intervals = has_level(c, m->field), has_sign = has_sign_of_axis(m->field);
    const int64_t *open = qk_columns_integers(c->of->sides[0].heads, "open");
    for (size_t i = 0; i < c->pairs; i++) {
        double a = number_of(m, 0, VALUE, i), b = number_of(m, 1, VALUE, i);
        m->changes[i] = (change){a, b, b - a, NAN, NAN, NAN, NAN, NAN};
        if (isfinite(b - a) && with_intervals && !(has_sign && open[i]))
            take_interval(c, m, i, &m->changes[i]);
    }
}

/* ---- metrics ---------------------------------------------------------------------------- */

static bool is_in_both(const comparison *c, const metric *m)
{
    for (size_t i = 0; i < c->pairs; i++)
        if (isfinite(number_of(m, 0, VALUE, i)) && isfinite(number_of(m, 1, VALUE, i)))
            return true;
    return false;
}

static qk_status take_metrics(comparison *c, qk_error *err)
{
    c->metrics = qk__calloc(qk__num_fields, sizeof *c->metrics);
    if (!c->metrics)
        return qk__nomem(err);
    for (size_t f = 0; f < qk__num_fields; f++) {
        metric *m = &c->metrics[c->count];
        m->field = &qk__fields[f];
        if (m->field->use != QK__COMPARED)
            continue;
        find_columns(c, m);
        if (is_in_both(c, m)) {
            QK_TRY(qk__buffer_printf(&c->of->metrics, err, "%s('%s', %zu)",
                                     c->count > 0 ? ", " : "", m->field->info.name, c->count));
            c->count++;
        }
    }
    if (c->count == 0)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "no number is in both: run the same analyses on both");
    c->changes = qk__calloc(c->count, c->pairs * sizeof *c->changes);
    if (!c->changes)
        return qk__nomem(err);
    for (size_t m = 0; m < c->count; m++) {
        c->metrics[m].changes = c->changes + m * c->pairs;
        take_changes(c, &c->metrics[m]);
    }
    return QK_OK;
}

static qk_status correct(const comparison *c, qk_error *err)
{
    const size_t count = c->count * c->pairs;
    double *p = qk__calloc(count, 2 * sizeof *p);
    if (!p)
        return qk__nomem(err);
    for (size_t i = 0; i < count; i++)
        p[i] = c->changes[i].p;
    qk_status status = qk__correct_p_values(p, count, p + count, err);
    for (size_t i = 0; i < count; i++)
        c->changes[i].p_corrected = p[count + i];
    free(p);
    return status;
}

/* ---- into the table --------------------------------------------------------------------- */

enum { INTEGERS = 3, REALS = 8 };
#define INTEGER(name_)                                                                         \
    {                                                                                          \
        .name = name_, .type = QK_COLUMN_INTEGER, .about = ""                                  \
    }
#define REAL(name_)                                                                            \
    {                                                                                          \
        .name = name_, .type = QK_COLUMN_REAL, .about = ""                                     \
    }
static const qk_column_info COLUMNS[] = {
    INTEGER("layer"),
    INTEGER("q_head"),
    INTEGER("k_head"),
    REAL("a"),
    REAL("b"),
    REAL("difference"),
    REAL("difference_lo"),
    REAL("difference_hi"),
    REAL("paired"),
    REAL("p"),
    REAL("p_corrected"),
    {.name = "metric", .type = QK_COLUMN_TEXT, .about = ""}};
enum { NUM_COLUMNS = sizeof COLUMNS / sizeof *COLUMNS };

/* Sorts rows by head, like every table, without those that neither has; returns their number. */
static size_t lay_out(const comparison *c, int64_t *integers, double *reals, const char **names)
{
    static const char *const IDS[INTEGERS] = {"layer", "q_head", "k_head"};
    const size_t room = c->count * c->pairs;
    size_t rows = 0;
    for (size_t i = 0; i < c->pairs; i++)
        for (size_t m = 0; m < c->count; m++) {
            const change *x = &c->metrics[m].changes[i];
            const double values[REALS] = {x->a,  x->b,      x->difference, x->lo,
                                          x->hi, x->paired, x->p,          x->p_corrected};
            if (isnan(x->a) && isnan(x->b))
                continue;
            for (size_t k = 0; k < INTEGERS; k++)
                integers[k * room + rows] =
                    qk_columns_integers(c->of->sides[0].heads, IDS[k])[i];
            for (size_t k = 0; k < REALS; k++)
                reals[k * room + rows] = values[k];
            names[rows++] = c->metrics[m].field->info.name;
        }
    return rows;
}

static qk_status put_changes(const comparison *c, qk_error *err)
{
    const size_t room = c->count * c->pairs;
    int64_t *integers = qk__calloc(INTEGERS * room, sizeof *integers);
    double *reals = qk__calloc(REALS * room, sizeof *reals);
    const char **names = qk__calloc(room, sizeof *names);
    qk_columns *rows = NULL;
    qk_status status = integers && reals && names ? QK_OK : qk__nomem(err);
    if (status == QK_OK) {
        const void *starts[NUM_COLUMNS];
        for (size_t k = 0; k < INTEGERS; k++)
            starts[k] = integers + k * room;
        for (size_t k = 0; k < REALS; k++)
            starts[INTEGERS + k] = reals + k * room;
        starts[NUM_COLUMNS - 1] = names;
        status = qk_columns_make(&rows, COLUMNS, NUM_COLUMNS,
                                 lay_out(c, integers, reals, names), starts, err);
    }
    if (status == QK_OK)
        status = qk__store_own(c->of->tables, "compare", err);
    if (status == QK_OK)
        status = qk__store_put(c->of->tables, "compare", rows, err);
    qk_columns_free(&rows);
    free(integers);
    free(reals);
    free(names);
    return status;
}

qk_status qk__compare_heads(qk__comparing *of, qk_error *err)
{
    comparison c = {.of = of};
    QK_TRY(take_heads(of, &c.pairs, err));
    qk_status status = take_metrics(&c, err);
    if (status == QK_OK)
        status = correct(&c, err);
    if (status == QK_OK)
        status = put_changes(&c, err);
    free(c.metrics);
    free(c.changes);
    return status;
}
