/* SPDX-License-Identifier: Apache-2.0 */
/* The first screen: what was analysed, how far it can be trusted, what stands out, and all heads in
 * one picture. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/analysis.h>

#include "base/error.h"
#include "report/next_commands.h"
#include "report/sections.h"

enum {
    FEW_NAMES = 6,    /* of models, hosts, datasets in a line */
    STANDING = 5,     /* findings that stand out */
    FEW_WARNINGS = 3, /* of the runs, before the rest is folded */
    FEW_HEADS = 5,    /* that could not be analysed, by name */
    COMMIT = 12,      /* digits of a commit that are shown */
};

/* ---- what was analysed ------------------------------------------------------------------ */

static void open_fact(qk__page *page, const char *name)
{
    qk__put(page, "dt", "%s", name);
    qk__open(page, "dd");
}

/* "A, B and 3 more": whether item i is to be shown, after what stands before it. */
static bool next_of(qk__page *page, size_t i, size_t count, size_t most)
{
    if (i > 0 && i < count && i < most)
        qk__say(page, ", ");
    if (i == most && i < count)
        qk__say(page, " and %zu more", count - most);
    return i < count && i < most;
}

static void put_models(qk__page *page, const qk__results *results)
{
    size_t count = results->num_models;
    open_fact(page, results->checkpoints ? "Checkpoints" : count == 1 ? "Model" : "Models");
    if (count > 1)
        qk__say(page, "*%zu*: ", count);
    for (size_t m = 0; next_of(page, m, count, FEW_NAMES); m++)
        qk__say(page, "{%s}", qk__label(&results->models[m]));
    qk__close(page, "dd");
}

static void put_heads_shown(qk__page *page, const qk__report *report)
{
    qk__range layers = QK__NO_RANGE;
    qk__each_model (report->results, model)
        qk__range_add(&layers, model->last_layer + 1);
    open_fact(page, "Heads");
    qk__say(page, "*%zu* query heads in ", report->num_heads);
    if (layers.low < layers.high)
        qk__say(page, "%d to ", (int)layers.low);
    qk__say(page, "%d layer%s", (int)layers.high, layers.high > 1 ? "s" : "");
    qk__close(page, "dd");
}

/* "1,234 of a kind", or "1,234 to 5,678". */
static void put_span(qk__page *page, const char *name, const qk__range *span, const char *of)
{
    open_fact(page, name);
    if (!isfinite(span->low))
        qk__say(page, "not recorded");
    else if (span->high > span->low)
        qk__say(page, "*%zu* to *%zu* %s", (size_t)span->low, (size_t)span->high, of);
    else
        qk__say(page, "*%zu* %s", (size_t)span->low, of);
    qk__close(page, "dd");
}

static void rows_and_texts(qk__page *page, const qk__results *results)
{
    qk__range rows = QK__NO_RANGE, texts = QK__NO_RANGE;
    char lengths[QK_LENGTHS_SIZE];
    qk__each_model (results, model)
        qk__each_head (model, head) {
            qk__range_add(&rows, head->n_q);
            qk__range_add(&rows, head->n_k);
            qk__range_add(&texts, head->v.texts);
        }
    put_span(page, "Rows a head", &rows, "queries or keys");
    put_span(page, "Texts", &texts, qk__lengths_say(results, "a head; ", lengths));
}

static void put_source(qk__page *page, const json_t *run)
{
    const char *name = json_string_value(json_object_get(run, "source"));
    const char *commit = json_string_value(json_object_get(run, "commit"));
    if (*commit)
        qk__open(page, "bdi");
    else
        qk__open(page, "bdi[title=%s]", name);
    qk__say(page, "%s", *commit ? name : qk__tail_of(name));
    qk__close(page, "bdi");
    if (!*commit)
        return;
    qk__say(page, " at ");
    qk__open(page, "code[title=%s]", commit);
    qk__say(page, "%.*s", COMMIT, commit);
    qk__close(page, "code");
}

/* Captures that were read: runs of one folder may have read the same. */
static void put_sources(qk__page *page, const json_t *runs)
{
    size_t i, shown = 0;
    const json_t *run, *before = NULL;
    open_fact(page, "Captures");
    json_array_foreach(runs, i, run)
    {
        const json_t *name = json_object_get(run, "source");
        bool again = before && json_equal(name, before);
        before = name;
        if (again || !*json_string_value(name) || ++shown > FEW_NAMES)
            continue;
        if (shown > 1)
            qk__open(page, "br");
        put_source(page, run);
    }
    if (shown > FEW_NAMES) {
        qk__open(page, "br");
        qk__say(page, "and %zu more, see [#manifest|Manifest]", shown - FEW_NAMES);
    }
    if (shown == 0)
        qk__say(page, "not recorded");
    qk__close(page, "dd");
}

/* Days of the first and the last run: those of the manifests, so that the same tables give the
 * same page. */
static void put_days(qk__page *page, const json_t *dates)
{
    enum { DAY = 10 };
    const char *first = json_string_value(json_array_get(dates, 0));
    const char *last = json_string_value(json_array_get(dates, json_array_size(dates) - 1));
    open_fact(page, "Made");
    if (!first || !last)
        qk__say(page, "not recorded");
    else if (strncmp(first, last, DAY) == 0)
        qk__say(page, "*%.*s*", DAY, first);
    else
        qk__say(page, "*%.*s* to *%.*s*", DAY, first, DAY, last);
    qk__close(page, "dd");
}

/* What the runs say of a member: each once. */
static void said_of(qk__page *page, const qk__provenance *p, const char *name,
                    const char *member)
{
    json_t *list = qk__provenance_list(p, member);
    if (!list)
        qk__page_nomem(page);
    if (strcmp(member, "date") == 0) {
        put_days(page, list);
    } else {
        open_fact(page, name);
        for (size_t i = 0; next_of(page, i, json_array_size(list), FEW_NAMES); i++)
            qk__say(page, "{%s}", json_string_value(json_array_get(list, i)));
        if (json_array_size(list) == 0)
            qk__say(page, "not recorded");
        qk__close(page, "dd");
    }
    json_decref(list);
}

static void put_analysed(qk__page *page, const qk__report *report)
{
    const qk__provenance *p = &report->provenance;
    qk__open(page, "div.card#analysed");
    qk__put(page, "h3", "What was analysed");
    qk__open(page, "dl.facts");
    if (report->results->num_models > 0) {
        put_models(page, report->results);
        put_heads_shown(page, report);
        rows_and_texts(page, report->results);
    }
    if (json_array_size(p->runs) > 0) {
        put_sources(page, p->runs);
        said_of(page, p, "Made", "date");
        said_of(page, p, "Host", "host");
        said_of(page, p, "qkscope", "version");
    }
    qk__close(page, "dl div");
}

/* ---- how far it can be trusted ---------------------------------------------------------- */

/* Heads of which the number is there, and of those the ones it is `below` or above a limit. */
static size_t count_heads_beyond(const qk__results *results, const char *name, bool below,
                                 double limit, size_t *known)
{
    const qk__field *field = qk__find_field(name);
    size_t found = 0;
    *known = 0;
    qk__each_model (results, model)
        qk__each_head (model, head) {
            double value = qk__field_value(field, &head->v);
            *known += isfinite(value);
            found += isfinite(value) && (below ? value < limit : value > limit);
        }
    return found;
}

/* Numbers from too few rows look like any others. */
static void put_warnings(qk__page *page, const qk__report *report)
{
    size_t texts, widths;
    size_t few = count_heads_beyond(report->results, "texts", true, QK_FEW_TEXTS, &texts);
    size_t wide =
        count_heads_beyond(report->results, "r_q_width", false, QK_WIDE_INTERVAL, &widths);
    size_t few_rows = 0, led = 0;
    qk__each_model (report->results, model) {
        few_rows += qk__count_heads_with(model, qk__has_few_rows);
        led += qk__count_heads_with(model, qk__is_led_by_few_texts);
    }
    for (size_t i = 0; i < report->outcome->num_changed; i++)
        qk__put(page, "p.warning[data-warning=changed]",
                "*Not the tables that the analysis wrote.* %s.", report->outcome->changed[i]);
    if (few_rows > 0)
        qk__put(page, "p.warning[data-warning=few-rows]",
                "*Too few rows.* %zu of %zu heads have fewer than %d rows of queries or keys: "
                "their numbers are mostly chance, and no finding counts them.",
                few_rows, report->num_heads, QK_FEW_ROWS);
    if (few > 0)
        qk__put(
            page, "p.warning[data-warning=texts]",
            "*Too few texts.* %zu of %zu heads have fewer than %d texts: other texts may give "
            "other numbers, no category is certain, and one text gives no intervals.",
            few, texts, QK_FEW_TEXTS);
    if (led > 0)
        qk__put(
            page, "p.warning[data-warning=long-texts]",
            "*A few long texts.* For %zu of %zu heads they decide what r is: no category is "
            "certain there.",
            led, report->num_heads);
    if (wide > 0)
        qk__put(
            page, "p.warning[data-warning=rows]",
            "*Wide intervals.* For %zu of %zu heads the 95 %% interval of r~q~ on PC0 is wider "
            "than %.1g.",
            wide, widths, QK_WIDE_INTERVAL);
}

static void put_uncertain(qk__page *page, const qk__report *report)
{
    size_t known;
    size_t below =
        count_heads_beyond(report->results, "category_probability", true, QK_CERTAIN, &known);
    if (known == 0 && report->num_heads > 0)
        qk__put(page, "p.known",
                "How sure the category of a head is was not looked at, or no table says so.");
    else if (known > 0)
        qk__put(page,
                below > 0 ? "p.known[data-warning=uncertain]"
                          : "p.fine[data-warning=uncertain]",
                "*%zu of %zu heads* (%g%%) have a category that is not certain: other texts "
                "may well give another.",
                below, known, (double)below / (double)known);
}

static void one_warning(qk__page *page, const char *text, const json_t *models)
{
    size_t count = json_array_size(models);
    const char *model = json_string_value(json_array_get(models, 0));
    qk__open(page, "li");
    qk__say(page, "%s", text);
    if (count > 1)
        qk__say(page, " ^(%zu models)^", count);
    else if (model && *model)
        qk__say(page, " ^({%s})^", model);
    qk__close(page, "li");
}

/* What the runs warned of; the many are folded behind the first few. */
static void run_warnings(qk__page *page, json_t *warnings)
{
    size_t count = json_object_size(warnings), i = 0;
    const char *text;
    json_t *models;
    if (count == 0)
        return;
    if (count == 1)
        qk__put(page, "p.warning[data-warning=runs]", "*The run warned:*");
    else
        qk__put(page, "p.warning[data-warning=runs]", "*The runs warned of %zu things:*",
                count);
    qk__open(page, "ul.warned");
    json_object_foreach(warnings, text, models)
    {
        if (i++ == FEW_WARNINGS) {
            qk__close(page, "ul");
            qk__open(page, "details");
            qk__put(page, "summary", "%zu more", count - FEW_WARNINGS);
            qk__open(page, "ul.warned");
        }
        one_warning(page, text, models);
    }
    qk__close(page, count > FEW_WARNINGS ? "ul details" : "ul");
}

/* " tiny l00h03q, ...": the model only where there are several. */
static void failed_heads(qk__page *page, const qk__report *report)
{
    const qk__provenance *p = &report->provenance;
    size_t failed = (size_t)p->failed_heads, all = (size_t)p->heads_with_files;
    qk__open(page, "p.warning[data-warning=failed]");
    qk__say(page, "*Heads without numbers.* %zu of %zu heads could not be analysed%s", failed,
            failed > all ? failed : all, json_array_size(p->failures) > 0 ? ": " : "");
    for (size_t i = 0; next_of(page, i, json_array_size(p->failures), FEW_HEADS); i++) {
        const json_t *failure = json_array_get(p->failures, i);
        if (report->results->num_models > 1)
            qk__say(page, "{%s} ", json_string_value(json_object_get(failure, "model")));
        qk__say(page, "`%s`", json_string_value(json_object_get(failure, "head")));
    }
    qk__say(page, ".");
    qk__close(page, "p");
}

static void put_trusted(qk__page *page, const qk__report *report)
{
    const qk__provenance *p = &report->provenance;
    qk__open(page, "div.card#trusted");
    qk__put(page, "h3", "How far it can be trusted");
    put_warnings(page, report);
    if (p->failed_heads > 0)
        failed_heads(page, report);
    run_warnings(page, p->warnings);
    put_uncertain(page, report);
    if (json_array_size(p->runs) == 0)
        qk__put(
            page, "p.known",
            "The tables have no manifest: where they come from, and what their run warned of, "
            "is not known.");
    else if (json_object_size(p->warnings) == 0 && p->failed_heads == 0)
        qk__put(page, "p.fine", "The runs warned of nothing, and every head has numbers.");
    qk__close(page, "div");
}

/* ---- what stands out -------------------------------------------------------------------- */

/* A finding with an answer, whichever. */
static bool answers(const qk__finding *f)
{
    return f->verdict == QK__SUPPORTED || f->verdict == QK__OPPOSITE ||
           f->verdict == QK__DIVIDED;
}

/* Whether a finding stands before another: it has the larger effect, or an equal one and its place. */
static bool stands_before(const qk__finding *a, const qk__finding *b)
{
    double of_a = isfinite(a->effect) ? a->effect : 0;
    double of_b = isfinite(b->effect) ? b->effect : 0;
    return of_a != of_b ? of_a > of_b : a < b;
}

/* The answer that comes after another one, or first; NULL: there is none. */
static const qk__finding *next_answer(const qk__findings *findings, const qk__finding *before)
{
    const qk__finding *next = NULL;
    for (size_t i = 0; i < findings->count; i++) {
        const qk__finding *f = &findings->items[i];
        if (answers(f) && (!before || stands_before(before, f)) &&
            (!next || stands_before(f, next)))
            next = f;
    }
    return next;
}

/* Leads to the explorer; page.js makes it lead to these heads there. model: "" for any. */
static void kind_link(qk__page *page, size_t count, const char *kind, const char *model)
{
    qk__open(page, "a[href=#explorer][data-filter=%s%s%sonly-category=%s]",
             *model ? "only-model=" : "", model, *model ? "&" : "", kind);
    qk__say(page, "%zu %s", count, kind);
    qk__close(page, "a");
}

/* How many heads follow position, and how. Findings about checkpoints are about the last, and so is
 * this. */
static void kinds_of_heads(qk__page *page, const qk__report *report)
{
    const qk__results *results = report->results;
    size_t counts[QK_NUM_CATEGORIES] = {0}, all = 0, shown = 0;
    const qk__result_model *last =
        qk__num_checkpoints(results) > 0 ? &results->models[results->num_models - 1] : NULL;
    qk__each_model (results, model)
        qk__each_head (model, head) {
            bool known = head->category >= 0 && head->category < QK_NUM_CATEGORIES &&
                         (!last || model == last);
            counts[known ? head->category : 0] += known;
            all += known;
        }
    char *name = qk__percent(last ? last->name : "");
    if (!name)
        qk__page_nomem(page);
    if (all > 0 && name) {
        qk__open(page, "p#kinds");
        qk__say(page, "Which heads follow position");
        if (last)
            qk__say(page, " at {%s}", last->label);
        for (int c = 0; c < QK_NUM_CATEGORIES; c++) {
            if (counts[c] == 0)
                continue;
            qk__say(page, "%s", shown++ ? ", " : ": ");
            kind_link(page, counts[c], qk_category_name((qk_category)c), name);
        }
        qk__say(page, ".");
        qk__close(page, "p");
    }
    free(name);
}

static void put_effect(qk__page *page, const qk__finding *f)
{
    if (!isfinite(f->effect))
        return;
    qk__open(page, "small[data-effect=%.3g]", f->effect);
    qk__say(page, " effect %.2g", f->effect);
    qk__close(page, "small");
}

/* The largest effects, as many as one reads. */
static void stands_out(qk__page *page, const qk__report *report)
{
    const qk__findings *findings = &report->findings;
    const qk__finding *f = NULL;
    size_t shown = 0;
    qk__open(page, "div.card#standing");
    qk__put(page, "h3", "What stands out");
    kinds_of_heads(page, report);
    qk__open(page, "ul");
    for (; shown < STANDING && (f = next_answer(findings, f)); shown++) {
        qk__open(page, "li");
        qk__verdict_badge(page, f->verdict);
        qk__say(page, "[#finding-%s|%s]", f->id, f->claim ? f->claim : "");
        put_effect(page, f);
        qk__close(page, "li");
    }
    qk__close(page, "ul");
    if (shown == 0)
        qk__put(page, "p.empty",
                "No finding has an answer here: there are too few models or heads, or nothing "
                "differs enough.");
    if (shown > 0)
        qk__put(page, "p.note",
                "The largest effect first. 1: all heads lie on that side, or two numbers go "
                "together in full; 0: as many lie on the other, or they have nothing to do "
                "with each other.");
    if (findings->count > shown)
        qk__put(page, "p.note", "[#findings|All %zu findings] with their evidence.",
                findings->count);
    qk__close(page, "div");
}

/* Of which heads the page shows queries and keys. */
static void put_points_note(qk__page *page, const qk__report *report)
{
    const qk__points *points = &report->points;
    const char *why =
        points->num_models > 0 ? points->models[0].stages[QK__POINTS_OWN].why : NULL;
    qk__open(page, "p.note#points-note");
    if (points->shown == report->num_heads)
        qk__say(page, "A head by itself shows its queries and keys as well.");
    else if (points->shown > 0)
        qk__say(
            page,
            "Of *%zu* of %zu heads the page shows queries and keys as well; `qkscope report "
            "RESULTS --heads LAYER:HEAD` chooses others.",
            points->shown, report->num_heads);
    else
        qk__say(page, "It does not show queries and keys of heads: %s.",
                why ? why : "none could be drawn");
    qk__close(page, "p");
}

void qk__section_overview(qk__page *page, const qk__report *report)
{
    qk__open(page, "div.cards");
    put_analysed(page, report);
    put_trusted(page, report);
    stands_out(page, report);
    if (report->num_heads > 0)
        qk__put_next_commands(page, report);
    qk__close(page, "div");
    if (report->num_heads > 0)
        qk__page_asset(page, &qk__asset_map);
    if (report->num_heads > 0)
        put_points_note(page, report);
    else
        qk__put(page, "p.empty", "There is no table of heads, so there is no picture of them.");
}
