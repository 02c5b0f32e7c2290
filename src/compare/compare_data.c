/* SPDX-License-Identifier: Apache-2.0 */
/* What the scripts of the page know: heads that both have, as one model, with columns of a, of b and of what changed. */
#include <math.h>
#include <string.h>

#include "base/json_build.h"
#include "compare/compare.h"
#include "report/sections.h"

enum { DIGITS = 5 };

/* A column of a metric: NAME.diff, NAME.a, NAME.b, NAME.p. */
typedef struct part {
    const char *name, *head, *words; /* head: over the column in a table */
    ptrdiff_t at;                    /* the number of a qk__change */
    bool of_two; /* with the colours of the metric, on one scale in a and in b */
} part;
static const part PARTS[] = {
    {"diff", "b − a", "b − a", offsetof(qk__change, difference), false},
    {"a", "a", "in a", offsetof(qk__change, a), true},
    {"b", "b", "in b", offsetof(qk__change, b), true},
    {"p", "p", "p of the change, corrected", offsetof(qk__change, p_corrected), false},
};
enum { NUM_PARTS = sizeof PARTS / sizeof *PARTS };

static double number_at(const qk__change *change, ptrdiff_t at)
{
    double value;
    memcpy(&value, (const char *)change + at, sizeof value);
    return value;
}

/* Of both sides, or the largest change either way. */
static qk__range range_of(const qk__compared_metric *m, const qk__change *changes, size_t count,
                          const part *of)
{
    qk__range range = QK__NO_RANGE;
    for (size_t i = 0; i < count; i++) {
        qk__range_add(&range, of->of_two ? changes[m->first + i].a
                                         : fabs(number_at(&changes[m->first + i], of->at)));
        if (of->of_two)
            qk__range_add(&range, changes[m->first + i].b);
    }
    return range;
}

static json_t *column(const qk__comparison *c, const qk__compared_metric *m, const part *of,
                      bool first)
{
    const qk__change *changes = c->changes;
    qk__range range = range_of(m, changes, c->num_paired, of);
    json_t *values = json_array();
    for (size_t i = 0; i < c->num_paired; i++)
        values =
            qk__json_append(values, qk__json_number(number_at(&changes[m->first + i], of->at)));
    if (!isfinite(range.low)) {
        json_decref(values);
        return NULL;
    }
    qk__scale scale = of->of_two ? qk__scale_between(m->field->hue, range.low, range.high)
                                 : qk__scale_of_change(range.high);
    const char *name = m->field->info.name;
    return json_pack(
        "{s:o, s:o, s:s, s:o, s:o, s:b, s:o, s:o}", "name",
        json_sprintf("%s.%s", name, of->name), "head", json_sprintf("%s: %s", name, of->head),
        "table", "compare.csv", "label",
        json_sprintf("%s, %s", m->field->info.label ? m->field->info.label : name, of->words),
        "about", qk__clean_text(m->field->info.about ? m->field->info.about : ""), "first",
        first, "scale", qk__scale_json(&scale), "values", values);
}

/* All of the metrics that the tables above show; of others what changed. */
static json_t *columns(const qk__comparing *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->comparison.num_metrics; i++) {
        bool main = c->outcome->metrics[i].main;
        for (size_t p = 0; p < (main ? (size_t)NUM_PARTS : 1); p++) {
            json_t *one =
                column(&c->comparison, &c->comparison.metrics[i], &PARTS[p], main && p == 0);
            if (one)
                list = qk__json_append(list, one);
        }
    }
    return list;
}

/* An int of a head of b, at that offset. */
static json_t *integers(const qk__comparison *c, ptrdiff_t at)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->num_paired; i++) {
        int value;
        memcpy(&value, (const char *)c->pairs[1][i] + at, sizeof value);
        list = qk__json_append(list, json_integer(value));
    }
    return list;
}

static json_t *zeros(size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        list = qk__json_append(list, json_integer(0));
    return list;
}

void qk__compare_put_data(qk__page *page, const qk__comparing *c)
{
    const qk__comparison *of = &c->comparison;
    qk__phrase both = qk__phrase_of("%s → %s", qk__short_name_of(c->outcome->names[0]).text,
                                    qk__short_name_of(c->outcome->names[1]).text);
    json_t *categories = json_array();
    for (int k = 0; k < QK_NUM_CATEGORIES; k++)
        categories = qk__json_append(categories, json_string(qk_category_name((qk_category)k)));
    json_t *root = json_pack(
        "{s:b, s:[n,n], s:[{s:i, s:i, s:i, s:o, s:o}], s:[o], s:[], s:o, s:o, s:o, s:o, s:o, "
        "s:o, s:o}",
        "checkpoints", 0, "thresholds", "models", "family", 0, "phase", -1, "last_layer",
        of->sides[1].model->last_layer, "name", qk__clean_text(both.text), "label",
        qk__clean_text(both.text), "families", qk__clean_text(both.text), "phases",
        "categories", categories, "model", zeros(of->num_paired), "layer",
        integers(of, offsetof(qk__result_head, layer)), "q_head",
        integers(of, offsetof(qk__result_head, q_head)), "k_head",
        integers(of, offsetof(qk__result_head, k_head)), "category",
        integers(of, offsetof(qk__result_head, category)), "fields", columns(c));
    qk__page_json(page, "qk-heads", root, DIGITS);
}
