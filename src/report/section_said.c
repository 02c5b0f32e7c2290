/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON block that sections.js puts into words: sums over heads, findings, runs and their manifest, what was not
 * drawn. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_build.h"
#include "report/sections.h"
#include "tables/text_lengths.h"

enum { DIGITS = 12, MAX_ITEMS = 12, SHOWN_ITEMS = 3, MAX_DEPTH = 64 };

/* ---- sums over heads -------------------------------------------------------------------- */

/* One row: the range of rows and texts, and the number of heads for each doubt. */
static const char SUMS[] =
    "SELECT count(*) AS heads, min(min(coalesce(n_q, n_k), coalesce(n_k, "
    "n_q))) AS rows_least, max(max(coalesce(n_q, n_k), coalesce(n_k, n_q))) AS rows_most, "
    "min(texts) AS texts_least, max(texts) AS texts_most, count(texts) AS with_texts, "
    "total(n_q < %d OR n_k < %d) AS few_rows, total(texts < %d) AS few_texts, "
    "total(texts >= %d AND effective_texts < texts AND category_probability IS NULL) AS led, "
    "count(r_q_width) AS with_width, total(r_q_width > %g) AS wide, "
    "count(category_probability) AS judged, total(category_probability < %g) AS uncertain, "
    "total(category = 'content-focused' AND max(coalesce(position_r_q, 0), "
    "coalesce(position_r_k, 0)) > %g) AS elsewhere, min(reservoir) AS keys_least, "
    "max(reservoir) AS keys_most FROM head_numbers";

/* The rows of a statement as objects; NaN becomes null. */
static json_t *rows_of(const qk_columns *columns)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < qk_columns_num_rows(columns); i++) {
        const qk_column_info *info;
        json_t *row = json_object();
        for (size_t c = 0; (info = qk_columns_info(columns, c)); c++) {
            const double *reals = qk_columns_reals(columns, info->name);
            const int64_t *integers = qk_columns_integers(columns, info->name);
            row = qk__json_set(row, info->name,
                               reals      ? qk__json_number(reals[i])
                               : integers ? json_integer(integers[i])
                                          : json_null());
        }
        rows = qk__json_append(rows, row);
    }
    return rows;
}

static json_t *sums(qk__page *page, const qk__report *report)
{
    qk_columns *columns = NULL;
    if (page->status == QK_OK)
        page->status = qk__store_ask(report->tables, &columns, &page->err, SUMS, QK_FEW_ROWS,
                                     QK_FEW_ROWS, QK_FEW_TEXTS, QK_FEW_TEXTS, QK_WIDE_INTERVAL,
                                     QK_CERTAIN, QK_TELLS_POSITION);
    json_t *rows = columns ? rows_of(columns) : NULL;
    json_t *row = json_incref(json_array_get(rows, 0));
    json_decref(rows);
    qk_columns_free(&columns);
    return row;
}

/* ---- findings --------------------------------------------------------------------------- */

static json_t *lines_of(const char *text)
{
    json_t *list = json_array();
    for (size_t size; text && *text; text += size + (text[size] == '\n')) {
        size = strcspn(text, "\n");
        list = qk__json_append(list, json_stringn(text, size));
    }
    return list;
}

/* [name, title] of the figures drawn under a finding's names, at most the first for each model. */
static json_t *figures_of(const qk__report *report, const qk__finding *f)
{
    json_t *list = json_array();
    for (size_t k = 0; k < QK__NUM_SHOWN && f->figures[k]; k++)
        for (size_t i = 0; i < report->drawn->count; i++) {
            const qk__drawn *d = &report->drawn->items[i];
            if (d->status != QK_OK || strcmp(d->kind->name, f->figures[k]) != 0)
                continue;
            list = qk__json_append(list, json_pack("[s,s]", d->name, d->kind->title));
            break;
        }
    return list;
}

static json_t *findings_of(const qk__report *report)
{
    json_t *list = json_array();
    for (size_t i = 0; i < report->findings.count; i++) {
        const qk__finding *f = &report->findings.items[i];
        list = qk__json_append(
            list,
            json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "id", f->id, "topic",
                      f->topic, "verdict", qk__verdict_tokens[f->verdict], "says",
                      qk__verdict_names[f->verdict], "claim",
                      json_string(f->claim ? f->claim : ""), "evidence", lines_of(f->evidence),
                      "effect", qk__json_number(f->effect), "figures", figures_of(report, f)));
    }
    return list;
}

/* ---- runs ------------------------------------------------------------------------------- */

/* Shows long lists (of input files) by their first items and their length. */
static void shorten_lists(qk__page *page, json_t *value, int depth)
{
    size_t i;
    if (depth > MAX_DEPTH)
        return;
    if (json_is_array(value) && json_array_size(value) > MAX_ITEMS) {
        size_t left_out = json_array_size(value) - SHOWN_ITEMS;
        while (json_array_size(value) > SHOWN_ITEMS)
            json_array_remove(value, json_array_size(value) - 1);
        if (json_array_append_new(value, json_sprintf("... %zu more", left_out)) != 0)
            qk__page_nomem(page);
    }
    for (i = 0; i < json_array_size(value); i++) /* 0 for what is no array */
        shorten_lists(page, json_array_get(value, i), depth + 1);
    for (void *at = json_object_iter(value); at; at = json_object_iter_next(value, at))
        shorten_lists(page, json_object_iter_value(at), depth + 1);
}

/* The text with all digits; null: it cannot be read. */
static json_t *manifest_of(qk__page *page, const qk__report *report)
{
    json_t *root = NULL;
    char *path = qk__path_join(report->settings->results, "manifest.json");
    qk_status status =
        path ? qk__json_read_file(&root, path, QK__JSON_MANIFEST, NULL) : QK_ERR_NOMEM;
    free(path);
    if (status == QK_ERR_NOMEM)
        qk__page_nomem(page);
    if (status != QK_OK)
        return json_null();
    json_object_del(root, "complete"); /* of a study: false until this page is written */
    shorten_lists(page, root, 0);
    char *text = qk__json_dumps(root, JSON_INDENT(2));
    json_t *out = text ? json_string(text) : NULL;
    free(text);
    json_decref(root);
    return out;
}

/* What is said of each run, without `run`, which may be long. */
static json_t *runs_of(const qk__manifests *manifests)
{
    size_t i;
    json_t *entry, *runs = json_deep_copy(manifests->runs);
    json_array_foreach(runs, i, entry)
    {
        json_object_del(entry, "run");
    }
    return runs;
}

/* ---- figures ---------------------------------------------------------------------------- */

static json_t *failures_of(const qk__report *report)
{
    json_t *list = json_array();
    for (size_t i = 0; i < report->drawn->count; i++) {
        const qk__drawn *d = &report->drawn->items[i];
        if (d->status != QK_OK)
            list = qk__json_append(
                list,
                json_pack("[s,o]", d->name,
                          qk__clean_text(d->message ? d->message : qk_status_text(d->status))));
    }
    return list;
}

static json_t *changed_of(const qk_report_outcome *outcome)
{
    json_t *list = json_array();
    for (size_t i = 0; i < outcome->num_changed; i++)
        list = qk__json_append(list, qk__clean_text(outcome->changed[i]));
    return list;
}

/* ---- all of it -------------------------------------------------------------------------- */

static json_t *add_heads(json_t *root, qk__page *page, const qk__report *report)
{
    const qk__points *points = &report->points;
    const char *why =
        points->num_models > 0 ? points->models[0].stages[QK__POINTS_OWN].why : NULL;
    char lengths[QK_LENGTHS_SIZE], ablation[QK_LENGTHS_SIZE];
    root = qk__json_set(root, "sums", sums(page, report));
    qk__lengths_of_all(report->results->lengths, report->results->num_models, lengths);
    root = qk__json_set(root, "lengths", qk__clean_text(lengths));
    if (page->status == QK_OK)
        page->status =
            qk__ablation_lengths(report->tables, "main", lengths, ablation, &page->err);
    if (page->status == QK_OK)
        root = qk__json_set(root, "ablation", qk__clean_text(ablation));
    root = qk__json_set(root, "shown", json_integer((json_int_t)points->shown));
    return qk__json_set(root, "why", qk__clean_text(why ? why : "none could be drawn"));
}

void qk__section_said(qk__page *page, const qk__report *report)
{
    const qk__manifests *p = &report->manifests;
    json_t *root = json_pack(
        "{s:s, s:b, s:o, s:o, s:O, s:O, s:I, s:I, s:o, s:o, s:o}", "version", qk_version(),
        "unlike", qk__lengths_unlike(report->results->lengths, report->results->num_models),
        "findings", findings_of(report), "runs", runs_of(p), "warnings", p->warnings,
        "failures", p->failures, "failed", (json_int_t)p->failed_heads, "files",
        (json_int_t)p->heads_with_files, "manifest", manifest_of(page, report), "undrawn",
        failures_of(report), "changed", changed_of(report->outcome));
    if (report->results->num_heads > 0)
        root = add_heads(root, page, report);
    qk__page_json(page, "qk-said", root, DIGITS);
}
