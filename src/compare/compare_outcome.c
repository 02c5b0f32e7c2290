/* SPDX-License-Identifier: Apache-2.0 */
/* Sums a comparison up: the numbers that are printed, shown on the page and written as JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json_build.h"
#include "compare/compare.h"
#include "schema/schema.h"
#include "stats/false_discovery.h"
#include "stats/significance.h"
#include "tables/text_lengths.h"

enum { MAX_MOVERS = 20, MAX_NAMED = 4 };

/* Whether the metric is among those that a screen has room for. */
static bool is_main(const char *name)
{
    static const char *const names[] = {"r_q",
                                        "r_k",
                                        "ev0",
                                        "lin_var_q",
                                        "lin_var_k",
                                        "r_q_a",
                                        "r_k_a",
                                        "alpha_k",
                                        "bias_strength",
                                        "separation_strength",
                                        "plane_var_fraction",
                                        "ap_overall",
                                        "ap_drop"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* As the findings of a page test a mean: over key heads and over layers, since heads of a layer are not independent. */
static qk_status estimate(const qk__comparing *c, qk_compare_metric *m, double *p,
                          qk_error *err)
{
    qk_columns *groups;
    QK_TRY(qk__store_ask(c->tables, &groups, err,
                         "SELECT layer, difference FROM temp.groups WHERE metric = %Q "
                         "ORDER BY rowid",
                         m->name));
    const size_t count = qk_columns_num_rows(groups);
    const int64_t *layer = qk_columns_integers(groups, "layer");
    const double *difference = qk_columns_reals(groups, "difference");
    qk__layers layers = {.items = qk__calloc(count, sizeof *layers.items)};
    for (size_t i = 0; layers.items && i < count; i++)
        qk__layers_add(&layers, 0, (int)layer[i], difference[i]);
    if (layers.items) {
        const qk__estimate e = qk__widen_to_layers(
            qk__estimate_mean(difference, count, c->level), &layers, c->level);
        m->low = e.low;
        m->high = e.high;
        *p = c->silent ? NAN : qk__test_groups(difference, count, &layers, 0, false).p;
    }
    const qk_status status = layers.items ? QK_OK : qk__nomem(err);
    free(layers.items);
    qk_columns_free(&groups);
    return status;
}

static qk_status set_metrics(qk__comparing *c, const qk_columns *rows, double *p, qk_error *err)
{
    qk_compare_outcome *o = c->outcome;
    for (size_t i = 0; i < o->num_metrics; i++) {
        const char *name = qk_columns_texts(rows, "metric")[i];
        qk_compare_metric *m = &o->metrics[i];
        *m =
            (qk_compare_metric){.name = qk__find_field(name)->info.name,
                                .main = is_main(name),
                                .heads = (size_t)qk_columns_integers(rows, "heads")[i],
                                .mean_a = qk_columns_reals(rows, "mean_a")[i],
                                .mean_b = qk_columns_reals(rows, "mean_b")[i],
                                .mean = qk_columns_reals(rows, "mean")[i],
                                .tested = (size_t)qk_columns_integers(rows, "tested")[i],
                                .supported = (size_t)qk_columns_integers(rows, "supported")[i]};
        QK_TRY(estimate(c, m, &p[i], err));
        o->tested += m->tested;
        o->supported += m->supported;
    }
    QK_TRY(qk__correct_p_values(p, o->num_metrics, p + o->num_metrics, err));
    for (size_t i = 0; i < o->num_metrics; i++)
        o->metrics[i].p_corrected = p[o->num_metrics + i];
    return QK_OK;
}

static qk_status take_metrics(qk__comparing *c, qk_error *err)
{
    qk_compare_outcome *o = c->outcome;
    qk_columns *rows;
    QK_TRY(qk__store_ask(c->tables, &rows, err,
                         "SELECT metric, heads, mean_a, mean_b, tested, supported, mean "
                         "FROM temp.metrics ORDER BY place"));
    o->num_metrics = qk_columns_num_rows(rows);
    o->metrics = qk__calloc(o->num_metrics, sizeof *o->metrics);
    double *p = qk__calloc(2 * o->num_metrics, sizeof *p);
    qk_status status = o->metrics && p ? set_metrics(c, rows, p, err) : qk__nomem(err);
    free(p);
    qk_columns_free(&rows);
    return status;
}

static qk_status take_movers(qk__comparing *c, qk_error *err)
{
    qk_compare_outcome *o = c->outcome;
    qk_columns *rows;
    QK_TRY(qk__store_ask(
        c->tables, &rows, err,
        "SELECT h.layer, h.q_head, c.metric, c.a, c.b, c.difference, c.difference_lo, "
        "c.difference_hi, c.size, c.p_corrected FROM compare_heads h "
        "JOIN compare c ON c.layer = h.layer AND c.q_head = h.q_head "
        "AND c.metric = h.top_metric ORDER BY coalesce(c.p_corrected < %g, 0) DESC, "
        "abs(c.size) DESC, h.rowid LIMIT %d",
        QK__CHANGE_LEVEL, MAX_MOVERS));
    const size_t count = qk_columns_num_rows(rows);
    o->movers = qk__calloc(MAX_MOVERS, sizeof *o->movers);
    for (size_t i = 0; i < count && o->movers; i++)
        o->movers[o->num_movers++] = (qk_compare_mover){
            .layer = (int)qk_columns_integers(rows, "layer")[i],
            .q_head = (int)qk_columns_integers(rows, "q_head")[i],
            .metric = qk__find_field(qk_columns_texts(rows, "metric")[i])->info.name,
            .a = qk_columns_reals(rows, "a")[i],
            .b = qk_columns_reals(rows, "b")[i],
            .difference = qk_columns_reals(rows, "difference")[i],
            .low = qk_columns_reals(rows, "difference_lo")[i],
            .high = qk_columns_reals(rows, "difference_hi")[i],
            .size = qk_columns_reals(rows, "size")[i],
            .p_corrected = qk_columns_reals(rows, "p_corrected")[i]};
    qk_columns_free(&rows);
    return o->movers ? QK_OK : qk__nomem(err);
}

static qk_status take_heads(qk__comparing *c, qk_error *err)
{
    qk_compare_outcome *o = c->outcome;
    qk_columns *rows;
    QK_TRY(qk__store_ask(c->tables, &rows, err,
                         "SELECT \"in\" AS place, category_a, category_b, count(*) AS heads "
                         "FROM compare_heads GROUP BY 1, 2, 3"));
    const char *const *place = qk_columns_texts(rows, "place"),
                      *const *a = qk_columns_texts(rows, "category_a"),
                      *const *b = qk_columns_texts(rows, "category_b");
    for (size_t i = 0; i < qk_columns_num_rows(rows); i++) {
        const size_t heads = (size_t)qk_columns_integers(rows, "heads")[i];
        const bool both = strcmp(place[i], "both") == 0;
        *(both ? &o->paired : strcmp(place[i], "a") == 0 ? &o->only_a : &o->only_b) += heads;
        const int in_a = qk__category_of(a ? a[i] : NULL),
                  in_b = qk__category_of(b ? b[i] : NULL);
        if (both && in_a >= 0 && in_b >= 0 && !c->silent)
            o->categories[in_a][in_b] += heads;
    }
    qk_columns_free(&rows);
    return QK_OK;
}

/* ---- as JSON ---------------------------------------------------------------------------- */

static json_t *list_metrics(const qk_compare_outcome *o)
{
    json_t *list = json_array();
    for (size_t i = 0; i < o->num_metrics; i++) {
        const qk_compare_metric *m = &o->metrics[i];
        list = qk__json_append(
            list,
            json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "metric", m->name,
                      "heads", (json_int_t)m->heads, "mean_a", qk__json_number(m->mean_a),
                      "mean_b", qk__json_number(m->mean_b), "mean_difference",
                      qk__json_number(m->mean), "low", qk__json_number(m->low), "high",
                      qk__json_number(m->high), "p_corrected", qk__json_number(m->p_corrected),
                      "heads_tested", (json_int_t)m->tested, "heads_supported",
                      (json_int_t)m->supported));
    }
    return list;
}

static json_t *list_movers(const qk_compare_outcome *o)
{
    json_t *list = json_array();
    for (size_t i = 0; i < o->num_movers; i++) {
        const qk_compare_mover *m = &o->movers[i];
        list = qk__json_append(
            list, json_pack("{s:i, s:i, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "layer",
                            m->layer, "q_head", m->q_head, "metric", m->metric, "a",
                            qk__json_number(m->a), "b", qk__json_number(m->b), "difference",
                            qk__json_number(m->difference), "low", qk__json_number(m->low),
                            "high", qk__json_number(m->high), "size", qk__json_number(m->size),
                            "p_corrected", qk__json_number(m->p_corrected)));
    }
    return list;
}

static json_t *list_categories(const qk_compare_outcome *o)
{
    json_t *rows = json_object();
    for (int a = 0; a < QK_NUM_CATEGORIES; a++) {
        json_t *row = json_object();
        for (int b = 0; b < QK_NUM_CATEGORIES; b++)
            row = qk__json_set(row, qk_category_name((qk_category)b),
                               json_integer((json_int_t)o->categories[a][b]));
        rows = qk__json_set(rows, qk_category_name((qk_category)a), row);
    }
    return rows;
}

json_t *qk__compare_summary(const qk__comparing *c)
{
    const qk_compare_outcome *o = c->outcome;
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:b, s:I, s:I, s:I, s:f, s:I, s:I, s:o, s:o, s:o, s:O}", "a",
        qk__json_text(o->names[0]), "b", qk__json_text(o->names[1]), "lengths_a",
        qk__lengths_to_json(&o->lengths[0]), "lengths_b", qk__lengths_to_json(&o->lengths[1]),
        "unlike_lengths", o->unlike, "heads_in_both", (json_int_t)o->paired, "heads_in_a_only",
        (json_int_t)o->only_a, "heads_in_b_only", (json_int_t)o->only_b, "level", c->level,
        "tested", (json_int_t)o->tested, "supported", (json_int_t)o->supported, "metrics",
        list_metrics(o), "categories", c->silent ? json_null() : list_categories(o), "movers",
        list_movers(o), "warnings", c->warnings);
}

/* ---- the whole -------------------------------------------------------------------------- */

static qk_status take_warnings(qk__comparing *c, qk_error *err)
{
    qk_compare_outcome *o = c->outcome;
    size_t count = json_array_size(c->warnings);
    if (!c->warnings)
        return qk__nomem(err);
    o->warnings = qk__calloc(count + 1, sizeof *o->warnings);
    if (!o->warnings)
        return qk__nomem(err);
    for (size_t i = 0; i < count; i++) {
        char *copy = qk__strdup(json_string_value(json_array_get(c->warnings, i)));
        if (!copy)
            return qk__nomem(err);
        o->warnings[o->num_warnings++] = copy;
    }
    return QK_OK;
}

static bool has_intervals(const qk__opened *side)
{
    for (size_t i = 0; i < qk__num_fields; i++)
        if (isfinite(qk__side_level(side, qk__fields[i].file)))
            return true;
    return false;
}

/* Intervals of another level, and along fixed axes, have been warned of. */
static void warn_of_intervals(qk__comparing *c)
{
    for (int s = 0; s < 2 && c->outcome->tested == 0; s++)
        if (!has_intervals(&c->sides[s]))
            qk__compare_warn(
                c,
                "%s has no intervals that could be used, so differences have none: "
                "analyse it with --ci %g",
                c->sides[s].letter, c->settings->ci);
}

static void warn_of_few(qk__comparing *c, double least)
{
    if (least < QK_FEW_TEXTS)
        qk__compare_warn(c,
                         "there are heads with %.0f texts: with so few, intervals of "
                         "differences are wide and rough",
                         least);
    if (c->outcome->only_a + c->outcome->only_b > 0)
        qk__compare_warn(c,
                         "%zu heads are in a alone and %zu in b alone: these are not compared",
                         c->outcome->only_a, c->outcome->only_b);
}

/* Tables do not distinguish a head that changed from an axis with the opposite sign. */
static void warn_of_open_signs(qk__comparing *c, int64_t open, const char *names)
{
    if (open > 0)
        qk__compare_warn(c,
                         "r_k of %lld head%s changes sign (%s%s): tables do not hold the axes, "
                         "so this may be the convention of PC0 alone, and differences of r_q "
                         "and r_k there are not tested, nor part of means",
                         (long long)open, open == 1 ? "" : "s", names,
                         open > MAX_NAMED ? ", ..." : "");
}

static void warn_of_ties(qk__comparing *c, int64_t tied)
{
    if (tied > 0)
        qk__compare_warn(
            c,
            "PC0 and PC1 of %lld head%s have nearly the same variance in a or b (near_tie in "
            "heads.csv): a difference of r_q or r_k may be one of axes that changed places",
            (long long)tied, tied == 1 ? "" : "s");
}

static qk_status warn_of_heads(qk__comparing *c, qk_error *err)
{
    qk_columns *rows;
    QK_TRY(qk__store_ask(
        c->tables, &rows, err,
        "SELECT (SELECT 1.0 * min(texts) FROM (SELECT texts_a AS texts FROM compare_heads "
        "UNION ALL SELECT texts_b FROM compare_heads)) AS texts, coalesce(sum(open), "
        "0) AS open, coalesce(sum(tie), 0) AS tied, coalesce((SELECT group_concat(layer || "
        "':' || q_head, ', ') FROM (SELECT * FROM temp.pairs WHERE open ORDER BY rowid "
        "LIMIT %d)), '') AS names FROM temp.pairs",
        MAX_NAMED));
    warn_of_few(c, qk_columns_reals(rows, "texts")[0]);
    warn_of_open_signs(c, qk_columns_integers(rows, "open")[0],
                       qk_columns_texts(rows, "names")[0]);
    warn_of_ties(c, qk_columns_integers(rows, "tied")[0]);
    qk_columns_free(&rows);
    return QK_OK;
}

qk_status qk__compare_sum_up(qk__comparing *c, qk_error *err)
{
    qk_compare_outcome *o = c->outcome;
    for (int s = 0; s < 2; s++) {
        o->lengths[s] = c->sides[s].lengths;
        if (!(o->names[s] = qk__strdup(c->sides[s].label)))
            return qk__nomem(err);
    }
    o->unlike = c->unlike;
    QK_TRY(take_heads(c, err));
    QK_TRY(take_metrics(c, err));
    QK_TRY(take_movers(c, err));
    warn_of_intervals(c);
    QK_TRY(warn_of_heads(c, err));
    QK_TRY(take_warnings(c, err));
    json_t *summary = qk__compare_summary(c);
    o->summary = qk__json_dumps(summary, JSON_INDENT(2));
    json_decref(summary);
    return o->summary ? QK_OK : qk__nomem(err);
}
