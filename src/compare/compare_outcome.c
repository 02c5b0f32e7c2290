/* SPDX-License-Identifier: Apache-2.0 */
/* Sums a comparison up: the numbers that are printed, shown on the page and written as JSON. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/json_build.h"
#include "compare/compare.h"
#include "tables/text_lengths.h"

enum { MAX_MOVERS = 20, MAX_NAMED = 4 };

/* What there is room for on a screen. */
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

static qk_status take_metrics(qk__comparing *c, qk_error *err)
{
    const qk__comparison *from = &c->comparison;
    qk_compare_outcome *o = c->outcome;
    o->metrics = qk__calloc(from->num_metrics, sizeof *o->metrics);
    if (!o->metrics)
        return qk__nomem(err);
    o->num_metrics = from->num_metrics;
    for (size_t i = 0; i < from->num_metrics; i++) {
        const qk__compared_metric *m = &from->metrics[i];
        o->metrics[i] = (qk_compare_metric){.name = m->field->info.name,
                                            .main = is_main(m->field->info.name),
                                            .heads = m->heads,
                                            .mean_a = m->mean_a,
                                            .mean_b = m->mean_b,
                                            .mean = m->mean,
                                            .low = m->low,
                                            .high = m->high,
                                            .p_corrected = m->p_corrected,
                                            .tested = m->tested,
                                            .supported = m->supported};
        o->tested += m->tested;
        o->supported += m->supported;
    }
    return QK_OK;
}

/* The change of a metric in the paired head of that layer and number. */
static const qk__change *find_change(const qk__comparison *from, const qk__compared_head *head)
{
    for (size_t m = 0; m < from->num_metrics; m++) {
        if (strcmp(from->metrics[m].field->info.name, head->top_metric) != 0)
            continue;
        for (size_t i = 0; i < from->num_paired; i++) {
            const qk__change *change = &from->changes[from->metrics[m].first + i];
            if (change->layer == head->layer && change->q_head == head->q_head)
                return change;
        }
    }
    return NULL;
}

static qk_status take_movers(qk__comparing *c, qk_error *err)
{
    const qk__comparison *from = &c->comparison;
    qk_compare_outcome *o = c->outcome;
    o->movers = qk__calloc(MAX_MOVERS, sizeof *o->movers);
    if (!o->movers)
        return qk__nomem(err);
    for (size_t i = 0; i < from->num_top && i < MAX_MOVERS; i++) {
        const qk__change *x = find_change(from, &from->heads[from->top[i]]);
        if (x)
            o->movers[o->num_movers++] = (qk_compare_mover){.layer = x->layer,
                                                            .q_head = x->q_head,
                                                            .metric = x->metric,
                                                            .a = x->a,
                                                            .b = x->b,
                                                            .difference = x->difference,
                                                            .low = x->difference_lo,
                                                            .high = x->difference_hi,
                                                            .size = x->size,
                                                            .p_corrected = x->p_corrected};
    }
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
        (json_int_t)o->only_a, "heads_in_b_only", (json_int_t)o->only_b, "level",
        c->comparison.level, "tested", (json_int_t)o->tested, "supported",
        (json_int_t)o->supported, "metrics", list_metrics(o), "categories",
        c->comparison.silent ? json_null() : list_categories(o), "movers", list_movers(o),
        "warnings", c->warnings);
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

static bool has_intervals(const qk__side *side)
{
    for (size_t i = 0; i < qk__num_fields; i++)
        if (isfinite(side->level(side, qk__fields[i].file)))
            return true;
    return false;
}

/* Those of another level, and along fixed axes, were warned of. */
static void warn_of_intervals(qk__comparing *c)
{
    for (int s = 0; s < 2 && c->outcome->tested == 0; s++)
        if (!has_intervals(&c->comparison.sides[s]))
            qk__compare_warn(
                c,
                "%s has no intervals that could be used, so differences have none: "
                "analyse it with --ci %g",
                c->sides[s].letter, c->settings->ci);
}

static void warn_of_few(qk__comparing *c)
{
    double least = INFINITY;
    for (size_t i = 0; i < c->comparison.num_heads; i++) {
        const qk__compared_head *head = &c->comparison.heads[i];
        least = fmin(least, fmin(head->texts_a, head->texts_b));
    }
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

/* Tables cannot tell a head that changed from an axis that is counted the other way round. */
static qk_status warn_of_open_signs(qk__comparing *c, qk_error *err)
{
    const qk__comparison *of = &c->comparison;
    qk__buffer names = {0};
    size_t open = 0;
    qk_status status = QK_OK;
    for (size_t i = 0; i < of->num_paired && status == QK_OK; i++) {
        const qk__result_head *head = of->pairs[0][i];
        if (qk__sign_is_open(of, i) && ++open <= MAX_NAMED)
            status = qk__buffer_printf(&names, err, "%s%d:%d", open > 1 ? ", " : "",
                                       head->layer, head->q_head);
    }
    if (open > 0 && status == QK_OK)
        qk__compare_warn(c,
                         "tables have no axes: r_k of %zu head%s changes sign (%s%s), which "
                         "may be the convention of PC0 alone",
                         open, open == 1 ? "" : "s", (const char *)names.data,
                         open > MAX_NAMED ? ", ..." : "");
    qk__buffer_free(&names);
    return status;
}

static void warn_of_ties(qk__comparing *c)
{
    size_t tied = 0;
    for (size_t i = 0; i < c->comparison.num_paired; i++)
        tied += qk__pair_has_tie(&c->comparison, i);
    if (tied > 0)
        qk__compare_warn(
            c,
            "PC0 and PC1 of %zu head%s have nearly the same variance in a or b (near_tie in "
            "heads.csv): a difference of r_q or r_k may be one of axes that changed places",
            tied, tied == 1 ? "" : "s");
}

qk_status qk__compare_sum_up(qk__comparing *c, qk_error *err)
{
    const qk__comparison *from = &c->comparison;
    qk_compare_outcome *o = c->outcome;
    for (int s = 0; s < 2; s++)
        if (!(o->names[s] = qk__strdup(c->sides[s].label)))
            return qk__nomem(err);
    o->paired = from->num_paired;
    o->only_a = from->only[0];
    o->only_b = from->only[1];
    for (int s = 0; s < 2; s++)
        o->lengths[s] = c->sides[s].model->lengths;
    o->unlike = from->unlike;
    memcpy(o->categories, from->categories, sizeof o->categories);
    QK_TRY(take_metrics(c, err));
    QK_TRY(take_movers(c, err));
    warn_of_intervals(c);
    warn_of_few(c);
    QK_TRY(warn_of_open_signs(c, err));
    warn_of_ties(c);
    QK_TRY(take_warnings(c, err));
    json_t *summary = qk__compare_summary(c);
    o->summary = qk__json_dumps(summary, JSON_INDENT(2));
    json_decref(summary);
    return o->summary ? QK_OK : qk__nomem(err);
}
